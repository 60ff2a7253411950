"""The methods that bytes and typed elements have in common; storage.py has the two classes.

Note [Meta storages]
The owner of a storage of the meta device is a MetaArray, which has a size and no memory. Reading its elements raises
NotImplementedError; writing checks its arguments and then does nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from io import BytesIO
from typing import Any, Self

import numpy as np

from ..dispatch.overloads.registry import types
from ..memory import shared
from ..memory.metadata import MetaArray, MetaMemory, NoDataError
from ..memory.ownership import extent, file_of, is_resizable
from ..types.device import CPU, META, device, names_meta
from ..types.dtype import BY_NAME, dtype as dtype_class, uint8

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
    is_sparse_csr: bool = False
    is_hpu: bool = False
    device: device = CPU

    def _elements(self) -> np.ndarray:
        raise NotImplementedError

    def _of_elements(self, array: np.ndarray) -> Self:
        """Return a storage of this kind on the memory of an array."""
        raise NotImplementedError

    def untyped(self) -> Any:
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

    @property
    def filename(self) -> str | None:
        """Path of the file that writes change (`from_file` with shared=True), else None."""
        return file_of(self._owner)

    def tolist(self) -> list[Any]:
        """Return all elements as Python numbers."""
        if not len(self):
            return []
        found = self._elements()
        return (found.astype(np.float32) if found.dtype.kind == "V" else found).tolist()

    def _check_readable(self) -> None:
        """Raise NotImplementedError for the meta device."""
        if self.device is META:
            raise NotImplementedError("Not available for 'meta' device type")

    def _check_has_data(self) -> None:
        """Raise NotImplementedError where elements leave the meta device."""
        if self.device is META:
            raise NoDataError(MetaArray.message)

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
            NotImplementedError: if only the other storage is of the meta device.
        """
        if not isinstance(source, _Storage):
            raise TypeError(f"copy_(): argument 'src' (position 1) must be torch.Storage, not {type(source).__name__}")
        if source.nbytes() != self.nbytes():
            raise RuntimeError(
                f"size does not match, self was {self.nbytes()} bytes but src was {source.nbytes()} bytes"
            )
        if self.device is not META:
            source._check_has_data()
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
        return self._of_elements(self._like(self.nbytes()) if self.device is META else self._elements().copy())

    def _like(self, nbytes: int) -> Any:
        """Return the owner of a new meta storage of that size."""
        return MetaArray((0,), uint8.numpy, None, MetaMemory(nbytes))

    def __copy__(self) -> Self:
        return self.clone()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        found = memo.get(id(self._owner))
        if found is None:
            found = memo[id(self._owner)] = self.clone()
        return found

    def cpu(self) -> Self:
        """Return the storage itself. Raises NotImplementedError if it is of the meta device, which has no elements."""
        return self.to(device=CPU)

    def to(self, *, device: Any, non_blocking: bool = False) -> Self:
        """Return the storage itself: storages stay on their device.

        Args:
            device: the device of the storage.
            non_blocking: has no effect.

        Raises:
            NotImplementedError: from the meta device to the CPU.
            RuntimeError: for other devices.
        """
        if names_meta(device) is not (self.device is META):
            self._check_has_data()
            raise RuntimeError("a storage of the CPU does not move to device 'meta': make one there by its size")
        return self

    def get_device(self) -> int | None:
        """Return the index of the device: None, as the CPU and the meta device have none."""
        return self.device.index

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
        """Return whether `resize_` may change the size: not of memory of files, other processes and other libraries."""
        return self.device is META or is_resizable(self._owner)

    def resize_(self, size: int) -> Self | None:
        """Let a storage have more elements; those that are new are not initialised.

        The elements move to new memory, with all tensors and storages that have them.

        Args:
            size: number of elements.

        Raises:
            NotImplementedError: for fewer elements, which tensors may look at; not on the meta device.
            RuntimeError: for a size that is no int, and for memory of a file, another process or another library.
        """
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)):
            raise RuntimeError(f"resize_ expects an int, but got {type(size).__name__}")
        if not self.resizable():
            raise RuntimeError("Trying to resize storage that is not resizable")
        if size < 0:
            raise RuntimeError(f"resize_: a size is not negative, got {size}")
        if self.device is META:
            self._memory.nbytes = int(size) * self.element_size()
        elif size > len(self):
            from .moving import enlarge

            enlarge(self._owner, int(size) * self.element_size())
        elif size < len(self):
            raise NotImplementedError(
                f"resize_({size}) of a storage of size {len(self)}: NumPy cannot shrink memory that arrays look at. "
                "Make a new storage and let the tensor show it with Tensor.set_(), or use Tensor.resize_()"
            )
        return self

    def share_memory_(self) -> Self:
        """Move the storage to shared memory, with all its tensors; return the storage itself. See Tensor.share_memory_.

        Raises:
            RuntimeError: if there is no memory left, and on the meta device.
        """
        from .sharing import share_storage

        if self.device is META:
            raise RuntimeError("_share_fd_: only available on CPU")
        share_storage(self)
        return self

    def _converted(self, kind: dtype_class) -> Any:
        """Return a TypedStorage with the elements converted."""
        meta = self.device is META
        found = self._like(len(self) * kind.itemsize) if meta else self._elements().astype(kind.numpy)
        return types.storages[1]._of(found, kind)

    def __reduce__(self) -> tuple[Any, ...]:
        self._check_has_data()
        file = BytesIO()
        import_module("gradloom").save(self, file, _use_new_zipfile_serialization=False)
        return import_module("gradloom.storage")._load_from_bytes, (file.getvalue(),)

    def __repr__(self) -> str:
        values = "..." if self.device is META else " " + "\n ".join(map(str, self.tolist()))
        kind = getattr(self, "dtype", None)
        what = "" if kind is None else f"dtype={kind}, "
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
