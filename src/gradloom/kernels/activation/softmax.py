"""Softmax and log-softmax, and their gradients."""

from __future__ import annotations

import numpy as np

from .._common.dims import wrap_dim
from .._common.direct import empty_like
from .._common.errors import not_implemented, refuse
from .._common.layout import row_major
from .._common.numbers import is_half, widen
from .._common.tables import column, starts
from .._common.threads import share
from ..reduction.sums import row_sums

divide, exp, log, maximum = np.divide, np.exp, np.log, np.maximum
multiply, subtract = np.multiply, np.subtract

# Note [Rows]
# Softmax mostly runs over short contiguous rows, for which the overhead of NumPy's reductions exceeds the arithmetic.
# The sum of a row is a product with ones, by BLAS. The maximum of a very short row is taken over the columns of a
# transposed copy, that of a longer one at the place that argmax finds, which takes less per row than a reduction.
_VERY_SHORT, _SHORT = 16, 256

# Note [Broadcast operands]
# A ufunc with an operand that is broadcast starts a loop for each row, after it has set up an iterator. An assignment
# does not: within the cache, writing such an operand to a whole array first takes a third less time in all, for short
# rows and for long ones, if there is an array to write it to. The result is the same.

# Note [Softmax without a shift]
# The maximum is subtracted so that exp stays finite and the greatest term of a sum is not small. If all numbers are
# known to be small, or the maxima are near 0, that is so without it, and more exact: the difference is not rounded
# first. The sum of squares, one call of BLAS, bounds all numbers. log_softmax subtracts the logarithm of the sum, whose
# rounding errors grow with the maximum: below 3e-7 in float32, for numbers up to 6 and short rows.
_FEW = 4096  # elements, up to which the sum of squares of standard normal numbers stays below the bound
_NEAR = 10.0  # bound of maxima; exp(10) times 2**100 is finite in float32
_SMALL = 6.0  # bound of numbers for log_softmax
_BOUND = 4900.0  # 70 ** 2: exp(70) times _FEW is finite in float32, exp(-70) is a normal number


def _maximum(x: np.ndarray, dim: int) -> np.ndarray:
    """Return the maximum along a dimension, with the dimension kept."""
    count = x.shape[dim]
    if count <= _SHORT and x.ndim > 1 and dim in (-1, x.ndim - 1) and x.flags.c_contiguous:
        rows = x if x.ndim == 2 else x.reshape(-1, count)
        if count <= _VERY_SHORT:
            found = maximum.reduce(rows.T.copy(), 0)
        else:
            found = x.take(rows.argmax(1) + starts[rows.shape[0], count])
        return found[:, None] if rows is x else found.reshape(*x.shape[:-1], 1)
    return maximum.reduce(x, dim, None, None, True)


def _sum(x: np.ndarray, dim: int) -> np.ndarray:
    """Return the sum along a dimension, with the dimension kept."""
    if x.ndim > 1 and dim in (-1, x.ndim - 1) and x.flags.c_contiguous and x.size:
        if x.ndim == 2:
            return row_sums(x)[:, None]
        return row_sums(x.reshape(-1, x.shape[-1])).reshape(*x.shape[:-1], 1)
    return np.add.reduce(x, dim, None, None, True) if x.ndim else x.copy()


def softmax(self: np.ndarray, dim: int, half_to_float: bool = False) -> np.ndarray:
    """exp(self) / sum(exp(self)) along a dimension, shifted by the maximum where that is needed."""
    if _few_rows(self, dim) and not half_to_float:
        flat = self.reshape(-1)
        if flat.dot(flat) < _BOUND:  # false for NaN
            out = exp(self)
            return divide(out, out.dot(column[self.dtype.char, self.shape[1]]), out)
    x = _softmax_input(self, dim, half_to_float, "softmax")
    if x.ndim == 0:  # 1 for a finite number
        return np.asarray(exp(x - x), self.dtype)
    size = x.size
    if size == 0:
        return np.ones_like(self)
    if size <= _FEW and x.flags.c_contiguous:
        flat = x.reshape(-1)
        if flat.dot(flat) < _BOUND:  # false for NaN
            out = exp(x)
            return narrowed(divide(out, _sum(out, dim), out), self.dtype)
    if _many_rows(x, dim):
        return narrowed(_by_rows(_shifted_softmax, x), self.dtype)
    return narrowed(_shifted_softmax(x, dim), self.dtype)


def _few_rows(x, dim) -> bool:
    """Return whether the rows of a small contiguous matrix are meant."""
    return x.ndim == 2 and 0 < x.size <= _FEW and x.dtype.char in "fd" and dim in (1, -1) and x.flags.c_contiguous


def _shifted_softmax(x, dim=1, out=None):
    """Return softmax, or write it to `out`, an array of the shape of x in C order."""
    if out is None:
        out = np.empty(x.shape, x.dtype)
    top = _maximum(x, dim)
    if top.size and -_NEAR <= top.item(top.argmin()) and top.item(top.argmax()) <= _NEAR:  # false for NaN
        exp(x, out)
    else:
        out[...] = top
        subtract(x, out, out)
        exp(out, out)
    return divide(out, _sum(out, dim), out)


_LARGE = 1 << 17  # elements, from which on rows are worked on in blocks, on all threads
_BLOCK = 1 << 15  # elements whose temporaries stay in a core's cache


def _many_rows(x, dim) -> bool:
    """Return whether the last dimension of a large contiguous array is meant, and its rows fit a block."""
    return (
        x.size >= _LARGE and dim in (-1, x.ndim - 1) and x.ndim > 1 and x.shape[-1] <= _BLOCK and x.flags.c_contiguous
    )


def _by_rows(kernel, *arrays) -> np.ndarray:
    """Run a kernel of matrices with independent rows, which takes `out=`, on blocks of rows of contiguous arrays of one
    shape."""
    width = arrays[0].shape[-1]
    rows = [a.reshape(-1, width) for a in arrays]
    out = empty_like(rows[0])
    step = max(1, _BLOCK // width)

    def work(part) -> None:
        kernel(*[a[part] for a in rows], out=out[part])

    share(work, [slice(i, i + step) for i in range(0, len(out), step)])
    return out.reshape(arrays[0].shape)


def narrowed(found: np.ndarray, dtype: np.dtype) -> np.ndarray:
    return found if found.dtype is dtype else found.astype(dtype)


def safe_softmax(self: np.ndarray, dim: int, dtype: np.dtype | None = None) -> np.ndarray:
    """`softmax` after conversion to `dtype`; zeros where all elements along the dimension are -inf."""
    x = self if dtype is None else self.astype(dtype, copy=False)
    found = softmax(x, dim)
    if not x.size:
        return found
    nothing = np.logical_and.reduce(np.isneginf(widen(x)), axis=dim if x.ndim else None, keepdims=True)
    found[np.broadcast_to(nothing, found.shape)] = 0
    return found


def masked_softmax(self: np.ndarray, mask: np.ndarray, dim: int | None = None, mask_type: int | None = None):
    """softmax over the elements whose mask is False, 0 for others; NaN where all are masked. `mask_type` 0 stands for a
    mask (time, time) and 1 for (batch, time), of scores (batch, heads, time, time)."""
    refuse("masked_softmax", self, "biuc")
    _check_mask(mask)
    dim = wrap_dim(-1 if dim is None else dim, self.ndim)
    if mask.shape != self.shape:
        mask = np.broadcast_to(_mask_of_scores(mask, self.shape, mask_type), self.shape)
    if not self.size:
        return np.zeros_like(self)
    x = widen(self).copy()
    x[mask] = -np.inf
    with np.errstate(invalid="ignore"):
        found = _shifted_softmax(x.reshape(-1), 0).reshape(()) if not x.ndim else _shifted_softmax(x, dim)
    found[mask & ~np.isnan(found)] = 0  # also beside NaN
    return narrowed(found, self.dtype)


def _mask_of_scores(mask, shape, mask_type):
    if mask.ndim != 2 or len(shape) != 4 or mask_type == 2:
        raise RuntimeError("For mask_type == 2 mask shape should match input shape")
    if mask_type is None:
        raise RuntimeError("Mask Type should be defined")
    if mask_type not in (0, 1):
        raise RuntimeError("Mask Type should be 0 (src_mask) or 1 (src_key_padding_mask), or 2 (default_mask)")
    if mask_type == 0 and mask.shape != shape[2:]:
        raise RuntimeError("For mask_type == 0 mask shape should be (L, L)")
    if mask_type == 1 and mask.shape != (shape[0], shape[3]):
        raise RuntimeError("For mask_type == 1 mask shape should be (B, L)")
    return mask if mask_type == 0 else mask[:, None, None]


def _check_mask(mask):
    if mask.dtype != np.bool_:
        raise RuntimeError("Mask should be a boolean tensor")


def masked_softmax_backward(grad_output: np.ndarray, output: np.ndarray, mask: np.ndarray, dim: int | None = None):
    """The gradient of `masked_softmax`, whose result is `output`; 0 where the mask is True."""
    refuse("masked_softmax_backward", grad_output, "biuc")
    _check_mask(mask)
    if mask.shape != grad_output.shape:
        raise RuntimeError("Mask shape should match grad shape")
    out, grad = (np.where(mask, 0, widen(a)) for a in (output, grad_output))
    return narrowed(np.asarray(_softmax_gradient(grad, out, -1 if dim is None else dim)), grad_output.dtype)


def log_softmax(self: np.ndarray, dim: int, half_to_float: bool = False) -> np.ndarray:
    """self - log(sum(exp(self))) along a dimension, shifted by the maximum where that is needed."""
    if _few_rows(self, dim) and not half_to_float:
        flat = self.reshape(-1)
        if flat.item(flat.argmax()) <= _SMALL and flat.item(flat.argmin()) >= -_SMALL:  # false for NaN
            out = exp(self)
            total = out.dot(column[self.dtype.char, self.shape[1]])
            out[...] = log(total, total)
            return subtract(self, out, out)
    x = _softmax_input(self, dim, half_to_float, "log_softmax")
    if x.ndim == 0:  # 0 for a finite number
        return np.asarray(x - x, self.dtype)
    if x.size == 0:
        return np.zeros_like(self)
    if x is not self and is_half(self.dtype) and dim in (-1, x.ndim - 1):  # PyTorch rounds the sum and its logarithm
        out = subtract(x, _maximum(x, dim), order="C")
        total = log(_sum(exp(out), dim).astype(self.dtype)).astype(x.dtype)
        return narrowed(subtract(out, total, out), self.dtype)
    found = _by_rows(_shifted_log_softmax, x) if _many_rows(x, dim) else _shifted_log_softmax(x, dim)
    return narrowed(found, self.dtype)


def _shifted_log_softmax(x, dim=1, out=None):
    if out is None:
        out = np.empty(x.shape, x.dtype)
    out[...] = _maximum(x, dim)
    subtract(x, out, out)
    spread = exp(out)
    total = _sum(spread, dim)
    spread[...] = log(total, total)
    return subtract(out, spread, out)


def _softmax_input(self, dim, half_to_float, name) -> np.ndarray:
    ndim = self.ndim
    if self.dtype.char in "fd" and -ndim <= dim < ndim and not half_to_float:
        return self
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
    out, grad = widen(output), widen(grad_output)
    if _many_rows(out, dim) and _many_rows(grad, dim) and out.dtype is grad.dtype:
        return narrowed(_by_rows(_softmax_gradient, grad, out), input_dtype)
    return narrowed(_softmax_gradient(grad, out, dim), input_dtype)


def _softmax_gradient(grad, result, dim=1, out=None):
    if out is None:
        found = row_major(np.asarray(result * grad))
        return subtract(found, result * _sum(found, dim), found)
    multiply(result, grad, out)
    subtract(grad, _sum(out, dim), out)
    return multiply(out, result, out)


def log_softmax_backward(grad_output: np.ndarray, output: np.ndarray, dim: int, input_dtype: np.dtype) -> np.ndarray:
    """grad_output - exp(output) * sum(grad_output) along a dimension, where output = log_softmax(input)."""
    refuse("log_softmax_backward_lastdim_kernel_impl", grad_output, "c")
    out, grad = widen(output), widen(grad_output)
    if _many_rows(out, dim) and _many_rows(grad, dim) and out.dtype is grad.dtype:
        return narrowed(_by_rows(_log_softmax_gradient, grad, out), input_dtype)
    return narrowed(_log_softmax_gradient(grad, out, dim), input_dtype)


def _log_softmax_gradient(grad, result, dim=1, out=None):
    found = np.asarray(exp(result, order="C")) if out is None else exp(result, out)
    multiply(found, _sum(grad, dim), found)
    return subtract(grad, found, found)
