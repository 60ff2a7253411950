"""Kernels with a way of their own for few or for many elements: both ways give the same."""

import numpy as np
import pytest

from gradloom.kernels._common import numbers, tables
from gradloom.kernels._common.windows import Windows
from gradloom.kernels.activation import smooth, softmax
from gradloom.kernels.conv import flat, products
from gradloom.kernels.elementwise import erf, single, special
from gradloom.kernels.indexing import places, tensors
from gradloom.kernels.pool import blocks
from gradloom.kernels.random import normal, streams
from gradloom.kernels.reduction import extrema, running
from gradloom.kernels.shape import joins

FLOATS = (np.float32, np.float64)


def draw(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("kernel", [smooth.silu, smooth.elu, smooth.gelu, smooth.softplus, special.sigmoid])
def test_elementwise_kernels_give_the_same_in_blocks(kernel, dtype):
    x = 4 * draw(numbers.LARGE + 77, dtype=dtype)
    few = numbers.LARGE // 8
    parts = [kernel(x[i : i + few]) for i in range(0, x.size, few)]
    ulp = np.finfo(dtype).eps
    # Vector loops of different lengths may round the remainder of an array differently.
    np.testing.assert_allclose(kernel(x), np.concatenate(parts), rtol=4 * ulp, atol=4 * ulp)


def test_erf_of_many_float32_numbers_is_off_by_little_more_than_half_a_unit():
    from scipy.special import erf as exact

    x = np.concatenate((np.linspace(-6, 6, 1 << 15), np.logspace(-44, 1, 1 << 13))).astype(np.float32)
    wanted = exact(x.astype(np.float64))
    unit = np.spacing(np.abs(wanted).astype(np.float32)).astype(np.float64)
    assert np.abs((erf.error_function(x) - wanted) / unit).max() < 0.54
    special_values = np.zeros(1 << 13, np.float32)
    special_values[:5] = np.inf, -np.inf, np.nan, -0.0, 0.0
    assert str(erf.error_function(special_values)[:5].tolist()) == "[1.0, -1.0, nan, -0.0, 0.0]"


def test_gelu_of_many_float32_numbers_is_off_by_a_few_units():
    from scipy.special import ndtr

    x = np.concatenate((np.linspace(-9, 9, 1 << 14), np.logspace(-30, 0, 1 << 10))).astype(np.float32)
    wide = x.astype(np.float64)
    phi = ndtr(wide)
    unit = np.spacing(np.abs(wide * phi).astype(np.float32)).astype(np.float64)
    # 2.8 units right of 0, 4.5 or 1e-7 |x| left of it, and what another exp of NumPy may add
    assert (np.abs(smooth.gelu(x) - wide * phi) / np.maximum(unit, 2e-8 * np.abs(wide))).max() < 6
    density = np.exp(-wide * wide / 2) / np.sqrt(2 * np.pi)
    slope = smooth.gelu_backward(np.ones_like(x), x)
    np.testing.assert_allclose(slope, phi + wide * density, rtol=0, atol=4e-7)
    special_values = np.zeros(erf.MANY_NORMAL, np.float32)
    special_values[:5] = np.inf, 1e30, np.nan, -0.0, -1e30
    assert str(smooth.gelu(special_values)[:5].tolist()) == "[inf, 1.0000000150474662e+30, nan, -0.0, -0.0]"


@pytest.mark.parametrize("expression", ["x.exp()", "x.t().exp()", "x.half().exp()", "x.tanh()", "x.isnan()"])
def test_functions_of_numpy_give_the_same_on_several_threads(expression):
    import gradloom

    x = gradloom.from_numpy(draw(400, numbers.LARGE // 400 + 1))
    before = gradloom.get_num_threads()
    try:
        found = []
        for count in (1, 3):
            gradloom.set_num_threads(count)
            found.append(eval(expression, {"x": x}))
    finally:
        gradloom.set_num_threads(before)
    assert found[0].stride() == found[1].stride() and found[0].dtype == found[1].dtype
    # Vector loops of different lengths may round the remainder of an array differently.
    gradloom.testing.assert_close(found[0], found[1])


@pytest.mark.parametrize("in_vectors", [False, True])
@pytest.mark.parametrize(
    "kernel, exact, domain",
    [
        (single.expm1_of_negative, np.expm1, -np.logspace(-37, 2, 1 << 14)),
        (single.log1p_of_unit, np.log1p, np.logspace(-37, 0, 1 << 14)),
    ],
)
def test_float32_functions_are_off_by_a_few_units(kernel, exact, domain, in_vectors, monkeypatch):
    monkeypatch.setattr(single, "_IN_VECTORS", in_vectors)
    x = domain.astype(np.float32)
    wanted = exact(x.astype(np.float64))
    units = (kernel(x) - wanted) / np.spacing(np.abs(wanted).astype(np.float32))
    assert np.abs(units).max() < 6  # 3, and what another tanh of NumPy may add


@pytest.mark.parametrize("in_vectors", [False, True])
def test_float32_functions_keep_signs_of_zero_and_infinities(in_vectors, monkeypatch):
    monkeypatch.setattr(single, "_IN_VECTORS", in_vectors)
    found = single.expm1_of_negative(np.array([-0.0, -np.inf, np.nan], np.float32))
    assert str(found.tolist()) == "[-0.0, -1.0, nan]"
    assert str(single.log1p_of_unit(np.array([0, np.nan], np.float32)).tolist()) == "[0.0, nan]"
    found = smooth.softplus(np.array([-np.inf, np.inf, np.nan, 17.5, 3e38], np.float32))
    np.testing.assert_array_equal(found, np.array([0, np.inf, np.nan, 17.5, 3e38], np.float32))


@pytest.mark.parametrize("width", [1, 5, 32])
def test_short_running_sums_equal_long_ones(width, monkeypatch):
    x = draw(6, width)
    x[1, -1] = -0.0
    few = running.cumsum(x, 1)
    monkeypatch.setattr(running, "FEW", 0)
    np.testing.assert_array_equal(few, running.cumsum(x, 1))
    monkeypatch.setattr(running, "_BLOCK", 2 * width)
    np.testing.assert_array_equal(few, running.cumsum(x, 1))
    assert str(running.cumsum(np.array([[-0.0]], np.float32), 1)) == "[[0.]]"
    monkeypatch.setattr(running, "_SHORT", 0)
    np.testing.assert_allclose(few, running.cumsum(x, 1), rtol=1e-6, atol=1e-6)


def test_short_running_sums_with_infinities_and_nans():
    x = np.array([[1, np.inf, 2, -np.inf, 3], [1, 2, np.nan, 3, 4], [1, 2, 3, 4, 5]], np.float32)
    wanted = [[1, np.inf, np.inf, np.nan, np.nan], [1, 3, np.nan, np.nan, np.nan], [1, 3, 6, 10, 15]]
    np.testing.assert_array_equal(running.cumsum(x, 1), np.array(wanted, np.float32))


@pytest.mark.parametrize("shape, sizes, axis", [((3, 4, 5), (2, 4, 3), 1), ((4,), (7,), 0), ((3, 1), (3, 1), 0)])
def test_places_of_few_indices_equal_those_of_many(shape, sizes, axis, monkeypatch):
    index = np.random.default_rng(0).integers(0, shape[axis], sizes)
    few = tables.flat_places(index, axis, shape)
    monkeypatch.setattr(tables, "LONGEST", 0)
    np.testing.assert_array_equal(few, tables.flat_places(index, axis, shape))
    values = draw(*shape)
    part = values[tuple(slice(None) if d == axis else slice(n) for d, n in enumerate(sizes))]
    np.testing.assert_array_equal(values.take(few), np.take_along_axis(part, index, axis))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("dim", [0, 1])
def test_softmax_of_small_numbers_needs_no_shift(dtype, dim):
    x = draw(20, 30, dtype=dtype)
    exact = np.exp(x.astype(np.longdouble))
    exact /= exact.sum(dim, keepdims=True)
    eps = np.finfo(dtype).eps
    for shift in (0, 50, -50):  # by 50, the sum of squares is above the bound
        np.testing.assert_allclose(softmax.softmax(x + dtype(shift), dim), exact, rtol=(8 if not shift else 200) * eps)


@pytest.mark.parametrize("windows", [(2, 2, 0), (3, 1, 0), (3, 2, 0), (2, 1, 0)])
def test_pooling_of_a_few_windows_equals_pooling_in_blocks(windows, monkeypatch):
    kernel, stride, padding = windows
    x = np.round(draw(3, 9, 8), 1)  # with equal elements
    x[0, :2, :2] = -0.0, 0.0
    output = tuple((n - kernel) // stride + 1 for n in x.shape[1:])
    layout = Windows((9, 8), (kernel,) * 2, (stride,) * 2, (padding,) * 2, (1, 1), output)
    few = blocks.maximum(x, layout), blocks.add(x, layout, x.dtype), blocks.spread(draw(3, *output), layout)
    monkeypatch.setattr(blocks, "_FEW", 0)
    many = blocks.maximum(x, layout), blocks.add(x, layout, x.dtype), blocks.spread(draw(3, *output), layout)
    np.testing.assert_array_equal(few[0][0], many[0][0])
    np.testing.assert_array_equal(few[0][1], many[0][1])
    for a, b in zip(few[1:], many[1:], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_a_maximum_that_is_not_finite_is_found_in_blocks():
    x = draw(1, 4, 4)
    x[0, 0, 1], x[0, 2, 2], x[0, 3, 3] = np.nan, np.inf, -np.inf
    layout = Windows((4, 4), (2, 2), (2, 2), (0, 0), (1, 1), (2, 2))
    values, indices = blocks.maximum(x, layout)
    assert np.isnan(values[0, 0, 0]) and indices[0, 0, 0] == 1
    assert values[0, 1, 1] == np.inf and indices[0, 1, 1] == 10


@pytest.mark.parametrize("padding, dilation", [(0, 1), (1, 1), (2, 2), (1, 2)])
def test_flat_windows_equal_the_other_products(padding, dilation, monkeypatch):
    x, w, bias = draw(2, 3, 9, 7), draw(4, 3, 3, 2, seed=1), draw(4, seed=2)
    output = tuple(n + 2 * padding - dilation * (k - 1) for n, k in zip((9, 7), (3, 2), strict=True))
    layout = Windows((9, 7), (3, 2), (1, 1), (padding,) * 2, (dilation,) * 2, output)
    g = draw(2, 4, *output, seed=3)

    def all_three():
        return (
            products.forward(x, w, bias, layout, 1),
            products.input_gradient(g, w, layout, 1),
            products.weight_gradient(g, x, (3, 2), layout, 1),
        )

    assert flat.pays(2, w.shape, layout, 4)
    found = all_three()
    monkeypatch.setattr(flat, "pays", lambda *_: False)
    for a, b in zip(found, all_three(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "size, kernel, stride, padding, groups",
    [
        ((9, 7), (3, 2), (2, 3), (1, 1), 1),
        ((8, 8), (1, 1), (2, 2), (0, 0), 1),
        ((11, 5), (7, 3), (2, 2), (3, 0), 2),
        ((4, 9), (2, 2), (3, 1), (2, 3), 1),
        ((6, 5, 7), (3, 1, 4), (2, 2, 3), (1, 0, 2), 1),
    ],
)
def test_gradients_by_phases_equal_the_other_products(size, kernel, stride, padding, groups, monkeypatch):
    w, one = draw(4, 3, *kernel), (1,) * len(kernel)
    output = tuple((n + 2 * p - k) // s + 1 for n, p, k, s in zip(size, padding, kernel, stride, strict=True))
    layout, g = Windows(size, kernel, stride, padding, one, output), draw(2, 4, *output, seed=1)
    monkeypatch.setattr(products, "_phases_pay", lambda *_: False)
    expected = products.input_gradient(g, w, layout, groups)
    monkeypatch.setattr(products, "_phases_pay", lambda *_: True)
    np.testing.assert_allclose(products.input_gradient(g, w, layout, groups), expected, rtol=1e-4, atol=1e-4)
    w[0, 0] = np.nan  # must not meet zeros of the padding
    found = products.input_gradient(g, w, layout, groups)
    monkeypatch.setattr(products, "_phases_pay", lambda *_: False)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(products.input_gradient(g, w, layout, groups)))


@pytest.mark.parametrize("used", [10, 900])
def test_rows_are_added_in_order_however_many_are_used(used):
    pytest.importorskip("scipy")
    index = np.random.default_rng(0).integers(0, used, 2000)
    values = draw(2000, 32)
    found, expected = draw(1000, 32, seed=5), draw(1000, 32, seed=5)
    places.add_rows(found, index, values)
    np.add.at(expected, index, values)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)


def test_accumulating_at_vectors_of_integers_equals_the_general_way():
    index = (np.array([0, 2, 2, 0]), np.array([1, 3, 3, 0]))
    for values in (draw(4), draw(1)):  # the second broadcasts, which is the general way
        found, expected = np.zeros((3, 4), np.float32), np.zeros((3, 4), np.float32)
        tensors.index_put_(found, list(index), values, True)
        np.add.at(expected, index, values)
        np.testing.assert_array_equal(found, expected)
    with pytest.raises(IndexError, match="out of bounds"):
        tensors.index_put_(np.zeros((3, 4), np.float32), [np.array([3]), np.array([0])], draw(1), True)


def test_single_words_and_typed_calls_draw_the_same_stream():
    few, many = streams.Stream(7), streams.Stream(7)
    n = streams._FEW
    np.testing.assert_array_equal(np.concatenate([few.uniform24(n - 1), few.uniform24(3)]), many.uniform24(n + 2))
    np.testing.assert_array_equal(np.concatenate([few.words64(n // 2), few.words64(1)]), many.words64(n // 2 + 1))


@pytest.mark.parametrize("kernel", [softmax.softmax, softmax.log_softmax])
def test_softmax_of_many_rows_equals_that_of_parts(kernel):
    x, grad = 9 * draw(2, 700, 100), draw(2, 700, 100, seed=1)
    assert softmax._many_rows(x, 2)
    found = kernel(x, -1)
    np.testing.assert_allclose(found, np.stack([kernel(part, 1) for part in x]), rtol=1e-6, atol=1e-6)
    backward = softmax.softmax_backward if kernel is softmax.softmax else softmax.log_softmax_backward
    expected = [backward(g, out, 1, x.dtype) for g, out in zip(grad, found, strict=True)]
    np.testing.assert_allclose(backward(grad, found, -1, x.dtype), np.stack(expected), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("dim", [0, 1])
def test_log_softmax_without_a_shift_is_as_exact_as_with_one(dim, dtype, monkeypatch):
    x = np.clip(2 * draw(20, 30, dtype=dtype), -6, 6)
    exact = x.astype(np.longdouble)
    exact = exact - np.log(np.exp(exact).sum(dim, keepdims=True))
    bound = 4 * np.finfo(dtype).eps * np.abs(exact).max()  # of a sum of 30 terms and its logarithm
    assert np.abs(softmax.log_softmax(x, dim) - exact).max() < bound
    monkeypatch.setattr(softmax, "_SMALL", -1)
    assert np.abs(softmax.log_softmax(x, dim) - exact).max() < bound


@pytest.mark.parametrize("kernel", [extrema.max, extrema.min])
def test_extremes_of_few_elements_equal_those_of_many(kernel, monkeypatch):
    arrays = [draw(5, 7), draw(5, 7, dtype=np.float64).T, np.array([1, np.nan, 3, np.nan]), np.array(-np.inf)]
    few = [kernel(x) for x in arrays]
    monkeypatch.setattr(extrema, "LONGEST", 0)
    for x, found in zip(arrays, few, strict=True):
        many = np.asarray(kernel(x))
        np.testing.assert_array_equal(np.asarray(found), many)
        assert np.asarray(found).dtype == many.dtype and np.shape(found) == many.shape


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.complex64])
def test_stacked_contiguous_arrays_equal_others(dtype):
    x, y = (draw(3, 4, seed=seed).astype(dtype) for seed in (0, 1))
    np.testing.assert_array_equal(joins.stack([x, y]), joins.stack([np.asfortranarray(x), y]))
    assert joins.stack([x, y, y.astype(np.complex128)]).dtype == np.complex128
    assert joins.stack([x[:0], y[:0]]).shape == (2, 0, 4)


def test_a_kept_zero_has_no_sign():
    for zero in (-0.0, 0.0):
        assert not np.signbit(tables.number(zero, np.dtype(np.float32)))
        tables.number.cache_clear()


@pytest.mark.parametrize(("table", "make"), [(tables.ones, np.ones), (tables.column, lambda n, c: np.ones((n, 1), c))])
def test_kept_arrays_are_few_short_and_read_only(table, make):
    for n in range(1, 200):
        found = table["f", n]
        assert np.array_equal(found, make(n, "f")) and not found.flags.writeable and table["f", n] is found
    assert len(table) <= 64
    assert table["f", tables.LONGEST + 1].size == tables.LONGEST + 1 and ("f", tables.LONGEST + 1) not in table


def test_normal_numbers_do_not_depend_on_the_size_that_was_drawn_before():
    uniforms = np.random.default_rng(0).random(1 << 14, np.float32)
    expected = uniforms.copy()
    normal.box_muller(expected, 0.5, 2.0)
    for size in (16, 1024, 16, 4096, 4096):
        found = uniforms[:size].copy()
        normal.box_muller(found, 0.5, 2.0)
        assert np.array_equal(found, expected[:size])
    assert len(normal._spare) == 1 and normal._spare[0].pairs == 2048
