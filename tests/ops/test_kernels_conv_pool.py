"""The convolution and pooling kernels against loops that follow the definition, and their own adjoints."""

from __future__ import annotations

import itertools
import math
from functools import partial

import numpy as np
import pytest

from gradloom.kernels._common import threads
from gradloom.kernels.conv import convolution as conv
from gradloom.kernels.pool import pooling as pool
from tests.rounding import assert_sums_agree

RNG = np.random.default_rng


def numbers(*shape: int, dtype: str = "float64", seed: int = 0) -> np.ndarray:
    draws = RNG(seed).standard_normal(shape)
    if dtype.startswith("complex"):
        return (draws + 1j * RNG(seed + 1).standard_normal(shape)).astype(dtype)
    return (draws * 5).astype(dtype) if np.dtype(dtype).kind in "iu" else draws.astype(dtype)


def places(size, kernel, stride, padding, dilation, output):
    """(output position, kernel position, input position) of everything that meets inside the input."""
    for i in itertools.product(*map(range, output)):
        for k in itertools.product(*map(range, kernel)):
            j = tuple(a * s + b * d - p for a, s, b, d, p in zip(i, stride, k, dilation, padding, strict=True))
            if all(0 <= a < n for a, n in zip(j, size, strict=True)):
                yield i, k, j


def looped(x, w, bias, stride, padding, dilation, groups):
    size, kernel = x.shape[2:], w.shape[2:]
    output = tuple(
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, p, d, k, s in zip(size, padding, dilation, kernel, stride, strict=True)
    )
    out = np.zeros((len(x), len(w), *output), x.dtype)
    each, inner = len(w) // groups, w.shape[1]
    for i, k, j in places(size, kernel, stride, padding, dilation, output):
        for o in range(len(w)):
            channels = slice(o // each * inner, (o // each + 1) * inner)
            out[(slice(None), o, *i)] += x[(slice(None), channels, *j)] @ w[(o, slice(None), *k)]
    return out if bias is None else out + bias.reshape(-1, *(1 for _ in size))


# batch, groups, channels and outputs of a group, size, kernel, stride, padding, dilation
GEOMETRIES = {
    "1d": (2, 1, 3, 2, (7,), (3,), (1,), (1,), (1,)),
    "1d-strided": (2, 2, 2, 3, (9,), (2,), (3,), (0,), (1,)),
    "many-channels": (2, 1, 17, 3, (5, 6), (3, 3), (1, 1), (1, 1), (1, 1)),
    "few-channels": (3, 1, 1, 4, (7, 8), (3, 2), (1, 1), (0, 0), (1, 1)),
    "strided": (2, 1, 18, 2, (7, 6), (3, 2), (2, 3), (1, 0), (1, 1)),
    "dilated": (1, 1, 17, 2, (8, 7), (3, 2), (1, 2), (2, 1), (2, 3)),
    "dilation-shares-stride": (1, 1, 17, 2, (9, 9), (3, 3), (2, 4), (1, 1), (4, 2)),
    "stride-beyond-kernel": (1, 1, 16, 2, (9, 8), (2, 1), (3, 3), (0, 0), (1, 1)),
    "padding-beyond-input": (1, 1, 2, 2, (1, 2), (3, 2), (1, 1), (3, 2), (1, 1)),
    "pointwise": (2, 1, 5, 4, (8, 9), (1, 1), (1, 1), (0, 0), (1, 1)),
    "pointwise-small": (3, 1, 5, 4, (1, 1), (1, 1), (1, 1), (0, 0), (1, 1)),
    "groups": (2, 3, 2, 2, (5, 5), (3, 3), (1, 1), (1, 1), (1, 1)),
    "groups-many-channels": (2, 2, 17, 2, (4, 4), (2, 2), (1, 1), (0, 0), (1, 1)),
    "depthwise": (2, 4, 1, 1, (6, 5), (3, 3), (1, 2), (1, 1), (1, 1)),
    "depthwise-multiplied": (2, 3, 1, 2, (6, 5), (2, 3), (2, 1), (1, 0), (1, 2)),
    "3d": (1, 1, 2, 3, (4, 3, 5), (2, 3, 2), (1, 1, 2), (1, 1, 0), (1, 1, 2)),
    "3d-groups": (2, 2, 1, 2, (3, 4, 3), (2, 2, 2), (2, 1, 1), (0, 1, 0), (1, 1, 1)),
    "no-batch": (0, 1, 2, 3, (4, 4), (2, 2), (1, 1), (0, 0), (1, 1)),
}


def arguments(name: str, dtype: str = "float64"):
    n, groups, inner, each, size, kernel, stride, padding, dilation = GEOMETRIES[name]
    x = numbers(n, groups * inner, *size, dtype=dtype, seed=1)
    w = numbers(groups * each, inner, *kernel, dtype=dtype, seed=2)
    bias = numbers(groups * each, dtype=dtype, seed=3)
    return x, w, bias, (stride, padding, dilation), groups


@pytest.mark.parametrize("name", GEOMETRIES)
def test_convolution_follows_the_definition(name):
    x, w, bias, settings, groups = arguments(name)
    for b in (bias, None):
        out = conv.convolution(x, w, b, *settings, False, 0, groups)
        magnitude = looped(abs(x), abs(w), None if b is None else abs(b), *settings, groups)
        assert_sums_agree(out, looped(x, w, b, *settings, groups), magnitude, w[0].size + 1)
        assert out.flags.c_contiguous and out.dtype == x.dtype


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("name", GEOMETRIES)
def test_convolution_backward_is_the_adjoint(name, dtype):
    x, w, bias, settings, groups = arguments(name, dtype)
    out = conv.convolution(x, w, bias, *settings, False, 0, groups)
    g = numbers(*out.shape, dtype=dtype, seed=4)
    gi, gw, gb = conv.convolution_backward(g, x, w, list(bias.shape), *settings, False, 0, groups, [True] * 3)
    assert (gi.shape, gw.shape, gb.shape) == (x.shape, w.shape, bias.shape)
    dx, dw, db = (numbers(*a.shape, dtype=dtype, seed=5) for a in (x, w, bias))
    for given, (change, gradient) in (((dx, w), (dx, gi)), ((x, dw), (dw, gw)), (None, (db, gb))):
        if given is None:
            tangent = db.reshape(-1, *(1 for _ in out.shape[2:]))
            magnitude = np.sum(abs(tangent) * abs(g))
        else:
            tangent = conv.convolution(*given, None, *settings, False, 0, groups)
            magnitude = np.sum(conv.convolution(*map(abs, given), None, *settings, False, 0, groups) * abs(g))
        left, right = np.sum(tangent * g.conj()), np.vdot(gradient, change)
        assert_sums_agree(left, right, magnitude, g.size * w[0].size + x.size)


@pytest.mark.parametrize("name", [name for name in GEOMETRIES if name != "padding-beyond-input"])
def test_transposed_convolution_is_the_adjoint_of_convolution(name):
    x, w, _, (stride, padding, dilation), groups = arguments(name)
    out = conv.convolution(x, w, None, stride, padding, dilation, False, 0, groups)
    g = numbers(*out.shape, seed=4)
    # The rows that a stride leaves over at the end of the input are the transposed one's output_padding.
    extra = tuple(
        (n + 2 * p - d * (k - 1) - 1) % s
        for n, p, d, k, s in zip(x.shape[2:], padding, dilation, w.shape[2:], stride, strict=True)
    )
    bias = numbers(x.shape[1], seed=6)
    back = conv.convolution(g, w, bias, stride, padding, dilation, True, extra, groups)
    assert back.shape == x.shape
    shift = bias.reshape(-1, *(1 for _ in x.shape[2:]))
    largest = conv.convolution(abs(g), abs(w), abs(bias), stride, padding, dilation, True, extra, groups)
    terms = g.size * w[0].size + x.size
    assert_sums_agree(np.vdot(back - shift, x), np.vdot(g, out), np.vdot(largest, abs(x)), terms)
    h = numbers(*back.shape, seed=7)
    gi, gw, gb = conv.convolution_backward(
        h, g, w, [len(bias)], stride, padding, dilation, True, extra, groups, [True] * 3
    )
    magnitude = np.vdot(largest, abs(h))
    assert_sums_agree(np.vdot(gi, g), np.vdot(h, back - shift), magnitude, terms)
    assert_sums_agree(np.vdot(gw, w), np.vdot(h, back - shift), magnitude, terms)
    others = (0, *range(2, h.ndim))
    assert_sums_agree(gb, h.sum(axis=others), np.abs(h).sum(axis=others), h.size)


def test_output_mask_leaves_out_gradients():
    x, w, _, settings, groups = arguments("groups")
    g = np.ones_like(conv.convolution(x, w, None, *settings, False, 0, groups))
    result = conv.convolution_backward(g, x, w, None, *settings, False, 0, groups, [False, True, False])
    assert result[0] is None and result[1] is not None and result[2] is None


def test_bias_enters_the_small_products_of_few_channels():
    x, w, bias, settings, groups = arguments("few-channels", "float32")
    x[0, 0, 0, 0] = np.inf
    out = conv.convolution(x, w, bias, *settings, False, 0, groups)
    assert not np.isfinite(out[0, :, 0, 0]).any() and np.isfinite(out[1:]).all()


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8"])
def test_integers_are_exact(dtype):
    x, w, bias, settings, groups = arguments("many-channels", dtype)
    out = conv.convolution(x, w, bias, *settings, False, 0, groups)
    assert out.dtype == dtype
    np.testing.assert_array_equal(out, looped(x, w, bias, *settings, groups))


def test_half_precision_is_rounded_once():
    x, w, bias, settings, groups = arguments("many-channels", "float16")
    wide = [a.astype("float32") for a in (x, w, bias)]
    out = conv.convolution(x, w, bias, *settings, False, 0, groups)
    assert out.dtype == np.float16
    expected = conv.convolution(*wide, *settings, False, 0, groups)
    np.testing.assert_array_equal(out, expected.astype("float16"))


def test_threads_and_blocks_change_nothing(monkeypatch):
    """Images and rows cut into blocks for several threads give what one block gives."""
    x, w = numbers(5, 4, 40, 40, seed=1), numbers(6, 4, 5, 5, seed=2)
    few = numbers(5, 1, 70, 70, seed=3), numbers(6, 1, 3, 3, seed=4)
    one_image = numbers(1, 16, 90, 90, seed=5), numbers(3, 16, 3, 3, seed=6)

    pairs = (x, w), few, one_image

    def results(pairs=pairs):
        for a, b in pairs:
            out = conv.convolution(a, b, None, 1, 1, 1, False, 0, 1)
            yield out
            yield from conv.convolution_backward(out, a, b, None, 1, 1, 1, False, 0, 1, [True] * 3)
            yield from pool.max_pool2d_with_indices(a, 3, 2, 1)
            yield pool.avg_pool2d(a, 3, 2, 1)

    monkeypatch.setattr(threads, "_threads", 1)
    alone = list(results())
    magnitudes = list(results([(abs(a), abs(b)) for a, b in pairs]))
    monkeypatch.setattr(threads, "_threads", 3)
    monkeypatch.setattr(threads, "_pool", None)
    together = list(results())
    for a, b, magnitude in zip(alone, together, magnitudes, strict=True):
        assert_sums_agree(a, b, magnitude, 1 << 16)
    for a, b in zip(together, results(), strict=True):
        np.testing.assert_array_equal(a, b)  # whichever thread took which block


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stride": 0}, "non-positive stride"),
        ({"padding": -1}, "negative padding"),
        ({"dilation": 0}, "dilation should be greater than zero"),
        ({"groups": 0}, "non-positive groups"),
        ({"groups": 4}, "expected weight to be divisible by 4"),
        ({"groups": 3}, "to have 6 channels, but got 2 channels"),
        ({"stride": [1, 1, 1]}, "expected stride to be a single integer value or a list of 2 values"),
        ({"weight": np.ones((6, 2, 9, 9))}, "Kernel size can't be greater than actual input size"),
        ({"weight": np.ones((6, 2, 3))}, "4-dimensional input"),
        ({"weight": np.ones((6, 2, 0, 3))}, "kernel size should be greater than zero"),
        ({"weight": np.ones((6, 2, 3, 3), "float32")}, "should be the same"),
        ({"bias": np.ones(5)}, "expected bias to be 1-dimensional with 6 elements"),
        ({"bias": np.ones(6, "float32")}, "Input type"),
        ({"transposed": True, "weight": np.ones((2, 3, 3, 3)), "output_padding": 1}, "output padding must be smaller"),
        ({"transposed": True, "weight": np.ones((2, 3, 1, 1)), "padding": 4}, "Output size is too small"),
    ],
)
def test_wrong_arguments_are_named(change, message):
    given = {
        "input": np.ones((1, 2, 5, 5)),
        "weight": np.ones((6, 2, 3, 3)),
        "bias": None,
        "stride": 1,
        "padding": 0,
        "dilation": 1,
        "transposed": False,
        "output_padding": 0,
        "groups": 1,
    }
    with pytest.raises(RuntimeError, match=message):
        conv.convolution(**(given | change))


@pytest.mark.parametrize(
    ("kernel", "dilation", "padding", "stride"),
    [((2, 3), (1, 1), (0, 0), (1, 1)), ((2, 2), (2, 1), (1, 2), (2, 1)), ((3, 1), (1, 2), (1, 0), (1, 3))],
)
def test_im2col_follows_the_definition_and_col2im_is_its_adjoint(kernel, dilation, padding, stride):
    x = numbers(2, 3, 6, 7)
    columns = conv.im2col(x, kernel, dilation, padding, stride)
    output = tuple(
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, p, d, k, s in zip(x.shape[2:], padding, dilation, kernel, stride, strict=True)
    )
    expected = np.zeros((2, 3, *kernel, *output))
    for i, k, j in places(x.shape[2:], kernel, stride, padding, dilation, output):
        expected[(slice(None), slice(None), *k, *i)] = x[(slice(None), slice(None), *j)]
    np.testing.assert_array_equal(columns, expected.reshape(2, 3 * math.prod(kernel), -1))
    np.testing.assert_array_equal(conv.im2col(x[0], kernel, dilation, padding, stride), columns[0])
    c = numbers(*columns.shape, seed=1)
    back = conv.col2im(c, (6, 7), kernel, dilation, padding, stride)
    np.testing.assert_allclose(np.vdot(back, x), np.vdot(c, columns))
    np.testing.assert_array_equal(conv.col2im(c[0], (6, 7), kernel, dilation, padding, stride), back[0])


def test_fold_refuses_what_does_not_fit():
    with pytest.raises(RuntimeError, match="divisible by the product of kernel_size"):
        conv.col2im(np.ones((1, 7, 9)), (4, 4), 2, 1, 0, 1)
    with pytest.raises(RuntimeError, match=r"number of sliding blocks 3 \* 3 = 9"):
        conv.col2im(np.ones((1, 8, 5)), (4, 4), 2, 1, 0, 1)
    with pytest.raises(RuntimeError, match="components must be at least one"):
        conv.im2col(np.ones((1, 1, 4, 4)), 5, 1, 0, 1)


# size, kernel, stride, padding, dilation, ceil_mode
POOLS = {
    "1d": ((9,), (3,), (2,), (1,), (1,), False),
    "2x2": ((6, 8), (2, 2), (2, 2), (0, 0), (1, 1), False),
    "2x2-left-over": ((7, 5), (2, 2), (2, 2), (0, 0), (1, 1), False),
    "2x2-ceil": ((7, 5), (2, 2), (2, 2), (0, 0), (1, 1), True),
    "overlapping": ((7, 8), (3, 3), (2, 2), (1, 1), (1, 1), False),
    "overlapping-ceil": ((6, 8), (3, 2), (2, 3), (1, 1), (1, 1), True),
    "dilated": ((9, 8), (2, 3), (1, 2), (1, 1), (2, 3), False),
    "wide": ((3, 300), (2, 2), (1, 2), (0, 0), (1, 1), False),
    "gaps": ((7, 9), (1, 2), (3, 4), (0, 0), (1, 1), False),
    "3d": ((4, 5, 6), (2, 3, 2), (2, 1, 2), (1, 1, 0), (1, 1, 1), True),
}


def looped_max_pool(x, kernel, stride, padding, dilation, output):
    size = x.shape[1:]
    out, indices = np.zeros((len(x), *output), x.dtype), np.full((len(x), *output), -1)
    for i, _, j in places(size, kernel, stride, padding, dilation, output):
        for n in range(len(x)):
            value, at = x[(n, *j)], (n, *i)
            if indices[at] < 0 or value > out[at] or value != value:
                out[at], indices[at] = value, np.ravel_multi_index(j, size)
    return out, indices


@pytest.mark.parametrize("content", ["distinct", "ties", "nan", "minus-infinity", "int64"])
@pytest.mark.parametrize("name", POOLS)
def test_max_pool_and_its_indices(name, content):
    size, kernel, stride, padding, dilation, ceil_mode = POOLS[name]
    dims = len(size)
    x = numbers(6, *size, dtype="int64" if content == "int64" else "float64")
    if content == "ties":
        x = np.round(x)
    elif content == "nan":
        x[RNG(1).random(x.shape) < 0.2] = np.nan
    elif content == "minus-infinity":
        x[RNG(1).random(x.shape) < 0.8] = -np.inf
    forward = partial(pool.max_pool_with_indices, dims)
    out, indices = forward(x.reshape(2, 3, *size), kernel, stride, padding, dilation, ceil_mode)
    expected, places_of = looped_max_pool(x, kernel, stride, padding, dilation, out.shape[2:])
    np.testing.assert_array_equal(out.reshape(expected.shape), expected)
    np.testing.assert_array_equal(indices.reshape(expected.shape), places_of)
    assert indices.dtype == np.int64 and out.flags.c_contiguous
    if content != "int64":
        g = numbers(*out.shape, seed=2)
        backward = partial(pool.max_pool_with_indices_backward, dims)
        gi = backward(g, x.reshape(2, 3, *size), kernel, stride, padding, dilation, ceil_mode, indices)
        expected_gi = np.zeros((6, math.prod(size)))
        np.add.at(expected_gi, (np.arange(6)[:, None], places_of.reshape(6, -1)), g.reshape(6, -1))
        np.testing.assert_allclose(gi.reshape(6, -1), expected_gi, atol=1e-12)


@pytest.mark.parametrize("divisor", [None, 3, -2])
@pytest.mark.parametrize("count_include_pad", [True, False])
@pytest.mark.parametrize("name", [name for name in POOLS if name != "dilated"])
def test_avg_pool_and_its_adjoint(name, count_include_pad, divisor):
    size, kernel, stride, padding, dilation, ceil_mode = POOLS[name]
    dims = len(size)
    x = numbers(2, 3, *size)
    settings = (kernel, stride, padding, ceil_mode, count_include_pad, divisor)
    out = pool.avg_pool(dims, x, *settings)
    total, counts = np.zeros(out.shape), np.zeros(out.shape[2:])
    for i, _, j in places(size, kernel, stride, padding, dilation, out.shape[2:]):
        total[(..., *i)] += x[(..., *j)]
        counts[i] += 1
    if count_include_pad:  # the padding counts, but not what a ceil_mode window has beyond it
        grown = tuple(n + 2 * p for n, p in zip(size, padding, strict=True))
        counts[...] = 0
        for i, _, _ in places(grown, kernel, stride, (0,) * dims, dilation, out.shape[2:]):
            counts[i] += 1
    np.testing.assert_allclose(out, total / (counts if divisor is None else divisor), atol=1e-12)
    g = numbers(*out.shape, seed=1)
    gi = pool.avg_pool_backward(dims, g, x, *settings)
    np.testing.assert_allclose(np.vdot(gi, x), np.vdot(g, out))


def test_avg_pool_divides_integers_towards_zero():
    x = np.array([[[[1, 2], [4, 4]]]])
    assert pool.avg_pool2d(x, 2).item() == 2
    assert pool.avg_pool2d(-x, 2).item() == -2
    assert pool.avg_pool2d(x, 2, divisor_override=-2).item() == -5


@pytest.mark.parametrize(
    ("size", "output"),
    [
        ((7,), (3,)),
        ((3,), (5,)),
        ((8, 6), (4, 2)),
        ((7, 6), (3, 4)),
        ((5, 5), (1, 1)),
        ((20, 40), (1, 2)),
        ((3, 4, 5), (2, 4, 3)),
        ((4, 4, 4), (2, 2, 2)),
        ((4, 4), (0, 2)),
    ],
)
def test_adaptive_pools(size, output):
    dims = len(size)
    x = numbers(2, 3, *size)
    if dims == 2 and 0 not in output:
        x[0, 0, 1] = np.nan
    average = partial(pool.adaptive_avg_pool, dims)
    mean, (largest, indices) = average(x, output), pool.adaptive_max_pool(dims, x, output)
    assert mean.shape == largest.shape == indices.shape == (2, 3, *output)
    flat = np.arange(math.prod(size)).reshape(size)
    for i in np.ndindex(*output):
        part = tuple(slice(a * n // o, math.ceil((a + 1) * n / o)) for a, n, o in zip(i, size, output, strict=True))
        window = x[(..., *part)].reshape(2, 3, -1)
        np.testing.assert_allclose(mean[(..., *i)], window.mean(axis=-1), atol=1e-12)
        first, at = looped_max_pool(window.reshape(6, -1), window.shape[-1:], (1,), (0,), (1,), (1,))
        np.testing.assert_array_equal(largest[(..., *i)], first.reshape(2, 3))
        np.testing.assert_array_equal(indices[(..., *i)], flat[part].reshape(-1)[at.reshape(2, 3)])
    x = np.nan_to_num(x)
    g = numbers(*mean.shape, seed=1)
    backward = partial(pool.adaptive_avg_pool_backward, dims)
    np.testing.assert_allclose(np.vdot(backward(g, x), x), np.vdot(g, average(x, output)), atol=1e-12)
    gi = pool.adaptive_max_pool_backward(dims, g, x, indices)
    assert gi.shape == x.shape
    np.testing.assert_allclose(gi.sum(), g.sum(), atol=1e-12)


def test_max_unpool_puts_maxima_back():
    x = numbers(2, 3, 6, 6)
    out, indices = pool.max_pool2d_with_indices(x, 2)
    back = pool.max_unpool2d(out, indices, (6, 6))
    kept = back != 0
    np.testing.assert_array_equal(back[kept], x[kept])
    assert kept.sum() == out.size
    with pytest.raises(RuntimeError, match="Found an invalid max index: 36"):
        pool.max_unpool2d(out, np.full_like(indices, 36), (6, 6))
    with pytest.raises(RuntimeError, match="int64"):
        pool.max_unpool2d(out, indices.astype("int32"), (6, 6))


def test_pools_take_unbatched_and_empty_batches():
    x = numbers(3, 6, 6)
    np.testing.assert_array_equal(pool.max_pool2d_with_indices(x, 2)[1], pool.max_pool2d_with_indices(x[None], 2)[1][0])
    out, indices = pool.max_pool2d_with_indices(x[None][:0], 2)
    assert out.shape == (0, 3, 3, 3)
    assert pool.max_pool2d_with_indices_backward(out, x[None][:0], 2, 2, 0, 1, False, indices).shape == (0, 3, 6, 6)
    assert pool.adaptive_avg_pool2d(x[None][:0], 4).shape == pool.adaptive_max_pool2d(x[None][:0], 4)[0].shape


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (dict(kernel_size=2, padding=2), "pad should be at most half of effective kernel size"),
        (dict(kernel_size=2, padding=-1), "pad must be non-negative"),
        (dict(kernel_size=7), "Output size is too small"),
        (dict(kernel_size=2, stride=0), "stride should not be zero"),
        (dict(kernel_size=0), "kernel size should be greater than zero"),
        (dict(kernel_size=[2, 2, 2]), "kernel_size must either be a single int, or a tuple of 2 ints"),
    ],
)
def test_pools_refuse_windows_that_do_not_fit(settings, message):
    for function in (pool.max_pool2d_with_indices, pool.avg_pool2d):
        with pytest.raises(RuntimeError, match=message):
            function(np.ones((1, 2, 5, 5)), **settings)


def test_pools_refuse_other_dtypes():
    with pytest.raises(NotImplementedError):
        pool.max_pool2d_with_indices(np.ones((1, 1, 4, 4), complex), 2)
    with pytest.raises(NotImplementedError):
        pool.adaptive_avg_pool2d(np.ones((1, 1, 4, 4), int), 2)
