"""Indexing: `x[1, ..., None, mask]` and `x[index] = value`.

Note [Indexing]
The parts of an index apply from left to right, each as a view of the result so far: a number selects, a slice slices,
None adds a dimension. Tensors, sequences, arrays and bools are collected, each at its dimension, and applied at once
by `index` or, for a write, `index_put_`. An index without any of those is a view, and writing is `copy_` to the view.
If nothing is recorded, the whole index is one view, and a number is written without making one.
"""

from __future__ import annotations

from collections.abc import Sequence
from sys import maxsize
from typing import Any, Literal, overload

import numpy as np

from ..core.edge import NO_EDGE, gradient_edge
from ..core.tensor import Tensor, bump_version, wrap
from ..core.views import make_view
from ..dispatch import _operators as ops
from ..dispatch.state import GRAD_OFF, state
from ..memory.metadata import Metadata
from ..types import IntList, Number
from ..types.dtype import FLOAT8, int64, legacy_type_name
from ..types.public import found_in as _found_in
from ..types.silence import warn_user

_NUMBERS = (int, float, complex)
_BOUNDS = (int, type(None))
new = object.__new__


def getitem(self: Tensor, index: Any) -> Tensor:
    """`self[index]`.

    Args:
        index: int, slice, None, Ellipsis, bool, an integer or bool tensor, a sequence or ndarray that becomes one, or a
            tuple of these.

    Returns:
        A view, or a new Tensor if the index has tensors, sequences, arrays or bools.

    Raises:
        IndexError: if the index is out of range, has too many parts, or has one of another type.
        ValueError: for a slice whose step is not positive.
    """
    kind = index.__class__
    if kind is int:
        return ops.select_int(self, 0, _checked(self, 0, index))
    if kind is slice:
        if not self._array.ndim:
            raise IndexError("slice() cannot be applied to a 0-dim tensor.")
        return ops.slice_Tensor(self, 0, *_bounds(index))
    if kind is Tensor:
        array = index._array
        if array.dtype is _INT64 and array.ndim and self.__class__ is Tensor and self._array.ndim:
            return ops.exact.index_Tensor(self, (index,))
    elif kind is tuple:
        out = _view_of(self, index)
        if out is not None:
            return out
        if _are_integers(index) and self.__class__ is Tensor and len(index) <= self._array.ndim:
            return ops.exact.index_Tensor(self, index)
    elif index is None:
        return ops.unsqueeze(self, 0)
    parts, found = _parsed(self, index)
    if found is not None:
        return ops.index(parts, found)
    return ops.alias(self) if parts is self else parts


_INT64 = np.dtype(np.int64)


def _are_integers(parts) -> bool:
    """Return whether all parts of an index are tensors of integers."""
    for part in parts:
        if part.__class__ is not Tensor or part._array.dtype is not _INT64 or not part._array.ndim:
            return False
    return bool(parts)


def setitem(self: Tensor, index: Any, value: Tensor | Number) -> None:
    """`self[index] = value`, broadcast; a number is converted to the dtype.

    Args:
        index: as in `getitem`.
        value: Tensor or number.

    Raises:
        TypeError: for values of another type.
        IndexError, RuntimeError: as `getitem`, and for shapes that do not fit.
    """
    if not isinstance(value, Tensor):
        if isinstance(value, (np.integer, np.float64, np.complex128)):
            value = value.item()  # PyTorch accepts no other NumPy numbers
        if not isinstance(value, _NUMBERS) or isinstance(value, np.generic):
            raise TypeError(f"can't assign a {_type_name(value)} to a {legacy_type_name(self.dtype)}")
        if value.__class__ is int and not -(1 << 63) <= value < 1 << 63:
            raise ValueError("Overflow when unpacking long long")
        if index is not False and not _filled_at_once(self, index, value):
            target, found = _target_of(self, index)
            _fill(target, found, value)
        return
    if index is False or value._array.size == 1 and _written_at_once(self, index, value):
        return
    target, found = _target_of(self, index)
    if found is None:
        _copy_to(target, value)
        return
    shape = value._array.shape
    lead = _leading_ones(shape)
    if lead:
        value = ops.view(value, shape[lead:])
    ops.index_put_(target, found, value)


def _target_of(self, index):
    """Return the view that is written to, and the tensors of the index as in `_parsed`."""
    target = None
    kind = index.__class__
    if kind is int:
        target = ops.select_int(self, 0, _checked(self, 0, index))
    elif kind is tuple:
        target = _view_of(self, index)
    elif kind is slice and not self._array.ndim:
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")
    elif index is True:
        target = ops.unsqueeze(self, 0)
    return _parsed(self, index) if target is None else (target, None)


def _fill(target, found, number):
    """Write a number to a view, or where the only tensor of an index points, by the operators that fill."""
    from ..kernels._common.numbers import number_filling

    if found is None:
        ops.fill__Scalar(target, number)
        return
    places = [place for place, part in enumerate(found) if part is not None]
    index, others = found[places[0]], places[1:]
    dtype = index._array.dtype
    if not others and (dtype.kind == "b" or dtype == np.uint8):
        before = places[0]  # dimensions: each part before it covers one
        after = target._array.ndim - before - index._array.ndim
        if index._array.shape == target._array.shape[before : before + index._array.ndim]:
            mask = index if after == 0 else ops.reshape(index, (*index._array.shape, *[1] * after))
            ops.masked_fill__Scalar(target, mask, number)
            return
        number = 0  # which is not written: the mask does not fit
    elif not others and dtype is _INT64 and target.dtype not in FLOAT8:
        ops.index_fill__int_Scalar(target, places[0], ops.reshape(index, (-1,)), number)
        return
    ops.index_put_(target, found, wrap(number_filling(number, target._array.dtype)))


def delitem(self: Tensor, index: Any) -> None:
    """Raise TypeError: elements of a tensor cannot be deleted."""
    raise TypeError("Tensor does not support deleting items")


def _filled_at_once(self, index, number) -> bool:
    """Write a Python number where a number or a tuple of numbers and plain slices point; return whether it could."""
    kind = index.__class__
    if kind is int:
        index = (index,)
    elif kind is not tuple:
        return False
    array = self._array
    if not _is_unrecorded(self) or 0 in array.strides or not _are_plain(index):
        return False
    seen = _seen_at_once(array, index)
    if seen is None:
        return False
    dtype = array.dtype
    if number.__class__ not in (int, float) or dtype.char not in "fdFD" or not -65504 <= number <= 65504:
        from ..kernels._common.numbers import number_filling

        number = number_filling(number, dtype, seen.size)
    seen[...] = number
    bump_version(self)
    return True


def _are_plain(parts) -> bool:
    """Return whether all parts of an index are numbers and slices."""
    for part in parts:
        if part.__class__ is not int and part.__class__ is not slice:
            return False
    return True


def _copy_to(target, value):
    """Write `value` to a view; leading dimensions of size 1 beyond the view's are dropped."""
    shape = value._array.shape
    if not shape and target._array.shape:
        ops.fill__Tensor(target, value)
        return
    if shape != target._array.shape:
        lead = _leading_ones(shape)
        if lead:
            value = ops.view(value, shape[lead:])
        if value._array.shape != target._array.shape:
            value = ops.expand(value, target._array.shape)
    ops.copy_(target, value)


def _leading_ones(shape) -> int:
    for i, n in enumerate(shape):
        if n != 1:
            return i
    return len(shape)


def _checked(self, dim, index, original=0) -> int:
    """Bounds-check an index along `dim`; `original` is that dimension's number in the input."""
    shape = self._array.shape
    if not shape and not index:
        raise IndexError(
            "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ "
            "to convert a 0-dim tensor to a number"
        )
    n = shape[dim] if shape else 0
    if not -n <= index < n:
        raise IndexError(f"index {index} is out of bounds for dimension {original} with size {n}")
    return index


def _bounds(found):
    """Return the start, end and step of a slice.

    Raises:
        TypeError: if they are not integers.
        ValueError: if the step is not positive.
    """
    start, end, step = found.start, found.stop, found.step
    if step is None:
        step = 1
    elif step.__class__ is not int:
        step = _integer(step)
    if step <= 0:
        raise ValueError("step must be greater than zero" if step else "slice step cannot be zero")
    if start is None:
        start = 0
    elif start.__class__ is not int:
        start = _integer(start)
    if end is None:
        end = maxsize
    elif end.__class__ is not int:
        end = _integer(end)
    return start, end, step


def _integer(value) -> int:
    if isinstance(value, Tensor):
        return value.__index__()
    try:
        return value.__index__()
    except (AttributeError, TypeError):
        raise TypeError("slice indices must be integers or None or have an __index__ method") from None


def _view_of(self, parts):
    """Return the view for a tuple of numbers and slices alone; None for others."""
    out, dim = self, 0
    count = len(parts)
    if count > self._array.ndim:
        return None
    for part in parts:
        kind = part.__class__
        if kind is not int and kind is not slice:
            return None
    if _is_unrecorded(self):
        seen = _seen_at_once(self._array, parts)
        if seen is not None and (seen.size or not self._array.size):  # others begin where their slices do
            out = new(Tensor)
            out._array, out._edge, out._vc = seen, NO_EDGE, None
            return make_view(out, self, NO_EDGE, state.flags)
    for original, part in enumerate(parts):
        if part.__class__ is int:
            out = ops.select_int(out, dim, _checked(out, dim, part, original))
        else:
            out = _sliced(out, dim, part)
            dim += 1
    return None if out is self else out


def _is_unrecorded(self) -> bool:
    """Return whether a view of the tensor, or a write to it, records nothing but a version."""
    return (
        (self._edge or gradient_edge(self)) is NO_EDGE
        and self.__class__ is Tensor
        and not state.flags & ~GRAD_OFF
        and not self._inference
    )


def _seen_at_once(array, parts):
    """Return the view of an array for a tuple of numbers and plain slices; None for others and invalid numbers."""
    for part in parts:
        if part.__class__ is slice and (
            part.step is not None or part.start.__class__ not in _BOUNDS or part.stop.__class__ not in _BOUNDS
        ):
            return None
    try:
        return array[(*parts, ...)]
    except IndexError:
        return None


def _written_at_once(self, index, value) -> bool:
    """Write one number where a number or a tuple of numbers and plain slices points; return whether it could."""
    kind = index.__class__
    if kind is int:
        index = (index,)
    elif kind is not tuple or not _are_plain(index):
        return False
    if not _is_unrecorded(self) or value._edge is not NO_EDGE or value.__class__ is not Tensor:
        return False
    array, number = self._array, value._array
    seen = None if 0 in array.strides or number.dtype is not array.dtype else _seen_at_once(array, index)
    if seen is None or number.ndim > seen.ndim:
        return False
    seen[...] = number
    bump_version(self)
    return True


def _sliced(self, dim, part):
    """Return the slice, or the tensor itself if the slice selects all of it."""
    start, end, step = _bounds(part)
    n = self._array.shape[dim]
    if step == 1 and (not start or start <= -n) and end >= n:
        return self
    return ops.slice_Tensor(self, dim, start, end, step)


def _parsed(self, index):
    """Return the view that the parts other than tensors give, and the tensors; see Note [Indexing]. The latter are
    None, or a list with a tensor or None for each dimension of the view."""
    parts = _as_tuple(index)
    specified = 0
    for i, part in enumerate(parts):
        if part is None or part is Ellipsis or part is True or part is False or part.__class__ in (int, slice):
            specified += part.__class__ in (int, slice)
            continue
        if not isinstance(part, Tensor):
            part = _as_part(part)
            parts[i] = part
        array = part._array if isinstance(part, Tensor) else None
        if array is not None and (array.dtype.kind == "b" or array.dtype == np.uint8):
            specified += array.ndim
        else:
            specified += 1
    ndim = self._array.ndim
    if specified > ndim and (ndim or index.__class__ is tuple or any(p.__class__ is not int for p in parts)):
        raise IndexError(f"too many indices for tensor of dimension {ndim}")
    out, dim, original, found = self, 0, 0, None
    for part in parts:
        kind = part.__class__
        if kind is int:
            out = ops.select_int(out, dim, _checked(out, dim, part, original))
            original += 1
            continue
        if kind is slice:
            out = _sliced(out, dim, part)
            dim += 1
            original += 1
            continue
        if part is Ellipsis:
            dim += ndim - specified
            original += ndim - specified
            continue
        if part is None:
            out = ops.unsqueeze(out, dim)
            dim += 1
            continue
        if kind is bool or not part._array.ndim and not isinstance(part._array, Metadata):
            if kind is not bool and part._array.dtype.kind in "iu" and part._array.dtype != np.uint8:
                out = ops.select_int(out, dim, _checked(out, dim, int(part._array), original))
                original += 1
                continue
            if kind is not bool and part._array.dtype.kind not in "bu":
                raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
            out = ops.unsqueeze(out, dim)
            part = wrap(np.zeros(1 if bool(part) else 0, np.int64))
        else:
            original += _width(part)
        if found is None:
            found = []
        found += [None] * (dim - sum([_width(f) for f in found])) + [part]
        dim += _width(part)
    return out, found


def _width(found) -> int:
    """Return the number of dimensions that a collected index covers."""
    if found is None:
        return 1
    array = found._array
    return array.ndim if array.dtype.kind == "b" or array.dtype == np.uint8 else 1


def _as_tuple(index) -> list:
    """Return the parts of an index: a tuple, or a short list with tensors, sequences, slices, None or Ellipsis."""
    if isinstance(index, tuple):
        return list(index)
    if isinstance(index, Tensor) or not isinstance(index, list) or len(index) >= 32:
        return [index]
    for part in index:
        if part is None or part is Ellipsis or isinstance(part, (Tensor, slice, list, tuple, range, str, np.ndarray)):
            warn_user(
                "Using a non-tuple sequence for multidimensional indexing is deprecated: use x[tuple(seq)] "
                "instead of x[seq], or x[torch.tensor(seq)] for an index of its own."
            )
            return list(index)
    return [index]


def _as_part(part):
    """Convert a part of an index that is neither a tensor nor of a basic type.

    Raises IndexError if it is not an index.
    """
    if isinstance(part, (bool, slice)):
        return part
    if isinstance(part, np.ndarray):
        return wrap(part if part.dtype.kind == "b" or part.dtype == np.uint8 else part.astype(np.int64, copy=False))
    if isinstance(part, (list, tuple, range)):
        from .construction import array_of

        array = array_of(list(part), None)
        return wrap(array if array.dtype.kind in "bi" else array.astype(np.int64))
    if isinstance(part, str):
        raise TypeError("new(): invalid data type 'str'")
    if hasattr(part, "__index__") and not isinstance(part, np.bool_):
        return part.__index__()
    raise IndexError(
        "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices "
        f"(got {_type_name(part)})"
    )


def _type_name(value) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


@overload
def nonzero(input: Tensor, *, out: Tensor | None = None, as_tuple: Literal[False] = False) -> Tensor: ...


@overload
def nonzero(input: Tensor, *, out: Tensor | None = None, as_tuple: Literal[True]) -> tuple[Tensor, ...]: ...


def nonzero(input: Tensor, *, out: Tensor | None = None, as_tuple: bool = False) -> Tensor | tuple[Tensor, ...]:
    """Return the positions of the nonzero elements.

    Args:
        input: a Tensor.
        out: int64 Tensor to write the result to; not with `as_tuple`.

    Returns:
        A tensor (count, dimensions) of int64, or with `as_tuple` a tuple of one vector for each dimension.
    """
    if as_tuple is not False:
        if as_tuple is not True:
            raise TypeError(f"nonzero(): argument 'as_tuple' must be bool, not {type(as_tuple).__name__}")
        return tuple(ops.nonzero_numpy(input))
    return ops.nonzero(input) if out is None else ops.nonzero(input, out=out)


def unravel_index(indices: Tensor, shape: int | IntList) -> tuple[Tensor, ...]:
    """Convert flat indices to coordinates in an array of `shape`.

    Args:
        indices: an integer tensor.
        shape: int, or a sequence of ints.

    Returns:
        A tuple of int64 tensors of the shape of `indices`, one for each dimension.

    Raises:
        TypeError: for indices or shapes that are not integers.
        ValueError: for a negative size.
    """
    if not isinstance(indices, Tensor) or indices._array.dtype.kind not in "iu":
        found = indices.dtype if isinstance(indices, Tensor) else type(indices)
        raise TypeError(f"expected 'indices' to be integer dtype, but got {found}")
    sizes = (shape,) if isinstance(shape, int) else tuple(shape) if isinstance(shape, Sequence) else (shape,)
    if not all(isinstance(n, int) for n in sizes):
        raise TypeError(f"expected 'shape' to be int or sequence of ints, but got {type(shape)}")
    if any(n < 0 for n in sizes):
        raise ValueError(f"'shape' cannot have negative values, but got {sizes}")
    indices = indices.to(int64)
    out, step = [], 1
    for n in reversed(sizes):
        out.append(ops.remainder(ops.floor_divide(indices, step), n))
        step *= n
    return tuple(ops.unbind(ops.stack(out[::-1], -1), -1)) if out else ()


def bind(cls: Any) -> None:
    """Bind the methods for square brackets to Tensor."""
    cls.__getitem__, cls.__setitem__, cls.__delitem__ = getitem, setitem, delitem
    for method in ("__getitem__", "__setitem__", "__delitem__"):  # the names that a `__torch_function__` reads
        getattr(cls, method).__name__ = method
    cls.nonzero = nonzero


_found_in("gradloom", nonzero, unravel_index)
