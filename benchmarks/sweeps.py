"""Time against the size of a tensor, and against the depth and the width of a network: programs, and their plots."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from time import perf_counter as clock

from tables import Times

SWEEPS = {
    "size": ("tanh(x*y + x), forward and backward", "elements, float32", tuple(10**i for i in range(9))),
    "depth": ("training step of a network 64 wide, batch 64", "layers", (1, 3, 10, 30, 100, 300, 1000)),
    "width": ("training step of a network 4 layers deep, batch 64", "width", tuple(2**i for i in range(3, 13))),
}
COLORS = {"gradloom-1": "#e4572e", "gradloom-2": "#a4243b", "torch-1": "#7fb7e6", "torch-2": "#17548c"}


def names() -> list[str]:
    """Return the programs' names, such as "size 1000"."""
    return [f"{sweep} {value}" for sweep, (_, _, values) in SWEEPS.items() for value in values]


def program(name: str) -> Callable:
    """Return the program (as in rows_torch.py) of that name."""
    sweep, value = name.split()
    return lambda torch: {"size": _elementwise, "depth": _deep, "width": _wide}[sweep](torch, int(value))


def _elementwise(torch, size):
    x, y = (torch.rand(size, requires_grad=True) for _ in range(2))
    ones = torch.ones(size)

    def sample():
        x.grad = y.grad = None
        began = clock()
        torch.tanh(x * y + x).backward(ones)
        return {"both": clock() - began}

    return sample


def _deep(torch, depth):
    return _network(torch, 64, depth)


def _wide(torch, width):
    return _network(torch, width, 4)


def _network(torch, width, depth):
    nn = torch.nn
    net = nn.Sequential(*(layer for _ in range(depth) for layer in (nn.Linear(width, width), nn.ReLU())))
    optimizer, x = torch.optim.SGD(net.parameters(), lr=1e-3), torch.randn(64, width)

    def sample():
        began = clock()
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()
        return {"both": clock() - began}

    return sample


def plot(times: Times, folder: Path) -> list[Path]:
    """Draw each sweep that was measured into `folder`/speed-NAME.svg, and return the files."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams |= {"svg.hashsalt": "gradloom", "svg.fonttype": "none", "font.size": 10}
    from matplotlib.figure import Figure

    files = []
    for sweep, (title, label, values) in SWEEPS.items():
        figure = Figure(figsize=(6.4, 4), layout="constrained")
        axes = figure.subplots()
        for name, color in COLORS.items():
            points = [(value, times.get((name, f"{sweep} {value}", "both"))) for value in values]
            points = [(value, statistics.median(seconds)) for value, seconds in points if seconds]
            if points:
                axes.loglog(*zip(*points, strict=True), "o-", ms=3.5, color=color, label=name)
        if not axes.lines:
            continue
        axes.set(title=title, xlabel=label, ylabel="seconds")
        axes.grid(alpha=0.3)
        axes.legend(title="library-threads")
        files.append(folder / f"speed-{sweep}.svg")
        figure.savefig(files[-1], metadata={"Date": None})
    return files
