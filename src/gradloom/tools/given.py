"""Functions of a program as the generator knows those of a package, which it reads from files."""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Callable, Iterable
from typing import Any

from gradloom.codegen.language.reserved import MODULE_NAMES
from gradloom.codegen.language.scope import Helper, Kind
from gradloom.codegen.reading.python_files import Signature

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_OPEN = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def named(what: str, functions: Iterable[Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    """Functions by their names.

    Args:
        what: the argument that holds them, for errors.

    Raises:
        TypeError: for what has no name that YAML could use, or two functions of one name.
    """
    if callable(functions):
        raise TypeError(f"define() takes {what} as a list of functions: {what}=[{_name(functions)}]")
    found: dict[str, Callable[..., Any]] = {}
    for function in functions:
        name = _name(function)
        if not callable(function) or not name.isidentifier() or keyword.iskeyword(name) or name.startswith("_"):
            raise TypeError(
                f"define() takes {what} with names that YAML can use: write `{name}` with `def` and a name "
                "that does not start with an underscore"
            )
        if name in MODULE_NAMES:
            raise TypeError(f"generated code has a `{name}` of its own: give the one in {what} another name")
        if name in found:
            raise TypeError(f"define() got two {what} of the name `{name}`")
        found[name] = function
    return found


def _name(function: object) -> str:
    return str(getattr(function, "__name__", function))


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter] | None:
    """None for a function that does not say, such as some that are written in C."""
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None


def signature_of(function: Callable[..., Any]) -> Signature:
    """What a kernel takes."""
    parameters = _parameters(function)
    if parameters is None or any(p.kind in _OPEN for p in parameters):
        return Signature()
    positional = [p for p in parameters if p.kind in _POSITIONAL]
    required = frozenset(p.name for p in parameters if p.default is p.empty)
    return Signature(tuple(p.name for p in parameters), len(positional), required)


def helper_of(function: Callable[..., Any], module: str) -> Helper:
    """What a helper takes and returns, as far as it says; `module` is where generated code finds it."""
    parameters = _parameters(function) or []
    positional = [p for p in parameters if p.kind in _POSITIONAL]
    keywords = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
    returns = getattr(function, "__annotations__", {}).get("return")
    is_tensor = getattr(returns, "__name__", returns) == "Tensor"
    return Helper(
        name=_name(function),
        module=module,
        positional=tuple(p.name for p in positional),
        required=sum(p.default is p.empty for p in positional),
        keywords=frozenset(p.name for p in keywords),
        required_keywords=frozenset(p.name for p in keywords if p.default is p.empty),
        is_variadic=not parameters or any(p.kind in _OPEN for p in parameters),
        returns=Kind.TENSOR if is_tensor else Kind.UNKNOWN,
        arity=None,
    )
