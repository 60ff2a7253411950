"""loss_parallel: the cross entropy of scores whose classes are distributed, without gathering them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gradloom as gl

from ... import distributed_c10d as dist
from .._dispatch import overriding
from .._dtensor import DTensor
from .._redistribute import redistributed
from .._spec import DTensorSpec, TensorMeta, local_part
from ..placement_types import Replicate, Shard

__all__ = ["loss_parallel"]


@contextmanager
def loss_parallel() -> Iterator[None]:
    """Return a context in which `cross_entropy` takes scores, a DTensor, whose classes are sharded, dimension 1.

    Forward and backward pass must both be in it. Targets may be ordinary tensors; they are the same on all processes.
    Class weights are not distributed.
    """
    table = {
        "_log_softmax": _log_softmax,
        "_log_softmax_backward_data": _log_softmax_backward,
        "nll_loss_forward": _nll_loss,
        "nll_loss2d_forward": _nll_loss,
        "nll_loss_backward": _nll_loss_backward,
        "nll_loss2d_backward": _nll_loss_backward,
    }
    with overriding(table):
        yield


def _sharding_dim(tensor: Any, dim: int) -> int | None:
    """Return the dimension of the mesh that shards `dim` of a tensor, None if none does.

    Raises:
        ValueError: if others distribute it as well.
    """
    if not isinstance(tensor, DTensor):
        return None
    found = [number for number, one in enumerate(tensor.placements) if one == Shard(dim)]
    if not found:
        return None
    if len(found) > 1:
        raise ValueError(
            f"loss_parallel() requires exactly one mesh dim to shard tensor dimension {dim}, but got placements "
            f"{tensor.placements} with {len(found)} such mesh dim(s)."
        )
    for number, one in enumerate(tensor.placements):
        if number != found[0] and not one.is_replicate():
            raise ValueError(f"loss_parallel() takes scores that other mesh dims replicate, got {one} at dim {number}.")
    return found[0]


def _reduced(local: Any, op: Any, tensor: Any, mesh_dim: int) -> Any:
    local = local.contiguous()
    dist.all_reduce(local, op, group=tensor._spec.mesh.get_group(mesh_dim))
    return local


def _like(local: Any, spec: DTensorSpec) -> DTensor:
    meta = TensorMeta(spec.shape, TensorMeta.contiguous(spec.shape, local.dtype).stride, local.dtype)
    return DTensor(local, DTensorSpec(spec.mesh, spec.placements, meta))


def _log_softmax(func: Any, args: Any, kwargs: Any) -> Any:
    x, dim = args[0], args[1] % max(args[0].dim(), 1)
    mesh_dim = _sharding_dim(x, dim)
    if mesh_dim is None:
        return NotImplemented
    local = x._local_tensor.float() if len(args) > 2 and args[2] else x._local_tensor
    if local.shape[dim]:
        highest = local.amax(dim, keepdim=True)
    else:
        shape = [1 if one == dim else size for one, size in enumerate(local.shape)]
        highest = local.new_full(shape, float("-inf"))
    highest = _reduced(highest, dist.ReduceOp.MAX, x, mesh_dim)
    shifted = local - highest
    total = _reduced(shifted.exp().sum(dim, keepdim=True), dist.ReduceOp.SUM, x, mesh_dim)
    return _like(shifted - total.log(), x._spec)


def _log_softmax_backward(func: Any, args: Any, kwargs: Any) -> Any:
    grad, output, dim, dtype = args
    mesh_dim = _sharding_dim(output, dim % output.dim())
    if mesh_dim is None:
        return NotImplemented
    own = redistributed(grad._local_tensor, grad._spec, output.placements)
    total = _reduced(own.sum(dim, keepdim=True), dist.ReduceOp.SUM, output, mesh_dim)
    return _like((own - output._local_tensor.exp() * total).to(dtype), output._spec)


def _targets(x: Any, target: Any, ignored: int) -> tuple[Any, Any, Any]:
    """Return the target's number among this process's classes, whether it is one of them, and whether it counts."""
    if isinstance(target, DTensor):
        target = redistributed(target._local_tensor, target._spec, [Replicate()] * target._spec.mesh.ndim)
    dim = 0 if x.dim() < 2 else 1
    count, first = (part[dim] for part in local_part(x._spec.shape, x._spec.mesh, x.placements))
    is_here = (target >= first) & (target < first + count)
    return (target - first) * is_here, is_here, target != ignored


def _nll_loss(func: Any, args: Any, kwargs: Any) -> Any:
    x, target, weight, reduction, ignored = args
    dim = 0 if x.dim() < 2 else 1
    mesh_dim = _sharding_dim(x, dim)
    if mesh_dim is None:
        return NotImplemented
    if weight is not None:
        raise NotImplementedError("loss_parallel() takes no class weights: gather the scores instead")
    own, is_here, counts = _targets(x, target, ignored)
    local = x._local_tensor
    if local.shape[dim]:
        picked = -local.gather(dim, own.unsqueeze(dim)).squeeze(dim)
    else:
        picked = local.new_zeros(own.shape)
    losses = _reduced(gl.where(is_here & counts, picked, 0.0), dist.ReduceOp.SUM, x, mesh_dim)
    total = counts.sum().to(losses.dtype)
    result = losses if reduction == 0 else losses.sum() if reduction == 2 else losses.sum() / total
    return _replicated(result, x), _replicated(total if reduction else losses.new_zeros(()), x)


def _replicated(local: Any, like: Any) -> DTensor:
    mesh = like._spec.mesh
    return DTensor(local, DTensorSpec(mesh, (Replicate(),) * mesh.ndim, TensorMeta.of(local)))


def _nll_loss_backward(func: Any, args: Any, kwargs: Any) -> Any:
    grad, x, target, weight, reduction, ignored, total = args
    dim = 0 if x.dim() < 2 else 1
    if _sharding_dim(x, dim) is None:
        return NotImplemented
    own, is_here, counts = _targets(x, target, ignored)
    whole = redistributed(grad._local_tensor, grad._spec, [Replicate()] * x._spec.mesh.ndim)
    each = whole / total._local_tensor if reduction == 1 else whole
    values = gl.where(is_here & counts, -each, 0.0).unsqueeze(dim)
    local = gl.zeros_like(x._local_tensor)
    if local.shape[dim]:
        local.scatter_(dim, own.unsqueeze(dim), values.expand(own.unsqueeze(dim).shape).to(local.dtype))
    return _like(local, x._spec)
