"""Indexing by several tensors at once: reading, writing, and accumulating where places repeat."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ...types.silence import warn_user
from .._common.errors import type_name
from .._common.layout import as_operands, check_no_partial_overlap, row_major
from .._common.numbers import is_half, number_as
from ..shape.copies import clone
from .masks import check_mask
from .places import add_rows, private, still_writable, workspace

_every = slice(None)
_UNSIGNED, _INT64 = np.dtype(np.uint64), np.dtype(np.int64)


def index(self, indices):
    """Return a copy of the elements that integer and bool arrays select; None stands for a whole dimension."""
    key = _key(self, indices)
    try:
        if self.flags.c_contiguous and key:
            last = key[-1]
            if (
                last.__class__ is np.ndarray
                and last.dtype.kind != "b"
                and (len(key) == 1 or all(k is _every for k in key[:-1]))
                and (last.ndim < 2 or last.flags.c_contiguous)
            ):
                return self.take(last, len(key) - 1)
        key = _private(key)
        if self.flags.c_contiguous and key:
            for k in key:
                if k is _every or k.ndim != 1:
                    break
            else:
                return row_major(self[tuple(key)])
        out = self[tuple(key)]
    except IndexError:
        out = _nothing(self, key)
    if out.__class__ is not np.ndarray or np.may_share_memory(out, self):
        out = np.array(out)
    if self.flags.c_contiguous and all(k is _every or k.ndim < 2 or k.flags.c_contiguous for k in key):
        return row_major(out)
    return _laid_out(self, key, out)


def _nothing(self, key):
    """Return what indices that NumPy refused find: nothing, if there is nothing to find; else raise PyTorch's error."""
    inside = [k if k is _every or k.dtype.kind == "b" else np.zeros_like(k) for k in key]
    if not self.size:
        with suppress(IndexError):
            return self[tuple(inside)]
    raise _explained(self, key)


def _laid_out(self, key, out):
    """Lay the result out as PyTorch does, by the memory order of the other dimensions and of the indices."""
    arrays = [(d, k) for d, k in _single(key) if k is not None]
    indices = np.broadcast_arrays(*[k for _, k in arrays])
    dims = [d for d, _ in arrays]
    kept = [d for d in range(self.ndim) if d not in dims]
    # The indices' dimensions replace the first indexed one, or come first if other dimensions lie between indexed ones.
    first = dims[0] if dims[-1] - dims[0] == len(dims) - 1 else 0
    strides = [self.strides[d] for d in kept]
    count = indices[0].ndim
    after = len(kept) - first
    seen = [as_strided(self, out.shape, [*strides[:first], *(0,) * count, *strides[first:]])]
    seen += [as_strided(k, out.shape, [*(0,) * first, *k.strides, *(0,) * after]) for k in indices]
    return as_operands(out, *seen)


def _single(key):
    """Return (dimension, integer index or None) for each dimension; a mask gives an index for each of its own."""
    d = 0
    for part in key:
        for one in [None] if part is _every else part.nonzero() if part.dtype.kind == "b" else [part]:
            yield d, one
            d += 1


def index_put(self, indices, values, accumulate=False):
    """Return a copy of `self` with `values` written, or added, at the indices."""
    return index_put_(clone(self), indices, values, accumulate)


def index_put_(self, indices, values, accumulate=False, unsafe=False):
    """`index_put` in place."""
    mask = _one_mask(indices) if values.size == 1 and not accumulate else None
    if mask is not None:  # PyTorch fills: a number of any dtype, with a mask that may be the tensor itself
        check_mask(mask)
        still_writable(self, "masked_fill_")
        check_no_partial_overlap(self, mask)
        if values.dtype is not self.dtype or np.may_share_memory(self, values):
            values = number_as(values.item(), self.dtype)
    else:
        still_writable(self, "index_put_", values, *[i for i in indices if i is not None])
    if len(indices) > self.ndim:
        raise _too_many(self, indices)
    key = _private(_key(self, indices))
    for k, n in zip(key, self.shape, strict=False):
        if not n and k is not _every and k.dtype.kind != "b" and k.size:
            raise IndexError("index is out of bounds for dimension with size 0")
    if values.dtype is not self.dtype:
        raise RuntimeError(
            f"Index put requires the source and destination dtypes match, got {type_name(self.dtype)} for the "
            f"destination and {type_name(values.dtype)} for the source."
        )
    if np.may_share_memory(self, values):
        values = values.copy()
    try:
        if accumulate and any(k.__class__ is np.ndarray and k.dtype.kind != "b" for k in key):
            _accumulate(self, key, values)
        elif accumulate:
            self[tuple(key)] += values
        else:
            self[tuple(key)] = values
    except IndexError:
        _nothing(self, key)
    except (ValueError, TypeError):
        raise _value_mismatch(self, key, values) from None
    return self


def _private(key):
    return [k if k is _every else private(k) for k in key]


def _one_mask(indices):
    """Return the mask if it is the only index, else None."""
    arrays = [found for found in indices if found is not None]
    return arrays[0] if len(arrays) == 1 and arrays[0].dtype.char in "?B" else None


def _key(self, indices):
    """Return the indices in NumPy's form: integer and bool arrays, and slices."""
    key, dim = [], 0
    for found in indices:
        if found is None:
            key.append(_every)
            dim += 1
            continue
        kind = found.dtype
        if kind is not _INT64 and kind == np.uint8:
            warn_user("indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead.")
            found = found.astype(bool)
        elif kind is not _INT64 and kind.kind != "b" and kind != np.int64 and kind != np.int32:
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
        if kind is not _INT64 and found.dtype.kind == "b":
            require_fitting_mask(found.shape, self.shape, dim)
            dim += found.ndim
        else:
            dim += 1
        key.append(found)
    if dim > self.ndim:
        raise _too_many(self, indices)
    return key


def require_fitting_mask(mask: tuple[int, ...], shape: tuple[int, ...], dim: int) -> None:
    """Raise IndexError unless a mask fits the dimensions of `shape` from `dim` on."""
    if mask != shape[dim : dim + len(mask)]:
        at = _differing(mask, shape[dim:])
        raise IndexError(
            f"The shape of the mask {list(mask)} at index {at} does not match the shape of "
            f"the indexed tensor {list(shape)} at index {dim + at}"
        )


def _too_many(self, indices):
    return IndexError(f"too many indices for tensor of dimension {self.ndim} (got {len(indices)})")


def _value_mismatch(self, key, values):
    """Return the error for values, or indices, that do not broadcast."""
    try:
        shape = self[tuple(key)].shape
    except IndexError:
        return _explained(self, key)
    return RuntimeError(
        f"shape mismatch: value tensor of shape {list(values.shape)} cannot be broadcast to indexing "
        f"result of shape {list(shape)}"
    )


def _differing(mask, shape):
    return next((i for i, n in enumerate(mask) if i >= len(shape) or n != shape[i]), 0)


def _explained(self, key):
    """Return PyTorch's error for indices that NumPy refuses."""
    dim, arrays = 0, []
    for found in key:
        if found is not _every and found.dtype.kind != "b":
            n = self.shape[dim]
            bad = found[(found < -n) | (found >= n)]
            if bad.size:
                return IndexError(f"index {bad[0]} is out of bounds for dimension {len(arrays)} with size {n}")
        if found is not _every:
            arrays.append(found if found.dtype.kind != "b" else found.nonzero()[0])
            dim += found.ndim - 1 if found.dtype.kind == "b" else 0
        dim += 1
    shapes = ", ".join([str(list(a.shape)) for a in arrays])
    return IndexError(f"shape mismatch: indexing tensors could not be broadcast together with shapes {shapes}")


def _accumulate(self, key, values):
    """Add `values` at places that may be repeated. See Note [Repeated places]."""
    if _add_at_rows(self, key, values):
        return
    shape = self[tuple(key)].shape
    values = np.broadcast_to(values, shape)
    axes, arrays, dim = [], [], 0
    for found in key:
        parts = [] if found is _every else [found] if found.dtype.kind != "b" else found.nonzero()
        arrays += parts
        axes += range(dim, dim + len(parts))
        dim += max(len(parts), 1)
    arrays = np.broadcast_arrays(*arrays)
    count = arrays[0].ndim
    if axes == list(range(axes[0], axes[0] + len(axes))):  # adjacent: the indices' dimensions replace the first
        values = np.moveaxis(values, range(axes[0], axes[0] + count), range(count))
    moved = self.transpose(axes + [d for d in range(self.ndim) if d not in axes])
    half = is_half(self.dtype)  # each sum is rounded
    work = np.array(moved, order="C") if half else workspace(moved)
    places = np.zeros(arrays[0].shape, np.int64)
    for array, axis in zip(arrays, axes, strict=True):
        n = self.shape[axis]
        places *= n
        places += np.where(array < 0, array + n, array)
    rows = 1
    for axis in axes:
        rows *= self.shape[axis]
    width = work.size // rows if rows else 0
    if width and half:
        np.add.at(work.reshape(rows, width), places.reshape(-1), values.reshape(places.size, width))
    elif width:
        add_rows(
            work.reshape(rows, width),
            places.reshape(-1),
            values.astype(work.dtype, copy=False).reshape(places.size, width),
        )
    if work is not moved:
        moved[...] = work


def _add_at_rows(self, key, values) -> bool:
    """Add `values` where vectors of integers index the first dimensions of a contiguous array; return whether this was
    the case, with all places inside and counted from the front."""
    first = key[0]
    if first is _every or first.ndim != 1 or not self.flags.c_contiguous or not self.size or is_half(self.dtype):
        return False
    if (
        type(self) is not np.ndarray
        or type(values) is not np.ndarray
        or values.dtype is not self.dtype
        or values.shape[1:] != self.shape[len(key) :]
    ):
        return False
    places, rows = None, 1
    for found, n in zip(key, self.shape, strict=False):
        if type(found) is not np.ndarray or found.dtype is not first.dtype or found.dtype.itemsize != 8:
            return False
        if found.shape != values.shape[:1] or not found.size:
            return False
        if np.maximum.reduce(found.view(_UNSIGNED), None) >= n:  # seen without a sign, negative ones are large
            return False
        places = found if places is None else places * n + found
        rows *= n
    add_rows(self.reshape(rows, -1), places, values.reshape(places.size, -1))
    return True


def masked_index(self, mask, indices, fill):
    """Index like `index`, with `fill` where the mask does not hold; there the indices may be out of range."""
    if not self.size:
        return np.full(mask.shape, fill, self.dtype)
    out = index(self, _clamped(self, indices))
    out[~_led(mask, out)] = fill
    return out


def masked_index_put_accumulate(self, mask, indices, values):
    """Return a copy of `self` to which `values` are added where the mask holds."""
    if not self.size:
        return self.copy()
    values = np.where(_led(mask, values), values, np.zeros((), values.dtype))
    return index_put(self, _clamped(self, indices), values, True)


def _led(mask, array):
    """Append dimensions of size 1 to a mask, for an array with more dimensions."""
    return np.broadcast_to(mask.reshape(mask.shape + (1,) * (array.ndim - mask.ndim)), array.shape)


def _clamped(self, indices):
    return [None if i is None else np.clip(i, -self.shape[d], self.shape[d] - 1) for d, i in enumerate(indices)]
