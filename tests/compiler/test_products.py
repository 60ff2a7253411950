"""Products of matrices in graphs: which copies go, and that results stay."""

from __future__ import annotations

import numpy as np
import pytest

import gradloom as torch
from gradloom.compiler._api import optimized_of
from gradloom.compiler._graph import RESULT, Content, Value
from gradloom.compiler._products import PRODUCT, _carried, _common_sizes, _split_by

pytestmark = pytest.mark.skipif("llvm" not in torch.compiler.list_backends(), reason="needs llvmlite")


def attention(x, w, b):
    n, t, c = x.shape
    q, k, v = torch.addmm(b, x.reshape(n * t, c), w.t()).view(n, t, 3 * c).split(c, 2)
    q, k, v = (y.view(n, t, 2, c // 2).transpose(1, 2) for y in (q, k, v))
    y = (q @ k.transpose(-2, -1)).softmax(-1) @ v
    return y.transpose(1, 2).reshape(n, t, c)


PROGRAMS = {
    "attention": (attention, [(3, 5, 8), (24, 8), (24,)], set()),
    "a bias that is a matrix": (lambda x, w, b: torch.addmm(b, x, w).relu(), [(4, 5), (5, 3), (4, 3)], set()),
    "a bias of one element": (lambda x, w, b: torch.addmm(b, x, w), [(4, 5), (5, 3), (1,)], set()),
    "a product used twice": (lambda x, y: torch.cat([x @ y, (x @ y) * 2], 1), [(2, 3), (3, 4)], {"cat"}),
    "products side by side": (lambda x, y: torch.cat([x @ y, y.t() @ x.t()], 0), [(3, 4), (4, 3)], set()),
    "products one above the other": (lambda x, y: torch.cat([(x @ y).t(), y.t() @ x.t()], 1), [(2, 3), (3, 4)], set()),
    "one column": (lambda x, y: torch.cat([x @ y, x @ (y * 2)], 1), [(3, 4), (4, 1)], set()),
    "a result and a copy of it": (lambda x, y: ((x @ y), (x @ y).t().contiguous()), [(2, 3), (3, 4)], {"clone"}),
    "a copy of strided rows": (lambda x, y: (x.transpose(0, 2).contiguous() @ y), [(3, 4, 2), (2, 3, 5)], {"clone"}),
    "a part of a copy": (lambda x, y: x.transpose(1, 2).contiguous()[2:] @ y, [(4, 4, 2), (2, 4, 5)], {"clone"}),
    "nothing": (lambda x, y: x @ y, [(0, 3), (3, 2)], {"mm"}),
    "alpha": (lambda x, y, b: torch.addmm(b, x, y, alpha=2), [(2, 3), (3, 2), (2,)], {"addmm"}),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_products_are_those_of_eager_mode(name):
    function, shapes, calls = PROGRAMS[name]
    compiled = torch.compile(function, backend="llvm", fullgraph=True)
    torch.manual_seed(0)
    inputs = [torch.randn(shape, dtype=torch.float64) for shape in shapes]
    for _ in range(3):
        both = []
        for f in (function, compiled):
            leaves = [x.clone().requires_grad_() for x in inputs]
            found = f(*leaves)
            found = found if isinstance(found, tuple) else (found,)
            sum((y * torch.arange(y.numel()).view(y.shape)).sum() for y in found).backward()
            both.append([*found, *(x.grad for x in leaves)])
        for eager, ours in zip(*both, strict=True):
            torch.testing.assert_close(ours, eager)
            assert ours.stride() == eager.stride()
    (entry,) = optimized_of(compiled).entries
    assert {n.name for n in entry.compiled.forward.calls if n.wrapper is not PRODUCT} == calls


def test_the_backward_pass_of_attention_copies_nothing():
    compiled = torch.compile(attention, backend="llvm", fullgraph=True)
    leaves = [torch.randn(shape, requires_grad=True) for shape in PROGRAMS["attention"][1]]
    compiled(*leaves)
    compiled(*leaves).sum().backward()
    (entry,) = optimized_of(compiled).entries
    assert all(n.wrapper is PRODUCT for n in entry.compiled.backward.calls)


def layout(shape, order):
    """Return a dense Value whose dimensions lie in memory in this order."""
    strides, step = [0] * len(shape), 8
    for d in reversed(order):
        strides[d], step = step, step * shape[d]
    content = Content(0, RESULT, tuple(shape), tuple(strides), np.dtype("float64"))
    return Value(content, tuple(shape), tuple(strides), content.dtype)


@pytest.mark.parametrize("seed", range(20))
def test_dimensions_are_carried_to_another_layout(seed):
    rng = np.random.default_rng(seed)
    shape = rng.choice([1, 2, 3, 4], 3).tolist()
    base, target = (layout(shape, rng.permutation(3).tolist()) for _ in range(2))
    memory = np.arange(np.prod(shape), dtype="float64")
    moved = np.empty_like(memory)
    np.lib.stride_tricks.as_strided(moved, shape, target.strides)[...] = np.lib.stride_tricks.as_strided(
        memory, shape, base.strides
    )
    size = memory.size
    cuts = [n for n in range(1, size + 1) if size % n == 0]
    first = int(rng.choice(cuts))
    value = Value(base.content, (first, size // first), (8 * (size // first), 8), base.dtype)
    found = _carried(value, base, target)
    if found is not None:
        dims = [d for part in found for d in part]
        view = np.lib.stride_tricks.as_strided(moved, [n for n, _ in dims], [s for _, s in dims])
        assert view.ravel().tolist() == memory.tolist()


def test_sizes_are_split():
    assert _common_sizes([[64], [8, 8], [4, 16]]) == [4, 2, 8]
    assert _common_sizes([[6], [2, 3], [3, 2]]) is None
    assert _common_sizes([[], [1]]) == []
    assert _split_by([(64, 8)], [4, 2, 8]) == [(4, 128), (2, 64), (8, 8)]
