"""Wrap, check and reduce dimensions, with PyTorch's errors."""

from __future__ import annotations

import numpy as np

from .errors import dim_error
from .numbers import convertible


def wrap_dim(dim: int, ndim: int) -> int:
    """Count `dim` from the front. A 0-dim array counts as having one dimension."""
    count = ndim or 1
    if 0 <= dim < count:
        return dim
    if -count <= dim < 0:
        return dim + count
    raise dim_error(dim, ndim)


def require_dim(dim: int, ndim: int) -> None:
    """Raise IndexError unless an array has the dimension `dim`; a 0-dim array has none."""
    if not ndim:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    wrap_dim(dim, ndim)


def wrap_dims(dims, ndim: int) -> tuple[int, ...]:
    """Count each of `dims` from the front."""
    found = tuple([wrap_dim(d, ndim) for d in dims])
    if len(set(found)) != len(found):
        twice = next(d for i, d in enumerate(found) if d in found[:i])
        raise RuntimeError(f"dim {twice} appears multiple times in the list of dims")
    return found


def infer_size(size, numel: int) -> tuple[int, ...]:
    """Replace -1 in `size`, if present, by the size that `numel` elements leave for it."""
    known, unknown = 1, None
    for i, n in enumerate(size):
        if n == -1:
            if unknown is not None:
                raise RuntimeError("only one dimension can be inferred")
            unknown = i
        elif n < 0:
            raise RuntimeError(f"invalid shape dimension {n} at index {i} of shape {list(size)}")
        else:
            known *= n
    if unknown is None:
        if known == numel:
            return tuple(size)
    elif known and numel % known == 0:
        return (*size[:unknown], numel // known, *size[unknown + 1 :])
    elif not known and not numel:
        raise RuntimeError(
            f"cannot reshape tensor of 0 elements into shape {list(size)} because the unspecified "
            "dimension size -1 can be any value and is ambiguous"
        )
    raise RuntimeError(f"shape '{list(size)}' is invalid for input of size {numel}")


def axes(dim, ndim: int):
    """Convert PyTorch's `dim` (an int, a tuple of ints, or None) to NumPy's `axis`. None, (), and any `dim` of a 0-dim
    array give None, which stands for all dimensions."""
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
    """Return the number of elements in one reduction."""
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
    """Put the reduced dimensions back with size 1: a view that broadcasts against `array`."""
    if axis is None:
        return np.reshape(result, (1,) * array.ndim)
    return np.expand_dims(result, axis)


def dropped(result: np.ndarray, axis) -> np.ndarray:
    """Drop the reduced dimensions of size 1, the inverse of `restored`."""
    return result.reshape(()) if axis is None else np.squeeze(result, axis)


def to_last(array: np.ndarray, axis) -> np.ndarray:
    """Merge the reduced dimensions into one, the last: a view where that is possible."""
    if axis is None:
        return array.reshape(-1)
    if axis.__class__ is int:
        return np.moveaxis(array, axis, -1)
    kept = [i for i in range(array.ndim) if i not in axis]
    moved = array.transpose(*kept, *axis)
    return moved.reshape(*moved.shape[: len(kept)], count(array, axis))


def require_elements(name: str, array: np.ndarray, axis, dim=None) -> None:
    """Refuse empty slices, for which a reduction without an identity has no result. Errors name `axis`, or the
    dimensions as the caller gave them, if the operator's do."""
    if array.size:
        return
    if axis is None:
        raise RuntimeError(
            f"{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the "
            "reduction dim with the 'dim' argument."
        )
    reduced = (axis,) if axis.__class__ is int else axis
    for a, given in zip(reduced, reduced if dim is None else dim, strict=True):
        if not array.shape[a]:
            raise IndexError(f"{name}(): Expected reduction dim {given} to have non-zero size.")


def cast(array: np.ndarray, kind) -> np.ndarray:
    """Convert an array to another dtype by C's rules; return it unchanged if it has that dtype."""
    if kind is None or array.dtype == kind:
        return array
    return convertible(array, kind).astype(kind)
