"""The functions of a folder of Python files, as syntax trees: helpers, composites. Nothing is imported or executed."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

from .kernel_index import modules_in

OPERATORS = ("ops", "_operators", "own")  # what the files call the module of operators; `own` is a package's


class Functions:
    """The top-level functions of the modules in some folders, private ones too.

    Modules go by their dotted names from the folder; one that an earlier folder has as well, by `<package>.<name>`.
    """

    def __init__(self, *folders: Path) -> None:
        self.modules: dict[str, dict[str, ast.FunctionDef]] = {}
        self.paths: dict[str, Path] = {}
        self._values: dict[str, dict[str, ast.expr]] = {}  # what other names are assigned, as `exp2 = _alias("exp2")`
        self._imports: dict[str, dict[str, tuple[str, str]]] = {}  # module -> name -> (module, name) that it is from
        self._foreign: dict[str, set[str]] = {}  # names of modules such as `math`, whose functions are no methods
        self._calls: dict[tuple[str, str], frozenset[str]] = {}
        for folder in folders:
            modules = dict(modules_in(folder))
            keys = {name: f"{folder.parent.name}.{name}" if name in self.modules else name for name in modules}
            for name, path in modules.items():
                self._read(name, path, keys)

    def _read(self, name: str, path: Path, keys: Mapping[str, str]) -> None:
        """Read a module; `keys` says what the modules of its folder are called here."""
        tree = ast.parse(path.read_text(encoding="utf-8"))
        key = keys[name]
        around = name.split(".") if path.stem == "__init__" else name.split(".")[:-1]
        self.paths[key] = path
        self.modules[key] = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}
        self._foreign[key] = {a.asname or a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
        self._values[key] = dict(pair for n in tree.body if isinstance(n, ast.Assign) for pair in _assigned(n))
        self._imports[key] = {
            (a.asname or a.name): (keys.get(module, module), a.name)
            for n in tree.body
            if isinstance(n, ast.ImportFrom) and n.module and 0 < n.level <= len(around) + 1
            for module in [".".join([*around[: len(around) + 1 - n.level], n.module])]
            for a in n.names
        }

    def find(self, name: str, module: str | None = None) -> tuple[str, ast.FunctionDef] | None:
        """(module, function) that a name means in a module; without a module, the public function of that name."""
        if module is None:
            home = self.home(name)
            return None if home is None else (home, self.modules[home][name])
        if name in self.modules.get(module, {}):
            return module, self.modules[module][name]
        origin = self._imports.get(module, {}).get(name)
        return None if origin is None else self.find(origin[1], origin[0])

    def origin(self, module: str, name: str) -> tuple[str, str]:
        """(module, name) that a name of a module is imported from; the same where it is its own."""
        seen = set()
        while (module, name) not in seen and name in self._imports.get(module, {}):
            seen.add((module, name))
            module, name = self._imports[module][name]
        return module, name

    def definition(self, module: str, name: str) -> ast.FunctionDef | ast.expr | None:
        """The function of that name, or what the name is assigned; None for a name that is not of the module's own."""
        return self.modules.get(module, {}).get(name) or self._values.get(module, {}).get(name)

    def home(self, name: str) -> str | None:
        """The public module that has a public function of that name."""
        if name.startswith("_"):
            return None
        return next(
            (
                module
                for module, functions in self.modules.items()
                if name in functions and not any(part.startswith("_") for part in module.split("."))
            ),
            None,
        )

    def calls(self, module: str, name: str) -> frozenset[str]:
        """The names of operators and methods that a function calls, through other functions of the folder, too."""
        origin = self._imports.get(module, {}).get(name)
        if origin is not None:
            return self.calls(*origin)
        definition = self.definition(module, name)
        if definition is None:
            return frozenset()
        key = (module, name)
        if key not in self._calls:
            self._calls[key] = frozenset()  # for functions that call one another
            self._calls[key] = self._called(module, name, definition)
        return self._calls[key]

    def _called(self, module: str, name: str, definition: ast.AST) -> frozenset[str]:
        names: set[str] = set()
        for node in ast.walk(definition):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and isinstance(definition, ast.expr):
                names.add(node.value)  # `_alias("exp2")`
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in OPERATORS:
                names.add(node.attr)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                base = node.func.value
                if not (isinstance(base, ast.Name) and base.id in self._foreign[module]):
                    names.add(node.func.attr)
            elif isinstance(node, ast.Name) and node.id != name:
                names |= self.calls(module, node.id)
        return frozenset(names)


def _assigned(statement: ast.Assign) -> list[tuple[str, ast.expr]]:
    """(name, expression) for each name that a statement at the top of a module assigns."""
    found = []
    for target in statement.targets:
        names = target.elts if isinstance(target, ast.Tuple) else [target]
        values = [statement.value] * len(names)
        if isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple):
            values = statement.value.elts
        found += [(t.id, value) for t, value in zip(names, values, strict=False) if isinstance(t, ast.Name)]
    return found
