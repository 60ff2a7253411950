"""Samples of convolutions: strides, padding, dilation, groups, transposed ones, and one to three dimensions."""

from __future__ import annotations

import numpy as np

import gradloom


def tensor(*shape, seed=0):
    return gradloom.from_numpy(np.random.default_rng([seed, *shape]).uniform(-1, 1, shape))


def convolution():
    for stride, padding, dilation, transposed, output_padding, groups in (
        (1, 0, 1, False, 0, 1),
        (2, 1, 1, False, 0, 1),
        (1, 1, 2, False, 0, 2),
        (2, 1, 1, True, 1, 1),
    ):
        weight = tensor(2, 2, 2, 3) if groups == 1 else tensor(2, 1, 2, 3)
        settings = (stride,) * 2, (padding,) * 2, (dilation,) * 2, transposed, (output_padding,) * 2, groups
        yield (tensor(2, 2, 4, 5), weight, tensor(2), *settings), {}
    yield (tensor(1, 2, 5), tensor(3, 2, 2), None, (1,), (0,), (1,), False, (0,), 1), {}


def convolution_backward():
    plain = ((1, 1), (0, 0), (1, 1), False, (0, 0), 1)
    for mask in ((True, True, True), (True, False, False), (False, True, True)):
        yield (tensor(1, 2, 3, 3), tensor(1, 2, 4, 4), tensor(2, 2, 2, 2), (2,), *plain, mask), {}
    mask = (True, True, True)
    grouped, turned = ((1,), (0,), (1,), False, (0,), 2), ((1,), (0,), (1,), True, (0,), 1)
    yield (tensor(1, 4, 3), tensor(1, 2, 4), tensor(4, 1, 2), (4,), *grouped, mask), {}
    yield (tensor(1, 3, 5), tensor(1, 2, 4), tensor(2, 3, 2), (3,), *turned, mask), {}


def convs(dims):
    def make():
        sizes, kernel = (5, 4, 4)[:dims], (2,) * dims
        one = (1,) * dims
        yield (tensor(2, 2, *sizes), tensor(3, 2, *kernel), tensor(3), one, (0,) * dims, one, 1), {}
        yield (tensor(2, *sizes), tensor(3, 2, *kernel), None, (2,) * dims, one, one, 1), {}

    return make


def padded(dims):
    def make():
        sizes, one = (5, 4, 4)[:dims], (1,) * dims
        for name in ("valid", "same"):
            yield (tensor(1, 2, *sizes), tensor(2, 2, *(2,) * dims), tensor(2), one, name, one, 1), {}

    return make


def transposed(dims):
    def make():
        sizes, one = (3, 3, 2)[:dims], (1,) * dims
        yield (tensor(1, 2, *sizes), tensor(2, 2, *(2,) * dims), tensor(2), (2,) * dims, (0,) * dims, one, 1, one), {}

    return make


def blocks():
    yield (tensor(1, 2, 4, 5), (2, 3), (1, 1), (0, 1), (2, 1)), {}


def merged():
    yield (tensor(1, 8, 6), (3, 4), (2, 2), (1, 1), (0, 0), (1, 1)), {}


def steps():
    for pad in (0, 1):
        yield (tensor(5, 2, 3), tensor(3, 3, 2), tensor(2), pad), {}


SAMPLES = {
    "conv_tbc": steps,
    "convolution": convolution,
    "convolution_backward": convolution_backward,
    "im2col": blocks,
    "col2im": merged,
    **{f"conv{n}d": convs(n) for n in (1, 2, 3)},
    **{f"conv{n}d.padding": padded(n) for n in (1, 2, 3)},
    "conv_transpose1d": transposed(1),
    "conv_transpose2d.input": transposed(2),
    "conv_transpose3d.input": transposed(3),
}
