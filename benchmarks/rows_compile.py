"""Forward and backward of functions compiled by each library's compilers, beside eager mode; and the first call.

A name is "compile PROGRAM BACKEND", with the backend "eager" for a function that is not compiled. A sample has the
seconds of one pass ("step") and, always the same, those by which the first pass took longer ("compile").
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from time import perf_counter as clock
from typing import Any

import rows_training

BACKENDS = {"gradloom": ("eager", "numpy", "llvm"), "torch": ("eager", "inductor")}
COMPILERS = "g++", "clang++", "c++"  # one of which inductor needs


def elementwise(torch) -> tuple[Callable[..., Any], list]:
    return lambda x: torch.sigmoid(x) * torch.tanh(x) + x**2, [torch.randn(4_000_000, requires_grad=True)]


def mlp(torch) -> tuple[Callable[..., Any], list]:
    nn = torch.nn
    net = nn.Sequential(nn.Linear(784, 512), nn.GELU(), nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 10))
    return _loss(torch, net), [torch.randn(64, 784), torch.randint(0, 10, (64,))]


def gpt_block(torch) -> tuple[Callable[..., Any], list]:
    block = rows_training._gpt(torch, 2, width=256, heads=8, layers=1, length=128).blocks
    return lambda x: block(x), [torch.randn(8, 128, 256, requires_grad=True)]


def convnet(torch) -> tuple[Callable[..., Any], list]:
    nn = torch.nn

    def block(channels, wider):
        return nn.Conv2d(channels, wider, 3, padding=1), nn.BatchNorm2d(wider), nn.ReLU(), nn.MaxPool2d(2)

    net = nn.Sequential(*block(3, 32), *block(32, 64), nn.Flatten(), nn.Linear(4096, 10))
    return _loss(torch, net), [torch.randn(32, 3, 32, 32), torch.randint(0, 10, (32,))]


def lstm_cell(torch) -> tuple[Callable[..., Any], list]:
    cell = torch.nn.LSTMCell(64, 128)

    def run(x):
        h = c = torch.zeros(x.shape[1], 128)
        for t in range(x.shape[0]):
            h, c = cell(x[t], (h, c))
        return h

    return run, [torch.randn(20, 32, 64)]


def _loss(torch, net) -> Callable[..., Any]:
    return lambda x, labels: torch.nn.functional.cross_entropy(net(x), labels)


PROGRAMS = {
    elementwise: "`sigmoid(x) * tanh(x) + x**2`, 4 million numbers",
    mlp: "784-512-512-10 network with GELU and cross entropy, batch 64",
    gpt_block: "GPT block, 256 wide, 8 heads, 8 x 128 tokens",
    convnet: "2 convolutions with batch norm, 32x3x32x32",
    lstm_cell: "LSTM cell, 128 wide, 20 steps, batch 32",
}


def name_of(program: Callable[..., Any], backend: str) -> str:
    return f"compile {program.__name__} {backend}"


def names() -> list[str]:
    backends = dict.fromkeys(b for found in BACKENDS.values() for b in found)
    return [name_of(program, backend) for program in PROGRAMS for backend in backends]


def missing(library: str, backend: str) -> str | None:
    """Return why a library has no such backend on this machine; None if it has."""
    if backend not in BACKENDS.get(library, ()):
        return f"{library} has no backend {backend}"
    if backend == "inductor" and not any(map(shutil.which, COMPILERS)):
        return "inductor needs a C++ compiler, and there is none"
    if backend == "llvm":
        try:
            import llvmlite  # noqa: F401
        except ImportError:
            return "llvm needs llvmlite, which is not installed"
    return None


def program(library: str, name: str) -> Callable[[Any], Callable[[], dict[str, float]]] | None:
    """Return what prepares the program of a name; None if the library does not have its backend."""
    _, wanted, backend = name.split()
    if missing(library, backend) is not None:
        return None
    prepare = next(p for p in PROGRAMS if p.__name__ == wanted)

    def prepared(torch) -> Callable[[], dict[str, float]]:
        torch.manual_seed(0)
        function, args = prepare(torch)
        if backend != "eager":
            function = torch.compile(function, backend=backend)

        def step() -> float:
            for arg in args:
                arg.grad = None
            began = clock()
            found = function(*args)
            (found if not found.ndim else found.sum()).backward()
            return clock() - began

        first = step()
        longer = first - min(step() for _ in range(3))
        return lambda: {"step": step(), "compile": longer}

    return prepared
