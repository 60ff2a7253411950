"""save and load: tensors, and dicts, lists and module states that contain tensors, in PyTorch's file format.

Note [The file format]
A file is an uncompressed zip archive: `data.pkl`, a pickle (protocol 2) in which each tensor is
`torch._utils._rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks)` and each storage a persistent id
`("storage", torch.FloatStorage, key, "cpu", number of elements)`, and `data/<key>` with the bytes of each storage, once
for all tensors that share it. The bytes of a member begin at a multiple of 64. The pickle has PyTorch's names of
functions and classes, so that each library reads the other's files without importing the other.

A pickle can call any function of any module. `load` therefore resolves names from a list of those that rebuild tensors
and plain containers, unless weights_only=False marks the file as trusted.
"""

from __future__ import annotations

import errno
import io
import os
import pickle
import zipfile
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

import numpy as np

from ..core.tensor import Tensor, wrap
from ..core.tensor_base import TensorBase
from ..dispatch.overloads.registry import types
from ..memory.ownership import extent, flat, owner
from ..tensors.construction import made
from ..types.device import device, layout
from ..types.dtype import ALL, BY_NAME, FLOAT8, dtype as dtype_class, legacy_type_name, uint8
from ..types.size import Size
from ._archive import Window, archive_in, write_archive
from ._rebuilding import get_layout as _get_layout
from ._reduction import Reduction
from ._replacing import replacing
from ._unpickling import STORAGE_NAMES, STORAGE_TYPES, Archive, Facts, Members, Old, TrustedArchive, TrustedOld, allowed

DEFAULT_PROTOCOL = 2

__all__ = ["add_safe_globals", "clear_safe_globals", "get_safe_globals", "load", "safe_globals", "save"]

MAP_LOCATION = Callable[[Any, str], Any] | device | str | dict[str, str] | None  # for annotations


def save(
    obj: Any,
    f: str | os.PathLike[str] | io.IOBase,
    pickle_module: Any = None,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
) -> None:
    """Write an object and the tensors in it to a file that `load` and PyTorch's `torch.load` read.

    Args:
        obj: anything that can be pickled: a state_dict, a Tensor, containers of them, a Module.
        f: a path, or a file that is open for writing bytes. A path is written completely or not at all.
        pickle_module: a module whose class `Pickler` reduces the objects that are not tensors, such as `dill`.
        pickle_protocol: a protocol of pickle. Files of protocol 2 can be loaded with `weights_only=True`.
        _use_new_zipfile_serialization: False writes PyTorch's format from before version 1.6.

    Raises:
        RuntimeError: if the folder does not exist, or two tensors have the same memory and different dtypes.
        PicklingError: for an object that cannot be pickled, such as a lambda.
    """
    buffer = io.BytesIO()
    pickler = _pickler_of(pickle_module, buffer, pickle_protocol)
    pickler.old = not _use_new_zipfile_serialization
    pickler.dump(obj)

    def write(file, name):
        if pickler.old:
            from ..compat.legacy_serialization import write

            write(file, buffer.getvalue(), pickler.storages)
        else:
            write_archive(file, name, buffer.getvalue(), [(key, base) for key, base, _ in pickler.storages.values()])

    if not isinstance(f, str | os.PathLike):
        if not hasattr(f, "write"):
            raise AttributeError(
                "expected 'f' to be string, path, or a file-like object with a 'write' attribute, not "
                f"{type(f).__name__}"
            )
        write(f, "archive")
        if hasattr(f, "flush"):  # a file of the user's may send the bytes only then
            f.flush()
        return
    path = os.fspath(f)
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise RuntimeError(f"Parent directory {folder} does not exist.")
    with replacing(path) as file:
        write(file, os.path.splitext(os.path.basename(path))[0])


class _Name:
    """A global of PyTorch, written into a pickle by name."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name

    def __call__(self, *args: Any) -> Any:  # never called; pickle requires a callable
        raise TypeError(f"{self.module}.{self.name} stands for a name in a file")


_NAMES = {
    name: _Name("torch._utils", name)
    for name in (
        "_rebuild_tensor_v2",
        "_rebuild_tensor_v3",
        "_rebuild_parameter",
        "_rebuild_parameter_with_state",
        "_rebuild_wrapper_subclass",
        "_rebuild_sparse_tensor",
        "_rebuild_meta_tensor_no_storage",
    )
}
_NAMES |= {
    name: _Name("torch", name)
    for name in (*STORAGE_TYPES, "Size", "device", "Tensor", *[str(t)[6:] for t in (*ALL, *FLOAT8)])
}
_NAMES["UntypedStorage"] = _Name("torch.storage", "UntypedStorage")
_NAMES["_get_layout"] = _Name("torch.serialization", "_get_layout")
_NAMES["_rebuild_from_type_v2"] = _Name("torch._tensor", "_rebuild_from_type_v2")


_PLAIN = {type(None), bool, int, float, str, bytes, bytearray, tuple, list, dict, set, frozenset}


class _Stored:
    """Takes the place of a storage in a pickle."""

    def __init__(self, persistent_id: tuple) -> None:
        self.persistent_id = persistent_id


class _Pickler(Reduction, pickle._Pickler):  # type: ignore[name-defined]  # Python's own in Python: `dispatch` can be extended
    """Writes tensors, dtypes, shapes and devices under PyTorch's names.

    Attributes:
        storages: {id of an owner of memory: (key, owner, dtype)}.
        old: whether to write the format from before PyTorch 1.6.
        reducing: a pickler whose reductions apply to what is not a tensor.
    """

    old = False
    reducing: Any = None

    dispatch = pickle._Pickler.dispatch.copy()  # type: ignore[attr-defined]

    def __init__(self, file: Any, protocol: int) -> None:
        super().__init__(file, protocol)
        self.storages: dict[int, tuple[str, np.ndarray, dtype_class]] = {}

    def persistent_id(self, obj: Any) -> tuple | None:
        if isinstance(obj, types.storages):
            obj._check_has_data()
            obj = self.stored(obj._owner, getattr(obj, "dtype", None))
        return obj.persistent_id if isinstance(obj, _Stored) else None

    def name(self, name: str) -> _Name:
        return _NAMES[name]

    def save_name(self, obj: _Name) -> None:
        self.write(f"c{obj.module}\n{obj.name}\n".encode())
        self.memoize(obj)

    dispatch[_Name] = save_name

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Size):
            return _NAMES["Size"], (tuple(obj),)
        if isinstance(obj, device):
            return _NAMES["device"], (obj.type,) if obj.index is None else (obj.type, obj.index)
        if isinstance(obj, layout):
            return _NAMES["_get_layout"], (str(obj),)
        if isinstance(obj, Tensor) and isinstance(TensorBase._array, type(type(obj)._array)):  # else it has no values
            return self.tensor(obj)
        if type(obj) in _PLAIN:  # C's picklers do not ask for these
            return NotImplemented
        others = getattr(self.reducing or super(), "reducer_override", None)
        return NotImplemented if others is None else others(obj)

    def save(self, obj: Any, save_persistent_id: bool = True) -> None:  # and Python's `save` calls `reducer_override`
        if isinstance(obj, dtype_class):  # a global, not a call
            name = _NAMES[str(obj)[6:]]
            known = self.memo.get(id(name))
            if known is None:
                self.save_name(name)
            else:
                self.write(self.get(known[0]))
            return
        super().save(obj, save_persistent_id)

    def stored(self, array: np.ndarray, kind: dtype_class | None) -> _Stored:
        """Return what stands for the storage of an array; `kind` is None for a storage of bytes."""
        name = "UntypedStorage" if kind is None else STORAGE_NAMES.get(kind)
        kind = kind or uint8
        base = owner(array)
        found = self.storages.get(id(base))
        if found is None:
            found = self.storages[id(base)] = (str(len(self.storages)), base, kind)
        key, _, first = found
        if first is not kind:
            raise RuntimeError(
                "Cannot save multiple tensors or storages that view the same data as different types: "
                f"{first} and {kind}. Save a clone() of one of them."
            )
        start, end = extent(base)
        size = (end - start) // kind.itemsize if name else end - start
        if self.old and not name:
            raise RuntimeError(f"save(): PyTorch's format from before version 1.6 has no {kind}")
        return _Stored(("storage", _NAMES[name or "UntypedStorage"], key, "cpu", size, *(None,) * self.old))


def _pickler_of(module: Any, file: Any, protocol: int) -> Any:
    """Return a pickler of tensors that reduces other objects as the `Pickler` of a module does.

    Python's picklers call methods of their subclasses. Those in C ask for `reducer_override` and `dispatch_table` only.
    """
    if module is None or module is pickle:
        return _Pickler(file, protocol)
    theirs = module.Pickler
    if issubclass(theirs, pickle._Pickler):  # type: ignore[attr-defined]
        dispatch = {**theirs.dispatch, _Name: _Pickler.save_name}
        return type("_Pickler", (_Pickler, theirs), {"dispatch": dispatch})(file, protocol)
    pickler = _Pickler(file, protocol)
    pickler.reducing = theirs(io.BytesIO(), protocol)
    if hasattr(pickler.reducing, "dispatch_table"):
        pickler.dispatch_table = pickler.reducing.dispatch_table
    return pickler


def load(
    f: str | os.PathLike[str] | io.IOBase,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Read a file that `save`, or PyTorch's `torch.save`, wrote.

    Args:
        f: a path, or a file that is open for reading bytes and can seek. The object begins at its position.
        map_location: where storages go: "cpu", "meta", a device, a dict of locations, or a function
            `(storage, location)` that returns a storage, or None for the storage's own location.
        pickle_module: a module whose class `Unpickler` reads the object; not with `weights_only`.
        weights_only: rebuild tensors, plain containers and classes allowed by `add_safe_globals`; refuse all else.
            False runs any code that the file names: only for trusted files. True unless there is a pickle_module.
        mmap: accepted for compatibility.
        pickle_load_args: options of the Unpickler, such as `encoding`.

    Raises:
        FileNotFoundError: if there is no such file.
        EOFError: if it is empty, or at its end.
        RuntimeError: if the file has another format, is damaged, or has tensors of another device and there is no
            map_location.
        UnpicklingError: for a name that is not allowed; the message gives the remedy.
    """
    if weights_only is None:
        weights_only = pickle_module is None
    elif weights_only and pickle_module is not None:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    if isinstance(f, str | os.PathLike):
        with open(f, "rb") as file:
            return load(file, map_location, pickle_module, weights_only=weights_only, **pickle_load_args)
    if mmap:
        raise ValueError("f must be a file path in order to use the mmap argument")
    if not hasattr(f, "seek") or not hasattr(f, "read"):
        raise AttributeError(
            f"load() reads from a path or from a file that can seek, not from a {type(f).__name__}; "
            "wrap the data in an io.BytesIO"
        )
    start = f.tell()
    f.seek(0, 2)  # a file that cannot raises its own error
    size = f.tell() - start
    f.seek(start)
    if size <= 0:
        raise EOFError("load(): the file is empty, or at its end; seek(0) goes back to its start")
    is_archive = f.read(4) == b"PK\x03\x04"
    f.seek(start)
    kind: Any = (Archive if is_archive else Old) if weights_only else TrustedArchive if is_archive else TrustedOld
    if pickle_module is not None:
        kind = type(kind.__name__, (kind, pickle_module.Unpickler), {})
    unpickler = kind(io.BytesIO(), **pickle_load_args)  # which raises for unknown options, and nothing else
    try:
        if is_archive:
            with archive_in(Window(f, start, start + size)) as archive:
                members = Members(archive, size if weights_only else None)
                unpickler = kind(io.BytesIO(members.read("data.pkl")), **pickle_load_args)
                unpickler.map_location, unpickler.members, unpickler.storages = map_location, members, {}
                return unpickler.load()
        from ..compat.legacy_serialization import read

        old: Any = f
        unpickler = kind(old, **pickle_load_args)
        unpickler.map_location, unpickler.left, unpickler.memory = map_location, size, {}
        return read(old, lambda: Facts(old), unpickler)
    except Exception as error:
        is_known = type(error) in (RuntimeError, pickle.UnpicklingError) or error is unpickler.raised
        is_systems = isinstance(error, OSError) and error.errno != errno.EINVAL  # a seek to nowhere
        if is_known or is_systems or not (weights_only or isinstance(error, _OF_DAMAGE)):
            raise
        raise RuntimeError(f"load(): the file is damaged: {error}") from error


_OF_DAMAGE = (zipfile.BadZipFile, EOFError, KeyError)


def add_safe_globals(safe_globals: Iterable[Callable[..., Any] | tuple[Callable[..., Any], str]]) -> None:
    """Let `load` rebuild objects of these classes, or call these functions; `(class, "module.name")` renames one."""
    allowed.extend(safe_globals)


def get_safe_globals() -> list[Any]:
    """Return the classes and functions allowed by add_safe_globals."""
    return list(allowed)


def clear_safe_globals() -> None:
    """Disallow all classes and functions except tensors and plain containers."""
    allowed.clear()


class safe_globals:
    """A `with` block in which `load` also allows these classes and functions."""

    def __init__(self, safe_globals: Iterable[Callable[..., Any] | tuple[Callable[..., Any], str]]) -> None:
        self.added: list[Any] = list(safe_globals)

    def __enter__(self) -> None:
        self.before: list[Any] = list(allowed)
        allowed[:] = [*self.before, *self.added]

    def __exit__(self, *exception: Any) -> None:
        allowed[:] = self.before
