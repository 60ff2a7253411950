"""Rules of recurrent layers: vmap's batch is folded into the batch if the weights are shared."""

from __future__ import annotations

from typing import Any

from ...dispatch import _operators as ops
from ..call import Call
from ._loop import loop

_WEIGHTS = ("weight0", "weight1", "weight2", "weight3")


def rnn_layer(call: Call) -> Any:
    """Fold the batch into that of the sequences; loop over weights that differ, and over packed sequences."""
    if call["batch_sizes"] or any(call.is_batched(name) for name in _WEIGHTS):
        return loop(call)
    x = call.physical("input")
    size, steps, batch = call.size, x._array.shape[1], x._array.shape[2]
    changes = {name: ops.flatten(call.physical(name), 0, 1) for name in ("hx_", "cx_")}
    changes["input"] = ops.flatten(ops.movedim(x, 0, 1), 1, 2)
    out, h, c, space = call.invoke(changes)
    out = ops.movedim(ops.unflatten(out, 1, (size, batch)), 1, 0)
    h = ops.unflatten(h, 0, (size, batch))
    c = ops.unflatten(c, 0, (size, batch)) if c.numel() else ops.expand(c, (size, 0))
    if space.numel():
        space = ops.movedim(ops.reshape(space, (steps, size, batch, -1)), 1, 0)
        space = ops.reshape(space, (size, steps * batch, -1))
    else:
        space = ops.expand(space, (size, *space.shape))
    return call.wrap((out, h, c, space))
