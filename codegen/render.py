"""Renders the generated package from the analysed YAML: facts in, text of files out. Nothing is written here.

    files = render(derivatives)          # {'functions/elementwise.py': '...', ...}
    files = render_package(specification)

Every family has a file of nodes (functions/) and one of wrappers (variable_type/); `namespaces.py` says under which
names people reach them. Templates print; what they need to know is decided in node_classes.py and wrappers.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from pathlib import Path

from .batching import table as batching_table
from .derivative_model import DifferentiableFunction
from .derivatives import Derivatives
from .docstrings import docstring
from .errors import SpecError, raise_all
from .node_classes import NodeClass
from .notation import Notation
from .overload_table import overload_table
from .public_names import PublicName, chosen_from, public_names
from .reserved import check_kernel_schema
from .specification import Specification, base
from .stubs import package_stubs, render_stubs
from .target import Target, own
from .templating import fill as _template
from .wrapper_parts import module_alias
from .wrappers import Wrapper, make_wrappers

__all__ = ["render", "render_package"]


def render_package(specification: Specification) -> dict[str, str]:
    """The text of every generated file of a target, by path within its generated package."""
    target = specification.target
    files = render(specification.derivatives, target.source if target.is_own else None, target)
    if target.is_own:
        return files
    files["__init__.py"] = _template("registered.py.jinja", target=target, version=_version())
    files["operators.py"] = _template(
        "package.py.jinja", target=target, what="The operators of the package, by name: bound when it is registered."
    )
    if specification.overrides:
        files |= _overrides(specification)
    return files


def _overrides(specification: Specification) -> dict[str, str]:
    """New wrappers for operators of gradloom's, with the code of the old ones but for their derivatives."""
    target = specification.target
    theirs = _own_wrappers()
    notation = _notation(target)
    wrappers = [
        replace(
            theirs[f.name], doc=docstring(f, notation), info=f.info, strategy=f.strategy, replacement=target.overrides
        )
        for f in specification.overrides
    ]
    infos = {w.info.node: w.info for w in wrappers if w.info is not None and w.info.node is not None}
    helpers = _by_module(h for w in wrappers if w.info is not None for h in w.info.forward_helpers)
    files = {
        "overrides.py": _template(
            "overrides.py.jinja", target=target, wrappers=wrappers, helpers=helpers, nodes=sorted(infos)
        )
    }
    if infos:
        nodes = [NodeClass(info) for info in infos.values()]
        files["functions/overrides.py"] = _functions("overridden", nodes, target)
    return files


@cache
def _version() -> str:
    return version("gradloom")


@cache
def _own_wrappers() -> dict[str, Wrapper]:
    """The wrappers of gradloom's operators, by full name."""
    return {w.name: w for w in make_all(_with_wrapper(base().derivatives()), None)}


def _with_wrapper(derivatives: Iterable[DifferentiableFunction]) -> list[DifferentiableFunction]:
    """The operators and variants that have a wrapper of their own."""
    return [f for f in derivatives if f.variant is None or f.variant.kind in ("inplace", "copy")]


def _notation(target: Target) -> Notation:
    """What writes the derivatives of a target, with the helpers that its formulas may call."""
    if target.source is None:
        return _notation_in_memory()
    sources = (None if target.is_own else own().source, target.source)
    return Notation(*(source / "formulas" for source in sources if source is not None))


@cache
def _notation_in_memory() -> Notation:
    """The same where only gradloom has helpers in files."""
    source = own().source
    assert source is not None
    return Notation(source / "formulas")


def render(derivatives: Derivatives, package: Path | None = None, target: Target | None = None) -> dict[str, str]:
    """The text of every generated file, by path within the package.

    Args:
        package: the folder of the hand-written library; with it, type stubs are among the files, and docstrings
            write out what short helpers do.
        target: what is generated for; gradloom by default.
    """
    joined = _with_wrapper(derivatives)
    if target is not None and not target.is_own:
        notation = _notation(target)
    else:
        target, notation = target or own(), Notation(*([package / "formulas"] if package is not None else []))
    wrappers = make_all(joined, notation, target)
    families = sorted({w.native.family for w in wrappers})
    files = {
        name: _template("package.py.jinja", what=what, target=target)
        for name, what in (
            ("__init__.py", "The generated library."),
            ("functions/__init__.py", "Backward nodes, by family."),
            ("variable_type/__init__.py", "Wrappers, by family."),
            ("redispatch/__init__.py", "Wrappers around kernels that are given, by family."),
        )
    }
    nodes_of = _nodes_by_family(derivatives, joined, families)
    for family in families:
        mine = [w for w in wrappers if w.native.family == family]
        nodes = nodes_of[family]
        if nodes:
            files[f"functions/{family}.py"] = _functions(family, nodes, target)
        files[f"variable_type/{family}.py"] = _variable_type(family, mine, target)
        files[f"redispatch/{family}.py"] = _redispatch(family, mine, target)
    names = public_names(wrappers)
    files["namespaces.py"] = _namespaces(families, wrappers, names, target)
    files["overloads.py"] = _template("overloads.py.jinja", operators=overload_table(wrappers), target=target)
    files["batching.py"] = _template("batching.py.jinja", operators=batching_table(wrappers), target=target)
    if package is not None:
        files |= render_stubs(names, package, _template)
    elif target.source is not None and not target.is_own:
        files |= package_stubs(names, target, _template)
    return files


def make_all(
    joined: Sequence[DifferentiableFunction], notation: Notation | None, target: Target | None = None
) -> list[Wrapper]:
    """The wrappers of all operators, in the order of the file."""
    groups: dict[str, list[DifferentiableFunction]] = {}
    for f in joined:
        groups.setdefault(f.schema.name.name, []).append(f)
    single = {
        id(group[0])
        for group in (chosen_from(fs, lambda f: f.function.variants) for fs in groups.values())
        if len(group) == 1
    }
    wrappers = [
        make_wrappers(f, id(f) in single, set(groups), docstring(f, notation) if notation is not None else "", target)
        for f in joined
    ]
    _check(wrappers)
    return wrappers


def _check(wrappers: Iterable[Wrapper]) -> None:
    """Refuses operators that code cannot be generated for, and two that would be one name in it, as `add.Tensor` and
    `add_Tensor` would be.

    Raises:
        SpecError: at the operator; of two, at the second.
    """
    errors: list[SpecError] = []
    taken: dict[tuple[str, str], Wrapper] = {}
    for w in wrappers:
        if w.native.kernel is not None:
            check_kernel_schema(w.native.text, w.native.schema)
        family = w.native.family
        names = [("", w.own_name), *((family, n) for n in {w.function, w.itself, w.guard, w.node} if n)]
        if w.result_class is not None:
            other = taken.setdefault((family, w.result_class), w)
            if [r.name for r in other.schema.returns] != [r.name for r in w.schema.returns]:
                names.append((family, w.result_class))
        for key in names:
            other = taken.setdefault(key, w)
            if other is not w and not (key[1] == w.node == other.node):
                message = f"`{w.name}` would be called `{key[1]}` in generated code, which is what `{other.name}` gives"
                errors.append(
                    w.native.text.error(
                        message, "choose another name, or another overload name", 0, len(str(w.native.schema.name))
                    )
                )
                break
    raise_all(errors)


def _nodes_by_family(
    derivatives: Derivatives, joined: Iterable[DifferentiableFunction], families: Iterable[str]
) -> dict[str, list[NodeClass]]:
    """Node classes go to the family of the operator that their entry names."""
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


def _functions(family: str, nodes: Sequence[NodeClass], target: Target) -> str:
    helpers = _by_module(h for n in nodes for h in n.info.helpers)
    return _template("functions.py.jinja", family=family, nodes=nodes, helpers=helpers, target=target)


def _variable_type(family: str, wrappers: Sequence[Wrapper], target: Target) -> str:
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
    return _template(
        "variable_type.py.jinja",
        family=family,
        wrappers=wrappers,
        implementations=implementations,
        helpers=helpers,
        nodes=nodes,
        return_types=return_types,
        autocast=[w for w in wrappers if w.autocast],
        target=target,
    )


def _aliases(room: str, modules: Iterable[str], target: Target) -> list[tuple[str, list[tuple[str, str]]]]:
    """(package, [(module in it, its name in generated code)]) for the modules of kernels or composites."""
    found: dict[str, list[tuple[str, str]]] = {}
    for module in sorted(modules):
        folder, _, name = f"{target.package}.{room}.{module}".rpartition(".")
        found.setdefault(folder, []).append((name, module_alias(room, module)))
    return list(found.items())


def _redispatch(family: str, wrappers: Sequence[Wrapper], target: Target) -> str:
    """Those that make a composite operator are not there: its parts are intercepted."""
    recorded = [w for w in wrappers if not w.composite]
    helpers = _by_module(h for w in recorded if w.info is not None for h in w.info.forward_helpers)
    nodes = sorted({w.node for w in recorded if w.node is not None})
    results = sorted({w.result_class for w in recorded if w.result_class})
    return _template(
        "redispatch.py.jinja",
        family=family,
        wrappers=recorded,
        helpers=helpers,
        nodes=nodes,
        results=results,
        target=target,
    )


def _by_module(helpers: Iterable[tuple[str, str]]) -> list[tuple[str, list[str]]]:
    """Helpers by the whole name of their module."""
    found: dict[str, set[str]] = {}
    for module, name in helpers:
        found.setdefault(module if "." in module else f"gradloom.formulas.{module}", set()).add(name)
    return [(module, sorted(names)) for module, names in sorted(found.items())]


def _namespaces(
    families: Sequence[str], wrappers: Sequence[Wrapper], public: Sequence[PublicName], target: Target
) -> str:
    modules: dict[str, list[tuple[str, str]]] = {}
    for n in public:
        if n.module and n.is_function:
            modules.setdefault(n.module, []).append((n.short, n.name))
    return _template(
        "namespaces.py.jinja",
        families=families,
        names=public,
        wrappers=wrappers,
        modules=sorted(modules.items()),
        target=target,
    )
