"""Change how a tensor is distributed: collectives on the processes' parts, which are ordinary tensors.

Note [Order of redistribution]
A dimension of the tensor that several dimensions of the mesh shard is divided by the first of them first. So a change
goes in two passes. The first, from the last dimension of the mesh to the first, gathers what would be in the way of
another change. The second, from the first to the last, makes each dimension of the mesh what it should be. What a
`_StridedShard` divides is divided last: it is gathered before anything else, and divided after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gradloom as gl

from .. import distributed_c10d as dist
from ._spec import DTensorSpec, local_part
from .placement_types import Partial, Placement, Replicate, Shard, _NormPartial, _StridedShard

__all__ = ["cost", "redistributed"]

_OPS = {
    "sum": dist.ReduceOp.SUM,
    "avg": dist.ReduceOp.AVG,
    "product": dist.ReduceOp.PRODUCT,
    "max": dist.ReduceOp.MAX,
    "min": dist.ReduceOp.MIN,
}


def cost(current: Placement, wanted: Placement, elements: int) -> float:
    """Return what a change costs along one dimension of a mesh, roughly in units of a message."""
    if current == wanted:
        return 0.0
    transfer = 1.0 + elements * 1e-6
    if current.is_replicate():
        return 0.01 if wanted.is_partial() else 0.0
    if current.is_partial():
        return 2 * transfer if wanted.is_replicate() else transfer + 0.1 if wanted.is_shard() else float("inf")
    return transfer if wanted.is_replicate() else transfer + 1.0 if wanted.is_shard() else float("inf")


def redistributed(local: Any, spec: DTensorSpec, placements: Sequence[Placement]) -> Any:
    """Return this process's part of a tensor that is distributed in another way. All processes of the mesh call this.

    Args:
        local: this process's part.
        spec: how the tensor is distributed.
        placements: how it should be.
    """
    current = list(spec.placements)
    if current == list(placements) or spec.mesh.get_coordinate() is None:
        return local
    local = local.resolve_conj().resolve_neg()
    for mesh_dim in reversed(range(len(current))):
        if isinstance(current[mesh_dim], _StridedShard):
            local = _changed(local, spec, current, mesh_dim, Replicate())
    last = [mesh_dim for mesh_dim, wanted in enumerate(placements) if isinstance(wanted, _StridedShard)]
    first = list(placements)
    for mesh_dim in last:
        first[mesh_dim] = current[mesh_dim] if current[mesh_dim].is_partial() else Replicate()
    local = _in_order(local, spec, current, first)
    for mesh_dim in last:
        local = _changed(local, spec, current, mesh_dim, placements[mesh_dim])
    return local


def _in_order(local: Any, spec: DTensorSpec, current: list[Placement], placements: Sequence[Placement]) -> Any:
    """Make `current` what `placements` say, where the dimensions of the mesh divide in their order."""
    before = tuple(current)
    for mesh_dim in reversed(range(len(current))):
        if _is_in_the_way(mesh_dim, current, before, placements):
            local = _changed(local, spec, current, mesh_dim, Replicate())
    for mesh_dim, wanted in enumerate(placements):
        if current[mesh_dim] != wanted:
            local = _changed(local, spec, current, mesh_dim, wanted)
    return local


def _is_in_the_way(
    mesh_dim: int, current: Sequence[Placement], before: Sequence[Placement], wanted: Sequence[Placement]
) -> bool:
    mine, then = current[mesh_dim], wanted[mesh_dim]
    if not isinstance(mine, Shard):
        return False
    if mine == then:
        return any(mine in (before[one], wanted[one]) and before[one] != wanted[one] for one in range(mesh_dim))
    others = [one for one in range(len(before)) if one != mesh_dim]
    return any(shard in (before[one], wanted[one]) for one in others for shard in (mine, then) if shard.is_shard())


def _changed(local: Any, spec: DTensorSpec, current: list[Placement], mesh_dim: int, wanted: Placement) -> Any:
    """Change one dimension of the mesh, and write the new placement into `current`."""
    mesh, before = spec.mesh, current[mesh_dim]
    size, rank, group = mesh.size(mesh_dim), mesh.get_local_rank(mesh_dim), mesh.get_group(mesh_dim)
    shape = local_part(spec.shape, mesh, current, mesh_dim)[0]  # of what this dimension of the mesh divides
    current[mesh_dim] = wanted
    if isinstance(before, Shard) and isinstance(wanted, Shard):
        return _exchanged(local, before.dim, wanted.dim, shape[before.dim], size, rank, group)
    if isinstance(before, Shard):
        return _gathered(local, before.dim, shape[before.dim], size, group)
    if isinstance(before, Partial) and isinstance(wanted, Shard) and not isinstance(before, _NormPartial):
        return _reduced_and_scattered(local, before, wanted.dim, size, rank, group)
    if isinstance(before, Partial):
        local = _reduced(local, before, group)
    return _own(local, wanted, size, rank)


def _own(whole: Any, wanted: Placement, size: int, rank: int) -> Any:
    """Return a process's part of a tensor that all have."""
    if isinstance(wanted, Shard):
        length, start = wanted.local_shard_size_and_offset(whole.shape[wanted.dim], size, rank)
        return whole.narrow(wanted.dim, start, length).clone(memory_format=gl.contiguous_format)
    if isinstance(wanted, Partial) and wanted.reduce_op == "sum" and rank:
        return gl.zeros_like(whole)
    if isinstance(wanted, Partial) and wanted.reduce_op == "product" and rank:
        return gl.ones_like(whole)
    if isinstance(wanted, _NormPartial) and rank:
        return gl.zeros_like(whole)
    return whole


def _padded(tensor: Any, dim: int, length: int) -> Any:
    """Return a tensor with `dim` in front, contiguous, and zeros behind its end up to a length."""
    moved = tensor.movedim(dim, 0)
    if moved.shape[0] == length:
        return moved.contiguous()
    return gl.cat([moved, moved.new_zeros(length - moved.shape[0], *moved.shape[1:])])


def _gathered(local: Any, dim: int, length: int, size: int, group: Any) -> Any:
    step = -(-length // size)
    own = _padded(local, dim, step)
    whole = own.new_empty(step * size, *own.shape[1:])
    dist.all_gather_into_tensor(whole, own, group=group)
    return whole[:length].movedim(0, dim).contiguous()


def _reduced(local: Any, partial: Partial, group: Any) -> Any:
    whole = local.clone(memory_format=gl.contiguous_format)
    if isinstance(partial, _NormPartial):
        order = partial.norm_type
        if order in (float("inf"), float("-inf")):
            dist.all_reduce(whole, _OPS["max" if order > 0 else "min"], group=group)
            return whole
        if order == 0:
            dist.all_reduce(whole, group=group)
            return whole
        whole = whole**order
        dist.all_reduce(whole, group=group)
        return whole ** (1 / order)
    dist.all_reduce(whole, _op(partial), group=group)
    return whole


def _op(partial: Partial) -> Any:
    try:
        return _OPS[partial.reduce_op]
    except KeyError:
        raise RuntimeError(f"Partial has no reduction {partial.reduce_op!r}, but: {', '.join(_OPS)}") from None


def _reduced_and_scattered(local: Any, partial: Partial, dim: int, size: int, rank: int, group: Any) -> Any:
    length = local.shape[dim]
    step = -(-length // size)
    given = _padded(local, dim, step * size)
    own = given.new_empty(step, *given.shape[1:])
    dist.reduce_scatter_tensor(own, given, _op(partial), group=group)
    count = Shard.local_shard_size_and_offset(length, size, rank)[0]
    return own[:count].movedim(0, dim).contiguous()


def _exchanged(local: Any, dim: int, new_dim: int, length: int, size: int, rank: int, group: Any) -> Any:
    """Return the part along `new_dim` of a tensor that was divided along `dim`, of `length` elements."""
    step, new_length = -(-length // size), local.shape[new_dim]
    new_step = -(-new_length // size)
    padded = local.new_zeros([step if one == dim else extent for one, extent in enumerate(local.shape)])
    padded.narrow(dim, 0, local.shape[dim]).copy_(local)
    given = _padded(padded, new_dim, new_step * size)
    taken = gl.empty_like(given)
    dist.all_to_all_single(taken, given, group=group)
    # By sender: its rows of `dim` of this process's elements of `new_dim`, which is in front.
    parts = [part.movedim(0, new_dim) for part in taken.chunk(size)] if new_step else [taken.movedim(0, new_dim)] * size
    count = Shard.local_shard_size_and_offset(new_length, size, rank)[0]
    return gl.cat(parts, dim).narrow(dim, 0, length).narrow(new_dim, 0, count).contiguous()
