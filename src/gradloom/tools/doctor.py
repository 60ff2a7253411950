"""`gradloom doctor`: which names of torch a program uses, found by reading it, and which of them gradloom lacks.

Names are found where they are spelled: `import torch.nn as nn; nn.Linear`, `from torch.optim import Adam`. Methods of
tensors, and names that a program puts together while it runs, are not.
"""

from __future__ import annotations

import ast
import sys
import tokenize
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import gradloom


class Use(NamedTuple):
    name: str  # "torch.nn.Linear"
    path: Path
    line: int
    optional: bool  # inside try: ... except ImportError or AttributeError, or under hasattr


def uses(source: str, path: Path) -> list[Use]:
    """Return the names of torch that a source file spells, each as far as it is spelled."""
    reader = _Reader(path)
    reader.visit(ast.parse(source, str(path)))
    return reader.found


_FORGIVING = {"ImportError", "ModuleNotFoundError", "AttributeError", "Exception", "BaseException"}


def _caught(handler: ast.ExceptHandler) -> set[str]:
    """Return the names of the exceptions that a handler catches, without their modules."""
    if handler.type is None:
        return {"BaseException"}
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return {ast.unparse(kind).rpartition(".")[2] for kind in kinds}


class _Reader(ast.NodeVisitor):
    def __init__(self, path: Path) -> None:
        self.path, self.found = path, []  # type: tuple[Path, list[Use]]
        self._bound: dict[str, str] = {}  # local names -> what they stand for
        self._optional = 0

    def _use(self, name: str, node: ast.AST) -> None:
        self.found.append(Use(name, self.path, getattr(node, "lineno", 0), self._optional > 0))

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.name.partition(".")[0] == "torch":
                self._use(alias.name, node)
                self._bound[alias.asname or "torch"] = alias.name if alias.asname else "torch"

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if not node.level and (node.module or "").partition(".")[0] == "torch":
            for alias in node.names:
                name = f"{node.module}.{alias.name}" if alias.name != "*" else str(node.module)
                self._use(name, node)
                self._bound[alias.asname or alias.name] = name

    def visit_Attribute(self, node: ast.Attribute) -> None:
        parts, inner = [node.attr], node.value
        while isinstance(inner, ast.Attribute):
            parts.append(inner.attr)
            inner = inner.value
        if isinstance(inner, ast.Name) and inner.id in self._bound:
            self._use(".".join([self._bound[inner.id], *reversed(parts)]), node)
        else:
            self.generic_visit(node)

    def visit_Try(self, node: ast.Try) -> None:
        optional = any(not _FORGIVING.isdisjoint(_caught(handler)) for handler in node.handlers)
        self._optional += optional
        for statement in node.body:
            self.visit(statement)
        self._optional -= optional
        for rest in (*node.handlers, *node.orelse, *node.finalbody):
            self.visit(rest)

    def visit_If(self, node: ast.If) -> None:
        optional = "hasattr(" in ast.unparse(node.test)
        self.visit(node.test)
        self._optional += optional
        for statement in node.body:
            self.visit(statement)
        self._optional -= optional
        for statement in node.orelse:
            self.visit(statement)


def lacking(name: str) -> str | None:
    """Return the part of a full name that gradloom lacks, such as "torch.fx" for "torch.fx.Graph"; None if none."""
    found: Any = gradloom
    parts = name.split(".")
    for i, part in enumerate(parts[1:], 2):
        try:
            found = getattr(found, part)
        except AttributeError:
            try:
                found = import_module(".".join(["gradloom", *parts[1:i]]))
            except ImportError:
                return ".".join(parts[:i])
        if not isinstance(found, type(gradloom)) and not isinstance(found, type):
            return None  # of other values, attributes are not looked up
    return None


def files(program: str) -> list[Path]:
    """Return the Python files of a script, a folder, or an installed package, which is not imported.

    Raises ValueError if there is none of this name.
    """
    path = Path(program)
    if path.is_file():
        return [path]
    if not path.is_dir():
        spec = None
        if all(part.isidentifier() for part in program.split(".")):
            spec = find_spec(program.partition(".")[0])
        if spec is None:
            raise ValueError(f"{program} is neither a file, nor a folder, nor an installed package")
        if not spec.submodule_search_locations:
            if not spec.has_location:
                raise ValueError(f"{program} is part of the interpreter: it has no file to read")
            return [Path(str(spec.origin))]
        path = Path(spec.submodule_search_locations[0], *program.split(".")[1:])
        if not path.is_dir():
            path = path.with_suffix(".py")
            if not path.is_file():
                raise ValueError(f"there is no module {program}")
            return [path]
    found = path.rglob("*.py")
    return sorted(file for file in found if not any(part.startswith(".") for part in file.relative_to(path).parts))


def _read(paths: list[Path]) -> Iterator[Use]:
    for path in paths:
        try:
            with tokenize.open(path) as file:
                yield from uses(file.read(), path)
        except (OSError, SyntaxError, ValueError, RecursionError) as error:
            print(f"{path}: not read: {error}", file=sys.stderr)


def main(programs: list[str], show_all: bool = False) -> int:
    """Print what programs use and gradloom lacks; return 1 if one needs such a name, 2 for wrong usage."""
    try:
        paths = [path for program in programs for path in files(program)]
    except ValueError as error:
        print(f"gradloom doctor: {error}", file=sys.stderr)
        return 2
    found = list(_read(paths))
    known = {use.name: lacking(use.name) for use in found}
    for use in found:
        if missing := known[use.name]:
            print(f"{use.path}:{use.line}: {missing}{' (optional)' if use.optional else ''}")
    if show_all:
        print(*sorted(name for name, missing in known.items() if not missing), sep="\n")
    absent = {missing for missing in known.values() if missing}
    needed = {known[use.name] for use in found if known[use.name] and not use.optional}
    print(
        f"{len(paths)} {'file' if len(paths) == 1 else 'files'}: {len(known)} names of torch, {len(absent)} missing"
        f"{f', {len(absent) - len(needed)} of them only tried' if absent - needed else ''}; methods of tensors are not "
        "looked at"
    )
    return 1 if needed else 0
