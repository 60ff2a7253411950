"""Softmax and log-softmax, and their gradients."""

from __future__ import annotations

import numpy as np

from .._common.errors import not_implemented, refuse
from .._common.layout import row_major
from .._common.numbers import is_half, widen
from ..reduction.sums import ones

# Note [Rows]
# Softmax mostly runs over short contiguous rows, for which the overhead of NumPy's reductions exceeds the arithmetic.
# The sum of a row is a product with ones, by BLAS; the maximum is taken over the columns of a transposed copy.
_SHORT = 32


def _maximum(x: np.ndarray, dim: int) -> np.ndarray:
    """Return the maximum along a dimension, with the dimension kept."""
    count = x.shape[dim]
    if count <= _SHORT and x.ndim > 1 and dim in (-1, x.ndim - 1) and x.flags.c_contiguous:
        columns = x.reshape(-1, count).T.copy()
        return np.maximum.reduce(columns, axis=0).reshape(*x.shape[:-1], 1)
    return np.maximum.reduce(x, axis=dim, keepdims=True)


def _sum(x: np.ndarray, dim: int) -> np.ndarray:
    """Return the sum along a dimension, with the dimension kept."""
    if x.ndim > 1 and dim in (-1, x.ndim - 1) and x.flags.c_contiguous and x.size:
        count = x.shape[-1]
        return np.dot(x.reshape(-1, count), ones(x.dtype.char, count)).reshape(*x.shape[:-1], 1)
    return np.add.reduce(x, axis=dim, keepdims=True) if x.ndim else x.copy()


@np.errstate(all="ignore")
def softmax(self: np.ndarray, dim: int, half_to_float: bool = False) -> np.ndarray:
    """exp(self) / sum(exp(self)) along a dimension, shifted by the maximum."""
    x = _softmax_input(self, dim, half_to_float, "softmax")
    if x.ndim == 0:  # 1 for a finite number
        return np.asarray(np.exp(x - x), self.dtype)
    if x.size == 0:
        return np.ones_like(self)
    out = np.subtract(x, _maximum(x, dim), order="C")
    np.exp(out, out=out)
    out /= _sum(out, dim)
    return out if out.dtype is self.dtype else out.astype(self.dtype)


def safe_softmax(self: np.ndarray, dim: int, dtype: np.dtype | None = None) -> np.ndarray:
    """`softmax` after conversion to `dtype`; zeros where all elements along the dimension are -inf."""
    x = self if dtype is None else self.astype(dtype, copy=False)
    found = softmax(x, dim)
    if not x.size:
        return found
    nothing = np.logical_and.reduce(np.isneginf(widen(x)), axis=dim if x.ndim else None, keepdims=True)
    found[np.broadcast_to(nothing, found.shape)] = 0
    return found


@np.errstate(all="ignore")
def log_softmax(self: np.ndarray, dim: int, half_to_float: bool = False) -> np.ndarray:
    """self - log(sum(exp(self))) along a dimension, shifted by the maximum."""
    x = _softmax_input(self, dim, half_to_float, "log_softmax")
    if x.ndim == 0:  # 0 for a finite number
        return np.asarray(x - x, self.dtype)
    if x.size == 0:
        return np.zeros_like(self)
    out = np.subtract(x, _maximum(x, dim), order="C")
    total = _sum(np.exp(out), dim)
    if is_half(self.dtype) and dim in (-1, x.ndim - 1):  # PyTorch rounds the sum and its logarithm here
        total = np.log(total.astype(self.dtype)).astype(x.dtype)
    else:
        np.log(total, out=total)
    out -= total
    return out if out.dtype is self.dtype else out.astype(self.dtype)


def _softmax_input(self, dim, half_to_float, name) -> np.ndarray:
    ndim = self.ndim
    if not -max(ndim, 1) <= dim < max(ndim, 1):
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-max(ndim, 1)}, {max(ndim, 1) - 1}], but got {dim})"
        )
    if half_to_float:
        raise RuntimeError("softmax with half to float conversion is not supported on CPU")
    if self.dtype.kind not in "fV" and self.size:
        last = "_lastdim" if dim in (-1, max(ndim, 1) - 1) else ""
        raise not_implemented(f"{name}{last}_kernel_impl", self)
    return widen(self)


def softmax_backward(grad_output: np.ndarray, output: np.ndarray, dim: int, input_dtype: np.dtype) -> np.ndarray:
    """output * (grad_output - sum(grad_output * output)) along a dimension, where output = softmax(input)."""
    refuse("softmax_backward_lastdim_kernel_impl", grad_output, "c")
    out = widen(output)
    found = row_major(np.asarray(out * widen(grad_output)))
    total = _sum(found, dim)
    found -= np.multiply(out, total)
    return found if found.dtype is input_dtype else found.astype(input_dtype)


def log_softmax_backward(grad_output: np.ndarray, output: np.ndarray, dim: int, input_dtype: np.dtype) -> np.ndarray:
    """grad_output - exp(output) * sum(grad_output) along a dimension, where output = log_softmax(input)."""
    refuse("log_softmax_backward_lastdim_kernel_impl", grad_output, "c")
    grad = widen(grad_output)
    found = np.asarray(np.exp(widen(output), order="C"))
    found *= _sum(grad, dim)
    np.subtract(grad, found, out=found)
    return found if found.dtype is input_dtype else found.astype(input_dtype)
