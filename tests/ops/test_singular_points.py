"""Derivatives where formulas divide by zero or leave the range of numbers: closed forms, in all compositions."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import gradloom as torch

FLOAT64 = torch.float64
SECOND = {
    "reverse over reverse": lambda f: torch.func.jacrev(torch.func.jacrev(f)),
    "forward over reverse": lambda f: torch.func.jacfwd(torch.func.jacrev(f)),
    "reverse over forward": lambda f: torch.func.jacrev(torch.func.jacfwd(f)),
    "forward over forward": lambda f: torch.func.jacfwd(torch.func.jacfwd(f)),
    "create_graph": lambda f: lambda x: torch.autograd.functional.hessian(f, x),
}
second = pytest.mark.parametrize("mode", SECOND)


# --- sources that are longer than the index ---------------------------------------------------------------------------

REDUCED = {
    "sum": ([1, 0, 0], [1, 1, 1]),
    "mean": ([0.5, 0, 0], [0.5, 1, 1]),
    "prod": ([4, 0, 0], [5, 1, 1]),
    "amax": ([1, 0, 0], [0, 1, 1]),
    "amin": ([0, 0, 0], [1, 1, 1]),
}
SHORT = {
    "scatter": (lambda x, i, s: x.scatter(0, i, s), ([1, 0, 0], [0, 1, 1])),
    "scatter_": (lambda x, i, s: (x * 1).scatter_(0, i, s), ([1, 0, 0], [0, 1, 1])),
    "scatter_add": (lambda x, i, s: x.scatter_add(0, i, s), ([1, 0, 0], [1, 1, 1])),
    **{
        name: (lambda x, i, s, name=name: x.scatter_reduce(0, i, s, name), expected)
        for name, expected in REDUCED.items()
    },
}


@pytest.mark.parametrize("index", [torch.zeros(1, dtype=torch.int64), torch.tensor(0)], ids=["vector", "0-dim"])
@pytest.mark.parametrize("name", SHORT)
def test_an_index_that_is_shorter_than_its_source(name, index):
    function, expected = SHORT[name]
    x, source = torch.full((3,), 4.0, dtype=FLOAT64), torch.tensor([5.0, 7.0, 9.0], dtype=FLOAT64)

    def total(source, x):
        return function(x, index, source).sum()

    for transform in (torch.func.jacrev, torch.func.jacfwd):
        found = transform(total, (0, 1))(source, x)
        assert [g.tolist() for g in found] == list(expected)
    twice = torch.func.hessian(total, (0, 1))(source, x)
    assert twice[0][1].tolist() == ([[1, 0, 0], [0] * 3, [0] * 3] if name == "prod" else [[0] * 3] * 3)


def test_rows_that_are_shorter_than_their_source():
    source = torch.tensor([[5.0, 7.0], [9.0, 11.0]], dtype=FLOAT64, requires_grad=True)
    torch.full((3, 2), 2.0, dtype=FLOAT64).scatter_reduce(0, torch.zeros(1, 1).long(), source, "prod").sum().backward()
    assert source.grad.tolist() == [[2, 0], [0, 0]]


# --- products ---------------------------------------------------------------------------------------------------------

PRODUCTS = {
    "prod": torch.prod,
    "prod of a dimension": lambda x: x.prod(0),
    "cumprod": lambda x: x.cumprod(0)[-1],
    "scatter_reduce": lambda x: torch.ones(1, dtype=x.dtype).scatter_reduce(0, torch.zeros(3).long(), x, "prod")[0],
    "index_reduce": lambda x: torch.ones(1, dtype=x.dtype).index_reduce(0, torch.zeros(3).long(), x, "prod")[0],
    "segment_reduce": lambda x: torch.segment_reduce(x, "prod", lengths=torch.tensor([3]))[0],
}


@pytest.mark.filterwarnings("ignore:index_reduce")  # is in beta, it says
@second
@pytest.mark.parametrize("values", [(2.0, 3.0, 5.0), (0.0, 3.0, 5.0), (0.0, 0.0, 5.0), (1e-200, 1e-150, 1e300)])
@pytest.mark.parametrize("name", PRODUCTS)
def test_second_derivatives_of_products_are_products_of_the_others(name, values, mode):
    a, b, c = values
    found = SECOND[mode](PRODUCTS[name])(torch.tensor(values, dtype=FLOAT64))
    np.testing.assert_allclose(found.numpy(), [[0, c, b], [c, 0, a], [b, a, 0]], rtol=1e-14, atol=0)


def test_factors_of_one_place_are_not_those_of_another():
    """Nor does a product that overflows reach its neighbors."""
    x = torch.tensor([2.0, 1e200, 3.0, 1e200, 5.0], dtype=FLOAT64)
    places = torch.tensor([0, 1, 0, 1, 2])

    def total(x):
        return torch.ones(3, dtype=FLOAT64).scatter_reduce(0, places, x, "prod")[[0, 2]].sum()

    expected = np.zeros((5, 5))
    expected[0, 2] = expected[2, 0] = 1
    np.testing.assert_array_equal(torch.func.hessian(total)(x).numpy(), expected)


# --- determinants -----------------------------------------------------------------------------------------------------


def minors(matrix):
    """Return the derivatives of a determinant: cofactors, and those of the matrices without two rows and columns."""
    n = len(matrix)
    first, twice = np.zeros((n, n)), np.zeros((n, n, n, n))

    def signed(rows, columns):
        left = np.delete(np.delete(matrix, rows, 0), columns, 1)
        return (-1) ** (sum(rows) + sum(columns)) * (round(np.linalg.det(left)) if left.size else 1)

    for i, j in itertools.product(range(n), repeat=2):
        first[i, j] = signed([i], [j])
        for k, m in itertools.product(range(n), repeat=2):
            if i != k and j != m:
                twice[i, j, k, m] = signed([i, k], [j, m]) * (-1) ** ((k > i) + (m > j))
    return first, twice


SINGULAR = {
    "zero": [[0.0]],
    "rank 1": [[1, 2], [2, 4]],
    "a diagonal": [[1, 0, 0], [0, 0, 0], [0, 0, 3]],
    "rank 1 of 3": [[1, 2, 3], [2, 4, 6], [-1, -2, -3]],
    "nothing": [[0, 0, 0]] * 3,
    "rank 2 of 4": [[1, 2, 0, 1], [0, 1, 3, 2], [1, 2, 0, 1], [0, 1, 3, 2]],
    "singular up to rounding": [[-3, 1, 2, 0], [1, 3, -1, 2], [-2, 4, 1, 2], [3, 1, 1, -2]],
}


@pytest.mark.parametrize("name", SINGULAR)
def test_derivatives_of_determinants_of_singular_matrices(name):
    matrix = np.array(SINGULAR[name], np.float64)
    assert round(np.linalg.det(matrix), 6) == 0
    x = torch.from_numpy(matrix)
    first, twice = minors(matrix)
    for transform in (torch.func.jacrev, torch.func.jacfwd):
        np.testing.assert_allclose(transform(torch.linalg.det)(x).numpy(), first, rtol=0, atol=1e-12)
    for mode, transform in SECOND.items():
        found = transform(torch.linalg.det)(x).numpy()
        np.testing.assert_allclose(found, twice, rtol=0, atol=1e-11, err_msg=mode)


def test_a_batch_with_singular_matrices():
    x = torch.tensor([[[1.0, 2.0], [2.0, 4.0]], [[1.0, 2.0], [3.0, 4.0]]], dtype=FLOAT64)
    tangent = torch.eye(2, dtype=FLOAT64).expand(2, 2, 2)
    np.testing.assert_allclose(torch.func.jvp(torch.linalg.det, (x,), (tangent,))[1].numpy(), [5, 5], rtol=1e-14)


# --- limits and ranges ------------------------------------------------------------------------------------------------


@second
def test_sinc_near_zero(mode):
    for x in (0.0, 1e-9, 1e-3, 0.1):
        terms = [(-1) ** k * 2 * k * (2 * k - 1) / math.factorial(2 * k + 1) for k in range(1, 12)]
        expected = math.pi**2 * sum(term * (math.pi * x) ** (2 * k) for k, term in enumerate(terms))
        found = SECOND[mode](torch.sinc)(torch.tensor(x, dtype=FLOAT64)).item()
        assert found == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize(("dtype", "x"), [(torch.float16, 1e-3), (torch.float32, 1e-5), (FLOAT64, 1e-9)])
def test_the_slope_of_sinc_near_zero(dtype, x):
    x = torch.tensor(x, dtype=dtype)
    expected = -(math.pi**2) / 3 * x.item()
    assert torch.func.grad(torch.sinc)(x).item() == pytest.approx(
        expected, rel=3e-3 if dtype is torch.float16 else 1e-6
    )


def test_slopes_of_sinc_are_continuous_between_its_two_formulas():
    slope = torch.func.grad(torch.sinc)
    for dtype in (torch.float32, FLOAT64):
        at = torch.tensor(1 / math.pi, dtype=dtype)
        eps = torch.finfo(dtype).eps
        assert slope(at * (1 - eps)).item() == pytest.approx(slope(at * (1 + eps)).item(), rel=20 * eps)


LARGE = [
    (torch.float16, 2e-3, 2e-3),
    (torch.float16, 300.0, -150.0),
    (torch.float32, 1e25, 1e25),
    (FLOAT64, 3e-200, 4e-200),
]


@pytest.mark.parametrize(("dtype", "y", "x"), LARGE)
def test_atan2_where_squares_are_out_of_range(dtype, y, x):
    y, x = (torch.tensor(v, dtype=dtype) for v in (y, x))
    a, b = y.item(), x.item()
    r = math.hypot(a, b)
    expected = [b / r / r, -a / r / r]
    tolerance = 4 * torch.finfo(dtype).eps
    found = torch.func.grad(torch.atan2, (0, 1))(y, x)
    assert [g.item() for g in found] == pytest.approx(expected, rel=tolerance)
    one, none = torch.ones((), dtype=dtype), torch.zeros((), dtype=dtype)
    tangents = [torch.func.jvp(torch.atan2, (y, x), t)[1].item() for t in ((one, none), (none, one))]
    assert tangents == pytest.approx(expected, rel=tolerance)


@second
def test_derivatives_of_atan2_at_the_origin_are_zero(mode):
    origin = torch.zeros(2, dtype=FLOAT64)
    assert torch.func.jacrev(lambda v: torch.atan2(v[0], v[1]))(origin).tolist() == [0, 0]
    assert torch.func.jacfwd(lambda v: torch.atan2(v[0], v[1]))(origin).tolist() == [0, 0]
    assert SECOND[mode](lambda v: torch.atan2(v[0], v[1]))(origin).tolist() == [[0, 0], [0, 0]]
