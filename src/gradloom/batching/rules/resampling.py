"""Rules of resampling: vmap's batch is folded into the batch of images."""

from __future__ import annotations

from typing import Any

from ...dispatch import _operators as ops
from ..call import Call


def upsample_backward(call: Call) -> Any:
    """Fold the batch, also in the size of the input, which is an argument."""
    grad = call.physical("grad_output")
    count = grad._array.shape[1]
    size = tuple(call["input_size"])
    if size[:1] != (count,):
        call.invoke({"grad_output": ops.select_int(grad, 0, 0)})  # raises
    found = call.invoke({"grad_output": ops.flatten(grad, 0, 1), "input_size": (call.size * count, *size[1:])})
    return call.wrap(ops.unflatten(found, 0, (call.size, count)))


def affine_grid(call: Call) -> Any:
    """Fold the batch, also in the size of the output, which is an argument."""
    theta = call.physical("theta")
    size = tuple(call["size"])
    if call.rank("theta") != 3 or size[:1] != (theta._array.shape[1],):
        call.invoke({"theta": ops.select_int(theta, 0, 0)})  # raises
    found = call.invoke({"theta": ops.flatten(theta, 0, 1), "size": (call.size * size[0], *size[1:])})
    return call.wrap(ops.unflatten(found, 0, (call.size, size[0])))
