"""Find the definitions of the functions that the YAML files name, without importing them."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Place:
    """A definition: its file, the path from the top of the checkout, its line, its docstring's first paragraph."""

    path: Path
    shown: str
    line: int
    summary: str


class Definitions:
    """Finds functions in the library's kernels, formulas and composites."""

    def __init__(self, root: Path, package: Path) -> None:
        self.root, self.package = root, package
        self._trees: dict[Path, ast.Module] = {}

    def find(self, room: str, module: str, function: str) -> Place:
        """Find a function of a module, `activation.smooth` in kernels; LookupError if it does not define it."""
        path = self.package / room / f"{module.replace('.', '/')}.py"
        for node in self._tree(path).body:
            if isinstance(node, ast.FunctionDef) and node.name == function:
                return self._place(path, node.lineno, ast.get_docstring(node) or "")
            if isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                if any(isinstance(n, ast.Name) and n.id == function for t in targets for n in ast.walk(t)):
                    return self._place(path, node.lineno, "")
        raise LookupError(f"{path} has no {function}")

    def _tree(self, path: Path) -> ast.Module:
        if path not in self._trees:
            self._trees[path] = ast.parse(path.read_text(encoding="utf-8"))
        return self._trees[path]

    def _place(self, path: Path, line: int, docstring: str) -> Place:
        paragraph = " ".join(docstring.partition("\n\n")[0].split())
        return Place(path, path.relative_to(self.root).as_posix(), line, paragraph)
