"""Activations: ReLU and its relatives, softmax and log-softmax."""

from __future__ import annotations

import numpy as np

from ..dtype import TYPE_OF, scalar_type_name
from ._precision import widen


def relu(self: np.ndarray) -> np.ndarray:
    """max(self, 0); NaN stays."""
    if self.dtype.kind == "b":
        raise RuntimeError("Boolean inputs not supported for relu")
    if self.dtype.kind == "c":
        raise NotImplementedError("clamp is not supported for complex types")
    return np.maximum(self, self.dtype.type(0))


def threshold(self: np.ndarray, threshold, value) -> np.ndarray:
    """`self` where it is above `threshold` (or NaN), `value` elsewhere."""
    if self.dtype.kind == "b":
        raise NotImplementedError("\"threshold_cpu\" not implemented for 'Bool'")
    low, fill = as_type(threshold, self.dtype), as_type(value, self.dtype)
    return np.where(self <= low, fill, self)


def threshold_backward(grad_output: np.ndarray, self: np.ndarray, threshold) -> np.ndarray:
    """`grad_output` where `self` is above `threshold` (or NaN), 0 elsewhere."""
    low = as_type(threshold, self.dtype)
    return keep_where(grad_output, self > low if self.dtype.kind in "iub" else ~(self <= low))


def keep_where(values: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """`values` where `mask` holds, 0 elsewhere, also instead of infinities and NaNs.

    A product of the bits and the mask: `np.where` would branch at every element and mispredict half of them.
    """
    if values.dtype.itemsize > 8:
        return np.where(mask, values, values.dtype.type(0))
    bits = values.view(f"i{values.dtype.itemsize}")
    return np.multiply(bits, mask, dtype=bits.dtype).view(values.dtype)


def as_type(number, dtype: np.dtype) -> np.generic:
    """A Python number as NumPy's scalar of a dtype, integers truncated and wrapped.

    Raises:
        RuntimeError: for a complex number and a dtype that is not complex.
    """
    kind = dtype.kind
    if number.__class__ is complex and kind != "c":
        raise RuntimeError("value cannot be converted to type float without overflow")
    return np.int64(int(number)).astype(dtype) if kind in "iu" else dtype.type(number)


@np.errstate(all="ignore")
def softmax(self: np.ndarray, dim: int, half_to_float: bool = False) -> np.ndarray:
    """exp(self) / sum(exp(self)) along a dimension, shifted by the maximum."""
    x = _softmax_input(self, dim, half_to_float, "softmax")
    if x.size == 0 or x.ndim == 0:
        return np.ones_like(self)
    out = np.subtract(x, np.maximum.reduce(x, axis=dim, keepdims=True), order="C")
    np.exp(out, out=out)
    out /= np.add.reduce(out, axis=dim, keepdims=True)
    return out if out.dtype is self.dtype else out.astype(self.dtype)


@np.errstate(all="ignore")
def log_softmax(self: np.ndarray, dim: int, half_to_float: bool = False) -> np.ndarray:
    """self - log(sum(exp(self))) along a dimension, shifted by the maximum."""
    x = _softmax_input(self, dim, half_to_float, "log_softmax")
    if x.size == 0 or x.ndim == 0:
        return np.zeros_like(self)
    out = np.subtract(x, np.maximum.reduce(x, axis=dim, keepdims=True), order="C")
    total = np.add.reduce(np.exp(out), axis=dim, keepdims=True)
    out -= np.log(total, out=total)
    return out if out.dtype is self.dtype else out.astype(self.dtype)


def _softmax_input(self, dim, half_to_float, name) -> np.ndarray:
    ndim = self.ndim
    if not -max(ndim, 1) <= dim < max(ndim, 1):
        raise IndexError(f"Dimension out of range (expected to be in range of [{-max(ndim, 1)}, {max(ndim, 1) - 1}], "
                         f"but got {dim})")
    if half_to_float:
        raise RuntimeError("softmax with half to float conversion is not supported on CPU")
    if self.dtype.kind not in "fV":
        last = "_lastdim" if dim in (-1, ndim - 1) else ""
        raise NotImplementedError(f"\"{name}{last}_kernel_impl\" not implemented for "
                                  f"'{scalar_type_name(TYPE_OF[self.dtype])}'")
    return widen(self)


def softmax_backward(grad_output: np.ndarray, output: np.ndarray, dim: int, input_dtype: np.dtype) -> np.ndarray:
    """output * (grad_output - sum(grad_output * output)) along a dimension, where output = softmax(input)."""
    out = widen(output)
    if out.ndim == 0:
        return np.zeros_like(output)
    found = out * widen(grad_output)
    total = np.add.reduce(found, axis=dim, keepdims=True)
    found -= np.multiply(out, total)
    return found if found.dtype is input_dtype else found.astype(input_dtype)


def log_softmax_backward(grad_output: np.ndarray, output: np.ndarray, dim: int, input_dtype: np.dtype) -> np.ndarray:
    """grad_output - exp(output) * sum(grad_output) along a dimension, where output = log_softmax(input)."""
    if output.ndim == 0:
        return np.zeros_like(output)
    grad = widen(grad_output)
    found = np.exp(widen(output), order="C")
    found *= np.add.reduce(grad, axis=dim, keepdims=True)
    np.subtract(grad, found, out=found)
    return found if found.dtype is input_dtype else found.astype(input_dtype)


