"""Samples of activations: numbers on all pieces of each function, away from the kinks; and of softmax."""

from __future__ import annotations

import gradloom

from . import tensor, transposed


def wide(*shape, seed=0):
    """Return numbers in (-4, 4.3) that are not kinks of an activation."""
    return tensor(*shape, low=-3.93, high=4.27, seed=seed)


def elementwise(*settings):
    """Inputs of several ranks, not contiguous and empty ones; further settings."""

    def samples():
        for x in (wide(3, 4), wide(), wide(0, 2), wide(4, 3).transpose(0, 1)):
            yield (x,), {}
        for args in settings:
            yield (wide(3, 4), *args), {}

    return samples


def backward(*settings, swapped=None, result=None):
    """A gradient, the input, and settings, in the schema's order: the settings are second if `swapped`."""

    def samples():
        for args in settings or ((),):
            pair = (tensor(3, 4, seed=1), wide(3, 4))
            yield (pair[0], *args, pair[1]) if swapped else (*pair, *args), {}

    return samples


def gelu(*arrays):
    def samples():
        for approximate in ("none", "tanh"):
            yield tuple(wide(3, 4, seed=i) for i in range(arrays[0])), {"approximate": approximate}

    return samples


def elu_backward():
    for is_result in (False, True):
        yield (tensor(3, 4, seed=1), 0.7, 1.3, 0.9, is_result, tensor(3, 4, low=-0.85, high=2)), {}


def prelu():
    yield (wide(2, 3), tensor(3)), {}
    yield (wide(2, 3, 2), tensor(3)), {}
    yield (wide(3), tensor(1)), {}
    yield (wide(), tensor()), {}


def prelu_kernel():
    yield (wide(2, 3), tensor(1, 3)), {}
    yield (wide(2, 3), tensor(2, 3)), {}


def prelu_kernel_backward():
    yield (tensor(2, 3, seed=1), wide(2, 3), tensor(2, 3)), {}


def log_sigmoid_backward():
    yield (tensor(3, 4, seed=1), wide(3, 4), (-wide(3, 4).abs()).exp().detach()), {}


def glu():
    yield (wide(2, 4), -1), {}
    yield (wide(4, 3), 0), {}
    yield (wide(2, 2, 3), 1), {}


def glu_backward():
    yield (tensor(2, 2, seed=1), wide(2, 4), -1), {}
    yield (tensor(2, 3, seed=1), wide(4, 3), 0), {}


def softmax(*rest, **kwargs):
    """The last, first and a middle dimension; 0-dim and zero-size inputs."""

    def samples():
        for x, dim in (
            (wide(3, 4), 1),
            (wide(3, 4), 0),
            (wide(2, 3, 2), -2),
            (wide(), 0),
            (wide(0, 3), 1),
            (transposed(4, 3), 1),
            (wide(2, 40), 1),
        ):
            yield (x, dim, *rest), dict(kwargs)

    return samples


def softmax_backward(function):
    def samples():
        for shape, dim in (((3, 4), 1), ((3, 4), 0), ((2, 3, 2), -2), ((), 0)):
            output = getattr(gradloom, function)(wide(*shape), dim)
            yield (tensor(*shape, seed=1), output, dim, gradloom.float64), {}

    return samples


def masked_softmax(with_output):
    """Masks of rows, of columns and of all elements of a row; the last dimension by default."""

    def samples():
        mask = gradloom.tensor([[True, False, False, False], [False, True, True, False], [False, False, False, True]])
        for rest in ((1,), (0,), ()):
            x = wide(3, 4)
            if with_output:
                yield (tensor(3, 4, seed=1), gradloom._masked_softmax(x, mask, *rest), mask, *rest), {}
            else:
                yield (x, mask, *rest), {}

    return samples


SAMPLES = {
    **{
        name: elementwise()
        for name in """
            relu relu_ relu6 relu6_ selu selu_ hardsigmoid hardswish silu mish log_sigmoid log_sigmoid_forward
            """.split()
    },
    "threshold": lambda: iter([((wide(3, 4), 0.5, -1.5), {}), ((wide(), -0.5, 2), {})]),
    "threshold_backward": backward((0.5,), (0,)),
    "hardtanh": elementwise((-0.5, 2.5)),
    "hardtanh_backward": backward((-0.5, 2.5)),
    "elu": elementwise((0.7, 1.3, 0.9)),
    "elu_backward": elu_backward,
    "celu": elementwise((0.7,)),
    "leaky_relu": elementwise((0.3,), (1.5,)),
    "leaky_relu_backward": backward((0.3, False), (0.3, True), (-0.3, False)),
    "prelu": prelu,
    "_prelu_kernel": prelu_kernel,
    "_prelu_kernel_backward": prelu_kernel_backward,
    "hardsigmoid_backward": backward(),
    "hardswish_backward": backward(),
    "hardshrink": elementwise((1.5,)),
    "hardshrink_backward": backward((0.5,)),
    "softshrink": elementwise((1.5,)),
    "softshrink_backward": backward((0.5,)),
    "gelu": gelu(1),
    "gelu_backward": gelu(2),
    "silu_backward": backward(),
    "mish_backward": backward(),
    "softplus": elementwise((1.7, 3)),
    "softplus_backward": backward((1, 20), (1.7, 3)),
    "log_sigmoid_backward": log_sigmoid_backward,
    "glu": glu,
    "glu_backward": glu_backward,
    "softmax.int": softmax(),
    "log_softmax.int": softmax(),
    "special_softmax": softmax(),
    "special_log_softmax": softmax(),
    "_softmax": softmax(False),
    "_safe_softmax": softmax(),
    "_masked_softmax": masked_softmax(False),
    "_masked_softmax_backward": masked_softmax(True),
    "_log_softmax": softmax(False),
    "_softmax_backward_data": softmax_backward("softmax"),
    "_log_softmax_backward_data": softmax_backward("log_softmax"),
}

# With a negative slope, the gradients of the in-place operators raise, as in PyTorch.
FIXED = {"elu_": ("alpha", "scale", "input_scale"), "leaky_relu_": ("negative_slope",), "celu_": ("alpha",)}
