"""Handling of intercepted calls within vmap: find the operator's batching rule and call it. See Note [Batching]."""

from __future__ import annotations

from typing import Any

from ..core.tensor import Tensor
from ..dispatch.interception import Call as Intercepted
from ..dispatch.records import Record, record_of
from ..dispatch.state import state
from .call import Call
from .levels import below
from .tensor import innermost


def handle_call(intercepted: Intercepted) -> Any:
    """Run an intercepted call by its batching rule; NotImplemented if nothing is batched and it is not random.

    Raises RuntimeError if the operator cannot be batched.
    """
    wrapper, args = intercepted.wrapper, intercepted.args
    level = innermost(args)
    if intercepted.out is not None:
        level = innermost((intercepted.out,), level)
    operator = record_of(wrapper)
    if level is None:
        if operator is None or operator.batch[:1] != ("random",) or not state.batching:
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
    if operator is None or not operator.batch:
        if intercepted.composite is not None:
            return NotImplemented
        if getattr(wrapper, "vmap_rule", None) is not None and innermost([a for a in args if isinstance(a, Tensor)]):
            from .functions import by_rule_of_library

            return by_rule_of_library(wrapper, args, level)
        operator = _unknown(wrapper, args)
    rule = operator.batch[0]
    if rule == "composite":
        return NotImplemented  # the operators that it calls are intercepted in turn
    if rule == "random" and state.batching and level < state.batching[-1]:
        level = state.batching[-1]
    from .rules import RULES

    with below(level):
        return RULES[rule](Call(wrapper, operator, args, level))


def _unknown(wrapper: Any, args: tuple[Any, ...]) -> Record:
    """Return a record for an operator that has none: it is called once per batch element."""

    def kind(value: Any) -> str:
        if isinstance(value, Tensor):
            return "Tensor"
        is_list = isinstance(value, (tuple, list)) and any(isinstance(v, Tensor) for v in value)
        return "Tensor?[]" if is_list else "Any"

    arguments = ", ".join([f"{kind(value)} argument{i}" for i, value in enumerate(args)])
    return Record(f"{wrapper.__name__}({arguments}) -> Any", "", wrapper.__name__, batch=("loop",))
