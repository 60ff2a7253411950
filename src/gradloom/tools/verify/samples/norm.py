"""Samples of normalisations: with and without parameters, several ranks, channels last, evaluation.

The backward operators take the statistics as arguments but differentiate as if these were recomputed from the input.
A finite difference sees that only where a sample makes the statistics anew, so they are tested through the forward
operators (their second derivatives) and, in the conformance tests, against PyTorch; here only in evaluation.
"""

from __future__ import annotations

import numpy as np

import gradloom


def tensor(*shape, seed=0, low=-1.0, high=1.0):
    return gradloom.from_numpy(np.random.default_rng([seed, *shape]).uniform(low, high, shape))


def running(channels):
    return tensor(channels, seed=3), tensor(channels, seed=4, low=0.5, high=2.0)


def batches(*last):
    """Inputs of several ranks, in training and in evaluation."""

    def samples():
        for shape in ((4, 3), (3, 2, 4), (2, 2, 3, 2)):
            c = shape[1]
            yield (tensor(*shape), tensor(c, seed=1), tensor(c, seed=2), None, None, True, 0.1, 1e-3, *last), {}
            yield (tensor(*shape), None, None, *running(c), False, 0.1, 1e-3, *last), {}
        x = tensor(2, 3, 2, 2).contiguous(memory_format=gradloom.channels_last)
        yield (x, tensor(3), None, None, None, True, 0.1, 1e-3, *last), {}

    return samples


def instances():
    for shape in ((2, 2, 4), (2, 3, 2, 2)):
        c = shape[1]
        yield (tensor(*shape), tensor(c, seed=1), tensor(c, seed=2), None, None, True, 0.1, 1e-3, True), {}
        yield (tensor(*shape), None, None, *running(c), False, 0.1, 1e-3, True), {}


def batches_backward():
    for shape in ((4, 3), (2, 2, 3)):
        c = shape[1]
        for weight in (None, tensor(c, seed=1)):
            settings = (weight, *running(c), None, None, False, 1e-3, (True, True, True))
            yield (tensor(*shape, seed=5), tensor(*shape), *settings), {}


def layers(*last, bias=True):
    def samples():
        for shape, dims in (((3, 4), 1), ((2, 3, 2), 2), ((2, 3, 2), 1), ((0, 3), 1)):
            sizes = shape[-dims:]
            weight, offset = tensor(*sizes, seed=1), tensor(*sizes, seed=2)
            yield (tensor(*shape), sizes, weight, *((offset,) if bias else ()), *last), {}
            yield (tensor(*shape), sizes, None, *((None,) if bias else ()), *last), {}
        yield (tensor(4, 3).transpose(0, 1), (4,), None, *((None,) if bias else ()), *last), {}

    return samples


def groups():
    for shape, count in (((2, 4), 2), ((2, 4, 3), 2), ((1, 6, 2, 2), 3)):
        c = shape[1]
        yield (tensor(*shape), count, tensor(c, seed=1), tensor(c, seed=2), 1e-3), {}
        yield (tensor(*shape), count, None, None, 1e-3), {}


def native_groups():
    for args, _ in groups():
        x, count, weight, bias, eps = args
        yield (x, weight, bias, *x.shape[:2], x[0, 0].numel(), count, eps), {}


def layers_backward():
    grad, x, statistic, weight = tensor(0, 3, seed=5), tensor(0, 3), tensor(0, 1), tensor(3)
    yield (grad, x, (3,), statistic, statistic, weight, weight, (True, True, True)), {}


def groups_backward():
    grad, x, statistic = tensor(0, 4, 2, seed=5), tensor(0, 4, 2), tensor(0, 2)
    yield (grad, x, statistic, statistic, tensor(4), 0, 4, 2, 2, (True, True, True)), {}


SAMPLES = {
    "native_batch_norm": batches(),
    "native_batch_norm_backward": batches_backward,
    "batch_norm": batches(True),
    "instance_norm": instances,
    "native_layer_norm": layers(1e-3),
    "native_layer_norm_backward": layers_backward,
    "layer_norm": layers(1e-3, True),
    "native_group_norm": native_groups,
    "native_group_norm_backward": groups_backward,
    "group_norm": groups,
    "rms_norm": layers(1e-3, bias=False),
}

# The backward operators' statistics have no derivative. In evaluation the running statistics are data; composites
# cannot say that they have no derivative.
CONSTANT = dict.fromkeys(("batch_norm", "instance_norm"), ("running_mean", "running_var"))
CONSTANT |= dict.fromkeys(("native_layer_norm_backward", "native_group_norm_backward"), ("mean", "rstd"))
