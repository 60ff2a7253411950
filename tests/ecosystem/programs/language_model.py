"""A recurrent language model of characters: tied weights, truncated backpropagation, perplexity, sampled text."""

import math

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
TEXT = "the quick brown fox jumps over the lazy dog and the slow red hen walks under the tall green tree. " * 6
letters = sorted(set(TEXT))
codes = torch.tensor([letters.index(letter) for letter in TEXT])
BATCH, LENGTH, WIDTH = 4, 12, 24
columns = codes[: len(codes) // BATCH * BATCH].view(BATCH, -1).t().contiguous()


class Model(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.dropout = nn.Dropout(0.1)
        self.encoder = nn.Embedding(len(letters), WIDTH)
        self.rnn = getattr(nn, kind)(WIDTH, WIDTH, 2, dropout=0.1)
        self.decoder = nn.Linear(WIDTH, len(letters))
        self.decoder.weight = self.encoder.weight
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)
        nn.init.zeros_(self.decoder.bias)

    def forward(self, tokens, hidden=None):
        output, hidden = self.rnn(self.dropout(self.encoder(tokens)), hidden)
        return F.log_softmax(self.decoder(self.dropout(output)), -1), hidden


def detached(hidden):
    return hidden.detach() if isinstance(hidden, torch.Tensor) else tuple(map(detached, hidden))


for kind in ("LSTM", "GRU", "RNN"):
    torch.manual_seed(1)
    model = Model(kind)
    optimizer = torch.optim.SGD(model.parameters(), lr=2.0)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.25, patience=0)
    for epoch in range(2):
        model.train()
        hidden, total, steps = None, 0.0, 0
        for start in range(0, len(columns) - 1 - LENGTH, LENGTH):
            tokens, wanted = columns[start : start + LENGTH], columns[start + 1 : start + 1 + LENGTH]
            found, hidden = model(tokens, detached(hidden) if hidden is not None else None)
            loss = F.nll_loss(found.flatten(0, 1), wanted.flatten())
            optimizer.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 0.25)
            optimizer.step()
            total, steps = total + loss.item(), steps + 1
            if steps % 4 == 1:
                print(kind, epoch, steps, loss.item(), norm.item())
        schedule.step(total / steps)
        print(kind, epoch, "perplexity", math.exp(total / steps), optimizer.param_groups[0]["lr"])
    model.eval()
    said, hidden = [0], None
    with torch.no_grad():
        for _ in range(20):
            found, hidden = model(torch.tensor([[said[-1]]]), hidden)
            said.append(torch.multinomial((found[-1, 0] / 0.8).exp(), 1).item())
    print(kind, "says", said)

words = [torch.arange(n) % len(letters) for n in (5, 3, 2)]
packed = nn.utils.rnn.pack_sequence([model.encoder(word) for word in words])
output, lengths = nn.utils.rnn.pad_packed_sequence(model.rnn(packed)[0])
output.sum().backward()
print("packed", tuple(output.shape), lengths.tolist(), output.square().sum().item())
