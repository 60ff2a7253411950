"""Samples of random operators: ranges that are not empty, and probabilities."""

from __future__ import annotations

import numpy as np

import gradloom


def tensor(*shape, seed=0, low=0.1, high=0.9):
    return gradloom.from_numpy(np.random.default_rng([seed, *shape]).uniform(low, high, shape))


def generator():
    return gradloom.Generator().manual_seed(3)


def calls(*samples):
    """Samples from functions that return (args, kwargs)."""

    def make():
        for sample in samples:
            yield sample()

    return make


def dropouts():
    for x in (tensor(3, 4), tensor(0, 2), tensor(4, 3).transpose(0, 1)):
        yield (x, 0.4, True), {}
        yield (x, 0.4, False), {}
    yield (tensor(3, 4), 1.0, True), {}


def dropout_backward():
    mask = gradloom.tensor([[True, False, True], [False, True, True]])
    yield (tensor(2, 3), mask, 2.0), {}


def leaky():
    x = gradloom.from_numpy(np.random.default_rng(5).uniform(-1, 1, (2, 3)))
    for training in (False, True):
        yield (x, tensor(2, 3, seed=1), 0.2, 0.4, training), {}
    yield (x, tensor(2, 3, seed=1)), {}


def leaky_backward():
    x = gradloom.from_numpy(np.random.default_rng(5).uniform(-1, 1, (2, 3)))
    yield (tensor(2, 3), x, tensor(2, 3, seed=1), 0.2, 0.4, False, False), {}


SAMPLES = {
    "rrelu_with_noise_backward": leaky_backward,
    "rrelu_with_noise": leaky,
    "rrelu_with_noise_": leaky,
    "rand.generator": calls(lambda: (((2, 3),), {"generator": None})),
    "randn.generator": calls(lambda: (((2, 3),), {"generator": None})),
    "randint.low": calls(lambda: ((-3, 4, (2, 3)), {"dtype": gradloom.int64})),
    "randint.low_generator": calls(lambda: ((-3, 4, (2, 3)), {"generator": None, "dtype": gradloom.int64})),
    "randint_like.low_dtype": calls(lambda: ((tensor(2, 3), -3, 4), {})),
    "randint_like.low_generator_dtype": calls(lambda: ((tensor(2, 3), -3, 4), {"generator": generator()})),
    "randint_like.Tensor": calls(lambda: ((tensor(2, 3), gradloom.tensor(5)), {})),
    "randint_like.Tensor_generator": calls(lambda: ((tensor(2, 3), gradloom.tensor(5)), {"generator": generator()})),
    "bernoulli": calls(lambda: ((tensor(2, 3),), {}), lambda: ((tensor(0, 3),), {})),
    "bernoulli_.Tensor": calls(lambda: ((tensor(2, 3), tensor(3)), {})),
    "random_.from": calls(lambda: ((tensor(2, 3), -3, 4), {})),
    "native_dropout": dropouts,
    "native_dropout_backward": dropout_backward,
}

# Seeded numbers move with mean and deviation, but are defined to have the gradient zero:
# tests/core/test_random_operators.py tests that.
CONSTANT: dict[str, tuple[str, ...]] = dict.fromkeys(
    ("normal.Tensor_float", "normal.float_Tensor", "normal.Tensor_Tensor"), ("mean", "std")
)
# Its gradient is that of the quantile of a draw, not of the accepted proposals: tests/core/test_gamma_draws.py.
CONSTANT["_standard_gamma"] = ("self",)

# With a negative slope, the gradient of the in-place operator raises, as in PyTorch.
FIXED = dict.fromkeys(("rrelu_with_noise", "rrelu_with_noise_"), ("lower", "upper"))
