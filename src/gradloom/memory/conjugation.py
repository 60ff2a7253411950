"""The conjugate and negative bits: arrays whose values are the conjugates or negatives of those in memory.

Note [Conjugate and negative bits]
`x.conj()` of a complex tensor is a view, and so is its imaginary part: reading conjugates or negates the values in
memory, and so does writing. NumPy has no such arrays, so `Tensor._array` is a `Deferred`:

- NumPy converts it (`__array__`, `__array_ufunc__`, `__array_function__`). All readers, also in C and in SciPy, get a
  new array of the values, so that nothing reads the memory by mistake and no kernel handles the bits;
- Python code sees an array (`__class__` is ndarray), not a number;
- operations that view an array (indexing with slices, transposing, reshaping) return a Deferred on the view;
- operations that write (`a[...] = b`, `out=a`, `a += b`, `a.fill(0)`, `np.copyto(a, b)`) write the conjugates or
  negatives to the memory. A writing method that is missing here raises AttributeError.

Results of computations have no bits, as in PyTorch. Tensors without bits have plain arrays; this module is imported
when the first bit is set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy import asarray, conjugate, ndarray, negative
from numpy.lib.mixins import NDArrayOperatorsMixin

from ..types.silence import silence

# Functions that write to their first argument.
_WRITERS = frozenset((np.copyto, np.fill_diagonal, np.place, np.put, np.put_along_axis, np.putmask))
# Functions of one array that return a view of its memory.
_VIEWERS = frozenset(
    (
        np.atleast_1d,
        np.atleast_2d,
        np.atleast_3d,
        np.broadcast_to,
        np.diagonal,
        np.expand_dims,
        np.flip,
        np.fliplr,
        np.flipud,
        np.moveaxis,
        np.ravel,
        np.real,
        np.imag,
        np.reshape,
        np.rollaxis,
        np.rot90,
        np.squeeze,
        np.swapaxes,
        np.transpose,
        np.array_split,
        np.split,
        np.hsplit,
        np.vsplit,
        np.dsplit,
    )
)
# Methods and attributes that expose the memory, which does not hold the values.
_OF_MEMORY = frozenset(("ctypes", "data", "flat", "setfield", "getfield", "byteswap", "resize", "setflags", "tofile"))


class Deferred(NDArrayOperatorsMixin):
    """An array whose values are the conjugates, the negatives or both of those in memory.

    Args:
        memory: the underlying ndarray.
        conj: whether to conjugate its elements; only for complex numbers.
        neg: whether to negate them.
    """

    __slots__ = ("memory", "conj_bit", "neg_bit")
    __class__ = np.ndarray  # type: ignore[assignment]  # see the note
    __array_priority__ = 1000

    def __init__(self, memory: np.ndarray, conj: bool, neg: bool) -> None:
        self.memory, self.conj_bit, self.neg_bit = memory, conj, neg

    def resolve(self) -> np.ndarray:
        """Return the values, a new array."""
        values = conjugate(self.memory) if self.conj_bit else self.memory
        if self.neg_bit:
            values = negative(values)
        return values if values.__class__ is ndarray else asarray(values)  # 0-dim arrays became scalars

    def _apply_bits(self, values: Any) -> Any:
        """Apply the conjugate and negative bits; self-inverse."""
        if self.conj_bit:
            values = conjugate(values)
        return negative(values) if self.neg_bit else values

    def _wrap_result(self, found: Any) -> Any:
        """Apply the bits to a result computed from the memory: a Deferred if it shares the memory, else values."""
        if found.__class__ in (list, tuple):
            return found.__class__(self._wrap_result(f) for f in found)
        if isinstance(found, np.ndarray) and (not found.size or np.may_share_memory(found, self.memory)):
            return Deferred(found, self.conj_bit, self.neg_bit)
        return self._apply_bits(found)

    def through(self, viewer: Callable[[np.ndarray], np.ndarray]) -> Any:
        """Return `viewer(memory)`, which may have another dtype, with the same bits."""
        return Deferred(viewer(self.memory), self.conj_bit, self.neg_bit)

    def filled_by(self, fill: Callable[[np.ndarray], object]) -> Deferred:
        """Write the values that `fill` puts into a new array of the same layout; return this array."""
        values = np.empty_like(self.memory)
        fill(values)
        self[...] = values
        return self

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("this array has to be computed, which cannot be done without a copy")
        values = self.resolve()
        return values if dtype is None else values.astype(dtype, copy=False)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: tuple[Any, ...] = (), **keywords: Any) -> Any:
        if not out and not keywords and method == "__call__":
            return ufunc(*[a.resolve() if type(a) is Deferred else a for a in inputs])
        if method == "at":
            values = self.resolve()
            ufunc.at(values, *map(plain, inputs[1:]))
            self[...] = values
            return None
        inputs = tuple(map(plain, inputs))
        keywords = {name: plain(value) for name, value in keywords.items()}
        if out:
            keywords["out"] = tuple(map(plain, out))
        found = getattr(ufunc, method)(*inputs, **keywords)
        if not any(type(target) is Deferred for target in out):
            return found
        several = found.__class__ is tuple
        results = [_written(target, result) for target, result in zip(out, found if several else (found,), strict=True)]
        return tuple(results) if several else results[0]

    def __array_function__(self, function: Callable[..., Any], types: Any, args: Any, keywords: Any) -> Any:
        if function in (np.may_share_memory, np.shares_memory):
            return function(*(a.memory if type(a) is Deferred else a for a in args), **keywords)
        if function in _VIEWERS and args and args[0] is self:
            return self._wrap_result(function(self.memory, *args[1:], **keywords))
        values = [plain(a) for a in args]
        named = {name: plain(value) for name, value in keywords.items()}
        found = function(*values, **named)
        if function in _WRITERS and type(args[0]) is Deferred:
            args[0][...] = values[0]
        if type(keywords.get("out")) is Deferred:
            return _written(keywords["out"], found)
        return found

    shape: Any = property(lambda self: self.memory.shape, lambda self, shape: setattr(self.memory, "shape", shape))
    dtype: Any = property(lambda self: self.memory.dtype)
    ndim: Any = property(lambda self: self.memory.ndim)
    size: Any = property(lambda self: self.memory.size)
    itemsize: Any = property(lambda self: self.memory.itemsize)
    nbytes: Any = property(lambda self: self.memory.nbytes)
    strides: Any = property(lambda self: self.memory.strides)
    flags: Any = property(lambda self: self.memory.flags)
    base: Any = property(lambda self: self.memory)
    T: Any = property(lambda self: self._wrap_result(self.memory.T))
    mT: Any = property(lambda self: self._wrap_result(self.memory.mT))

    @property
    def real(self) -> Any:
        """Return a view of the real parts."""
        return with_bits(self.memory.real, False, self.neg_bit)

    @real.setter
    def real(self, values: Any) -> None:
        self.real[...] = values

    @property
    def imag(self) -> Any:
        """Return a view of the imaginary parts, negated if exactly one bit is set."""
        return with_bits(self.memory.imag, False, self.neg_bit != self.conj_bit)

    @imag.setter
    def imag(self, values: Any) -> None:
        self.imag[...] = values

    def view(self, *dtype: Any, **keywords: Any) -> Any:
        """Return a view; for another dtype, a copy of the values."""
        if keywords or dtype and np.dtype(dtype[0]) != self.dtype:
            return self.resolve().view(*dtype, **keywords)
        return self._wrap_result(self.memory.view())

    def __getitem__(self, index: Any) -> Any:
        return self._wrap_result(self.memory[index])

    def __setitem__(self, index: Any, values: Any) -> None:
        self.memory[index] = self._apply_bits(np.asarray(values).astype(self.dtype, copy=False))

    def __len__(self) -> int:
        return len(self.memory)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self.memory)))

    def fill(self, value: Any) -> None:
        """Set all elements to one number."""
        self[...] = value

    def __bool__(self) -> bool:
        return bool(self.resolve())

    def __int__(self) -> int:
        return int(self.resolve())

    def __float__(self) -> float:
        return float(self.resolve())

    def __complex__(self) -> complex:
        return complex(self.resolve())

    def __index__(self) -> int:
        return self.resolve().__index__()

    def __contains__(self, value: Any) -> bool:
        return value in self.resolve()

    def __repr__(self) -> str:
        return f"Deferred({self.memory!r}, conj={self.conj_bit}, neg={self.neg_bit})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Deferred, (self.memory, self.conj_bit, self.neg_bit)

    __hash__ = object.__hash__

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in _OF_MEMORY:
            raise AttributeError(f"an array with a conjugate or negative bit has no attribute '{name}'")
        return getattr(self.resolve(), name)


def _method_of_memory(name: str) -> Callable[..., Any]:
    def method(self: Deferred, *args: Any, **keywords: Any) -> Any:
        return self._wrap_result(getattr(self.memory, name)(*args, **keywords))

    method.__name__ = name
    return method


def _method_that_writes(name: str) -> Callable[..., None]:
    def method(self: Deferred, *args: Any, **keywords: Any) -> None:
        values = self.resolve()
        getattr(values, name)(*args, **keywords)
        self[...] = values

    method.__name__ = name
    return method


for _name in ("diagonal", "ravel", "reshape", "squeeze", "swapaxes", "transpose"):
    setattr(Deferred, _name, _method_of_memory(_name))
for _name in ("partition", "put", "sort"):
    setattr(Deferred, _name, _method_that_writes(_name))


def plain(value: Any) -> Any:
    """Return `value` with every Deferred, also in lists and tuples, resolved."""
    if type(value) is Deferred:
        return value.resolve()
    if value.__class__ in (list, tuple):
        return value.__class__(map(plain, value))
    return value


def _written(target: Any, values: Any) -> Any:
    """Write `values` to the `out=` argument of a function; return the argument."""
    if type(target) is not Deferred:
        return target if target is not None else values
    target[...] = values
    return target


def with_bits(array: np.ndarray, conj: bool, neg: bool) -> np.ndarray:
    """Return `array` with conjugate and negative bits: itself if neither is set."""
    if not conj and not neg:
        return array
    found: Any = Deferred(array, conj, neg)
    return found


def conjugated(array: Any) -> Any:
    """Return a view of the conjugates of a complex array; two conjugations cancel."""
    if type(array) is Deferred:
        return with_bits(array.memory[...], not array.conj_bit, array.neg_bit)
    return Deferred(array, True, False)


def negated(array: Any) -> Any:
    """Return a view of the negatives of an array; two negations cancel."""
    if type(array) is Deferred:
        return with_bits(array.memory[...], array.conj_bit, not array.neg_bit)
    return Deferred(array, False, True)


silence(globals())
