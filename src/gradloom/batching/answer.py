"""From an operator's call to its batching rule. See Note [Batching]."""

from __future__ import annotations

import warnings
from typing import Any

from ..core.tensor import Tensor
from ..dispatch import _operators as ops
from ..dispatch.interception import Call as Intercepted
from ..dispatch.state import state
from .call import Call, Operator, Parameter, is_inplace, operator_of
from .levels import Level, below
from .tensor import BatchedTensor, physical_at

_warned: set[str] = set()  # names of operators, of which there are finitely many


def innermost(values: Any, found: Level | None = None) -> Level | None:
    """The innermost level among values, and those in lists; `found` if that is further inside."""
    for value in values:
        cls = value.__class__
        if cls is BatchedTensor:
            if found is None or found.number < value._batch.number:
                found = value._batch
        elif cls is tuple or cls is list:
            found = innermost(value, found)
    return found


def answer(intercepted: Intercepted) -> Any:
    """What a call of an operator means within vmap.

    Args:
        intercepted: the call.

    Returns:
        Its result, or NotImplemented if no argument is batched and vmap has nothing to say.

    Raises:
        RuntimeError: for what cannot be done for a batch.
    """
    wrapper, args = intercepted.wrapper, intercepted.args
    level = innermost(args)
    if intercepted.out is not None:
        level = innermost((intercepted.out,), level)
    operator = operator_of(wrapper)
    if level is None:
        if operator is None or operator.rule != "random" or not state.batching:
            return NotImplemented
        level = state.batching[-1]
    elif not level.alive:
        raise RuntimeError(
            "vmap: a tensor is used after the vmap that it belongs to has returned. Return it from the "
            "function that is mapped, instead of keeping it in a variable outside."
        )
    if intercepted.out is not None:
        raise RuntimeError(
            f"vmap: {wrapper.__name__} with out= has no batching rule: take the result that it returns, without out="
        )
    if operator is None:
        if intercepted.composite is not None:
            return NotImplemented
        if getattr(wrapper, "vmap_rule", None) is not None and innermost([a for a in args if isinstance(a, Tensor)]):
            from .functions import by_rule_of_library

            return by_rule_of_library(wrapper, args, level)
        operator = _unknown(wrapper, args)
    if operator.rule == "composite":
        return NotImplemented  # what it is made of is intercepted in its turn
    if operator.rule == "random" and state.batching and level < state.batching[-1]:
        level = state.batching[-1]
    from .rules import RULES

    with below(level):
        return RULES[operator.rule](Call(wrapper, operator, args, level))


def _unknown(wrapper: Any, args: tuple[Any, ...]) -> Operator:
    """An operator that no table has: it is called for each example."""

    def kind(value: Any) -> str:
        if isinstance(value, Tensor):
            return "Tensor"
        is_list = isinstance(value, (tuple, list)) and any(isinstance(v, Tensor) for v in value)
        return "Tensor?[]" if is_list else ""

    parameters = tuple([Parameter(str(i), kind(value)) for i, value in enumerate(args)])
    return Operator(wrapper.__name__, "loop", (), parameters, (), is_inplace(wrapper.__name__))


def loop(call: Call) -> Any:
    """Call the operator for one example after the other and stack the results."""
    name, level = call.operator.name, call.level
    if call.operator.writes and not call.is_batched(call.first):
        raise RuntimeError(unbatched_write(name))
    if name not in _warned:
        _warned.add(name)
        warnings.warn(
            "There is a performance drop because we have not yet implemented the batching rule for "
            f"{name}: within vmap it is called for one example after the other.",
            stacklevel=5,
        )
    if not level.size:
        raise RuntimeError(
            f"vmap: {name} has no batching rule, so that its result for a batch of no examples has no shape"
        )
    results = [call.invoke(_example(call, i)) for i in range(level.size)]
    if call.operator.writes:
        return call.values[call.first]
    return _stacked(call, results)


def _example(call: Call, i: int) -> dict[str, Any]:
    """The arguments of example `i`, of those that are batched."""

    def pick(value: Any) -> Any:
        if value.__class__ is BatchedTensor and innermost((value,)) is call.level:
            return ops.select_int(value._physical, 0, i)
        return value

    changes: dict[str, Any] = {}
    for p in call.operator.parameters:
        value = call[p.name]
        if p.kind.endswith("[]") and value is not None:
            changes[p.name] = type(value)([pick(v) for v in value])
        elif p.kind and value is not None:
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
        "tensor, of which every example has others"
    )


def unbatched_write(name: str) -> str:
    """The message for a write of batched values into a tensor that all examples share."""
    return (
        f"vmap: {name}(self, *extra_args) is not possible because there exists a Tensor `other` in extra_args that "
        "has more elements than `self`. This happened due to `other` being vmapped over but `self` not being "
        f"vmapped over in a vmap. Please use out-of-place operators instead of {name}, or make `self` within the "
        "function from one that is mapped, as `x.new_zeros(...)` or `zeros_like(x)` do."
    )


def shares(values: Any, level: Level) -> list:
    """Physical tensors of a list, expanded where an element is not batched."""
    return [None if v is None else physical_at(v, level) for v in values]
