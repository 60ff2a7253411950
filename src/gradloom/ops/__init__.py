"""Operators by namespace, `gradloom.ops.<namespace>.<operator>`: built in, from packages and libraries, and defined at
run time.

    gradloom.ops.aten.add                           # a built-in operator, see Note [Operator objects]
    gradloom.ops.aten.add.Tensor(x, y, alpha=2)     # one overload of it; `_schema` is its schema

    import myops                                    # a package that `gradloom new myops` made
    gradloom.ops.myops.softabs(x)                   # its operator, also `x.softabs()` if its entry says method
    gradloom.ops.myops.softabs.default(x)           # one overload of it

    gradloom.ops.define(text)                       # YAML entries, in a notebook: gradloom.ops.user.softabs(x)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ._libraries import (
    library_of as library_of,
    load_library as load_library,
    loaded_libraries as loaded_libraries,
    refused_libraries as refused_libraries,
)
from ._objects import Namespace, OpOverload, OpOverloadPacket, namespace_of, namespaces
from ._registry import Registration, overload_of, register

if TYPE_CHECKING:
    from ..tools.define import Definition

__all__ = ["Namespace", "OpOverload", "OpOverloadPacket", "Registration", "define", "overload_of", "register"]


def define(
    text: str,
    derivatives: str | None = None,
    *,
    namespace: str = "user",
    kernels: Iterable[Callable[..., Any]] = (),
    helpers: Iterable[Callable[..., Any]] = (),
) -> Definition:
    """Define operators from YAML entries, for this process: `gradloom generate` without a file.

    Args:
        text: entries of native_functions.yaml (`- func: ...`) and of derivatives.yaml (`- name: ...`), in any order.
        derivatives: the entries of derivatives.yaml, if they are a separate text.
        namespace: the operators become `gradloom.ops.<namespace>.<name>`. An existing definition is replaced, with
            everything defined together with it, so that a notebook cell can be run again.
        kernels: functions of arrays, named by `kernel: python.<name>`.
        helpers: functions of tensors, made of differentiable operators, which formulas call by name.

    Returns:
        A handle: `remove()` undoes the definition, and `with define(...):` does so at the end of the block.

    Raises:
        gradloom.codegen.errors.SpecError: if the text has an error, with the line and a hint; nothing is defined.
        ValueError: if the namespace is not a name, or belongs to a package.
        TypeError: if the text is not a string, or a kernel or helper is not a named function.
        RuntimeError: if a method or function would replace another one.
    """
    from importlib import import_module

    found: Definition = import_module("gradloom.tools.define").define(
        text, derivatives, namespace=namespace, kernels=kernels, helpers=helpers
    )
    return found


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module 'gradloom.ops' has no attribute '{name}'")
    # As in PyTorch, a namespace exists before operators are registered in it.
    return namespace_of(name)


def __dir__() -> list[str]:
    return [*__all__, *namespaces, *(() if "aten" in namespaces else ("aten",))]
