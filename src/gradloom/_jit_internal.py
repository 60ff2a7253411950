"""Decorators and types of TorchScript, which programs import from PyTorch's private module of this name.

They change nothing: programs run as Python.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Dict, Final, List, Optional, Tuple, Union  # noqa: UP035  (programs import these names from here)

from .futures import Future
from .jit import (
    BroadcastingList1,
    BroadcastingList2,
    BroadcastingList3,
    _overload,
    _overload_method,
    export,
    ignore,
    is_scripting,
    unused,
)

__all__ = [
    "BroadcastingList1",
    "BroadcastingList2",
    "BroadcastingList3",
    "Dict",
    "Final",
    "Future",
    "List",
    "Optional",
    "Tuple",
    "Union",
    "_copy_to_script_wrapper",
    "_overload",
    "_overload_method",
    "boolean_dispatch",
    "export",
    "ignore",
    "is_scripting",
    "unused",
]


def _copy_to_script_wrapper(fn: Any) -> Any:
    """Return `fn` unchanged."""
    return fn


def boolean_dispatch(
    arg_name: str,
    arg_index: int,
    default: bool,
    if_true: Callable[..., Any],
    if_false: Callable[..., Any],
    module_name: str,
    func_name: str,
) -> Callable[..., Any]:
    """Return a function that calls one of two, by a Boolean argument.

    Args:
        arg_name, arg_index, default: name, position and default of the argument.
        if_true, if_false: the functions.
        module_name, func_name: module and name of the result.
    """

    def fn(*args: Any, **kwargs: Any) -> Any:
        chosen = kwargs[arg_name] if arg_name in kwargs else args[arg_index] if arg_index < len(args) else default
        return (if_true if chosen else if_false)(*args, **kwargs)

    fn.__doc__ = next((f.__doc__ for f in (if_true, if_false) if f.__doc__), None)
    fn.__module__, fn.__name__ = module_name or fn.__module__, func_name or fn.__name__
    return fn
