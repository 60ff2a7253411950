"""Random programs: compiled, they give what they give as Python, results and gradients, call after call.

GRADLOOM_RANDOM_PROGRAMS=1000 runs more of them.
"""

from __future__ import annotations

import os
import random

import pytest

import gradloom as torch
from gradloom.compiler._api import optimized_of

COUNT = int(os.environ.get("GRADLOOM_RANDOM_PROGRAMS", "42"))

UNARY = [
    torch.sin, torch.tanh, torch.sigmoid, torch.relu, torch.neg, torch.abs, torch.exp2, torch.erf, torch.sign,
    torch.nn.functional.gelu, torch.nn.functional.silu, torch.nn.functional.softplus, lambda x: x**2, lambda x: x**3,
    lambda x: x * 0.5, lambda x: 1 - x, lambda x: x + 1, lambda x: x / 3, lambda x: x.clamp(-1, 1),
    lambda x: x.detach(), lambda x: (x > 0).to(x.dtype), lambda x: torch.where(x > 0, x, x * 0.1),
    lambda x: x.double().float(),
]  # fmt: skip
BINARY = [
    lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, torch.maximum, lambda a, b: a / (b.abs() + 1),
    lambda a, b: torch.where(a > b, a, b * 2), lambda a, b: torch.lerp(a, b, 0.25), torch.hypot, torch.logaddexp,
    lambda a, b: torch.addcmul(a, a, b, value=0.5), lambda a, b: (a == b).float() + a,
]  # fmt: skip
REDUCTIONS = [
    lambda x: x.sum(-1, keepdim=True), lambda x: x.mean(0), lambda x: x.amax(-1, keepdim=True), lambda x: x.sum(),
    lambda x: torch.softmax(x, -1), lambda x: torch.log_softmax(x, 0), lambda x: x.var(-1, keepdim=True),
    lambda x: torch.cumsum(x, -1), lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:]),
    lambda x: x.logsumexp(0, keepdim=True), lambda x: x.std(-1, keepdim=True), lambda x: x.amin(0), lambda x: x.mean(),
    lambda x: torch.linalg.vector_norm(x, dim=-1, keepdim=True), lambda x: torch.softmax(x, 0) * x,
    lambda x: x - x.mean(-1, keepdim=True), lambda x: x / (x.abs().sum(-1, keepdim=True) + 1),
    lambda x: (x > 0).any(-1, keepdim=True).to(x.dtype), lambda x: torch.nn.functional.rms_norm(x, x.shape[-1:]),
    lambda x: x.sum((0, 1), keepdim=True), lambda x: x.masked_fill(x > 0.5, -1.0).log_softmax(-1),
]  # fmt: skip
VIEWS = [
    lambda x: x.transpose(0, 1).transpose(0, 1), lambda x: x.reshape(-1).view(x.shape), lambda x: x.flip(0),
    lambda x: x[:, :1].expand(x.shape), lambda x: torch.cat([x[1:], x[:1]]), lambda x: x.unsqueeze(0).squeeze(0),
    lambda x: x.t().contiguous().t(), lambda x: torch.stack([x, x * 2]).sum(0), lambda x: x.roll(1, 1),
    lambda x: x.clone(),
]  # fmt: skip


def add_in_place(x, y):
    return x.clone().add_(y)


def write_part(x, y):
    z = x * 1
    z[:, 1:2] = y[:, :1] if y.shape == x.shape else 2.0
    return z


def relu_in_place(x, y):
    z = x + y
    view = z[0]
    torch.nn.functional.relu_(z)
    return z + view


WRITES = [add_in_place, write_part, relu_in_place]


def program(rng: random.Random):
    """Return a function of two tensors (3, 4) and one (4,) made of random steps, and how often each value is used."""
    steps = []
    for number in range(rng.randint(3, 14)):
        kind = rng.choice(["unary"] * 4 + ["binary"] * 4 + ["reduction"] * 3 + ["view", "write"])
        table = {"unary": UNARY, "binary": BINARY, "reduction": REDUCTIONS, "view": VIEWS, "write": WRITES}[kind]
        steps.append((kind, rng.randrange(len(table)), rng.randrange(number + 3), rng.randrange(number + 3)))
    returned = sorted({rng.randrange(3, len(steps) + 3) for _ in range(rng.randint(1, 2))} | {len(steps) + 2})
    shape = (3, 4)

    def run(x, y, w):
        values = [x, y, w]
        for kind, number, first, second in steps:
            a, b = values[first], values[second]
            if kind == "unary":
                found = UNARY[number](a)
            elif kind == "binary":
                found = BINARY[number](a, b)
            else:
                a = a.expand(shape) if a.dim() < 2 else a
                if a.shape != shape:
                    a = a.expand(shape)
                if kind == "reduction":
                    found = REDUCTIONS[number](a)
                elif kind == "view":
                    found = VIEWS[number](a)
                else:
                    found = WRITES[number](a, b)
            values.append(found)
        return [values[i] * 1 for i in returned]

    return run


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
@pytest.mark.parametrize("block", range(6))
def test_random_programs_equal_eager(block, backend):
    if backend == "llvm":
        pytest.importorskip("llvmlite")
    graphs, reasons = 0, []
    for seed in range(block, COUNT, 6):
        run = program(random.Random(seed))
        compiled = torch.compile(run, backend=backend)
        for call in range(3):
            torch.manual_seed(seed + call)
            given = [torch.randn(3, 4), torch.randn(3, 4), torch.randn(4)]
            outcomes = []
            for function in (run, compiled):
                leaves = [t.clone().requires_grad_() for t in given]
                results = function(*leaves)
                wanted = [r for r in results if r.requires_grad]
                weights = [torch.full_like(r, 0.5 + i) for i, r in enumerate(wanted)]
                grads = torch.autograd.grad(wanted, leaves, weights, allow_unused=True) if wanted else []
                outcomes.append((results, grads))
            (expected, wanted_grads), (found, grads) = outcomes
            for a, b in zip([*found, *grads], [*expected, *wanted_grads], strict=True):
                assert (a is None) == (b is None), f"program {seed}"
                if a is not None:
                    scale = max(1.0, b.detach().abs().max().item())
                    torch.testing.assert_close(
                        a, b, rtol=1e-4, atol=1e-5 * scale, equal_nan=True, msg=f"program {seed}"
                    )
        graphs += optimized_of(compiled).calls[0]
        reasons += optimized_of(compiled).breaks
    assert graphs >= 2 * len(range(block, COUNT, 6)) * 0.8, reasons
