"""Read the functions in folders of Python files (kernels, composites, helpers) without importing them.

`Functions` has the syntax trees of whole folders and follows calls in them; `FunctionIndex` answers whether
`family.function` exists and how it may be called.

Note [Families]
A family is a file, `kernels/sorting.py`, or a folder of files, `kernels/activation/`. YAML names a function by its
family, `activation.softmax`, and generated code imports the module that defines it, `activation.softmax` or
`activation.smooth`. Files and folders whose names start with an underscore belong to no family.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from ..errors import did_you_mean

NO_DERIVATIVE = "not is_differentiated("  # begins the test of a branch that no derivative passes
MODULES = ("ops", "_operators", "own")  # names of the operators' module in the files; `own` is a package's


class Functions:
    """The top-level functions of the modules in some folders, private ones included. Modules go by their dotted names
    from the folder; one that an earlier folder has, too, by `<package>.<name>`. A file is read when it is asked for."""

    def __init__(self, *folders: Path) -> None:
        self._folders = folders
        self._read: dict[str, _Module] = {}
        self._calls: dict[tuple[str, str], frozenset[str]] = {}

    @cached_property
    def _files(self) -> dict[str, tuple[str, Path, Mapping[str, str]]]:
        """Each module's dotted name in its folder, its path, and the names here of the modules of that folder."""
        found: dict[str, tuple[str, Path, Mapping[str, str]]] = {}
        for folder in self._folders:
            modules = dict(modules_in(folder))
            keys = {name: f"{folder.parent.name}.{name}" if name in found else name for name in modules}
            found |= {keys[name]: (name, path, keys) for name, path in modules.items()}
        return found

    def path(self, module: str) -> Path:
        """Return the file of a module."""
        return self._files[module][1]

    def _module(self, name: str) -> _Module:
        if name not in self._read:
            self._read[name] = _Module.read(*self._files[name]) if name in self._files else _Module()
        return self._read[name]

    def find(self, name: str, module: str | None = None) -> tuple[str, ast.FunctionDef] | None:
        """Return (module, function) for a name in a module; without a module, the public function of that name."""
        if module is None:
            home = self.home(name)
            return None if home is None else (home, self._module(home).functions[name])
        read = self._module(module)
        if name in read.functions:
            return module, read.functions[name]
        origin = read.imports.get(name)
        return None if origin is None else self.find(origin[1], origin[0])

    def origin(self, module: str, name: str) -> tuple[str, str]:
        """Return (module, name) that a name of a module is imported from; the same if it is its own."""
        seen = set()
        while (module, name) not in seen and name in self._module(module).imports:
            seen.add((module, name))
            module, name = self._module(module).imports[name]
        return module, name

    def definition(self, module: str, name: str) -> ast.FunctionDef | ast.expr | None:
        """Return the function of that name, or the value assigned to it; None if the module does not define it."""
        read = self._module(module)
        return read.functions.get(name) or read.values.get(name)

    def home(self, name: str) -> str | None:
        """Return the public module that has a public function of that name."""
        return None if name.startswith("_") else self._homes.get(name)

    @cached_property
    def _homes(self) -> dict[str, str]:
        homes: dict[str, str] = {}
        for module in self._files:
            if not any(part.startswith("_") for part in module.split(".")):
                for name in self._module(module).functions:
                    homes.setdefault(name, module)
        return homes

    def calls(self, module: str, name: str) -> frozenset[str]:
        """Return the names of operators and methods that a function calls, also through other functions there."""
        origin = self._module(module).imports.get(name)
        if origin is not None:
            return self.calls(*origin)
        definition = self.definition(module, name)
        if definition is None:
            return frozenset()
        key = (module, name)
        if key not in self._calls:
            self._calls[key] = frozenset()  # functions may call one another
            self._calls[key] = self._called(module, name, definition)
        return self._calls[key]

    def _called(self, module: str, name: str, definition: ast.AST) -> frozenset[str]:
        names: set[str] = set()
        for node in _differentiated(definition):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and isinstance(definition, ast.expr):
                names.add(node.value)  # `_alias("exp2")`
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in MODULES:
                names.add(node.attr)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                base = node.func.value
                if not (isinstance(base, ast.Name) and base.id in self._module(module).foreign):
                    names.add(node.func.attr)
            elif isinstance(node, ast.Name) and node.id != name:
                names |= self.calls(module, node.id)
        return frozenset(names)


@dataclass(frozen=True, slots=True)
class _Module:
    """What `Functions` reads in a file."""

    functions: Mapping[str, ast.FunctionDef] = field(default_factory=dict)
    values: Mapping[str, ast.expr] = field(default_factory=dict)  # values of other names: `exp2 = _alias("exp2")`
    imports: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # name -> (module, name) of its origin
    foreign: frozenset[str] = frozenset()  # names of modules such as `math`, whose functions are not methods

    @classmethod
    def read(cls, name: str, path: Path, keys: Mapping[str, str]) -> _Module:
        """Read a file; `keys` maps the modules of its folder to their names in `Functions`."""
        tree = ast.parse(path.read_text(encoding="utf-8"))
        around = name.split(".") if path.stem == "__init__" else name.split(".")[:-1]
        imported = (n for n in _statements(tree.body) if isinstance(n, ast.Import))
        imports = {
            (a.asname or a.name): (keys.get(module, module), a.name)
            for n in tree.body
            if isinstance(n, ast.ImportFrom) and n.module and 0 < n.level <= len(around) + 1
            for module in [".".join([*around[: len(around) + 1 - n.level], n.module])]
            for a in n.names
        }
        return cls(
            {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)},
            dict(pair for n in tree.body if isinstance(n, ast.Assign) for pair in _assigned(n)),
            imports,
            frozenset(a.asname or a.name for n in imported for a in n.names),
        )


def _differentiated(node: ast.AST) -> Iterator[ast.AST]:
    """Walk over a function, without the branches that no derivative passes: `if not is_differentiated(...):`."""
    yield node
    for name, value in ast.iter_fields(node):
        if name == "body" and isinstance(node, ast.If) and ast.unparse(node.test).startswith(NO_DERIVATIVE):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _differentiated(child)


def _assigned(statement: ast.Assign) -> list[tuple[str, ast.expr]]:
    """Return (name, expression) for each name that a top-level statement of a module assigns."""
    found = []
    for target in statement.targets:
        names = target.elts if isinstance(target, ast.Tuple) else [target]
        values = [statement.value] * len(names)
        if isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple):
            values = statement.value.elts
        found += [(t.id, value) for t, value in zip(names, values, strict=False) if isinstance(t, ast.Name)]
    return found


@dataclass(frozen=True, slots=True)
class Signature:
    """What the definition of a function shows. `positional` is None for a name that is not a plain `def`, or whose
    parameters are open (`*args`, `**kwargs`)."""

    positional: tuple[str, ...] | None = None  # the parameters that may be given by position
    first: tuple[str, ...] = ()  # the same, also before open ones
    keywords: tuple[str, ...] = ()  # those that are keyword-only
    required: frozenset[str] = frozenset()  # those without a default
    words: Mapping[str, frozenset[str]] = field(default_factory=dict)  # parameter -> the types in its annotation
    # (line, number of values) for each end of the function whose number shows, or NOTHING, NO_ARRAY, A_LIST
    results: tuple[tuple[int, int], ...] = ()

    def misuse(self, given: int, keywords: Sequence[str]) -> tuple[str, str] | None:
        """Return why a call with `given` positional arguments and `keywords` fails, as (the keyword at fault or '',
        message); None if it does not."""
        if self.positional is None:
            return None
        for word in keywords:
            if word not in (*self.positional, *self.keywords):
                return word, f"it has no parameter `{word}`"
            if word in self.positional[:given]:
                return word, f"`{word}` is given twice"
        if given > len(self.positional):
            return "", f"it takes {len(self.positional)} positional argument(s), {given} are given"
        names = (*self.positional[given:], *self.keywords)
        missing = [f"`{n}`" for n in names if n in self.required and n not in keywords]
        return ("", f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing") if missing else None

    def __str__(self) -> str:
        if self.positional is None:
            return "..."
        return ", ".join((*self.positional, *("*",) * bool(self.keywords), *self.keywords))


NOTHING, NO_ARRAY, A_LIST = 0, -1, -2  # numbers of values


def signature(node: ast.FunctionDef) -> Signature:
    """Return what a definition shows. A decorator may change everything."""
    a = node.args
    if node.decorator_list:
        return Signature()
    parameters = (*a.posonlyargs, *a.args)
    defaults = dict(zip(reversed(parameters), reversed(a.defaults), strict=False))
    defaults |= {p: d for p, d in zip(a.kwonlyargs, a.kw_defaults, strict=True) if d is not None}
    words = {p.arg: frozenset(_type_words(p.annotation)) for p in (*parameters, *a.kwonlyargs) if p.annotation}
    for p, default in defaults.items():
        if p.arg in words and isinstance(default, ast.Constant) and default.value is None:
            words[p.arg] |= {"None"}
    required = frozenset(p.arg for p in (*parameters, *a.kwonlyargs) if p not in defaults)
    first, keywords = tuple(p.arg for p in parameters), tuple(p.arg for p in a.kwonlyargs)
    if a.vararg is not None or a.kwarg is not None:
        return Signature(first=first, required=required, words=words)
    return Signature(first, first, keywords, required, words, tuple(_results(node)))


def _type_words(node: ast.expr) -> Iterator[str]:
    """Yield the types of an annotation without their parameters, `list` and `None` for `list[int] | None`, and the
    values of a `Literal`, in quotes."""
    match node:
        case ast.Constant(value=str() as text):
            try:
                yield from _type_words(ast.parse(text, mode="eval").body)
            except SyntaxError:
                yield text
        case ast.BinOp(left=left, right=right):
            yield from (*_type_words(left), *_type_words(right))
        case ast.Subscript(value=ast.Name(id="Optional"), slice=inner):
            yield from (*_type_words(inner), "None")
        case ast.Subscript(value=ast.Name(id="Union"), slice=ast.Tuple(elts=items)):
            for item in items:
                yield from _type_words(item)
        case ast.Subscript(value=ast.Name(id="Literal"), slice=values):
            items = values.elts if isinstance(values, ast.Tuple) else [values]
            yield from (ast.unparse(item) for item in items)
        case ast.Subscript(value=inner):
            yield from _type_words(inner)
        case ast.Attribute(attr=name) | ast.Name(id=name):
            yield name
        case _:
            yield ast.unparse(node)


def _results(function: ast.FunctionDef) -> Iterator[tuple[int, int]]:
    inside = list(_own_nodes(function.body))
    if any(isinstance(node, ast.Yield | ast.YieldFrom) for node in inside):
        return
    if not _ends(function.body):
        yield function.lineno, NOTHING
    for node in inside:
        if isinstance(node, ast.Return):
            for count in _counts(node.value):
                yield node.lineno, count


def _own_nodes(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield nodes and their parts in their order, without those of functions and classes defined in them."""
    left = [*nodes][::-1]
    while left:
        node = left.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            left += [*ast.iter_child_nodes(node)][::-1]


def _statements(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield statements and those inside them, of functions and classes, too, but no expressions."""
    left = [*body]
    while left:
        node = left.pop()
        yield node
        for field_ in ("body", "orelse", "finalbody", "handlers", "cases"):
            left += getattr(node, field_, ())


def _counts(value: ast.expr | None) -> Iterator[int]:
    match value:
        case None | ast.Constant(value=None):
            yield NOTHING
        case ast.IfExp(body=body, orelse=orelse):
            yield from (*_counts(body), *_counts(orelse))
        case ast.ListComp() | ast.GeneratorExp():
            yield A_LIST
        case ast.Tuple(elts=items) | ast.List(elts=items) if not any(isinstance(item, ast.Starred) for item in items):
            yield len(items)
        case ast.Dict() | ast.Set() | ast.Lambda() | ast.JoinedStr() | ast.Constant(value=str() | bytes()):
            yield NO_ARRAY


def _ends(body: Sequence[ast.stmt]) -> bool:
    """Return whether control cannot leave a body at its end."""
    match body[-1] if body else None:
        case ast.Return() | ast.Raise() | ast.Continue():
            return True
        case ast.If(body=one, orelse=other):
            return _ends(one) and _ends(other)
        case ast.With(body=inner):
            return _ends(inner)
        case ast.While(test=ast.Constant(value=True)) as loop:
            return not any(isinstance(node, ast.Break) for node in _own_nodes(loop.body))
        case ast.For(orelse=orelse) | ast.While(orelse=orelse):
            return _ends(orelse)
        case ast.Try(body=inner, handlers=handlers, orelse=orelse, finalbody=final):
            return _ends(final) or (_ends(orelse or inner) and all(_ends(h.body) for h in handlers))
        case ast.Match(cases=cases):
            return all(_ends(c.body) for c in cases) and isinstance(cases[-1].pattern, ast.MatchAs)
    return False


def modules_in(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield (dotted name, path) for each module in a folder and in the packages there, sorted: `shape.views`."""
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        if path.suffix == ".py":
            yield path.stem, path
        elif (path / "__init__.py").is_file():
            for inner in sorted(path.glob("*.py")):
                yield (path.name if inner.stem == "__init__" else f"{path.name}.{inner.stem}"), inner


def families_in(folder: Path) -> frozenset[str]:
    """Return the families of a folder. See Note [Families]."""
    names = (name.partition(".")[0] for name, _ in modules_in(folder))
    return frozenset(name for name in names if not name.startswith("_"))


class FunctionIndex:
    """The functions of the families in a folder. None is no folder. See Note [Families].

    Files are parsed when a family is first used. A name is known if a file defines or assigns it at its top level and
    it does not start with an underscore; or, if no file of the family does, if one imports it from gradloom or by a
    relative import. Names imported from elsewhere (`math`, `os`) are not functions of the family.
    """

    def __init__(self, folder: Path | None, name: str = "") -> None:
        self.folder = folder
        self.name = name or (folder.name if folder is not None else "")
        self._functions: dict[str, dict[str, Signature]] = {}
        self._modules: dict[str, dict[str, list[str]]] = {}  # family -> function -> the modules that have it

    @cached_property
    def families(self) -> tuple[str, ...]:
        """The names of the files and folders, sorted."""
        return () if self.folder is None else tuple(sorted(families_in(self.folder)))

    def functions(self, family: str) -> dict[str, Signature]:
        """Return the names in a family; none if there is no such family. Raises SyntaxError for an invalid file."""
        if family not in self._functions:
            self._read(family)
        return self._functions[family]

    def module(self, family: str, function: str) -> str:
        """Return the module of a function that `explain` finds, from the folder: `activation.softmax`."""
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
        """Return None if `family.function` exists; else (the word at fault: 'family' or 'function', message, hint)."""
        name = self.name
        if family not in self.families:
            hint = did_you_mean(family, self.families) or self._elsewhere(function) or (
                f"add it as {name}/{family}.py, or name one of: {', '.join(self.families)}"
            )  # fmt: skip
            return "family", f"there is no family `{family}` in {name}/", hint
        try:
            functions = self.functions(family)
        except SyntaxError as error:
            file = Path(str(error.filename)).relative_to(self.folder) if self.folder is not None else ""
            return ("family", f"{name}/{file} is not Python: {error.msg} in line {error.lineno}", "fix that file")
        modules = self._modules[family].get(function, ())
        if len(modules) > 1:
            files = " and ".join(f"{name}/{module.replace('.', '/')}.py" for module in modules)
            return "function", f"`{function}` is defined twice: in {files}", "rename one, or remove it"
        if modules:
            return None
        place = self._place(family)
        hint = did_you_mean(function, functions) or self._elsewhere(function) or f"define it in {place}"
        return "function", f"there is no function `{function}` in {place}", hint

    def find(self, function: str) -> tuple[str, ...]:
        """Return the families that have a function of that name."""
        found = []
        for family in self.families:
            try:
                if function in self.functions(family):
                    found.append(family)
            except SyntaxError:
                continue
        return tuple(found)

    def _place(self, family: str) -> str:
        """Return the file or folder of a family, for messages."""
        is_folder = self.folder is not None and (self.folder / family).is_dir()
        return f"{self.name}/{family}/" if is_folder else f"{self.name}/{family}.py"

    def _elsewhere(self, function: str) -> str:
        found = self.find(function)
        return f"did you mean `{found[0]}.{function}`?" if found else ""


class GivenFunctions(FunctionIndex):
    """Functions given at run time, all in one family."""

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
    """Return the names that a file defines or assigns at its top level, and those that it imports from gradloom."""
    names: dict[str, Signature] = {}
    imported: list[str] = []
    for node in ast.parse(path.read_text(encoding="utf-8"), path).body:
        if isinstance(node, ast.FunctionDef):
            names[node.name] = signature(node)
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
