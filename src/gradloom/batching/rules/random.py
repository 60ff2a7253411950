"""Random operators within vmap, by vmap's `randomness`."""

from __future__ import annotations

from typing import Any

from ...core.tensor import Tensor
from ...dispatch import _operators as ops
from ..call import Call
from ..tensor import physical_at
from ._loop import loop

SAME_OF_BATCH = (
    "Vmap does not currently support same randomness with a batched tensor input: each batch element asks for "
    "numbers of a different distribution. Use randomness='different'."
)


def random(call: Call) -> Any:
    """Batch a random operator. The rule's argument is the parameter with the size of the result, `like` for operators
    that take a tensor's shape, or nothing if the inputs are parameters of the distribution.

    Raises RuntimeError for randomness='error', and if 'same' or 'different' is impossible.
    """
    mode = call.level.randomness
    if mode == "error":
        raise RuntimeError(
            "vmap: called random operation while in randomness error mode. Please either use the 'same' "
            "or 'different' randomness flags on vmap or perform the randomness operation out of vmap"
        )
    how = call.arguments[0] if call.arguments else ""
    if call.operator.is_inplace:
        return _in_place(call, mode)
    if how == "like":
        return _like(call, mode)
    if how:
        if mode == "same":
            return call.invoke()
        return call.wrap(call.invoke({how: (call.size, *call[how])}))
    return _drawn(call, mode)


def _in_place(call: Call, mode: str) -> Any:
    target: Tensor = call.values[call.first]
    if mode == "different":
        if not call.is_batched(call.first):
            raise RuntimeError(
                "vmap: Cannot ask for different inplace randomness on an unbatched tensor. This will "
                "appear like same randomness: make the tensor within the function, as "
                "`x.new_empty(...)` does."
            )
        call.invoke({n: _right(call, n, target._array.ndim) for n in call.tensors})
        return target
    if any(call.is_batched(n) for n in call.tensors[1:]):
        raise RuntimeError(SAME_OF_BATCH)
    if not call.is_batched(call.first):
        call.invoke()
        return target
    drawn = ops.empty_like(ops.select_int(call.bare(call.first), 0, 0))
    ops.copy_(call.bare(call.first), call.invoke({call.first: drawn}))
    return target


def _right(call: Call, name: str, rank: int) -> Tensor:
    from .general import padded

    return padded(call.bare(name), rank) if call.is_batched(name) else call.values[name]


def _like(call: Call, mode: str) -> Any:
    if mode == "different":
        return call.wrap(call.invoke({n: call.physical(n) for n in call.tensors}))
    if any(call.is_batched(n) for n in call.tensors[1:]):
        raise RuntimeError(SAME_OF_BATCH)
    name = call.first
    return call.invoke({name: ops.select_int(call.bare(name), 0, 0)} if call.is_batched(name) else None)


def _drawn(call: Call, mode: str) -> Any:
    """Batch operators whose inputs are parameters of the distribution: bernoulli, normal, multinomial, dropout ..."""
    tensors = call.tensors
    if mode == "same":
        if any(call.is_batched(n) for n in tensors):
            raise RuntimeError(SAME_OF_BATCH)
        return call.invoke()
    if not tensors:  # draw once per batch element: no argument can hold the batch
        drawn = [call.invoke() for _ in range(call.size)]
        return call.wrap(ops.stack(tuple(drawn), 0))
    if call.operator.name.partition(".")[0] in _OF_ROWS:
        return _of_rows(call)
    call.values.update(call.promoted())
    rank = max([call.rank(n) for n in tensors])
    from .general import padded

    return call.wrap(call.invoke({n: padded(physical_at(call.values[n], call.level), rank) for n in tensors}))


_OF_ROWS = ("multinomial",)


def _of_rows(call: Call) -> Any:
    physical = call.physical(call.first)
    rank = call.rank(call.first)
    if rank == 1:
        return call.wrap(call.invoke({call.first: physical}))
    if rank != 2:
        return loop(call)
    found = call.invoke({call.first: ops.flatten(physical, 0, 1)})
    return call.wrap(ops.unflatten(found, 0, (call.size, physical._array.shape[1])))
