"""Time the convolution and pooling kernels against PyTorch with 1 and 2 threads, on the layers of the classic
network.

    python benchmarks/kernels_conv_pool.py [--rounds N] [--batch N]

Every piece of the network's step that is a convolution or a pool, and the total. The contenders take turns
call by call, so that whatever slows the machine slows them alike; the table shows the least time of each
piece, in milliseconds, and ours as a multiple of PyTorch's with 2 threads.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from gradloom.kernels._common import threads
from gradloom.kernels.conv import convolution as conv
from gradloom.kernels.pool import pooling as pool

try:
    import torch
except ImportError:
    torch = None

LAYERS = {"conv1": ((1, 28, 28), (20, 1, 5, 5)), "conv2": ((20, 12, 12), (50, 20, 5, 5))}
POOLS = {"pool1": (20, 24, 24), "pool2": (50, 8, 8)}
SETTINGS = ([1, 1], [0, 0], [1, 1], False, [0, 0], 1)
WINDOW = ([2, 2], [2, 2], [0, 0], [1, 1], False)
CONTENDERS = ("torch-1", "torch-2", "gradloom-1", "gradloom-2")

Piece = tuple[Callable[[], object] | None, Callable[[], object]]


def pieces(batch: int) -> dict[str, Piece]:
    """Return {title: (PyTorch's call, or None if it is not installed; ours)}, on the same numbers."""
    random = np.random.default_rng(0)
    found: dict[str, Piece] = {}

    def add(title: str, operator: str, ours: Callable, *arguments: object) -> None:
        theirs = None
        if torch is not None:
            function = getattr(torch.ops.aten, operator)
            tensors = [torch.from_numpy(a) if isinstance(a, np.ndarray) else a for a in arguments]
            theirs = lambda: function(*tensors)  # noqa: E731
        found[title] = theirs, lambda: ours(*arguments)

    for name, (image, kernel) in LAYERS.items():
        x = random.standard_normal((batch, *image), np.float32)
        w, b = random.standard_normal(kernel, np.float32), random.standard_normal(kernel[0], np.float32)
        add(f"{name} forward", "convolution", conv.convolution, x, w, b, *SETTINGS)
        g = random.standard_normal(conv.convolution(x, w, b, *SETTINGS).shape, np.float32)
        # The first layer's input needs no gradient.
        mask = [name != "conv1", True, True]
        add(f"{name} backward", "convolution_backward", conv.convolution_backward, g, x, w, [len(b)], *SETTINGS, mask)
    for name, image in POOLS.items():
        x = random.standard_normal((batch, *image), np.float32)
        add(f"{name} forward", "max_pool2d_with_indices", pool.max_pool2d_with_indices, x, *WINDOW)
        out, indices = pool.max_pool2d_with_indices(x, *WINDOW)
        add(
            f"{name} backward",
            "max_pool2d_with_indices_backward",
            pool.max_pool2d_with_indices_backward,
            np.ones_like(out),
            x,
            *WINDOW,
            indices,
        )
    return found


def use(contender: str) -> None:
    library, _, count = contender.partition("-")
    if library == "gradloom":
        threads.set_num_threads(int(count))
    elif torch is not None:
        torch.set_num_threads(int(count))


def measure(batch: int, rounds: int) -> dict[str, dict[str, float]]:
    """Return {title: {contender: minimum in milliseconds}}."""
    table: dict[str, dict[str, float]] = {}
    for title, (theirs, ours) in pieces(batch).items():
        best = table[title] = {}
        for turn in range(rounds):
            for contender in CONTENDERS:
                call = ours if contender.startswith("gradloom") else theirs
                if call is None:
                    continue
                use(contender)
                for _ in range(3 if turn else 5):  # the first calls wake the threads and warm the caches
                    call()
                for _ in range(3):
                    began = time.perf_counter()
                    call()
                    spent = 1e3 * (time.perf_counter() - began)
                    best[contender] = min(spent, best.get(contender, spent))
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15, help="how often the contenders take turns (15)")
    parser.add_argument("--batch", type=int, default=64, help="images in a batch (64)")
    options = parser.parse_args()
    table = measure(options.batch, options.rounds)
    table["total"] = {
        contender: sum(cells[contender] for cells in table.values())
        for contender in CONTENDERS
        if all(contender in cells for cells in table.values())
    }
    print(f"{'ms':18}" + "".join(f"{name:>12}" for name in CONTENDERS) + "   ours / torch-2")
    for title, cells in table.items():
        row = "".join(f"{cells[name]:12.3f}" if name in cells else f"{'-':>12}" for name in CONTENDERS)
        ratio = f"{cells['gradloom-2'] / cells['torch-2']:10.2f}" if "torch-2" in cells else ""
        print(f"{title:18}{row}   {ratio}")


if __name__ == "__main__":
    main()
