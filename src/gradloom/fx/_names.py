"""Names of functions, classes and objects as generated code and printed graphs show them: PyTorch's.

A function of gradloom lives in one module and is known by another name: `gradloom.nn._functional.pool.max_pool2d` is
`torch.nn.functional.max_pool2d`. Generated code runs with `torch` bound to gradloom.
"""

from __future__ import annotations

import builtins
import inspect
import re
from importlib import import_module
from types import FunctionType, GenericAlias
from typing import Any

_ROOT = __name__.partition(".")[0]

# Functions of the main namespace that PyTorch defines in torch.functional, besides those of gradloom.functional.
_TORCH_FUNCTIONAL = frozenset(("align_tensors", "lu", "split", "stft", "unravel_index"))
_names: dict[Any, str] = {}  # function -> name; filled by the first look-up, and bounded by the number of operators


def public_module(module: str) -> str:
    """Return the name of PyTorch's module for one of gradloom's; other names unchanged."""
    if module == _ROOT or module.startswith(f"{_ROOT}."):
        module = "torch" + module.removeprefix(_ROOT)
    return module.replace("torch._ops", "torch.ops")


def is_from_torch(obj: Any) -> bool:
    """Return whether generated code reaches an object through `torch`, so that it needs no global of its own."""
    module = getattr(obj, "__module__", None)
    if module is not None:
        return public_module(module).partition(".")[0] == "torch"
    top = import_module(_ROOT)
    name = getattr(obj, "__name__", None)
    return name not in (None, "torch", _ROOT) and getattr(top, name, None) is obj


def _named_functions() -> dict[Any, str]:
    """Return the names of all of gradloom's functions, the best known one for each."""
    public = import_module(f"{_ROOT}.python_dispatch.torch_function.public")
    spaces = import_module(f"{_ROOT}.generated.namespaces").MODULES
    operators = import_module(f"{_ROOT}.dispatch._operators")
    found: dict[Any, str] = {}
    for space, members in spaces.items():
        for operator in members.values():
            found.setdefault(getattr(operators, operator), f"torch._C._{space}.{operator}")
    for item in public.names():
        place, _, name = item.name.rpartition(".")
        home = getattr(item.function, "__module__", "")
        if place == "torch" and (name in _TORCH_FUNCTIONAL or home == f"{_ROOT}.functional"):
            place = "torch.functional"
        if place == "torch.nn.functional" and home.startswith(f"{_ROOT}.nn"):
            found[item.function] = item.name  # written in Python in both libraries
        found.setdefault(item.function, f"{place}.{name}")
    return found


def qualified_name(function: Any) -> str:
    """Return the dotted name by which code refers to a function or class.

    Raises:
        RuntimeError: for a lambda whose source cannot be read.
    """
    name = function.__name__
    if getattr(builtins, name, None) is function:
        return name
    if isinstance(function, FunctionType) and is_from_torch(function):
        if not _names:
            _names.update(_named_functions())
        if function in _names:
            return _names[function]
    if name == "<lambda>":
        try:
            name = inspect.getsource(function).split("=")[0].strip()
        except Exception as error:
            raise RuntimeError("Unable to represent lambda") from error
    module = getattr(function, "__module__", None)
    if module is None:
        raise RuntimeError(f"cannot find module for {function}")
    return f"{public_module(module)}.{name}"


def type_name(obj: Any) -> str:
    """Return the name of a class, or the text of another annotation."""
    if isinstance(obj, type) and not isinstance(obj, GenericAlias):
        if obj.__module__ == "builtins":
            return obj.__qualname__
        return f"{public_module(obj.__module__)}.{obj.__qualname__}"
    if obj is ...:
        return "..."
    if isinstance(obj, FunctionType):
        return obj.__name__
    return repr(obj).replace(f"{_ROOT}.", "torch.")


def target_name(target: Any) -> str:
    """Return a node's target as graphs print it."""
    if isinstance(target, str):
        return target
    name, module = getattr(target, "__name__", None), getattr(target, "__module__", None)
    if name is not None and module == "builtins":
        return f"builtins.{name}"
    if name is not None and module == "_operator":
        return f"operator.{name}"
    return qualified_name(target)


def snake_case(name: str) -> str:
    """Return a name in lower case, with `_` before each capital that follows a small letter."""
    return re.sub(r"(?<=[a-z])([A-Z])", r"_\1", name).lower()
