"""The rule of last resort: one batch element after the other."""

from __future__ import annotations

import warnings
from typing import Any

from ...core.tensor import Tensor
from ...dispatch import _operators as ops
from ..call import Call
from ..levels import Level
from ..tensor import BatchedTensor, innermost, physical_at

_warned: set[str] = set()  # names of operators; bounded by their number


def loop(call: Call) -> Any:
    """Call the operator once per batch element and stack the results."""
    name, level = call.operator.name, call.level
    if call.operator.is_inplace and not call.is_batched(call.first):
        raise RuntimeError(unbatched_write(name))
    if name not in _warned:
        _warned.add(name)
        warnings.warn(
            "There is a performance drop because we have not yet implemented the batching rule for "
            f"{name}: within vmap it is called once per batch element.",
            stacklevel=5,
        )
    if not level.size:
        raise RuntimeError(
            f"vmap: {name} has no batching rule, so the shape of its result for an empty batch is unknown"
        )
    results = [call.invoke(_element(call, i)) for i in range(level.size)]
    if call.operator.is_inplace:
        return call.values[call.first]
    return _stacked(call, results)


def _element(call: Call, i: int) -> dict[str, Any]:
    """Return the batched arguments of batch element `i`."""

    def pick(value: Any) -> Any:
        if value.__class__ is BatchedTensor and innermost((value,)) is call.level:
            return ops.select_int(value._physical, 0, i)
        return value

    changes: dict[str, Any] = {}
    for p in call.operator.arguments:
        value = call[p.name]
        if p.tensors.endswith("[]") and value is not None:
            changes[p.name] = type(value)([pick(v) for v in value])
        elif p.tensors and value is not None:
            changes[p.name] = pick(value)
    return changes


def _stacked(call: Call, results: list) -> Any:
    first = results[0]
    if isinstance(first, Tensor):
        return call.wrap(ops.stack(tuple(results), 0))
    if isinstance(first, (tuple, list)):
        cls = first.__class__
        parts = [_stacked(call, [r[i] for r in results]) for i in range(len(first))]
        return cls(parts) if cls is list or cls is tuple else cls(tuple(parts))
    if first is None:
        return None
    raise RuntimeError(
        f"vmap: {call.operator.name} gives a {type(first).__name__} that depends on the values of a "
        "tensor, which differ between the batch elements"
    )


def unbatched_write(name: str) -> str:
    """Return the message for a write of batched values into a tensor that all batch elements share."""
    return (
        f"vmap: {name}(self, *extra_args) is not possible because there exists a Tensor `other` in extra_args that "
        "has more elements than `self`. This happened due to `other` being vmapped over but `self` not being "
        f"vmapped over in a vmap. Please use out-of-place operators instead of {name}, or make `self` within the "
        "function from one that is mapped, as `x.new_zeros(...)` or `zeros_like(x)` do."
    )


def shares(values: Any, level: Level) -> list:
    """Return the physical tensors of a list, expanded if a tensor is not batched."""
    return [None if v is None else physical_at(v, level) for v in values]
