"""Kernels with masks, and the positions of nonzero elements."""

from __future__ import annotations

import numpy as np

from ...types.dtype import c_name
from .._common.errors import size_mismatch, type_name
from .._common.layout import check_no_partial_overlap
from .._common.numbers import number_as
from ..elementwise.choices import select
from .places import private, still_writable, writable


def masked_fill(self, mask, value):
    """Fill with a number (or 0-dim array) where the mask holds; shapes broadcast. Raises RuntimeError for a mask that
    is not bool, a value with dimensions, or a number that does not fit the dtype."""
    number = _fill_value(self, mask, value)
    if mask.shape != self.shape:
        _check_broadcast(mask, self)
    found = select(mask, number, self)
    return found if found.flags.c_contiguous else found.copy()


def masked_fill_(self, mask, value):
    """`masked_fill` in place."""
    number = _fill_value(self, mask, value)
    if mask.shape != self.shape:
        _check_broadcast(self, mask)
        if np.broadcast_shapes(self.shape, mask.shape) != self.shape:
            raise RuntimeError(
                f"output with shape {list(self.shape)} doesn't match the broadcast shape "
                f"{list(np.broadcast_shapes(self.shape, mask.shape))}"
            )
    check_no_partial_overlap(still_writable(self, "masked_fill_"), mask)
    np.copyto(self, number, where=mask)
    return self


def check_mask(mask) -> None:
    """Raise RuntimeError unless the mask of a fill is bool."""
    if mask.dtype.kind != "b":
        raise RuntimeError(f"masked_fill_ only supports boolean masks, but got mask with dtype {c_name(mask.dtype)}")


def _fill_value(self, mask, value):
    check_mask(mask)
    if value.__class__ is not np.ndarray:
        return number_as(value, self.dtype)
    if value.ndim:
        raise RuntimeError(
            f"masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s)."
        )
    if value.dtype.kind == "c" and self.dtype.kind != "c":
        return number_as(complex(value), self.dtype)
    return value if value.dtype is self.dtype else number_as(value.item(), self.dtype)


def _check_broadcast(first, second):
    text = size_mismatch([first.shape, second.shape])
    if text:
        raise RuntimeError(text)


def nonzero(self):
    """Return the positions of the nonzero elements: (count, dimensions), int64."""
    if not self.ndim:
        return np.zeros((int(bool(self)), 0), np.int64)
    return np.array(self.nonzero(), np.int64).T


def nonzero_static(self, size, fill_value=-1):
    """Return the first `size` positions of `nonzero`, padded with `fill_value`."""
    if size < 0:
        raise RuntimeError("nonzero_static: 'size' must be an non-negative integer")
    found = nonzero(self)[:size]
    out = np.full((size, self.ndim), fill_value, np.int64)
    out[: found.shape[0]] = found
    return out


def masked_select(self, mask):
    """Return the elements where the mask holds, as a vector; the shapes broadcast."""
    if mask.dtype.kind != "b":
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    if mask.shape != self.shape:
        _check_broadcast(mask, self)
        self, mask = np.broadcast_arrays(self, mask)
    return self[private(mask)]


def masked_scatter(self, mask, source):
    """Replace the elements where the mask holds by those of `source`, in order; shapes broadcast."""
    _check_broadcast(mask, self)
    shape = np.broadcast_shapes(self.shape, mask.shape)
    return masked_scatter_(np.array(np.broadcast_to(self, shape), order="C"), mask, source)


def masked_scatter_(self, mask, source):
    """`masked_scatter` in place."""
    if source.dtype is not self.dtype:
        raise RuntimeError(
            "masked_scatter: expected self and source to have same dtypes but got"
            f"{type_name(self.dtype)} and {type_name(source.dtype)}"
        )
    if mask.dtype.kind != "b":
        raise RuntimeError(
            f"masked_scatter_ only supports boolean masks, but got mask with dtype {type_name(mask.dtype)}"
        )
    if mask.shape != self.shape:
        _check_broadcast(self, mask)
        if np.broadcast_shapes(self.shape, mask.shape) != self.shape:
            raise RuntimeError(
                f"output with shape {list(self.shape)} doesn't match the broadcast shape "
                f"{list(np.broadcast_shapes(self.shape, mask.shape))}"
            )
        mask = np.broadcast_to(mask, self.shape)
    mask = private(mask)
    count = np.count_nonzero(mask)
    if count > source.size:
        raise RuntimeError("Number of elements of source < number of ones in mask")
    writable(self)[mask] = source.reshape(-1)[:count]
    return self


def masked_scatter_backward(grad_output, mask, sizes):
    """Return the elements where the mask holds, in order, in an array of shape `sizes`; zeros after them."""
    found = grad_output[private(np.broadcast_to(mask, grad_output.shape))]
    out = np.zeros(sizes, grad_output.dtype)
    out.reshape(-1)[: found.size] = found
    return out
