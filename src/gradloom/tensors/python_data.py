"""Convert Python data to arrays: numbers, nested sequences of numbers, with NumPy scalars and 0-dim tensors among
them."""

from __future__ import annotations

import numpy as np

from ..core.tensor import Tensor
from ..dispatch.promotion import number_type
from ..kernels._common.numbers import convertible
from ..types.dtype import BOOL, COMPLEX, FLOATING, INTEGRAL, TYPE_OF, default, dtype, promote_types, uint64
from ..types.silence import silence

_SEQUENCES = frozenset((list, tuple))
_NUMBERS = frozenset((int, float, bool, complex))
_WHOLE = frozenset((int, bool))


def array_of(data, wanted: dtype | None) -> np.ndarray:
    """Return `data` as an ndarray of the dtype that PyTorch chooses, or of the given one.

    Raises TypeError, ValueError, RuntimeError where PyTorch raises them: ragged, not numeric, out of range.
    """
    kind = data.__class__
    if wanted is not None and wanted.itemsize == 1 and wanted.category == FLOATING:
        return convertible(array_of(data, None), wanted.numpy).astype(wanted.numpy)
    if kind is float and (wanted is None or wanted.category > INTEGRAL):
        with np.errstate(over="ignore"):
            return np.array(data, default.numpy_float if wanted is None else wanted.numpy)
    if wanted is not None and isinstance(data, np.generic) and wanted.category <= INTEGRAL:
        data = _whole(data, wanted)
        kind = data.__class__
    if kind is np.ndarray or isinstance(data, (np.ndarray, np.generic)):
        array = in_own_type(np.asarray(data))
        return array if wanted is None else array.astype(wanted.numpy, copy=False)
    if isinstance(data, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{kind.__name__}'")
    if kind not in _NUMBERS and not hasattr(data, "__len__") and not hasattr(data, "__array__"):
        raise RuntimeError(f"Could not infer dtype of {kind.__name__}")
    leaves = _leaf_types(data) if kind in _SEQUENCES else {kind}
    if leaves <= _NUMBERS:
        return _of_numbers(data, wanted, leaves)
    if any(issubclass(t, (Tensor, np.generic)) for t in leaves):
        types: list[dtype] = []
        values = _plain(data, types, wanted)
        return _of_numbers(values, _common(types) if wanted is None else wanted, _leaf_types([values]))
    if kind in _SEQUENCES and any(issubclass(t, np.ndarray) for t in leaves):
        return _of_arrays(data, wanted)
    plain = _as_lists(data)
    return _of_anything(data, wanted) if plain is data else array_of(plain, wanted)


def in_own_type(array: np.ndarray) -> np.ndarray:
    """Return an array of the user's, on the same memory where the byte order allows, with gradloom's dtype object.

    NumPy has several equal dtype objects: unpickled arrays bring their own, and so do C's names (`np.longlong`).
    Kernels compare dtypes by identity.

    Raises TypeError for a dtype that gradloom lacks.
    """
    kind = TYPE_OF[array.dtype].numpy
    if array.dtype is kind:
        return array
    return array.view(kind) if array.dtype == kind else array.astype(kind)


def _leaf_types(data) -> set[type]:
    """Return the classes of the leaves of nested lists and tuples."""
    found: set[type] = set()
    levels = [data]
    while levels:
        level = levels.pop()
        kinds = set(map(type, level))
        if not kinds.isdisjoint(_SEQUENCES):
            levels += [d for d in level if type(d) in _SEQUENCES]
        found |= kinds
    return found - _SEQUENCES


def _whole(number: np.generic, wanted: dtype):
    """Return a NumPy scalar as a Python number for an integral dtype: like PyTorch, of floats only those that are
    Python's, too, and bool for bool."""
    taken = (np.integer, float, np.bool_) if wanted.category == BOOL else (np.integer, float)
    if not isinstance(number, taken):
        raise TypeError(f"'numpy.{type(number).__name__}' object cannot be interpreted as an integer")
    return number.item()


def _plain(data, types: list, wanted: dtype | None):
    """Return `data` with tensors and NumPy scalars as Python numbers; add the dtype of every leaf to `types`."""
    if type(data) in _SEQUENCES:
        return [_plain(d, types, wanted) for d in data]
    whole = wanted is not None and wanted.category <= INTEGRAL
    if isinstance(data, Tensor):
        if data._array.size != 1:
            if data._array.dtype.kind in "iub":
                raise TypeError("only integer tensors of a single element can be converted to an index")
            raise ValueError("only one element tensors can be converted to Python scalars")
        if whole and data.dtype.category > INTEGRAL:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        types.append(data.dtype)
        return data.item()
    if isinstance(data, np.generic):
        types.append(TYPE_OF[data.dtype])
        return _whole(data, wanted) if whole else data.item()
    if type(data) in _NUMBERS:
        types.append(number_type(data))
    return data


def _as_lists(data):
    """Return `data` with all sequences as lists; itself if it has only lists, or objects that NumPy converts."""
    kind = data.__class__
    if kind in _SEQUENCES:
        found = [_as_lists(d) for d in data]
        return data if all(a is b for a, b in zip(found, data, strict=True)) else found
    is_sequence = hasattr(data, "__len__") and hasattr(data, "__getitem__") and not isinstance(data, (str, bytes, dict))
    return list(data) if is_sequence and not hasattr(data, "__array__") else data


def _of_arrays(data, wanted):
    """Convert nested sequences with arrays among the leaves, to the dtype that all of them promote to."""
    types: list[dtype] = []

    def look(part):
        for d in part:
            if type(d) in _SEQUENCES:
                look(d)
            elif isinstance(d, (np.ndarray, np.generic)):
                types.append(TYPE_OF[d.dtype])
            elif type(d) in _NUMBERS:
                types.append(number_type(d))

    look(data)
    array = _of_anything(data, wanted)
    return in_own_type(array if wanted is not None else array.astype(_common(types).numpy, copy=False))


def _common(types) -> dtype | None:
    found = None
    for t in types:
        found = t if found is None else promote_types(found, t)
    return found


def _of_numbers(data, wanted, leaves):
    """Convert nested sequences of Python numbers, of the classes in `leaves`."""
    try:
        array = np.asarray(data)
    except ValueError as error:
        raise _ragged(data, error) from None
    except OverflowError:
        array = np.asarray(data, dtype=object)
    kind = array.dtype.kind
    if kind in "fuO" and array.size:
        if leaves <= _WHOLE:  # integers that int64 cannot represent
            array = _wide_integers(np.asarray(data, dtype=object), wanted)
        elif kind == "O":
            array = _large(data, array, wanted)
        kind = array.dtype.kind
    if wanted is not None:
        return _converted(array, wanted)
    if kind == "f" or not array.size:
        return array.astype(default.numpy_float, copy=False)
    if kind == "c":
        return array.astype(default.numpy_complex, copy=False)
    return array


def _wide_integers(array, wanted):
    """Convert Python integers, some of them beyond int64: only uint64, bool, floating and complex dtypes take them."""
    if wanted is None or (wanted.category == INTEGRAL and wanted is not uint64):
        raise ValueError("Overflow when unpacking long long")
    if wanted is not uint64:
        return array != 0 if wanted.category == BOOL else array.astype(np.float64)
    if any(number < 0 for number in array.flat):
        raise OverflowError("can't convert negative int to unsigned")
    if any(number >= 1 << 64 for number in array.flat):
        raise OverflowError("int too big to convert")
    return array.astype(np.uint64)


def _large(data, array, wanted):
    """Convert numbers of several classes with integers beyond 64 bits, which only floating dtypes can represent."""
    kinds = {type(d) for d in array.flat}
    if kinds <= _NUMBERS and (not kinds <= _WHOLE if wanted is None else wanted.category > INTEGRAL):
        return array.astype(np.complex128 if complex in kinds else np.float64)
    raise _not_numeric(data)


def _of_anything(data, wanted):
    """Convert any other object that NumPy can read: arrays in lists, objects with `__array__`."""
    try:
        array = np.asarray(data)
    except ValueError as error:
        raise _ragged(_without_arrays(data), error) from None
    if array.dtype.kind in "OUS":
        raise _not_numeric(data)
    if not array.size and wanted is None and not hasattr(data, "__array__"):
        return array.astype(default.numpy_float)
    TYPE_OF[array.dtype]
    return array if wanted is None else _converted(array, wanted)


def _converted(array, wanted):
    """Convert Python numbers; raise if they do not fit."""
    kind = array.dtype.kind
    if kind == "c" and INTEGRAL <= wanted.category < COMPLEX:
        raise TypeError("an integer is required" if wanted is uint64 else "must be real number, not complex")
    if wanted is uint64 and array.size:  # the one dtype whose numbers PyTorch does not read as int64 first
        if kind == "f":
            raise TypeError("an integer is required")
        if kind == "i" and (array < 0).any():
            raise OverflowError("can't convert negative int to unsigned")
    if wanted.category == INTEGRAL and array.size and kind != "b":
        limits = np.iinfo(wanted.numpy)
        lowest = limits.min if wanted.is_signed or kind == "f" else -limits.max
        if not (array >= lowest).all() or not ((np.trunc(array) if kind == "f" else array) <= limits.max).all():
            raise RuntimeError(f"value cannot be converted to type {str(wanted)[6:]} without overflow")
    if kind in "fc" and wanted.category == BOOL:
        return array != 0
    with np.errstate(over="ignore"):
        return array.astype(wanted.numpy, copy=False)


def _without_arrays(data):
    if type(data) in _SEQUENCES:
        return [_without_arrays(d) for d in data]
    return data.tolist() if isinstance(data, np.ndarray) else data


def _ragged(data, error):
    """Return the expected and the actual length of the first sequence that does not fit, as PyTorch reports them."""
    depth, level = 0, list(data)
    while level and all(isinstance(d, (list, tuple)) for d in level):
        depth += 1
        lengths = [len(d) for d in level]
        for n in lengths:
            if n != lengths[0]:
                return ValueError(f"expected sequence of length {lengths[0]} at dim {depth} (got {n})")
        level = [e for d in level for e in d]
    if any(isinstance(d, (list, tuple)) for d in level):
        bad = next(d for d in level if isinstance(d, (list, tuple)) != isinstance(level[0], (list, tuple)))
        return TypeError(
            "not a sequence" if not isinstance(bad, (list, tuple)) else f"must be real number, not {type(bad).__name__}"
        )
    return ValueError(str(error))


def _not_numeric(data):
    """Return the error for data that NumPy reads as objects or text instead of numbers."""
    leaves = list(_leaves(data))
    if leaves and isinstance(leaves[0], str):
        return ValueError("too many dimensions 'str'")
    bad = next((d for d in leaves if not isinstance(d, (float, complex)) and not _fits(d)), data)
    if isinstance(bad, int):
        return ValueError("Overflow when unpacking long long")
    if isinstance(bad, str):
        return TypeError("new(): invalid data type 'str'")
    return RuntimeError(f"Could not infer dtype of {type(bad).__name__}")


def _fits(value) -> bool:
    return isinstance(value, (int, np.generic)) and -(2**63) <= value < 2**63  # type: ignore[operator]


def _leaves(data):
    for d in data if isinstance(data, (list, tuple)) else (data,):
        if isinstance(d, (list, tuple)):
            yield from _leaves(d)
        else:
            yield d


silence(globals())
