"""Operators by namespace: `gradloom.ops.<namespace>.<operator>`: gradloom's own, those of packages and libraries, and
those defined at run time.

    gradloom.ops.aten.add                           # an operator of gradloom's, see Note [Operator objects]
    gradloom.ops.aten.add.Tensor(x, y, alpha=2)     # one overload of it; `_schema` is its schema

    import myops                                    # a package that `gradloom new myops` made
    gradloom.ops.myops.softabs(x)                   # its operator, also `x.softabs()` where its entry says method
    gradloom.ops.myops.softabs.default(x)           # one overload of it

    gradloom.ops.define(text)                       # YAML entries, in a notebook: gradloom.ops.user.softabs(x)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

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
        derivatives: the latter, if they are in a text of their own.
        namespace: where the operators are reached: `gradloom.ops.<namespace>`. An operator that was defined before is
            replaced, so that a cell of a notebook can be run again; so is all that was defined together with it.
        kernels: functions of arrays, each of which `kernel: python.<name>` names.
        helpers: functions of tensors, made of differentiable operators, which formulas call by their names.

    Returns:
        A handle: `remove()` takes everything back, and `with define(...):` does so at the end of the block.

    Raises:
        gradloom.codegen.errors.SpecError: if anything is wrong in the text, with the line and a hint; nothing is
            defined then.
        ValueError: for a namespace that is not a name, or that a package has.
        TypeError: for a text that is no string, or a kernel or helper that is no function with a name.
        RuntimeError: if a method or function would take the place of another one.
    """
    from importlib import import_module

    found: Definition = import_module("gradloom.tools.define").define(
        text, derivatives, namespace=namespace, kernels=kernels, helpers=helpers
    )
    return found


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module 'gradloom.ops' has no attribute '{name}'")
    # As in PyTorch, a namespace is there before something registers operators in it.
    return namespace_of(name)


def __dir__() -> list[str]:
    return [*__all__, *namespaces, *(() if "aten" in namespaces else ("aten",))]
