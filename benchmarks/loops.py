"""Measure the llvm backend's kernels beside PyTorch's eager operators on the same threads, and the time of compiling.

    python benchmarks/loops.py                  # needs PyTorch and llvmlite; a minute
    python benchmarks/loops.py --threads 1 2    # numbers of threads to measure with

The loop programs are written by hand here: what `gradloom.compile` makes of Python code has rows of its own in
bench.py. Each time is the least of several, alternating between the two libraries.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import numpy as np
import torch

import gradloom
from gradloom.compiler import _llvm
from gradloom.compiler._llvm import cache, kernel
from gradloom.compiler._loops import LoopProgram

N = 4_000_000

CHAIN_FORWARD = f"""loop [{N}] inner 0
input 0: float32 strides [1]
output 0: float32 strides [1]
pass 0:
  x = load 0: float32
  one = const 1.0: float32
  m = neg x: float32
  e = exp m: float32
  d = + one e: float32
  s = / one d: float32
  t = tanh x: float32
  p = * s t: float32
  q = * x x: float32
  y = + p q: float32
  store 0 y"""

CHAIN_BACKWARD = f"""loop [{N}] inner 0
input 0: float32 strides [1]
input 1: float32 strides [1]
output 0: float32 strides [1]
pass 0:
  x = load 0: float32
  g = load 1: float32
  one = const 1.0: float32
  two = const 2.0: float32
  m = neg x: float32
  e = exp m: float32
  d = + one e: float32
  s = / one d: float32
  t = tanh x: float32
  r = - one s: float32
  ds = * s r: float32
  a = * ds t: float32
  tt = * t t: float32
  dt = - one tt: float32
  b = * s dt: float32
  c = + a b: float32
  w = * two x: float32
  f = + c w: float32
  z = * g f: float32
  store 0 z"""

ROWS, CLASSES = 256, 50_000
# Forward: the largest logit and the sum; then the loss of a row, and the gradient from both.
CROSS_ENTROPY = f"""loop [{ROWS}, {CLASSES}] inner 1
input 0: float32 strides [{CLASSES}, 1]
input 1: float32 sizes [{ROWS}, {CLASSES}] strides [{CLASSES}, 1]
input 2: int64 strides [1, 0]
output 0: float32 strides [1, 0]
output 1: float32 strides [{CLASSES}, 1]
number 0: float64
pass 0:
  x = load 0: float32
  m = reduce max x: float32
pass 1:
  x1 = load 0: float32
  c = - x1 m: float32
  e = exp c: float32
  s = reduce sum e: float32
row:
  t = load 2: int64
  i = index 0: int64
  chosen = gather 1 i t: float32
  l = log s: float32
  lm = + l m: float32
  loss = - lm chosen: float32
  store 0 loss
  w = number 0: float64
  scale = cast w: float32
  factor = / scale s: float32
pass 2:
  x2 = load 0: float32
  c2 = - x2 m: float32
  e2 = exp c2: float32
  p = * e2 factor: float32
  j = index 1: int64
  hit = == j t: bool
  q = - p scale: float32
  g = where hit q p: float32
  store 1 g"""

LN_ROWS, WIDTH = 4096, 768
LAYER_NORM = f"""loop [{LN_ROWS}, {WIDTH}] inner 1
input 0: float32 strides [{WIDTH}, 1]
input 1: float32 strides [0, 1]
input 2: float32 strides [0, 1]
output 0: float32 strides [{WIDTH}, 1]
output 1: float32 strides [1, 0]
output 2: float32 strides [1, 0]
number 0: float64
pass 0:
  x = load 0: float32
  s = reduce sum x: float32
row:
  n = const {WIDTH}.0: float32
  mean = / s n: float32
  store 1 mean
pass 1:
  x1 = load 0: float32
  c = - x1 mean: float32
  cc = * c c: float32
  v = reduce sum cc: float32
row:
  eps = number 0: float64
  epsf = cast eps: float32
  one = const 1.0: float32
  var = / v n: float32
  ve = + var epsf: float32
  sd = sqrt ve: float32
  rstd = / one sd: float32
  store 2 rstd
pass 2:
  x2 = load 0: float32
  w = load 1: float32
  b = load 2: float32
  c2 = - x2 mean: float32
  h = * c2 rstd: float32
  hw = * h w: float32
  y = + hw b: float32
  store 0 y"""

PARAMETERS = 1_000_000
ADAM = f"""loop [{PARAMETERS}] inner 0
input 0: float32 strides [1]
input 1: float32 strides [1]
input 2: float32 strides [1]
input 3: float32 strides [1]
output 0: float32 strides [1]
output 1: float32 strides [1]
output 2: float32 strides [1]
number 0: float64
number 1: float64
alias 0 0
alias 1 2
alias 2 3
pass 0:
  p = load 0: float32
  g = load 1: float32
  m = load 2: float32
  v = load 3: float32
  b1 = const 0.9: float32
  a1 = const 0.1: float32
  b2 = const 0.999: float32
  a2 = const 0.001: float32
  eps = const 1e-08: float32
  mb = * m b1: float32
  ga = * g a1: float32
  m2 = + mb ga: float32
  vb = * v b2: float32
  gg = * g g: float32
  ggb = * gg a2: float32
  v2 = + vb ggb: float32
  step = number 0: float64
  stepf = cast step: float32
  root = number 1: float64
  rootf = cast root: float32
  sv = sqrt v2: float32
  d0 = / sv rootf: float32
  d = + d0 eps: float32
  u = / m2 d: float32
  us = * u stepf: float32
  new = - p us: float32
  store 0 new
  store 1 m2
  store 2 v2"""


def chain() -> tuple[Callable[[], object], Callable[[], object]]:
    x = torch.randn(N, requires_grad=True)
    a, g = x.detach().numpy(), np.ones(N, "float32")
    y, z = np.empty(N, "float32"), np.empty(N, "float32")
    forward, backward = (_llvm.compile(LoopProgram.parse(text)) for text in (CHAIN_FORWARD, CHAIN_BACKWARD))
    ones = torch.ones(N)

    def theirs() -> object:
        x.grad = None
        out = x.sigmoid() * x.tanh() + x**2
        out.backward(ones)
        return x.grad

    def ours() -> object:
        forward([a, y])
        backward([a, g, z])
        return z

    return ours, theirs


def cross_entropy() -> tuple[Callable[[], object], Callable[[], object]]:
    x = torch.randn(ROWS, CLASSES, requires_grad=True)
    target = torch.randint(0, CLASSES, (ROWS,))
    a, t = x.detach().numpy(), target.numpy()
    loss, gradient = np.empty(ROWS, "float32"), np.empty((ROWS, CLASSES), "float32")
    compiled = _llvm.compile(LoopProgram.parse(CROSS_ENTROPY))

    def theirs() -> object:
        x.grad = None
        torch.nn.functional.cross_entropy(x, target).backward()
        return x.grad

    def ours() -> object:
        compiled([a, a, t, loss, gradient], [1 / ROWS])
        loss.mean()
        return gradient

    return ours, theirs


def layer_norm() -> tuple[Callable[[], object], Callable[[], object]]:
    x, w, b = torch.randn(LN_ROWS, WIDTH), torch.randn(WIDTH), torch.randn(WIDTH)
    arrays = [t.numpy() for t in (x, w, b)]
    out, mean, rstd = np.empty((LN_ROWS, WIDTH), "float32"), np.empty(LN_ROWS, "float32"), np.empty(LN_ROWS, "float32")
    compiled = _llvm.compile(LoopProgram.parse(LAYER_NORM))

    def ours() -> object:
        compiled([*arrays, out, mean, rstd], [1e-5])
        return out

    return ours, lambda: torch.nn.functional.layer_norm(x, (WIDTH,), w, b)


def adam() -> tuple[Callable[[], object], Callable[[], object]]:
    p = torch.randn(PARAMETERS, requires_grad=True)
    p.grad = torch.randn(PARAMETERS)
    theirs = torch.optim.Adam([p], lr=1e-3)
    mine = p.detach().numpy().copy()
    g, m, v = p.grad.numpy(), np.zeros(PARAMETERS, "float32"), np.zeros(PARAMETERS, "float32")
    compiled, steps = _llvm.compile(LoopProgram.parse(ADAM)), [0]

    def ours() -> object:
        steps[0] += 1
        correction = (1 - 0.9 ** steps[0], (1 - 0.999 ** steps[0]) ** 0.5)
        compiled([mine, g, m, v, mine, m, v], [1e-3 / correction[0], correction[1]])
        return mine

    def step() -> object:
        theirs.step()
        return p.detach()

    return ours, step


CASES = {
    "sigmoid(x)*tanh(x)+x^2, forward and backward, 4M": (chain, (CHAIN_FORWARD, CHAIN_BACKWARD)),
    "cross entropy with gradient, 256 x 50,000": (cross_entropy, (CROSS_ENTROPY,)),
    "layer norm, 4096 x 768": (layer_norm, (LAYER_NORM,)),
    "Adam, 1M parameters": (adam, (ADAM,)),
}
SECOND_START = """
import sys, time
import gradloom
start = time.perf_counter()
from gradloom.compiler._llvm import compile
from gradloom.compiler._loops import LoopProgram
imported = time.perf_counter()
compile(LoopProgram.parse(sys.argv[1]))
print((imported - start) * 1e3, (time.perf_counter() - imported) * 1e3)
"""


def least(calls: list[Callable[[], object]], repeats: int) -> list[float]:
    """Return each call's least time in milliseconds, alternating between them."""
    found = [float("inf")] * len(calls)
    for _ in range(repeats):
        for k, call in enumerate(calls):
            start = time.perf_counter()
            call()
            found[k] = min(found[k], (time.perf_counter() - start) * 1e3)
    return found


def compile_times(text: str) -> tuple[float, float, float]:
    """Return milliseconds: with LLVM, then in a second process the imports and the code from the cache."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["GRADLOOM_CACHE_DIR"] = folder
        cache._checked.cache_clear()
        best = float("inf")
        for _ in range(3):
            kernel.forget()
            for path in (cache.folder() or sys.exit("no cache folder")).iterdir():
                path.unlink()
            start = time.perf_counter()
            _llvm.compile(LoopProgram.parse(text))
            best = min(best, (time.perf_counter() - start) * 1e3)
        seconds = []
        for _ in range(3):
            command = [sys.executable, "-c", SECOND_START, text]
            out = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout
            seconds.append(tuple(float(word) for word in out.split()))
        del os.environ["GRADLOOM_CACHE_DIR"]
        cache._checked.cache_clear()
    return best, min(a for a, _ in seconds), min(b for _, b in seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args()
    print(f"{'':52}{'threads':>8}{'llvm':>10}{'PyTorch':>10}{'ratio':>8}")
    for name, (make, _) in CASES.items():
        for threads in options.threads:
            torch.set_num_threads(threads)
            gradloom.set_num_threads(threads)
            ours, theirs = make()
            np.testing.assert_allclose(np.asarray(ours()), theirs().numpy(), rtol=2e-4, atol=2e-5)
            a, b = least([ours, theirs], options.repeats)
            print(f"{name:52}{threads:8}{a:8.2f}ms{b:8.2f}ms{a / b:8.2f}", flush=True)
    print(f"\n{'':52}{'compile':>12}{'2nd: import':>14}{'2nd: code':>12}")
    for name, (_, texts) in CASES.items():
        for text in texts:
            first, imported, code = compile_times(text)
            print(f"{name:52}{first:10.1f}ms{imported:12.1f}ms{code:10.1f}ms", flush=True)


if __name__ == "__main__":
    main()
