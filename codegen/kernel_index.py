"""Which named kernels and composites exist, read from their source files without importing them."""

from __future__ import annotations

import ast
from pathlib import Path

from .schema_types import did_you_mean


class FunctionIndex:
    """The functions of a folder of Python files: `family.function` is `function` in `family.py`.

    Files are parsed when a family is first asked for. A name is known if the file defines, assigns or imports
    it at its top level and it does not start with an underscore.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._functions: dict[str, frozenset[str]] = {}

    @property
    def families(self) -> tuple[str, ...]:
        """The names of the files, sorted."""
        return tuple(sorted(p.stem for p in self.folder.glob("*.py") if not p.stem.startswith("_")))

    def functions(self, family: str) -> frozenset[str]:
        """The names in a family; empty where there is no such file. Raises SyntaxError for a broken file."""
        if family not in self._functions:
            path = self.folder / f"{family}.py"
            names = _top_level_names(path) if family in self.families else frozenset()
            self._functions[family] = names
        return self._functions[family]

    def explain(self, family: str, function: str) -> tuple[str, str, str] | None:
        """None if `family.function` exists; else (the word at fault: 'family' or 'function', message,
        hint).
        """
        room = self.folder.name
        if family not in self.families:
            hint = did_you_mean(family, self.families) or self._elsewhere(function) or (
                f"add it as {room}/{family}.py, or name one of: {', '.join(self.families)}"
            )  # fmt: skip
            return "family", f"there is no family `{family}` in {room}/", hint
        try:
            functions = self.functions(family)
        except SyntaxError as error:
            return (
                "family",
                f"{room}/{family}.py is not Python: {error.msg} in line {error.lineno}",
                "mend that file",
            )
        if function in functions:
            return None
        hint = (
            did_you_mean(function, functions)
            or self._elsewhere(function)
            or f"define it in {room}/{family}.py"
        )
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


def _top_level_names(path: Path) -> frozenset[str]:
    names: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                names.update(n.id for n in ast.walk(target) if isinstance(n, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
        elif isinstance(node, ast.ImportFrom):
            names.update(alias.asname or alias.name for alias in node.names)
    return frozenset(n for n in names if not n.startswith("_"))
