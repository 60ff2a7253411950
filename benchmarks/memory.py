"""The memory of training steps beside PyTorch's: peak resident memory over that after set-up, each in a fresh process.

    .venv-torch/bin/python benchmarks/memory.py        # prints the table of docs/speed.md; Linux only

A process imports the library, prepares a program, runs five steps and prints the peak in MB. A first process of each
kind fills the cache of machine code and is not counted; with --cold it is, and starts with an empty one.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import rows_compile
import rows_training

CONTENDERS = {
    "gradloom eager": ("gradloom", "eager"), '`set_kernels("llvm")`': ("gradloom", "kernels"),
    "compiled, numpy": ("gradloom", "numpy"), "compiled, llvm": ("gradloom", "llvm"),
    "PyTorch eager": ("torch", "eager"),
}  # fmt: skip
PROGRAMS = {
    "convnet": "2 convolutions with batch norm, {} x 3 x 32 x 32",
    "gpt_block": "GPT block, 256 wide, 8 heads, {} x 128 tokens",
    "gpt": "GPT, 4 layers 128 wide, {} x 128 characters, with AdamW",
}
BATCHES = {"convnet": (32, 128), "gpt_block": (8, 32), "gpt": (8, 32)}


def prepared(torch: Any, name: str, batch: int, backend: str) -> Callable[[], None]:
    """Return a training step of a program, or one pass forward and backward."""
    torch.manual_seed(0)
    if backend == "kernels":
        torch.set_kernels("llvm")

    def compiled(function: Any) -> Any:
        return function if backend in ("eager", "kernels") else torch.compile(function, backend=backend)

    if name == "gpt":
        net = rows_training._gpt(torch, 96, width=128, heads=4, layers=4, length=128)
        model, optimizer = compiled(net), torch.optim.AdamW(net.parameters(), lr=1e-3)
        text = torch.randint(0, 96, (batch, 129))

        def train() -> None:
            optimizer.zero_grad()
            logits = model(text[:, :-1]).reshape(-1, 96)
            torch.nn.functional.cross_entropy(logits, text[:, 1:].reshape(-1)).backward()
            optimizer.step()

        return train
    function, args = getattr(rows_compile, name)(torch)
    args = [torch.cat([arg.detach()] * (batch // arg.shape[0])) for arg in args]
    if name == "gpt_block":
        args[0].requires_grad_()
    function = compiled(function)

    def step() -> None:
        found = function(*args)
        (found if not found.ndim else found.sum()).backward()

    return step


def resident(key: str) -> float:
    """Return VmRSS or VmHWM, the peak, of this process in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(key))


def measured(library: str, name: str, batch: int, backend: str) -> float:
    """Return the peak over the resident memory after set-up in MB, of five steps in this process."""
    torch = importlib.import_module(library)
    torch.set_num_threads(1)
    step = prepared(torch, name, batch, backend)
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before = resident("VmRSS")
    for _ in range(5):
        step()
    return resident("VmHWM") - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cold", action="store_true", help="start with an empty cache of machine code")
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        library, name, batch, backend = arguments.one
        print(measured(library, name, int(batch), backend))
        return
    environment = {k: v for k, v in os.environ.items() if k not in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")}
    print(f"| MB | {' | '.join(CONTENDERS)} |\n|---|{'--:|' * len(CONTENDERS)}")
    for name, title in PROGRAMS.items():
        for batch in BATCHES[name]:
            cells = []
            for library, backend in CONTENDERS.values():
                with tempfile.TemporaryDirectory() as folder:
                    environment["GRADLOOM_CACHE_DIR"] = folder
                    command = [sys.executable, __file__, "--one", library, name, str(batch), backend]
                    for _ in range(1 if arguments.cold or backend == "eager" else 2):  # of which the last counts
                        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
                cells.append(f"{float(done.stdout):.0f}")
            print(f"| {title.format(batch)} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
