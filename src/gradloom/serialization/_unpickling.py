"""Read the pickle in a file: what it names, its storages, and what a file that is not trusted may do.

Note [Untrusted files]
A pickle is a program for a small stack machine. `_Restricted` runs the pickles of files that are not trusted: it calls
the functions of a table, with arguments that `_CHECKS` accepts, and what `add_safe_globals` allows; it gives state and
items only to objects that this file has made. Objects that exist once for the whole process (classes, functions,
dtypes, layouts, members of enumerations) are never changed. Nothing is allocated, hashed or repeated that is out of
proportion to the size of the file.
"""

from __future__ import annotations

import pickle
import sys
import zipfile
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from enum import Enum
from importlib import import_module
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, BinaryIO

import numpy as np

from ..core.tensor import Tensor
from ..dispatch import _operators
from ..memory.metadata import MetaArray
from ..memory.ownership import flat, rooted
from ..storage import TypedStorage, UntypedStorage, _Storage
from ..types.device import device, layout
from ..types.dtype import ALL, BY_NAME, dtype as dtype_class, legacy_type_name, uint8
from ..types.size import Size
from ._rebuilding import (
    encode,
    get_layout,
    rebuild_from_type,
    rebuild_meta_tensor,
    rebuild_parameter,
    rebuild_parameter_with_state,
    rebuild_sparse_tensor,
    rebuild_tensor,
    rebuild_tensor_v1,
    rebuild_tensor_v3,
    rebuild_wrapper_subclass,
    untyped_storage,
)

STORAGE_NAMES = {t: legacy_type_name(t).replace("torch.", "").replace("Tensor", "Storage") for t in ALL[:6] + ALL[9:]}
STORAGE_TYPES = {name: t for t, name in STORAGE_NAMES.items()}


def without_tensors(name: str) -> dtype_class | None:
    """Return a dtype without tensors, such as complex32; None if there is none of that name."""
    found = getattr(import_module("gradloom.types.without_tensors"), name, None)
    return found if type(found) is dtype_class else None


def take(left: int, count: int) -> int:
    """Return how many of the `left` bytes of a file there are after `count`. Raises RuntimeError if it has fewer."""
    if not 0 <= count <= left:
        raise RuntimeError(f"load(): the file is damaged: it has no room for {count} bytes")
    return left - count


class Storages:
    """Finds what a pickle names: PyTorch's functions and classes in gradloom, others if they are allowed, and storages.

    Attributes:
        raised: the exception of a function of the caller's, such as `map_location`.
    """

    map_location: Any = None
    weights_only = True
    raised: BaseException | None = None

    def find_class(self, module: str, name: str) -> Any:
        found = _REBUILDERS.get(("builtins" if module == "__builtin__" else module, name))
        if found is None and module == "torch":
            found = STORAGE_TYPES.get(name) or BY_NAME.get(name) or without_tensors(name)
        if found is None:
            found = next((g for g, m, n in map(_named, allowed) if (m, n) == (module, name)), None)
        if found is not None:
            return found
        if self.weights_only:
            raise pickle.UnpicklingError(
                f"Weights only load failed: Unsupported global: GLOBAL {module}.{name} was not an allowed global by "
                f"default. If you trust it, allow it with gradloom.serialization.add_safe_globals([{name}]); if you "
                "trust the file as a whole, load it with weights_only=False, which runs the code that it names."
            )
        if module != "torch" and not module.startswith("torch."):
            return super().find_class(module, name)  # type: ignore[misc]
        target = import_module("gradloom" + module[5:])
        for part in name.split("."):
            target = getattr(target, part)
        return target

    def persistent_load(self, saved: Any) -> _Storage:
        is_known = type(saved) is tuple and 5 <= len(saved) <= 6 and saved[0] == "storage"
        if not is_known or not type(saved[2]) is type(saved[3]) is str:
            raise RuntimeError("load(): unknown persistent id")
        return self.storage(*saved[1:])

    def placed(self, location: str, read: Callable[[], np.ndarray]) -> Any:
        """Return the memory of a storage where `map_location` puts it.

        Args:
            location: the storage's, from the file.
            read: returns its bytes.
        """
        where = self.map_location
        if where is None or isinstance(where, str | bytes | dict | device):
            is_meta = check_location(location, where) == "meta"
            memory = read()
        else:
            memory = read()
            found = self.called(where, UntypedStorage._of(memory), location)
            if isinstance(found, _Storage):
                return _bytes_of(found)
            if found is not None:
                self.raised = TypeError(
                    f"map_location must return a storage, or None for the storage's own location, not a "
                    f"{type(found).__name__}"
                )
                raise self.raised
            is_meta = check_location(location, None) == "meta"
        return _operators.empty(memory.nbytes, dtype=uint8, device="meta")._array if is_meta else memory

    def storage(self, *saved: Any) -> _Storage:
        raise RuntimeError("load(): a storage where there should be none")

    def called(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function of the caller's; what it raises is not the file's fault."""
        try:
            return function(*args)
        except BaseException as error:
            self.raised = error
            raise


class Members:
    """The members of an archive.

    Attributes:
        folder: the folder of `data.pkl`.
        left: how many bytes may still be read; None for a file that is trusted.
    """

    def __init__(self, archive: zipfile.ZipFile, left: int | None) -> None:
        self.archive, self.left = archive, left
        names = [n for n in archive.namelist() if n.endswith("/data.pkl") or n == "data.pkl"]
        if not names:
            raise RuntimeError(
                "load(): there is no data.pkl in the archive: it was not written by save(), or it is a "
                "TorchScript file, which only PyTorch runs"
            )
        self.folder = names[0].removesuffix("data.pkl")
        if f"{self.folder}byteorder" in archive.namelist():
            order = self.read("byteorder").decode()
            if order != sys.byteorder:
                raise RuntimeError(
                    f"load(): the file is of a {order}-endian machine, this one is {sys.byteorder}-endian"
                )

    def read(self, name: str) -> bytes:
        info = self.archive.getinfo(self.folder + name)
        if self.left is not None:
            if info.compress_type != zipfile.ZIP_STORED:
                raise RuntimeError(
                    f"load(): {name} is compressed, which save() does not do: such a file may hold any number of "
                    "bytes. If you trust it, load it with weights_only=False"
                )
            self.left = take(self.left, info.file_size)
        return self.archive.read(info)


class _ArchiveStorages(Storages):
    members: Members
    storages: dict[str, np.ndarray]

    def storage(self, kind, key, location, count, part=None) -> _Storage:
        memory = self.storages.get(key)
        if memory is None:
            memory = self.storages[key] = self.placed(
                location, lambda: np.frombuffer(bytearray(self.members.read(f"data/{key}")), np.uint8)
            )
        return _storage(memory, kind)


class _OldStorages(Storages):
    """Makes room for storages, whose elements follow the object; see compat/legacy_serialization.py.

    Attributes:
        memory: {key: (bytes, size of an element)}.
        left: how many bytes further storages may have.
    """

    left: int
    memory: dict[str, tuple[np.ndarray, int]]

    def storage(self, kind, key, location, count, part=None) -> _Storage:
        item = getattr(kind, "itemsize", 1)
        if key not in self.memory:
            self.left = take(self.left, count * item)
            self.memory[key] = self.placed(location, lambda: np.zeros(count * item, np.uint8)), item
        array = self.memory[key][0]
        if part is not None:  # a view of a storage, as in PyTorch's first years
            _, offset, length = part
            array = rooted(array[offset * item : (offset + length) * item])
        return _storage(array, kind)


class _File:
    """A file for an unpickler that never asks for more bytes than are left."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.readline = file, file.readline
        here = file.tell()
        self.end = file.seek(0, 2)
        file.seek(here)

    def read(self, count: int) -> bytes:
        if count > 1024 and count > self.end - self.file.tell():
            raise EOFError("it ends too early")
        return self.file.read(count)


class _Restricted(pickle._Unpickler):  # type: ignore[name-defined]  # Python's own in Python: each step can be checked
    """Runs pickles of files that are not trusted. See Note [Untrusted files]."""

    dispatch = pickle._Unpickler.dispatch.copy()  # type: ignore[attr-defined]
    for _code in (
        pickle.EXT1, pickle.EXT2, pickle.EXT4, pickle.INST, pickle.OBJ, pickle.PERSID, pickle.NEWOBJ_EX,
        pickle.NEXT_BUFFER, pickle.READONLY_BUFFER,
    ):  # fmt: skip
        del dispatch[_code[0]]

    def __init__(self, file: Any, **options: Any) -> None:
        bounded = _File(file)
        super().__init__(bounded, **options)
        self.own: dict[int, Any] = {}  # what this file has made, by id
        self.hashes = 10_000 + 4 * bounded.end  # how many elements of tuples may be hashed

    def load_reduce(self) -> None:
        args = self.stack.pop()
        self.stack[-1] = self.make(self.stack[-1], args)

    dispatch[pickle.REDUCE[0]] = load_reduce

    def load_newobj(self) -> None:
        args = self.stack.pop()
        cls = self.stack[-1]
        if not (isinstance(cls, type) and _is_allowed(cls)):
            raise _refused(f"make an object of {cls!r}" if isinstance(cls, type) else "make an object of no class")
        self.stack[-1] = self.owned(self.called(cls.__new__, cls, *args))

    dispatch[pickle.NEWOBJ[0]] = load_newobj

    def make(self, function: Any, args: Any) -> Any:
        """Return the result of a call, if the file may make it."""
        if type(args) is not tuple:
            raise _refused("call a function without a tuple of arguments")
        check = _CHECKS.get(id(function))
        if check is not None:
            if not check(self, *args):
                raise _refused(f"call {function.__name__} with these arguments")
            return self.owned(function(*args))
        if not _is_allowed(function):
            raise _refused(f"call {getattr(function, '__name__', type(function).__name__)}")
        return self.owned(self.called(function, *args))

    def owned(self, result: Any) -> Any:
        if not isinstance(result, _SHARED):
            self.own[id(result)] = result
        return result

    def load_build(self) -> None:
        state, target = self.stack[-1], self.stack[-2]
        if id(target) not in self.own:
            raise _refused(f"change {_described(target)}")
        if type(target) in _CONTAINERS:
            del self.stack[-1]
            if not _is_state(state):
                raise _refused(f"set these attributes of {_described(target)}")
            target.__dict__.update(state)
        elif isinstance(target, Tensor) or not _is_allowed(type(target)):
            raise _refused(f"set the state of {_described(target)}")
        else:
            self.called(super().load_build)

    dispatch[pickle.BUILD[0]] = load_build

    def load_bytearray8(self) -> None:
        self.append(bytearray(self.read(int.from_bytes(self.read(8), "little"))))

    dispatch[pickle.BYTEARRAY8[0]] = load_bytearray8

    def load_dict(self) -> None:
        items = self.pop_mark()
        self.hashable(items[::2])
        self.append(dict(zip(items[::2], items[1::2], strict=True)))

    dispatch[pickle.DICT[0]] = load_dict

    def load_setitem(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self.set_items([key, value])

    dispatch[pickle.SETITEM[0]] = load_setitem

    def load_setitems(self) -> None:
        self.set_items(self.pop_mark())

    dispatch[pickle.SETITEMS[0]] = load_setitems

    def set_items(self, items: list) -> None:
        target = self.changeable(dict)
        self.hashable(items[::2])
        for key, value in zip(items[::2], items[1::2], strict=True):
            target[key] = value

    def load_append(self) -> None:
        value = self.stack.pop()
        self.changeable(list).append(value)

    dispatch[pickle.APPEND[0]] = load_append

    def load_appends(self) -> None:
        items = self.pop_mark()
        self.changeable(list).extend(items)

    dispatch[pickle.APPENDS[0]] = load_appends

    def load_additems(self) -> None:
        items = self.pop_mark()
        self.hashable(items)
        self.changeable(set).update(items)

    dispatch[pickle.ADDITEMS[0]] = load_additems

    def load_frozenset(self) -> None:
        items = self.pop_mark()
        self.hashable(items)
        self.append(frozenset(items))

    dispatch[pickle.FROZENSET[0]] = load_frozenset

    def changeable(self, kind: type) -> Any:
        """Return the top of the stack if it is a container of this kind, or an object of an allowed class."""
        target = self.stack[-1]
        if not isinstance(target, kind) and (id(target) not in self.own or isinstance(target, Tensor)):
            raise _refused(f"change {_described(target)}")
        return target

    def hashable(self, items: Any, depth: int = 0) -> bool:
        """Refuse tuples that take long to hash: Python hashes those within them each time, and by recursion."""
        for item in items:
            if isinstance(item, (tuple, frozenset)):
                self.hashes -= len(item) + 1
                if depth > 8 or self.hashes < 0:
                    raise _refused("use such deeply nested tuples as keys")
                if isinstance(item, tuple):
                    self.hashable(item, depth + 1)
        return True

    def plain(self, *args: Any) -> bool:
        """Return whether there is at most one argument, and it is a container that can be copied."""
        return not args or (len(args) == 1 and type(args[0]) in _PLAIN)

    def hashed(self, *args: Any) -> bool:
        return self.plain(*args) and all(self.hashable(items) for items in args)

    def paired(self, *args: Any) -> bool:
        if not args or type(args[0]) in (dict, OrderedDict):
            return len(args) < 2
        pairs = args[0]
        is_list = len(args) == 1 and type(pairs) in (list, tuple)
        return is_list and all(type(p) in (list, tuple) and len(p) == 2 and self.hashable(p[:1]) for p in pairs)

    def with_factory(self, *args: Any) -> bool:
        is_known = not args or args[0] is None or id(args[0]) in _CHECKS or _is_allowed(args[0])
        return is_known and self.paired(*args[1:])


def _refused(what: str) -> pickle.UnpicklingError:
    return pickle.UnpicklingError(
        f"Weights only load failed: the file is not allowed to {what}. If you trust the file as a whole, load it with "
        "weights_only=False, which runs the code that it names."
    )


def _described(target: Any) -> str:
    if isinstance(target, (type, FunctionType, BuiltinFunctionType)):
        return f"{target.__module__}.{target.__qualname__}"
    return f"an object of type {type(target).__name__}"


def _is_allowed(function: Any) -> bool:
    """Return whether the program has allowed a class or function."""
    return any(function is (item[0] if isinstance(item, tuple) else item) for item in allowed)


def _is_state(state: Any) -> bool:
    """Return whether a dict holds attributes for an instance's `__dict__`."""
    return state is None or (type(state) in (dict, OrderedDict) and all(type(name) is str for name in state))


_SHARED = (type, FunctionType, BuiltinFunctionType, ModuleType, Enum, dtype_class, layout)
_CONTAINERS = (OrderedDict, Counter, defaultdict)
_PLAIN = (list, tuple, dict, set, frozenset, str, bytes, bytearray, OrderedDict, Size)


class Archive(_ArchiveStorages, _Restricted):
    """Unpickler of archives that are not trusted."""


class TrustedArchive(_ArchiveStorages, pickle.Unpickler):
    """Unpickler of archives that may run any code."""

    weights_only = False


class Old(_OldStorages, _Restricted):
    """Unpickler of files from before PyTorch 1.6 that are not trusted."""


class TrustedOld(_OldStorages, pickle.Unpickler):
    """Unpickler of files from before PyTorch 1.6 that may run any code."""

    weights_only = False


class Facts(Storages, _Restricted):
    """Unpickler of the numbers around the object in files from before PyTorch 1.6."""


def check_location(location: str, map_location: Any) -> str:
    """Return the type of the device to which storages of a location are loaded: cpu or meta.

    Args:
        location: in a file, such as "cuda:0".
        map_location: None, a location or device, or a dict of locations; a function cannot be asked.

    Raises:
        RuntimeError: for another device.
    """
    if map_location is None or callable(map_location):
        target: Any = location
    elif isinstance(map_location, dict):
        target = map_location.get(location, location)
    else:
        target = map_location.decode() if isinstance(map_location, bytes) else map_location
    kind = str(target).partition(":")[0]
    if kind in ("cpu", "meta"):
        return kind
    if kind in _DEVICES:
        raise RuntimeError(
            f"Attempting to deserialize object on a {kind} device, and there is only the CPU. "
            "Please use load with map_location=torch.device('cpu') to map your storages to the CPU."
        )
    raise RuntimeError(
        f"don't know how to restore data location of torch.storage.UntypedStorage (tagged with {target})"
    )


_DEVICES = ("cuda", "hpu", "mps", "mtia", "privateuseone", "xpu")


def _bytes_of(stored: _Storage) -> Any:
    """Return the memory of a storage as bytes."""
    owner = stored._owner
    return owner if isinstance(owner, MetaArray) else flat(owner).view(np.uint8)


def _storage(memory: np.ndarray, kind: Any) -> _Storage:
    """Return a storage on bytes: of elements of a dtype, or else of bytes."""
    return TypedStorage._of(memory, kind) if isinstance(kind, dtype_class) else UntypedStorage._of(memory)


_REBUILDERS: dict[tuple[str, str], Any] = {
    ("torch._utils", "_rebuild_tensor"): rebuild_tensor_v1,
    ("torch._utils", "_rebuild_tensor_v2"): rebuild_tensor,
    ("torch._utils", "_rebuild_tensor_v3"): rebuild_tensor_v3,
    ("torch._utils", "_rebuild_parameter"): rebuild_parameter,
    ("torch._utils", "_rebuild_parameter_with_state"): rebuild_parameter_with_state,
    ("torch._utils", "_rebuild_wrapper_subclass"): rebuild_wrapper_subclass,
    ("torch._utils", "_rebuild_sparse_tensor"): rebuild_sparse_tensor,
    ("torch._utils", "_rebuild_meta_tensor_no_storage"): rebuild_meta_tensor,
    ("torch.serialization", "_get_layout"): get_layout,
    ("torch._tensor", "_rebuild_from_type_v2"): rebuild_from_type,
    ("torch.storage", "UntypedStorage"): untyped_storage,
    ("torch", "Size"): Size,
    ("torch", "device"): device,
    ("torch", "Tensor"): Tensor,
    ("collections", "OrderedDict"): OrderedDict,
    ("collections", "Counter"): Counter,
    ("collections", "defaultdict"): defaultdict,
    ("_codecs", "encode"): encode,
    **{
        ("builtins", t.__name__): t
        for t in (bytearray, bytes, complex, dict, float, frozenset, int, list, set, str, tuple)
    },
}

_ANY: Callable[..., bool] = lambda unpickler, *args: True  # noqa: E731  (they check their arguments)
_NEVER: Callable[..., bool] = lambda unpickler, *args: False  # noqa: E731


def _of_text(unpickler, *args):
    return all(type(a) in (str, bytes, int, float) for a in args) and len(args) < 3


def _of_bytes(unpickler, *args):
    return not args or (type(args[0]) in (str, bytes, bytearray, list) and all(type(a) is str for a in args[1:]))


def _of_encoding(unpickler, text, encoding):
    return type(text) is str and encoding in ("latin1", "latin-1", "utf-8", "utf8", "ascii")


def _of_state(unpickler, *args):
    """Return whether the last argument is state for a tensor: nothing that a tensor has of itself."""
    parts = args[-1] if type(args[-1]) is tuple else args[-1:]
    return all(_is_state(part) and not any(hasattr(Tensor, name) for name in part or ()) for part in parts)


def _of_type(unpickler, function, kind, args, state):
    is_known = (_CHECKS.get(id(function)) is _ANY and function in _REBUILDERS.values()) or _is_allowed(function)
    return is_known and type(args) is tuple and _of_state(unpickler, state)


_RESTRICTED: dict[Any, Callable[..., bool]] = {
    Tensor: _NEVER,
    rebuild_from_type: _of_type,
    rebuild_parameter_with_state: _of_state,
    encode: _of_encoding,
    OrderedDict: _Restricted.paired,
    dict: _Restricted.paired,
    defaultdict: _Restricted.with_factory,
    **dict.fromkeys((Counter, set, frozenset), _Restricted.hashed),
    **dict.fromkeys((list, tuple, Size), _Restricted.plain),
    **dict.fromkeys((bytearray, bytes), _of_bytes),
    **dict.fromkeys((complex, float, int, str, device), _of_text),
}
# id of a function that a file may call -> whether it may with these arguments
_CHECKS = {id(function): _RESTRICTED.get(function, _ANY) for function in _REBUILDERS.values()}

allowed: list = []  # see add_safe_globals


def _named(item: Any) -> tuple[Any, str, str]:
    if isinstance(item, tuple):
        function, full = item
        module, _, name = full.rpartition(".")
        return function, module, name
    return item, item.__module__, item.__qualname__
