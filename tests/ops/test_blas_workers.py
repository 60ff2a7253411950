"""No kernel wakes the threads of NumPy's OpenBLAS: Note [Threads of products] of kernels/_common/blas.py."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

# Linux counts how often a thread has got a processor: a sleeping one does not, however long the test takes. OpenBLAS
# waits for the part of a worker that it has woken, and so the count has changed when the operator returns.
_PROGRAM = r"""
import os, sys, time
import numpy as np

TASKS = "/proc/self/task"
workers = [task for task in os.listdir(TASKS) if int(task) != os.getpid()]


def counts():
    return [open(f"{TASKS}/{task}/schedstat").read().split()[2] for task in workers]


def wait_for_sleep():
    end, found, before = time.monotonic() + 20, counts(), None
    while found != before and time.monotonic() < end:
        time.sleep(0.05)  # longer than a worker spins
        before, found = found, counts()


def wakes(call):
    before = counts()
    call()
    if counts() == before:
        return False
    wait_for_sleep()
    return True


wait_for_sleep()
x = np.ones((600, 600))
if not workers or not wakes(lambda: x.dot(x)):
    print("no workers")
    sys.exit()

import gradloom as torch
from gradloom.nn import functional as F

torch.manual_seed(0)
assert torch.get_num_threads() == 2
calls = {}


def both(name, function, *shapes, dtype=torch.float32):
    inputs = [torch.randn(*shape, dtype=dtype, requires_grad=True) for shape in shapes]

    def call():
        found = function(*inputs)
        found = found[0] if isinstance(found, tuple) else found
        found.backward(torch.ones_like(found))

    calls[name] = call


SQUARE = (1000, 1000)
for dtype in (torch.float32, torch.float64, torch.complex64):
    kind = str(dtype).partition(".")[2]
    both(f"sum over rows, {kind}", lambda x: x.sum(0), SQUARE, dtype=dtype)
    both(f"sum over few rows, {kind}", lambda x: x.sum(0), (60, 30000), dtype=dtype)
    both(f"sum over columns, {kind}", lambda x: x.sum(1), SQUARE, dtype=dtype)
    both(f"sum over short rows, {kind}", lambda x: x.sum(1), (30000, 60), dtype=dtype)
    both(f"sum over the middle, {kind}", lambda x: x.sum(1), (4, 500, 500), dtype=dtype)
    both(f"sum of all, {kind}", lambda x: x.sum(), SQUARE, dtype=dtype)
    both(f"var, {kind}", lambda x: x.var(0), SQUARE, dtype=dtype)
    both(f"norm, {kind}", lambda x: x.norm(), SQUARE, dtype=dtype)
    both(f"norm of columns, {kind}", lambda x: x.norm(dim=0), SQUARE, dtype=dtype)
    both(f"mm, {kind}", lambda x, y: x @ y, (128, 64), (64, 60), dtype=dtype)
    both(f"large mm, {kind}", lambda x, y: x @ y, (500, 300), (300, 200), dtype=dtype)
    both(f"bmm, {kind}", lambda x, y: x @ y, (3, 100, 90), (3, 90, 80), dtype=dtype)
    both(f"mm of a row, {kind}", lambda x, y: x @ y, (1, 700), (700, 700), dtype=dtype)
    both(f"mv, {kind}", lambda x, y: x.mv(y), (200000, 3), (3,), dtype=dtype)
    both(f"large mv, {kind}", lambda x, y: x.mv(y), SQUARE, (1000,), dtype=dtype)
    both(f"dot, {kind}", lambda x, y: x.dot(y), (20000,), (20000,), dtype=dtype)
    both(f"einsum, {kind}", lambda x, y: torch.einsum("abc,cd->adb", x, y), (30, 50, 40), (40, 60), dtype=dtype)
for dtype in (torch.float32, torch.float64):
    kind = str(dtype).partition(".")[2]
    both(f"var of one row, {kind}", lambda x: x.var(), (30000,), dtype=dtype)
    both(f"var of columns, {kind}", lambda x: x.var(1), (300, 100), dtype=dtype)
    both(f"mse_loss, {kind}", F.mse_loss, (30000,), (30000,), dtype=dtype)
    both(f"long layer_norm, {kind}", lambda x: F.layer_norm(x, (10,)), (30000, 10), dtype=dtype)
    both(f"cumsum, {kind}", lambda x: x.cumsum(1), (20000, 20), dtype=dtype)
    both(f"short cumsum, {kind}", lambda x: x.cumsum(1), (800, 20), dtype=dtype)
    both(f"sort, {kind}", lambda x: x.sort()[0], (30000,), dtype=dtype)
    both(f"cov, {kind}", torch.cov, (300, 300), dtype=dtype)
    weights = [torch.randn(500, 500, dtype=dtype, requires_grad=True) for _ in range(3)]
    for weight in weights:
        weight.grad = torch.randn(500, 500, dtype=dtype)
    calls[f"clip_grad_norm_, {kind}"] = lambda weights=weights: torch.nn.utils.clip_grad_norm_(weights, 1.0)
    optimizers = [torch.optim.Adam(weights), torch.optim.SGD(weights, 0.1, momentum=0.9), torch.optim.Muon(weights)]
    for optimizer in optimizers:
        calls[f"{type(optimizer).__name__}, {kind}"] = optimizer.step
    limited = torch.optim.LBFGS(weights[:1], max_iter=3)

    def loss(weight=weights[0]):
        weight.grad = None
        found = (weight - 1).square().sum()
        found.backward()
        return found

    calls[f"LBFGS, {kind}"] = lambda limited=limited, loss=loss: limited.step(loss)

both("linear", F.linear, (1000, 300), (400, 300), (400,))
both("bilinear", F.bilinear, (100, 80), (100, 60), (50, 80, 60))
both("layer_norm", lambda x, w, b: F.layer_norm(x, (256,), w, b), (3000, 256), (256,), (256,))
both("batch_norm", lambda x: F.batch_norm(x, None, None, training=True), (16, 64, 32, 32))
both("group_norm", lambda x: F.group_norm(x, 8), (16, 64, 32, 32))
both("softmax", lambda x: x.softmax(-1), SQUARE)
both("log_softmax over rows", lambda x: x.log_softmax(0), SQUARE)
both("gelu", F.gelu, SQUARE)
both("cdist", torch.cdist, (200, 300), (250, 300))
for size, channels, kernel, stride, groups in (
    (112, 16, 1, 1, 1), (56, 64, 1, 1, 1), (28, 64, 3, 1, 1), (14, 128, 3, 2, 1), (64, 3, 7, 2, 1),
    (8, 32, 3, 1, 1), (28, 64, 3, 1, 64), (28, 64, 3, 1, 4),
):
    both(
        f"conv2d of {channels} channels, kernel {kernel}, stride {stride}, {groups} groups",
        lambda x, w, b, s=stride, k=kernel, g=groups: F.conv2d(x, w, b, s, k // 2, groups=g),
        (2, channels, size, size), (64, channels // groups, kernel, kernel), (64,),
    )
both("conv_transpose2d", lambda x, w: F.conv_transpose2d(x, w, stride=2), (2, 32, 28, 28), (32, 32, 4, 4))
both("max_pool2d", lambda x: F.max_pool2d(x, 2), (4, 8, 16, 16))
both("avg_pool2d", lambda x: F.avg_pool2d(x, 3, 1), (2, 8, 20, 20))
both("interpolate", lambda x: F.interpolate(x, (300, 300), mode="bicubic"), (1, 3, 200, 200))
both("affine_grid", lambda x: F.affine_grid(x, [2, 3, 400, 400], align_corners=False), (2, 2, 3))
for causal in (False, True):
    for shape in ((2, 4, 128, 32), (1, 1, 128, 64), (1, 1, 250, 128), (4, 8, 300, 32)):
        both(
            f"attention of {shape}, causal {causal}",
            lambda q, k, v, c=causal: F.scaled_dot_product_attention(q, k, v, is_causal=c),
            shape, shape, shape,
        )
for layer in (
    torch.nn.LSTM(200, 128), torch.nn.GRU(200, 128), torch.nn.RNN(200, 128),
    torch.nn.LSTM(200, 128, bidirectional=True, num_layers=2),
):
    for batch in (1, 40):
        both(f"{layer}, batch {batch}", layer, (20, batch, 200))
for cell in (torch.nn.LSTMCell(300, 300), torch.nn.GRUCell(300, 300)):
    both(f"{cell}", cell, (20, 300))
image = torch.rand(1, 3, 200, 200).mul(255).to(torch.uint8)
calls["interpolate bytes"] = lambda image=image: F.interpolate(image, (300, 300), mode="bilinear", antialias=True)
q, r = torch.geqrf(torch.randn(300, 40))
wait_for_sleep()
calls["householder_product"] = lambda q=q, r=r: torch.linalg.householder_product(q, r)
compiled = torch.compile(lambda x, w, b: (F.linear(x, w, b).relu().sum(0) * 2).sum())
both("compiled", compiled, (500, 300), (400, 300), (400,))

print("awake:", [name for name, call in calls.items() if wakes(call)])
"""


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="no /proc/self/schedstat")
def test_no_kernel_wakes_the_workers_of_openblas():
    environment = dict(os.environ, OMP_NUM_THREADS="2", OPENBLAS_NUM_THREADS="2")
    found = subprocess.run(
        [sys.executable, "-c", _PROGRAM], env=environment, capture_output=True, text=True, timeout=600
    )
    assert not found.returncode, found.stderr
    if found.stdout == "no workers\n":
        pytest.skip("NumPy's BLAS has no threads of its own here")
    assert found.stdout == "awake: []\n"
