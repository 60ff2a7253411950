"""Which named kernels and composites exist, read from their source files without importing them.

Note [Families]
A family is a file, `kernels/sorting.py`, or a folder of files, `kernels/activation/`. YAML names a function by its
family, `activation.softmax`, and generated code imports the module that defines it, `activation.softmax` or
`activation.smooth`. Files and folders whose names start with an underscore belong to no family.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
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


def modules_in(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield (dotted name, path) for each module in a folder and in the packages there, sorted: `shape.views`."""
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.suffix == ".py":
            yield path.stem, path
        elif (path / "__init__.py").is_file():
            for inner in sorted(path.glob("*.py")):
                yield (path.name if inner.stem == "__init__" else f"{path.name}.{inner.stem}"), inner


def families_in(folder: Path) -> frozenset[str]:
    """The families of a folder. See Note [Families]."""
    names = (name.partition(".")[0] for name, _ in modules_in(folder))
    return frozenset(name for name in names if not name.startswith("_"))


class FunctionIndex:
    """The functions of the families in a folder. None is no folder. See Note [Families].

    Files are parsed when a family is first asked for. A name is known if a file defines or assigns it at its top
    level and it does not start with an underscore, or, where no file of the family does, if one imports it from
    gradloom or by a relative import: what is imported from elsewhere (`math`, `os`) is no function of the family.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.room = folder.name if folder is not None else ""
        self._functions: dict[str, dict[str, Signature]] = {}
        self._modules: dict[str, dict[str, list[str]]] = {}  # family -> function -> the modules that have it

    @cached_property
    def families(self) -> tuple[str, ...]:
        """The names of the files and folders, sorted."""
        return () if self.folder is None else tuple(sorted(families_in(self.folder)))

    def functions(self, family: str) -> dict[str, Signature]:
        """The names in a family; empty where there is no such family. Raises SyntaxError for a broken file."""
        if family not in self._functions:
            self._read(family)
        return self._functions[family]

    def module(self, family: str, function: str) -> str:
        """The module of a function that `explain` finds, from the folder: `activation.softmax`."""
        self.functions(family)
        return self._modules[family][function][0]

    def _read(self, family: str) -> None:
        found: dict[str, dict[str, Signature]] = {}  # module -> what it defines
        borrowed: dict[str, str] = {}
        modules: dict[str, list[str]] = {}
        for module, path in modules_in(self.folder) if self.folder is not None else ():
            if module.partition(".")[0] == family and not module.partition(".")[2].startswith("_"):
                found[module], imported = _top_level_names(path)
                for name in found[module]:
                    modules.setdefault(name, []).append(module)
                for name in imported:
                    borrowed.setdefault(name, module)
        for name, module in borrowed.items():
            modules.setdefault(name, [module])
        signatures = {name: s for names in found.values() for name, s in names.items()}
        self._functions[family] = {name: Signature() for name in borrowed} | signatures
        self._modules[family] = modules

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
            file = Path(str(error.filename)).relative_to(self.folder) if self.folder is not None else ""
            return ("family", f"{room}/{file} is not Python: {error.msg} in line {error.lineno}", "mend that file")
        modules = self._modules[family].get(function, ())
        if len(modules) > 1:
            files = " and ".join(f"{room}/{module.replace('.', '/')}.py" for module in modules)
            return "function", f"`{function}` is defined twice: in {files}", "rename one, or remove it"
        if modules:
            return None
        place = self._place(family)
        hint = did_you_mean(function, functions) or self._elsewhere(function) or f"define it in {place}"
        return "function", f"there is no function `{function}` in {place}", hint

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

    def _place(self, family: str) -> str:
        """The file or folder of a family, as messages name it."""
        is_folder = self.folder is not None and (self.folder / family).is_dir()
        return f"{self.room}/{family}/" if is_folder else f"{self.room}/{family}.py"

    def _elsewhere(self, function: str) -> str:
        found = self.find(function)
        return f"did you mean `{found[0]}.{function}`?" if found else ""


class GivenFunctions(FunctionIndex):
    """Functions that are given at run time, all in one family."""

    def __init__(self, family: str, functions: Mapping[str, Signature]) -> None:
        super().__init__(None)
        self._family = family
        self._functions[family] = dict(functions)
        self._modules[family] = {name: [family] for name in functions}

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


def _top_level_names(path: Path) -> tuple[dict[str, Signature], list[str]]:
    """The names that a file defines or assigns at its top level, and those that it imports from gradloom."""
    names: dict[str, Signature] = {}
    imported: list[str] = []
    for node in ast.parse(path.read_text(encoding="utf-8"), path).body:
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
            imported += [alias.asname or alias.name for alias in node.names]
    is_public = {name: signature for name, signature in names.items() if not name.startswith("_")}
    return is_public, [name for name in imported if not name.startswith("_")]


def _signature(node: ast.FunctionDef) -> Signature:
    a = node.args
    if a.vararg is not None or a.kwarg is not None or node.decorator_list:
        return Signature()
    positional = [p.arg for p in (*a.posonlyargs, *a.args)]
    required = positional[: len(positional) - len(a.defaults)]
    required += [p.arg for p, default in zip(a.kwonlyargs, a.kw_defaults, strict=True) if default is None]
    names = (*positional, *(p.arg for p in a.kwonlyargs))
    return Signature(names, len(positional), frozenset(required))
