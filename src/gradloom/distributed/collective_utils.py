"""Exchange objects so that all ranks raise if one does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import distributed_c10d as dist

__all__ = ["SyncPayload", "all_gather", "all_gather_object_enforce_type", "broadcast"]


@dataclass
class SyncPayload:
    """What a rank sends.

    Attributes:
        stage_name: of what the rank does.
        success: whether it was done.
        payload: the object.
        exception: why it was not.
    """

    stage_name: str | None
    success: bool
    payload: Any
    exception: Exception | None = None


def _made(data_or_fn: Any, stage_name: str | None, success: bool = True) -> SyncPayload:
    """Return what this rank sends: an object, or what a function returns or raises."""
    if not callable(data_or_fn):
        return SyncPayload(stage_name, success, data_or_fn)
    try:
        return SyncPayload(stage_name, success, data_or_fn())
    except Exception as error:
        return SyncPayload(stage_name, False, None, error)


def broadcast(
    data_or_fn: Any, *, success: bool = True, stage_name: str | None = None, rank: int = 0, pg: Any = None
) -> Any:
    """Return an object of one rank on all; all raise if that rank did.

    Args:
        data_or_fn: the object, or a function that returns it, which only `rank` calls.
        success: False to let all ranks raise.
        stage_name: text for the error.
        rank: rank that has it.
        pg: group; the default one if None.

    Raises:
        RuntimeError: if the function raised on `rank`, or `success` is False there.
    """
    if not success and data_or_fn is not None and not callable(data_or_fn):
        raise AssertionError("Data or Function is expected to be None if not successful")
    sent = [_made(data_or_fn, stage_name, success) if dist.get_rank(pg) == rank else None]
    if dist.get_world_size(pg) > 1:
        dist.broadcast_object_list(sent, group=pg, group_src=rank)
    found: Any = sent[0]
    if found.success:
        return found.payload
    text = f"Rank {rank} failed"
    text += f": stage {found.stage_name}" if found.stage_name is not None else ""
    text += f": exception {found.exception}" if found.exception is not None else ""
    raise RuntimeError(text) from found.exception


def all_gather(data_or_fn: Any | Callable[[], Any], stage_name: str | None = None, pg: Any = None) -> list[Any]:
    """Return the objects of all ranks on each; all raise if one did, or if their stages differ.

    Args:
        data_or_fn: the object, or a function that returns it.
        stage_name: what the ranks do, which must be the same.
        pg: group; the default one if None.

    Raises:
        RuntimeError: if a function raised, or the stages differ.
    """
    sent = _made(data_or_fn, stage_name)
    if dist.get_world_size(pg) == 1:
        if not sent.success:
            raise RuntimeError(f"all_gather failed with exception {sent.exception}") from sent.exception
        return [sent.payload]
    found: list[Any] = [None] * dist.get_world_size(pg)
    all_gather_object_enforce_type(pg, found, sent)
    text, errors = "", []
    for rank, one in enumerate(found):
        if one.stage_name != stage_name:
            text += f"Unexpected stage name received from rank {rank}: {one.stage_name} "
        elif not one.success:
            errors.append((rank, one.exception))
            text += f"Rank {rank} failed with exception: {one.exception} "
    if text:
        raise RuntimeError(text.strip()) from (errors[0][1] if errors else None)
    return [one.payload for one in found]


def all_gather_object_enforce_type(
    pg: Any,
    object_list: list[Any],
    obj: Any,
    type_checker: Callable[[Any, Any], bool] = lambda x, y: type(x) is type(y),
) -> None:
    """Gather objects into a list, and raise if they have not the type of the first.

    Args:
        pg: group; the default one if None.
        object_list: as many elements as ranks, which are replaced.
        obj: this rank's object.
        type_checker: called with an object and the first one; returns whether they fit.

    Raises:
        TypeError: if one does not fit, on all ranks.
    """
    dist.all_gather_object(object_list, obj, group=pg)
    for number, one in enumerate(object_list[1:], 1):
        if not type_checker(one, object_list[0]):
            raise TypeError(
                f"Object type at index {number} is {type(one)}, while first object type is {type(object_list[0])}"
            )
