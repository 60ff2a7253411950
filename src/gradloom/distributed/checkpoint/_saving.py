"""save and load.

The ranks tell each other what they have: whole tensors, or parts of distributed ones, each with the index of its first
element. What several ranks have is written by the one with least to write. A rank that loads reads what overlaps with
its part, whoever wrote it.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import shutil
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

import gradloom as gl

from ...autograd import increment_version
from ...core.tensor import wrap
from .. import distributed_c10d as dist
from ..tensor._dtensor import DTensor
from ..tensor._spec import local_part
from ._files import exchange, sync_folder
from .filesystem import FileSystemReader, FileSystemWriter
from .metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)
from .protocol import CheckpointableTensor

__all__ = ["CheckpointException", "DefaultLoadPlanner", "DefaultSavePlanner", "async_save", "load", "save"]


class CheckpointException(RuntimeError):
    """Some ranks could not save or load.

    Attributes:
        failures: what happened, by rank.
    """

    def __init__(self, text: str, failures: dict[int, str]) -> None:
        self.failures = failures
        listed = "; ".join(f"rank {rank}: {failure}" for rank, failure in failures.items())
        super().__init__(f"{text}: {listed}")


class DefaultSavePlanner:
    """The way in which `save` distributes the work; there is one.

    Args:
        options: of PyTorch's planner; they have no effect.
    """

    def __init__(self, *options: Any, **more: Any) -> None:
        pass


class DefaultLoadPlanner:
    """Options of `load`.

    Args:
        flatten_state_dict, flatten_sharded_tensors: have no effect.
        allow_partial_load: leave values as they are whose keys the checkpoint does not have.
    """

    def __init__(
        self, flatten_state_dict: bool = True, flatten_sharded_tensors: bool = True, allow_partial_load: bool = False
    ) -> None:
        self.allow_partial_load = allow_partial_load


class _Ranks:
    """The ranks that save or load together; without a process group, this process alone."""

    def __init__(self, group: Any, no_dist: bool) -> None:
        self.alone = no_dist or not dist.is_initialized()
        self.group: Any = group
        self.rank, self.size = 0, 1
        if not self.alone:
            self.group = dist._get_default_group() if group is None else group
            self.rank, self.size = dist.get_rank(self.group), self.group.size()

    def exchange(self, value: Any) -> list[Any]:
        """Return the values of all ranks."""
        if self.alone:
            return [value]
        found: list[Any] = [None] * self.size
        dist.all_gather_object(found, value, group=self.group)
        return found

    def together(self, text: str, call: Callable[[], Any]) -> Any:
        """Call a function on every rank; raise CheckpointException on all if it fails on any."""
        result, failure = None, None
        try:
            result = call()
        except Exception as error:
            failure = f"{type(error).__name__}: {error}"
            cause: Exception | None = error
        else:
            cause = None
        failures = {rank: one for rank, one in enumerate(self.exchange(failure)) if one is not None}
        if failures:
            raise CheckpointException(text, failures) from cause
        return result


_Path = tuple[str | int, ...]


def _flattened(value: Any, path: _Path = (), known: Collection[str] = ()) -> Iterator[tuple[str, _Path, Any, Any, Any]]:
    """Yield key, path, value, container and place of everything in nested dictionaries and lists.

    As in PyTorch, lists count as nested if they have dictionaries or tensors. Those in `known`, by key, do not.
    """
    items = value.items() if isinstance(value, Mapping) else enumerate(value)
    for place, inner in items:
        steps = (*path, place if isinstance(value, list) else str(place))
        key = ".".join(map(str, steps))
        if key not in known and (isinstance(inner, Mapping) or (isinstance(inner, list) and _nests(inner))):
            yield from _flattened(inner, steps, known)
        else:
            yield key, steps, inner, value, place


def _nests(values: list[Any]) -> bool:
    return any(isinstance(one, (Mapping, gl.Tensor)) or (isinstance(one, list) and _nests(one)) for one in values)


def _plain(state_dict: dict[str, Any]) -> dict[str, Any]:
    """Replace objects that have a state by their state_dict."""
    return {key: value.state_dict() if _is_stateful(value) else value for key, value in state_dict.items()}


def _is_stateful(value: Any) -> bool:
    return (
        hasattr(value, "state_dict") and hasattr(value, "load_state_dict") and not isinstance(value, (dict, gl.Tensor))
    )


class _Plan:
    """What a rank writes.

    Attributes:
        arrays: parts of tensors.
        values: other values by key.
        metadata: what all ranks write, except where.
    """

    def __init__(self, state_dict: dict[str, Any], ranks: _Ranks) -> None:
        self.arrays: dict[MetadataIndex, np.ndarray] = {}
        self.values: dict[str, Any] = {}
        own: dict[tuple[str, str], np.ndarray] = {}  # by the key and the part
        described: dict[str, Any] = {}
        paths: dict[str, _Path] = {}
        for key, path, value, _, _ in _flattened(state_dict):
            paths[key] = path
            if not isinstance(value, gl.Tensor):
                self.values[key] = value
                continue
            parts: dict[str, int] = {}
            for local, offset in _own_parts(value):
                array = local.resolve_conj().resolve_neg()._array
                part = json.dumps((offset, list(array.shape)))
                own[key, part], parts[part] = array, array.nbytes
            kind = list(_whole_shape(value)), str(value.dtype).partition(".")[2]
            described[key] = kind, value.requires_grad, parts
        everywhere = ranks.exchange((described, list(self.values), paths))
        self.metadata = Metadata({}, {}, version="1.0.0")
        for _, _, theirs in everywhere:
            self.metadata.planner_data.update(theirs)
        self._divide([one for one, _, _ in everywhere], own, ranks)
        lists = [values for _, values, _ in everywhere]
        for key in dict.fromkeys(key for values in lists for key in values):
            if key in self.metadata.state_dict_metadata:
                raise ValueError(f"{key} is a tensor on some ranks, but not on others")
            self.metadata.state_dict_metadata[key] = BytesStorageMetadata()
            if ranks.rank != next(rank for rank, values in enumerate(lists) if key in values):
                self.values.pop(key, None)

    def _divide(self, everywhere: list[dict[str, Any]], own: dict[tuple[str, str], np.ndarray], ranks: _Ranks) -> None:
        """Decide who writes which parts of tensors: the same on all ranks."""
        loads = [0] * ranks.size
        for key in dict.fromkeys(key for described in everywhere for key in described):
            entries = {rank: described[key] for rank, described in enumerate(everywhere) if key in described}
            kinds = [entry[0] for entry in entries.values()]
            if any(kind != kinds[0] for kind in kinds):
                raise ValueError(f"ranks have different tensors under the key {key}: {kinds}")
            shape, dtype = kinds[0]
            having: dict[str, list[int]] = {}  # ranks by the part that they have
            for rank, (*_, parts) in entries.items():
                for part in parts:
                    sizes = json.loads(part)[1]
                    if 0 not in sizes or sizes == shape:
                        having.setdefault(part, []).append(rank)
            chunks = []
            for number, (text, owners) in enumerate(having.items()):
                writer = min(owners, key=lambda one: loads[one])
                loads[writer] += entries[writer][2][text]
                offsets, sizes = map(gl.Size, json.loads(text))
                chunks.append(ChunkStorageMetadata(offsets, sizes))
                if writer == ranks.rank:
                    self.arrays[MetadataIndex(key, offsets, number)] = own[key, text]
            properties = TensorProperties(getattr(gl, dtype), requires_grad=next(iter(entries.values()))[1])
            self.metadata.state_dict_metadata[key] = TensorStorageMetadata(properties, gl.Size(shape), chunks)


def _whole_shape(tensor: Any) -> tuple[int, ...]:
    return tuple(tensor.global_shape if isinstance(tensor, CheckpointableTensor) else tensor.shape)


def _own_parts(tensor: Any) -> list[tuple[Any, list[int]]]:
    """Return this rank's parts of a tensor, and the index of the first element of each in the whole tensor."""
    if not isinstance(tensor, CheckpointableTensor):
        return [_own_part(tensor)]
    found = []
    for first, start, sizes in zip(tensor.global_offsets, tensor.local_offsets, tensor.local_sizes, strict=True):
        part = tensor.detach()[tuple(slice(a, a + n) for a, n in zip(start, sizes, strict=True))]  # type: ignore[attr-defined]
        inside = all(a + n <= size for a, n, size in zip(first, sizes, tensor.global_shape, strict=True))
        if tuple(part.shape) != tuple(sizes) or not inside:
            raise ValueError(
                f"a part of {tuple(sizes)} from {tuple(start)} is not inside its tensor, or not from "
                f"{tuple(first)} inside the whole tensor of {tuple(tensor.global_shape)}"
            )
        found.append((part, list(first)))
    return found


def _own_part(tensor: Any) -> tuple[Any, list[int]]:
    """Return this rank's part of a tensor, all of it if it is not distributed, and the index of its first element."""
    if not isinstance(tensor, DTensor):
        return tensor.detach(), [0] * tensor.dim()
    if any(one.is_partial() for one in tensor.placements):
        raise ValueError("a DTensor that is a sum over the processes cannot be saved or loaded: redistribute it first")
    offset = local_part(tensor.shape, tensor.device_mesh, tensor.placements)[1]
    return tensor._local_tensor.detach(), list(offset)


def save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: FileSystemWriter | None = None,
    planner: Any = None,
    process_group: Any = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> Metadata:
    """Write a checkpoint. All ranks call this; it appears when all have written their part, or not at all.

    Args:
        state_dict: tensors, values and nested dictionaries and lists of them; objects that have `state_dict` and
            `load_state_dict` stand for their state. Of a DTensor each rank writes its part; other tensors are the same
            on all ranks.
        checkpoint_id: the folder; it is written in PyTorch's format.
        storage_writer: where and in which format to write, instead of `checkpoint_id`.
        planner: None or a DefaultSavePlanner.
        process_group: the ranks; the default group by default, this process alone if there is none.
        no_dist: save what this process has, alone.
        use_collectives: has no effect.

    Returns:
        what was written.

    Raises:
        CheckpointException: on all ranks, if one could not write.
    """
    ranks = _Ranks(process_group, no_dist)
    writer = _writer(checkpoint_id, storage_writer, planner)
    return _write(_Plan(_plain(state_dict), ranks), writer, ranks)


def _writer(checkpoint_id: Any, writer: Any, planner: Any) -> FileSystemWriter:
    if planner is not None and not isinstance(planner, DefaultSavePlanner):
        raise NotImplementedError("save has one way to distribute its work: leave `planner` out")
    if writer is None:
        if checkpoint_id is None:
            raise ValueError("save needs a checkpoint_id: the folder to write")
        return FileSystemWriter(checkpoint_id)
    if not isinstance(writer, FileSystemWriter):
        raise NotImplementedError("save writes to a file system: use FileSystemWriter")
    return writer


def _write(plan: _Plan, writer: FileSystemWriter, ranks: _Ranks) -> Metadata:
    path = writer.path.absolute()
    save_id = ranks.exchange(str(uuid.uuid4()))[0]
    draft = path.with_name(f".{path.name}.{save_id}.partial")
    metadata, text = plan.metadata, f"cannot save the checkpoint {path}"
    metadata.storage_meta = StorageMeta(str(writer.path), save_id)
    places: dict[MetadataIndex, Any] = {}

    def prepare() -> None:
        if ranks.rank == 0:
            if not writer.overwrite and path.exists():
                raise FileExistsError(f"{path} is there already, and overwrite=False")
            for left in path.parent.glob(f".{path.name}.*.partial"):  # of processes that were killed
                shutil.rmtree(left, ignore_errors=True)
            draft.mkdir(parents=True)

    def write_part() -> None:
        places.update(writer._write_part(draft, ranks.rank, plan.arrays, plan.values))

    def finish() -> None:
        if ranks.rank == 0:
            writer._write_index(draft, metadata, ranks.size)
            if writer.sync_files:
                for name in draft.iterdir():
                    sync_folder(name)
                sync_folder(draft)
            exchange(draft, path)

    try:
        for step in (prepare, write_part):
            ranks.together(text, step)
        metadata.storage_data = {index: info for part in ranks.exchange(places) for index, info in part.items()}
        ranks.together(text, finish)
    except BaseException:
        if ranks.rank == 0:
            with contextlib.suppress(OSError):
                shutil.rmtree(draft)
        raise
    return metadata


def async_save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_writer: FileSystemWriter | None = None,
    planner: Any = None,
    process_group: Any = None,
    no_dist: bool = False,
    **options: Any,
) -> Future[Metadata]:
    """Copy the state, and write the checkpoint in another thread.

    Args:
        state_dict, checkpoint_id, storage_writer, planner, process_group, no_dist: as for `save`.
        options: of PyTorch's function; they have no effect.

    Returns:
        a future; its result is what `save` returns.
    """
    ranks = _Ranks(process_group, no_dist)
    writer = _writer(checkpoint_id, storage_writer, planner)
    plan = _Plan(_plain(state_dict), ranks)
    plan.arrays = {key: array.copy() for key, array in plan.arrays.items()}
    if not ranks.alone:  # the thread's calls must not come between those of training
        ranks.group = dist.new_group(dist.get_process_group_ranks(ranks.group))
    pool = ThreadPoolExecutor(1, "checkpoint")
    found = pool.submit(_write, plan, writer, ranks)
    pool.shutdown(wait=False)
    return found


def load(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str] | None = None,
    storage_reader: FileSystemReader | None = None,
    planner: Any = None,
    process_group: Any = None,
    no_dist: bool = False,
) -> None:
    """Load a checkpoint into the tensors of a state_dict, in place. All ranks call this; any number of ranks may.

    Args:
        state_dict: what to load: tensors are overwritten, other values replaced, and objects with `load_state_dict`
            load theirs. A DTensor gets its part.
        checkpoint_id: the folder.
        storage_reader: where to read, instead of `checkpoint_id`.
        planner: None or a DefaultLoadPlanner.
        process_group, no_dist: as for `save`.

    Raises:
        CheckpointException: on all ranks, if one misses a key, finds another shape, or cannot read.
    """
    ranks = _Ranks(process_group, no_dist)
    if storage_reader is None:
        if checkpoint_id is None:
            raise ValueError("load needs a checkpoint_id: the folder to read")
        storage_reader = FileSystemReader(checkpoint_id)
    if not isinstance(storage_reader, FileSystemReader):
        raise NotImplementedError("load reads from a file system: use FileSystemReader")
    partial = getattr(planner, "allow_partial_load", False)
    plain = _plain(state_dict)
    text = f"cannot load the checkpoint {storage_reader.path}"
    for write in ranks.together(text, lambda: _read(plain, storage_reader, partial)):  # when all ranks could read
        write()
    for key, value in state_dict.items():
        if _is_stateful(value):
            value.load_state_dict(plain[key])
        else:
            state_dict[key] = plain[key]


def _read(state_dict: dict[str, Any], reader: FileSystemReader, partial: bool) -> list[Callable[[], Any]]:
    """Read what a rank needs, and return functions that put it into the state_dict."""
    metadata = reader.read_metadata()
    entries, found = metadata.state_dict_metadata, list[Callable[[], Any]]()
    for key, _, value, container, place in list(_flattened(state_dict, known=entries)):
        if key not in entries:
            if partial:
                continue
            raise RuntimeError(f"Missing key in checkpoint state_dict: {key}.")
        entry, is_tensor = entries[key], isinstance(value, gl.Tensor)
        if is_tensor and isinstance(entry, TensorStorageMetadata):
            found.append(functools.partial(_write_tensor, value, _tensor_parts(key, value, entry, reader, metadata)))
        elif not is_tensor and isinstance(entry, BytesStorageMetadata):
            found.append(functools.partial(container.__setitem__, place, reader._value(key, metadata)))
        else:
            raise RuntimeError(f"{key} is a tensor in one of the checkpoint and the state_dict, but not in the other")
    return found


def _write_tensor(value: Any, arrays: list[np.ndarray]) -> None:
    """Overwrite a tensor, or the parts of it that this rank has."""
    with gl.no_grad():
        for (own, _), array in zip(_own_parts(value), arrays, strict=True):
            own.copy_(wrap(array))
        increment_version(value)


def _tensor_parts(
    key: str, value: Any, entry: TensorStorageMetadata, reader: FileSystemReader, metadata: Metadata
) -> list[np.ndarray]:
    """Return the parts of a tensor that this rank has."""
    shape = _whole_shape(value)
    if shape != tuple(entry.size):
        raise ValueError(f"Size mismatch between saved {list(entry.size)} and current: {list(shape)} for {key}")
    return [_tensor_part(key, own, first, entry, reader, metadata) for own, first in _own_parts(value)]


def _tensor_part(
    key: str, own: Any, first: list[int], entry: TensorStorageMetadata, reader: FileSystemReader, metadata: Metadata
) -> np.ndarray:
    """Return the part of a tensor that starts at an index."""
    target = np.empty(tuple(own.shape), own._array.dtype)
    missing = target.size
    for number, chunk in enumerate(entry.chunks):
        low = [max(a, b) for a, b in zip(chunk.offsets, first, strict=True)]
        ends = zip(chunk.offsets, chunk.sizes, first, target.shape, strict=True)
        high = [min(a + n, b + m) for a, n, b, m in ends]
        if not missing or any(a >= b for a, b in zip(low, high, strict=True)):
            continue
        found = reader._array(MetadataIndex(key, chunk.offsets, number), chunk.sizes, metadata)
        there = tuple([slice(a - o, b - o) for a, b, o in zip(low, high, chunk.offsets, strict=True)])
        here = tuple([slice(a - o, b - o) for a, b, o in zip(low, high, first, strict=True)])
        target[here] = found[there]
        missing -= math.prod(b - a for a, b in zip(low, high, strict=True))
    if missing:
        raise ValueError(f"the checkpoint lacks a part of {key}")
    return target
