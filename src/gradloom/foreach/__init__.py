"""Functions of lists of tensors: each applies the operator of its name at every position of its lists.

`foreach.add(tensors, others)` returns a tuple of results; `foreach.add_(tensors, others)` writes to the tensors and
returns the list itself. Lists must not be empty and must have the same length.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Any

from ..ops.lists import LISTS, function
from ..schema import parameters, parse

_RENAMED = {"scalar": "other", "tensors1": "end", "weights": "weight"}


def _signature(name: str) -> Signature:
    """Return the parameters of a function: those with defaults by name only."""
    family = name.removesuffix("_")
    records = [r for r in LISTS.of_operator(f"_foreach_{name}") if not r.is_out]
    overloads = [[p for p in parameters(parse(r.schema).arguments)[1:] if p != "*"] for r in records]
    chosen = next((ps for ps in overloads if any(len(p) == 3 for p in ps)), overloads[0])
    found = [Parameter("input" if name == "pow" else "inputs", Parameter.POSITIONAL_ONLY)]
    for word, _, *default in chosen:
        if default:
            found.append(Parameter(word, Parameter.KEYWORD_ONLY, default=default[0]))
        else:
            word = family.removeprefix("clamp_") if family.startswith("clamp_") else _RENAMED.get(word, word)
            found.append(Parameter(word, Parameter.POSITIONAL_ONLY))
    return Signature(found)


def _function(name: str, operator: Callable[..., Any]) -> Callable[..., Any]:
    signature = _signature(name)

    def call(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        if "value" in bound.kwargs:  # a number, a list or a tensor of numbers
            return operator(*bound.args, bound.kwargs["value"])
        return operator(*bound.args, **bound.kwargs)

    call.__name__ = call.__qualname__ = name
    call.__signature__ = signature  # type: ignore[attr-defined]
    call.__doc__ = f"Apply `gradloom.{name}` at each position of the lists."
    return call


_FUNCTIONS = {
    name: _function(name, operator)
    for word in LISTS.operators
    if word.startswith("_foreach_") and (operator := function(word)) is not None
    if (name := word.removeprefix("_foreach_")) != "powsum"
}
__all__ = sorted(_FUNCTIONS)  # noqa: PLE0605
globals().update(_FUNCTIONS)
