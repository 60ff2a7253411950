"""Calls of functions that PyTorch writes in Python, with the arguments that its tracer records for them.

PyTorch hands handlers of such a function the required arguments by position and the others by name, defaults included;
gradloom passes on what the caller passed. Some are calls of other functions there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from inspect import Parameter, Signature, signature
from typing import Any, NamedTuple

from ._names import qualified_name

_BY_DEFAULTS = ("torch.nn.functional", "torch.functional")
# Parameters that PyTorch does not record.
_LEFT_OUT = {"torch.nn.functional.l1_loss": ("weight",), "torch.functional.chain_matmul": ("out",)}
# The last parameter of functions whose signature here does not say that PyTorch records it by name: its position, name
# and default.
_BY_NAME = {"torch.functional.split": (2, "dim", 0), "torch.functional.unravel_index": (1, "shape", None)}
_AS_METHODS = ("torch.nn.functional.tanh", "torch.nn.functional.sigmoid")


class Recorded(NamedTuple):
    """A call as PyTorch's tracer records it.

    Attributes:
        kind: "call_function" or "call_method".
        target: function, or name of the method.
        name: stem of the node's name.
        args, kwargs: arguments.
    """

    kind: str
    target: Any
    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def as_in_pytorch(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Recorded:
    """Return a call of a public function in the form in which PyTorch records it."""
    name = qualified_name(function) if hasattr(function, "__code__") else ""
    if name in _AS_METHODS:
        return Recorded("call_method", function.__name__, function.__name__, args, kwargs)
    if name.startswith("torch.nn.functional.upsample"):
        return _as_interpolate(function.__name__, args, kwargs)
    if name in _BY_NAME:
        position, option, default = _BY_NAME[name]
        value = args[position] if len(args) > position else kwargs.get(option, default)
        return Recorded("call_function", function, function.__name__, args[:position], {**kwargs, option: value})
    if name.startswith(_BY_DEFAULTS):
        found = _signature(function)
        if found is not None:
            args, kwargs = _with_defaults(found, args, kwargs)
            for left_out in _LEFT_OUT.get(name, ()):
                kwargs.pop(left_out, None)
            if kwargs.get("return_indices") is True:
                function = getattr(
                    import_module("gradloom.nn.functional"), f"{function.__name__}_with_indices", function
                )
    return Recorded("call_function", function, function.__name__, args, kwargs)


@lru_cache(maxsize=512)
def _signature(function: Callable[..., Any]) -> Signature | None:
    try:
        return signature(function)
    except (TypeError, ValueError):
        return None


def _with_defaults(found: Signature, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return required arguments by position, and all others by name."""
    bound = found.bind(*args, **kwargs)
    bound.apply_defaults()
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for parameter in found.parameters.values():
        value = bound.arguments[parameter.name]
        if parameter.kind is Parameter.VAR_POSITIONAL:
            positional.extend(value)
        elif parameter.kind is Parameter.VAR_KEYWORD:
            named.update(value)
        elif parameter.default is Parameter.empty and parameter.kind is not Parameter.KEYWORD_ONLY:
            positional.append(value)
        else:
            named[parameter.name] = value
    return tuple(positional), named


def _as_interpolate(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Recorded:
    """Return the call of `interpolate` that a deprecated function of upsampling is."""
    functional = import_module("gradloom.nn.functional")
    options: dict[str, Any] = {}
    if name != "upsample":
        options = {"mode": name.removeprefix("upsample_")}
        if name == "upsample_bilinear":
            options["align_corners"] = True
    return as_in_pytorch(functional.interpolate, args, {**kwargs, **options})
