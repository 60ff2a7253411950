"""Process groups and collectives: the names of torch.distributed.distributed_c10d."""

from __future__ import annotations

import pickle
from typing import Any, NewType

from ..types.absent import getattr_of
from ._arguments import (
    _check_single_tensor as _check_single_tensor,
    _check_tensor_list as _check_tensor_list,
    _ensure_all_tensors_same_dtype as _ensure_all_tensors_same_dtype,
    _validate_output_list_for_rank as _validate_output_list_for_rank,
)
from ._collectives import *
from ._collectives import (
    _CoalescingManager as _CoalescingManager,
    _all_gather_base as _all_gather_base,
    _coalescing_manager as _coalescing_manager,
    _CollOp as _CollOp,
    _IllegalWork as _IllegalWork,
    _reduce_scatter_base as _reduce_scatter_base,
)
from ._groups import *
from ._groups import (
    _abort_process_group as _abort_process_group,
    _check_valid_timeout as _check_valid_timeout,
    _find_or_create_pg_by_ranks_and_tag as _find_or_create_pg_by_ranks_and_tag,
    _new_group_with_tag as _new_group_with_tag,
)
from ._kinds import *
from ._kinds import _make_nccl_premul_sum as _make_nccl_premul_sum
from ._point_to_point import *
from ._group_calls import record_comm as record_comm
from ._process_group import ProcessGroup as ProcessGroup
from ._tcp_store import TCPStore as TCPStore
from ._work import Work as Work
from ._world import *
from ._world import (
    _canonicalize_group_rank as _canonicalize_group_rank,
    _check_not_self_rank as _check_not_self_rank,
    _device_capability as _device_capability,
    _find_pg_by_ranks_and_tag as _find_pg_by_ranks_and_tag,
    _get_all_pg_configs as _get_all_pg_configs,
    _get_default_group as _get_default_group,
    _get_default_store as _get_default_store,
    _get_default_timeout as _get_default_timeout,
    _get_global_rank as _get_global_rank,
    _get_group_size as _get_group_size,
    _get_group_tag as _get_group_tag,
    _get_object_coll_device as _get_object_coll_device,
    _get_pg_config as _get_pg_config,
    _get_process_group_name as _get_process_group_name,
    _get_process_group_store as _get_process_group_store,
    _group_or_default_group as _group_or_default_group,
    _rank_not_in_group as _rank_not_in_group,
    _resolve_process_group as _resolve_process_group,
    _warn_not_in_group as _warn_not_in_group,
    _world as _world,
)
from .errors import *
from .rendezvous import register_rendezvous_handler as register_rendezvous_handler, rendezvous as rendezvous
from .stores import *

GroupName = NewType("GroupName", str)
_Work, _Backend, RankType = Work, ProcessGroup, int
_pickler, _unpickler = pickle.Pickler, pickle.Unpickler


class ProcessGroupGloo(ProcessGroup):
    """A group of its own, outside the default one's, with the backend that fits.

    Args:
        store: where the ranks find each other; no other group may use its keys.
        rank: number of this process.
        size: number of ranks.
        timeout: longest time that connecting, and each collective, may take.
    """

    def __init__(self, store: Any, rank: int, size: int, timeout: Any = default_pg_timeout) -> None:
        from ._backends import make_engine
        from .errors import deadline_after

        super().__init__(store, rank, size)
        engine = make_engine("gloo", store, rank, size, range(size), "", deadline_after(timeout))
        self._attach(engine, "gloo", range(size), timeout)


__getattr__ = getattr_of(__name__)
