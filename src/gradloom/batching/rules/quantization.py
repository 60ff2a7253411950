"""Rules of fake quantization. Scales and zero points that are not batched apply to all batch elements at once."""

from __future__ import annotations

from typing import Any

from ..call import Call
from ._loop import loop

_PARAMETERS = ("scale", "zero_point")


def per_tensor(call: Call) -> Any:
    """Quantize the whole batch by one scale and zero point."""
    if any(call.is_batched(name) for name in (*_PARAMETERS, "fake_quant_enabled") if name in call.values):
        return loop(call)
    return call.wrap(call.invoke({"self": call.physical("self")}))


def per_channel(call: Call) -> Any:
    """Quantize the whole batch; in it the channels are one dimension further to the right."""
    if any(call.is_batched(name) for name in _PARAMETERS):
        return loop(call)
    axis = call["axis"]
    return call.wrap(call.invoke({"self": call.physical("self"), "axis": axis + 1 if axis >= 0 else axis}))
