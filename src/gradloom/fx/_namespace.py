"""Unique names of a graph's nodes and of the globals of its code, and the global functions that `wrap` names."""

from __future__ import annotations

import builtins
import inspect
import keyword
import math
import re
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

from ..types.device import device
from ..types.public import found_in
from ..utils import _pytree as pytree
from . import _pytree as fx_pytree

_ROOT = __name__.partition(".")[0]


class CustomBuiltin(NamedTuple):
    """A global that all generated code has.

    Attributes:
        import_str: the statement that imports it, for code in files.
        obj: the object.
    """

    import_str: str
    obj: Any


CUSTOM_BUILTINS: dict[str, CustomBuiltin] = {
    "inf": CustomBuiltin("from math import inf", math.inf),
    "nan": CustomBuiltin("from math import nan", math.nan),
    "NoneType": CustomBuiltin("NoneType = type(None)", type(None)),
    "torch": CustomBuiltin(f"import {_ROOT} as torch", import_module(_ROOT)),
    "device": CustomBuiltin(f"from {_ROOT} import device", device),
    "fx_pytree": CustomBuiltin(f"import {_ROOT}.fx._pytree as fx_pytree", fx_pytree),
    "pytree": CustomBuiltin(f"import {_ROOT}.utils._pytree as pytree", pytree),
}
_RESERVED: dict[str, Any] = {
    **{name: object() for name in keyword.kwlist},
    **vars(builtins),
    **{name: custom.obj for name, custom in CUSTOM_BUILTINS.items()},
}
_PARTS = re.compile(r"([a-zA-Z_]\w*?)(?:_(\d+))?", re.ASCII)


class Namespace:
    """Gives out names, each once: `add`, then `add_1`."""

    def __init__(self) -> None:
        self._names: dict[Any, str] = {}
        self._used: set[str] = set()
        self._counts: dict[str, int] = {}

    def create_name(self, candidate: str, obj: Any) -> str:
        """Return a new name that begins with `candidate`, or the name that `obj` has already; None has none.

        Names of builtins and keywords are given to those builtins only.
        """
        if obj is not None and obj in self._names:
            return self._names[obj]
        parts = _PARTS.fullmatch(candidate)
        if parts is None:
            candidate = re.sub(r"[^0-9a-zA-Z_]+", "_", candidate) or "_unnamed"
            candidate = f"_{candidate}" if candidate[0].isdigit() else candidate
            parts = _PARTS.fullmatch(candidate)
            assert parts is not None
        base, digits = parts.groups()
        if digits is not None and candidate not in self._used:
            number = int(digits)
        else:
            number = self._counts.get(base, 0)
            if _RESERVED.get(candidate, obj) is not obj:
                number += 1
                candidate = f"{base}_{number}"
        while candidate in self._used:
            number += 1
            candidate = f"{base}_{number}"
        self._used.add(candidate)
        self._counts[base] = number
        if obj is not None:
            self._names[obj] = candidate
        return candidate

    def associate_name_with_obj(self, name: str, obj: Any) -> None:
        """Note that an object has a name that was created without it."""
        self._names[obj] = name

    def rename(self, obj: Any, name: str) -> None:
        """Note an object's new name; the old one is not given out again."""
        self._names[obj] = name
        self._used.add(name)


_Wrapped = TypeVar("_Wrapped", str, Callable[..., Any])
# What `wrap` names: (id of the module's globals, name) -> the globals.
_wrapped_fns_to_patch: dict[tuple[int, str], dict[str, Any]] = {}


def wrap(fn_or_name: _Wrapped) -> _Wrapped:
    """Let calls of a global function with a Proxy be recorded as one node, rather than traced through.

    Call it at the top level of a module, with a function or its name there; `wrap("len")` works for builtins, too. As a
    decorator, it returns the function.

    Raises:
        RuntimeError: for anything but a function or a name.
        NotImplementedError: if it is not called at the top level of a module.
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError("Unsupported type for global function! Must be either a callable or string name")
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    frame = inspect.currentframe()
    caller = frame.f_back if frame is not None else None
    if caller is None or caller.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _wrapped_fns_to_patch[id(caller.f_globals), name] = caller.f_globals
    return fn_or_name


found_in(f"{_ROOT}.fx._symbolic_trace", wrap)
