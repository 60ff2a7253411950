"""Samples of fake quantization, with elements inside and outside of the range."""

from __future__ import annotations

import gradloom

from . import tensor

# The straight-through estimator is no derivative of the rounding: tests/conformance/test_fake_quantize.py compares it
# with PyTorch's.
_ROUNDED = ("self", "scale", "zero_point")


def _integers(*values):
    return gradloom.tensor(values, dtype=gradloom.int32)


def _scales(*values):
    return gradloom.tensor(values, dtype=gradloom.float32)


def _per_tensor():
    for shape in ((2, 3), (0, 3), ()):
        yield (tensor(*shape), 0.13, 1, -3, 8), {}
    yield (tensor(3, 2).transpose(0, 1), 0.2, 0, 0, 5), {}


def _of_tensors():
    yield (tensor(2, 3), _scales(0.13), _integers(1), -3, 8), {}


def _of_tensors_with_mask():
    for enabled in (0, 1):
        yield (tensor(2, 3), _scales(0.13), _integers(1), _integers(enabled), -3, 8), {}


def _per_channel():
    yield (tensor(2, 3), _scales(0.13, 0.2), _integers(1, 0), 0, -3, 8), {}
    yield (tensor(2, 3), _scales(0.13, 0.2, 0.3), _scales(1, 0.5, 0), 1, -3, 8), {}
    yield (tensor(2, 0), _scales(0.13, 0.2), _integers(1, 0), 0, -3, 8), {}


def _mask_backward():
    yield (tensor(2, 3), gradloom.tensor([[True, False, True], [False, True, True]])), {}


def _learnable(*axis):
    def samples():
        size = 3 if axis else 1
        scale, zero_point = _scales(0.13, 0.2, 0.3)[:size], _scales(1, -0.6, 0)[:size]
        yield (tensor(2, 3), scale, zero_point, *axis, -3, 8, 0.5), {}
        yield (tensor(2, 3), scale, zero_point, *axis, -3, 8), {}

    return samples


def _learnable_backward(*axis):
    def samples():
        for (x, *rest), _ in _learnable(*axis)():
            yield (tensor(2, 3, seed=1).float(), x.float(), *rest), {}

    return samples


def _observed():
    for per_row in (False, True):
        size = 2 if per_row else 1
        for on in (0, 1):
            statistics = (_scales(*[value] * size) for value in (-0.5, 1.2, 0.2))
            switches = (_integers(on), _integers(1))
            yield (
                (tensor(2, 3).float(), *switches, *statistics, _integers(*[3] * size), 0.1, 0, 9, 0, per_row, True),
                {},
            )


SAMPLES = {
    "fake_quantize_per_tensor_affine": _per_tensor,
    "fake_quantize_per_tensor_affine.tensor_qparams": _of_tensors,
    "fake_quantize_per_tensor_affine_cachemask": _per_tensor,
    "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams": _of_tensors_with_mask,
    "fake_quantize_per_tensor_affine_cachemask_backward": _mask_backward,
    "fake_quantize_per_channel_affine": _per_channel,
    "fake_quantize_per_channel_affine_cachemask": _per_channel,
    "fake_quantize_per_channel_affine_cachemask_backward": _mask_backward,
    "_fake_quantize_learnable_per_tensor_affine": _learnable(),
    "_fake_quantize_learnable_per_tensor_affine_backward": _learnable_backward(),
    "_fake_quantize_learnable_per_channel_affine": _learnable(1),
    "_fake_quantize_learnable_per_channel_affine_backward": _learnable_backward(1),
    "fused_moving_avg_obs_fake_quant": _observed,
    "_fused_moving_avg_obs_fq_helper": _observed,
}
CONSTANT = {name: _ROUNDED for name in SAMPLES if not name.endswith("mask_backward")}
