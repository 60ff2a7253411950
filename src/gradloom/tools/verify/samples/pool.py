"""Samples of pooling. Values are distinct and far apart, so that no step of finite differences changes a maximum."""

from __future__ import annotations

import numpy as np

import gradloom


def spread(*shape):
    values = np.random.default_rng(3).permutation(int(np.prod(shape))) * 0.1
    return gradloom.from_numpy(values.reshape(shape).astype(np.float64))


SIZES = {1: (7,), 2: (4, 5), 3: (4, 3, 3)}


def max_pool(dims):
    def make():
        for kernel, stride, padding, dilation, ceil in ((2, (), 0, 1, False), (3, 2, 1, 1, True), (2, 1, 0, 2, False)):
            stride = (stride,) * dims if stride else ()
            settings = (kernel,) * dims, stride, (padding,) * dims, (dilation,) * dims, ceil
            yield (spread(1, 2, *SIZES[dims]), *settings), {}

    return make


def max_pool_backward(dims):
    def make():
        x = spread(1, 2, *SIZES[dims])
        settings = (2,) * dims, (2,) * dims, (0,) * dims, (1,) * dims, False
        out, indices = getattr(gradloom.dispatch._operators, f"max_pool{dims}d_with_indices")(x, *settings)
        yield (gradloom.ones_like(out), x, *settings, indices), {}

    return make


def avg_pool(dims, full=True):
    def make():
        last = (None,) if full else ()
        yield (spread(1, 2, *SIZES[dims]), (2,) * dims, (), (0,) * dims, False, True, *last), {}
        yield (spread(1, 2, *SIZES[dims]), (2,) * dims, (2,) * dims, (1,) * dims, True, False, *last), {}

    return make


def avg_pool_backward(dims):
    def make():
        x = spread(1, 1, *SIZES[dims])
        for stride, *rest in (
            (1, 0, False, True, None),
            (2, 0, False, True, None),
            (2, 1, True, True, None),
            (2, 1, True, False, None),
            (3, 0, True, True, None),
        ):
            settings = (2,) * dims, (stride,) * dims, (rest[0],) * dims, *rest[1:]
            out = getattr(gradloom.dispatch._operators, f"avg_pool{dims}d")(x, *settings)
            yield (gradloom.ones_like(out), x, *settings), {}

    return make


def adaptive(dims):
    def make():
        yield (spread(1, 2, *SIZES[dims]), (2,) * dims), {}
        yield (spread(2, *SIZES[dims]), (1,) * dims), {}

    return make


def adaptive_avg_backward(dims):
    def make():
        yield (spread(1, 1, *(2,) * dims), spread(1, 1, *SIZES[dims])), {}

    return make


def adaptive_max_backward(dims):
    def make():
        x = spread(1, 2, *SIZES[dims])
        out, indices = getattr(gradloom.dispatch._operators, f"adaptive_max_pool{dims}d")(x, (2,) * dims)
        yield (gradloom.ones_like(out), x, indices), {}

    return make


def unpool(dims):
    def make():
        small = (2,) * dims
        settings = (small, small, (0,) * dims, (1,) * dims, False)
        out, indices = getattr(gradloom.dispatch._operators, f"max_pool{dims}d_with_indices")(
            spread(1, 2, *(4,) * dims), *settings
        )
        yield (out, indices, (4,) * dims, *((small, (0,) * dims) if dims == 3 else ())), {}

    return make


def _samples(dims):
    return gradloom.from_numpy(np.random.default_rng(5).random((1, 2, dims)))


def fractional(dims):
    def make():
        for kernel, output in ((2, 3), (1, 2), (2, 1)):
            yield (spread(1, 2, *(6, 7, 5)[:dims]), (kernel,) * dims, (output,) * dims, _samples(dims)), {}

    return make


def fractional_backward(dims):
    def make():
        x, settings = spread(1, 2, *(6, 7, 5)[:dims]), ((2,) * dims, (3,) * dims)
        pool = getattr(gradloom.dispatch._operators, f"fractional_max_pool{dims}d")
        out, indices = pool(x, *settings, _samples(dims))
        yield (gradloom.ones_like(out), x, *settings, indices), {}

    return make


SAMPLES = {
    "max_pool1d": max_pool(1),
    "max_pool1d_with_indices": max_pool(1),
    "avg_pool1d": avg_pool(1, full=False),
    "adaptive_avg_pool1d": adaptive(1),
    "adaptive_max_pool1d": adaptive(1),
}
for n in (2, 3):
    SAMPLES |= {
        f"max_pool{n}d": max_pool(n),
        f"max_pool{n}d_with_indices": max_pool(n),
        f"max_pool{n}d_with_indices_backward": max_pool_backward(n),
        f"avg_pool{n}d": avg_pool(n),
        f"avg_pool{n}d_backward": avg_pool_backward(n),
        f"_adaptive_avg_pool{n}d": adaptive(n),
        f"adaptive_avg_pool{n}d": adaptive(n),
        f"_adaptive_avg_pool{n}d_backward": adaptive_avg_backward(n),
        f"adaptive_max_pool{n}d": adaptive(n),
        f"adaptive_max_pool{n}d_backward": adaptive_max_backward(n),
        f"max_unpool{n}d": unpool(n),
        f"fractional_max_pool{n}d": fractional(n),
        f"fractional_max_pool{n}d_backward": fractional_backward(n),
    }

# The kernels of backward do not check the number of dimensions, as those of forward have done.
FIXED = dict.fromkeys(
    ("avg_pool2d_backward", "_adaptive_avg_pool2d_backward", "avg_pool3d_backward", "_adaptive_avg_pool3d_backward"),
    ("grad_output", "self"),
)
# The indices name different elements.
FIXED |= dict.fromkeys(("max_unpool2d", "max_unpool3d"), ("self", "indices"))
