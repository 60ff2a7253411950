"""Where the functions that the YAML files name are defined, read from the source without importing it."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Place:
    """A definition: its file, the same from the top of the checkout, its line, its docstring's first paragraph."""

    path: Path
    shown: str
    line: int
    summary: str


class Definitions:
    """Finds `family.function` in a room of the library (kernels, formulas, composite), through re-exports."""

    def __init__(self, root: Path, package: Path) -> None:
        self.root, self.package = root, package
        self._trees: dict[Path, ast.Module] = {}

    def find(self, room: str, family: str, function: str) -> Place:
        """Raises LookupError if no file of the room defines it."""
        return self._find(self.package / room / f"{family}.py", function)

    def _tree(self, path: Path) -> ast.Module:
        if path not in self._trees:
            self._trees[path] = ast.parse(path.read_text(encoding="utf-8"))
        return self._trees[path]

    def _find(self, path: Path, name: str) -> Place:
        for node in self._tree(path).body:
            if isinstance(node, ast.FunctionDef) and node.name == name:
                return self._place(path, node.lineno, ast.get_docstring(node) or "")
            if isinstance(node, ast.ImportFrom):
                original = next((a.name for a in node.names if (a.asname or a.name) == name), None)
                if original is not None:
                    return self._follow(path, node, original)
            if isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                if any(isinstance(n, ast.Name) and n.id == name for t in targets for n in ast.walk(t)):
                    return self._place(path, node.lineno, "")
        raise LookupError(f"{path} has no {name}")

    def _follow(self, path: Path, node: ast.ImportFrom, name: str) -> Place:
        """The definition behind an import from this package; one from elsewhere is where it is imported."""
        module = (node.module or "").removeprefix(f"gradloom.{path.parent.name}").lstrip(".")
        target = path.parent / f"{module.replace('.', '/')}.py"
        if not module or not target.is_file():
            return self._place(path, node.lineno, "")
        return self._find(target, name)

    def _place(self, path: Path, line: int, docstring: str) -> Place:
        paragraph = " ".join(docstring.partition("\n\n")[0].split())
        return Place(path, path.relative_to(self.root).as_posix(), line, paragraph)
