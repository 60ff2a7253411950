"""Metadata: shape, dtype and strides in place of an array, for tensors without values."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any, NoReturn

import numpy as np


class NoValuesError(RuntimeError):
    """Values of a tensor were read that has none of its own."""


class Metadata:
    """The shape, dtype and strides of a tensor without values: `_array` within vmap and of wrapper subclasses.

    Code that reads sizes, dtypes and strides works as with an array. Reading values raises RuntimeError, by NumPy's
    functions, operators and methods alike.

    Args:
        shape: the sizes, a tuple of ints.
        numpy_type: the NumPy dtype.
        strides: in bytes; those of contiguous memory by default.
    """

    __slots__ = ("shape", "dtype", "_strides")
    base = None
    offset = 0
    conj_bit = neg_bit = False
    message = (
        "Cannot read the values of this tensor: it has none of its own. It stands for others, as tensors within "
        "vmap and wrapper subclasses do; use operators on it, which reach those."
    )
    error: type[Exception] = NoValuesError
    __array_priority__ = 1000

    def __init__(self, shape: tuple[int, ...], numpy_type: np.dtype, strides: tuple[int, ...] | None = None) -> None:
        self.shape = shape
        self.dtype = numpy_type
        self._strides = strides

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        size = 1
        for n in self.shape:
            size *= n
        return size

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def strides(self) -> tuple[int, ...]:
        if self._strides is None:
            strides, step = [], self.dtype.itemsize
            for n in reversed(self.shape):
                strides.append(step)
                step *= max(n, 1)  # as NumPy, for arrays without elements
            self._strides = tuple(reversed(strides))
        return self._strides

    @property
    def flags(self) -> _Flags:
        return _Flags(self)

    def transpose(self, axes: tuple[int, ...]) -> Metadata:
        """Return the metadata with the dimensions in another order."""
        return Metadata(tuple([self.shape[d] for d in axes]), self.dtype, tuple([self.strides[d] for d in axes]))

    def reshape(self, *shape: Any, copy: bool | None = False) -> Metadata:
        """Return the metadata of a view in another shape. Raises ValueError if the strides do not allow it."""
        return Metadata(*view_geometry(self, tuple(shape[0]) if isinstance(shape[0], (tuple, list)) else shape))

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"Metadata({self.shape}, {self.dtype})"

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise self.error(self.message)

    __array__ = __array_ufunc__ = __array_function__ = _refuse
    __getitem__ = __setitem__ = __iter__ = __contains__ = __bool__ = __int__ = __float__ = __complex__ = _refuse
    __index__ = __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __neg__ = __invert__ = __and__ = __or__ = __xor__ = _refuse
    __pow__ = __rpow__ = __matmul__ = __rmatmul__ = __mod__ = __floordiv__ = __abs__ = _refuse
    __hash__ = object.__hash__

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(f"'Metadata' object has no attribute '{name}'")
        self._refuse()


def view_geometry(array: Any, shape: tuple[int, ...]) -> tuple[tuple[int, ...], np.dtype, tuple[int, ...] | None]:
    """Return the shape, dtype and strides of a view of an array or metadata in another shape, one size of which may be
    -1. Raises ValueError if there is no such view."""
    dtype = array.dtype
    found, strides = _geometry(array.shape, array.strides, dtype.itemsize, tuple(shape))
    return found, dtype, strides


@lru_cache(1024)
def _geometry(
    sizes: tuple[int, ...], strides: tuple[int, ...], itemsize: int, shape: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
    """Return shape and strides, see `view_geometry`."""
    shape = tuple([int(n) for n in shape])  # equal keys of other types share an entry
    size, wanted = prod(sizes), prod(shape)
    if wanted < 0 and size % -wanted == 0:
        shape = tuple([size // -wanted if n == -1 else n for n in shape])
        wanted = size
    if wanted != size or min(shape, default=0) < 0:
        raise ValueError(f"cannot see {size} elements in shape {shape}")
    if not size:
        return shape, None
    found: list[int] = []
    left = list(shape)  # dimensions without a stride yet
    for count, step in _runs(sizes, strides, itemsize):
        seen = 1
        while left and (seen < count or left[-1] == 1):
            found.append(seen * step)
            seen *= left.pop()
        if seen != count:
            raise ValueError(f"the elements cannot be seen in shape {shape}")
    return shape, tuple(reversed(found))


def _runs(sizes: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> list[tuple[int, int]]:
    """Return the runs of dimensions that can be seen as one, innermost first: elements, and bytes between them.

    As in PyTorch, a dimension of size 1 joins the run on its right, whatever its stride, and begins one if it is last.
    """
    runs: list[tuple[int, int]] = []
    count, step = 1, strides[-1] if sizes else itemsize
    for n, stride in zip(reversed(sizes), reversed(strides), strict=True):
        if n != 1 and stride != count * step:
            runs.append((count, step))
            count, step = 1, stride
        count *= n
    return [*runs, (count, step)]


def reshape_view(array: Any, shape: tuple[int, ...]) -> Any:
    """Return a view of an array or metadata in another shape. Raises ValueError if there is none."""
    return array.reshape(shape, copy=False)


def _reshape_view_of_2_0(array: Any, shape: tuple[int, ...]) -> Any:
    """Emulate `reshape_view` on NumPy 2.0, whose reshape, and assignments to `shape` too, copy where they must."""
    if isinstance(array, Metadata):
        return array.reshape(shape)
    view_geometry(array, shape)
    seen = array.view()
    seen.shape = shape
    return seen


if np.lib.NumpyVersion(np.__version__) < "2.1.0":
    reshape_view = _reshape_view_of_2_0


class ImaginaryBytes:
    """Exposes memory that does not exist to NumPy. Only functions that return views may see it: it must not be read."""

    def __init__(self, start: int, nbytes: int) -> None:
        self.__array_interface__ = {"data": (start, True), "shape": (nbytes,), "typestr": "|u1", "version": 3}


def is_imaginary(array: Any) -> bool:
    """Return whether an array lies in ImaginaryBytes, also behind an object that exposes the memory of `kept`."""
    while isinstance(array, np.ndarray):
        array = array.base
        array = getattr(array, "kept", array)
    return isinstance(array, ImaginaryBytes)


def is_readable(array: Any) -> bool:
    """Return whether an array of a tensor has values: not on the meta device, within vmap, or while it is compiled."""
    return not isinstance(array, Metadata)


class NoDataError(NoValuesError, NotImplementedError):
    """Values of a tensor on the meta device were read."""


class MetaMemory:
    """The memory that a tensor of the meta device would have.

    Attributes:
        nbytes: its size.
    """

    __slots__ = ("nbytes", "__weakref__")

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes


class MetaArray(Metadata):
    """The array of a tensor of the meta device; see Note [Meta tensors].

    Attributes:
        memory: the MetaMemory that it shares with its views.
        offset: the first element's position in `memory`, in bytes.
        conj_bit, neg_bit: as of an array with a conjugate or negative bit.
    """

    __slots__ = ("memory", "offset", "conj_bit", "neg_bit")
    message = "Cannot copy out of meta tensor; no data!"
    error = NoDataError

    def __init__(
        self,
        shape: tuple[int, ...],
        numpy_type: np.dtype,
        strides: tuple[int, ...] | None = None,
        memory: MetaMemory | None = None,
        offset: int = 0,
        conj_bit: bool = False,
        neg_bit: bool = False,
    ) -> None:
        super().__init__(shape, numpy_type, strides)
        self.conj_bit, self.neg_bit = conj_bit, neg_bit  # type: ignore[misc]
        if memory is None:
            reach = sum([(n - 1) * s for n, s in zip(shape, self.strides, strict=True)]) + self.itemsize
            memory = MetaMemory(reach if self.size else 0)
        self.memory, self.offset = memory, offset

    def __repr__(self) -> str:
        return f"MetaArray({self.shape}, {self.dtype})"


class _Flags:
    """The flags of an array that does not exist."""

    __slots__ = ("c_contiguous", "contiguous", "f_contiguous")
    writeable = True
    owndata = False

    def __init__(self, array: Metadata) -> None:
        step, contiguous = array.itemsize, True
        for n, stride in zip(reversed(array.shape), reversed(array.strides), strict=True):
            contiguous &= n <= 1 or stride == step
            step *= n
        self.c_contiguous = self.contiguous = contiguous or not array.size
        self.f_contiguous = self.c_contiguous and array.ndim < 2
