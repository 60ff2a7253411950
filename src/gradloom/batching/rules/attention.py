"""Rules of the fused attention: vmap's batch is folded into the batch."""

from __future__ import annotations

from typing import Any

from ...core.tensor import Tensor
from ...dispatch import _operators as ops
from ..call import Call


def _folded(tensor: Tensor) -> Tensor:
    return ops.flatten(tensor, 0, 1)


def flash_attention(call: Call) -> Any:
    """Fold all tensors; a mask that is the same for all elements needs no fold if it has no batch dimension."""
    changes = {name: _folded(call.physical(name)) for name in call.tensors if name != "attn_mask"}
    if call["attn_mask"] is not None:
        if call.is_batched("attn_mask") or call["attn_mask"].dim() == 4:
            mask = call.physical("attn_mask")
            if mask.dim() == 3:
                mask = ops.reshape(mask, (call.size, 1, 1, *mask.shape[1:]))
            batch = call["query"].size(0)
            mask = ops.expand(mask, (call.size, batch, *mask.shape[2:]))
            changes["attn_mask"] = _folded(mask)
    found = call.invoke(changes)
    cls = type(found)
    parts = [ops.unflatten(t, 0, (call.size, t._array.shape[0] // max(call.size, 1))) for t in found]
    return call.wrap(cls(tuple(parts)))
