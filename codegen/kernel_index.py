"""Which named kernels and composites exist, read from their source files without importing them."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from .schema_types import did_you_mean


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters of a function: their names, how many positional ones there are, and which have no
    default.

    `names` is None for a name that is not a `def`, or whose parameters are open (`*args`, `**kwargs`).
    """

    names: tuple[str, ...] | None = None
    positional: int = 0
    required: frozenset[str] = frozenset()

    def mismatch(self, positional: int, keywords: list[str]) -> str:
        """Why a call with so many positional arguments and these keywords fails; '' if it does not."""
        if self.names is None:
            return ""
        if positional > self.positional:
            return f"it takes {self.positional} positional argument(s), {positional} are given"
        given = {*self.names[:positional], *keywords}
        unknown = [k for k in keywords if k not in self.names]
        if unknown:
            return f"it has no parameter `{unknown[0]}`"
        twice = [k for k in keywords if k in self.names[:positional]]
        if twice:
            return f"`{twice[0]}` is given twice"
        missing = [n for n in self.names if n in self.required and n not in given]
        return f"`{missing[0]}` is missing" if missing else ""

    def __str__(self) -> str:
        return ", ".join(self.names or ("...",))


class FunctionIndex:
    """The functions of a folder of Python files: `family.function` is `function` in `family.py`. None is no folder.

    Files are parsed when a family is first asked for. A name is known if the file defines, assigns or imports
    it at its top level and it does not start with an underscore; what it imports from elsewhere (`math`, `os`) is no
    function of the family.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.room = folder.name if folder is not None else ""
        self._functions: dict[str, dict[str, Signature]] = {}

    @cached_property
    def families(self) -> tuple[str, ...]:
        """The names of the files, sorted."""
        if self.folder is None:
            return ()
        return tuple(sorted(p.stem for p in self.folder.glob("*.py") if not p.stem.startswith("_")))

    def functions(self, family: str) -> dict[str, Signature]:
        """The names in a family; empty where there is no such file. Raises SyntaxError for a broken file."""
        if family not in self._functions:
            known = self.folder is not None and family in self.families
            self._functions[family] = _top_level_names(self.folder / f"{family}.py") if known else {}  # type: ignore[operator]
        return self._functions[family]

    def explain(self, family: str, function: str) -> tuple[str, str, str] | None:
        """None if `family.function` exists; else (the word at fault: 'family' or 'function', message,
        hint).
        """
        room = self.room
        if family not in self.families:
            hint = did_you_mean(family, self.families) or self._elsewhere(function) or (
                f"add it as {room}/{family}.py, or name one of: {', '.join(self.families)}"
            )  # fmt: skip
            return "family", f"there is no family `{family}` in {room}/", hint
        try:
            functions = self.functions(family)
        except SyntaxError as error:
            return ("family", f"{room}/{family}.py is not Python: {error.msg} in line {error.lineno}", "mend that file")
        if function in functions:
            return None
        hint = did_you_mean(function, functions) or self._elsewhere(function) or f"define it in {room}/{family}.py"
        return "function", f"there is no function `{function}` in {room}/{family}.py", hint

    def find(self, function: str) -> tuple[str, ...]:
        """The families that have a function of that name."""
        found = []
        for family in self.families:
            try:
                if function in self.functions(family):
                    found.append(family)
            except SyntaxError:
                continue
        return tuple(found)

    def _elsewhere(self, function: str) -> str:
        found = self.find(function)
        return f"did you mean `{found[0]}.{function}`?" if found else ""


class GivenFunctions(FunctionIndex):
    """Functions that are given at run time, all in one family."""

    def __init__(self, family: str, functions: Mapping[str, Signature]) -> None:
        super().__init__(None)
        self._family = family
        self._functions[family] = dict(functions)

    @cached_property
    def families(self) -> tuple[str, ...]:
        return (self._family,) if self._functions[self._family] else ()

    def explain(self, family: str, function: str) -> tuple[str, str, str] | None:
        known = self._functions[self._family]
        if family == self._family and function in known:
            return None
        hint = f"pass the function, `define(..., kernels=[{function}])`, or write an array expression"
        close = did_you_mean(function, known)
        word = "function" if family == self._family else "family"
        return word, f"there is no kernel `{family}.{function}`", close.replace("`", f"`{self._family}.", 1) or hint


def _top_level_names(path: Path) -> dict[str, Signature]:
    names: dict[str, Signature] = {}
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            names[node.name] = _signature(node)
        elif isinstance(node, ast.ClassDef):
            names[node.name] = Signature()
        elif isinstance(node, ast.Assign):
            targets = (n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name))
            names.update(dict.fromkeys(targets, Signature()))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names[node.target.id] = Signature()
        elif isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").startswith("gradloom.")):
            names.update((alias.asname or alias.name, Signature()) for alias in node.names)
    return {name: signature for name, signature in names.items() if not name.startswith("_")}


def _signature(node: ast.FunctionDef) -> Signature:
    a = node.args
    if a.vararg is not None or a.kwarg is not None or node.decorator_list:
        return Signature()
    positional = [p.arg for p in (*a.posonlyargs, *a.args)]
    required = positional[: len(positional) - len(a.defaults)]
    required += [p.arg for p, default in zip(a.kwonlyargs, a.kw_defaults, strict=True) if default is None]
    names = (*positional, *(p.arg for p in a.kwonlyargs))
    return Signature(names, len(positional), frozenset(required))
