"""Sharding rules of operators that only move elements: views, and joining tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

from ....dispatch.records import ArgumentName, record_of
from .._call import Call, Leaf, Option, dims_of
from ..placement_types import Partial, Placement, Shard, _StridedShard

_KINDS = tuple(Partial(kind) for kind in ("sum", "avg", "product", "max", "min"))


def _moves(call: Call, places: Sequence[int | None]) -> Iterator[Option]:
    """Propose options of a view, from where its result has each dimension of the argument (None: nowhere)."""
    leaf = call.leaves[0]
    for dim, new in enumerate(places):
        if new is not None:
            yield Option((Shard(dim),), Shard(new), takes_empty=True)
    current = call.current(leaf)
    if isinstance(current, _StridedShard) and (new := places[current.dim]) is not None:
        if leaf.shape[current.dim] == call.outs[0].shape[new]:
            yield Option((current,), replace(current, dim=new), takes_empty=True)
    for kind in _KINDS:
        yield Option((kind,), kind)


def _in_own_shape(specs: Any, outs: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """Give a part the shape of this process's part of the result, whatever the arguments say of the whole."""
    own, record = outs[0].local_shape(), record_of(func._row.function)
    found = args[0].view(own) if args[0].is_contiguous() else args[0].reshape(own)
    return found.clone() if record is not None and record.shape[:1] == ("large.copy",) else found


def _of_own_size(argument: str, specs: Any, outs: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """Call the operator with the size of this process's part of the result in place of that of the whole."""
    place = [one.name for one in func._schema.arguments].index(argument)
    return func(*args[:place], list(outs[0].local_shape()), *args[place + 1 :], **kwargs)


# --- views ------------------------------------------------------------------------------------------------------------


def kept(call: Call) -> Iterator[Option]:
    """Propose options of a view with the dimensions of its argument."""
    yield from _moves(call, range(call.leaves[0].ndim))


def transposed(call: Call) -> Iterator[Option]:
    ndim = call.leaves[0].ndim
    found: list[int | None] = list(range(ndim))
    if "dim0" not in call.values:  # t
        found.reverse()
    elif found:
        one, other = (call.values[name] % ndim for name in ("dim0", "dim1"))
        found[one], found[other] = found[other], found[one]
    yield from _moves(call, found)


def permuted(call: Call) -> Iterator[Option]:
    ndim = call.leaves[0].ndim
    order = [dim % ndim for dim in call.values["dims"]]
    yield from _moves(call, [order.index(dim) for dim in range(ndim)])


def inserted(call: Call, sizes: ArgumentName | None = None) -> Iterator[Option]:
    """Propose options of a view with a new dimension `dim`, of the size in an argument if one is named."""
    ndim = call.leaves[0].ndim
    new = call.values["dim"] % (ndim + 1)
    if sizes is not None:
        call.local = partial(_of_own_size, sizes)
    yield from _moves(call, [dim + (dim >= new) for dim in range(ndim)])


def squeezed(call: Call) -> Iterator[Option]:
    leaf = call.leaves[0]
    asked = dims_of(call.values.get("dim"), leaf.ndim)
    gone = [dim for dim in asked if dim < leaf.ndim and leaf.shape[dim] == 1]
    call.local = _in_own_shape
    yield from _moves(call, [None if dim in gone else dim - sum(one < dim for one in gone) for dim in range(leaf.ndim)])


def expanded(call: Call, sizes: ArgumentName) -> Iterator[Option]:
    leaf, new = call.leaves[0], call.outs[0].shape
    shift = len(new) - leaf.ndim
    call.local = partial(_of_own_size, sizes)
    yield from _moves(call, [dim + shift if leaf.shape[dim] == new[dim + shift] else None for dim in range(leaf.ndim)])


def selected(call: Call) -> Iterator[Option]:
    """Propose options of a view without `dim`: select and unbind."""
    ndim = call.leaves[0].ndim
    gone = call.values.get("dim", 0) % ndim
    yield from _moves(call, [None if dim == gone else dim - (dim > gone) for dim in range(ndim)])


def cut(call: Call, sizes: ArgumentName | None = None) -> Iterator[Option]:
    """Propose options of a view of a part of `dim`, of which nothing may be sharded; of the size in an argument if one
    is named."""
    ndim = call.leaves[0].ndim
    at = call.values.get("dim", 0) % ndim
    if sizes is not None:
        call.local = partial(_of_own_size, sizes)
    yield from _moves(call, [None if dim == at else dim for dim in range(ndim)])


def sliced(call: Call) -> Iterator[Option]:
    """Propose the same, and to shard `dim` if the slice is whole."""
    is_whole = call.outs[0].shape == call.leaves[0].shape and call.values.get("step", 1) == 1
    yield from kept(call) if is_whole else cut(call)


def retyped(call: Call) -> Iterator[Option]:
    """Propose options of a view with another dtype, in which the last dimension may have another size."""
    leaf, new = call.leaves[0], call.outs[0].shape
    for dim in range(leaf.ndim):
        if leaf.shape[dim] == new[dim]:  # of a sum, the bits are no sum
            yield Option((Shard(dim),), Shard(dim), takes_empty=True)


def viewed(call: Call) -> Iterator[Option]:
    """Propose options of a view of another shape, if the elements of a part are a part of the view.

    Dimensions whose sizes have the same product belong together. Of such a group, the first dimension can be sharded,
    and is the first of the new group then, if both are divided evenly.
    """
    leaf = call.leaves[0]
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
    call.local = _in_own_shape
    yield from _moves(call, found)


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


# --- several tensors -------------------------------------------------------------------------------------------------


def joined(call: Call) -> Iterator[Option]:
    """Propose options of cat: any dimension but the one along which the tensors are joined."""
    ndim = max(leaf.ndim for leaf in call.leaves)
    at = call.values.get("dim", 0) % ndim
    if any(leaf.ndim != ndim for leaf in call.leaves):
        return
    for dim in range(ndim):
        if dim != at:
            yield Option((Shard(dim),) * len(call.leaves), Shard(dim))
    yield from _all_partial(call)


def stacked(call: Call) -> Iterator[Option]:
    ndim = call.leaves[0].ndim
    at = call.values.get("dim", 0) % (ndim + 1)
    for dim in range(ndim):
        yield Option((Shard(dim),) * len(call.leaves), Shard(dim + (dim >= at)))
    yield from _all_partial(call)


def _all_partial(call: Call) -> Iterator[Option]:
    for kind in _KINDS:
        same: tuple[Placement, ...] = (kind,) * len(call.leaves)
        yield Option(same, kind)


def index_select(call: Call) -> Iterator[Option]:
    """Propose options of index_select and its like: `dim` is not sharded, and the index is replicated."""
    values: Any = call.values["self"]
    if not isinstance(values, Leaf):
        return
    for dim in range(values.ndim):
        if dim != call.values["dim"] % values.ndim:
            yield Option(call.where({values.index: Shard(dim)}), Shard(dim))
