"""Fake quantization: floating numbers rounded to those that a quantized tensor can hold.

An element x becomes (q - zero_point) * scale, where q = rint(x / scale) + zero_point is an integer clamped to
[quant_min, quant_max]. The mask that goes with it is True where q was not clamped; there the straight-through
estimator (Bengio et al. 2013) passes the gradient on. With a scale per tensor, infinities are clamped. With a scale
per channel, and in the gradients of learned scales, all numbers beyond int64 become `quant_min`, as in PyTorch, whose
conversion to int64 yields the least one for them. NaN becomes `quant_min` everywhere.
"""

from __future__ import annotations

import numpy as np

from ._common.errors import dim_error, not_implemented, type_name
from ._common.layout import as_operands, new_like
from ._common.numbers import is_half, widen

_FLOAT32, _INT32 = np.dtype(np.float32), np.dtype(np.int32)
_ONE = np.float32(1)
_EXACT = 1 << 24  # integers up to here are float32 numbers
_RANGE = "`quant_min` should be less than or         equal to `quant_max`."
_ZERO_POINT = "`zero_point` must be between `quant_min` and `quant_max`."
_LEAST_SCALE = 6.1e-5  # of PyTorch's observers


def per_tensor(self, scale, zero_point, quant_min, quant_max):
    """Return (fake quantized `self`, mask) for one scale and zero point."""
    _check_range(quant_min, quant_max)
    if not quant_min <= zero_point <= quant_max:
        raise RuntimeError(_ZERO_POINT)
    return _round_to_tensor(self, scale, zero_point, quant_min, quant_max)


def per_tensor_of_tensors(self, scale, zero_point, fake_quant_enabled, quant_min, quant_max):
    """Return `per_tensor` for a scale and a zero point in tensors of one element, or (`self`, all True) if
    `fake_quant_enabled` is zero. The zero point may lie outside of the range."""
    _check_range(quant_min, quant_max)
    enabled, zero_point, scale = _item(fake_quant_enabled), _item(zero_point), _item(scale)
    zero_point = int(zero_point)
    if not -(1 << 31) <= zero_point < 1 << 31:
        raise RuntimeError("value cannot be converted to type int without overflow")
    if not int(enabled):
        _check_floating("fake_quantize_tensor_cachemask_kernel_type_handling", self)
        return _copy(self), new_like(self, np.bool_, make=np.ones_like)
    return _round_to_tensor(self, scale, zero_point, quant_min, quant_max)


def per_channel(self, scale, zero_point, axis, quant_min, quant_max):
    """Return (fake quantized `self`, mask) for a scale and a zero point per index of dimension `axis`.

    Args:
        self: floating array.
        scale: float32 vector of length `self.shape[axis]`.
        zero_point: vector of that length; int32, or float32 or float16, which need not be integers nor in the range.
    """
    if scale.dtype != _FLOAT32:
        _refuse_scale(scale.dtype)
    if zero_point.dtype not in (_INT32, _FLOAT32, np.float16):
        raise RuntimeError(f"Zero-point must be Int32, Float or Half, found {type_name(zero_point.dtype)}")
    _check_channels(self, scale, zero_point, axis)
    _check_range(quant_min, quant_max)
    if zero_point.dtype == _INT32:
        _check_zero_points(zero_point, quant_min, quant_max)
    _check_axis(axis)
    _check_floating("fake_quantize_channel_cachemask_cpu_type_handling", self)
    return _round_to_channels(self, scale, zero_point, axis, quant_min, quant_max)


def learnable_per_tensor(self, scale, zero_point, quant_min, quant_max, grad_factor=1.0):
    """Return fake quantized `self` for the scale and the zero point that are first in two vectors; the zero point is
    clamped and rounded to an integer. `grad_factor` concerns only the gradients."""
    number, zero = _first(scale), _first(zero_point)
    _check_range(quant_min, quant_max)
    zero = np.fmin(np.fmax(np.rint(zero), quant_min), quant_max) if zero == zero else zero
    return per_tensor(self, number, _as_zero_point(zero), quant_min, quant_max)[0]


def learnable_per_channel(self, scale, zero_point, axis, quant_min, quant_max, grad_factor=1.0):
    """Return fake quantized `self` for a scale and a zero point per index of dimension `axis`; zero points are rounded
    to integers and clamped. `grad_factor` concerns only the gradients."""
    return per_channel(self, scale, _learned_zero_points(zero_point, quant_min, quant_max), axis, quant_min, quant_max)[
        0
    ]


def learnable_per_tensor_backward(grad, self, scale, zero_point, quant_min, quant_max, grad_factor=1.0):
    """Return the gradients of `self`, the scale and the zero point (vectors of one element)."""
    number, zero = _first(scale), _first(zero_point)
    _check_float32(grad, self, scale, zero_point)
    if self.size != grad.size:
        raise RuntimeError("`X` and `dY` are not the same size")
    if not self.size:
        return self.copy(), scale.copy(), zero_point.copy()
    if not quant_min <= 0 <= quant_max:
        raise RuntimeError(f"{_RANGE[:-1]}, and the quantization range should include 0.")
    if zero == zero:
        zero = np.trunc(np.fmin(np.fmax(np.float32(zero) + np.float32(0.5), quant_min), quant_max))
    if not quant_min <= zero <= quant_max:
        raise RuntimeError(_ZERO_POINT)
    parts = _learned_gradients(grad, self, np.float32(number), np.float32(zero), quant_min, quant_max)
    of_scale, of_zero = (np.add.reduce(part, None, _FLOAT32).reshape(1) * np.float32(grad_factor) for part in parts[1:])
    return parts[0], of_scale, of_zero


def learnable_per_channel_backward(grad, self, scale, zero_point, axis, quant_min, quant_max, grad_factor=1.0):
    """Return the gradients of `self`, and of the scale and the zero point per index of dimension `axis`. (PyTorch sums
    the last two over all channels if `self` has one dimension, and refuses the sum in the backward pass.)"""
    _check_float32(grad, self, scale, zero_point)
    if self.shape != grad.shape:
        raise RuntimeError("`X` and `dY` are not the same size")
    if not quant_min <= 0 <= quant_max:
        raise RuntimeError("Expecting `quant_min` <= 0 and `quant_max` >= 0")
    if np.isnan(zero_point).any():
        raise RuntimeError("value cannot be converted to type int64_t without overflow")
    zeros = _learned_zero_points(zero_point, quant_min, quant_max)
    _check_zero_points(zeros, quant_min, quant_max)
    _check_channels(self, scale, zero_point, axis)
    _check_axis(axis)
    if not self.size:
        return self.copy(), scale.copy(), zero_point.copy()
    shape = _channel_shape(self, axis)
    parts = _learned_gradients(
        grad, self, scale.reshape(shape), zeros.astype(_FLOAT32).reshape(shape), quant_min, quant_max
    )
    others = tuple([d for d in range(self.ndim) if d != axis % self.ndim])
    of_scale, of_zero = (np.add.reduce(part, others, _FLOAT32) * np.float32(grad_factor) for part in parts[1:])
    return parts[0], of_scale, of_zero


def moving_average(
    self,
    observer_on,
    fake_quant_on,
    running_min,
    running_max,
    scale,
    zero_point,
    averaging_const,
    quant_min,
    quant_max,
    ch_axis,
    per_row_fake_quant=False,
    symmetric_quant=False,
):
    """Return (fake quantized `self`, mask) for the range of the elements seen so far.

    If `observer_on`, write to `running_min` and `running_max` the moving averages of the least and the greatest
    element, of `self` or of its rows; a first one replaces an infinite value. If `fake_quant_on`, write to `scale` and
    `zero_point` those that cover the range, and apply them; else return a copy and a mask that is True.
    """
    name = "fused_moving_avg_obs_fake_quant"
    if ch_axis >= self.ndim:
        raise RuntimeError(f"Error in {name}_cpu: ch_axis must be < self.dim()")
    if per_row_fake_quant and ch_axis != 0:
        raise RuntimeError(f"Per-channel FakeQuant in {name} is only supported on axis == 0")
    if self.dtype != _FLOAT32:
        raise RuntimeError(f"expected scalar type Float but found {type_name(self.dtype)}")
    count = self.shape[0] if per_row_fake_quant else 1
    for statistic in (running_min, running_max, scale, zero_point):
        if statistic.size < count:
            raise RuntimeError(
                f"{name}: running_min, running_max, scale and zero_point must have {count} elements, found "
                f"{statistic.size}"
            )
    if _item(observer_on):
        _observe(self, running_min, running_max, averaging_const, per_row_fake_quant)
    if not _item(fake_quant_on):
        return _copy(self), new_like(self, np.bool_, make=np.ones_like)
    _check_range(quant_min, quant_max)
    scale[...], zero_point[...] = _parameters(running_min, running_max, quant_min, quant_max, symmetric_quant)
    if per_row_fake_quant:
        return per_channel(self, scale, zero_point, 0, quant_min, quant_max)
    return per_tensor_of_tensors(self, scale, zero_point, np.ones(1, np.int64), quant_min, quant_max)


def _observe(x, running_min, running_max, averaging_const, per_row):
    if not x.size:
        raise RuntimeError(
            "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity."
        )
    dims = tuple(range(1, x.ndim)) if per_row else None
    weight = np.float32(averaging_const)
    for running, now in ((running_min, np.minimum.reduce(x, dims)), (running_max, np.maximum.reduce(x, dims))):
        running[...] = np.where(np.isinf(running), now, running + weight * (now - running))


def _parameters(low, high, quant_min, quant_max, symmetric):
    """Return the scales (float64) and zero points (int32) with which [quant_min, quant_max] covers ranges that are
    extended to contain zero. If it is `symmetric`, a range with numbers of both signs is extended to as many steps on
    both sides. A scale that float32 cannot invert becomes 0.1; another one below `_LEAST_SCALE` becomes that."""
    low, high = np.minimum(low, 0).astype(np.float64), np.maximum(high, 0).astype(np.float64)
    steps = quant_max - quant_min
    if symmetric:
        below, above = -(steps // 2 + 1), steps // 2
        unit = np.maximum(np.abs(low / below), np.abs(high / above))
        both = (low < 0) & (high > 0)
        low = np.where(both, (unit * below).astype(_FLOAT32), low)
        high = np.where(both, (unit * above).astype(_FLOAT32), high)
    scale = (high - low) / np.float64(steps)
    single = scale.astype(_FLOAT32)
    scale = np.where((single == 0) | np.isinf(_ONE / single), 0.1, scale)
    small = scale < _LEAST_SCALE
    if small.any():
        grown = _LEAST_SCALE / scale
        low, high = np.where(small, low * grown, low), np.where(small, high * grown, high)
        scale = np.where(small, _LEAST_SCALE, scale)
    # Zero's place counted from either end; the end with the smaller rounding errors is taken.
    from_low, from_high = quant_min - low / scale, quant_max - high / scale
    error_low, error_high = abs(quant_min) + np.abs(low / scale), abs(quant_max) + np.abs(high / scale)
    place = np.where(error_low < error_high, from_low, from_high)
    place = np.rint(np.fmin(np.fmax(place, quant_min), quant_max)) if place.size else place
    undefined = np.isnan(from_low) | np.isnan(from_high)
    return scale, np.where(undefined, np.iinfo(_INT32).min, np.where(undefined, 0, place)).astype(_INT32)


def _round_to_tensor(x, scale, zero_point, quant_min, quant_max):
    _check_floating("fake_quantize_tensor_cachemask_kernel_type_handling", x)
    scale = np.float32(scale)
    found = _copy(widen(x)).reshape(x.shape)
    np.multiply(found, _ONE / scale, out=found)
    np.rint(found, out=found)
    np.add(found, found.dtype.type(zero_point), out=found)
    low, high = np.float32(quant_min), np.float32(quant_max)
    mask = np.asarray((found >= low) & (found <= high))
    np.fmin(np.fmax(found, low, out=found), high, out=found)
    if max(abs(quant_min), abs(quant_max), abs(zero_point)) < _EXACT:
        np.subtract(found, found.dtype.type(zero_point), out=found)
    else:
        found = as_operands(np.asarray(_to_int64(found) - np.int64(zero_point)), x)
    found = found.astype(_FLOAT32, copy=False)
    return np.multiply(found, scale, out=found).astype(x.dtype, copy=False), mask


def _round_to_channels(x, scale, zero_point, axis, quant_min, quant_max):
    shape = _channel_shape(x, axis)
    scale, zero_point = scale.reshape(shape), zero_point.reshape(shape)
    found = _copy(widen(x)).reshape(x.shape)
    if zero_point.dtype == _INT32:
        np.rint(np.multiply(found, _ONE / scale, out=found), out=found)
        np.add(found, zero_point.astype(_FLOAT32), out=found)
    else:  # rounded once, as by the fused multiply-add of PyTorch's kernel (twice for float64)
        zero_point = zero_point.astype(_FLOAT32)
        np.rint((found * (_ONE / scale).astype(np.float64) + zero_point).astype(found.dtype), out=found)
    integers = np.asarray(_to_int64(found))
    mask = np.asarray((integers >= quant_min) & (integers <= quant_max))
    np.clip(integers, quant_min, quant_max, out=integers)
    if zero_point.dtype == _INT32:
        found[...] = integers - zero_point
        np.multiply(found, scale, out=found)
    else:
        found[...] = (integers - zero_point.astype(np.float64)) * scale
    return found.astype(x.dtype, copy=False), mask


def _learned_gradients(grad, x, scale, zero_point, quant_min, quant_max):
    """Return the gradient of `x`, and the elements whose sums are the gradients of the scale and the zero point. The
    scale of an element that was clamped has the derivative of (bound - zero_point) * scale; that of any other one the
    derivative of rint(x / scale) * scale where rint passes gradients through: rint(x / scale) - x / scale."""
    inverse = _ONE / scale
    place = _to_int64(np.rint(x * inverse) + zero_point)
    below, above = place < quant_min, place > quant_max
    inside = ~(below | above)
    kept = np.clip(place, quant_min, quant_max).astype(_FLOAT32) - zero_point
    with_scale = np.where(inside, (kept * scale - x) * inverse, kept)
    of_x = _copy(x)
    np.multiply(grad.reshape(x.shape), inside, out=of_x)
    grad = grad.reshape(x.shape)
    return of_x, grad * with_scale, np.where(inside, np.float32(0), -scale) * grad


def _to_int64(floats):
    """Truncate to int64; NaN and what lies outside of int64 become the least int64."""
    fits = (floats >= -(2.0**63)) & (floats < 2.0**63)
    return np.where(fits, np.where(fits, floats, 0).astype(np.int64), np.iinfo(np.int64).min)


def _copy(x):
    out = new_like(x)
    out[...] = x
    return out


def _learned_zero_points(zero_point, quant_min, quant_max):
    """Round, clamp and convert to int32; NaN becomes the least int32, which is out of most ranges."""
    rounded = np.asarray(np.clip(np.rint(widen(zero_point)), quant_min, quant_max))
    return np.where(np.isnan(rounded), np.iinfo(_INT32).min, rounded).astype(_INT32)


def _as_zero_point(number):
    if number != number:
        raise RuntimeError(_ZERO_POINT)
    return int(number)


def _item(array):
    if array.size != 1:
        raise RuntimeError(f"a Tensor with {array.size} elements cannot be converted to Scalar")
    return array.item() if not is_half(array.dtype) else float(array.astype(_FLOAT32).item())


def _first(array):
    if not array.ndim:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    if not array.shape[0]:
        raise IndexError("select(): index 0 out of range for tensor of size [0] at dimension 0")
    return _item(array[0])


def _channel_shape(x, axis):
    shape = [1] * x.ndim
    shape[axis] = x.shape[axis]
    return shape


def _check_range(quant_min, quant_max):
    if quant_min > quant_max:
        raise RuntimeError(_RANGE)


def _check_channels(x, scale, zero_point, axis):
    if scale.ndim != 1:
        raise RuntimeError("scale should be a 1-D tensor")
    if zero_point.ndim != 1:
        raise RuntimeError("zero point should be a 1-D tensor")
    if scale.size != zero_point.size:
        raise RuntimeError("scale and zero-point need to have the same dimensions")
    if not x.ndim and axis in (0, -1):
        raise IndexError(f"Dimension specified as {axis} but tensor has no dimensions")
    if not -x.ndim <= axis < x.ndim:
        raise dim_error(axis, x.ndim)
    if scale.size != x.shape[axis]:
        raise RuntimeError("dimensions of scale and zero-point are not consistent with input tensor")


def _check_zero_points(zero_point, quant_min, quant_max):
    if not zero_point.size:
        raise RuntimeError(
            "min(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with "
            "the 'dim' argument."
        )
    if np.minimum.reduce(zero_point, None) < quant_min or np.maximum.reduce(zero_point, None) > quant_max:
        raise RuntimeError(_ZERO_POINT)


def _check_axis(axis):
    if axis < 0:
        raise RuntimeError("`axis` must be between 0 and number of dimensions of input")


def _check_floating(name, x):
    if x.dtype.kind != "f" and not is_half(x.dtype) or x.dtype.itemsize == 1:
        raise not_implemented(name, x)


def _refuse_scale(dtype):
    if type_name(dtype) == "BFloat16":  # PyTorch accepts it, and its kernel fails an internal assertion
        raise RuntimeError("fake_quantize_per_channel_affine: scale in bfloat16 has no kernel; convert it to float32")
    raise RuntimeError(f"Scale must be Float or BFloat16, found {type_name(dtype)}")


def _check_float32(grad, x, scale, zero_point):
    for name, array in (("dY_", grad), ("X_", x), ("scale_", scale), ("zero_point_", zero_point)):
        if array.dtype != _FLOAT32:
            raise RuntimeError(
                f"Expected {name}.scalar_type() == ScalarType::Float to be true, but got false.  (Could this error "
                "message be improved?  If so, please report an enhancement request to PyTorch.)"
            )
