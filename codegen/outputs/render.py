"""Render the generated package from the analysed YAML: facts in, text of files out. Nothing is written here.

    files = generated_files(target)            # {'functions/elementwise.py': '...', ...}
    files = render_package(specification)

Every family has a file of nodes (functions/), one of wrappers (variable_type/) and one of their public names
(namespaces/), and one of the records of its operators (records/). Templates hold all emitted text; earlier stages make
all decisions. records.py makes the records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from textwrap import fill as fill_lines
from typing import Any

from ..derivatives.derivatives import Derivatives
from ..derivatives.entries import DERIVED
from ..derivatives.model import DifferentiableFunction
from ..derivatives.specification import Specification, base
from ..language.kernels import OF_GRADLOOM
from ..memo import Memo, digest
from ..notation.equations import Notation, docstring
from ..operators.model import NativeFunctions
from ..target import Target, own
from ..wrappers.calls import module_alias
from ..wrappers.wrappers import NodeClass, PublicName, Wrapper, make_all, public_names
from .records import Record, Records, gradient_table, operators_of_families, records_on_lists
from .stubs import package_stubs, render_stubs

TEMPLATES = Path(__file__).parents[1] / "templates"
DEBUG = "debug"  # the folder of nodes and wrappers with assertions, in a generated package


@cache
def templates() -> Any:
    """Return the environment of the templates. Jinja is loaded when one is first filled in."""
    import jinja2
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Environment(ImmutableSandboxedEnvironment):
        """A sandbox that decides once about each attribute of a class."""

        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self._decided: dict[tuple[type, str], bool] = {}

        def is_safe_attribute(self, obj: object, attr: str, value: object) -> bool:
            key = (type(obj), attr)
            decided = self._decided.get(key)
            if decided is None:
                decided = self._decided[key] = super().is_safe_attribute(obj, attr, value)
            return decided

    # Printed text is never read as a template; the sandbox protects users who replace a template.
    found = Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    found.filters |= {"lines": _lines, "docstring": _docstring, "repr": repr, "words": _words}
    return found


@contextmanager
def bytecode_kept(memo: Memo, key: bytes) -> Iterator[None]:
    """Keep the compiled templates in a memo during the block; `key` is the digest of what they follow from."""
    from jinja2 import BytecodeCache
    from jinja2.bccache import Bucket

    class Kept(BytecodeCache):
        def load_bytecode(self, bucket: Bucket) -> None:
            found = memo.find(digest("template", key, bucket.key))
            if found is not None:
                bucket.bytecode_from_string(found)

        def dump_bytecode(self, bucket: Bucket) -> None:
            memo.set(digest("template", key, bucket.key), bucket.bytecode_to_string())

    before, templates().bytecode_cache = templates().bytecode_cache, Kept()
    try:
        yield
    finally:
        templates().bytecode_cache = before


def fill(name: str, macro: str | None = None, /, **facts: object) -> str:
    """Fill a template, or one macro of it, in with these facts."""
    template = templates().get_template(name)
    return template.render(**facts) if macro is None else str(getattr(template.module, macro)(**facts))


def _lines(text: str, spaces: int) -> str:
    """Indent the lines of a part of a template, except blank ones."""
    return "".join(f"{' ' * spaces}{line}\n" for line in text.splitlines() if line.strip())


def _words(words: Iterable[str], spaces: int = 0, end: str = "") -> str:
    """Return indented lines with these words, each followed by `end`. A word may have spaces."""
    indent = " " * spaces
    text = " ".join(f"{word}{end}".replace(" ", "\0") for word in words)
    lines = fill_lines(text, 120, initial_indent=indent, subsequent_indent=indent, break_long_words=False)
    return lines.replace("\0", " ")


def _docstring(text: str) -> str:
    """Escape text for a docstring in triple double quotes."""
    text = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return text + " " if text.endswith('"') else text


def render_package(specification: Specification, debug: bool = False, parts: Parts | None = None) -> dict[str, str]:
    """Return the text of every generated file of a target, by path within its generated package. With `debug`, debug/
    has nodes and wrappers with assertions; see gradloom.diagnostics.debug_checks. `parts` renders the parts of the
    files."""
    target = specification.target
    package = target.source if target.is_own else None
    files = render(specification.derivatives, package, target, debug, parts, specification.functions)
    if specification.derived:
        files[DERIVED] = specification.derived
    if target.is_own:
        return files
    files["__init__.py"] = fill("package.jinja", "registered", target=target, version=_version())
    files["operators.py"] = fill(
        "package.jinja",
        "docstring_only",
        target=target,
        what="The operators of the package, by name: bound when it is registered.",
    )
    if specification.overrides:
        files |= _overrides(specification)
        if debug:
            files |= _in_debug(_overrides(specification, debug))
    return files


def has_debug(target: Target) -> bool:
    """Return whether a target's generated package has nodes and wrappers with assertions."""
    return target.output is not None and (target.output / DEBUG).is_dir()


def _in_debug(files: Mapping[str, str]) -> dict[str, str]:
    return {f"{DEBUG}/{name}": text for name, text in files.items()}


class Parts:
    """Renders every part of the generated package. `Kept` in incremental.py leaves out what it has already."""

    def wrapper(self, function: DifferentiableFunction, w: Wrapper, make: Callable[[], str]) -> str:
        """Return the text of a wrapper."""
        return make()

    def node(self, node: NodeClass, debug: bool, make: Callable[[], str]) -> str:
        """Return the text of a node class."""
        return make()

    def family(
        self, name: str, wrappers: Sequence[Wrapper], nodes: Sequence[NodeClass], make: Callable[[], str]
    ) -> str:
        """Return the text of a file that follows from these wrappers and nodes of its family."""
        return make()

    def records(
        self, name: str, wrappers: Sequence[Wrapper], nodes: Sequence[NodeClass], make: Callable[[], str]
    ) -> str:
        """Return the text of the records of a family, which follow from the definitions of all operators, too."""
        return make()

    def declared(self, make: Callable[[], dict[str, str]]) -> dict[str, str]:
        """Return the files that follow from the declarations of the operators."""
        return make()


def _overrides(specification: Specification, debug: bool = False) -> dict[str, str]:
    """Render new wrappers for gradloom's operators that differ from the old ones in their derivatives only."""
    target = specification.target
    theirs = _own_wrappers()
    notation = _notation(target)
    wrappers = [
        replace(
            theirs[f.name],
            doc=docstring(f, notation),
            info=f.info,
            strategy=f.strategy,
            replacement=target.overrides,
            debug=debug,
        )
        for f in specification.overrides
    ]
    infos = {w.info.node: w.info for w in wrappers if w.info is not None and w.info.node is not None}
    helpers = _by_module(h for w in wrappers if w.info is not None for h in w.info.forward_helpers)
    files = {
        "overrides.py": fill(
            "wrappers.jinja", "overrides", target=target, wrappers=wrappers, helpers=helpers, nodes=sorted(infos)
        )
    }
    if infos:
        nodes = [NodeClass(info) for info in infos.values()]
        files["functions/overrides.py"] = _functions("overridden", nodes, target, debug, Parts())
    return files


@cache
def _version() -> str:
    from importlib.metadata import version  # which takes longer to import than the rest of a run that changes nothing

    return version("gradloom")


@cache
def _own_wrappers() -> dict[str, Wrapper]:
    """Return the wrappers of gradloom's operators, by full name."""
    return {w.name: w for w in make_all(_with_wrapper(base().derivatives()))}


def _with_wrapper(derivatives: Iterable[DifferentiableFunction]) -> list[DifferentiableFunction]:
    """Return the operators and variants that have their own wrapper."""
    return [f for f in derivatives if f.variant is None or f.variant.kind in ("inplace", "copy")]


def _notation(target: Target) -> Notation:
    """Return the notation for a target, with the helpers that its formulas may call."""
    if target.source is None:
        return _notation_in_memory()
    sources = (None if target.is_own else own().source, target.source)
    return Notation(*(source / "formulas" for source in sources if source is not None))


@cache
def _notation_in_memory() -> Notation:
    """Return the notation for operators in memory: only gradloom has helpers in files."""
    source = own().source
    assert source is not None
    return Notation(source / "formulas")


def render(
    derivatives: Derivatives,
    package: Path | None = None,
    target: Target | None = None,
    debug: bool = False,
    parts: Parts | None = None,
    functions: NativeFunctions | None = None,
) -> dict[str, str]:
    """Return the text of every generated file, by path within the package. With the folder of the hand-written library,
    `package`, stubs are rendered, and docstrings write short helpers out. With `debug`, debug/ has nodes and wrappers
    with assertions. `parts` renders the parts of the files; `functions` has the operators on lists."""
    parts = parts or Parts()
    joined = _with_wrapper(derivatives)
    if target is not None and not target.is_own:
        notation = _notation(target)
    else:
        target, notation = target or own(), Notation(*([package / "formulas"] if package is not None else []))
    wrappers = make_all(joined, target)
    families = sorted({w.native.family for w in wrappers})
    nodes_of = _nodes_by_family(derivatives, joined, families)
    writer = _Writer({w.name: f for w, f in zip(wrappers, joined, strict=True)}, notation, target, parts)
    files = writer.by_family(wrappers, nodes_of, False)
    if debug:
        files |= _in_debug(writer.by_family(wrappers, nodes_of, True))
    files |= _records(wrappers, nodes_of, target, parts)
    on_lists = records_on_lists(functions) if functions is not None else []
    return files | parts.declared(lambda: _declared(wrappers, on_lists, package, target, debug))


def _declared(
    wrappers: Sequence[Wrapper], on_lists: Sequence[Record], package: Path | None, target: Target, debug: bool
) -> dict[str, str]:
    """Return the files that follow from the declarations of the operators: names, stubs, and docstrings of packages."""
    # Without the definitions, so that no file can depend on them.
    declared = [replace(w, native=w.native.declaration, info=None) for w in wrappers]
    names = public_names(declared)
    nodes = fill("package.jinja", "docstring_only", what="Backward nodes, by family.", target=target)
    files = {
        "__init__.py": fill("package.jinja", "docstring_only", what="The generated library.", target=target),
        "functions/__init__.py": nodes,
        "variable_type/__init__.py": fill("package.jinja", "wrappers", target=target),
    }
    if debug:
        files |= _in_debug({name: files[name] for name in ("functions/__init__.py", "variable_type/__init__.py")})
    files |= _namespaces(sorted({w.native.family for w in declared}), declared, names, target)
    operators = operators_of_families(declared)
    files["records/__init__.py"] = fill("package.jinja", "records", operators=operators, target=target)
    if on_lists:
        files["records/lists.py"] = fill(
            "package.jinja", "records_of_family", family="lists", records=on_lists, gradients=[], target=target
        )
    if package is not None:
        files |= render_stubs(names, package, fill)
    elif target.source is not None and not target.is_own:
        files |= package_stubs(names, target, fill)
    return files


@dataclass(frozen=True, slots=True)
class _Writer:
    """Writes the two packages that have a file for each family."""

    functions: Mapping[str, DifferentiableFunction]  # by the name of the wrapper
    notation: Notation
    target: Target
    parts: Parts

    def by_family(
        self, wrappers: Iterable[Wrapper], nodes_of: Mapping[str, list[NodeClass]], debug: bool
    ) -> dict[str, str]:
        files = {}
        mine: dict[str, list[Wrapper]] = {}
        for w in wrappers:
            mine.setdefault(w.native.family, []).append(replace(w, debug=debug))
        for family, nodes in nodes_of.items():
            if nodes:
                files[f"functions/{family}.py"] = self.nodes(family, nodes, debug)
            files[f"variable_type/{family}.py"] = self.wrappers(family, mine[family], debug)
        return files

    def nodes(self, family: str, nodes: Sequence[NodeClass], debug: bool) -> str:
        name = f"{DEBUG if debug else ''}/functions/{family}.py".removeprefix("/")
        return self.parts.family(name, (), nodes, lambda: _functions(family, nodes, self.target, debug, self.parts))

    def wrappers(self, family: str, wrappers: Sequence[Wrapper], debug: bool) -> str:
        name = f"{DEBUG if debug else ''}/variable_type/{family}.py".removeprefix("/")
        return self.parts.family(name, wrappers, (), lambda: self._variable_type(family, wrappers, debug))

    def _wrapper(self, w: Wrapper) -> str:
        function = self.functions[w.name]

        def make() -> str:
            documented = replace(w, doc=docstring(function, self.notation))
            return fill("wrappers.jinja", "wrapper", w=documented)

        return self.parts.wrapper(function, w, make)

    def _variable_type(self, family: str, wrappers: Sequence[Wrapper], debug: bool) -> str:
        texts = [self._wrapper(w) for w in wrappers]
        return _variable_type(family, wrappers, texts, self.target, debug)


def _nodes_by_family(
    derivatives: Derivatives, joined: Iterable[DifferentiableFunction], families: Iterable[str]
) -> dict[str, list[NodeClass]]:
    """Return node classes by the family of the operator that their entry names."""
    family_of: dict[str, str] = {}
    for f in joined:
        for info in f.infos.values():
            if info.node is not None:
                family_of.setdefault(info.node, f.function.family)
    found: dict[str, list[NodeClass]] = {family: [] for family in families}
    for info in derivatives.infos:
        if info.node is not None and info.node in family_of and info.dispatch_key == "Default":
            found[family_of[info.node]].append(NodeClass(info))
    return found


def _functions(family: str, nodes: Sequence[NodeClass], target: Target, debug: bool, parts: Parts) -> str:
    helpers = _by_module(h for n in nodes for h in n.info.helpers)
    texts = [_node(n, debug, parts) for n in nodes]
    return fill("nodes.jinja", "functions", family=family, nodes=texts, helpers=helpers, target=target, debug=debug)


def _node(node: NodeClass, debug: bool, parts: Parts) -> str:
    return parts.node(node, debug, lambda: fill("nodes.jinja", "node_class", node=node, debug=debug))


def _variable_type(family: str, wrappers: Sequence[Wrapper], texts: Sequence[str], target: Target, debug: bool) -> str:
    kernels = {module for w in wrappers if w.native.kernel is not None for _, module in w.native.kernel.modules}
    composites = {w.native.composite_module for w in wrappers if w.native.composite_module is not None}
    implementations = [*_aliases("kernels", kernels, target), *_aliases("composite", composites, target)]
    helpers = _by_module(h for w in wrappers if w.info is not None for h in w.info.forward_helpers)
    nodes = sorted({w.node for w in wrappers if w.node is not None})
    results = {w.result_class: w for w in wrappers if w.result_class}
    return_types = [
        {"name": name, "title": w.python_name, "fields": [r.name for r in w.schema.returns]}
        for name, w in results.items()
    ]
    return fill(
        "wrappers.jinja",
        "variable_type",
        family=family,
        wrappers=texts,
        implementations=implementations,
        helpers=helpers,
        nodes=nodes,
        return_types=return_types,
        autocast=[w for w in wrappers if w.autocast],
        target=target,
        debug=debug,
    )


def _aliases(folder_name: str, modules: Iterable[str], target: Target) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return (package, [(module in it, its name in generated code)]) for the modules of kernels or composites."""
    found: dict[str, list[tuple[str, str]]] = {}
    for module in sorted(modules):
        whole = f"{target.package}.{folder_name}.{module}"
        if module.startswith(OF_GRADLOOM):
            whole = f"gradloom.{folder_name}.{module.removeprefix(OF_GRADLOOM)}"
        package, _, name = whole.rpartition(".")
        found.setdefault(package, []).append((name, module_alias(folder_name, module)))
    return list(found.items())


def _by_module(helpers: Iterable[tuple[str, str]]) -> list[tuple[str, list[str]]]:
    """Return helpers by their module."""
    found: dict[str, set[str]] = {}
    for module, name in helpers:
        found.setdefault(module, set()).add(name)
    return [(module, sorted(names)) for module, names in sorted(found.items())]


def _namespaces(
    families: Sequence[str], wrappers: Sequence[Wrapper], public: Sequence[PublicName], target: Target
) -> dict[str, str]:
    """Return the package that has a file of names for each family."""
    modules: dict[str, list[tuple[str, str]]] = {}
    for n in public:
        if n.module and n.is_function:
            modules.setdefault(n.module, []).append((n.short, n.name))
    in_order = sorted(public, key=lambda n: n.direct is None)  # as the modules of families have them
    results = sorted({(w.python_name, w.native.family) for w in wrappers if w.result_class})
    files = {
        "namespaces/__init__.py": fill(
            "package.jinja",
            "namespaces",
            names=public,
            overloads=_by_family((w.native.family, w.own_name) for w in wrappers),
            parsed=_by_family((n.family, n.name) for n in public if not n.direct),
            direct=_by_family((n.family, n.name) for n in public if n.direct),
            methods=_by_family((n.family, n.name) for n in in_order if n.is_method),
            results=_by_family((family, name) for name, family in results),
            modules=sorted(modules.items()),
            target=target,
        )
    }
    for family in families:
        names = [n for n in public if n.family == family]
        direct = [(n, n.direct) for n in names if n.direct is not None]
        parsed = [n for n in names if n.direct is None]
        files[f"namespaces/{family}.py"] = fill(
            "package.jinja",
            "names_of_family",
            family=family,
            families=sorted({family, *(w.native.family for n in names for w in n.wrappers)}),
            overloads=[_assigned(w.own_name, w.function) for w in wrappers if w.native.family == family],
            parsed=parsed,
            guards=[f"{n.name}={w.guard}" for n, w in direct],
            direct=[_assigned(n.name, w.function) for n, w in direct],
            methods=[_assigned(n.name, w.function) for n, w in direct if n.is_method],
            parsed_methods=[_method(n) for n in parsed if n.is_method],
            target=target,
        )
    return files


def _by_family(names: Iterable[tuple[str, str]]) -> list[tuple[str, list[str]]]:
    """Return the names of each family."""
    found: dict[str, list[str]] = {}
    for family, name in names:
        found.setdefault(family, []).append(name)
    return list(found.items())


def _assigned(name: str, function: str) -> str:
    return name if name == function else f"{name}={function}"


def _method(name: PublicName) -> str:
    """Return the word for a method with several overloads: Note [Families] in gradloom.dispatch.families."""
    chosen = name.method_entries
    return name.name if len(chosen) == len(name.wrappers) else f"{name.name}={','.join(map(str, chosen))}"


def _records(
    wrappers: Sequence[Wrapper], nodes_of: Mapping[str, list[NodeClass]], target: Target, parts: Parts
) -> dict[str, str]:
    """Return a file of records for each family."""

    @cache
    def records() -> Records:
        return Records(wrappers, target.is_own)

    def make(family: str) -> str:
        # The compiler fuses gradloom's own operators.
        gradients = gradient_table({family: nodes_of[family]}, wrappers) if target.is_own else {}
        return fill(
            "package.jinja",
            "records_of_family",
            family=family,
            records=records().of(family),
            gradients=gradients.get(family, []),
            target=target,
        )

    files = {}
    for family, nodes in nodes_of.items():
        mine = [w for w in wrappers if w.native.family == family]
        name = f"records/{family}.py"
        files[name] = parts.records(name, mine, nodes, partial(make, family))
    return files


def shown(target: Target, name: str) -> str:
    """Return the path of a YAML file for messages: relative to the current folder if inside it, as editors expect."""
    path = target.path(name)
    return name if target.is_own or not path.is_relative_to(Path.cwd()) else str(path.relative_to(Path.cwd()))


def generated_files(target: Target, debug: bool = False) -> dict[str, str]:
    """Run all stages: return the generated files of a target, with `debug` those of debug/, too."""
    from ..derivatives.specification import load

    return render_package(load(target, lambda name: shown(target, name)), debug)
