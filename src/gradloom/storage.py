"""Storages: the memory that a tensor shares with its views, as objects.

`UntypedStorage` has bytes, `TypedStorage` elements of a dtype; PyTorch's older classes such as `FloatStorage` make the
latter. Storages are made on demand (memory/ownership.py finds the owner of an array's memory) and refer only to the
array that owns the memory: two objects for the same memory are equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from io import BytesIO
from operator import index
from os import PathLike
from typing import Any, Self

import numpy as np

from .core.tensor_base import warn_of_typed_storage
from .dispatch.overloads.registry import types
from .memory.buffers import decoded
from .memory.metadata import MetaArray
from .memory.ownership import flat, map_file, owner, rooted
from .tensors.base_storage import _Storage
from .types.device import META, check_device, device as device_class, names_meta
from .types.dtype import ALL, c_name, default, dtype as dtype_class, int8, legacy_type_name, uint8

_LEFT_OUT: Any = object()


class StorageBase:
    """Base of UntypedStorage, by which programs recognize one; typed storages are no instances of it."""


class UntypedStorage(StorageBase, _Storage):
    """Bytes shared by tensors, as returned by `Tensor.untyped_storage()`.

    Args:
        data: the number of bytes (not initialised), or a sequence of their values; none by default.
        device: the CPU, or "meta" for a size without memory.

    Raises:
        RuntimeError: unless `data` is a size or a sequence of ints.
    """

    device: device_class

    def __init__(self, data: int | Sequence[int] = 0, /, *, device: Any = None) -> None:
        self._owner = self._bytes(data)
        if names_meta(device):
            self._owner, self.device = self._like(self._owner.nbytes), META

    @staticmethod
    def _bytes(data: Any) -> np.ndarray:
        """Return the bytes for a size or a sequence of values."""
        if isinstance(data, (int, np.integer)) and not isinstance(data, bool):
            if data < 0:
                raise RuntimeError(f"UntypedStorage(): a size is not negative, got {data}")
            return np.empty(int(data), np.uint8)
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
        return np.array(values, np.int64).astype(np.uint8)

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

    @classmethod
    def from_buffer(
        cls, buffer: Any, byte_order: Any = _LEFT_OUT, count: int = -1, offset: int = 0, dtype: Any = None
    ) -> UntypedStorage:
        """Return a copy of the elements in a buffer, in this machine's byte order.

        Args:
            buffer: an object with Python's buffer protocol, such as bytes.
            byte_order: "big", "little" or "native"; may be left out for uint8 and int8.
            count: number of elements; negative for all.
            offset: where they begin, in bytes.
            dtype: dtype of the elements.

        Raises:
            RuntimeError: without a dtype or byte order.
            TypeError, ValueError: see `memory.buffers.decoded`.
        """
        if not isinstance(dtype, dtype_class):
            raise RuntimeError(
                f"argument 'dtype' {'cannot be None' if dtype is None else 'must be of type torch.dtype'}"
            )
        if byte_order is _LEFT_OUT and dtype not in (uint8, int8):
            raise RuntimeError("function missing required argument 'byte_order' (pos 2)")
        if byte_order is None:
            raise TypeError("argument 2 must be str, not None")
        order = None if byte_order is _LEFT_OUT else byte_order
        return cls._of(decoded(buffer, order, index(count), index(offset), dtype.numpy))

    def _elements(self) -> np.ndarray:
        self._check_readable()
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
        self._check_readable()
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
        if self.device is not META:
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
        device: the CPU, or "meta" for a size without memory.

    Raises:
        TypeError: for other arguments.
    """

    dtype: dtype_class
    device: device_class

    def __init__(
        self,
        *data: Any,
        wrap_storage: UntypedStorage | None = None,
        dtype: dtype_class | None = None,
        device: Any = None,
    ) -> None:
        warn_of_typed_storage()
        is_meta = names_meta(device)
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
            self._owner, self.device = wrap_storage._owner, wrap_storage.device
            return
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
        if is_meta:
            self._owner, self.device = self._like(self._owner.nbytes), META

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

    @classmethod
    def from_buffer(
        cls, buffer: Any, byte_order: Any = _LEFT_OUT, count: int = -1, offset: int = 0, dtype: Any = None
    ) -> TypedStorage:
        """Return a copy of the elements in a buffer; see UntypedStorage.from_buffer.

        Args:
            buffer, byte_order, count, offset: see there.
            dtype: dtype of the elements; by default that of the class, or the default dtype.

        Raises:
            RuntimeError: if the class, such as FloatStorage, has a dtype and another is given.
        """
        if cls is not TypedStorage:
            if dtype is not None:
                raise RuntimeError(
                    "from_buffer: 'dtype' can only be specified in UntypedStorage.from_buffer and "
                    "TypedStorage.from_buffer"
                )
            dtype = cls.dtype
        kind = default.float if dtype is None else dtype
        memory = UntypedStorage.from_buffer(buffer, byte_order, count, offset, kind)
        return TypedStorage._of(memory._owner, kind)

    def untyped(self) -> UntypedStorage:
        """Return the same memory as bytes."""
        return UntypedStorage._of(self._owner)

    def element_size(self) -> int:
        """Return the size of one element in bytes."""
        return self.dtype.itemsize

    def __getitem__(self, index: Any) -> Any:
        self._check_readable()
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
        place = index if isinstance(index, slice) else self._place(index)
        if self.device is META:
            return
        try:
            self._elements()[place] = value
        except ValueError:
            raise TypeError(f"can't assign a {type(value).__name__} to a {legacy_type_name(self.dtype)}") from None

    def _no_index(self, index: Any) -> Exception:
        error = TypeError if isinstance(index, bool) else RuntimeError
        return error(f"can't index a {TypedStorage} with {type(index)}")

    def resize_(self, size: int) -> None:  # type: ignore[override]
        """Let a storage have more elements, as `UntypedStorage.resize_`, but return None."""
        super().resize_(size)

    def pickle_storage_type(self) -> str:
        """Return the name of PyTorch's class for storages of this dtype, such as "FloatStorage"."""
        return _class_name(self.dtype)

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """Return the name of PyTorch's class for storages of this dtype, or the elements converted to another.

        Args:
            dtype: a dtype, a class such as FloatStorage, or its name "torch.FloatStorage".
            non_blocking: has no effect.
        """
        if dtype is not None:
            return self._converted(_meant(dtype))
        return "torch.storage.TypedStorage" if self.device is META else f"torch.{_class_name(self.dtype)}"


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
        for name in ("dtype", "device"):
            if name in options:
                raise RuntimeError(
                    f"{cls}.__new__ received an invalid combination of arguments. Expected one of: no arguments, "
                    f"(int size), (Sequence data), (*, UntypedStorage wrap_storage). Keyword argument '{name}' "
                    "cannot be specified"
                )
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
                made = _made[name] = _OldClass(
                    name, (TypedStorage,), {"dtype": kind, "__module__": device_class.__module__}
                )
            return made
    return None


_made: dict[str, Any] = {}  # by name: one for each dtype


types.storages = (UntypedStorage, TypedStorage)
