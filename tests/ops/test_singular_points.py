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


@second
@pytest.mark.parametrize("scale", [1.0, -0.5])
@pytest.mark.parametrize("name", ["nuc", "wide"])
def test_the_nuclear_norm_of_multiples_of_orthogonal_matrices(name, scale, mode):
    """With A = c Q and a change dA = Q X, its second derivative is |X - X^T|^2 / (4 c); beside it, rows of zeros take
    the formula of matrices that are not square, with |Y|^2 / c for the changes Y of these rows."""
    turned = np.array([[0.6, 0.8], [-0.8, 0.6]])
    pairs = np.einsum("ik,jl->ijkl", np.eye(2), np.eye(2)) - np.einsum("il,jk->ijkl", np.eye(2), np.eye(2))
    expected = np.einsum("ai,ijkl,ck->ajcl", turned, pairs, turned) / (2 * abs(scale))
    matrix = scale * turned
    if name == "wide":
        matrix = np.concatenate([matrix, np.zeros((2, 1))], 1)
        wider = np.zeros((2, 3, 2, 3))
        wider[:, :2, :, :2], wider[:, 2, :, 2] = expected, np.eye(2) / abs(scale)
        expected = wider
    x = torch.from_numpy(matrix)
    found = SECOND[mode](lambda x: torch.linalg.matrix_norm(x, "nuc"))(x)
    np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=1e-13)


# --- distances --------------------------------------------------------------------------------------------------------

EACH, PAIRS = np.eye(3), np.array([[1, -1, 0], [1, 0, -1], [0, 1, -1]])
DISTANCES = {  # functions of three points, and the combinations of points of which they add up the norms
    "norm": (lambda x, p: x.norm(p, 1).sum(), EACH),
    "vector_norm": (lambda x, p: torch.linalg.vector_norm(x, p, (1,)).sum(), EACH),
    "dist": (lambda x, p: torch.dist(x[1], x[2], p), PAIRS[2:]),
    "cdist": (lambda x, p: torch.cdist(x, x, p).sum(), np.concatenate([PAIRS, -PAIRS])),
    "pdist": (lambda x, p: torch.nn.functional.pdist(x, p).sum(), PAIRS),
    "pairwise": (lambda x, p: torch.pairwise_distance(x[:2], x[1:], p, eps=0.0).sum(), PAIRS[::2]),
}
POINTS = [[[0.0, 0.0], [1.0, 2.0], [1.0, 2.0]], [[0.0, 3.0], [0.0, 3.0], [2.0, 0.0]]]


def curvature(v, p):
    """Return the second derivative of |v|_p, with zeros where it is infinite or none."""
    norm = np.linalg.norm(v, p)
    if p in (0, 1, math.inf) or norm == 0:
        return np.zeros((2, 2))
    zero = v == 0
    size = np.where(zero, 1, abs(v)) / norm
    slope = np.where(zero, 0, np.sign(v) * size ** (p - 1))
    return (p - 1) / norm * (np.diag(np.where(zero, float(p == 2), size ** (p - 2))) - np.outer(slope, slope))


@pytest.mark.parametrize("mode", [mode for mode in SECOND if mode != "create_graph"])  # of one number
@pytest.mark.parametrize("p", [0, 0.5, 1, 1.5, 2, 2.5, 3, math.inf])
def test_second_derivatives_of_distances_are_zero_where_points_coincide(p, mode):
    for points in np.array(POINTS):
        found = SECOND[mode](lambda x: torch.stack([f(x, p) for f, _ in DISTANCES.values()]))(torch.from_numpy(points))
        for name, twice in zip(DISTANCES, found.numpy(), strict=True):
            combinations = DISTANCES[name][1]
            curvatures = [curvature(v, p) for v in combinations @ points]
            expected = np.einsum("ka,kij,kb->aibj", combinations, curvatures, combinations)
            np.testing.assert_allclose(twice, expected, rtol=0, atol=1e-13, err_msg=name)


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, math.inf])
@pytest.mark.parametrize("mode", ["use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"])
def test_the_gradient_of_cdist_is_a_function_of_its_points(p, mode):
    x = torch.tensor(POINTS[0], dtype=FLOAT64, requires_grad=True)
    (grad,) = torch.autograd.grad(torch.cdist(x, x, p, mode).square().sum(), x, create_graph=True)
    (twice,) = torch.autograd.grad(grad[0, 1], x)
    of_one = [p and float(p < 2), float(p > 0)]  # the slopes of the distance from the first point, each for both others
    np.testing.assert_allclose(twice.numpy(), np.outer([8, -4, -4], of_one), rtol=0, atol=1e-14)


@second
def test_hypot_at_the_origin(mode):
    def length(v):
        return torch.hypot(v[0], v[1])

    origin = torch.zeros(2, dtype=FLOAT64)
    assert torch.func.jacrev(length)(origin).tolist() == torch.func.jacfwd(length)(origin).tolist() == [0, 0]
    assert SECOND[mode](length)(origin).tolist() == [[0, 0], [0, 0]]


@second
def test_angles_and_signs_of_a_complex_zero(mode):
    for function in (torch.angle, lambda z: z.sgn().real + z.sgn().imag, torch.abs):
        found = SECOND[mode](lambda v, function=function: function(torch.complex(v[0], v[1])))(torch.zeros(2))
        assert found.tolist() == [[0, 0], [0, 0]]


# --- powers, logarithms, densities ------------------------------------------------------------------------------------

F, DENSITIES = torch.nn.functional, torch.distributions
INF, E = math.inf, math.exp
TARGET = np.array([0, 0.4, 0.6])


def number(value):
    return torch.tensor(value, dtype=FLOAT64)


LIMITS = {  # function, point, first derivative, second one (its diagonal, or all of it)
    "xlogy": (lambda v: torch.xlogy(v[0], v[1]), [0, 0], [0, 0], [0, 0]),
    "x log x": (lambda v: torch.xlogy(v, v).sum(), [0, 2], [0, 1 + math.log(2)], [0, 0.5]),
    "xlogy of a number": (lambda v: torch.xlogy(0, v).sum(), [0, 2], [0, 0], [0, 0]),
    "xlog1py": (lambda v: torch.special.xlog1py(v[0], v[1]), [0, -1], [0, 0], [0, 0]),
    "xlog1py of a number": (lambda v: torch.special.xlog1py(0, v).sum(), [-1, 2], [0, 0], [0, 0]),
    "gammainc of 1": (lambda v: torch.special.gammainc(number(1.0), v).sum(), [0, 2], [1, E(-2)], [-1, -E(-2)]),
    "gammainc of 2": (lambda v: torch.special.gammainc(number(2.0), v).sum(), [0, 2], [0, 2 * E(-2)], [1, -E(-2)]),
    "gammaincc of 1": (lambda v: torch.special.gammaincc(number(1.0), v).sum(), [0, 2], [-1, -E(-2)], [1, E(-2)]),
    "Gamma": (lambda v: DENSITIES.Gamma(number(1.0), number(2.0)).log_prob(v).sum(), [0, 1], [-2, -2], [0, 0]),
    "Chi2": (lambda v: DENSITIES.Chi2(number(2.0)).log_prob(v).sum(), [0, 1], [-0.5, -0.5], [0, 0]),
    "Beta": (lambda v: DENSITIES.Beta(number(1.0), number(2.0)).log_prob(v).sum(), [0, 0.5], [-1, -2], [-1, -4]),
    "Dirichlet": (
        lambda v: DENSITIES.Dirichlet(number([1.0, 2, 1])).log_prob(v), [0, 0.5, 0.5], [0, 2, 0], [0, -4, 0]
    ),
    "FisherSnedecor": (
        lambda v: DENSITIES.FisherSnedecor(number(2.0), number(2.0), False).log_prob(v).sum(), [0, 1], [-2, -1],
        [2, 0.5],
    ),
    "kl_div": (
        lambda v: F.kl_div(number([-1.0, -0.5, -2]), v, reduction="sum"), TARGET,
        [1, math.log(0.4) + 1.5, math.log(0.6) + 3], [0, 1 / 0.4, 1 / 0.6],
    ),
    "poisson_nll_loss": (
        lambda v: F.poisson_nll_loss(number([1.0, 0.5]), v, full=True, reduction="sum"), [0, 0.5], [-1, -0.5], [0, 0]
    ),
    "binary_cross_entropy": (
        lambda v: F.binary_cross_entropy(v, number([0.0, 1, 0.5]), reduction="sum"), [0, 1, 0.5], [0, 0, 0], [0, 0, 4]
    ),
    "x ** 2": (lambda v: (v ** number(2.0)).sum(), [-2, 0, 3], [-4, 0, 6], [2, 2, 2]),
    "x ** 0": (lambda v: (v ** number(0.0)).sum(), [-2, 0, 3], [0, 0, 0], [0, 0, 0]),
    "x ** y at y = 0": (
        lambda v: v[0] ** v[1], [2, 0], [0, math.log(2)], [[0, 0.5], [0.5, math.log(2) ** 2]]
    ),
    "x ** y at x = 0": (lambda v: v[0] ** v[1], [0, 2], [0, 0], [2, 0]),
    "0 ** y": (lambda v: (0.0**v).sum(), [0, 1, 2], [0, 0, 0], [0, 0, 0]),
    "0 ** (y + 1j)": (lambda v: torch.pow(0.0, torch.complex(v, v * 0 + 1)).real.sum(), [1, 2], [0, 0], [0, 0]),
    "logaddexp": (lambda v: torch.logaddexp(v[0], v[1]), [-INF, 1], [0, 1], [0, 0]),
    "logaddexp, far": (lambda v: torch.logaddexp(v[0], v[1]), [-1000, 1], [0, 1], [0, 0]),
    "logaddexp2, far": (lambda v: torch.logaddexp2(v[0], v[1]), [-3000, 1], [0, 1], [0, 0]),
    "std": (torch.std, [1, 1, 1], [0, 0, 0], [0, 0, 0]),
    "std_mean": (lambda v: sum(torch.std_mean(v)), [1, 1], [0.5, 0.5], [0, 0]),
    "polar": (
        lambda v: torch.view_as_real(torch.polar(v, v - 1)).sum(), [0, 1, -1], [-0.301168679, 2, -1.818594854],
        [2.763546581, 1, -0.339143083],
    ),
    "prelu": (lambda v: F.prelu(v, number(0.2)).sum(), [0, 1, -1], [0.2, 1, 0.2], [0, 0, 0]),
    "log_ndtr": (
        lambda v: torch.special.log_ndtr(v).sum(), [-1e3, 0, 1e3], [1000.000999998, math.sqrt(2 / math.pi), 0],
        [-0.999998, -2 / math.pi, 0],
    ),
    "erfcx": (
        lambda v: torch.special.erfcx(v).sum(), [0, 1e3], [-2 / math.sqrt(math.pi), -1e-6 / math.sqrt(math.pi)],
        [2, 2e-9 / math.sqrt(math.pi)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LIMITS)
def test_derivatives_are_limits_where_formulas_are_zero_by_zero(name):
    function, point, first, twice = LIMITS[name]
    x, twice = number(np.array(point, np.float64)), np.array(twice)
    for transform in (torch.func.jacrev, torch.func.jacfwd):
        np.testing.assert_allclose(transform(function)(x).numpy(), first, rtol=2e-6, atol=1e-15)
    for mode, transform in SECOND.items():
        expected = np.diag(twice) if twice.ndim == 1 else twice
        np.testing.assert_allclose(transform(function)(x).numpy(), expected, rtol=6e-6, atol=1e-15, err_msg=mode)


def test_the_hurwitz_zeta_function_at_infinity_and_of_nan():
    zeta = torch.special.zeta
    assert [zeta(number(s), number(q)).item() for s, q in ((2.0, INF), (INF, 2.0))] == [0, 0]
    for other in (-INF, -2.0, 0.0, 1.0, INF, math.nan):
        assert zeta(number(math.nan), number(other)).isnan() and zeta(number(other), number(math.nan)).isnan()


# --- triangles --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("name", ["cholesky_solve", "cholesky_inverse"])
def test_the_triangle_that_is_not_read_has_no_derivatives(name, upper):
    factor = number([[2.0, 0.5, -1.0], [0.25, 3.0, 1.5], [1.0, -0.5, 1.0]])
    right = number([[1.0], [2.0], [3.0]])

    def function(factor):
        if name == "cholesky_inverse":
            return torch.cholesky_inverse(factor, upper)
        return torch.cholesky_solve(right, factor, upper)

    def of_triangle(factor):
        return function(factor.triu() if upper else factor.tril())

    modes = (torch.func.jacrev, torch.func.jacfwd, lambda f: torch.func.hessian(lambda x: f(x).sum()))
    for mode in modes:
        np.testing.assert_allclose(mode(function)(factor).numpy(), mode(of_triangle)(factor).numpy(), atol=1e-12)


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


def weight_norm(v):
    return torch._weight_norm(v[None], torch.ones(1, 1, dtype=v.dtype), 0)[0, 0]


SLOPES = [  # function, dtype, point, derivative
    (torch.asinh, torch.float16, [300.0, -6e4], [1 / 300, 1 / 6e4]),
    (torch.asinh, torch.bfloat16, [1e30], [1e-30]),
    (torch.acosh, torch.float16, [300.0], [1 / 300]),
    (torch.acosh, torch.float32, [1e25], [1e-25]),
    (torch.acosh, FLOAT64, [1e200], [1e-200]),
    (lambda v: torch.addcdiv(v[0], v[0], v[1]), torch.float16, [300.0, 300.0], [1 + 1 / 300, -1 / 300]),
    (lambda v: torch.addcdiv(v[0], v[0], v[1]), torch.float32, [1e25, 1e25], [1, -1e-25]),
    (lambda v: torch.hypot(v[0], v[1]), torch.float32, [3e25, 4e25], [0.6, 0.8]),
    (weight_norm, torch.float16, [300.0, 400.0], [0.64 / 500, -0.48 / 500]),
    (torch.special.log_ndtr, torch.float16, [-300.0, -30.0], [300, 30.0332]),
    (torch.special.log_ndtr, torch.float32, [-1e25], [1e25]),
    (torch.special.erfcx, torch.float16, [100.0], [-1e-4 / math.sqrt(math.pi)]),
    (torch.special.erfcx, torch.float32, [1e4], [-1e-8 / math.sqrt(math.pi)]),
]


@pytest.mark.parametrize(("function", "dtype", "point", "expected"), SLOPES)
def test_slopes_where_squares_are_out_of_range(function, dtype, point, expected):
    x = torch.tensor(point, dtype=dtype)
    for transform in (torch.func.jacrev, torch.func.jacfwd):
        found = transform(lambda v: function(v).sum())(x).double().numpy()
        np.testing.assert_allclose(found, expected, rtol=8 * torch.finfo(dtype).eps, atol=0)


OF_DEGREE_ZERO = {  # functions that do not change when both numbers do by one factor
    "reciprocal": lambda v: v[0] * torch.reciprocal(v[1]),
}  # fmt: skip


@second
@pytest.mark.parametrize("name", OF_DEGREE_ZERO)
def test_second_derivatives_of_quotients_of_any_size(name, mode):
    function, x = OF_DEGREE_ZERO[name], number([3.0, 2.0])
    expected = SECOND[mode](function)(x).numpy()
    for size in (1e200, 1e-200):
        found = SECOND[mode](lambda v, size=size: function(v * size))(x).numpy()
        np.testing.assert_allclose(found, expected, rtol=1e-13, atol=0)


@second
def test_derivatives_of_atan2_at_the_origin_are_zero(mode):
    origin = torch.zeros(2, dtype=FLOAT64)
    assert torch.func.jacrev(lambda v: torch.atan2(v[0], v[1]))(origin).tolist() == [0, 0]
    assert torch.func.jacfwd(lambda v: torch.atan2(v[0], v[1]))(origin).tolist() == [0, 0]
    assert SECOND[mode](lambda v: torch.atan2(v[0], v[1]))(origin).tolist() == [[0, 0], [0, 0]]
