"""Train a character-level GPT on the Python standard library's own source, and let it write something like code.

The text is what the interpreter that runs this was installed with, so there is nothing to download. Causal
self-attention in two layers reads 64 characters and predicts each next one. It leaves in the folder --out

    code.txt    what the trained network writes
    code.png    the loss curve, and the first lines of that text
"""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

import numpy as np
import training
from output import write, write_png
from pictures import MARGIN, Picture

import gradloom as torch

nn = torch.nn
F = torch.nn.functional

STEPS, QUICK = 1200, 4
CONTEXT, BATCH = 64, 24
WIDTH, HEADS, LAYERS = 64, 4, 2
WARM_UP = 50


def corpus() -> str:
    """Return the modules at the top of the standard library that are ASCII, one tab for each level of indentation."""
    folder = Path(sysconfig.get_path("stdlib"))
    texts = [path.read_text(encoding="utf-8", errors="ignore") for path in sorted(folder.glob("*.py"))]
    return "\n".join(text for text in texts if text.isascii()).replace("    ", "\t")


class Block(nn.Module):
    """Causal self-attention and a two-layer network, each added to its input; (N, T, WIDTH) in and out."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.merge = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        n, t, _ = x.shape
        heads = self.qkv(self.norm1(x)).view(n, t, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(heads[0], heads[1], heads[2], is_causal=True)
        x = x + self.merge(attended.transpose(1, 2).reshape(n, t, WIDTH))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """From (N, T) indices of characters to (N, T, characters) scores of the next one; T is at most CONTEXT."""

    def __init__(self, characters: int):
        super().__init__()
        self.embed, self.place = nn.Embedding(characters, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
        self.norm, self.scores = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, characters)
        for embedding in (self.embed, self.place):
            nn.init.normal_(embedding.weight, std=0.02)

    def forward(self, indices):
        x = self.embed(indices) + self.place(torch.arange(indices.shape[1]))
        return self.scores(self.norm(self.blocks(x)))


def train(args, step):
    text = corpus()
    characters = sorted(set(text))
    encoded = np.searchsorted(characters, list(text)).astype(np.int64)
    rng = np.random.default_rng(args.seed)
    torch.manual_seed(args.seed)
    net = GPT(len(characters))
    optimizer = torch.optim.AdamW(net.parameters(), lr=5e-3, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda i: min(1, (i + 1) / WARM_UP) * (1 - 0.9 * i / args.steps)
    )
    for _ in range(args.steps):
        starts = rng.integers(0, len(encoded) - CONTEXT, BATCH)
        windows = torch.from_numpy(encoded[starts[:, None] + np.arange(CONTEXT + 1)])
        optimizer.zero_grad()
        scores = net(windows[:, :-1])
        loss = F.cross_entropy(scores.flatten(0, 1), windows[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        step(loss.item())
    return net, characters


def written(net, characters: list[str], length: int, start: str = "\ndef ", temperature: float = 0.6) -> str:
    """Return `start` and the `length` characters that the network writes after it."""
    indices = torch.tensor([[characters.index(c) for c in start]])
    with torch.no_grad():
        for _ in range(length):
            scores = net(indices[:, -CONTEXT:])[:, -1]
            drawn = torch.multinomial(F.softmax(scores / temperature, dim=-1), 1)
            indices = torch.cat([indices, drawn], dim=1)
    return "".join(characters[i] for i in indices[0].tolist()).strip("\n").expandtabs(4) + "\n"


def finish(args, losses, result, out):
    text = written(*result, length=60 if args.quick else 800)
    print(text)
    picture = Picture(720)
    picture.heading(14, "cross entropy per character (logarithmic), each step and its running average")
    picture.losses(MARGIN, 260, losses)
    picture.heading(2 * MARGIN + 264, "what the network writes")
    picture.text((MARGIN, 2 * MARGIN + 300), "\n".join(line[:110] for line in text.splitlines()[:18]))
    return [write(out / "code.txt", text.encode()), write_png(out / "code.png", picture.image)]


if __name__ == "__main__":
    sys.exit(training.main(sys.modules[__name__]))
