"""Rules of pooling."""

from __future__ import annotations

from typing import Any

from ...dispatch import _operators as ops
from ..call import Call
from ._loop import loop


def fractional(call: Call) -> Any:
    """Fold the batch of fractional max pooling. The random samples are (N, C, dimensions) also for a single item
    (C, *sizes), which takes the first of them."""
    x, samples = call.physical("self"), call.physical("random_samples")
    outer = call.rank("self") - len(call["kernel_size"]) - 1
    count = x._array.shape[1] if outer == 1 else 1
    if outer not in (0, 1) or call.rank("random_samples") != 3 or samples._array.shape[1] < count:
        return loop(call)  # raises
    samples = ops.flatten(ops.narrow(samples, 1, 0, count), 0, 1)
    found = call.invoke({"self": ops.flatten(x, 0, 1) if outer else x, "random_samples": samples})
    return call.wrap(tuple([ops.unflatten(t, 0, (call.size, count)) for t in found]) if outer else found)
