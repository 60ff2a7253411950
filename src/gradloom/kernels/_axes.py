"""Dimensions to reduce, and what all reductions do with them."""

from __future__ import annotations

import numpy as np

from ._copies import convertible
from ._dims import dim_error, wrap_dim, wrap_dims


def axes(dim, ndim: int):
    """NumPy's `axis` for PyTorch's `dim`: None, which is all dimensions, for None, for () and for a 0-dim array.

    Args:
        dim: int, tuple of ints, or None.

    Raises:
        IndexError: if a dimension is out of range.
        RuntimeError: if one is given twice.
    """
    if dim is None or dim == ():
        return None
    if dim.__class__ is tuple:
        if len(dim) > 1:
            found = wrap_dims(dim, ndim)
            return found if ndim else None
        dim = dim[0]
    if 0 <= dim < ndim:
        return dim
    if ndim:
        if -ndim <= dim < 0:
            return dim + ndim
        raise dim_error(dim, ndim)
    wrap_dim(dim, 0)
    return None


def count(array: np.ndarray, axis) -> int:
    """How many elements go into one result."""
    shape = array.shape
    if axis is None:
        return array.size
    if axis.__class__ is int:
        return shape[axis]
    found = 1
    for a in axis:
        found *= shape[a]
    return found


def restored(result, array: np.ndarray, axis) -> np.ndarray:
    """A reduced array with its dimensions back, of size one: a view that broadcasts against `array`."""
    if axis is None:
        return np.reshape(result, (1,) * array.ndim)
    return np.expand_dims(result, axis)


def dropped(result: np.ndarray, axis) -> np.ndarray:
    """The opposite of `restored`."""
    return result.reshape(()) if axis is None else np.squeeze(result, axis)


def to_last(array: np.ndarray, axis) -> np.ndarray:
    """The reduced dimensions as one, in the last place: a view where that is possible."""
    if axis is None:
        return array.reshape(-1)
    if axis.__class__ is int:
        return np.moveaxis(array, axis, -1)
    kept = [i for i in range(array.ndim) if i not in axis]
    moved = array.transpose(*kept, *axis)
    return moved.reshape(*moved.shape[: len(kept)], count(array, axis))


def require_elements(name: str, array: np.ndarray, axis) -> None:
    """What a reduction without an identity asks for.

    Raises:
        RuntimeError: if all of an empty array is to be reduced.
        IndexError: if a dimension of size zero is.
    """
    if array.size:
        return
    if axis is None:
        raise RuntimeError(
            f"{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the "
            "reduction dim with the 'dim' argument."
        )
    for a in (axis,) if axis.__class__ is int else axis:
        if not array.shape[a]:
            raise IndexError(f"{name}(): Expected reduction dim {a} to have non-zero size.")


def cast(array: np.ndarray, kind) -> np.ndarray:
    """`array` in another dtype, by C's rules; the array itself if it has that dtype."""
    if kind is None or array.dtype == kind:
        return array
    return convertible(array, kind).astype(kind)
