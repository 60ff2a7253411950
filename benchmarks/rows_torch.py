"""The programs for PyTorch and for gradloom: the same code, given either as `torch`."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter as clock

Sample = Callable[[], dict[str, float]]


def chain(torch) -> Sample:
    a = torch.tensor([1e-3] * 4, dtype=torch.float64, requires_grad=True)
    b = torch.tensor([0.999] * 4, dtype=torch.float64, requires_grad=True)
    start, ones = (torch.tensor([1.0] * 4, dtype=torch.float64) for _ in range(2))

    def sample():
        a.grad = b.grad = None
        x = start
        began = clock()
        for _ in range(1000):
            x = x * b
            x = x + a
        built = clock()
        x.backward(ones)
        done = clock()
        return {"forward": (built - began) / 2000, "backward": (done - built) / 2000}

    return sample


def convnet(torch) -> Sample:
    nn, F = torch.nn, torch.nn.functional

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(1, 20, 5)
            self.conv2 = nn.Conv2d(20, 50, 5)
            self.fc1 = nn.Linear(800, 500)
            self.fc2 = nn.Linear(500, 10)

        def forward(self, x):
            x = F.max_pool2d(F.relu(self.conv1(x)), 2)
            x = F.max_pool2d(F.relu(self.conv2(x)), 2)
            return F.log_softmax(self.fc2(F.relu(self.fc1(x.view(-1, 800)))), dim=1)

    torch.manual_seed(0)
    return _training_step(torch, Net(), torch.randn(64, 1, 28, 28))


def mlp(torch) -> Sample:
    nn = torch.nn
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(784, 500), nn.ReLU(), nn.Linear(500, 10), nn.LogSoftmax(dim=1))
    return _training_step(torch, net, torch.randn(64, 784))


def _training_step(torch, net, images) -> Sample:
    labels = torch.randint(0, 10, (64,))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.5)

    def sample():
        began = clock()
        optimizer.zero_grad()
        loss = torch.nn.functional.nll_loss(net(images), labels)
        loss.backward()
        optimizer.step()
        loss.item()
        return {"step": clock() - began}

    return sample


def elementwise(torch) -> Sample:
    torch.manual_seed(0)
    x, y = (torch.randn(1_000_000, requires_grad=True) for _ in range(2))
    return _forward_and_backward(torch, lambda: torch.tanh(x * y + x), (x, y))


def upsampling(torch) -> Sample:
    torch.manual_seed(0)
    x = torch.randn(64, 3, 32, 32, requires_grad=True)
    return _forward_and_backward(
        torch, lambda: torch.nn.functional.interpolate(x, size=(64, 64), mode="bilinear"), (x,)
    )


def attention_64(torch) -> Sample:
    return _attention(torch, 64)


def attention_512(torch) -> Sample:
    return _attention(torch, 512)


def _attention(torch, length) -> Sample:
    torch.manual_seed(0)
    inputs = [torch.randn(16, 4, length, 64, requires_grad=True) for _ in range(3)]
    return _forward_and_backward(torch, lambda: torch.nn.functional.scaled_dot_product_attention(*inputs), inputs)


def lstm(torch) -> Sample:
    torch.manual_seed(0)
    net, x = torch.nn.LSTM(128, 128), torch.randn(50, 32, 128)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)

    def sample():
        began = clock()
        optimizer.zero_grad()
        net(x)[0].square().mean().backward()
        optimizer.step()
        return {"step": clock() - began}

    return sample


def rfft2(torch) -> Sample:
    torch.manual_seed(0)
    x = torch.randn(64, 3, 64, 64, requires_grad=True)
    return _forward_and_backward(torch, lambda: torch.fft.rfft2(x), (x,))


def solve(torch) -> Sample:
    torch.manual_seed(0)
    A, b = torch.randn(1000, 8, 8, requires_grad=True), torch.randn(1000, 8, 1, requires_grad=True)
    return _forward_and_backward(torch, lambda: torch.linalg.solve(A, b), (A, b))


def cholesky(torch) -> Sample:
    torch.manual_seed(0)
    A = torch.randn(1000, 8, 8)
    A = (A @ A.mT + torch.eye(8)).requires_grad_()
    return _forward_and_backward(torch, lambda: torch.linalg.cholesky(A), (A,))


def svd(torch) -> Sample:
    torch.manual_seed(0)
    A = torch.randn(256, 256, requires_grad=True)
    return _forward_and_backward(torch, lambda: torch.linalg.svd(A)[1], (A,))


def matmul(torch) -> Sample:
    torch.manual_seed(0)
    x, y = (torch.randn(256, 256, requires_grad=True) for _ in range(2))
    return _forward_and_backward(torch, lambda: x @ y, (x, y))


def _forward_and_backward(torch, program, leaves) -> Sample:
    ones = torch.ones_like(program())

    def sample():
        for leaf in leaves:
            leaf.grad = None
        began = clock()
        result = program()
        built = clock()
        result.backward(ones)
        return {"forward": built - began, "backward": clock() - built}

    return sample


def sum(torch) -> Sample:
    torch.manual_seed(0)
    x = torch.randn(1_000_000, requires_grad=True)

    def sample():
        x.grad = None
        began = clock()
        x.sum().backward()
        return {"both": clock() - began}

    return sample


def indexing(torch) -> Sample:
    x = torch.ones(8, 8, dtype=torch.float64, requires_grad=True)
    index = torch.tensor([0, 2, 4])

    def sample():
        x.grad = None
        results = []
        began = clock()
        for i in range(200):
            results += [x[i % 8], x[i % 8 :], x[index]]
        built = clock()
        gradients = [torch.ones_like(result) for result in results]
        ready = clock()
        torch.autograd.backward(results, gradients)
        return {"forward": (built - began) / 600, "backward": (clock() - ready) / 600}

    return sample


def views(torch) -> Sample:
    leaf = torch.ones(4, 6, dtype=torch.float64, requires_grad=True)
    ones = torch.ones(4, 6, dtype=torch.float64)

    def sample():
        leaf.grad = None
        x = leaf
        began = clock()
        for _ in range(125):
            x = x.view(4, 6).transpose(0, 1).unsqueeze(0).squeeze(0)
            x = x.transpose(0, 1).unsqueeze(2).squeeze(2).view(4, 6)
        built = clock()
        x.backward(ones)
        return {"forward": (built - began) / 1000, "backward": (clock() - built) / 1000}

    return sample


def long_graph(torch) -> Sample:
    leaf = torch.tensor([1.0] * 4, dtype=torch.float64, requires_grad=True)
    ones = torch.tensor([1.0] * 4, dtype=torch.float64)

    def build():
        x = leaf
        for _ in range(100_000):
            x = x * 1.00001
        return x

    def sample():
        leaf.grad = None
        began = clock()
        x = build()
        built = clock()
        x.backward(ones)
        run = clock()
        x = build()
        again = clock()
        del x
        return {"build": built - began, "backward": run - built, "free": clock() - again}

    return sample
