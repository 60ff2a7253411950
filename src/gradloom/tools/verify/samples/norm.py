"""Samples of normalisations: with and without parameters, several ranks, channels last, evaluation.

The backward operators take the statistics as arguments but differentiate as if these were recomputed from the input.
So CALLS makes the statistics anew from the input, for finite differences to see that.
"""

from __future__ import annotations

import numpy as np

import gradloom
from gradloom.dispatch import _operators as ops


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
            for saved, train in (((None, None), False), ((tensor(c, seed=6), tensor(c, seed=7)), True)):
                settings = (weight, *running(c), *saved, train, 1e-3, (True, True, True))
                yield (tensor(*shape, seed=5), tensor(*shape), *settings), {}


def reserved():
    for args, _ in batches_backward():
        if args[2] is not None:
            yield (*args, gradloom.empty(0, dtype=gradloom.uint8)), {}


def reserved_anew(backward):
    def call(grad_out, input, weight, mean, var, save_mean, save_var, update, eps, output_mask, reserve):
        if update:
            saved = ops.native_batch_norm(input, weight, None, None, None, True, 0.0, eps)
            save_mean, save_var = saved[1], saved[2]
        return backward(grad_out, input, weight, mean, var, save_mean, save_var, update, eps, output_mask, reserve)

    return call


def batches_anew(backward):
    def call(grad_out, input, weight, mean, var, save_mean, save_invstd, train, eps, output_mask):
        if train:
            saved = ops.native_batch_norm(input, weight, None, None, None, True, 0.0, eps)
            save_mean, save_invstd = saved[1], saved[2]
        return backward(grad_out, input, weight, mean, var, save_mean, save_invstd, train, eps, output_mask)

    return call


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
    for n in (3, 0):
        grad, x, statistic, weight = tensor(n, 4, seed=5), tensor(n, 4), tensor(n, 1), tensor(4)
        yield (grad, x, (4,), statistic, statistic, weight, weight, (True, True, True)), {}
        yield (grad, x, (4,), statistic, statistic, None, None, (True, False, False)), {}


def layers_anew(backward):
    def call(grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask):
        _, mean, rstd = ops.native_layer_norm(input, normalized_shape, None, None, 1e-3)
        return backward(grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask)

    return call


def groups_backward():
    for n in (2, 0):
        grad, x, statistic = tensor(n, 6, 3, seed=5), tensor(n, 6, 3), tensor(n, 2)
        yield (grad, x, statistic, statistic, tensor(6), n, 6, 3, 2, (True, True, True)), {}
        yield (grad, x, statistic, statistic, None, n, 6, 3, 2, (True, False, False)), {}


def groups_anew(backward):
    def call(grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask):
        _, mean, rstd = ops.native_group_norm(input, None, None, N, C, HxW, group, 1e-3)
        return backward(grad_out, input, mean.detach(), rstd.detach(), weight, N, C, HxW, group, output_mask)

    return call


def legit(*kinds):
    """Samples of `native_batch_norm` for its variants, without `training` and statistics where they have none."""

    def samples():
        for shape in ((4, 3), (2, 2, 3)):
            c = shape[1]
            for training in kinds:
                yield (tensor(*shape), tensor(c, seed=1), tensor(c, seed=2), *running(c), training, 0.1, 1e-3), {}

    return samples


def without(samples, *places):
    def kept():
        for args, _ in samples():
            yield tuple([a for i, a in enumerate(args) if i not in places]), {}

    return kept


def weights():
    """Directions and lengths, for the first and the last dimension."""
    for shape, dim in (((3, 2), 0), ((3, 2), 1), ((2, 3, 2), 0), ((2, 3, 4), 2)):
        lengths = [n if d == dim else 1 for d, n in enumerate(shape)]
        yield (tensor(*shape), tensor(*lengths, seed=1), dim), {}


def weights_in_all_dimensions():
    yield from weights()
    yield (tensor(2, 3, 2), tensor(1, 3, 1, seed=1), 1), {}
    yield (tensor(2, 3), tensor(1, seed=1), -1), {}


def directions():
    for (v, _, dim), _ in weights_in_all_dimensions():
        for pow in (2, 1, 3):
            yield (v, pow, dim), {}


CALLS = {
    "native_batch_norm_backward": batches_anew,
    "batch_norm_backward": reserved_anew,
    "native_layer_norm_backward": layers_anew,
    "native_group_norm_backward": groups_anew,
}
SAMPLES = {
    "native_batch_norm": batches(),
    "native_batch_norm_backward": batches_backward,
    "_native_batch_norm_legit": legit(False, True),
    "_native_batch_norm_legit.no_stats": without(legit(True), 3, 4),
    "_native_batch_norm_legit_no_training": without(legit(False), 5),
    "_batch_norm_with_update": without(legit(True), 5),
    "_batch_norm_no_update": without(legit(False), 5),
    "batch_norm_backward": reserved,
    "batch_norm": batches(True),
    "instance_norm": instances,
    "native_layer_norm": layers(1e-3),
    "native_layer_norm_backward": layers_backward,
    "layer_norm": layers(1e-3, True),
    "native_group_norm": native_groups,
    "native_group_norm_backward": groups_backward,
    "group_norm": groups,
    "rms_norm": layers(1e-3, bias=False),
    "_weight_norm": weights_in_all_dimensions,
    "_weight_norm_interface": weights,
    "norm_except_dim": directions,
}

# The backward operators' statistics have no derivative. In evaluation the running statistics are data; composites
# cannot say that they have no derivative.
CONSTANT = dict.fromkeys(("batch_norm", "instance_norm"), ("running_mean", "running_var"))
CONSTANT |= dict.fromkeys(("native_layer_norm_backward", "native_group_norm_backward"), ("mean", "rstd"))

# Running statistics are updated though the schema does not say it, and needed if `training` is False.
FIXED = {
    "native_batch_norm": ("running_mean", "running_var", "training"),
    "native_batch_norm_backward": ("weight", "running_mean", "running_var", "train", "save_mean", "save_invstd"),
    "_native_batch_norm_legit": ("running_mean", "running_var", "training"),
    "_native_batch_norm_legit.no_stats": ("training",),
    "_native_batch_norm_legit_no_training": ("running_mean", "running_var"),
    "_batch_norm_with_update": ("running_mean", "running_var"),
    "_batch_norm_no_update": ("running_mean", "running_var"),
    "batch_norm_backward": ("weight", "running_mean", "running_var", "update", "save_mean", "save_var", "reserve"),
    "batch_norm": ("running_mean", "running_var", "training"),
    "instance_norm": ("running_mean", "running_var", "use_input_stats"),
    "native_group_norm": ("N", "C", "HxW", "input"),
    "native_group_norm_backward": ("N", "C", "HxW", "group", "input", "mean", "rstd"),
    "native_layer_norm_backward": ("weight", "bias", "mean", "rstd"),
}
