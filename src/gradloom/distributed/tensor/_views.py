"""Sharding rules of operators that only move elements: views, and joining tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

from ._call import Call, Leaf, Option, Rule, dims_of
from .placement_types import Partial, Placement, Shard, _StridedShard

__all__ = ["SHAPES", "SIZES", "moves", "view_rules"]

_KINDS = tuple(Partial(kind) for kind in ("sum", "avg", "product", "max", "min"))

# Operators that only give the elements another shape: which, is not what their arguments say for a part.
SHAPES = frozenset("view _unsafe_view _reshape_alias reshape squeeze".split())
# Arguments that are the shape of the result, which a process must replace by that of its part.
SIZES = {"expand": "size", "slice_backward": "input_sizes", "select_backward": "input_sizes"}


def moves(dims: Callable[[Call, Leaf], Sequence[int | None]], call: Call) -> Iterator[Option]:
    """Propose options of a view, from where its result has each dimension of the argument (None: nowhere)."""
    leaf = call.leaves[0]
    for dim, new in enumerate(dims(call, leaf)):
        if new is not None:
            yield Option((Shard(dim),), Shard(new))
    current = call.current(leaf)
    if isinstance(current, _StridedShard) and (new := dims(call, leaf)[current.dim]) is not None:
        if leaf.shape[current.dim] == call.outs[0].shape[new]:
            yield Option((current,), replace(current, dim=new))
    for kind in _KINDS:
        yield Option((kind,), kind)


def _same(call: Call, leaf: Leaf) -> list[int | None]:
    return list(range(leaf.ndim))


def _transposed(call: Call, leaf: Leaf) -> list[int | None]:
    if call.name == "t":
        return list(reversed(range(leaf.ndim)))
    found: list[int | None] = list(range(leaf.ndim))
    if found:
        one, other = (call.values[name] % leaf.ndim for name in ("dim0", "dim1"))
        found[one], found[other] = found[other], found[one]
    return found


def _permuted(call: Call, leaf: Leaf) -> list[int | None]:
    order = [dim % leaf.ndim for dim in call.values["dims"]]
    return [order.index(dim) for dim in range(leaf.ndim)]


def _unsqueezed(call: Call, leaf: Leaf) -> list[int | None]:
    new = call.values["dim"] % (leaf.ndim + 1)
    return [dim + (dim >= new) for dim in range(leaf.ndim)]


def _squeezed(call: Call, leaf: Leaf) -> list[int | None]:
    given = call.values.get("dim")
    asked = dims_of(given, leaf.ndim)
    gone = [dim for dim in asked if leaf.shape[dim] == 1]
    return [None if dim in gone else dim - sum(one < dim for one in gone) for dim in range(leaf.ndim)]


def _expanded(call: Call, leaf: Leaf) -> list[int | None]:
    new = call.outs[0].shape
    shift = len(new) - leaf.ndim
    return [dim + shift if leaf.shape[dim] == new[dim + shift] else None for dim in range(leaf.ndim)]


def _without_dim(call: Call, leaf: Leaf) -> list[int | None]:
    """Return where dimensions are after `dim` is gone: select and unbind."""
    gone = call.values.get("dim", 0) % leaf.ndim
    return [None if dim == gone else dim - (dim > gone) for dim in range(leaf.ndim)]


def _with_dim(call: Call, leaf: Leaf) -> list[int | None]:
    """Return where dimensions are after `dim` was inserted: select_backward."""
    new = call.values["dim"] % (leaf.ndim + 1)
    return [dim + (dim >= new) for dim in range(leaf.ndim)]


def _but_dim(call: Call, leaf: Leaf) -> list[int | None]:
    """Return where dimensions are after a part of `dim` was taken; nothing of it may be sharded, but if it is whole."""
    cut = call.values.get("dim", 0) % leaf.ndim
    whole = call.name == "slice" and call.outs[0].shape == leaf.shape and call.values.get("step", 1) == 1
    return [None if dim == cut and not whole else dim for dim in range(leaf.ndim)]


def _viewed(call: Call, leaf: Leaf) -> list[int | None]:
    """Return where dimensions are after a view, if the elements of a part are a part of the view.

    Dimensions whose sizes have the same product belong together. Of such a group, the first dimension can be sharded,
    and is the first of the new group then, if both are divided evenly.
    """
    found: list[int | None] = [None] * leaf.ndim
    for old, new in _groups(leaf.shape, call.outs[0].shape):
        first = next((dim for dim in old if leaf.shape[dim] != 1), None)
        other = next((dim for dim in new if call.outs[0].shape[dim] != 1), None)
        if first is None or other is None:
            continue
        sizes = leaf.shape[first], call.outs[0].shape[other]
        even = call.is_even(leaf, first) and sizes[1] % (sizes[0] and _ways(call, leaf, first)) == 0
        if sizes[0] == sizes[1] or even:
            found[first] = other
    return found


def _ways(call: Call, leaf: Leaf, dim: int) -> int:
    mesh = leaf.spec.mesh
    return prod(
        mesh.size(number)
        for number, one in enumerate(leaf.spec.placements)
        if number == call.mesh_dim or one == Shard(dim)
    )


def _groups(old: Sequence[int], new: Sequence[int]) -> Iterator[tuple[list[int], list[int]]]:
    """Divide the dimensions of two shapes of as many elements into the smallest groups with the same products."""
    if 0 in old:
        return
    i = j = 0
    while i < len(old) and j < len(new):
        left, right, a, b = [i], [j], old[i], new[j]
        i, j = i + 1, j + 1
        while a != b:
            if a < b:
                left.append(i)
                a, i = a * old[i], i + 1
            else:
                right.append(j)
                b, j = b * new[j], j + 1
        yield left, right


def _joined(call: Call) -> Iterator[Option]:
    """Propose options of cat: any dimension but the one along which the tensors are joined."""
    ndim = max(leaf.ndim for leaf in call.leaves)
    at = call.values.get("dim", 0) % ndim
    if any(leaf.ndim != ndim for leaf in call.leaves):
        return
    for dim in range(ndim):
        if dim != at:
            yield Option((Shard(dim),) * len(call.leaves), Shard(dim))
    yield from _all_partial(call)


def _stacked(call: Call) -> Iterator[Option]:
    ndim = call.leaves[0].ndim
    at = call.values.get("dim", 0) % (ndim + 1)
    for dim in range(ndim):
        yield Option((Shard(dim),) * len(call.leaves), Shard(dim + (dim >= at)))
    yield from _all_partial(call)


def _all_partial(call: Call) -> Iterator[Option]:
    for kind in _KINDS:
        same: tuple[Placement, ...] = (kind,) * len(call.leaves)
        yield Option(same, kind)


def _selected(call: Call) -> Iterator[Option]:
    """Propose options of index_select and its like: `dim` is not sharded, and the index is replicated."""
    values: Any = call.values["self"]
    if not isinstance(values, Leaf):
        return
    for dim in range(values.ndim):
        if dim != call.values["dim"] % values.ndim:
            yield Option(call.where({values.index: Shard(dim)}), Shard(dim))


def _moving(dims: Callable[[Call, Leaf], Sequence[int | None]]) -> Rule:
    return partial(moves, dims)


view_rules: dict[str, Rule] = {
    "t": _moving(_transposed),
    "transpose": _moving(_transposed),
    "permute": _moving(_permuted),
    "unsqueeze": _moving(_unsqueezed),
    "squeeze": _moving(_squeezed),
    "expand": _moving(_expanded),
    "select": _moving(_without_dim),
    "unbind": _moving(_without_dim),
    "select_backward": _moving(_with_dim),
    **dict.fromkeys("slice slice_backward split split_with_sizes split_with_sizes_copy".split(), _moving(_but_dim)),
    **dict.fromkeys("view _unsafe_view _reshape_alias reshape".split(), _moving(_viewed)),
    **dict.fromkeys("detach alias view_as view_as_real _conj".split(), _moving(_same)),
    "cat": _joined,
    "stack": _stacked,
    "index_select": _selected,
}
