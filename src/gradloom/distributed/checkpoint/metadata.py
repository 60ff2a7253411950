"""The index of a checkpoint, `.metadata`: which tensors and values it has, and where they are.

The classes have PyTorch's names, fields and pickles. A file may come from anywhere, so it is unpickled as `load` does
(Note [Untrusted files]): only these classes, dtypes and plain containers are made, and their fields are checked before
anything is read by them.
"""

from __future__ import annotations

import io
import math
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any, ClassVar

from ...serialization import _Name, _Pickler
from ...serialization._unpickling import Storages, _Restricted
from ...types.device import layout as layout_class, strided
from ...types.dtype import dtype as dtype_class, float32
from ...types.size import Size

__all__ = [
    "BytesStorageMetadata",
    "ChunkStorageMetadata",
    "Metadata",
    "MetadataIndex",
    "StorageMeta",
    "TensorProperties",
    "TensorStorageMetadata",
    "dumped",
    "parsed",
]

_VERSION = "1.0.0"


@dataclass
class ChunkStorageMetadata:
    """A part of a tensor: the index of its first element, and its sizes."""

    offsets: Size
    sizes: Size


@dataclass
class TensorProperties:
    """What a tensor is besides its size."""

    dtype: dtype_class = float32
    layout: layout_class = strided
    requires_grad: bool = False
    memory_format: Any = None
    pin_memory: bool = False
    strides: tuple[int, ...] | None = None


@dataclass
class TensorStorageMetadata:
    """A tensor of a checkpoint."""

    properties: TensorProperties
    size: Size
    chunks: list[ChunkStorageMetadata]


@dataclass
class BytesStorageMetadata:
    """A value of a checkpoint that is not a tensor."""


@dataclass(frozen=True)
class MetadataIndex:
    """A value, or a part of a tensor: its key, the index of its first element, and its number among the parts."""

    fqn: str
    offset: Size | None = None
    index: int | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.offset is not None:
            object.__setattr__(self, "offset", Size(self.offset))


@dataclass
class StorageMeta:
    """Which checkpoint this is."""

    checkpoint_id: Any = None
    save_id: str | None = None
    load_id: str | None = None
    modules: list[str] = field(default_factory=list)


@dataclass
class _StorageInfo:
    """Where something is: a file of the checkpoint's folder, and bytes of it."""

    relative_path: str
    offset: int
    length: int
    transform_descriptors: Sequence[str] | None = None


@dataclass
class Metadata:
    """What a checkpoint has.

    Attributes:
        state_dict_metadata: TensorStorageMetadata or BytesStorageMetadata by key.
        planner_data: by key, the path in nested dictionaries and lists.
        storage_data: where each MetadataIndex is.
        storage_meta: which checkpoint this is.
        version: of the rules by which keys are made.
    """

    state_dict_metadata: dict[str, TensorStorageMetadata | BytesStorageMetadata]
    planner_data: Any = None
    storage_data: Any = None
    storage_meta: StorageMeta | None = None
    version: str | None = None


# --- writing ----------------------------------------------------------------------------------------------------------

_MODULE = "torch.distributed.checkpoint.metadata"
_OWN = (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)
_CLASSES: dict[tuple[str, str], type] = {(_MODULE, cls.__name__): cls for cls in _OWN}
_CLASSES["torch.distributed.checkpoint.filesystem", "_StorageInfo"] = _StorageInfo
_CLASSES["torch.distributed._shard.sharded_tensor.metadata", "TensorProperties"] = TensorProperties  # of old files
_WRITTEN = {cls: _Name(module, name) for (module, name), cls in reversed(_CLASSES.items())}
_DEFAULTS = {TensorProperties: 3, _StorageInfo: 3}  # fields that are written, if not all: the others have defaults


class _Writer(_Pickler):
    """Writes the classes as calls of PyTorch's."""

    def reducer_override(self, obj: Any) -> Any:
        name = _WRITTEN.get(type(obj))
        if name is None:
            return super().reducer_override(obj)
        given = [getattr(obj, one.name) for one in fields(obj)]
        return name, tuple(given[: _DEFAULTS.get(type(obj), len(given))])


def dumped(metadata: Metadata) -> bytes:
    """Return the content of `.metadata`."""
    buffer = io.BytesIO()
    _Writer(buffer, protocol=2).dump(metadata)
    return buffer.getvalue()


# --- reading ----------------------------------------------------------------------------------------------------------


def _memory_format(*args: Any) -> None:
    """Stand for the enumeration of memory formats, which do not matter here."""


def _path(*parts: str) -> str:
    """Stand for classes of pathlib: the folder that a checkpoint was written to."""
    return "/".join(part for part in parts if type(part) is str)


_FUNCTIONS: dict[tuple[str, str], Callable[..., Any]] = {
    (_MODULE, "_MEM_FORMAT_ENCODING"): _memory_format,
    ("torch.distributed._shard.sharded_tensor.metadata", "MEM_FORMAT_ENCODING"): _memory_format,
    **{
        (module, name): _path
        for module in ("pathlib", "pathlib._local")
        for name in ("PosixPath", "WindowsPath", "PurePosixPath", "PureWindowsPath")
    },
}
_CALLED: tuple[Any, ...] = (*_CLASSES.values(), _memory_format, _path)


class _Reader(Storages, _Restricted):
    """Unpickler of `.metadata`. See Note [Untrusted files]."""

    dispatch: ClassVar[Any] = _Restricted.dispatch.copy()
    stack: list[Any]

    def find_class(self, module: str, name: str) -> Any:
        found = _CLASSES.get((module, name)) or _FUNCTIONS.get((module, name))
        return super().find_class(module, name) if found is None else found

    def make(self, function: Any, args: Any) -> Any:
        if type(args) is tuple and any(function is one for one in _CALLED):
            return self.owned(function(*args))
        return super().make(function, args)

    def load_newobj(self) -> None:
        cls = self.stack[-2]
        if self.stack[-1] == () and any(cls is one for one in _CLASSES.values()):
            del self.stack[-1]
            self.stack[-1] = self.owned(cls.__new__(cls))
        else:
            super().load_newobj()

    dispatch[pickle.NEWOBJ[0]] = load_newobj

    def load_build(self) -> None:
        state, target = self.stack[-1], self.stack[-2]
        if type(target) not in _CLASSES.values() or id(target) not in self.own:
            return super().load_build()
        names = [one.name for one in fields(target)]
        if type(target) is TensorProperties and type(state) is tuple:
            state = dict(zip(names[: max(len(state), 5)], state, strict=True))  # strides only since 2.15
        if type(state) is not dict or not all(name in names for name in state):
            raise pickle.UnpicklingError(f"{type(target).__name__} has no such fields")
        del self.stack[-1]
        for name, value in state.items():
            object.__setattr__(target, name, value)

    dispatch[pickle.BUILD[0]] = load_build

    def hashable(self, items: Any, depth: int = 0) -> bool:
        for item in items:
            if type(item) is MetadataIndex and not _is_index(item):
                raise pickle.UnpicklingError("a place of a tensor has no key")
        return super().hashable(items, depth)


def _is_index(item: MetadataIndex) -> bool:
    return type(getattr(item, "fqn", None)) is str and (item.offset is None or _is_size(item.offset))


def _is_size(value: Any) -> bool:
    return type(value) is Size and all(type(one) is int and 0 <= one < 1 << 62 for one in value)


def parsed(data: bytes) -> Metadata:
    """Return what `.metadata` says.

    Raises:
        RuntimeError: if it is damaged.
        UnpicklingError: if it names what the file may not make.
    """
    try:
        found = _Reader(io.BytesIO(data)).load()
        wrong = _wrong(found)
    except pickle.UnpicklingError:
        raise
    except Exception as error:  # whatever damaged bytes lead to
        raise RuntimeError(f"the file is damaged: {type(error).__name__}: {error}") from error
    if wrong is not None:
        raise RuntimeError(f"the file is damaged: {wrong}")
    for one in found.storage_data.values():
        if one.transform_descriptors:
            raise RuntimeError(f"{one.relative_path} is transformed by {one.transform_descriptors}: write it without")
    return found


def _wrong(found: Any) -> str | None:
    """Return what is wrong with the index of a checkpoint, or None."""
    if type(found) is not Metadata or type(found.state_dict_metadata) is not dict:
        return "it is no index of a checkpoint"
    for key, entry in found.state_dict_metadata.items():
        if type(key) is not str:
            return "a key is no text"
        if type(entry) is not BytesStorageMetadata and (wrong := _wrong_tensor(entry)):
            return f"{key} {wrong}"
    if type(found.storage_data) is not dict:
        return "it does not say where anything is"
    for index, info in found.storage_data.items():
        if type(index) is not MetadataIndex or not _is_index(index):
            return "a place has no key"
        if type(info) is not _StorageInfo or not _is_inside(info.relative_path):
            return f"{index.fqn} is in no file of the checkpoint"
        if not all(type(one) is int and 0 <= one < 1 << 62 for one in (info.offset, info.length)):
            return f"{index.fqn} has no place in its file"
    return None


def _wrong_tensor(entry: Any) -> str | None:
    if type(entry) is not TensorStorageMetadata or type(entry.properties) is not TensorProperties:
        return "is no tensor"
    if (
        not isinstance(entry.properties.dtype, dtype_class)
        or not _is_size(entry.size)
        or type(entry.chunks) is not list
    ):
        return "has no dtype or no size"
    for chunk in entry.chunks:
        if type(chunk) is not ChunkStorageMetadata or not (_is_size(chunk.offsets) and _is_size(chunk.sizes)):
            return "has a part without a place"
        ends = [start + size for start, size in zip(chunk.offsets, chunk.sizes, strict=True)]
        if len(ends) != len(entry.size) or any(a > b for a, b in zip(ends, entry.size, strict=True)):
            return "has a part that is not inside of it"
    if math.prod(entry.size) >= 1 << 62:
        return "is too large"
    return None


def _is_inside(path: Any) -> bool:
    """Return whether a path is one of a file in the checkpoint's folder."""
    if type(path) is not str or not path or "\0" in path:
        return False
    kinds = PurePosixPath(path), PureWindowsPath(path)
    return not any(one.is_absolute() or one.drive or one.root or ".." in one.parts for one in kinds)
