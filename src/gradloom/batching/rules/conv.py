"""Rules of convolutions: vmap's batch is folded into the images, or into groups of channels if weights differ."""

from __future__ import annotations

from typing import Any

from ...core.tensor import Tensor
from ...dispatch import _operators as ops
from ..call import Call
from ._loop import loop


def as_channels(tensor: Tensor) -> Tensor:
    """(B, N, C, ...) as (N, B * C, ...)."""
    return ops.flatten(ops.movedim(tensor, 0, 1), 1, 2)


def from_channels(tensor: Tensor, size: int) -> Tensor:
    """(N, B * C, ...) as (B, N, C, ...)."""
    return ops.movedim(ops.unflatten(tensor, 1, (size, tensor._array.shape[1] // size if size else 0)), 1, 0)


def convolution(call: Call) -> Any:
    """Fold the batch into the images if the weight is shared; else give each batch element its own groups."""
    size = call.size
    x = call.physical("input")
    bias = call["bias"]
    separate = bias is not None and (call.is_batched("bias") or call.is_batched("weight"))
    changes: dict[str, Any] = {"bias": None} if separate else {}
    if not call.is_batched("weight"):
        count = x._array.shape[1]
        found = ops.unflatten(call.invoke({**changes, "input": ops.flatten(x, 0, 1)}), 0, (size, count))
    else:
        weight = ops.flatten(call.physical("weight"), 0, 1)
        found = call.invoke({**changes, "input": as_channels(x), "weight": weight, "groups": size * call["groups"]})
        found = from_channels(found, size)
    if separate:
        row = call.physical("bias")
        found = found + ops.reshape(row, (size, 1, row._array.shape[1], *(1,) * (found._array.ndim - 3)))
    return call.wrap(found)


def convolution_backward(call: Call) -> Any:
    """Compute the three gradients. That of the input folds the batch into the images if the weight is shared."""
    size, mask = call.size, tuple(call["output_mask"])
    grad, x = call.physical("grad_output"), call.physical("input")
    of_input = of_weight = of_bias = None
    if mask[0] and not call.is_batched("weight"):
        of_input = call.invoke(
            {
                "grad_output": ops.flatten(grad, 0, 1),
                "input": ops.flatten(x, 0, 1),
                "bias_sizes": None,
                "output_mask": (True, False, False),
            }
        )[0]
        of_input = ops.unflatten(of_input, 0, (size, x._array.shape[1]))
        mask = (False, mask[1], mask[2])
    if mask[2]:
        of_bias = ops.sum(grad, [d for d in range(1, grad._array.ndim) if d != 2])
    if mask[0] or mask[1]:
        weight = call.physical("weight")
        found = call.invoke(
            {
                "grad_output": as_channels(grad),
                "input": as_channels(x),
                "weight": ops.flatten(weight, 0, 1),
                "groups": size * call["groups"],
                "bias_sizes": None,
                "output_mask": (mask[0], mask[1], False),
            }
        )
        if mask[0]:
            of_input = from_channels(found[0], size)
        if mask[1]:
            of_weight = ops.unflatten(found[1], 0, (size, weight._array.shape[1]))
    return call.wrap((of_input, of_weight, of_bias))


def conv_tbc(call: Call) -> Any:
    """Fold the batch into that of (time, batch, channels), if weight and bias are shared."""
    if call.is_batched("weight") or call.is_batched("bias"):
        return loop(call)
    x = call.physical("self")
    found = call.invoke({"self": ops.flatten(ops.movedim(x, 0, 1), 1, 2)})
    return call.wrap(ops.movedim(ops.unflatten(found, 1, (call.size, x._array.shape[2])), 1, 0))
