"""Square brackets and the indexing operators against PyTorch: values, strides, views, graphs, errors, gradients."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
from .side_by_side import assert_same, assert_same_gradients

# Separated by two spaces or line ends.
RESULTS = """
c[0]  c[-1, :, None]  c[..., 0]  c[None]  c[True]  c[False]  c[...]  c[:]  c[()]  c[0:0]  c[..., ...]  c[[0, 1]]
c[[0, 1], :, [1, 2]]  c[:, [0, 1]]  c[L.tensor(1)]  c[L.tensor([1])]  c[L.tensor(True)]  c[c > 0]  c[[True, False]]
c[L.ones(2, 3) > 0]  c[L.tensor([0], dtype=L.int32)]  c[0, [0, 1]]  c[range(2)]  c[[[0, 1], [1, 0]]]  c[[0, 1], None]
c[None, [0, 1]]  c[0, :, [0, 1]]  c[[0], :, [0, 1]]  c[[]]  c[:, True]  s[...]  s[None]  s[()]  c[0:L.tensor(2)]
c[[0.5]]  c[:, L.tensor(1)]  c[(0, 1),]  c[[0, 1], L.tensor(True)]  c[[slice(0, 1)]]  c[0, ..., [1]]  c[..., None, [1]]
c[[L.tensor(1), L.tensor(0)]]  c[L.tensor([True, False]), :, L.tensor([0, 1])]  c[L.ones(2, 3) > 0, 0]
c[L.ones(2, 3) > 0, 1:3]  c[True, False]  c[[True, 0]]  c[True, 0]  c[[None, 0]]
c[0:5, 0]  c[0:1, :, 0]  c[[[[0, 1]]]]  c[[0, [1, 2]]]  x[B]  x[L.tensor([0, 2]), L.tensor([1, 3])]  x[:, [3, 0, 0]]
x.masked_fill(x > 0, 1)  x.masked_fill(x > 0, s)  x.gather(0, I[:1] % 3)  x.gather(1, I % 4)
x.index_select(0, I[0] % 3)
x.scatter(0, I[:1] % 3, x)  x.scatter(1, I % 4, 2)  x.scatter_add(0, I % 3, x)
x.take(I % 5)  x.take_along_dim(I % 3, 0)
x.index_add(0, I[0, :2], x[:2], alpha=2)  x.index_copy(0, I[0, :2], x[:2])  x.index_fill(1, I[0, :2], 3)
x.index_fill(1, I[0, :2], s)  x.index_put((I[0, :2],), v)  x.index_reduce(0, I[0, :2], x[:2], "mean")
x.masked_select(x > 0)  x.masked_scatter(x > 0, x)  x.put(I[0], v)  x.scatter_reduce(0, I % 3, x, "amax")
L.nn.functional.embedding(I % 3, x)  L.nn.functional.one_hot(I % 3)  x.nonzero()  L.nonzero(x, as_tuple=True)
L.searchsorted(L.tensor([0., 1., 2.]), x.detach())  L.bucketize(x.detach(), L.tensor([0., 1.]))  L.isin(I, I[0])
L.unravel_index(I, (3, 4))  L.argwhere(I)
"""

ERRORS = """
c[5]  c[0, 5]  c[0, 0, 0, 0]  c[::-1]  c[1.0]  c["a"]  c[L.tensor([1.])]  c[L.tensor([5])]  c[L.ones(3) > 0]
c[[0, 1], [0, 1, 2]]  c[L.tensor([0], dtype=L.int16)]  s[0]  c[1:"a"]  c[{}]  c[1j]  c[:, [3]]  c[L.tensor([[0, -3]])]
c[:, 1:3:0]  x.gather(0, I[0])  x.gather(0, I)  x.gather(3, I)  x.index_select(0, I)  x.index_select(0, I[0])
x.scatter(0, I, x)  x.scatter(0, I % 3, x.float())  x.index_add(0, I[0], x)  x.index_copy(0, I[0], x)  x.take(I + 12)
x.masked_fill(I, 1)  x.masked_fill(x > 0, v)  x.put(I, v)  x.masked_select(I)  L.nn.functional.embedding(I, x)
L.nn.functional.one_hot(I - 1)  L.bucketize(x, x)  x.__setitem__(0, "a")  x.__setitem__(0, [1])  x.__delitem__(0)
(x * 1).__setitem__(0, L.ones(5, dtype=L.float64))  (x * 1).__setitem__([0, 1], L.ones(3, dtype=L.float64))
"""

SAME_GRADIENTS = """
c[0]  c[:, 1:, 0]  c[[0, 1, 0]]  c[:, [0, 0], [1, 1]]  c[c > 0]  x[B]  x.gather(0, I % 3)  x.index_select(0, I[0] % 2)
x.scatter(1, I % 4, 2)  x.take(I % 5)  x.masked_select(x > 0)  x.scatter_reduce(0, I % 3, x, "prod")
x.index_reduce(0, I[0, :2], x[:2], "mean", include_self=False)  L.nn.functional.embedding(I % 3, x)
L.nn.functional.embedding(I % 3, x, padding_idx=1)  L.nn.functional.embedding(I % 3, x, scale_grad_by_freq=True)
"""


def _each(text):
    return [e.strip() for line in text.strip().splitlines() for e in line.split("  ") if e.strip()]


@pytest.mark.parametrize("expression", _each(RESULTS))
def test_same_results(expression):
    assert_same(expression)


@pytest.mark.parametrize("expression", _each(ERRORS))
def test_same_errors(expression):
    assert_same(expression)


@pytest.mark.parametrize("expression", _each(SAME_GRADIENTS))
def test_same_gradients(expression):
    assert_same_gradients(expression)
