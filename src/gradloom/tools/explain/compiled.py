"""`gradloom explain --compiled`: what became of a function of a program when it was compiled and called."""

from __future__ import annotations

import ast
import inspect
import runpy
import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from .lookup import UnknownName


def explain_compiled(name: str, call: str | None = None, backend: str = "inductor") -> Any:
    """Compile a function or module of a program, call it once, and return an `Explanation` of the graphs.

    Args:
        name: `module:function`, or `file.py:function`; with dots for attributes (`train:model.encoder`). The module is
            imported, with `torch` as gradloom.
        call: arguments as in a call, `"torch.randn(8, 3), scale=2"`; evaluated among the names of the module.
        backend: as for `compile`.

    Raises:
        UnknownName: for a malformed name, a module that cannot be imported, a name that is not there, what cannot be
            called, and for arguments that are missing, wrong or lead to an error; the message says what to do.
    """
    place, colon, path = name.partition(":")
    if not colon or not place or not path:
        raise UnknownName(f"--compiled takes module:function or file.py:function, not `{name}`")
    import_module("gradloom.as_torch")
    names = _names_of(place)
    target = _found(names, path, place)
    if isinstance(target, type) or not callable(target):
        what = "a class: name a function, or an instance of it" if isinstance(target, type) else "not callable"
        raise UnknownName(f"{name} is {what}")
    args, kwargs = _arguments(name, target, call, names)
    api = import_module("gradloom.compiler._api")
    compiled = import_module("gradloom").compile(_original(target), backend=backend)
    try:
        return api.explain_call(compiled, args, kwargs)
    except Exception as error:
        raise UnknownName(f"the call {name}({call or ''}) ends with {type(error).__name__}: {error}") from error


def _original(target: Any) -> Any:
    """Return what was compiled, for a function or module that is compiled already."""
    call = getattr(target, "__dict__", {}).get("_compiled_call_impl")
    return target if call is None else call


def _names_of(place: str) -> dict[str, Any]:
    """Return the names of a module that is imported, or of a file that is run."""
    file = Path(place)
    try:
        if place.endswith(".py"):
            if not file.is_file():
                raise UnknownName(f"there is no file {place}")
            sys.path.insert(0, str(file.resolve().parent))
            # Run under the module's name, so that `if __name__ == "__main__"` does not start the program.
            return runpy.run_path(str(file), run_name=file.stem)
        sys.path.insert(0, str(Path.cwd()))
        return vars(import_module(place))
    except ModuleNotFoundError as error:
        if error.name is not None and (place == error.name or place.startswith(f"{error.name}.")):
            raise UnknownName(
                f"there is no module {error.name} here; a file is named as path/to/file.py:name"
            ) from None
        raise UnknownName(f"{place} cannot be imported: {error}") from error
    except Exception as error:
        if isinstance(error, UnknownName):
            raise
        raise UnknownName(f"{place} cannot be imported: {type(error).__name__}: {error}") from error


def _found(names: dict[str, Any], path: str, place: str) -> Any:
    value: Any = SimpleNamespace(**{k: v for k, v in names.items() if k.isidentifier()})
    seen = place
    for part in path.split("."):
        try:
            value = value[int(part)] if part.isdigit() else getattr(value, part)
        except (AttributeError, IndexError, KeyError, TypeError):
            raise UnknownName(f"there is no `{part}` in {seen}{_similar(part, names)}") from None
        seen = part if seen == place else f"{seen}.{part}"
    return value


def _similar(part: str, names: Iterable[str]) -> str:
    import difflib

    close = difflib.get_close_matches(part, [n for n in names if not n.startswith("_")], 1)
    return f": did you mean `{close[0]}`?" if close else ""


def _arguments(
    name: str, target: Any, call: str | None, names: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments that the text of a call gives."""
    if call is None:
        function = target.forward if hasattr(target, "forward") else target
        missing = _required(function)
        if missing:
            raise UnknownName(
                f"{name} needs the arguments {', '.join(missing)}: give them as in a call, with --call "
                f"'torch.randn(8, 3){', ...' if len(missing) > 1 else ''}'"
            )
        return (), {}
    scope = {"torch": import_module("gradloom"), **names}
    scope["_call"] = lambda *args, **kwargs: (args, kwargs)
    try:
        code = compile(ast.parse(f"_call({call})", "<--call>", "eval"), "<--call>", "eval")
    except SyntaxError as error:
        raise UnknownName(f"--call takes arguments as in a call, not `{call}`: {error.msg}") from None
    try:
        found: tuple[tuple[Any, ...], dict[str, Any]] = eval(code, scope)
    except Exception as error:
        raise UnknownName(f"the arguments `{call}` end with {type(error).__name__}: {error}") from error
    return found


def _required(function: Any) -> list[str]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p.name for p in parameters if p.default is p.empty and p.kind not in kinds]
