"""Tensors in shared memory: moving storages there, and how tensors travel between processes; Note [Shared memory]."""

from __future__ import annotations

from collections.abc import Iterable
from sys import getrefcount
from typing import Any

import numpy as np

from ..core.tensor import Tensor
from ..dispatch.overloads.registry import types
from ..memory import shared
from ..memory.metadata import Metadata
from ..memory.ownership import extent, flat, owner
from .construction import _rebuild, reduce_tensor as _reduce
from .moving import at, move

_REFUSAL = (
    "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not support crossing "
    "process boundaries.  If you just want to transfer the data, call detach() on the tensor before serializing "
    "(e.g., putting it on the queue)."
)


def is_shared(tensor: Tensor) -> bool:
    """Return whether a tensor's storage is in shared memory."""
    array = _memory(tensor)
    return array is not None and shared.is_shared(array)


def share(tensors: Iterable[Tensor]) -> None:
    """Move the storages of tensors to shared memory, with all tensors that have these storages.

    Raises RuntimeError if there is no memory left.
    """
    moved: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    for tensor in tensors:
        array = _memory(tensor)
        if array is None or shared.is_shared(array) or id(base := owner(array)) in moved:
            continue
        register(type(tensor))
        memory = _copy(base)
        if base is array and _references(tensor) <= _ALONE + 2:  # `array` and `base` are the others
            tensor._array = at(tensor._array, base, memory)
        else:
            moved[id(base)] = base, memory
    if moved:
        move(moved)


def share_storage(storage: Any) -> None:
    """Move a storage to shared memory, with all tensors that have it."""
    base = storage._owner
    if not shared.is_shared(base):
        _register_storages()
        move({id(base): (base, _copy(base))})


def new_shared(nbytes: int) -> np.ndarray:
    """Return an array of zeros in new shared memory, uint8 (nbytes,). Raises RuntimeError if there is none left."""
    try:
        return shared.create(nbytes).array()
    except OSError as error:
        raise RuntimeError(
            f"unable to allocate {nbytes} bytes of shared memory: {error}. If descriptors have run out, raise their "
            "number (ulimit -n), or share fewer tensors at a time"
        ) from error


def _memory(tensor: Tensor) -> np.ndarray | None:
    """Return the array in memory, without conjugate and negative bits; None for a tensor without memory."""
    array: Any = tensor._array
    if isinstance(array, Metadata):
        return None
    return array if type(array) is np.ndarray else array.memory


def _copy(base: np.ndarray) -> np.ndarray:
    start, end = extent(base)
    memory = new_shared(end - start)
    if end > start:
        memory[...] = flat(base).view(np.uint8)
    return memory


def _references(tensor: Any) -> int:
    return getrefcount(tensor._array)


class _Holder:
    """Has one reference to an array, as a tensor without views."""

    def __init__(self) -> None:
        self._array = np.empty(1)


_ALONE = _references(_Holder())


# --- between processes ------------------------------------------------------------------------------------------------


def register(kind: type) -> None:
    """Let multiprocessing send tensors of a class through shared memory."""
    reduce = getattr(kind, "__reduce_ex__", None)
    if kind not in _registered and reduce is Tensor.__reduce_ex__ and not hasattr(kind, "_reduced"):
        from multiprocessing.reduction import ForkingPickler

        _register_storages()
        ForkingPickler.register(kind, reduce_tensor)
        _registered.add(kind)


def register_without_attributes(kind: type) -> None:
    """Register a class whose tensors leave their Python attributes behind, as PyTorch's parameters do."""
    _WITHOUT_ATTRIBUTES.add(kind)
    register(kind)


def _register_storages() -> None:
    if shared.Segment not in _registered:
        from multiprocessing.reduction import ForkingPickler

        ForkingPickler.register(shared.Segment, reduce_segment)
        for kind in types.storages:
            ForkingPickler.register(kind, reduce_storage)
        _registered.add(shared.Segment)


_registered: set[type] = set()
_WITHOUT_ATTRIBUTES: set[type] = {Tensor}


def reduce_segment(segment: shared.Segment) -> tuple[Any, ...]:
    """Return the pickle of a shared segment for another process: a token."""
    return shared.attach, (shared.token(segment), segment.nbytes)


def reduce_tensor(tensor: Tensor) -> tuple[Any, ...]:
    """Return the pickle of a tensor for another process: a segment, which its storage moves to, and the place there.

    Raises RuntimeError if the tensor requires grad and is not a leaf.
    """
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(_REFUSAL)
    share((tensor,))
    rebuild, arguments = _reduce(tensor)
    base = arguments[1]
    segment = shared.segment_of(base) if isinstance(base, np.ndarray) else None
    if segment is None or not segment.nbytes:  # a tensor without memory, or of a mapped file: by value
        return rebuild, arguments
    kind, _, type_name, place, requires_grad, extra, bits = arguments
    if kind in _WITHOUT_ATTRIBUTES:
        extra = {}
    return rebuild_tensor, (kind, segment, type_name, place, requires_grad, extra, bits)


def rebuild_tensor(cls: type, segment: shared.Segment, *arguments: Any) -> Tensor:
    """Return the tensor that another process sent."""
    return _rebuild(cls, segment.array(), *arguments)


def reduce_storage(storage: Any) -> tuple[Any, ...]:
    """Return the pickle of a storage for another process: a segment, which it moves to."""
    if not storage.nbytes():
        return storage.__reduce__()
    share_storage(storage)
    segment = shared.segment_of(storage._owner)
    if segment is None:
        return storage.__reduce__()
    return rebuild_storage, (type(storage), segment, getattr(storage, "dtype", None))


def rebuild_storage(cls: Any, segment: shared.Segment, kind: Any) -> Any:
    """Return the storage that another process sent."""
    return cls._of(segment.array()) if kind is None else cls._of(segment.array(), kind)
