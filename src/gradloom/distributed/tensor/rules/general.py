"""Sharding rules of pointwise operators, of index notation, of reductions, and of operators along dimensions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

from ....dispatch.records import ArgumentName
from .._call import Call, Leaf, Option, dims_of
from ..placement_types import Partial, Placement, Shard, _NormPartial, _StridedShard

_SUMS = (Partial("sum"), Partial("avg"))


# --- elementwise operators --------------------------------------------------------------------------------------------


def pointwise(call: Call, linear: Literal["jointly", "each", "first"] | None = None) -> Iterator[Option]:
    """Propose to shard a dimension of the result and of all arguments that are not broadcast along it.

    Args:
        linear: in which tensors the operator is linear: in all of them together, in each, or in the first.
    """
    shape = call.outs[0].shape
    for dim, size in enumerate(shape):
        inputs: dict[int, Placement] = {}
        for leaf in call.leaves:
            at = dim - len(shape) + leaf.ndim
            if at >= 0 and leaf.shape[at] == size:
                inputs[leaf.index] = Shard(at)
        yield Option(call.where(inputs), Shard(dim), takes_empty=True)
    first = call.current(call.leaves[0])
    if isinstance(first, _StridedShard) and all(leaf.shape == call.leaves[0].shape == shape for leaf in call.leaves):
        yield Option((first,) * len(call.leaves), first, takes_empty=True)
    if linear == "jointly":
        yield from _jointly_linear(call)
    elif linear == "each":
        yield from _multilinear(call)
    elif linear == "first":
        yield from _linear_in_first(call)


def _jointly_linear(call: Call) -> Iterator[Option]:
    """Propose to leave sums over the processes as such: the sum of two."""
    if len(call.leaves) == 2:
        for kind in _SUMS:
            yield Option((kind, kind), kind)


def _multilinear(call: Call) -> Iterator[Option]:
    for kind in _SUMS:
        for leaf in call.leaves:
            yield Option(call.where({leaf.index: kind}), kind)


def _linear_in_first(call: Call) -> Iterator[Option]:
    first = call.values["self"]
    if isinstance(first, Leaf) and first.index == 0 and call.values.get("rounding_mode") is None:
        for kind in _SUMS:
            yield Option(call.where({0: kind}), kind)


# --- index notation ---------------------------------------------------------------------------------------------------


def indices(call: Call, notation: str) -> Iterator[Option]:
    """Propose what index labels say; see Note [Index notation]."""
    left, _, right = notation.partition("->")
    inputs, outputs = left.split(","), right.split(",")
    has_bias = "+" in left
    tensors = [one for one in map(call.values.get, call.argument_names) if isinstance(one, Leaf)]
    if len(tensors) == len(inputs) - 1 and has_bias:
        inputs = [labels for labels in inputs if not labels.startswith("+")]
    if len(tensors) != len(inputs) or len(tensors) != len(call.leaves):
        return
    for letter in sorted({one for labels in inputs for one in labels if one.islower()}):
        is_sum = not any(letter in labels for labels in outputs)
        chosen: dict[int, Placement] = {}
        for labels, leaf in zip(inputs, tensors, strict=True):
            if is_sum and labels.startswith("+"):
                chosen[leaf.index] = Partial()
            elif letter in labels:
                at = labels.lstrip("+").index(letter) - len(labels.lstrip("+")) + leaf.ndim
                if at >= 0 and (leaf.shape[at] > 1 or not labels.startswith("+")):
                    chosen[leaf.index] = Shard(at)
        outs = [Shard(labels.index(letter)) if letter in labels else Partial() for labels in outputs]
        yield Option(call.where(chosen), tuple(outs), takes_empty=True)
    if not has_bias:
        yield from _multilinear(call)


# --- reductions -------------------------------------------------------------------------------------------------------


def reduction(
    call: Call,
    over: Literal["sum", "avg", "product", "max", "min"] | None = None,
    linear: Literal["linear"] | None = None,
) -> Iterator[Option]:
    """Propose to shard dimensions that stay and, if results over the processes can be reduced, those that do not.

    Args:
        over: how the results of the processes' parts are reduced.
        linear: whether sums over the processes may stay as such.
    """
    yield from _reduction(call, lambda call: None if over is None else Partial(over), over == "avg")
    if linear is not None:
        yield from _linear_in_first(call)


def _reduction(call: Call, across: Callable[[Call], Placement | None], even: bool = False) -> Iterator[Option]:
    """Propose options of a reduction, of which `across` gives the placement of results if what it reduces is sharded;
    `even`: if all processes have as many elements."""
    (leaf,) = call.leaves
    dims = dims_of(call.values.get("dim"), leaf.ndim)
    keeps = bool(call.values.get("keepdim", False))
    for dim in range(leaf.ndim):
        if dim not in dims:
            yield Option((Shard(dim),), Shard(dim if keeps else dim - sum(one < dim for one in dims)))
        elif (found := across(call)) is not None and (call.is_even(leaf, dim) or not even):
            yield Option((Shard(dim),), found)


def norm(call: Call) -> Iterator[Option]:
    """Propose options of the norm of order `ord`."""
    order = float(call.values.get("ord", 2))
    yield from _reduction(call, lambda call: _NormPartial("norm", order) if order > 0 else None)


# --- operators along dimensions ---------------------------------------------------------------------------------------


def along(call: Call, dims: ArgumentName) -> Iterator[Option]:
    """Propose options of an operator that mixes elements along the dimensions that an argument gives."""
    yield from _along(call, dims_of(call.values.get(dims, -1), call.leaves[0].ndim))


def last(call: Call, count: int) -> Iterator[Option]:
    """Propose options of an operator that mixes elements along the last dimensions."""
    ndim = call.leaves[0].ndim
    yield from _along(call, list(range(ndim - count, ndim)))


def _along(call: Call, mixed: list[int]) -> Iterator[Option]:
    ndim = call.leaves[0].ndim
    if any(leaf.ndim != ndim for leaf in call.leaves):
        return
    for dim in range(ndim):
        if dim not in mixed and len({leaf.shape[dim] for leaf in call.leaves}) == 1:
            yield Option((Shard(dim),) * len(call.leaves), Shard(dim))


def leading(call: Call, count: int) -> Iterator[Option]:
    """Propose options of an operator that treats the first dimensions of all arguments and results alike."""
    for dim in range(min(count, *(leaf.ndim for leaf in call.leaves), *(len(out.shape) for out in call.outs))):
        if len({leaf.shape[dim] for leaf in call.leaves}) == 1:
            yield Option((Shard(dim),) * len(call.leaves), Shard(dim))


def loss(call: Call) -> Iterator[Option]:
    """Propose options of elementwise losses, reduced as the call says (0: not, 1: mean, 2: sum)."""
    first = call.leaves[0]
    if any(leaf.shape != first.shape for leaf in call.leaves):
        return
    how = call.values.get("reduction", 1)
    for dim in range(first.ndim):
        found = (Shard(dim), Partial("avg"), Partial("sum"))[how]
        if how != 1 or call.is_even(first, dim):
            yield Option((Shard(dim),) * len(call.leaves), found)
