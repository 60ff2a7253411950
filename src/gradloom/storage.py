"""Storages: the memory that a tensor shares with its views, as objects.

`UntypedStorage` has bytes, `TypedStorage` elements of a dtype; PyTorch's older classes such as `FloatStorage` make the
latter. Storages are made on demand (memory/ownership.py finds the owner of an array's memory) and refer only to the
array that owns the memory: two objects for the same memory are equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from io import BytesIO
from os import PathLike
from typing import Any, Self

import numpy as np

from .core.tensor_base import warn_of_typed_storage
from .dispatch.overloads.registry import types
from .memory import shared
from .memory.metadata import MetaArray
from .memory.ownership import extent, flat, map_file, owner, rooted
from .types.device import CPU, META, check_device, device
from .types.dtype import ALL, BY_NAME, c_name, default, dtype as dtype_class, legacy_type_name, uint8

_CONVERSIONS = {
    **{name: BY_NAME[name] for name in ("bool", "short", "int", "long", "half", "float", "double", "bfloat16")},
    "byte": uint8,
    "char": BY_NAME["int8"],
    "complex_float": BY_NAME["cfloat"],
    "complex_double": BY_NAME["cdouble"],
}


class _Storage:
    """Base of both kinds of storage. `_elements()` returns the whole memory as a one-dimensional array."""

    _owner: np.ndarray
    is_cuda: bool = False
    is_sparse: bool = False
    is_hpu: bool = False
    device: device = CPU

    def _elements(self) -> np.ndarray:
        raise NotImplementedError

    def _of_elements(self, array: np.ndarray) -> Self:
        """Return a storage of this kind on the memory of an array."""
        raise NotImplementedError

    def untyped(self) -> UntypedStorage:
        """Return the same memory as bytes."""
        raise NotImplementedError

    def __len__(self) -> int:
        return self.nbytes() // self.element_size()

    def element_size(self) -> int:
        """Return the size of one element in bytes."""
        raise NotImplementedError

    def size(self) -> int:
        """Return the number of elements; of bytes, for an UntypedStorage."""
        return len(self)

    def nbytes(self) -> int:
        """Return the number of bytes."""
        start, end = extent(self._owner)
        return end - start

    def data_ptr(self) -> int:
        """Return the memory address of the first byte."""
        return extent(self._owner)[0]

    @property
    def _cdata(self) -> int:
        return id(self._owner)

    def tolist(self) -> list[Any]:
        """Return all elements as Python numbers."""
        found = self._elements()
        return (found.astype(np.float32) if found.dtype.kind == "V" else found).tolist()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._memory is self._memory

    def __hash__(self) -> int:
        return id(self._memory)

    @property
    def _memory(self) -> Any:
        """What storages of the same memory have in common."""
        return self._owner if self.device is CPU else self._owner.memory  # type: ignore[attr-defined]

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes()

    def _place(self, index: Any) -> int:
        """Return a valid index, counted from the start."""
        if not isinstance(index, (int, np.integer)) or isinstance(index, bool):
            raise self._no_index(index)
        count = len(self)
        if not -count <= index < count:
            raise IndexError(f"index {index} out of range for storage of size {count}")
        return int(index)

    def _no_index(self, index: Any) -> Exception:
        raise NotImplementedError

    def copy_(self, source: _Storage, non_blocking: bool | None = None) -> Self:
        """Write the bytes of another storage of the same size into this one.

        Args:
            source: a storage of as many bytes.
            non_blocking: has no effect.

        Raises:
            RuntimeError: if the sizes differ.
        """
        if not isinstance(source, _Storage):
            raise TypeError(f"copy_(): argument 'src' (position 1) must be torch.Storage, not {type(source).__name__}")
        if source.nbytes() != self.nbytes():
            raise RuntimeError(
                f"size does not match, self was {self.nbytes()} bytes but src was {source.nbytes()} bytes"
            )
        self.untyped()._elements()[...] = source.untyped()._elements()
        return self

    def fill_(self, value: Any) -> Self:
        """Set all elements to a number."""
        self[:] = value
        return self

    def __setitem__(self, index: Any, value: Any) -> None:
        raise NotImplementedError

    def clone(self) -> Self:
        """Return a copy in new memory."""
        return self._of_elements(self._elements().copy())

    def __copy__(self) -> Self:
        return self.clone()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        found = memo.get(id(self._owner))
        if found is None:
            found = memo[id(self._owner)] = self.clone()
        return found

    def cpu(self) -> Self:
        """Return the storage itself: there is only the CPU."""
        return self

    def to(self, *, device: Any, non_blocking: bool = False) -> Self:
        """Return the storage itself: there is only the CPU.

        Args:
            device: the CPU.
            non_blocking: has no effect.

        Raises:
            RuntimeError: for another device.
        """
        check_device(device)
        return self

    def get_device(self) -> int:
        """Return -1: the CPU."""
        return -1

    def is_shared(self) -> bool:
        """Return whether processes share the memory."""
        return shared.is_shared(self._owner)

    def is_pinned(self, device: Any = None) -> bool:
        """Return False: there is no accelerator to pin memory for.

        Args:
            device: the accelerator.
        """
        return False

    def resizable(self) -> bool:
        """Return False: NumPy cannot move memory that arrays refer to."""
        return False

    def resize_(self, size: int) -> Self:
        """Raise unless the number of elements stays the same.

        Raises:
            NotImplementedError: for another size.
            RuntimeError: for a size that is no int, and for memory of a file.
        """
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)):
            raise RuntimeError(f"resize_ expects an int, but got {type(size).__name__}")
        if type(self._owner.base).__module__ == "mmap" or isinstance(self._owner, np.memmap):
            raise RuntimeError("Trying to resize storage that is not resizable: it is a file's")
        if size == len(self):
            return self
        raise NotImplementedError(
            f"resize_({size}) of a storage of size {len(self)}: NumPy cannot move memory that arrays look at. Make a "
            "new storage and let the tensor show it with Tensor.set_(), or use Tensor.resize_()"
        )

    def share_memory_(self) -> Self:
        """Move the storage to shared memory, with all its tensors; return the storage itself. See Tensor.share_memory_.

        Raises:
            RuntimeError: if there is no memory left.
        """
        from .tensors.sharing import share_storage

        share_storage(self)
        return self

    def _converted(self, kind: dtype_class) -> TypedStorage:
        return TypedStorage._of(self._elements().astype(kind.numpy), kind)

    def __reduce__(self) -> tuple[Any, ...]:
        file = BytesIO()
        import_module("gradloom").save(self, file, _use_new_zipfile_serialization=False)
        return _load_from_bytes, (file.getvalue(),)

    def __repr__(self) -> str:
        values = "..." if self.device is META else " " + "\n ".join(map(str, self.tolist()))
        what = "" if isinstance(self, UntypedStorage) else f"dtype={self.dtype}, "  # type: ignore[attr-defined]
        return f"{values}\n[torch.storage.{type(self).__name__}({what}device={self.device}) of size {len(self)}]"


def _conversion(name: str, kind: dtype_class) -> Any:
    def convert(self):
        return self if getattr(self, "dtype", None) is kind else self._converted(kind)

    convert.__name__ = name
    convert.__qualname__ = f"_Storage.{name}"
    convert.__doc__ = f"A TypedStorage with the elements converted to {kind}."
    return convert


for _name, _kind in _CONVERSIONS.items():
    setattr(_Storage, _name, _conversion(_name, _kind))


class StorageBase:
    """Base of UntypedStorage, by which programs recognize one; typed storages are no instances of it."""


class UntypedStorage(StorageBase, _Storage):
    """Bytes shared by tensors, as returned by `Tensor.untyped_storage()`.

    Args:
        data: the number of bytes (not initialised), or a sequence of their values; none by default.
        device: the CPU.

    Raises:
        RuntimeError: unless `data` is a size or a sequence of ints.
    """

    def __init__(self, data: int | Sequence[int] = 0, /, *, device: Any = None) -> None:
        check_device(device)
        if isinstance(data, (int, np.integer)) and not isinstance(data, bool):
            if data < 0:
                raise RuntimeError(f"UntypedStorage(): a size is not negative, got {data}")
            self._owner = np.empty(int(data), np.uint8)
            return
        kind = type(data).__name__
        if isinstance(data, (int, np.integer)) or not hasattr(data, "__len__"):
            raise RuntimeError(f"torch.UntypedStorage(): Expected a sequence type, but got {kind}")
        values = list(data)
        for value in values:
            if not isinstance(value, (int, np.integer)):
                raise RuntimeError(
                    f"torch.UntypedStorage(): tried to construct a storage from a sequence ({kind}), "
                    f"but one of the items was of type {type(value).__name__} instead of int"
                )
        self._owner = np.array(values, np.int64).astype(np.uint8)

    @classmethod
    def _of(cls, array: np.ndarray) -> UntypedStorage:
        """Return the storage of an array."""
        out = cls.__new__(cls)
        out._owner = owner(array)
        if isinstance(array, MetaArray):
            out.device = META
        return out

    @classmethod
    def _new_shared(cls, size: int, *, device: Any = "cpu") -> UntypedStorage:
        """Return a storage of zeros in shared memory.

        Args:
            size: number of bytes.
            device: the CPU.

        Raises:
            RuntimeError: if there is no memory left.
        """
        from .tensors.sharing import new_shared

        check_device(device)
        return cls._of(new_shared(size))

    @classmethod
    def from_file(cls, filename: str | PathLike[str], shared: bool = False, nbytes: int = 0) -> UntypedStorage:
        """Return the first bytes of a file, mapped into memory.

        Args:
            filename: a path. With `shared`, a missing file is created and a short one extended.
            shared: whether writes change the file.
            nbytes: number of bytes.

        Raises:
            RuntimeError: if the file is too short.
        """
        return cls._of(map_file(filename, shared, nbytes))

    def _elements(self) -> np.ndarray:
        return np.ndarray((self.nbytes(),), np.uint8, buffer=flat(self._owner).view(np.uint8))

    def _of_elements(self, array: np.ndarray) -> UntypedStorage:
        return UntypedStorage._of(array)

    def untyped(self) -> UntypedStorage:
        """Return the storage itself."""
        return self

    def element_size(self) -> int:
        """Return 1: elements are bytes."""
        return 1

    def new(self) -> UntypedStorage:
        """Return a storage without bytes."""
        return UntypedStorage()

    def __getitem__(self, index: Any) -> Any:
        if not isinstance(index, slice):
            return int(self._elements()[self._place(index)])
        if index.step not in (None, 1):
            raise RuntimeError(f"Trying to slice with a step of {index.step}, but only a step of 1 is supported")
        return UntypedStorage._of(rooted(self._elements()[index]))

    def __setitem__(self, index: Any, value: Any) -> None:
        if not isinstance(value, (int, np.integer)):
            kind = type(value).__name__
            raise RuntimeError(f"can only set storage content with a int types, but got {kind} instead")
        if isinstance(index, slice):
            if index.step not in (None, 1):
                raise RuntimeError(f"Trying to slice with a step of {index.step}, but only a step of 1 is supported")
        elif isinstance(index, bool) or not isinstance(index, (int, np.integer)):
            raise RuntimeError(f"can't index a torch.UntypedStorage with {type(index).__name__}")
        elif not 0 <= index < len(self):
            raise RuntimeError(f"out of bounds: {index} in a storage of {len(self)} bytes")
        self._elements()[index] = int(value) % 256

    def fill_(self, value: Any) -> Self:
        """Set all bytes to a number, modulo 256.

        Raises:
            RuntimeError: for what is no int.
        """
        if not isinstance(value, (int, np.integer)):
            raise RuntimeError(f"fill_ expects int, but got {type(value).__name__}")
        self[:] = value
        return self

    def _no_index(self, index: Any) -> Exception:
        return TypeError(f"can't index a torch.UntypedStorage with {type(index).__name__}")

    def byteswap(self, dtype: dtype_class) -> None:
        """Reverse the bytes of each element, in place.

        Args:
            dtype: dtype of the elements.
        """
        self._elements().view(f"V{dtype.itemsize}").byteswap(inplace=True)

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """Return the name of the class, or the elements converted to a dtype.

        Args:
            dtype: a dtype, a class such as FloatStorage, or its name "torch.FloatStorage".
            non_blocking: has no effect.
        """
        return "torch.storage.UntypedStorage" if dtype is None else self._converted(_meant(dtype))


class TypedStorage(_Storage):
    """A storage viewed as elements of one dtype, as returned by `Tensor.storage()`.

    Args:
        data: the number of elements (not initialised), or a sequence of their values; none by default.
        wrap_storage: an UntypedStorage whose memory to use instead.
        dtype: dtype of the elements; by default the default dtype.
        device: the CPU.

    Raises:
        TypeError: for other arguments.
    """

    dtype: dtype_class

    def __init__(
        self,
        *data: Any,
        wrap_storage: UntypedStorage | None = None,
        dtype: dtype_class | None = None,
        device: Any = None,
    ) -> None:
        warn_of_typed_storage()
        check_device(device)
        kind = default.float if dtype is None else dtype
        if not isinstance(kind, dtype_class):
            raise TypeError(f"TypedStorage(): argument 'dtype' must be torch.dtype, not {type(kind).__name__}")
        if len(data) > 1 or data and wrap_storage is not None:
            raise RuntimeError(
                f"{type(self).__name__}() takes a size, a sequence or wrap_storage: too many positional arguments"
            )
        self.dtype = kind
        if wrap_storage is not None:
            if not isinstance(wrap_storage, UntypedStorage):
                raise TypeError(f"Argument 'wrap_storage' must be UntypedStorage, but got {type(wrap_storage)}")
            self._owner = wrap_storage._owner
        elif not data or isinstance(data[0], (int, np.integer)):
            self._owner = np.empty(int(data[0]) if data else 0, kind.numpy)
        elif (
            hasattr(data[0], "__len__")
            and not isinstance(data[0], (_Storage, dict))
            and not hasattr(data[0], "untyped_storage")
        ):
            from .tensors.python_data import array_of

            self._owner = np.array(array_of(data[0], kind))
        else:
            raise TypeError(
                f"{type(self).__name__}() takes a size, a sequence or wrap_storage. Argument type not "
                f"recognized: {type(data[0])}"
            )

    @classmethod
    def _of(cls, array: np.ndarray, kind: Any) -> TypedStorage:
        """Return the storage of an array, as elements of a dtype."""
        out = cls.__new__(cls)
        out._owner, out.dtype = owner(array), kind
        if isinstance(array, MetaArray):
            out.device = META
        return out

    def __eq__(self, other: object) -> bool:
        return self is other  # as in PyTorch: only bytes are compared by address

    def __hash__(self) -> int:
        return id(self)

    def _elements(self) -> np.ndarray:
        size = self.dtype.itemsize
        return self.untyped()._elements()[: self.nbytes() // size * size].view(self.dtype.numpy)

    def _of_elements(self, array: np.ndarray) -> TypedStorage:
        return TypedStorage._of(array, self.dtype)

    def untyped(self) -> UntypedStorage:
        """Return the same memory as bytes."""
        return UntypedStorage._of(self._owner)

    def element_size(self) -> int:
        """Return the size of one element in bytes."""
        return self.dtype.itemsize

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        found = self._elements()[self._place(index)]
        return float(found) if found.dtype.kind == "V" else found.item()

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(value, _Storage):
            raise RuntimeError(f"cannot set item with value type {type(value)}")
        if value is None or isinstance(value, (list, tuple, dict, str)):
            raise TypeError(f"can't assign a {type(value).__name__} to a {legacy_type_name(self.dtype)}")
        if isinstance(value, complex) and self.dtype.numpy.kind != "c":
            raise RuntimeError(f"value cannot be converted to type {c_name(self.dtype.numpy)} without overflow")
        try:
            self._elements()[index if isinstance(index, slice) else self._place(index)] = value
        except ValueError:
            raise TypeError(f"can't assign a {type(value).__name__} to a {legacy_type_name(self.dtype)}") from None

    def _no_index(self, index: Any) -> Exception:
        error = TypeError if isinstance(index, bool) else RuntimeError
        return error(f"can't index a {TypedStorage} with {type(index)}")

    def pickle_storage_type(self) -> str:
        """Return the name of PyTorch's class for storages of this dtype, such as "FloatStorage"."""
        return _class_name(self.dtype)

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """Return the name of PyTorch's class for storages of this dtype, or the elements converted to another.

        Args:
            dtype: a dtype, a class such as FloatStorage, or its name "torch.FloatStorage".
            non_blocking: has no effect.
        """
        return f"torch.{_class_name(self.dtype)}" if dtype is None else self._converted(_meant(dtype))


TypedStorage.__module__ = UntypedStorage.__module__ = "gradloom.storage"


def _load_from_bytes(b: bytes) -> _Storage:
    """Return the storage in a pickle, which holds a file of `save`, as PyTorch's pickles do."""
    found: _Storage = import_module("gradloom").load(BytesIO(b), weights_only=False)
    return found


def _class_name(kind: dtype_class) -> str:
    return legacy_type_name(kind).removeprefix("torch.").replace("Tensor", "Storage")


def _meant(named: Any) -> dtype_class:
    """Return the dtype for a dtype, a legacy class or its name."""
    if isinstance(named, dtype_class):
        return named
    name = (named if isinstance(named, str) else getattr(named, "__name__", "")).rpartition(".")[2]
    for kind in ALL:
        if _class_name(kind) == name:
            return kind
    raise ValueError(f"invalid type: {named!r}")


class _OldClass(type):
    """A legacy class such as FloatStorage. A call makes a TypedStorage of its dtype, which is an instance of it."""

    dtype: dtype_class

    def __call__(cls, *data: Any, **options: Any) -> TypedStorage:
        return TypedStorage(*data, dtype=cls.dtype, **options)

    def from_file(cls, filename: str | PathLike[str], shared: bool = False, size: int = 0) -> TypedStorage:
        """Return the first `size` elements of a file; see UntypedStorage.from_file."""
        memory = UntypedStorage.from_file(filename, shared, size * cls.dtype.itemsize)
        return TypedStorage(wrap_storage=memory, dtype=cls.dtype)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, TypedStorage) and instance.dtype is cls.dtype


def storage_type(name: str) -> Any:
    """Return the class of that name, such as "FloatStorage", or None. "Storage" has the default dtype."""
    if name == "Storage":
        name = _class_name(default.float)
    for kind in ALL:
        if _class_name(kind) == name:
            made = _made.get(name)
            if made is None:
                made = _made[name] = _OldClass(name, (TypedStorage,), {"dtype": kind, "__module__": device.__module__})
            return made
    return None


_made: dict[str, Any] = {}  # by name: one for each dtype


types.storages = (UntypedStorage, TypedStorage)
