"""save and load.

The ranks tell each other what they have: whole tensors, or parts of distributed ones, each with the index of its first
element. What several ranks have is written by the one with least to write. A rank that loads reads what overlaps with
its part, whoever wrote it.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import gradloom as gl

from ...autograd import increment_version
from ...core.tensor import wrap
from .. import distributed_c10d as dist
from ..tensor._dtensor import DTensor
from ..tensor._spec import local_part
from ._files import exchange, read_arrays, sync_folder, write_arrays

__all__ = [
    "CheckpointException",
    "DefaultLoadPlanner",
    "DefaultSavePlanner",
    "FileSystemReader",
    "FileSystemWriter",
    "Metadata",
    "async_save",
    "load",
    "save",
]

_METADATA, _VALUES = "metadata.json", "values.pt"


class CheckpointException(RuntimeError):
    """Some ranks could not save or load.

    Attributes:
        failures: what happened, by rank.
    """

    def __init__(self, text: str, failures: dict[int, str]) -> None:
        self.failures = failures
        listed = "; ".join(f"rank {rank}: {failure}" for rank, failure in failures.items())
        super().__init__(f"{text}: {listed}")


@dataclass
class Metadata:
    """What a checkpoint has.

    Attributes:
        tensors: by key: "shape", "dtype", and "chunks", a list of (index of the first element, sizes, file,
            name in the file).
        values: keys of what is not a tensor.
        world_size: number of ranks that wrote it.
    """

    tensors: dict[str, dict[str, Any]] = field(default_factory=dict)
    values: list[str] = field(default_factory=list)
    world_size: int = 1

    @property
    def state_dict_metadata(self) -> dict[str, Any]:
        """Everything by key; None for what is not a tensor."""
        return {**self.tensors, **dict.fromkeys(self.values)}


class FileSystemWriter:
    """Where `save` writes.

    Args:
        path: the folder.
        sync_files: wait until the disk has everything.
        options: of PyTorch's writer; they have no effect.
    """

    def __init__(self, path: str | os.PathLike[str], single_file_per_rank: bool = True, sync_files: bool = True,
                 **options: Any) -> None:  # fmt: skip
        self.path, self.sync_files = Path(path), sync_files


class FileSystemReader:
    """Where `load` reads.

    Args:
        path: the folder.
    """

    def __init__(self, path: str | os.PathLike[str], **options: Any) -> None:
        self.path = Path(path)

    def read_metadata(self) -> Metadata:
        """Return what the checkpoint has.

        Raises:
            FileNotFoundError: there is no complete checkpoint.
        """
        file = self.path / _METADATA
        former = self.path.with_name(f".{self.path.name}.former")
        if not file.exists() and (former / _METADATA).exists():  # see `exchange`
            self.path, file = former, former / _METADATA
        if not file.exists():
            raise FileNotFoundError(f"{self.path} has no {_METADATA}: it is not a complete checkpoint")
        return Metadata(**json.loads(file.read_text()))


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


def _flattened(value: Any, key: str = "") -> Iterator[tuple[str, Any, Any, Any]]:
    """Yield key, value, container and place of everything in nested dictionaries and lists."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for place, inner in items:
        name = f"{key}.{place}" if key else str(place)
        nested = isinstance(inner, dict) or (isinstance(inner, list) and any(_holds_tensors(one) for one in inner))
        if nested and inner:
            yield from _flattened(inner, name)
        else:
            yield name, inner, value, place


def _holds_tensors(value: Any) -> bool:
    if isinstance(value, (dict, list)):
        return any(map(_holds_tensors, value.values() if isinstance(value, dict) else value))
    return isinstance(value, gl.Tensor)


def _plain(state_dict: dict[str, Any]) -> dict[str, Any]:
    """Replace objects that have a state by their state_dict."""
    return {key: value.state_dict() if _is_stateful(value) else value for key, value in state_dict.items()}


def _is_stateful(value: Any) -> bool:
    return (
        hasattr(value, "state_dict") and hasattr(value, "load_state_dict") and not isinstance(value, (dict, gl.Tensor))
    )


class _Plan:
    """What a rank writes."""

    def __init__(self, state_dict: dict[str, Any], ranks: _Ranks) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self.values: dict[str, Any] = {}
        described: dict[str, Any] = {}
        for key, value, _, _ in _flattened(state_dict):
            if not isinstance(value, gl.Tensor):
                self.values[key] = value
                continue
            local, offset = _own_part(value)
            self.arrays[key] = array = local.resolve_conj().resolve_neg()._array
            dtype = str(value.dtype).partition(".")[2]
            described[key] = list(value.shape), dtype, array.nbytes, (offset, list(array.shape))
        everywhere = ranks.exchange((described, list(self.values)))
        self.metadata = self._merged(everywhere, ranks)

    def _merged(self, everywhere: list[Any], ranks: _Ranks) -> Metadata:
        """Decide who writes what: the same on all ranks."""
        metadata = Metadata(world_size=ranks.size)
        loads = [0] * ranks.size
        keys = dict.fromkeys(key for described, _ in everywhere for key in described)
        for key in keys:
            entries = {rank: described[key] for rank, (described, _) in enumerate(everywhere) if key in described}
            kinds = [entry[:2] for entry in entries.values()]
            if any(kind != kinds[0] for kind in kinds):
                raise ValueError(f"ranks have different tensors under the key {key}: {kinds}")
            shape, dtype = kinds[0]
            having: dict[str, list[int]] = {}  # ranks by the part that they have
            for rank, (*_, part) in entries.items():
                if 0 not in part[1] or part[1] == shape:
                    having.setdefault(json.dumps(part), []).append(rank)
            chunks = []
            for part, owners in having.items():
                writer = min(owners, key=lambda one: loads[one])
                loads[writer] += entries[writer][2]
                chunks.append([*json.loads(part), _file(writer), key])
            metadata.tensors[key] = {"shape": shape, "dtype": dtype, "chunks": chunks}
            if not any(chunk[2] == _file(ranks.rank) for chunk in chunks):
                self.arrays.pop(key, None)
        metadata.values = list(dict.fromkeys(key for _, values in everywhere for key in values))
        owner = {key: next(r for r, (_, values) in enumerate(everywhere) if key in values) for key in metadata.values}
        self.values = {key: value for key, value in self.values.items() if owner[key] == ranks.rank}
        return metadata


def _own_part(tensor: Any) -> tuple[Any, list[int]]:
    """Return this rank's part of a tensor, all of it if it is not distributed, and the index of its first element."""
    if not isinstance(tensor, DTensor):
        return tensor.detach(), [0] * tensor.dim()
    if any(one.is_partial() for one in tensor.placements):
        raise ValueError("a DTensor that is a sum over the processes cannot be saved or loaded: redistribute it first")
    offset = local_part(tensor.shape, tensor.device_mesh, tensor.placements)[1]
    return tensor._local_tensor.detach(), list(offset)


def _file(rank: int) -> str:
    return f"rank_{rank}.safetensors"


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
        checkpoint_id: the folder.
        storage_writer: where to write, instead of `checkpoint_id`.
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
    draft = path.with_name(f".{path.name}.{ranks.exchange(uuid.uuid4().hex)[0]}.partial")

    def prepare() -> None:
        if ranks.rank == 0:
            for left in path.parent.glob(f".{path.name}.*.partial"):  # of processes that were killed
                shutil.rmtree(left, ignore_errors=True)
            draft.mkdir(parents=True)

    def write_part() -> None:
        write_arrays(draft / _file(ranks.rank), plan.arrays, writer.sync_files)
        gl.save(plan.values, draft / f"rank_{ranks.rank}.{_VALUES}")

    def finish() -> None:
        if ranks.rank == 0:
            (draft / _METADATA).write_text(json.dumps(vars(plan.metadata)))
            if writer.sync_files:
                for name in (draft / _METADATA, *draft.glob(f"*{_VALUES}")):
                    sync_folder(name)
                sync_folder(draft)
            exchange(draft, path)

    try:
        for step in (prepare, write_part, finish):
            ranks.together(f"cannot save the checkpoint {path}", step)
    except BaseException:
        if ranks.rank == 0:
            with contextlib.suppress(OSError):
                shutil.rmtree(draft)
        raise
    return plan.metadata


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
    ranks.together(f"cannot load the checkpoint {storage_reader.path}", lambda: _read(plain, storage_reader, partial))
    for key, value in state_dict.items():
        if _is_stateful(value):
            value.load_state_dict(plain[key])
        else:
            state_dict[key] = plain[key]


def _read(state_dict: dict[str, Any], reader: FileSystemReader, partial: bool) -> None:
    metadata = reader.read_metadata()
    files: dict[str, dict[str, np.ndarray]] = {}
    values: dict[str, Any] | None = None
    for key, value, container, place in list(_flattened(state_dict)):
        is_tensor = isinstance(value, gl.Tensor)
        if key not in metadata.tensors and key not in metadata.values:
            if partial:
                continue
            raise RuntimeError(f"Missing key in checkpoint state_dict: {key}.")
        if is_tensor and key in metadata.tensors:
            _read_tensor(key, value, metadata.tensors[key], reader.path, files)
        elif not is_tensor and key in metadata.values:
            if values is None:
                values = _values(reader.path)
            container[place] = values[key]
        else:
            raise RuntimeError(f"{key} is a tensor in one of the checkpoint and the state_dict, but not in the other")


def _values(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for file in sorted(path.glob(f"rank_*.{_VALUES}")):
        found.update(gl.load(file, weights_only=True))
    return found


def _read_tensor(key: str, value: Any, entry: dict[str, Any], path: Path, files: dict[str, Any]) -> None:
    """Overwrite a tensor, or the rows of it that this rank has."""
    if list(value.shape) != entry["shape"]:
        raise ValueError(f"Size mismatch between saved {entry['shape']} and current: {list(value.shape)} for {key}")
    own, first = _own_part(value)
    target = np.empty(tuple(own.shape), own._array.dtype)
    missing = target.size
    for start, sizes, name, stored in entry["chunks"]:
        low = [max(a, b) for a, b in zip(start, first, strict=True)]
        high = [min(a + n, b + m) for a, n, b, m in zip(start, sizes, first, target.shape, strict=True)]
        if not missing or any(a >= b for a, b in zip(low, high, strict=True)):
            continue
        if name not in files:
            files[name] = read_arrays(path / name)
        found = files[name][stored]
        if entry["dtype"] == "complex128":
            found = found.view(np.complex128)[..., 0]
        there = tuple([slice(a - o, b - o) for a, b, o in zip(low, high, start, strict=True)])
        here = tuple([slice(a - o, b - o) for a, b, o in zip(low, high, first, strict=True)])
        target[here] = found[there]
        missing -= math.prod(b - a for a, b in zip(low, high, strict=True))
    if missing:
        raise ValueError(f"the checkpoint lacks a part of {key}")
    with gl.no_grad():
        own.copy_(wrap(target))
        if own is not value:
            increment_version(value)
