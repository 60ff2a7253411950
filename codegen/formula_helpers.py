"""Finds the helpers of formulas, the public functions in a formulas/ folder, without importing them."""

from __future__ import annotations

import ast
from pathlib import Path

from .errors import SpecError
from .formula_scope import Helper, Kind
from .kernel_index import modules_in
from .reserved import MODULE_NAMES
from .text import Source


def find_helpers(directory: Path, shown: str, package: str = "") -> dict[str, Helper]:
    """The public functions of the modules in a directory.

    shown     the directory as errors name it
    package   what comes before the name of a module in `Helper.module`

    Raises:
        SpecError: for a file that is not Python, or a name that two modules define.
    """
    found: dict[str, Helper] = {}
    for module, path in modules_in(directory):
        if any(part.startswith("_") for part in module.split(".")):
            continue
        shown_path = f"{shown}/{path.relative_to(directory).as_posix()}"
        source = Source(shown_path, path.read_text(encoding="utf-8"))
        try:
            tree = ast.parse(source.text)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            at = source.index((getattr(error, "lineno", 1) or 1) - 1, 0)
            raise source.error(at, "the file is not Python", "run it with Python to see why") from None
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                if node.name in MODULE_NAMES:
                    raise _taken(source, node)
                if node.name in found:
                    raise _twice(source, node, found[node.name])
                found[node.name] = _helper(node, f"{package}.{module}" if package else module)
    return found


def _taken(source: Source, node: ast.FunctionDef) -> SpecError:
    at = source.index(node.lineno - 1, node.col_offset + len("def "))
    message = f"`{node.name}` cannot be the name of a helper: generated code uses it"
    return source.error(at, message, "choose another name, or let it start with an underscore", len(node.name))


def _twice(source: Source, node: ast.FunctionDef, first: Helper) -> SpecError:
    at = source.index(node.lineno - 1, node.col_offset + len("def "))
    message = f"helper `{node.name}` is also defined in {first.module}.py"
    return source.error(at, message, "rename one: formulas call helpers by name only", len(node.name))


def _helper(node: ast.FunctionDef, module: str) -> Helper:
    arguments = node.args
    positional = tuple(a.arg for a in (*arguments.posonlyargs, *arguments.args))
    defaults = arguments.kw_defaults
    return Helper(
        name=node.name,
        module=module,
        positional=positional,
        required=len(positional) - len(arguments.defaults),
        keywords=frozenset(a.arg for a in arguments.kwonlyargs),
        required_keywords=frozenset(a.arg for a, d in zip(arguments.kwonlyargs, defaults, strict=True) if d is None),
        is_variadic=bool(arguments.vararg or arguments.kwarg),
        returns=Kind.TENSOR if _says(node.returns, "Tensor") else Kind.UNKNOWN,
        arity=_tuple_arity(node.returns),
    )


def _annotation(node: ast.expr | None) -> ast.expr | None:
    """An annotation as an expression, also where it is written as a string."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        try:
            return ast.parse(node.value, mode="eval").body
        except SyntaxError:
            return None
    return node


def _says(node: ast.expr | None, name: str) -> bool:
    node = _annotation(node)
    return isinstance(node, ast.Name) and node.id == name


def _tuple_arity(node: ast.expr | None) -> int | None:
    """3 for `tuple[Tensor, Tensor, Tensor | None]`; None where the annotation does not say."""
    node = _annotation(node)
    if not (isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "tuple"):
        return None
    if not isinstance(node.slice, ast.Tuple):
        return 1
    items = node.slice.elts
    is_open = any(isinstance(item, ast.Constant) and item.value is Ellipsis for item in items)
    return None if is_open else len(items)
