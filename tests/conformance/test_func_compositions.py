"""Random compositions of transforms, of random functions, give what PyTorch's give."""

from __future__ import annotations

import math
import random
from importlib import import_module

import pytest

pytest.importorskip("torch", reason="PyTorch, the reference, is not installed: make conformance installs it")

SEEDS = 240
TRANSFORMS = ("grad", "jacrev", "jacfwd", "jvp", "vjp", "vmap")


def steps(torch, w, b):
    """Functions of a tensor of shape (..., 3) or (3,), of the same shape."""
    F = torch.nn.functional

    def filled(x):
        out = torch.zeros_like(x)
        out[..., 0] = x[..., 1] * x[..., 0]
        out[..., 1:] = x[..., 1:] ** 2
        return out

    def written(x):
        out = x.clone()
        out[..., 1].mul_(2.5)
        return out.mul_(x)

    return {
        "tanh": torch.tanh,
        "matmul": lambda x: x @ w,
        "square": lambda x: x * x,
        "scaled": lambda x: x.sin() * b,
        "softmax": lambda x: torch.softmax(x, -1),
        "softplus": F.softplus,
        "filled": filled,
        "written": written,
        "cumsum": lambda x: torch.cumsum(x, -1),
        "indexed": lambda x: x[..., [2, 0, 1]],
        "where": lambda x: torch.where(x > 0, x, 0.1 * x**2),
        "flip": lambda x: x.flip(-1),
        "cat": lambda x: torch.cat([x[..., 1:], x[..., :1]], -1),
        "linear": lambda x: F.linear(x, w, b),
        "lse": lambda x: x.logsumexp(-1, keepdim=True) * x,
        "gelu": F.gelu,
        "sort": lambda x: torch.sort(x, -1)[0] * b,
        "prod": lambda x: x.prod(-1, keepdim=True) + x,
        "norm": lambda x: x / (1 + x.norm(dim=-1, keepdim=True)),
    }


def transformed(torch, name, f):
    func = torch.func
    if name == "grad":
        return func.grad(lambda x: f(x).sum())
    if name == "jacrev":
        return func.jacrev(lambda x: f(x).sum(-1) if f(x).dim() > 1 else f(x))
    if name == "jacfwd":
        return func.jacfwd(f)
    if name == "jvp":
        return lambda x: func.jvp(f, (x,), (torch.cos(x.detach()),))[1]
    if name == "vmap":
        scales = torch.tensor([1.0, 2.0], dtype=torch.float64)
        return lambda x: func.vmap(lambda s: f(x * s))(scales).sum(0)

    def pulled(x):
        output, vjp_fn = func.vjp(f, x)
        return vjp_fn(torch.ones_like(output))[0]

    return pulled


def result(torch, seed):
    """What was composed, and the values; with the gradient of their sum where the point requires grad."""
    choose = random.Random(seed)

    def numbers(*shape):
        flat = [choose.gauss(0, 1) for _ in range(math.prod(shape))]
        return torch.tensor(flat, dtype=torch.float64).reshape(shape)

    known = steps(torch, numbers(3, 3), numbers(3))
    names = [choose.choice(sorted(known)) for _ in range(choose.randint(2, 4))]
    outer = [choose.choice(TRANSFORMS) for _ in range(choose.randint(1, 3))]

    def f(x):
        for name in names:
            x = known[name](x)
        return x

    for name in outer:
        f = transformed(torch, name, f)
    point = numbers(3)
    if choose.random() < 0.3:
        point.requires_grad_()
    found = f(point)
    values = found.detach().flatten().tolist()
    if found.requires_grad:
        values += torch.autograd.grad(found.sum(), point)[0].tolist()
    elif point.requires_grad:
        values += [0.0] * 3
    return (names, outer), values


def close(expected, found):
    return math.isclose(expected, found, rel_tol=1e-6, abs_tol=1e-8) or expected != expected and found != found


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, SEEDS, 40))
@pytest.mark.filterwarnings("ignore")
def test_random_compositions(start):
    import_module("torch.func"), import_module("gradloom.func")
    compared = 0
    for seed in range(start, start + 40):
        try:
            what, expected = result(import_module("torch"), seed)
        except RuntimeError:  # writes in place that PyTorch cannot differentiate so often
            continue
        _, found = result(import_module("gradloom"), seed)
        compared += 1
        assert len(expected) == len(found) and all(map(close, expected, found)), (seed, what, expected, found)
    assert compared >= 30
