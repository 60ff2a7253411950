"""Train a small GPT on characters, on one process or several.

    python examples/ddp_gpt.py                                                        one process
    python -m gradloom.distributed.run --nproc-per-node 2 examples/ddp_gpt.py         two, as with torchrun
    mpiexec -n 2 python examples/ddp_gpt.py                                           two, or more machines, by MPI

Every process sees another part of the text. DistributedDataParallel averages the gradients, those of micro-batches
only at the last (`no_sync`). torch.distributed.checkpoint saves model and optimizer; with --resume, any number of
processes goes on from there. Put `torch` in place of `gradloom` in the imports, and the program is the same.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from pathlib import Path

import gradloom as torch
import gradloom.distributed.checkpoint.state_dict

nn, F = torch.nn, torch.nn.functional
dist, dcp = torch.distributed, torch.distributed.checkpoint


class Block(nn.Module):
    """Causal attention and a perceptron, each behind a layer normalisation and added to its input."""

    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.heads = heads

    def forward(self, x):
        n, length, width = x.shape
        parts = self.attend(self.norm1(x)).view(n, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(y.transpose(1, 2).reshape(n, length, width))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """From (N, length) characters to (N, length, vocabulary) logits of the next one; first and last layer share
    weights."""

    def __init__(self, vocabulary, length, width=64, heads=4, layers=2):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        nn.init.normal_(self.tokens.weight, std=0.02)
        self.head.weight = self.tokens.weight

    def forward(self, ids):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
        return self.head(self.norm(self.blocks(x)))


class Windows(torch.utils.data.Dataset):
    """Pieces of a text, and the same pieces one character later."""

    def __init__(self, ids, length):
        self.ids, self.length = ids, length

    def __len__(self):
        return (len(self.ids) - 1) // self.length

    def __getitem__(self, index):
        start = index * self.length
        return self.ids[start : start + self.length], self.ids[start + 1 : start + self.length + 1]


def connect():
    """Join the process group that the launcher announces in the environment; without a launcher, be the only rank."""
    by_mpi = any(name in os.environ for name in ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"))
    if by_mpi and "RANK" not in os.environ:
        dist.init_process_group("mpi")
    else:
        for name, value in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}.items():
            os.environ.setdefault(name, value)
        dist.init_process_group("gloo")
    return dist.get_rank(), dist.get_world_size()


def train(model, optimizer, loader, sampler, args, first):
    """Train from step `first` to args.steps; return the mean loss of all ranks at the last step."""
    step, epoch, loss = first, 0, float("nan")
    batches = iter(())
    while step < args.steps:
        optimizer.zero_grad()
        total = torch.zeros(1)
        for part in range(args.accumulate):
            batch = next(batches, None)
            if batch is None:
                epoch += 1
                sampler.set_epoch(epoch)
                batches = iter(loader)
                batch = next(batches)
            last = part == args.accumulate - 1
            with contextlib.nullcontext() if last else model.no_sync():
                found = F.cross_entropy(model(batch[0]).flatten(0, 1), batch[1].flatten()) / args.accumulate
                found.backward()
            total += found.detach()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        step += 1
        dist.all_reduce(total)
        loss = total.item() / dist.get_world_size()
        if dist.get_rank() == 0 and (step % 10 == 0 or step == args.steps):
            print(f"step {step:4}  loss {loss:.4f}", flush=True)
    return loss


def main(argv=None):
    """Run the program; return its exit code."""
    parser = argparse.ArgumentParser(description="Train a small GPT on characters.")
    parser.add_argument("--text", default=str(Path(__file__).parents[1] / "docs" / "core.md"), help="a file of text")
    parser.add_argument("--steps", type=int, default=100, help="default: %(default)s")
    parser.add_argument("--batch-size", type=int, default=8, help="of one rank (default: %(default)s)")
    parser.add_argument("--accumulate", type=int, default=1, help="micro-batches of a step (default: %(default)s)")
    parser.add_argument("--length", type=int, default=32, help="characters that it sees (default: %(default)s)")
    parser.add_argument("--out", help="folder for a checkpoint")
    parser.add_argument("--resume", help="checkpoint to go on from")
    args = parser.parse_args(argv)
    rank, size = connect()
    text = Path(args.text).read_text(encoding="utf-8")
    letters = sorted(set(text))
    ids = torch.tensor([letters.index(letter) for letter in text])

    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(GPT(len(letters), args.length))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    first = load(args.resume, model, optimizer) if args.resume else 0
    data = Windows(ids, args.length)
    sampler = torch.utils.data.DistributedSampler(data)
    loader = torch.utils.data.DataLoader(data, args.batch_size, sampler=sampler, drop_last=True)
    began = time.perf_counter()
    loss = train(model, optimizer, loader, sampler, args, first)
    if args.out:
        save(args.out, model, optimizer, args.steps)
    if rank == 0:
        print(f"{size} ranks, loss {loss:.4f} after {args.steps} steps, {time.perf_counter() - began:.1f} s")
    dist.destroy_process_group()
    return 0


def save(folder, model, optimizer, step):
    """Save model and optimizer. All ranks call this."""
    states = dcp.state_dict.get_state_dict(model, optimizer)
    dcp.save({"model": states[0], "optimizer": states[1], "step": step}, checkpoint_id=folder)


def load(folder, model, optimizer):
    """Load model and optimizer, and return the number of steps that they were trained for. All ranks call this."""
    states = dcp.state_dict.get_state_dict(model, optimizer)
    found = {"model": states[0], "optimizer": states[1], "step": 0}
    dcp.load(found, checkpoint_id=folder)
    dcp.state_dict.set_state_dict(
        model, optimizer, model_state_dict=found["model"], optim_state_dict=found["optimizer"]
    )
    return found["step"]


if __name__ == "__main__":
    sys.exit(main())
