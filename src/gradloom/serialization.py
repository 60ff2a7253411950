"""save and load: tensors, and dicts, lists and modules' state with tensors in them, in PyTorch's file format.

Note [The file format]
A file is an uncompressed zip archive: `data.pkl`, a pickle (protocol 2) in which each tensor is
`torch._utils._rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks)` and each storage a persistent id
`("storage", torch.FloatStorage, key, "cpu", number of elements)`, and `data/<key>` with the bytes of each storage, once
for all tensors that share it. The pickle has PyTorch's names of functions and classes, so that each library reads the
other's files without importing the other.

A pickle can call any function of any module. `load` therefore resolves names from a list of those that rebuild tensors
and plain containers, unless weights_only=False marks the file as trusted.
"""

from __future__ import annotations

import io
import os
import pickle
import sys
import zipfile
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

import numpy as np

from .core.tensor import Tensor, wrap
from .core.tensor_base import TensorBase
from .memory.ownership import extent, flat, offset_in_elements, owner, strided_view
from .tensors.construction import made
from .types.device import device, layout
from .types.dtype import ALL, BY_NAME, dtype as dtype_class, legacy_type_name
from .types.size import Size

__all__ = ["add_safe_globals", "clear_safe_globals", "get_safe_globals", "load", "safe_globals", "save"]

_STORAGE_NAMES = {t: legacy_type_name(t).replace("torch.", "").replace("Tensor", "Storage") for t in ALL[:6] + ALL[9:]}
_STORAGE_TYPES = {name: t for t, name in _STORAGE_NAMES.items()}


def save(
    obj: Any,
    f: str | os.PathLike[str] | io.IOBase,
    pickle_module: Any = None,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
) -> None:
    """Write an object, with the tensors in it, to a file that `load` and PyTorch's `torch.load` read.

    Args:
        obj: anything that can be pickled: a state_dict, a Tensor, containers of them, a Module.
        f: a path, or a file that is open for writing bytes. A path is written completely or not at all.
        pickle_module, pickle_protocol: accepted for PyTorch's sake; the protocol is always 2.
        _use_new_zipfile_serialization: False writes PyTorch's format from before version 1.6.

    Raises:
        RuntimeError: if the folder does not exist, or two tensors see the same memory as different types.
        PicklingError: for what cannot be pickled, such as a function of the program that has no name.
    """
    buffer = io.BytesIO()
    pickler = _Pickler(buffer, protocol=2)
    pickler.old = not _use_new_zipfile_serialization
    pickler.dump(obj)

    def write(file, name):
        if pickler.old:
            from .compat.legacy_serialization import write

            write(file, buffer.getvalue(), pickler.storages)
        else:
            _write_archive(file, buffer.getvalue(), pickler.storages, name)

    if not isinstance(f, str | os.PathLike):
        if not hasattr(f, "write"):
            raise AttributeError(
                "expected 'f' to be string, path, or a file-like object with a 'write' attribute, not "
                f"{type(f).__name__}"
            )
        write(f, "archive")
        return
    path = os.fspath(f)
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise RuntimeError(f"Parent directory {folder} does not exist.")
    unfinished = f"{path}.{os.getpid()}.part"
    try:
        with open(unfinished, "wb") as file:
            write(file, os.path.splitext(os.path.basename(path))[0])
        os.replace(unfinished, path)
    finally:
        if os.path.exists(unfinished):
            os.remove(unfinished)


def _write_archive(file, pickled: bytes, storages: dict, name: str) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:

        def add(member, data):
            archive.writestr(zipfile.ZipInfo(f"{name}/{member}", (1980, 1, 1, 0, 0, 0)), data)

        add("data.pkl", pickled)
        add("byteorder", sys.byteorder)
        for key, base, _ in storages.values():
            memory = flat(base)
            add(f"data/{key}", memoryview(np.ascontiguousarray(memory).view(np.uint8)) if memory.size else b"")
        add("version", "3\n")


class _Name:
    """A global of PyTorch's, written into a pickle by name."""

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
    )
}
_NAMES |= {
    name: _Name("torch", name) for name in (*_STORAGE_TYPES, "Size", "device", "Tensor", *[str(t)[6:] for t in ALL])
}
_NAMES["UntypedStorage"] = _Name("torch.storage", "UntypedStorage")
_NAMES["_get_layout"] = _Name("torch.serialization", "_get_layout")
_NAMES["_rebuild_from_type_v2"] = _Name("torch._tensor", "_rebuild_from_type_v2")


class _Stored:
    """Stands for a storage in a pickle."""

    def __init__(self, persistent_id: tuple) -> None:
        self.persistent_id = persistent_id


class _Pickler(pickle._Pickler):  # type: ignore[name-defined]  # Python's own in Python: `dispatch` can be extended
    """Writes tensors, dtypes, shapes and devices under PyTorch's names.

    Attributes:
        storages: {id of an owner of memory: (key, owner, dtype)}.
        old: whether for the format from before PyTorch 1.6.
    """

    old = False

    dispatch = pickle._Pickler.dispatch.copy()  # type: ignore[attr-defined]

    def __init__(self, file: Any, protocol: int) -> None:
        super().__init__(file, protocol)
        self.storages: dict[int, tuple[str, np.ndarray, dtype_class]] = {}

    def persistent_id(self, obj: Any) -> tuple | None:
        return obj.persistent_id if isinstance(obj, _Stored) else None

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
        return NotImplemented

    def save(self, obj: Any, save_persistent_id: bool = True) -> None:
        if isinstance(obj, dtype_class):  # a global, not a call
            name = _NAMES[str(obj)[6:]]
            known = self.memo.get(id(name))
            if known is None:
                self.save_name(name)
            else:
                self.write(self.get(known[0]))
            return
        super().save(obj, save_persistent_id)

    def tensor(self, obj: Tensor) -> tuple:
        from .memory.metadata import Metadata
        from .nn.parameter import Parameter

        extra = {n: v for n, v in obj.__dict__.items() if n not in Tensor.__dict__}
        if issubclass(type(obj), Parameter):
            args = (obj.data, obj.requires_grad, OrderedDict())
            if extra:
                return _NAMES["_rebuild_parameter_with_state"], (*args, extra)
            return _NAMES["_rebuild_parameter"], args
        function, args = self.without_values(obj) if isinstance(obj._array, Metadata) else self.plain(obj)
        if type(obj) is not Tensor:  # a subclass of the user's, which must be importable where it is loaded
            return _NAMES["_rebuild_from_type_v2"], (function, type(obj), args, extra)
        if extra:
            return _NAMES["_rebuild_from_type_v2"], (function, _NAMES["Tensor"], args, extra)
        return function, args

    def without_values(self, obj: Tensor) -> tuple:
        """Return a wrapper subclass: its shape. What it wraps stands among its attributes."""
        args = (type(obj), obj.dtype, tuple(obj.shape), obj.stride(), 0, obj.layout, obj.device, obj.requires_grad)
        return _NAMES["_rebuild_wrapper_subclass"], args

    def plain(self, obj: Tensor) -> tuple:
        array, kind = obj._array, obj.dtype
        stored = self.stored(array, kind)
        args = (stored, offset_in_elements(array), tuple(array.shape), obj.stride(), obj.requires_grad, OrderedDict())
        bits = {name: True for name, is_set in (("conj", obj.is_conj()), ("neg", obj.is_neg())) if is_set}
        metadata = (bits,) if bits else ()
        if kind in _STORAGE_NAMES:
            return _NAMES["_rebuild_tensor_v2"], (*args, *metadata)
        return _NAMES["_rebuild_tensor_v3"], (*args, kind, *metadata)

    def stored(self, array: np.ndarray, kind: dtype_class) -> _Stored:
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
        name = _STORAGE_NAMES.get(kind)
        size = (end - start) // array.itemsize if name else end - start
        if self.old and not name:
            raise RuntimeError(f"save(): PyTorch's format from before version 1.6 has no {kind}")
        return _Stored(("storage", _NAMES[name or "UntypedStorage"], key, "cpu", size, *(None,) * self.old))


def load(
    f: str | os.PathLike[str] | io.IOBase,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool = True,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Read a file that `save`, or PyTorch's `torch.save`, wrote.

    Args:
        f: a path, or a file that is open for reading bytes and can seek.
        map_location: for files with tensors of other devices: "cpu", a device, a dict of locations or a function
            `(storage, location)`. All tensors go to the CPU.
        weights_only: rebuild tensors, plain containers and what `add_safe_globals` allows, and refuse all else. False
            runs any code that the file names: only for files that you trust.
        mmap: accepted for PyTorch's sake.

    Raises:
        FileNotFoundError: if there is no such file.
        EOFError: if it is empty.
        RuntimeError: if it is not such a file, is damaged, or holds tensors of another device without a map_location.
        UnpicklingError: for a name that is not allowed, with what to do about it.
    """
    if isinstance(f, str | os.PathLike):
        with open(f, "rb") as file:
            return load(file, map_location, pickle_module, weights_only=weights_only, **pickle_load_args)
    if not hasattr(f, "seek") or not hasattr(f, "read"):
        raise AttributeError(
            f"load() reads from a path or from a file that can seek, not from a {type(f).__name__}; "
            "put what you have into an io.BytesIO"
        )
    if not zipfile.is_zipfile(f):
        f.seek(0)
        if not f.read(1):
            raise EOFError("load(): the file is empty")
        f.seek(0)
        from .compat.legacy_serialization import read

        legacy: Any = f
        return read(
            legacy, lambda: Unpickler(f, map_location, True), _LegacyUnpickler(legacy, map_location, weights_only)
        )
    f.seek(0)
    try:
        with zipfile.ZipFile(f) as archive:  # type: ignore[arg-type]
            return _ArchiveUnpickler(archive, map_location, weights_only).load()
    except (zipfile.BadZipFile, EOFError, KeyError) as error:
        raise RuntimeError(f"load(): the archive is damaged: {error}") from error


class Unpickler(pickle.Unpickler):
    """Finds what a file names: PyTorch's functions and classes in gradloom, and others if they are allowed."""

    def __init__(self, file: Any, map_location: Any, weights_only: bool) -> None:
        super().__init__(file)
        self.map_location: Any = map_location
        self.weights_only: bool = weights_only

    def find_class(self, module: str, name: str) -> Any:
        found = _REBUILDERS.get(("builtins" if module == "__builtin__" else module, name))
        if found is None and module == "torch":
            found = _STORAGE_TYPES.get(name) or BY_NAME.get(name)
        if found is None:
            found = next((g for g, m, n in map(_named, _safe) if (m, n) == (module, name)), None)
        if found is not None:
            return found
        if self.weights_only:
            raise pickle.UnpicklingError(
                f"Weights only load failed: Unsupported global: GLOBAL {module}.{name} was not an allowed global by "
                f"default. If you trust it, allow it with gradloom.serialization.add_safe_globals([{name}]); if you "
                "trust the file as a whole, load it with weights_only=False, which runs the code that it names."
            )
        if module != "torch" and not module.startswith("torch."):
            return super().find_class(module, name)
        target = import_module("gradloom" + module[5:])
        for part in name.split("."):
            target = getattr(target, part)
        return target


class _ArchiveUnpickler(Unpickler):
    def __init__(self, archive: zipfile.ZipFile, map_location: Any, weights_only: bool) -> None:
        names = [n for n in archive.namelist() if n.endswith("/data.pkl") or n == "data.pkl"]
        if not names:
            raise RuntimeError(
                "load(): there is no data.pkl in the archive: it was not written by save(), or it is a "
                "TorchScript file, which only PyTorch runs"
            )
        self.folder = names[0].removesuffix("data.pkl")
        self.archive = archive
        self.storages: dict[str, np.ndarray] = {}
        if f"{self.folder}byteorder" in archive.namelist():
            order = archive.read(f"{self.folder}byteorder").decode()
            if order != sys.byteorder:
                raise RuntimeError(
                    f"load(): the file is of a {order}-endian machine, this one is {sys.byteorder}-endian"
                )
        super().__init__(io.BytesIO(archive.read(names[0])), map_location, weights_only)

    def persistent_load(self, saved: Any) -> tuple[np.ndarray, dtype_class | None]:
        if not isinstance(saved, tuple) or len(saved) != 5 or saved[0] != "storage":
            raise RuntimeError(f"load(): unknown persistent id {saved!r}")
        _, kind, key, location, _ = saved
        memory = self.storages.get(key)
        if memory is None:
            check_location(location, self.map_location)
            data = bytearray(self.archive.read(f"{self.folder}data/{key}"))
            memory = self.storages[key] = np.frombuffer(data, np.uint8)
            if callable(self.map_location):
                from .storage import UntypedStorage

                self.map_location(UntypedStorage._of(memory), location)
        return memory, kind if isinstance(kind, dtype_class) else None


class _LegacyUnpickler(Unpickler):
    """Makes room for storages, whose elements follow the object; see compat/legacy_serialization.py."""

    def __init__(self, file: Any, map_location: Any, weights_only: bool) -> None:
        super().__init__(file, map_location, weights_only)
        self.memory: dict[str, tuple[np.ndarray, int]] = {}

    def persistent_load(self, saved: Any) -> Any:
        if not isinstance(saved, tuple) or len(saved) != 6 or saved[0] != "storage":
            raise RuntimeError(f"load(): unknown persistent id {saved!r}")
        _, kind, key, location, count, part = saved
        item = getattr(kind, "itemsize", 1)
        if key not in self.memory:
            check_location(location, self.map_location)
            self.memory[key] = np.empty(count * item, np.uint8), item
        memory = self.memory[key][0]
        if part is not None:  # a view of a storage, as in PyTorch's first years
            _, offset, length = part
            memory = memory[offset * item : (offset + length) * item]
        return memory, kind if hasattr(kind, "itemsize") else None


def check_location(location: str, map_location: Any) -> None:
    """Raise RuntimeError unless storages of a location go to the CPU."""
    if map_location is None:
        target = location
    elif isinstance(map_location, dict):
        target = map_location.get(location, location)
    else:
        target = "cpu" if callable(map_location) else map_location
    if str(target).partition(":")[0] != "cpu":
        raise RuntimeError(
            f"Attempting to deserialize object on a {location} device, and there is only the CPU. "
            "Please use load with map_location=torch.device('cpu') to map your storages to the CPU."
        )


def _rebuild_tensor(stored, offset, size, stride, requires_grad, hooks, metadata=None, kind=None):
    memory, storage_kind = stored
    numpy_type = (kind or storage_kind).numpy
    typed = memory.view(numpy_type) if memory.nbytes % numpy_type.itemsize == 0 else memory[:0].view(numpy_type)
    bits = metadata or {}
    array = strided_view(typed, tuple(size), tuple(stride), offset)
    if bits:
        from .memory.conjugation import with_bits

        array = with_bits(array, bool(bits.get("conj")), bool(bits.get("neg")))
    out = wrap(array)
    made(out)
    if requires_grad:
        out.requires_grad = True
    return out


def _rebuild_tensor_v1(stored, offset, size, stride):
    return _rebuild_tensor(stored, offset, size, stride, False, None)


def _rebuild_tensor_v3(stored, offset, size, stride, requires_grad, hooks, kind, metadata=None):
    return _rebuild_tensor(stored, offset, size, stride, requires_grad, hooks, metadata, kind)


def _rebuild_parameter(data, requires_grad, hooks):
    from .nn.parameter import Parameter

    return Parameter(data, requires_grad)


def _rebuild_parameter_with_state(data, requires_grad, hooks, state):
    out = _rebuild_parameter(data, requires_grad, hooks)
    return _with_state(out, state)


def _rebuild_from_type(function, kind, args, state):
    out = function(*args)
    if type(out) is not kind and issubclass(kind, Tensor):
        out = Tensor._make_subclass(kind, out, out.requires_grad)
    return _with_state(out, state)


def _rebuild_wrapper_subclass(kind, dtype, size, stride, offset, layout, device, requires_grad):
    if not (isinstance(kind, type) and issubclass(kind, Tensor)):
        raise RuntimeError(f"load(): {kind!r} is no subclass of Tensor: the file is damaged")
    return Tensor._make_wrapper_subclass(
        kind,
        size,
        strides=stride,
        storage_offset=offset,
        layout=layout,
        device=device,
        dtype=dtype,
        requires_grad=requires_grad,
    )


def _get_layout(name: str) -> layout:
    known = vars(import_module("gradloom.types.device")).values()
    found = next((v for v in known if isinstance(v, layout) and str(v) == name), None)
    if found is None:
        raise RuntimeError(f"load(): unknown layout {name!r}")
    return found


def _with_state(tensor, state):
    for part in state if isinstance(state, tuple) else (state,):
        tensor.__dict__.update(part or {})
    return tensor


def _untyped_storage(*args):
    raise RuntimeError("load(): a storage without tensors cannot be loaded")


def _encode(text: str, encoding: str) -> bytes:
    """Encode bytes as protocol 2 does."""
    return text.encode(encoding)


_REBUILDERS: dict[tuple[str, str], Any] = {
    ("torch._utils", "_rebuild_tensor"): _rebuild_tensor_v1,
    ("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor,
    ("torch._utils", "_rebuild_tensor_v3"): _rebuild_tensor_v3,
    ("torch._utils", "_rebuild_parameter"): _rebuild_parameter,
    ("torch._utils", "_rebuild_parameter_with_state"): _rebuild_parameter_with_state,
    ("torch._utils", "_rebuild_wrapper_subclass"): _rebuild_wrapper_subclass,
    ("torch.serialization", "_get_layout"): _get_layout,
    ("torch._tensor", "_rebuild_from_type_v2"): _rebuild_from_type,
    ("torch.storage", "UntypedStorage"): _untyped_storage,
    ("torch", "Size"): Size,
    ("torch", "device"): device,
    ("torch", "Tensor"): Tensor,
    ("collections", "OrderedDict"): OrderedDict,
    ("collections", "Counter"): Counter,
    ("collections", "defaultdict"): defaultdict,
    ("_codecs", "encode"): _encode,
    **{
        ("builtins", t.__name__): t
        for t in (bytearray, bytes, complex, dict, float, frozenset, int, list, set, str, tuple)
    },
}

_safe: list = []


def _named(item: Any) -> tuple[Any, str, str]:
    if isinstance(item, tuple):
        function, full = item
        module, _, name = full.rpartition(".")
        return function, module, name
    return item, item.__module__, item.__qualname__


def add_safe_globals(safe_globals: Iterable[Callable[..., Any] | tuple[Callable[..., Any], str]]) -> None:
    """Let `load` rebuild objects of these classes, or call these functions; `(class, "module.name")` renames one."""
    _safe.extend(safe_globals)


def get_safe_globals() -> list[Any]:
    """Return what add_safe_globals has allowed."""
    return list(_safe)


def clear_safe_globals() -> None:
    """Allow nothing beyond tensors and plain containers."""
    _safe.clear()


class safe_globals:
    """A `with` block in which `load` also allows these classes and functions."""

    def __init__(self, safe_globals: Iterable[Callable[..., Any] | tuple[Callable[..., Any], str]]) -> None:
        self.added: list[Any] = list(safe_globals)

    def __enter__(self) -> None:
        self.before: list[Any] = list(_safe)
        add_safe_globals(self.added)

    def __exit__(self, *exception: Any) -> None:
        _safe[:] = self.before
