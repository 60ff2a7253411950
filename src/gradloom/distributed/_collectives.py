"""The collectives of torch.distributed: checks of arguments in front of the methods of ProcessGroup."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import gradloom as gl

from ._arguments import (
    _check_single_tensor,
    _check_tensor_list,
    _ensure_all_tensors_same_dtype,
    _finish,
    _root,
    _set,
    _validate_output_list_for_rank,
    _with_list,
    overridable,
)
from ._kinds import (
    AllgatherOptions,
    AllreduceCoalescedOptions,
    AllreduceOptions,
    AllToAllOptions,
    BarrierOptions,
    BroadcastOptions,
    GatherOptions,
    ReduceOp,
    ReduceOptions,
    ReduceScatterOptions,
    ScatterOptions,
    supports_complex,
)
from ._work import Work
from ._world import (
    _canonicalize_group_rank,
    _get_default_group,
    _get_default_timeout,
    _group_or_default_group,
    _rank_not_in_group,
    _warn_not_in_group,
    _world,
    get_backend,
)

__all__ = [
    "all_gather",
    "all_gather_coalesced",
    "all_gather_into_tensor",
    "all_gather_single",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "gather",
    "gather_into_tensor",
    "gather_single",
    "monitored_barrier",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_tensor",
    "scatter",
]

# -- several collectives as one


class _CollOp:
    """A collective that the coalescing manager will start."""

    def __init__(
        self, op: Any, tensor: Any, dst_tensor: Any = None, redop: Any = None, root: int | None = None
    ) -> None:
        self.op, self.tensor, self.dst_tensor, self.redop, self.root = op, tensor, dst_tensor, redop, root


class _IllegalWork(Work):
    """What an asynchronous collective returns that the coalescing manager has not started."""

    def __getattribute__(self, name: str) -> Any:
        if name in ("is_success", "exception", "wait", "source_rank", "_source_rank", "result", "synchronize"):
            raise ValueError(f"Illegal to call {name} on IllegalWork object")
        return object.__getattribute__(self, name)


class _CoalescingManager:
    """The work of coalesced collectives."""

    def __init__(self) -> None:
        self.works: list[Work] = []

    def append(self, work: Work | None = None) -> None:
        """Add work."""
        if work:
            self.works.append(work)

    def wait(self) -> None:
        """Wait for all."""
        for work in self.works:
            work.wait()


@contextmanager
def _coalescing_manager(group: Any = None, device: Any = None, async_ops: bool = False) -> Iterator[_CoalescingManager]:
    """Start the all_reduce, all_gather_single or reduce_scatter_single calls of a block as one call."""
    group = _group_or_default_group(group)
    calls = _world.pg_coalesce_state.setdefault(group, [])
    if calls:
        raise ValueError("ProcessGroup has non-empty op list at the start of coalescing")
    manager = _CoalescingManager()
    try:
        yield manager
    finally:
        calls = _world.pg_coalesce_state.pop(group)
    if not calls:
        return
    kind = calls[0].op
    if any(call.op is not kind for call in calls):
        names = {call.op.__name__ for call in calls}
        raise RuntimeError(
            f"Coalescing manager requires all collectives to be the same type, but got mixed types: {names}"
        )
    inputs, outputs = [call.tensor for call in calls], [call.dst_tensor for call in calls]
    if kind is all_reduce:
        options = _set(AllreduceCoalescedOptions(), async_ops, reduceOp=calls[0].redop)
        work = group.allreduce_coalesced(inputs, options)
    elif kind is all_gather_single:
        work = group.all_gather_single_coalesced(outputs, inputs, _set(AllgatherOptions(), async_ops))
    else:
        options = _set(ReduceScatterOptions(), async_ops, reduceOp=calls[0].redop)
        work = group.reduce_scatter_single_coalesced(outputs, inputs, options)
    if async_ops:
        manager.append(work)
    else:
        work.wait()


def _coalesced(group: Any, call: _CollOp, async_op: bool) -> bool:
    """Leave a collective to the coalescing manager, if it is used; return whether it is."""
    if group in _world.pg_coalesce_state:
        _world.pg_coalesce_state[group].append(call)
        return True
    return False


# -- the collectives


@overridable(0)
def broadcast(
    tensor: Any, src: int | None = None, group: Any = None, async_op: bool = False, group_src: int | None = None
) -> Any:
    """Copy a tensor of one rank to the others.

    Args:
        tensor: the values on `src`; gets them elsewhere.
        src: rank that has the values.
        group: group; the default one if None.
        async_op: return a `Work` at once.
        group_src: instead of `src`, a rank of the group.
    """
    group = _group_or_default_group(group)
    if _rank_not_in_group(group):
        _warn_not_in_group("broadcast")
        return None
    root = _canonicalize_group_rank(group, src, group_src)
    _check_single_tensor(tensor, "tensor")
    return _finish(group.broadcast([tensor], _set(BroadcastOptions(), async_op, rootRank=root)), async_op)


@overridable(0)
def all_reduce(tensor: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Any:
    """Reduce a tensor over all ranks, in place; each has the same result.

    Args:
        tensor: the values, of the same shape and dtype on all ranks.
        op: reduction.
        group: group; the default one if None.
        async_op: return a `Work` at once.
    """
    _check_single_tensor(tensor, "tensor")
    if _rank_not_in_group(group):
        _warn_not_in_group("all_reduce")
        return None
    if tensor.is_complex() and not supports_complex(op):
        raise ValueError(f"all_reduce does not support {op} on complex tensors")
    options = _set(AllreduceOptions(), async_op, reduceOp=op)
    group = _group_or_default_group(group)
    if _coalesced(group, _CollOp(all_reduce, tensor, None, op), async_op):
        return _IllegalWork() if async_op else None
    return _finish(group.allreduce([tensor], options), async_op)


@overridable(0)
def all_reduce_coalesced(tensors: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Any:
    """Reduce several tensors of one dtype over all ranks, in place.

    Args:
        tensors: list of tensors.
        op: reduction.
        group: group; the default one if None.
        async_op: return a future of the tensors at once.
    """
    tensors = [tensors] if isinstance(tensors, gl.Tensor) else tensors
    _check_tensor_list(tensors, "tensor")
    _ensure_all_tensors_same_dtype(tensors)
    if _rank_not_in_group(group):
        _warn_not_in_group("all_reduce_coalesced")
        return None
    if any(tensor.is_complex() for tensor in tensors) and not supports_complex(op):
        raise ValueError(f"all_reduce does not support {op} on complex tensors")
    options = _set(AllreduceCoalescedOptions(), async_op, reduceOp=op)
    work = _group_or_default_group(group).allreduce_coalesced(tensors, options)
    return work.get_future() if async_op else _finish(work, False)


@overridable(0)
def reduce(
    tensor: Any,
    dst: int | None = None,
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Any:
    """Reduce a tensor over all ranks, into that of one rank.

    Args:
        tensor: the values; has the result on `dst`.
        dst: rank that gets the result.
        op: reduction.
        group: group; the default one if None.
        async_op: return a `Work` at once.
        group_dst: instead of `dst`, a rank of the group.
    """
    group = _group_or_default_group(group)
    if _rank_not_in_group(group):
        _warn_not_in_group("reduce")
        return None
    root = _canonicalize_group_rank(group, dst, group_dst)
    _check_single_tensor(tensor, "tensor")
    return _finish(group.reduce([tensor], _set(ReduceOptions(), async_op, rootRank=root, reduceOp=op)), async_op)


@overridable(1)
def all_gather(tensor_list: Any, tensor: Any, group: Any = None, async_op: bool = False) -> Any:
    """Copy the tensor of rank i into `tensor_list[i]` on every rank.

    Args:
        tensor_list: as many tensors as ranks, of the shape and dtype of `tensor`.
        tensor: this rank's values.
        group: group; the default one if None.
        async_op: return a `Work` at once.
    """
    _check_tensor_list(tensor_list, "tensor_list")
    _check_single_tensor(tensor, "tensor")
    _ensure_all_tensors_same_dtype(tensor_list, tensor)
    if _rank_not_in_group(group):
        _warn_not_in_group("all_gather")
        return None
    options = _set(AllgatherOptions(), async_op)
    return _finish(_group_or_default_group(group).allgather([tensor_list], [tensor], options), async_op)


@overridable(1)
def all_gather_single(output_tensor: Any, input_tensor: Any, group: Any = None, async_op: bool = False) -> Any:
    """Copy the tensors of all ranks into one, one after the other.

    Args:
        output_tensor: as many elements as the ranks' tensors together; any shape.
        input_tensor: this rank's values.
        group: group; the default one if None.
        async_op: return a `Work` at once.
    """
    _check_single_tensor(input_tensor, "input_tensor")
    _check_single_tensor(output_tensor, "output_tensor")
    if _rank_not_in_group(group):
        _warn_not_in_group("all_gather_single")
        return None
    group = _group_or_default_group(group)
    if _coalesced(group, _CollOp(all_gather_single, input_tensor, output_tensor), async_op):
        return _IllegalWork() if async_op else None
    return _finish(group.all_gather_single(output_tensor, input_tensor, _set(AllgatherOptions(), async_op)), async_op)


def all_gather_into_tensor(output_tensor: Any, input_tensor: Any, group: Any = None, async_op: bool = False) -> Any:
    """Call `all_gather_single`, under its name before PyTorch 2.13."""
    return all_gather_single(output_tensor, input_tensor, group, async_op)


_all_gather_base = all_gather_into_tensor


@overridable(1)
def all_gather_coalesced(
    output_tensor_lists: Any, input_tensor_list: Any, group: Any = None, async_op: bool = False
) -> Any:
    """Copy several tensors of rank i into the list `output_tensor_lists[i]` on every rank.

    Args:
        output_tensor_lists: as many lists as ranks.
        input_tensor_list: this rank's tensors.
        group: group; the default one if None.
        async_op: return a future of the tensors at once.
    """
    if _rank_not_in_group(group):
        _warn_not_in_group("all_gather_coalesced")
        return None
    _check_tensor_list(input_tensor_list, "input_tensor_list")
    _ensure_all_tensors_same_dtype(input_tensor_list)
    if not isinstance(output_tensor_lists, list):
        raise TypeError("Invalid function argument: output_tensor_lists should be a list")
    for row in output_tensor_lists:
        _check_tensor_list(row, "output_tensor_lists")
        _ensure_all_tensors_same_dtype(row)
    options = _set(AllgatherOptions(), async_op)
    work = _group_or_default_group(group).allgather_coalesced(output_tensor_lists, input_tensor_list, options)
    return work.get_future() if async_op else _finish(work, False)


@overridable(0)
def gather(
    tensor: Any,
    gather_list: Any = None,
    dst: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Any:
    """Copy the tensor of rank i into `gather_list[i]` of one rank.

    Args:
        tensor: this rank's values.
        gather_list: on `dst`, as many tensors as ranks, of the shape and dtype of `tensor`.
        dst: rank that gets them; 0 if None.
        group: group; the default one if None.
        async_op: return a `Work` at once.
        group_dst: instead of `dst`, a rank of the group.
    """
    group = _with_list("gather", group, tensor, gather_list)
    if group is None:
        return None
    root = _root(group, dst, group_dst)
    _validate_output_list_for_rank(group.rank(), root, gather_list)
    outputs = [gather_list] if root == group.rank() else []
    return _finish(group.gather(outputs, [tensor], _set(GatherOptions(), async_op, rootRank=root)), async_op)


@overridable(0)
def gather_single(
    tensor: Any,
    gather_tensor: Any = None,
    dst: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Any:
    """Copy the tensors of all ranks into one tensor of one rank, one after the other.

    Args:
        tensor: this rank's values.
        gather_tensor: on `dst`, a contiguous tensor of the dtype of `tensor`, with the elements of all ranks.
        dst, group, async_op, group_dst: as for `gather`.
    """
    _check_single_tensor(tensor, "tensor")
    group = _group_or_default_group(group)
    if _rank_not_in_group(group):
        _warn_not_in_group("gather_single")
        return None
    root = _root(group, dst, group_dst)
    if root == group.rank():
        if gather_tensor is None:
            raise ValueError("gather_tensor must be specified on the destination rank")
        _check_single_tensor(gather_tensor, "gather_tensor")
        _ensure_all_tensors_same_dtype(tensor, gather_tensor)
    return _finish(group.gather_single(gather_tensor, tensor, _set(GatherOptions(), async_op, rootRank=root)), async_op)


gather_into_tensor = gather_single


@overridable(0)
def scatter(
    tensor: Any,
    scatter_list: Any = None,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Any:
    """Copy `scatter_list[i]` of one rank into the tensor of rank i.

    Args:
        tensor: gets the values.
        scatter_list: on `src`, as many tensors as ranks, of the shape and dtype of `tensor`.
        src: rank that has them; 0 if None.
        group: group; the default one if None.
        async_op: return a `Work` at once.
        group_src: instead of `src`, a rank of the group.
    """
    group = _with_list("scatter", group, tensor, scatter_list)
    if group is None:
        return None
    root = _root(group, src, group_src)
    if root == group.rank() and not scatter_list:
        raise ValueError("Argument ``scatter_list`` must be specified on source rank.")
    if root != group.rank() and scatter_list:
        raise ValueError("Argument ``scatter_list`` must NOT be specified on non-source ranks.")
    inputs = [scatter_list] if root == group.rank() else []
    return _finish(group.scatter([tensor], inputs, _set(ScatterOptions(), async_op, rootRank=root)), async_op)


@overridable(0)
def reduce_scatter(
    output: Any, input_list: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Any:
    """Reduce `input_list[i]` over all ranks into the output of rank i.

    Args:
        output: gets the result.
        input_list: as many tensors as ranks.
        op: reduction.
        group: group; the default one if None.
        async_op: return a `Work` at once.
    """
    _check_single_tensor(output, "output")
    _check_tensor_list(input_list, "input_list")
    _ensure_all_tensors_same_dtype(output, input_list)
    if _rank_not_in_group(group):
        _warn_not_in_group("reduce_scatter")
        return None
    options = _set(ReduceScatterOptions(), async_op, reduceOp=op)
    return _finish(_group_or_default_group(group).reduce_scatter([output], [input_list], options), async_op)


@overridable(1)
def reduce_scatter_single(
    output: Any, input: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Any:
    """Reduce a tensor over all ranks, and copy one of equal parts of the result to each.

    Args:
        output: gets this rank's part.
        input: the values: as many elements as all outputs together.
        op: reduction.
        group: group; the default one if None.
        async_op: return a `Work` at once.
    """
    _check_single_tensor(output, "output")
    _check_single_tensor(input, "input")
    if _rank_not_in_group(group):
        _warn_not_in_group("reduce_scatter_single")
        return None
    options = _set(ReduceScatterOptions(), async_op, reduceOp=op)
    group = _group_or_default_group(group)
    if _coalesced(group, _CollOp(reduce_scatter_single, input, output, op), async_op):
        return _IllegalWork() if async_op else None
    return _finish(group.reduce_scatter_single(output, input, options), async_op)


def reduce_scatter_tensor(
    output: Any, input: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Any:
    """Call `reduce_scatter_single`, under its name before PyTorch 2.13."""
    return reduce_scatter_single(output, input, op, group, async_op)


_reduce_scatter_base = reduce_scatter_tensor


@overridable(1)
def all_to_all_single(
    output: Any,
    input: Any,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """Copy parts of one tensor along dim 0 to the ranks, and the parts that come from them into another.

    Args:
        output: gets a part from each rank.
        input: has a part for each rank.
        output_split_sizes: sizes of the parts of `output`; equal if None.
        input_split_sizes: sizes of the parts of `input`; equal if None.
        group: group; the default one if None.
        async_op: return a `Work` at once.
    """
    if _rank_not_in_group(group):
        _warn_not_in_group("all_to_all_single")
        return None
    _check_single_tensor(output, "output")
    _check_single_tensor(input, "input")
    _ensure_all_tensors_same_dtype(output, input)
    sizes = list(output_split_sizes or ()), list(input_split_sizes or ())
    group = _group_or_default_group(group)
    return _finish(group.all_to_all_single(output, input, *sizes, _set(AllToAllOptions(), async_op)), async_op)


@overridable(1)
def all_to_all(output_tensor_list: Any, input_tensor_list: Any, group: Any = None, async_op: bool = False) -> Any:
    """Copy `input_tensor_list[j]` of rank i into `output_tensor_list[i]` of rank j.

    Args:
        output_tensor_list: as many tensors as ranks.
        input_tensor_list: as many tensors as ranks.
        group: group; the default one if None.
        async_op: return a `Work` at once.
    """
    if _rank_not_in_group(group):
        _warn_not_in_group("all_to_all")
        return None
    _check_tensor_list(output_tensor_list, "output_tensor_list")
    _check_tensor_list(input_tensor_list, "input_tensor_list")
    _ensure_all_tensors_same_dtype(output_tensor_list, input_tensor_list)
    group = _group_or_default_group(group)
    return _finish(group.alltoall(output_tensor_list, input_tensor_list, _set(AllToAllOptions(), async_op)), async_op)


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None, timeout: timedelta | None = None) -> Any:
    """Wait until all ranks of a group have called it.

    Args:
        group: group; the default one if None.
        async_op: return a `Work` at once.
        device_ids: accepted; there are no accelerators.
        timeout: longest time to wait; the group's if None.
    """
    group = _group_or_default_group(group)
    if _rank_not_in_group(group):
        _warn_not_in_group("barrier")
        return None
    options = _set(BarrierOptions(), async_op)
    if timeout is not None:
        options.timeout = timeout
    return _finish(group.barrier(opts=options), async_op)


def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
    """Wait until all ranks of a group have called it; rank 0 says which have not.

    Args:
        group: group; the default one if None.
        timeout: longest time to wait, as a timedelta or seconds; the default timeout if None.
        wait_all_ranks: name all ranks that are missing, not only the first.

    Raises:
        RuntimeError: if ranks are missing.
    """
    if _rank_not_in_group(group):
        _warn_not_in_group("monitored_barrier")
        return
    if timeout is None:
        timeout = _get_default_timeout(get_backend(group))
    elif isinstance(timeout, float):
        warnings.warn(
            f"Please specify timeout arg as a timedelta. Converting current value of {timeout} assuming it represents "
            "seconds",
            stacklevel=2,
        )
        timeout = timedelta(seconds=timeout)
    if not isinstance(timeout, timedelta):
        raise TypeError(f"Expected timeout argument to be of type datetime.timedelta, got {timeout}")
    (_get_default_group() if group is None else group).monitored_barrier(timeout, wait_all_ranks=wait_all_ranks)
