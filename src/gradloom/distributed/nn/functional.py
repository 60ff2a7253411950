"""Collectives through which gradients flow: they return new tensors, and their backward is a collective, too.

All ranks of the group call forward and backward in the same order. A gradient that arrives at a rank is that of the sum
of all ranks' losses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gradloom as gl

from .. import distributed_c10d as dist
from ..distributed_c10d import ReduceOp

__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "scatter",
]


def broadcast(tensor: Any, src: int, group: Any = None) -> Any:
    """Return the tensor of one rank; the gradients of all ranks are summed there.

    Args:
        tensor: the values on `src`; elsewhere a tensor of the same shape and dtype.
        src: rank that has the values.
        group: group; the default one if None.
    """
    return _Broadcast.apply(src, group, tensor)


def gather(tensor: Any, dst: int = 0, group: Any = None) -> Any:
    """Return, on one rank, the tensors of all ranks; elsewhere zeros.

    Args:
        tensor: this rank's values.
        dst: rank that gets them.
        group: group; the default one if None.
    """
    return _Gather.apply(dst, group, tensor)


def scatter(tensors: Sequence[Any], src: int = 0, group: Any = None) -> Any:
    """Return the tensor that one rank has for this one.

    Args:
        tensors: as many tensors as ranks; their values count on `src` only.
        src: rank that has the values.
        group: group; the default one if None.
    """
    return _Scatter.apply(src, group, *tensors)


def reduce(tensor: Any, dst: int, op: Any = ReduceOp.SUM, group: Any = None) -> Any:
    """Return the reduction over all ranks on one rank.

    Args:
        tensor: this rank's values.
        dst: rank that gets the result.
        op: reduction; gradients are those of a sum.
        group: group; the default one if None.
    """
    return _Reduce.apply(dst, op, group, tensor)


def reduce_scatter(output: Any, input_list: Sequence[Any], op: Any = ReduceOp.SUM, group: Any = None) -> Any:
    """Return the reduction of `input_list[rank]` over all ranks.

    Args:
        output: gets the values; it is returned.
        input_list: as many tensors as ranks.
        op: reduction; gradients are those of a sum.
        group: group; the default one if None.
    """
    return _ReduceScatter.apply(op, group, output, *input_list)


def all_gather(tensor: Any, group: Any = None) -> tuple[Any, ...]:
    """Return the tensors of all ranks.

    Args:
        tensor: this rank's values.
        group: group; the default one if None.
    """
    found: tuple[Any, ...] = _AllGather.apply(group, tensor)
    return found


def _all_gather_base(output_tensor: Any, input_tensor: Any, group: Any = None) -> Any:
    return _AllGatherSingle.apply(output_tensor, input_tensor, group)


def all_to_all(
    output_tensor_list: Sequence[Any], input_tensor_list: Sequence[Any], group: Any = None
) -> tuple[Any, ...]:
    """Return the tensors that the ranks have for this one.

    Args:
        output_tensor_list: tensors that get the values; they are returned.
        input_tensor_list: as many tensors as ranks, one for each.
        group: group; the default one if None.
    """
    shapes = [tensor.shape for tensor in input_tensor_list]
    found: tuple[Any, ...] = _AllToAll.apply(group, list(output_tensor_list), shapes, *input_tensor_list)
    return found


def all_to_all_single(
    output: Any,
    input: Any,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Any = None,
) -> Any:
    """Return the parts along dim 0 that the ranks have for this one, one after the other.

    Args:
        output: gets the values; it is returned.
        input: has a part for each rank.
        output_split_sizes: sizes of the parts of `output`; equal if None.
        input_split_sizes: sizes of the parts of `input`; equal if None.
        group: group; the default one if None.
    """
    return _AllToAllSingle.apply(group, output, output_split_sizes, input_split_sizes, input)


def all_reduce(tensor: Any, op: Any = ReduceOp.SUM, group: Any = None) -> Any:
    """Return the reduction over all ranks.

    Args:
        tensor: this rank's values.
        op: reduction; gradients are reduced by it, too.
        group: group; the default one if None.
    """
    return _AllReduce.apply(op, group, tensor)


def _owned(tensor: Any) -> Any:
    """Return a contiguous copy that a collective may write to."""
    return tensor.clone(memory_format=gl.contiguous_format)


class _Broadcast(gl.autograd.Function):
    @staticmethod
    def forward(ctx: Any, src: int, group: Any, tensor: Any) -> Any:
        ctx.src, ctx.group = src, group
        found = _owned(tensor)
        dist.broadcast(found, src, group)
        return found

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        total = _Reduce.apply(ctx.src, ReduceOp.SUM, ctx.group, grad)
        return None, None, total if dist.get_rank() == ctx.src else gl.zeros_like(total)


class _Gather(gl.autograd.Function):
    @staticmethod
    def forward(ctx: Any, dst: int, group: Any, tensor: Any) -> Any:
        ctx.dst, ctx.group = dst, group
        parts = [gl.zeros_like(tensor) for _ in range(dist.get_world_size(group))]
        dist.gather(tensor.contiguous(), parts if dist.get_rank() == dst else None, dst, group)
        return tuple(parts)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return None, None, _Scatter.apply(ctx.dst, ctx.group, *grads)


class _Scatter(gl.autograd.Function):
    @staticmethod
    def forward(ctx: Any, src: int, group: Any, *tensors: Any) -> Any:
        ctx.src, ctx.group = src, group
        found = gl.zeros_like(tensors[0])
        is_source = dist.get_rank() == src
        dist.scatter(found, [tensor.contiguous() for tensor in tensors] if is_source else None, src, group)
        return found

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return None, None, *_Gather.apply(ctx.src, ctx.group, grad)


class _Reduce(gl.autograd.Function):
    @staticmethod
    def forward(ctx: Any, dst: int, op: Any, group: Any, tensor: Any) -> Any:
        ctx.dst, ctx.group = dst, group
        found = _owned(tensor)
        dist.reduce(found, dst, op, group)
        return found

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return None, None, None, _Broadcast.apply(ctx.dst, ctx.group, grad)


class _ReduceScatter(gl.autograd.Function):
    @staticmethod
    def forward(ctx: Any, op: Any, group: Any, output: Any, *inputs: Any) -> Any:
        ctx.group = group
        ctx.mark_dirty(output)
        dist.reduce_scatter(output, [tensor.contiguous() for tensor in inputs], op, group)
        return output

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return None, None, None, *_AllGather.apply(ctx.group, grad)


class _AllGather(gl.autograd.Function):
    @staticmethod
    def forward(ctx: Any, group: Any, tensor: Any) -> Any:
        ctx.group = group
        parts = [gl.empty_like(tensor, memory_format=gl.contiguous_format) for _ in range(dist.get_world_size(group))]
        dist.all_gather(parts, tensor.contiguous(), group)
        return tuple(parts)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        own = gl.empty_like(grads[0], memory_format=gl.contiguous_format)
        return None, _ReduceScatter.apply(ReduceOp.SUM, ctx.group, own, *grads)


class _AllGatherSingle(gl.autograd.Function):
    @staticmethod
    def forward(ctx: Any, output: Any, tensor: Any, group: Any) -> Any:
        ctx.group, ctx.shape = group, tensor.shape
        ctx.mark_dirty(output)
        dist.all_gather_single(output, tensor.contiguous(), group)
        return output

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        parts = grad.reshape(-1).chunk(dist.get_world_size(ctx.group))
        own = gl.empty_like(parts[0], memory_format=gl.contiguous_format)
        return None, _ReduceScatter.apply(ReduceOp.SUM, ctx.group, own, *parts).view(ctx.shape), None


class _AllToAll(gl.autograd.Function):
    @staticmethod
    def forward(ctx: Any, group: Any, outputs: Any, shapes: Any, *tensors: Any) -> Any:
        ctx.group, ctx.shapes = group, shapes
        ctx.output_shapes = [output.shape for output in outputs]
        dist.all_to_all(outputs, [tensor.contiguous() for tensor in tensors], group)
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        outputs = [grads[0].new_empty(shape) for shape in ctx.shapes]
        return None, None, None, *_AllToAll.apply(ctx.group, outputs, ctx.output_shapes, *grads)


class _AllToAllSingle(gl.autograd.Function):
    @staticmethod
    def forward(ctx: Any, group: Any, output: Any, output_sizes: Any, input_sizes: Any, tensor: Any) -> Any:
        ctx.group, ctx.shape, ctx.sizes = group, tensor.shape, (input_sizes, output_sizes)
        ctx.mark_dirty(output)
        dist.all_to_all_single(output, tensor.contiguous(), output_sizes, input_sizes, group)
        return output

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        output = grad.new_empty(ctx.shape)
        return None, None, None, None, _AllToAllSingle.apply(ctx.group, output, *ctx.sizes, grad)


class _AllReduce(gl.autograd.Function):
    @staticmethod
    def forward(ctx: Any, op: Any, group: Any, tensor: Any) -> Any:
        ctx.op, ctx.group = op, group
        found = _owned(tensor)
        dist.all_reduce(found, op, group)
        return found

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return None, None, _AllReduce.apply(ctx.op, ctx.group, grad)
