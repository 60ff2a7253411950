"""`gradloom doctor`: which names of torch a program uses, found by reading it, and which of them gradloom lacks.

Names are found where they are spelled: `import torch.nn as nn; nn.Linear`, `from torch.optim import Adam`,
`getattr(torch, "fx")`. Methods of tensors, and names that a program puts together while it runs, are not. What only a
type checker reads is left out: the body of `if TYPE_CHECKING`, and annotations that are not evaluated.
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

from ..utils._refused import is_refused


class Use(NamedTuple):
    name: str  # "torch.nn.Linear"
    path: Path
    line: int
    optional: bool  # in try: ... except ImportError or AttributeError, under hasattr or is_available, of a plug-in


def uses(source: str, path: Path) -> list[Use]:
    """Return the names of torch that a source file spells, each as far as it is spelled."""
    if "torch" not in source:
        return []
    reader = _Reader(path)
    reader.read(ast.parse(source, str(path)))
    return reader.found


_FORGIVING = {"ImportError", "ModuleNotFoundError", "AttributeError", "Exception", "BaseException"}
# Modules that vendors' packages add to torch: PyTorch itself does not have them either.
_PLUGINS = {"hpu", "mlu", "musa", "neuron", "npu", "sdaa", "tpu"}
_LEAVES = (ast.Name, ast.Constant, ast.expr_context, ast.operator, ast.cmpop, ast.boolop, ast.unaryop)
_Part = tuple[ast.AST, bool]  # a part of the program, and whether it is optional


def _caught(kind: ast.expr | None) -> set[str]:
    """Return the names of the exceptions that a handler catches, without their modules."""
    if kind is None:
        return {"BaseException"}
    kinds = kind.elts if isinstance(kind, ast.Tuple) else [kind]
    return {ast.unparse(one).rpartition(".")[2] for one in kinds}


def _suppresses(item: ast.withitem) -> bool:
    """Return whether a context manager is `suppress` of exceptions that forgive a missing name."""
    call = item.context_expr
    if not isinstance(call, ast.Call) or _last_name(call.func) != "suppress":
        return False
    return any(not _FORGIVING.isdisjoint(_caught(argument)) for argument in call.args)


def _last_name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _asks(test: ast.AST) -> bool:
    """Return whether a condition asks for a name, by `hasattr`, or for a device, by `torch.cuda.is_available()`."""
    calls = [node.func for node in ast.walk(test) if isinstance(node, ast.Call)]
    return any(_last_name(function) in ("hasattr", "is_available") for function in calls)


class _Reader:
    """Finds the names in a syntax tree, in the order of the text: an import binds names for what follows."""

    def __init__(self, path: Path) -> None:
        self.path, self.found = path, []  # type: tuple[Path, list[Use]]
        self._bound: dict[str, str] = {}  # local names -> what they stand for
        self._evaluates_annotations = True

    def read(self, tree: ast.AST) -> None:
        left: list[_Part] = [(tree, False)]
        while left:
            node, optional = left.pop()
            if isinstance(node, ast.Attribute):
                inner = self._attribute(node, optional)
            elif isinstance(node, _LEAVES):
                continue
            else:
                read = getattr(self, f"_read_{type(node).__name__}", None)
                inner = None if read is None else read(node, optional)
            parts = [(child, optional) for child in ast.iter_child_nodes(node)] if inner is None else inner
            left.extend(reversed(parts))

    def _use(self, name: str, node: ast.AST, optional: bool) -> None:
        optional = optional or name.split(".")[1:2] and name.split(".")[1] in _PLUGINS
        self.found.append(Use(name, self.path, getattr(node, "lineno", 0), bool(optional)))

    def _read_Import(self, node: ast.Import, optional: bool) -> None:
        for alias in node.names:
            if alias.name.partition(".")[0] == "torch":
                self._use(alias.name, node, optional)
                self._bound[alias.asname or "torch"] = alias.name if alias.asname else "torch"

    def _read_ImportFrom(self, node: ast.ImportFrom, optional: bool) -> None:
        if node.module == "__future__" and "annotations" in [alias.name for alias in node.names]:
            self._evaluates_annotations = False
        if not node.level and (node.module or "").partition(".")[0] == "torch":
            for alias in node.names:
                name = f"{node.module}.{alias.name}" if alias.name != "*" else str(node.module)
                self._use(name, node, optional)
                self._bound[alias.asname or alias.name] = name

    def _spelled(self, node: ast.AST) -> str | None:
        """Return the full name that an expression spells, if it begins with a name of torch."""
        parts = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if isinstance(node, ast.Name) and node.id in self._bound:
            return ".".join([self._bound[node.id], *reversed(parts)])
        return None

    def _attribute(self, node: ast.Attribute, optional: bool) -> list[_Part]:
        name = self._spelled(node)
        if name is None:
            return [(node.value, optional)]
        self._use(name, node, optional)
        return []

    def _read_Call(self, node: ast.Call, optional: bool) -> None:
        """Note names in strings: `getattr(torch, "x")`, `import_module("torch.x")`."""
        texts = [one.value if isinstance(one, ast.Constant) and isinstance(one.value, str) else "" for one in node.args]
        called = _last_name(node.func)
        if called == "getattr" and len(texts) > 1 and texts[1] and (owner := self._spelled(node.args[0])):
            self._use(f"{owner}.{texts[1]}", node, optional or len(texts) > 2)
        elif called in ("import_module", "__import__") and texts and texts[0].partition(".")[0] == "torch":
            self._use(texts[0], node, optional)

    def _read_Try(self, node: ast.Try, optional: bool) -> list[_Part]:
        forgiven = any(not _FORGIVING.isdisjoint(_caught(handler.type)) for handler in node.handlers)
        rest = (*node.handlers, *node.orelse, *node.finalbody)
        return [*[(part, optional or forgiven) for part in node.body], *[(part, optional) for part in rest]]

    def _read_With(self, node: ast.With, optional: bool) -> list[_Part]:
        forgiven = optional or any(map(_suppresses, node.items))
        return [*[(item, optional) for item in node.items], *[(part, forgiven) for part in node.body]]

    def _read_If(self, node: ast.If, optional: bool) -> list[_Part]:
        is_for_types = _last_name(node.test) == "TYPE_CHECKING"  # such a body never runs
        body = [] if is_for_types else [(part, optional or _asks(node.test)) for part in node.body]
        return [(node.test, optional), *body, *[(part, optional) for part in node.orelse]]

    def _read_IfExp(self, node: ast.IfExp, optional: bool) -> list[_Part]:
        return [(node.test, optional), (node.body, optional or _asks(node.test)), (node.orelse, optional)]

    def _read_BoolOp(self, node: ast.BoolOp, optional: bool) -> list[_Part]:
        parts: list[_Part] = []
        for value in node.values:
            parts.append((value, optional))
            optional = optional or (isinstance(node.op, ast.And) and _asks(value))
        return parts

    def _read_arg(self, node: ast.arg, optional: bool) -> list[_Part] | None:
        return None if self._evaluates_annotations else []

    def _read_AnnAssign(self, node: ast.AnnAssign, optional: bool) -> list[_Part] | None:
        if self._evaluates_annotations:
            return None
        return [(part, optional) for part in (node.target, node.value) if part is not None]

    def _read_FunctionDef(self, node: ast.FunctionDef, optional: bool) -> list[_Part] | None:
        if self._evaluates_annotations:
            return None
        return [(part, optional) for part in (*node.decorator_list, node.args, *node.body)]

    _read_AsyncFunctionDef = _read_FunctionDef
    _read_AsyncWith = _read_With


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
        if is_refused(found) or not isinstance(found, (type(gradloom), type)):
            return None  # of other values, attributes are not looked up
    return None


def raises_on_use(name: str) -> bool:
    """Return whether a name is one that programs may import, and that raises when it is called."""
    found: Any = gradloom
    for part in name.split(".")[1:]:
        found = getattr(found, part, None)
        if is_refused(found):
            return True
    return False


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
    refused = {name for name, missing in known.items() if not missing and raises_on_use(name)}
    for use in found:
        mark = " (optional)" if use.optional else ""
        if missing := known[use.name]:
            print(f"{use.path}:{use.line}: {missing}{mark}")
        elif use.name in refused:
            print(f"{use.path}:{use.line}: {use.name} (raises when it is used)")
    if show_all:
        print(*sorted(name for name, missing in known.items() if not missing), sep="\n")
    absent = {missing for missing in known.values() if missing}
    needed = {known[use.name] for use in found if known[use.name] and not use.optional}
    print(
        f"{len(paths)} {'file' if len(paths) == 1 else 'files'}: {len(known)} {'name' if len(known) == 1 else 'names'} "
        f"of torch, {len(absent)} missing"
        f"{f', {len(absent) - len(needed)} of them only tried' if absent - needed else ''}"
        f"{f', {len(refused)} that raise when used' if refused else ''}; methods of tensors are not "
        "looked at"
    )
    return 1 if needed else 0
