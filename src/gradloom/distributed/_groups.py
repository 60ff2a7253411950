"""Making and destroying process groups."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Sequence
from datetime import timedelta
from io import StringIO
from typing import Any, NoReturn

import gradloom as gl

from . import _backends, _debug
from ._kinds import Backend, BackendConfig, BarrierOptions, DebugLevel, get_debug_level
from ._process_group import ProcessGroup
from ._world import (
    GroupMember,
    _find_pg_by_ranks_and_tag,
    _get_default_group,
    _get_default_timeout,
    _group_or_default_group,
    _rank_not_in_group,
    _resolve_process_group,
    _world,
    get_process_group_ranks,
    get_rank,
    get_world_size,
)
from .elastic.multiprocessing.errors import get_error_handler
from .errors import DistBackendError, DistStoreError, StoreLost, deadline_after
from .rendezvous import rendezvous
from .stores import PrefixStore, Store

__all__ = [
    "SHRINK_ABORT",
    "SHRINK_DEFAULT",
    "breakpoint",
    "destroy_process_group",
    "get_backend_impl",
    "init_process_group",
    "new_group",
    "new_subgroups",
    "new_subgroups_by_enumeration",
    "set_timeout",
    "shrink_group",
    "split_group",
]

_RETRY = 0.1  # seconds between attempts to meet
_breakpoints = 0  # how often `breakpoint` was called
_inits = 0  # how often this process made a default group


def _check_valid_timeout(timeout: Any) -> None:
    if not isinstance(timeout, timedelta):
        raise TypeError(f"Expected timeout argument to be of type datetime.timedelta, got {timeout}")


def set_timeout(timeout: timedelta, group: Any = None) -> None:
    """Set the longest time that each collective of a group may take from now on.

    Raises:
        TypeError: for another type than timedelta.
        ValueError: if this rank is not in the group.
    """
    group = _get_default_group() if group is None else group
    if _rank_not_in_group(group):
        raise ValueError("Invalid process group specified")
    _check_valid_timeout(timeout)
    group.set_timeout(timeout)


def get_backend_impl(group: Any = None, device: Any = None) -> Any:
    """Return the object that computes a group's collectives for a device: the group itself, unless it was made by a
    plugin.

    Args:
        group: group, or its name; the default one if None.
        device: device, if the group has several.
    """
    group = _resolve_process_group(group) if isinstance(group, str) else _group_or_default_group(group)
    if _rank_not_in_group(group):
        raise ValueError("Invalid process group specified")
    return group._get_backend("cpu" if device is None else device)


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Store | None = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
    _ranks: list[int] | None = None,
    enable_reconfigure: bool = False,
) -> None:
    """Connect this process with the others of its job, and make the default group.

    All processes call it; it returns when all are connected.

    Example:
        >>> store = torch.distributed.HashStore()
        >>> torch.distributed.init_process_group(store=store, rank=0, world_size=1)
        >>> torch.distributed.get_world_size()
        1
        >>> torch.distributed.destroy_process_group()

    Args:
        backend: "gloo", or None, chooses what fits: "shm", shared memory, if all processes are on one machine, else
            "mpi", if MPI started them, else "sockets". These names may be given, too.
        init_method: where the processes meet: "env://" by default, which takes RANK, WORLD_SIZE, MASTER_ADDR and
            MASTER_PORT from the environment, or asks MPI if it started the process; "tcp://host:port", where rank 0
            listens; or "file:///path" of a file that is not there yet.
        timeout: longest time that connecting, and each collective, may take; 30 minutes by default.
        world_size: number of processes, if `init_method` does not say it.
        rank: number of this process, likewise.
        store: where the processes meet, instead of `init_method`. Needs `world_size` and `rank`.
        group_name: ignored, as in PyTorch.
        pg_options: options of a registered backend.
        device_id: a device for CPUs, or None.
        enable_reconfigure: accepted if False.

    Raises:
        ValueError: if there is a default group, or the environment lacks something.
        RuntimeError: if the rank is not less than the number of processes.
        DistError: if the processes do not come within `timeout`, or cannot be connected.
    """
    if _world.default_pg is not None:
        raise ValueError("trying to initialize the default process group twice!")
    if store is not None and init_method is not None:
        raise AssertionError("Cannot specify both init_method and store.")
    if store is not None and not world_size > 0:
        raise AssertionError("world_size must be positive if using store")
    if store is not None and not rank >= 0:
        raise AssertionError("rank must be non-negative if using store")
    if enable_reconfigure:
        raise NotImplementedError("init_process_group(enable_reconfigure=True): no backend here can be reconfigured")
    _check_device(device_id)
    name = Backend("undefined" if backend is None else backend)
    _check_backend(name)
    timeout = _get_default_timeout(name) if timeout is None else timeout
    _check_valid_timeout(timeout)
    pg, meeting = _meet(name, init_method or "env://", timeout, world_size, rank, store, pg_options)
    _world.default_pg = pg
    _world.group_count = 1
    _world.register(pg, name, meeting, pg.group_name, {i: i for i in range(pg.size())}, f"ptd:{pg.group_name}")
    _say_rank_in_tracebacks(pg.rank())


def _meet(
    backend: str, init_method: str, timeout: timedelta, size: int, rank: int, store: Store | None, options: Any
) -> tuple[ProcessGroup, Store]:
    """Return the default group and its store, in which each attempt of a job has its own keys."""
    global _inits
    _inits += 1
    end = deadline_after(timeout)
    while True:
        found, place = store, (rank, size)
        try:
            if found is None:
                found, *place = next(_rendezvous(backend, init_method, rank, size, timeout))
                found.set_timeout(timeout)
            if not 0 <= place[0] < place[1]:
                raise RuntimeError(f"rank {place[0]} does not fit world_size {place[1]}: ranks are 0 to {place[1] - 1}")
            attempt = f"{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}/{_inits}"
            meeting = PrefixStore(f"default_pg/{attempt}" if store is None else "default_pg", found)
            return _make_group(
                backend, meeting, place[0], range(place[1]), "0", "default_pg", timeout, options
            ), meeting
        except StoreLost:
            # Rank 0 closed the store of the default group before this one: the new one comes at the same address.
            if store is not None or (end is not None and time.monotonic() > end):
                raise
            found = meeting = None  # type: ignore[assignment]
            time.sleep(_RETRY)


def _rendezvous(backend: str, init_method: str, rank: int, size: int, timeout: timedelta) -> Any:
    if backend == Backend.MPI and not os.environ.get("RANK"):
        if not _backends.has_mpi():
            raise RuntimeError('The backend "mpi" needs mpi4py: pip install "gradloom[distributed]"')
        if init_method == "env://":
            return rendezvous("env://", timeout=timeout)
    return rendezvous(init_method, rank, size, timeout=timeout)


def _check_device(device_id: Any) -> None:
    if device_id is None:
        return
    if isinstance(device_id, int):
        raise ValueError("device_id is an int, but no accelerator support is found from the current compilation.")
    if gl.device(device_id).type != "cpu":
        raise ValueError(f"device_id {device_id} does not match the current compilation's accelerator support: None.")
    raise ValueError("init_process_group device_id parameter must be an accelerator with an index")


def _check_backend(name: str) -> None:
    """Refuse a backend that is not there.

    Raises:
        RuntimeError: for the backends of GPUs, and "mpi" without mpi4py.
        AssertionError: for a name that is none.
    """
    for one in BackendConfig(name).device_backend_map.values():
        if one in (Backend.NCCL, Backend.UCC, Backend.XCCL) and one.upper() not in Backend._plugins:
            raise RuntimeError(
                f"Distributed package doesn't have {one.upper()} built in: gradloom computes on CPUs, use the backend "
                '"gloo", "shm" or "mpi"'
            )
        if one == Backend.FAKE and one.upper() not in Backend._plugins:
            raise RuntimeError(
                'gradloom has no backend "fake"; one process can be a group of its own with world_size=1'
            )
        if one not in Backend.backend_list:
            raise AssertionError(f"Unknown backend type {one}")


def _say_rank_in_tracebacks(rank: int) -> None:
    """Begin each line of uncaught exceptions with this process's rank, and leave them where torchrun looks."""
    before = getattr(sys.excepthook, "_without_rank", sys.excepthook)

    def hook(*error: Any) -> None:
        get_error_handler().record_exception(error[1])
        stderr, sys.stderr = sys.stderr, StringIO()
        try:
            before(*error)
        finally:
            text, sys.stderr = sys.stderr.getvalue(), stderr
        stderr.write("\n".join(f"[rank{rank}]: {line}" if line else "" for line in text.split("\n")))
        stderr.flush()

    hook._without_rank = before  # type: ignore[attr-defined]
    sys.excepthook = hook


class _PluginOptions:
    """What a registered backend with `extended_api` is told."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


def _make_group(
    backend: str,
    store: Store,
    rank: int,
    ranks: Sequence[int],
    name: str,
    description: str,
    timeout: timedelta,
    options: Any = None,
) -> ProcessGroup:
    """Make a group of `ranks` (of the default group), in which this process has the number `rank`."""
    prefixed, kind = PrefixStore(f"{name}/", store), BackendConfig(backend).device_backend_map
    chosen = kind.get("cpu", next(iter(kind.values())))
    if chosen.upper() in Backend._plugins:
        plugin = Backend._plugins[chosen.upper()]
        if plugin.extended_api:
            given = _PluginOptions(
                store=prefixed,
                group_rank=rank,
                group_size=len(ranks),
                timeout=timeout,
                group_id=name,
                global_ranks_in_group=list(ranks),
            )
            pg = plugin.creator_fn(given, options)
        else:
            pg = plugin.creator_fn(prefixed, rank, len(ranks), timeout)
        if isinstance(pg, ProcessGroup):
            pg._ranks = ranks
    else:
        chosen = Backend.GLOO if chosen == Backend.UNDEFINED else chosen
        pg = ProcessGroup(prefixed, rank, len(ranks))
        end = deadline_after(timeout)
        try:
            engine = _backends.make_engine(chosen, prefixed, rank, len(ranks), ranks, name, end)
        except (DistStoreError, TimeoutError) as error:
            raise DistBackendError(
                f"[Rank {ranks[rank]}] group {name!r} ({description}) of ranks {list(ranks)} was not connected within "
                f"{timeout.total_seconds():g} seconds: {error}"
            ) from error
        pg._attach(engine, chosen, ranks, timeout)
        if get_debug_level() == DebugLevel.DETAIL:
            pg._watch = _debug.Watch(pg)
    pg._set_group_name(name)
    pg._set_group_desc(description)
    return pg


def destroy_process_group(group: Any = None) -> None:
    """Wait for what a group has started, and release its memory and connections.

    Args:
        group: the group; None for all groups and the default one.

    Raises:
        ValueError: if it was destroyed, or is none of this process's.
    """
    if _rank_not_in_group(group):
        return
    pg = _world.default_pg if group is None else group
    if pg is None:
        raise AssertionError("Process group cannot be None")
    if pg not in _world.pg_map:
        raise ValueError("Invalid process group specified")
    groups = list(reversed(_world.pg_map)) if pg is _world.default_pg else [pg]
    try:
        for one in groups:
            one.shutdown()
    finally:
        _world.forget(pg)


def _abort_process_group(group: Any = None) -> None:
    if _rank_not_in_group(group):
        return
    pg = _world.default_pg if group is None else group
    if pg is None:
        raise AssertionError("Process group cannot be None")
    if pg not in _world.pg_map:
        raise ValueError("Invalid process group specified or has been destroyed.")
    for one in list(reversed(_world.pg_map)) if pg is _world.default_pg else [pg]:
        one.abort()
    _world.forget(pg)


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
    sort_ranks: bool = True,
) -> Any:
    """Make a group of some ranks. All ranks of the default group call it, in the same order.

    Args:
        ranks: numbers in the default group; all if None.
        timeout: longest time that connecting, and each collective of the group, may take.
        backend: as for `init_process_group`; the default group's if None.
        pg_options: options of a registered backend.
        use_local_synchronization: whether only the ranks of the group call it.
        group_desc: a text about the group.
        device_id: None; groups for CPUs have no device.
        sort_ranks: whether the ranks are numbered in the order of the default group, or as in `ranks`.

    Returns:
        the group, or `GroupMember.NON_GROUP_MEMBER` for a rank that is not in it.

    Raises:
        ValueError: if `ranks` has numbers twice or out of range.
    """
    return _new_group_with_tag(
        ranks, timeout, backend, pg_options, None, use_local_synchronization, group_desc, device_id, sort_ranks
    )


def _new_group_with_tag(
    ranks: Sequence[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    backend_options: Any = None,
    pg_tag: str | None = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
    sort_ranks: bool = True,
) -> Any:
    default = _get_default_group()
    if default._engine is not None:
        default._check_usable("new_group")
    default_backend, default_store = _world.pg_map[default]
    name = Backend(backend or default_backend)
    _check_backend(name)
    timeout = _get_default_timeout(name) if timeout is None else timeout
    _check_valid_timeout(timeout)
    if use_local_synchronization:
        if name == Backend.MPI:
            raise ValueError("MPI backend doesn't support use_local_synchronization=True")
        if ranks is not None and get_rank() not in ranks:
            return None
    members = list(range(default.size())) if ranks is None else _checked_ranks(ranks, default.size(), sort_ranks)
    if pg_tag and (existing := _find_pg_by_ranks_and_tag(pg_tag, members)) is not None:
        return existing
    if use_local_synchronization:
        text = "_".join(map(str, members)) + f"_{len(_world.pg_names)}"
        group_name = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
    else:
        group_name = str(_world.group_count)
        _world.group_count += 1
    if not use_local_synchronization:
        _backends.prepare(name, default.size(), deadline_after(timeout))
    if default.rank() not in members:
        return GroupMember.NON_GROUP_MEMBER
    rank = members.index(default.rank())
    description = "undefined" if group_desc is None else group_desc
    pg = _make_group(name, default_store, rank, members, group_name, description, timeout, backend_options)
    tag = f"user:{pg_tag}" if pg_tag else f"ptd:{group_name}"
    _world.register(pg, name, default_store, group_name, {r: i for i, r in enumerate(members)}, tag)
    return pg


def _checked_ranks(ranks: Sequence[int], size: int, sort: bool) -> list[int]:
    members = sorted(ranks) if sort else list(ranks)
    if len(set(members)) != len(members):
        raise ValueError(f"ranks list must not contain duplicate entries, got {members}")
    if len(members) > size:
        raise ValueError(
            "the new group's world size should be less or equal to the world size set by init_process_group"
        )
    for rank in members:
        if not 0 <= rank < size:
            raise ValueError(f"Rank {rank} is out of range. Valid ranks are 0 to {size - 1} (world_size={size})")
    return members


def new_subgroups(
    group_size: int | None = None,
    group: Any = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Make groups of `group_size` ranks that follow each other.

    Args:
        group_size: number of ranks in each; must divide the number of ranks.
        group: group that is divided; the default one if None.
        timeout, backend, pg_options, group_desc: as for `new_group`.

    Returns:
        the group of this rank, and all of them.

    Raises:
        ValueError: if `group_size` does not fit.
    """
    if group_size is None:
        raise ValueError(
            "Default group size only takes effect when CUDA is available."
            "If your subgroup using a backend that does not depend on CUDA,"
            "please pass in 'group_size' correctly."
        )
    if group_size <= 0:
        raise ValueError(f"The arg 'group_size' ({group_size}) must be positive")
    size = get_world_size(group)
    if size < group_size:
        raise ValueError(f"The arg 'group_size' ({group_size}) must not exceed the world size ({size})")
    if size % group_size:
        raise ValueError(f"The world size ({size}) must be divisible by 'group_size={group_size!r}'")
    ranks = get_process_group_ranks(group)
    parts = [ranks[start : start + group_size] for start in range(0, len(ranks), group_size)]
    return new_subgroups_by_enumeration(parts, timeout, backend, pg_options, group_desc)


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]],
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Make several groups that have no rank in common.

    Args:
        ranks_per_subgroup_list: the ranks of each.
        timeout, backend, pg_options, group_desc: as for `new_group`.

    Returns:
        the group of this rank, None if it is in none, and all of them.

    Raises:
        ValueError: if a rank is in two, or there are none.
    """
    if not ranks_per_subgroup_list:
        raise ValueError("The arg 'ranks_per_subgroup_list' cannot be empty")
    groups, mine, seen = [], None, dict[int, Sequence[int]]()
    for ranks in ranks_per_subgroup_list:
        made = new_group(ranks, timeout, backend, pg_options, group_desc=group_desc)
        groups.append(made)
        for rank in ranks:
            if rank in seen:
                raise ValueError(f"Rank {rank} has appeared in both subgroup {seen[rank]} and {ranks}")
            seen[rank] = ranks
            if rank == get_rank():
                mine = made
    return mine, groups


def _find_or_create_pg_by_ranks_and_tag(tag: str, ranks: list[int], stride: int) -> Any:
    if len(ranks) % stride:
        raise ValueError(f"Ranks length ({len(ranks)}) must be divisible by stride ({stride})")
    parts = [ranks[start : start + stride] for start in range(0, len(ranks), stride)]
    mine = next((sorted(part) for part in parts if get_rank() in part), None)
    if mine is None:
        raise AssertionError("rankset doesn't include the current node")
    pg = _find_pg_by_ranks_and_tag(tag, mine)
    if pg is not None:
        return pg
    if not tag:
        raise ValueError("Cannot automatically create PG with empty tag")
    return _new_group_with_tag(mine, pg_tag=tag)


def split_group(
    parent_pg: Any = None,
    split_ranks: Sequence[Sequence[int]] | None = None,
    timeout: timedelta | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
    backend: str | None = None,
) -> Any:
    """Split a group. Its ranks, and no others, call it with the same arguments.

    Args:
        parent_pg: the group; the default group if None.
        split_ranks: the ranks of each new group in `parent_pg`, in the order of their numbers in the new group.
        timeout, pg_options, group_desc: as for `new_group`.
        backend: None, or that of `parent_pg`.

    Returns:
        the group with this rank, or `GroupMember.NON_GROUP_MEMBER` if there is none.

    Raises:
        ValueError: if `split_ranks` or one of its elements is empty or has numbers twice or out of range.
    """
    if not split_ranks:
        raise ValueError("split_ranks cannot be None or empty")
    default = _get_default_group()
    parent = parent_pg or default
    if parent not in _world.pg_group_ranks:
        raise ValueError(f"Group {parent} is not registered")
    kind, store = _world.pg_map[parent]
    if backend is not None and str(backend).lower() != kind:
        raise ValueError(
            f"Requested backend '{backend}' is not present in the parent process group, which has '{kind}'"
        )
    timeout = _get_default_timeout(Backend(kind)) if timeout is None else timeout
    _check_valid_timeout(timeout)
    numbers = _world.pg_group_ranks[parent]
    for part in split_ranks:
        if not part:
            raise ValueError("the split group cannot be empty")
        if len(set(part)) != len(part):
            raise ValueError("the split group cannot have duplicate ranks")
        if not all(0 <= rank < len(numbers) for rank in part):
            raise ValueError(f"the split group {list(part)} has ranks that are not below {len(numbers)}")
    if sum(map(len, split_ranks)) != len({rank for part in split_ranks for rank in part}):
        raise ValueError("a rank is in several of the split groups")
    count = _world.pg_splits[parent] = _world.pg_splits.get(parent, -1) + 1
    rank = numbers[default.rank()]
    chosen = next((part for part in split_ranks if rank in part), None)
    if chosen is None:
        return GroupMember.NON_GROUP_MEMBER
    ranks = sorted(numbers, key=numbers.__getitem__)
    members = [ranks[r] for r in chosen]
    text = f"{_world.pg_names[parent]}:{count}:{members}"
    name = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
    description = f"{parent.group_desc}:split:{count}" if group_desc is None else group_desc
    pg = _make_group(kind, store, chosen.index(rank), members, name, description, timeout, pg_options)
    _world.register(pg, kind, store, name, {r: i for i, r in enumerate(members)}, f"ptd:{name}")
    return pg


SHRINK_DEFAULT, SHRINK_ABORT = 0, 1


def breakpoint(rank: int = 0, skip: int = 0, timeout_s: int = 3600) -> None:
    """Start Python's debugger on one rank, in the caller's frame; the others wait until it continues.

    Args:
        rank: rank that is debugged.
        skip: how many calls do nothing first.
        timeout_s: seconds that the others wait.
    """
    global _breakpoints
    _breakpoints += 1
    if _breakpoints <= skip:
        return
    if get_rank() == rank:
        import pdb

        print(f"\n!!! type 'up' to see the program, 'continue' to go on: rank {rank} is debugged, the others wait\n")
        pdb.Pdb().set_trace(sys._getframe(1))
    options = BarrierOptions()
    options.timeout, options.asyncOp = timedelta(seconds=timeout_s), False
    _get_default_group().barrier(options)


def shrink_group(
    ranks_to_exclude: list[int], group: Any = None, shrink_flags: int = 0, pg_options: Any = None
) -> NoReturn:
    """Raise TypeError, as PyTorch does for groups on CPUs: use `new_group`."""
    size = get_world_size(group)
    if size <= 1:
        raise ValueError(
            f"Cannot shrink a process group with size {size}. Group must have at least 2 ranks to support shrinking."
        )
    name = _world.pg_names.get(group or _get_default_group())
    raise TypeError(f"Process group backend for '{name}' does not support shrinking operations.")
