"""Collectives that return new tensors and leave their arguments alone.

Of arguments that require gradients the results are complete, and gradients flow through them. Otherwise a collective
goes on in the group's thread, and its result is an AsyncCollectiveTensor, which waits when it is first used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gradloom as gl

from ..core.tensor import TensorBase
from ..dispatch.state import disabled_torch_function
from . import distributed_c10d as dist
from .device_mesh import DeviceMesh
from .nn import functional as differentiable

__all__ = [
    "AsyncCollectiveTensor",
    "all_gather_into_tensor_coalesced",
    "all_gather_single",
    "all_gather_tensor",
    "all_gather_tensor_autograd",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all_single",
    "all_to_all_single_autograd",
    "broadcast",
    "permute_tensor",
    "reduce_scatter_single",
    "reduce_scatter_tensor",
    "reduce_scatter_tensor_autograd",
    "reduce_scatter_tensor_coalesced",
    "wait_tensor",
]


_array_of: Any = TensorBase._array


class AsyncCollectiveTensor(gl.Tensor):
    """The result of a collective that goes on. Whatever reads it, its shape included, waits first.

    Operators on it return plain tensors.

    Attributes:
        elem: the plain tensor that gets the values; it does not wait.
        completed: whether the collective has been waited for.
    """

    elem: gl.Tensor
    _work: Any
    __torch_function__ = disabled_torch_function  # type: ignore[assignment]

    @property
    def completed(self) -> bool:
        return self._work is None

    def trigger_wait(self) -> Any:
        """Wait for the collective, and return the plain tensor.

        Raises:
            DistBackendError: if the collective failed.
        """
        if self._work is not None:
            self._work.wait()
            self._work = None
        return self.elem

    wait = _get_acs_underlying_tensor = trigger_wait

    def _values(self) -> Any:
        self.trigger_wait()
        return _array_of.__get__(self)

    def _set_values(self, array: Any) -> None:
        _array_of.__set__(self, array)

    _array = _operand = property(_values, _set_values)  # type: ignore[assignment]


def _goes_on(*tensors: Any) -> bool:
    """Return whether a collective of these may go on after it has returned: no gradients flow through it."""
    return not (gl.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors))


def _started(output: Any, work: Any) -> Any:
    """Return `output`, into which a collective writes, as a tensor that waits for it."""
    found = output.as_subclass(AsyncCollectiveTensor)
    found.elem, found._work = output, work
    return found


def _copied(tensor: Any) -> Any:
    """Return a copy, which the program cannot change while a collective reads it."""
    return tensor.detach().clone(memory_format=gl.contiguous_format)


def _resolve_group(group: Any, tag: str = "") -> Any:
    """Return a process group from what functional collectives take: a group, its name, ranks, a mesh, a mesh's dim.

    Raises:
        ValueError: if it is none of these, or the group does not exist.
    """
    if isinstance(group, DeviceMesh):
        if group.ndim != 1:
            raise AssertionError("Only 1D mesh is supported, pass in (DeviceMesh, int) together if mesh > 1D")
        return group.get_group(0)
    if isinstance(group, tuple) and len(group) == 2 and isinstance(group[0], DeviceMesh):
        return group[0].get_group(group[1])
    if isinstance(group, (list, tuple)):
        ranks = [list(one) for one in group] if group and isinstance(group[0], (list, tuple)) else [list(group)]
        mine = next((one for one in ranks if dist.get_rank() in one), ranks[0])
        if mine == list(range(dist.get_world_size())):
            return dist._get_default_group()
        return dist._find_or_create_pg_by_ranks_and_tag(tag, [r for one in ranks for r in one], len(mine))
    return dist._resolve_process_group(group)


def _op(name: str) -> Any:
    kinds = {"sum": "SUM", "avg": "AVG", "product": "PRODUCT", "min": "MIN", "max": "MAX",
             "band": "BAND", "bor": "BOR", "bxor": "BXOR"}  # fmt: skip
    if name.lower() not in kinds:
        raise ValueError(f"reduceOp must be one of {', '.join(kinds)}, not {name!r}")
    return getattr(dist.ReduceOp, kinds[name.lower()])


def wait_tensor(tensor: Any) -> Any:
    """Wait for the result of a collective, and return it as a plain tensor.

    Args:
        tensor: result of a collective.
    """
    return tensor.wait() if isinstance(tensor, AsyncCollectiveTensor) else tensor


def broadcast(self: Any, src: int, group: Any, tag: str = "") -> Any:
    """Return the tensor of one rank.

    Args:
        self: the values on `src`.
        src: rank, in the default group.
        group: group, its name, ranks, or a mesh.
        tag: of a group of ranks.
    """
    found = _resolve_group(group, tag)
    if _goes_on(self):
        output = _copied(self)
        return _started(output, dist.broadcast(output, src, found, async_op=True))
    return differentiable.broadcast(self, src, found)


def all_reduce(self: Any, reduceOp: str, group: Any, tag: str = "") -> Any:
    """Return the reduction over all ranks.

    Args:
        self: this rank's values.
        reduceOp: "sum", "avg", "product", "min" or "max".
        group: group, its name, ranks, or a mesh.
        tag: of a group of ranks.
    """
    found, op = _resolve_group(group, tag), _op(reduceOp)
    if _goes_on(self):
        output = _copied(self)
        return _started(output, dist.all_reduce(output, op, found, async_op=True))
    return differentiable.all_reduce(self, op, found)


def all_gather_tensor(self: Any, gather_dim: int, group: Any, tag: str = "") -> Any:
    """Return the tensors of all ranks, concatenated along a dimension.

    Args:
        self: this rank's values.
        gather_dim: dimension.
        group: group, its name, ranks, or a mesh.
        tag: of a group of ranks.
    """
    found = _resolve_group(group, tag)
    if _goes_on(self) and gather_dim == 0 and self.dim():
        output = self.new_empty((self.size(0) * found.size(), *self.shape[1:]))
        return _started(output, dist.all_gather_into_tensor(output, _copied(self), found, async_op=True))
    return gl.cat(differentiable.all_gather(self, found), gather_dim)


all_gather_tensor_autograd = all_gather_single = all_gather_single_autograd = all_gather_tensor


def reduce_scatter_tensor(self: Any, reduceOp: str, scatter_dim: int, group: Any, tag: str = "") -> Any:
    """Return this rank's part of the reduction over all ranks, which is divided along a dimension.

    Args:
        self: this rank's values.
        reduceOp: "sum", "avg", "product", "min" or "max".
        scatter_dim: dimension; its size must be divisible by the number of ranks.
        group: group, its name, ranks, or a mesh.
        tag: of a group of ranks.
    """
    found = _resolve_group(group, tag)
    if self.size(scatter_dim) % found.size():
        raise AssertionError(
            f"input dimension {scatter_dim} ({self.size(scatter_dim)}) must be a multiple of group_size {found.size()}"
        )
    parts = self.chunk(found.size(), scatter_dim)
    output = gl.empty_like(parts[0], memory_format=gl.contiguous_format)
    if _goes_on(self):
        copies = [_copied(part) for part in parts]
        return _started(output, dist.reduce_scatter(output, copies, _op(reduceOp), found, async_op=True))
    return differentiable.reduce_scatter(output, parts, _op(reduceOp), found)


reduce_scatter_tensor_autograd = reduce_scatter_single = reduce_scatter_single_autograd = reduce_scatter_tensor


def all_to_all_single(
    self: Any,
    output_split_sizes: Sequence[int] | None,
    input_split_sizes: Sequence[int] | None,
    group: Any,
    tag: str = "",
) -> Any:
    """Return the parts along dim 0 that the ranks have for this one.

    Args:
        self: has a part for each rank.
        output_split_sizes: sizes of the parts of the result; those of equal parts if None.
        input_split_sizes: sizes of the parts of `self`; equal if None.
        group: group, its name, ranks, or a mesh.
        tag: of a group of ranks.
    """
    length = self.size(0) if output_split_sizes is None else sum(output_split_sizes)
    output = self.new_empty((length, *self.shape[1:]))
    found = _resolve_group(group, tag)
    if _goes_on(self):
        splits = output_split_sizes, input_split_sizes
        return _started(output, dist.all_to_all_single(output, _copied(self), *splits, found, async_op=True))
    return differentiable.all_to_all_single(output, self, output_split_sizes, input_split_sizes, found)


all_to_all_single_autograd = all_to_all_single


def permute_tensor(self: Any, src_dst: Sequence[int], group: Any, tag: str = "") -> Any:
    """Return the tensor of the rank r for which `src_dst[r]` is this rank.

    Args:
        self: this rank's values; of the same shape on all ranks.
        src_dst: where each rank's tensor goes; a permutation.
        group: group, its name, ranks, or a mesh.
        tag: of a group of ranks.
    """
    found = _resolve_group(group, tag)
    rank, flat = found.rank(), self.reshape(-1)
    sends, receives = [0] * found.size(), [0] * found.size()
    sends[src_dst[rank]] = flat.numel()
    receives[list(src_dst).index(rank)] = flat.numel()
    return all_to_all_single(flat, receives, sends, found).reshape(self.shape)


def all_reduce_coalesced(self: Sequence[Any], reduceOp: str, group: Any, tag: str = "") -> list[Any]:
    """Return `all_reduce` of each of several tensors.

    Args:
        self: the tensors.
        reduceOp, group, tag: as for `all_reduce`.
    """
    return [all_reduce(tensor, reduceOp, group, tag) for tensor in self]


def all_gather_into_tensor_coalesced(self: Sequence[Any], group: Any, tag: str = "") -> list[Any]:
    """Return `all_gather_tensor`, along dim 0, of each of several tensors.

    Args:
        self: the tensors.
        group, tag: as for `all_gather_tensor`.
    """
    return [all_gather_tensor(tensor, 0, group, tag) for tensor in self]


def reduce_scatter_tensor_coalesced(
    inputs: Sequence[Any], reduceOp: str, scatter_dim: Sequence[int], group: Any, tag: str = ""
) -> list[Any]:
    """Return `reduce_scatter_tensor` of each of several tensors.

    Args:
        inputs: the tensors.
        reduceOp, group, tag: as for `reduce_scatter_tensor`.
        scatter_dim: dimension of each.
    """
    pairs = zip(inputs, scatter_dim, strict=True)
    return [reduce_scatter_tensor(tensor, reduceOp, dim, group, tag) for tensor, dim in pairs]
