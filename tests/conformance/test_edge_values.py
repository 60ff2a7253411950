"""Single calls at NaN, infinities, subnormal numbers and edges of bins, which the database's samples do not reach."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import gradloom  # noqa: E402
from tests.releases import pytorch_before  # noqa: E402

NAN, INF = float("nan"), float("inf")
FLOATS = ("float32", "float64")


def same(function, *arrays: np.ndarray) -> None:
    """Assert that a function of a library and tensors has equal results, and that the gradients of them are equal."""
    found = []
    for library in (torch, gradloom):
        given = [library.tensor(array, requires_grad=array.dtype.kind == "f") for array in arrays]
        result = function(library, *given)
        leaves = [tensor for tensor in given if tensor.requires_grad]
        if result.requires_grad:
            slopes = library.autograd.grad(result, leaves, library.ones_like(result), allow_unused=True)
        else:
            slopes = ()
        found.append([None if x is None else x.detach().numpy() for x in (result, *slopes)])
    for expected, actual in zip(*found, strict=True):
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


def test_bins_of_half_precision_are_rounded_in_each_step():
    numbers = np.random.default_rng(0).normal(size=300)
    for name in ("float16", "bfloat16"):
        for bins in (7, 10, 33):
            counts = []
            for library in (torch, gradloom):
                x = library.tensor(numbers).to(getattr(library, name))
                counts.append(library.histc(x, bins, -1, 1).tolist())
            assert counts[0] == counts[1]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("step", [0.1, 0.05, 1 / 3, 0.01, 1])
def test_numbers_on_the_edges_of_bins_are_counted_where_pytorch_counts_them(dtype, step):
    numbers = (np.random.default_rng(0).integers(-30, 30, 500) * step).astype(dtype)
    for bins in range(2, 60):
        for limits in ((0, 0), (-1, 1)):
            same(lambda t, x, b=bins, ends=limits: t.histc(x.detach(), b, *ends), numbers)
        for limits in (None, (-1.0, 1.0)):
            same(lambda t, x, b=bins, ends=limits: t.histogram(x.detach(), b, range=ends).hist, numbers)


@pytest.mark.parametrize("dtype", FLOATS)
def test_numbers_of_linspace_are_rounded_once(dtype):
    kind = np.dtype(dtype).type
    for steps in (2, 3, 7, 50, 16500 * 2):
        first, last = kind(-0.7), kind(2.9)
        step = (last - first) / kind(steps - 1)
        numbers = gradloom.linspace(float(first), float(last), steps, dtype=getattr(gradloom, dtype)).numpy()
        for i in {0, 1, 2, steps // 3, steps // 2 - 1, steps // 2, steps - 2, steps - 1} & set(range(steps)):
            start, count = (first, i) if i < steps // 2 else (last, i + 1 - steps)
            exact = Fraction(float(start)) + count * Fraction(float(step))
            error = abs(Fraction(float(numbers[i])) - exact)
            assert error <= Fraction(float(np.spacing(np.abs(numbers[i])))) / 2


def test_linspace_of_infinite_and_huge_ends():
    for ends in ((0, INF), (-INF, 1), (NAN, 1), (-1e300, 1e300), (-1e308, 1e308), (1e-320, 3e-320)):
        found, expected = (t.linspace(*ends, 5, dtype=t.float64).numpy() for t in (gradloom, torch))
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_nan_is_the_maximum_of_a_bag_where_it_comes_first(dtype):
    table = np.array([[1, NAN], [NAN, 2], [3, INF], [-INF, 0]], dtype)
    bags = np.array([[0, 1, 2], [1, 0, 3], [2, 3, 1]])
    same(lambda t, table, bags: t.nn.functional.embedding_bag(bags, table, mode="max"), table, bags)


@pytest.mark.parametrize("p", [1, 2])
def test_an_infinite_weight_leaves_classes_beyond_the_margin_out(p):
    scores = np.array([[3.0, 0.5, 2.5], [0.0, 5.0, 1.0]])
    weights, classes = np.array([INF, 2.0, 1.0]), np.array([0, 1])

    def loss(t, scores, classes):
        return t.nn.functional.multi_margin_loss(scores, classes, p, weight=t.tensor(weights), reduction="none")

    same(loss, scores, classes)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_points_of_a_volume_that_are_not_finite_lie_outside(dtype, mode):
    random = np.random.default_rng(0)
    volume, grid = random.standard_normal((1, 2, 3, 4, 5)).astype(dtype), random.uniform(-1.5, 1.5, (1, 2, 3, 2, 3))
    grid.reshape(-1)[::5], grid.reshape(-1)[2::11], grid.reshape(-1)[3::13] = NAN, INF, -INF
    same(lambda t, x, g: t.nn.functional.grid_sample(x, g, mode, align_corners=False), volume, grid.astype(dtype))


@pytest.mark.parametrize("dtype", FLOATS)
def test_lgamma_of_subnormal_numbers(dtype):
    tiny = np.array([1, -1, 4]).astype(dtype) * np.finfo(dtype).smallest_normal / 8
    same(lambda t, x: t.lgamma(x.detach()), np.append(tiny, np.array([0, -0.0, INF, -INF, NAN, -3], dtype)))


def test_writing_beyond_a_batch_element_is_refused():
    memory = gradloom.arange(4.0)
    for view, offset in ((memory[1:2], 0), (memory[:2], 2), (memory, 3)):

        def write(source, view=view, offset=offset):
            return gradloom.as_strided_scatter(view, source, (2,), (1,), offset)

        with pytest.raises(RuntimeError, match="has no batching rule"):
            gradloom.vmap(write)(gradloom.ones(3, 2))
    inside = gradloom.vmap(lambda source: gradloom.as_strided_scatter(memory[1:], source, (2,), (1,), 2))
    assert inside(gradloom.ones(1, 2)).tolist() == [[1.0, 1.0, 1.0]]


def test_second_derivatives_of_norms_at_zero_are_those_of_pytorch():
    for p in (1, 2, 3, 6.5, INF):
        found = []
        for library in (torch, gradloom):
            x, slope = library.zeros(3, requires_grad=True), library.ones(1, requires_grad=True)
            first = library.autograd.grad(
                library.linalg.vector_norm(x, p, dim=0, keepdim=True), x, slope, create_graph=True
            )
            second = library.autograd.grad(first, (x, slope), library.ones(3), allow_unused=True)
            found.append([None if x is None else x.numpy(force=True) for x in second])
        found[0] = [x if x is None else np.nan_to_num(x) for x in found[0]]  # PyTorch divides 0 by 0 where p > 1
        for expected, actual in zip(*found, strict=True):
            np.testing.assert_array_equal(0 if actual is None else actual, 0 if expected is None else expected)


NUMBERS = (1, -1, 2.5, 1e40, INF, NAN, 300, -300, 70000, 2**31, 2**63 - 1, 2**63, True)
CALLS = {
    "where, else": lambda t, x, c, v: t.where(c, x, v),
    "where, then": lambda t, x, c, v: t.where(c, v, x),
    "where of a 0-dim tensor": lambda t, x, c, v: t.where(c, x[0], v),
    "add with alpha": lambda t, x, c, v: t.add(x, x, alpha=v),
    "sub with alpha": lambda t, x, c, v: t.sub(x, x, alpha=v),
    "rsub with alpha": lambda t, x, c, v: t.rsub(x, x, alpha=v),
    "sub of a number with alpha": lambda t, x, c, v: t.sub(x, 3, alpha=v),
    "lerp": lambda t, x, c, v: t.lerp(x, x + 1, v),
    "a write": lambda t, x, c, v: x.__setitem__(0, v) or x,
    "a masked write": lambda t, x, c, v: x.__setitem__(c, v) or x,
}


@pytest.mark.parametrize("dtype", "float16 bfloat16 float32 float64 int64 int32 int8 uint8 complex64".split())
@pytest.mark.parametrize("call", CALLS)
def test_numbers_that_a_dtype_does_not_hold_are_refused_where_pytorch_refuses_them(call, dtype):
    for number in NUMBERS:
        found = []
        for library in (torch, gradloom):
            x, chosen = library.tensor([1, 2]).to(getattr(library, dtype)), library.tensor([True, False])
            try:
                result = CALLS[call](library, x, chosen, number)
            except (RuntimeError, ValueError, OverflowError) as error:
                found.append((type(error), str(error).partition("\n")[0]))
            else:
                found.append((str(result.dtype), str(result.tolist())))
        if call == "a masked write" and pytorch_before("2.15") and found[0] != found[1]:  # infinity before 2.15
            assert dtype in ("float16", "bfloat16") and "without overflow" in found[1][1]
            assert "inf" in found[0][1] and abs(number) < INF, number
            continue
        assert found[0] == found[1], number
