"""One training step of twelve usual programs, in the sizes of tutorials: `rows.py` has their titles."""

from __future__ import annotations

import math
from collections.abc import Callable
from time import perf_counter as clock

Sample = Callable[[], dict[str, float]]
NAMES, LETTERS, NAME_LENGTH = 32, 27, 16  # batch, alphabet and length of the makemore-like programs


def regression(torch) -> Sample:
    x = torch.randn(256, 10)
    return _steps(torch, torch.nn.Linear(10, 1), lambda net: (net(x) - x.sum(1, keepdim=True)).square().mean())


def classifier(torch) -> Sample:
    nn = torch.nn
    net = nn.Sequential(
        nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.1), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)
    )
    x, labels = torch.randn(64, 64), torch.randint(0, 10, (64,))
    return _steps(torch, net, lambda net: nn.functional.cross_entropy(net(x), labels))


def batch_norm_convnet(torch) -> Sample:
    nn = torch.nn

    def block(channels, wider):
        return nn.Conv2d(channels, wider, 3, padding=1), nn.BatchNorm2d(wider), nn.ReLU(), nn.MaxPool2d(2)

    net = nn.Sequential(*block(3, 32), *block(32, 64), *block(64, 64), nn.Flatten(), nn.Linear(1024, 10))
    x, labels = torch.randn(32, 3, 32, 32), torch.randint(0, 10, (32,))
    return _steps(torch, net, lambda net: nn.functional.cross_entropy(net(x), labels))


def character_rnn(torch) -> Sample:
    return _names(torch, _recurrent(torch, torch.nn.RNNCell))


def character_gru(torch) -> Sample:
    return _names(torch, _recurrent(torch, torch.nn.GRUCell))


def character_lstm(torch) -> Sample:
    nn = torch.nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.lstm = nn.Embedding(LETTERS, 64), nn.LSTM(64, 64, batch_first=True)
            self.head = nn.Linear(64, LETTERS)

        def forward(self, letters):
            return self.head(self.lstm(self.embedding(letters))[0])

    return _names(torch, Model())


def character_transformer(torch) -> Sample:
    return _names(torch, _gpt(torch, LETTERS, width=64, heads=4, layers=4, length=NAME_LENGTH))


def gpt(torch) -> Sample:
    net = _gpt(torch, 96, width=128, heads=4, layers=4, length=128)
    text = torch.randint(0, 96, (8, 129))

    def loss(net):
        logits = net(text[:, :-1])
        return torch.nn.functional.cross_entropy(logits.reshape(-1, 96), text[:, 1:].reshape(-1))

    return _steps(torch, net, loss)


def autoencoder(torch) -> Sample:
    nn, F = torch.nn, torch.nn.functional

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 16))
            self.decoder = nn.Sequential(nn.Linear(8, 128), nn.ReLU(), nn.Linear(128, 64))

        def forward(self, x):
            mean, log_variance = self.encoder(x).chunk(2, 1)
            code = mean + (0.5 * log_variance).exp() * torch.randn_like(mean)
            divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum()
            return F.binary_cross_entropy_with_logits(self.decoder(code), x, reduction="sum") + divergence

    x = torch.rand(128, 64)
    return _steps(torch, Model(), lambda net: net(x))


def gan(torch) -> Sample:
    nn, F = torch.nn, torch.nn.functional
    torch.manual_seed(0)
    maker = nn.Sequential(nn.Linear(16, 128), nn.LeakyReLU(0.2), nn.Linear(128, 64), nn.Tanh())
    judge = nn.Sequential(nn.Linear(64, 128), nn.LeakyReLU(0.2), nn.Linear(128, 1))
    optimizers = [torch.optim.Adam(net.parameters(), lr=2e-4, betas=(0.5, 0.999)) for net in (judge, maker)]
    real, true, false = torch.randn(64, 64), torch.ones(64, 1), torch.zeros(64, 1)
    judged = F.binary_cross_entropy_with_logits

    def step(optimizer, loss):
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    def sample():
        began = clock()
        fake = maker(torch.randn(64, 16))
        step(optimizers[0], judged(judge(real), true) + judged(judge(fake.detach()), false))
        step(optimizers[1], judged(judge(fake), true))
        return {"step": clock() - began}

    return sample


def physics(torch) -> Sample:
    nn, grad = torch.nn, torch.autograd.grad
    net = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    x, t = (torch.rand(256, 1, requires_grad=True) for _ in range(2))

    def loss(net):
        u = net(torch.cat([x, t], 1))
        ones = torch.ones_like(u)
        u_x, u_t = grad(u, (x, t), ones, create_graph=True)
        (u_xx,) = grad(u_x, x, ones, create_graph=True)
        return (u_t + u * u_x - 0.01 / math.pi * u_xx).square().mean()

    return _steps(torch, net, loss)


def graph_network(torch) -> Sample:
    nn, F = torch.nn, torch.nn.functional
    nodes, edges = 500, torch.randint(0, 500, (2, 2000))
    features, labels = torch.randn(nodes, 32), torch.randint(0, 5, (nodes,))
    degrees = torch.zeros(nodes).index_add(0, edges[1], torch.ones(2000)).clamp(min=1)[:, None]

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(32, 32), nn.Linear(32, 5)

        def gather(self, x):
            return torch.zeros_like(x).index_add(0, edges[1], x[edges[0]]) / degrees

        def forward(self):
            return self.second(self.gather(F.relu(self.first(self.gather(features)))))

    return _steps(torch, Model(), lambda net: F.cross_entropy(net(), labels))


def _steps(torch, net, loss) -> Sample:
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)

    def sample():
        began = clock()
        value = loss(net)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        return {"step": clock() - began}

    return sample


def _names(torch, net) -> Sample:
    letters, following = (torch.randint(0, LETTERS, (NAMES, NAME_LENGTH)) for _ in range(2))

    def loss(net):
        return torch.nn.functional.cross_entropy(net(letters).reshape(-1, LETTERS), following.reshape(-1))

    return _steps(torch, net, loss)


def _recurrent(torch, cell):
    nn = torch.nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.cell, self.head = nn.Embedding(LETTERS, 64), cell(64, 64), nn.Linear(64, LETTERS)
            self.start = nn.Parameter(torch.zeros(1, 64))

        def forward(self, letters):
            inputs, state, states = self.embedding(letters), self.start.expand(NAMES, -1), []
            for i in range(NAME_LENGTH):
                state = self.cell(inputs[:, i], state)
                states.append(state)
            return self.head(torch.stack(states, 1))

    return Model()


def _gpt(torch, letters, width, heads, layers, length):
    nn, F = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
            self.register_buffer("mask", torch.tril(torch.ones(length, length)))

        def forward(self, x):
            batch = x.shape[0]
            parts = self.qkv(self.norm1(x)).split(width, dim=2)
            q, k, v = (part.view(batch, length, heads, width // heads).transpose(1, 2) for part in parts)
            scores = (q @ k.transpose(-2, -1)) / math.sqrt(width // heads)
            scores = scores.masked_fill(self.mask == 0, float("-inf"))
            heard = (F.softmax(scores, dim=-1) @ v).transpose(1, 2).contiguous().view(batch, length, width)
            x = x + self.out(heard)
            return x + self.narrow(F.gelu(self.wide(self.norm2(x))))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(letters, width), nn.Embedding(length, width)
            self.blocks = nn.Sequential(*(Block() for _ in range(layers)))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, letters, bias=False)

        def forward(self, text):
            return self.head(self.norm(self.blocks(self.tokens(text) + self.positions(torch.arange(length)))))

    return Model()
