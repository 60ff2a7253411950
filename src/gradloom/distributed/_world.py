"""The groups of this process, and which ranks they have."""

from __future__ import annotations

import os
import warnings
from datetime import timedelta
from typing import Any

import gradloom as gl

from . import _backends
from ._kinds import Backend, BackendConfig
from ._process_group import ProcessGroup
from .errors import default_pg_timeout
from .stores import Store

__all__ = [
    "GroupMember",
    "get_backend",
    "get_backend_config",
    "get_default_backend_for_device",
    "get_global_rank",
    "get_group_rank",
    "get_node_local_rank",
    "get_pg_count",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "group",
    "is_backend_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "is_ucc_available",
    "is_xccl_available",
]

_NOT_INITIALIZED = "Default process group has not been initialized, please make sure to call init_process_group."


class World:
    """What this process knows of its groups. All but the default group are only in the dictionaries."""

    def __init__(self) -> None:
        self.default_pg: ProcessGroup | None = None
        self.pg_map: dict[ProcessGroup, tuple[str, Store]] = {}  # backend and store
        self.pg_names: dict[ProcessGroup, str] = {}
        self.pg_group_ranks: dict[Any, dict[int, int]] = {}  # group ranks by global rank
        self.pg_backend_config: dict[ProcessGroup, str] = {}
        self.pg_splits: dict[ProcessGroup, int] = {}  # how many times it was split before the last time
        self.group_count = 0
        self.tags_to_pg: dict[str, list[ProcessGroup]] = {}
        self.pg_to_tag: dict[ProcessGroup, str] = {}
        self.pg_coalesce_state: dict[ProcessGroup, list[Any]] = {}

    def register(
        self, pg: ProcessGroup, backend: str, store: Store, name: str, ranks: dict[int, int], tag: str
    ) -> None:
        """Add a group."""
        self.pg_map[pg] = (backend, store)
        self.pg_names[pg] = name
        self.pg_backend_config[pg] = str(BackendConfig(backend))
        self.pg_group_ranks[pg] = ranks
        if not tag.startswith("user:"):
            self.tags_to_pg.setdefault("", []).append(pg)
        self.tags_to_pg.setdefault(tag, []).append(pg)
        self.pg_to_tag[pg] = tag

    def forget(self, pg: ProcessGroup) -> None:
        """Remove a group, and all of them with the default group."""
        if pg is self.default_pg:
            self.__init__()  # type: ignore[misc]
            return
        if self.pg_coalesce_state.pop(pg, None) is not None:
            warnings.warn(
                "Some coalesced collectives haven't been launched when ProcessGroup is destroyed. "
                "They will be cleaned.",
                stacklevel=3,
            )
        for table in (
            self.pg_map,
            self.pg_names,
            self.pg_group_ranks,
            self.pg_backend_config,
            self.pg_to_tag,
            self.pg_splits,
        ):
            table.pop(pg, None)  # type: ignore[attr-defined]
        for groups in self.tags_to_pg.values():
            if pg in groups:
                groups.remove(pg)

    @property
    def pg_config_info(self) -> list[dict[str, Any]]:
        """Descriptions of all groups."""
        found = []
        for pg in self.pg_map:
            ranks = self.pg_group_ranks[pg]
            found.append(
                {
                    "pg_name": self.pg_names[pg],
                    "pg_desc": pg.group_desc,
                    "backend_config": self.pg_backend_config[pg],
                    "ranks": list(ranks) if len(ranks) != get_world_size() else [],
                    "group_size": len(ranks),
                    "group_count": self.group_count,
                }
            )
        return found


_world = World()


class _WithWorld(type):
    @property
    def WORLD(cls) -> ProcessGroup | None:
        """The default group, None before `init_process_group`."""
        return _world.default_pg

    @WORLD.setter
    def WORLD(cls, pg: ProcessGroup | None) -> None:
        _world.default_pg = pg


class group(metaclass=_WithWorld):
    """The default group, as `group.WORLD`."""


class GroupMember(metaclass=_WithWorld):
    """The default group, as `GroupMember.WORLD`, and what `new_group` returns to ranks that are not in the group."""

    NON_GROUP_MEMBER = -100


def _get_default_timeout(backend: str) -> timedelta:
    return default_pg_timeout


def is_initialized() -> bool:
    """Return whether there is a default group."""
    return _world.default_pg is not None


def is_torchelastic_launched() -> bool:
    """Return whether `torchrun` started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def is_mpi_available() -> bool:
    """Return whether the backend "mpi" can be used: mpi4py is installed."""
    return _backends.has_mpi()


def is_gloo_available() -> bool:
    """Return True: "gloo" chooses the backend that fits."""
    return True


def is_nccl_available() -> bool:
    """Return False: there are no GPUs."""
    return False


is_ucc_available = is_xccl_available = is_nccl_available


def is_backend_available(backend: str) -> bool:
    """Return whether a backend can be used.

    Args:
        backend: its name, or names by type of device, such as "cpu:gloo,cuda:nccl".
    """
    names = BackendConfig(backend).device_backend_map.values() if ":" in backend else [backend.lower()]
    known = {
        "mpi": is_mpi_available(),
        "shm": os.name == "posix",
        "nccl": False,
        "ucc": False,
        "xccl": False,
        "fake": False,
    }
    return all(known.get(name, name in Backend.backend_list) for name in names)


def _get_default_group() -> ProcessGroup:
    pg = _world.default_pg
    if pg is None:
        raise ValueError(_NOT_INITIALIZED)
    return pg


def _get_default_store() -> Store:
    return _world.pg_map[_get_default_group()][1]


def _rank_not_in_group(group: Any) -> bool:
    return group is not None and group == GroupMember.NON_GROUP_MEMBER


def _warn_not_in_group(op_name: str) -> None:
    rank = -1 if _world.default_pg is None else _world.default_pg.rank()
    warnings.warn(f"Running {op_name} on global rank {rank} which does not belong to the given group.", stacklevel=3)


def _group_or_default_group(group: Any = None) -> Any:
    if group is None:
        return _get_default_group()
    if not hasattr(group, "allreduce") and not _rank_not_in_group(group):
        raise ValueError(
            f"Process group {group} is not initialized in the world group map. Please initialize the group first."
        )
    return group


def _ranks_of(pg: Any) -> dict[int, int]:
    if pg not in _world.pg_group_ranks:
        raise ValueError(f"Group {pg} is not registered, please create group with torch.distributed.new_group API")
    return _world.pg_group_ranks[pg]


def get_group_rank(group: Any, global_rank: int) -> int:
    """Return the number in a group of a rank of the default group.

    Raises:
        ValueError: if the group has no such rank, or is none of this process's.
    """
    if group is _world.default_pg:
        return global_rank
    ranks = _ranks_of(group)
    if global_rank not in ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return ranks[global_rank]


def get_global_rank(group: Any, group_rank: int) -> int:
    """Return the number in the default group of a group's rank.

    Raises:
        ValueError: if the group has no such rank, or is none of this process's.
    """
    if group is _world.default_pg:
        return group_rank
    for global_rank, rank in _ranks_of(group).items():
        if rank == group_rank:
            return global_rank
    raise ValueError(f"Group rank {group_rank} is not part of group {group}")


def _get_global_rank(group: Any, rank: int) -> int:
    warnings.warn(
        "`torch.distributed.distributed_c10d._get_global_rank` is deprecated, please use "
        "`torch.distributed.distributed_c10d.get_global_rank` instead",
        FutureWarning,
        stacklevel=2,
    )
    return get_global_rank(group, rank)


def _canonicalize_group_rank(
    group: Any, global_rank: int | None = None, group_rank: int | None = None, return_global: bool = False
) -> int:
    """Return a rank, given in the default group or in a group, as a number of the group (or of the default one)."""
    if group_rank is not None:
        if global_rank is not None:
            raise ValueError("Can't specify both group_rank and global_rank")
        return get_global_rank(group, group_rank) if return_global else group_rank
    if global_rank is None:
        raise ValueError("Must specify global_rank or group_rank")
    return global_rank if return_global else get_group_rank(group, global_rank)


def _check_not_self_rank(group: Any, rank: int, rank_type: str) -> None:
    if group.rank() == rank:
        raise ValueError(
            f"Invalid {rank_type} rank: {rank_type} rank should not be the same as the rank of the current process."
        )


def get_process_group_ranks(group: Any) -> list[int]:
    """Return the ranks of a group, as numbers of the default group; of the default group if it is None."""
    return list(_world.pg_group_ranks[_group_or_default_group(group)])


def get_rank(group: Any = None) -> int:
    """Return the number of this process in a group, -1 if it is not in it.

    Raises:
        ValueError: if there is no default group.
    """
    if _rank_not_in_group(group):
        return -1
    default = _get_default_group()
    return default.rank() if group is None or group is default else get_group_rank(group, default.rank())


def get_world_size(group: Any = None) -> int:
    """Return the number of ranks of a group, -1 if this process is not in it.

    Raises:
        ValueError: if there is no default group.
    """
    if _rank_not_in_group(group):
        return -1
    size: int = _group_or_default_group(group).size()
    return size


_get_group_size = get_world_size


def get_backend(group: Any = None) -> str:
    """Return the name of a group's backend, in lower case.

    Raises:
        ValueError: if this process is not in the group, or it was destroyed.
    """
    pg = _group_or_default_group(group)
    if _rank_not_in_group(pg):
        raise ValueError("Invalid process group specified")
    if pg not in _world.pg_map:
        raise ValueError(
            f"Process group {pg} is not initialized in the world group map. Please initialize the group first."
        )
    return Backend(_world.pg_map[pg][0])


def get_backend_config(group: Any = None) -> str:
    """Return the backends of a group by type of device, such as "cpu:gloo".

    Raises:
        ValueError: if this process is not in the group.
    """
    pg = _group_or_default_group(group)
    if _rank_not_in_group(pg):
        raise ValueError("Invalid process group specified")
    return str(_world.pg_backend_config.get(pg))


def get_default_backend_for_device(device: Any) -> str:
    """Return the backend that groups use for a type of device.

    Raises:
        ValueError: if there is none.
    """
    found = Backend.default_device_backend_map.get(gl.device(device).type)
    if found is None:
        raise ValueError(f"Default backend not registered for device : {device}")
    return found


def get_pg_count() -> int:
    """Return the number of groups that were made since `init_process_group`."""
    return _world.group_count


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """Return the number of this process on its machine, from LOCAL_RANK.

    Args:
        fallback_rank: what to return if the environment has none.

    Raises:
        RuntimeError: if neither is there.
    """
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError(
        "LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow `get_node_local_rank` to work, "
        "assuming you are not running in a multi-device context and want the code to run locally instead."
    )


def _get_process_group_name(pg: Any) -> str:
    return _world.pg_names.get(pg, "None")


def _get_process_group_store(pg: Any) -> Store:
    return _world.pg_map[pg][1]


def _get_pg_config(group: Any = None) -> dict[str, Any]:
    pg = _group_or_default_group(group)
    return {
        "pg_name": _get_process_group_name(pg),
        "pg_desc": pg.group_desc,
        "backend_config": get_backend_config(pg),
        "pg_size": get_world_size(pg),
        "ranks": get_process_group_ranks(pg),
    }


def _get_all_pg_configs() -> list[dict[str, Any]]:
    return [_get_pg_config(pg) for pg in _world.pg_map]


def _resolve_process_group(name: Any) -> ProcessGroup:
    """Return the group of a name; a group is returned as it is.

    Raises:
        ValueError: if there is none.
    """
    if isinstance(name, ProcessGroup):
        return name
    for pg, known in _world.pg_names.items():
        if known == name:
            return pg
    raise ValueError(f"Could not resolve the process group registered under the name {name!r}")


def _find_pg_by_ranks_and_tag(tag: str, ranks: list[int]) -> ProcessGroup | None:
    if tag and not tag.startswith(("ptd:", "user:")):
        tag = f"user:{tag}"
    for pg in _world.tags_to_pg.get(tag, ()):
        if pg.size() == len(ranks) and set(get_process_group_ranks(pg)) == set(ranks):
            return pg
    return None


def _get_group_tag(pg: Any) -> str:
    return _world.pg_to_tag[pg].removeprefix("user:")


def _device_capability(group: Any = None) -> list[str]:
    return [device.type for device in _group_or_default_group(group)._device_types]


def _get_object_coll_device(group: Any = None) -> str:
    return "cpu"
