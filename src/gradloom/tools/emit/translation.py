"""Formulas and the functions that they call, in terms of PyTorch's or JAX's functions.

A formula of the analysed specification calls operators as `ops.where`, those of a package as `own.softabs`, and helpers
by name. A function of `formulas/` or `kernels/` is carried along: its source is translated in the same way, and so are
the functions and constants of its module, and of modules beside it, that it uses.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# The roots of expressions that name an operator, and what they are to a formula.
OPERATORS, PACKAGE, GRADLOOM = "operators", "package", "gradloom"
_OPERATOR_MODULES = ("gradloom.dispatch._operators",)
_FREE = frozenset((*sys.stdlib_module_names, "numpy", "scipy"))  # what carried functions may import
# Functions of gradloom's that say something about the run: a derivative may be taken, and modes may see a call.
_FIXED = {"is_differentiated": True, "is_unseen": False, "is_readable": True}
_DTYPES = "gradloom.types.dtype"


class UntranslatedError(Exception):
    """A name without a counterpart.

    Attributes:
        name: as the formula or function has it.
        where: the function with the place in its file, if it is not in the formula itself.
    """

    def __init__(self, name: str, reason: str, where: str = "") -> None:
        super().__init__(f"{reason} in {where}" if where else reason)
        self.name, self.reason, self.where = name, reason, where


class Library:
    """What names of gradloom are in another library. The two libraries of `library.py` are of this kind."""

    name: str

    def member(self, path: Sequence[str]) -> ast.expr | None:
        """Return what gradloom's `path` is, such as `nn.functional.pad`; None if it has no counterpart."""
        raise NotImplementedError

    def operator(self, name: str, of: str) -> ast.expr | None:
        """Return the function for an operator of gradloom (`of` is OPERATORS) or of the package (PACKAGE)."""
        raise NotImplementedError

    def call(self, name: str, of: str, node: ast.Call) -> ast.expr | None:
        """Return a call of an operator, with translated arguments; None if the operator has no counterpart."""
        function = self.operator(name, of)
        return None if function is None else ast.Call(function, node.args, node.keywords)

    def member_call(self, path: Sequence[str], node: ast.Call) -> ast.expr | None:
        """Return a call of gradloom's `path`, with translated arguments; None if it has no counterpart."""
        function = self.member(path)
        return None if function is None else ast.Call(function, node.args, node.keywords)

    def method(self, node: ast.Call) -> ast.expr | None:
        """Return a call of a method of a tensor."""
        return node

    def attribute(self, node: ast.Attribute) -> ast.expr:
        """Return an attribute of a tensor or a dtype."""
        return node

    def dtype(self, name: str) -> ast.expr:
        """Return a dtype."""
        return dotted(self.name, name)


class Arrays(Library):
    """What kernels call: NumPy, and nothing of gradloom."""

    name = "numpy"

    def member(self, path: Sequence[str]) -> ast.expr | None:
        return None

    def operator(self, name: str, of: str) -> ast.expr | None:
        return None


@dataclass(frozen=True, slots=True)
class _Binding:
    """What a name of a module is: a root of operators, a thing to carry along, or an import."""

    kind: str
    path: tuple[str, ...] = ()  # of an import, or of gradloom
    node: ast.stmt | None = None


class _Source:
    """A file of functions, by name."""

    def __init__(self, path: Path, module: str, shown: str) -> None:
        self.path, self.module, self.shown = path, module, shown
        self.tree = ast.parse(path.read_text("utf-8"))
        self.names: dict[str, _Binding] = {}
        for node in self.tree.body:
            for name, binding in self._bindings(node):
                self.names[name] = binding

    def _bindings(self, node: ast.stmt) -> Iterator[tuple[str, _Binding]]:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name, _Binding("def", (), node)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name, _Binding("assign", (), node)
            case ast.Import(names=aliases):
                for a in aliases:
                    path = tuple(a.name.split("."))
                    yield a.asname or path[0], _Binding("import", path if a.asname else path[:1], node)
            case ast.ImportFrom(names=aliases):
                for a in aliases:
                    module = resolved(self.module, node.level, node.module)
                    yield a.asname or a.name, _Binding("from", (module, a.name), node)


def resolved(module: str, level: int, name: str | None) -> str:
    """Return the absolute name of the module of a `from` import in `module`."""
    if not level:
        return name or ""
    return ".".join([*module.split(".")[:-level], *([name] if name else [])])


@dataclass(slots=True)
class Carrier:
    """Carries functions along.

    Attributes:
        folders: for each importable package, the folder of its source.
        carried: the text of each function and constant, in the order in which they must stand.
        imports: import statements that they need.
    """

    library: Library
    folders: Mapping[str, Path]
    namespaces: frozenset[str] = frozenset()  # of packages of operators, in `gradloom.ops`
    reserved: set[str] = field(default_factory=set)  # names that the module has already
    carried: dict[str, str] = field(default_factory=dict)
    imports: set[str] = field(default_factory=set)
    _sources: dict[str, _Source] = field(default_factory=dict)
    _named: dict[tuple[str, str], str] = field(default_factory=dict)

    def source(self, module: str) -> _Source | None:
        """Return a module of one of the packages; None if it is not a file there."""
        if module not in self._sources:
            package, *rest = module.split(".")
            folder = self.folders.get(package)
            path = folder.joinpath(*rest).with_suffix(".py") if folder is not None and rest else None
            if path is None or not path.is_file():
                return None
            self._sources[module] = _Source(path, module, "/".join((package, *rest)) + ".py")
        return self._sources[module]

    def carries(self, package: str) -> bool:
        """Return whether functions of a package are carried along."""
        return any(module.split(".")[0] == package for module, _ in self._named)

    def formula(self, text: str, helpers: Mapping[str, str], package: str) -> ast.expr:
        """Return a formula, translated.

        Args:
            helpers: the module of each helper that it calls, by the helper's name.
            package: the name under which it calls operators of a package.
        """
        names = {name: _Binding("from", (module, name)) for name, module in helpers.items()}
        names["ops"] = _Binding(OPERATORS)
        if package:
            names[package] = _Binding(PACKAGE)
        tree = ast.parse(text.strip(), mode="eval").body
        return _Translation(self, names, frozenset(), "").visit(tree)  # type: ignore[no-any-return]

    def function(self, module: str, name: str, where: str = "") -> str:
        """Carry a function or constant along; return its name in the written module. Raises UntranslatedError."""
        key = (module, name)
        if key in self._named:
            return self._named[key]
        source = self.source(module)
        binding = source.names.get(name) if source is not None else None
        if source is None or binding is None or binding.node is None or binding.kind not in ("def", "assign"):
            raise UntranslatedError(name, f"`{name}` of {module} has no counterpart", where)
        chosen = name
        while chosen in self.carried or chosen in self.reserved or chosen in self._named.values():
            chosen += "_"
        self._named[key] = chosen
        place = f"`{name}` ({source.shown}:{binding.node.lineno})"
        node = ast.parse(ast.unparse(binding.node)).body[0]
        node = _Translation(self, source.names, frozenset(_locals(node)), place).statement(node)
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            node.name = chosen
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            node = ast.Assign([ast.Name(chosen, ast.Store())], node.value, lineno=0)  # type: ignore[arg-type]
        self.carried[chosen] = ast.unparse(ast.fix_missing_locations(node))
        return chosen


class _Translation(ast.NodeTransformer):
    """Translates an expression or a function of one module."""

    def __init__(self, carrier: Carrier, names: Mapping[str, _Binding], local: frozenset[str], where: str) -> None:
        self.carrier, self.names, self.local, self.where = carrier, names, local, where

    @property
    def library(self) -> Library:
        return self.carrier.library

    def statement(self, node: ast.stmt) -> ast.stmt:
        found = self.visit(node)
        assert isinstance(found, ast.stmt)
        return found

    # --- names

    def binding(self, name: str) -> _Binding | None:
        return None if name in self.local else self.names.get(name)

    def path(self, node: ast.expr) -> tuple[str, tuple[str, ...]] | None:
        """Return (kind, rest) of an expression such as `ops.where`, `gradloom.nn.functional.pad`; else None."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return None
        binding, rest = self.binding(node.id), tuple(reversed(parts))
        if binding is None:
            return None
        if binding.kind in (OPERATORS, PACKAGE):
            return binding.kind, _inexact(rest)
        if binding.kind == "import" and binding.path[0] == GRADLOOM:
            return self.of_gradloom((*binding.path[1:], *rest))
        if binding.kind == "from":
            module, name = binding.path
            if f"{module}.{name}" in _OPERATOR_MODULES:
                return OPERATORS, _inexact(rest)
            if module == _DTYPES and not rest:
                return "dtype", (name,)
            if module == GRADLOOM or module.startswith(f"{GRADLOOM}.") and self.carrier.source(module) is None:
                return self.of_gradloom((*module.split(".")[1:], name, *rest))
        return None

    def of_gradloom(self, path: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
        if len(path) >= 3 and path[0] == "ops" and path[1] in self.carrier.namespaces:
            return PACKAGE, path[2:]
        return GRADLOOM, path

    def found(self, node: ast.expr) -> ast.expr | None:
        """Return what an expression that names something of gradloom is; None if it names nothing there."""
        path = self.path(node)
        if path is None or not path[1]:
            return None
        kind, rest = path
        if kind == "dtype":
            return self.library.dtype(rest[0].rstrip("_"))
        if kind == GRADLOOM:
            member = self.library.member(rest)
        else:
            member = self.library.operator(rest[0], kind)
            for attr in rest[1:]:
                member = None if member is None else ast.Attribute(member, attr, ast.Load())
        if member is None:
            raise UntranslatedError(
                rest[-1], f"`{'.'.join(rest)}` has no counterpart in {self.library.name}", self.where
            )
        return member

    # --- nodes

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if not isinstance(node.ctx, ast.Load):
            return node
        found = self.found(node)
        if found is not None:
            return found
        binding = self.binding(node.id)
        if binding is None:
            if self.where and node.id not in self.local and not hasattr(builtins, node.id):
                raise UntranslatedError(node.id, f"`{node.id}` has no counterpart in {self.library.name}", self.where)
            return node
        match binding.kind:
            case "def" | "assign":
                assert isinstance(self.names, dict)
                return ast.Name(self.carrier.function(self.module(), node.id, self.where), ast.Load())
            case "import":
                self.imported(node.id, ".".join(binding.path), None)
            case "from":
                module, name = binding.path
                if self.carrier.source(module) is not None:
                    return ast.Name(self.carrier.function(module, name, self.where), ast.Load())
                self.imported(node.id, module, name)
        return node

    def module(self) -> str:
        return next(m for m, s in self.carrier._sources.items() if s.names is self.names)

    def imported(self, name: str, module: str, attribute: str | None) -> None:
        if module.split(".")[0] not in _FREE:
            shown = f"{module}.{attribute}" if attribute else module
            raise UntranslatedError(name, f"`{shown}` has no counterpart in {self.library.name}", self.where)
        short = "" if name == (attribute or module) else f" as {name}"
        self.carrier.imports.add(f"from {module} import {attribute}{short}" if attribute else f"import {module}{short}")

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        found = self.found(node)
        if found is not None:
            return found
        node = ast.Attribute(self.visit(node.value), node.attr, node.ctx)
        return self.library.attribute(node) if isinstance(node.ctx, ast.Load) else node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in _FIXED and self.binding(name) is not None:
            return ast.Constant(_FIXED[name])
        path = self.path(node.func)
        arguments = [self.visit(a) for a in node.args]
        keywords = [ast.keyword(k.arg, self.visit(k.value)) for k in node.keywords]
        called = ast.Call(node.func, arguments, keywords)
        if (
            path is not None
            and path[1]
            and (path[0] == GRADLOOM or path[0] in (OPERATORS, PACKAGE) and not path[1][1:])
        ):
            of, rest = path
            call, member = self.library.call, self.library.member_call
            found = member(rest, called) if of == GRADLOOM else call(rest[0], of, called)
            if found is None:
                reason = f"`{'.'.join(rest)}` has no counterpart in {self.library.name}"
                raise UntranslatedError(rest[-1], reason, self.where)
            return found
        if isinstance(node.func, ast.Attribute) and path is None and not self.is_module(node.func.value):
            called.func = ast.Attribute(self.visit(node.func.value), node.func.attr, ast.Load())
            method = self.library.method(called)
            if method is None:
                shown = f"the method `{node.func.attr}` has no counterpart in {self.library.name}"
                raise UntranslatedError(node.func.attr, shown, self.where)
            return method
        called.func = self.visit(node.func)
        return called

    def is_module(self, node: ast.expr) -> bool:
        """Return whether an expression names an imported module, or something in one."""
        while isinstance(node, ast.Attribute):
            node = node.value
        if not isinstance(node, ast.Name):
            return False
        binding = self.binding(node.id)
        return node.id in sys.stdlib_module_names or binding is not None and binding.kind == "import"

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        inner = self if self.local else _Translation(self.carrier, self.names, frozenset(_locals(node)), self.where)
        for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg):
            if a is not None:
                a.annotation = None
        node.returns = None
        node.decorator_list = [self.visit(d) for d in node.decorator_list]
        node.args.defaults = [self.visit(d) for d in node.args.defaults]
        node.args.kw_defaults = [d and self.visit(d) for d in node.args.kw_defaults]
        node.body = list(_flat(inner.visit(s) for s in node.body))
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        return ast.Assign([node.target], self.visit(node.value), lineno=0) if node.value is not None else ast.Pass()

    # --- what is_differentiated and its kind decide

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        operand = self.visit(node.operand)
        if isinstance(node.op, ast.Not) and isinstance(operand, ast.Constant) and isinstance(operand.value, bool):
            return ast.Constant(not operand.value)
        return ast.UnaryOp(node.op, operand)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        ends, left = isinstance(node.op, ast.Or), []
        for value in (self.visit(v) for v in node.values):
            if isinstance(value, ast.Constant) and isinstance(value.value, bool):
                if value.value is ends:
                    return value
            else:
                left.append(value)
        return ast.Constant(not ends) if not left else left[0] if len(left) == 1 else ast.BoolOp(node.op, left)

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        test = self.visit(node.test)
        if isinstance(test, ast.Constant):
            return self.visit(node.body if test.value else node.orelse)  # type: ignore[no-any-return]
        return ast.IfExp(test, self.visit(node.body), self.visit(node.orelse))

    def visit_If(self, node: ast.If) -> Any:
        test = self.visit(node.test)
        if isinstance(test, ast.Constant):
            return [self.visit(s) for s in (node.body if test.value else node.orelse)]
        body, orelse = ([*_flat(self.visit(s) for s in part)] for part in (node.body, node.orelse))
        return ast.If(test, body or [ast.Pass()], orelse)


def _flat(statements: Any) -> Iterator[ast.stmt]:
    for statement in statements:
        if isinstance(statement, list):
            yield from _flat(statement)
        elif statement is not None:
            yield statement


def _locals(node: ast.AST) -> set[str]:
    """Return the names that a function binds, in functions within it, too."""
    found: set[str] = set()
    if isinstance(node, ast.Assign | ast.AnnAssign):
        return {n.id for n in ast.walk(node.value or ast.Pass()) if isinstance(n, ast.Name) and _stores(n)}
    for n in ast.walk(node):
        if isinstance(n, ast.arg):
            found.add(n.arg)
        elif isinstance(n, ast.Name) and _stores(n):
            found.add(n.id)
        elif isinstance(n, ast.FunctionDef) and n is not node:
            found.add(n.name)
        elif isinstance(n, ast.Import | ast.ImportFrom):
            found |= {a.asname or a.name.split(".")[0] for a in n.names}
        elif isinstance(n, ast.ExceptHandler) and n.name:
            found.add(n.name)
    return found


def _stores(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


def _inexact(path: tuple[str, ...]) -> tuple[str, ...]:
    """Return the path of an operator without `exact`, gradloom's overloads for normalised arguments."""
    return path[1:] if path[:1] == ("exact",) else path


def dotted(*path: str) -> ast.expr:
    """Return `a.b.c` as an expression."""
    return ast.parse(".".join(path), mode="eval").body
