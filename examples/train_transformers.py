"""Train a small GPT-2 of Hugging Face's transformers, which imports torch, with gradloom in PyTorch's place.

`import gradloom.as_torch` does that for the process. The model starts from random weights and learns the characters of
the Python standard library, as write_code.py does with a network of its own. Needs: pip install transformers. It leaves
in the folder --out

    transformers.txt    what the trained model generates
    transformers.png    the loss curve, and the first lines of that text
"""

from __future__ import annotations

import importlib.util
import sys

import numpy as np
import training
import write_code
from output import write, write_png
from pictures import MARGIN, Picture

STEPS, QUICK = 1000, 3
CONTEXT, BATCH = 64, 16


def imported():
    """Return torch, which is gradloom, and transformers."""
    if importlib.util.find_spec("transformers") is None:
        raise training.Stopped("transformers is not installed; get it with: pip install transformers")
    import gradloom.as_torch  # noqa: F401, I001, before what imports torch
    import torch
    import transformers

    return torch, transformers


def train(args, step):
    torch, transformers = imported()
    text = write_code.corpus()
    characters = sorted(set(text))
    encoded = np.searchsorted(characters, list(text)).astype(np.int64)
    rng = np.random.default_rng(args.seed)
    torch.manual_seed(args.seed)
    config = transformers.GPT2Config(
        vocab_size=len(characters), n_positions=CONTEXT, n_embd=64, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0
    )
    model = transformers.GPT2LMHeadModel(config)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.01)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, 20, args.steps + 1)
    for _ in range(args.steps):
        starts = rng.integers(0, len(encoded) - CONTEXT, BATCH)
        ids = torch.from_numpy(encoded[starts[:, None] + np.arange(CONTEXT)])
        loss = model(ids, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        step(loss.item())
    return model.eval(), characters


def finish(args, losses, result, out):
    torch, _ = imported()
    model, characters = result
    start = torch.tensor([[characters.index(c) for c in "\ndef "]])
    length = CONTEXT - start.shape[1]
    several = start.repeat(1 if args.quick else 12, 1)
    settings = dict(do_sample=True, temperature=0.6, pad_token_id=0)
    found = model.generate(several, attention_mask=torch.ones_like(several), max_new_tokens=length, **settings)
    lines = ["".join(characters[i] for i in row).strip("\n").expandtabs(4) for row in found.tolist()]
    text = "\n\n".join(lines) + "\n"
    print(text)
    picture = Picture(720)
    picture.heading(14, "cross entropy per character (logarithmic), each step and its running average")
    picture.losses(MARGIN, 260, losses)
    picture.heading(2 * MARGIN + 264, "what the model generates")
    picture.text((MARGIN, 2 * MARGIN + 300), "\n".join(line[:110] for line in text.splitlines()[:18]))
    return [write(out / "transformers.txt", text.encode()), write_png(out / "transformers.png", picture.image)]


if __name__ == "__main__":
    sys.exit(training.main(sys.modules[__name__]))
