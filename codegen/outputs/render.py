"""Render the generated package from the analysed YAML: facts in, text of files out. Nothing is written here.

    files = generated_files(target)            # {'functions/elementwise.py': '...', ...}
    files = render_package(specification)

Every family has a file of nodes (functions/), one of wrappers (variable_type/) and one of their public names
(namespaces/). Templates hold all emitted text; earlier stages make all decisions. Two tables are made here: the
overloads of gradloom.ops (`overload_table`) and the operators' batching rules (`batching_table`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from ..derivatives.derivatives import Derivatives
from ..derivatives.model import DifferentiableFunction
from ..derivatives.specification import Specification, base
from ..language.scalars import is_worth_code
from ..notation.equations import Notation, docstring
from ..operators.keys import Batch
from ..operators.native_functions import NativeFunction
from ..schema import Base, FunctionSchema
from ..target import Target, own
from ..wrappers.calls import module_alias
from ..wrappers.wrappers import NodeClass, PublicName, Wrapper, make_all, public_names
from .stubs import package_stubs, render_stubs

TEMPLATES = Path(__file__).parents[1] / "templates"
DEBUG = "debug"  # the folder of nodes and wrappers with assertions, in a generated package


class _Environment(ImmutableSandboxedEnvironment):
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
_ENVIRONMENT = _Environment(
    loader=jinja2.FileSystemLoader(TEMPLATES),
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)


def fill(name: str, macro: str | None = None, /, **facts: object) -> str:
    """Fill a template, or one macro of it, in with these facts."""
    template = _ENVIRONMENT.get_template(name)
    return template.render(**facts) if macro is None else str(getattr(template.module, macro)(**facts))


def _lines(text: str, spaces: int) -> str:
    """Indent the lines of a part of a template, except blank ones."""
    return "".join(f"{' ' * spaces}{line}\n" for line in text.splitlines() if line.strip())


def _docstring(text: str) -> str:
    """Escape text for a docstring in triple double quotes."""
    text = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return text + " " if text.endswith('"') else text


_ENVIRONMENT.filters["lines"] = _lines
_ENVIRONMENT.filters["docstring"] = _docstring
_ENVIRONMENT.filters["repr"] = repr


def render_package(specification: Specification, debug: bool = False) -> dict[str, str]:
    """Return the text of every generated file of a target, by path within its generated package. With `debug`, debug/
    has nodes and wrappers with assertions; see gradloom.core.debug_checks."""
    target = specification.target
    files = render(specification.derivatives, target.source if target.is_own else None, target, debug)
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
        files["functions/overrides.py"] = _functions("overridden", nodes, target, debug)
    return files


@cache
def _version() -> str:
    return version("gradloom")


@cache
def _own_wrappers() -> dict[str, Wrapper]:
    """Return the wrappers of gradloom's operators, by full name."""
    return {w.name: w for w in make_all(_with_wrapper(base().derivatives()), None)}


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
    derivatives: Derivatives, package: Path | None = None, target: Target | None = None, debug: bool = False
) -> dict[str, str]:
    """Return the text of every generated file, by path within the package. With the folder of the hand-written library,
    `package`, stubs are rendered, and docstrings write short helpers out. With `debug`, debug/ has nodes and wrappers
    with assertions."""
    joined = _with_wrapper(derivatives)
    if target is not None and not target.is_own:
        notation = _notation(target)
    else:
        target, notation = target or own(), Notation(*([package / "formulas"] if package is not None else []))
    wrappers = make_all(joined, notation, target)
    families = sorted({w.native.family for w in wrappers})
    nodes_of = _nodes_by_family(derivatives, joined, families)
    files = _by_family(wrappers, nodes_of, target, False)
    if debug:
        files |= _in_debug(_by_family(wrappers, nodes_of, target, True))
    files["__init__.py"] = fill("package.jinja", "docstring_only", what="The generated library.", target=target)
    names = public_names(wrappers)
    files |= _namespaces(families, wrappers, names, target)
    files["overloads.py"] = fill("package.jinja", "overloads", operators=overload_table(wrappers), target=target)
    files["batching.py"] = fill("package.jinja", "batching", operators=batching_table(wrappers), target=target)
    if target.is_own:  # the compiler fuses gradloom's own operators
        tables = {
            "operators": scalar_table(wrappers),
            "rows": row_table(wrappers),
            "kernels": defined_kernels(wrappers),
        }
        files["scalars.py"] = fill("package.jinja", "scalars", **tables, target=target)
    if package is not None:
        files |= render_stubs(names, package, fill)
    elif target.source is not None and not target.is_own:
        files |= package_stubs(names, target, fill)
    return files


def _by_family(
    wrappers: Iterable[Wrapper], nodes_of: Mapping[str, list[NodeClass]], target: Target, debug: bool
) -> dict[str, str]:
    """Return the two packages that have a file for each family."""
    files = {
        name: fill("package.jinja", "docstring_only", what=what, target=target)
        for name, what in (
            ("functions/__init__.py", "Backward nodes, by family."),
            ("variable_type/__init__.py", "Wrappers, by family."),
        )
    }
    for family, nodes in nodes_of.items():
        mine = [replace(w, debug=debug) for w in wrappers if w.native.family == family]
        if nodes:
            files[f"functions/{family}.py"] = _functions(family, nodes, target, debug)
        files[f"variable_type/{family}.py"] = _variable_type(family, mine, target, debug)
    return files


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


def _functions(family: str, nodes: Sequence[NodeClass], target: Target, debug: bool) -> str:
    helpers = _by_module(h for n in nodes for h in n.info.helpers)
    return fill("nodes.jinja", "functions", family=family, nodes=nodes, helpers=helpers, target=target, debug=debug)


def _variable_type(family: str, wrappers: Sequence[Wrapper], target: Target, debug: bool) -> str:
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
        wrappers=wrappers,
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
        package, _, name = f"{target.package}.{folder_name}.{module}".rpartition(".")
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
    results = {w.python_name: w.native.family for w in wrappers if w.result_class}
    files = {
        "namespaces/__init__.py": fill(
            "package.jinja",
            "namespaces",
            names=public,
            wrappers=wrappers,
            results=sorted(results.items()),
            modules=sorted(modules.items()),
            by_values=_by_values(wrappers),
            target=target,
        )
    }
    for family in families:
        names = [n for n in public if n.family == family]
        files[f"namespaces/{family}.py"] = fill(
            "package.jinja",
            "names_of_family",
            family=family,
            families=sorted({family, *(w.native.family for n in names for w in n.wrappers)}),
            names=names,
            wrappers=[w for w in wrappers if w.native.family == family],
            target=target,
        )
    return files


def shown(target: Target, name: str) -> str:
    """Return the path of a YAML file for messages: relative to the current folder if inside it, as editors expect."""
    path = target.path(name)
    return name if target.is_own or not path.is_relative_to(Path.cwd()) else str(path.relative_to(Path.cwd()))


def generated_files(target: Target, debug: bool = False) -> dict[str, str]:
    """Run all stages: return the generated files of a target, with `debug` those of debug/, too."""
    from ..derivatives.specification import load

    return render_package(load(target, lambda name: shown(target, name)), debug)


@dataclass(frozen=True, slots=True)
class Row:
    """One overload."""

    overload: str  # its name, `default` for the one without
    wrapper: str  # the unambiguous name of its wrapper
    schema: str  # its schema as Python source
    tags: str  # tags, numbers: separated by spaces
    numbers: str  # the tensor arguments that may be a Python number
    made_by: str  # `kernel` or `composite`


SCALAR = Base("Scalar")
# The tag of a derived variant; `core` is dropped, since other operators are not made of variants.
_VARIANT_TAGS = {"inplace": "inplace", "out": "out"}


def _by_values(wrappers: Iterable[Wrapper]) -> list[str]:
    """Return the overloads, `nonzero.default`, that have a shape or a value which depends on values."""
    tags = {"dynamic_output_shape", "data_dependent_output"}
    return [
        f"{name}.{row.overload}"
        for name, rows in overload_table(wrappers)
        for row in rows
        if tags & {*row.tags.split()}
    ]


def overload_table(wrappers: Iterable[Wrapper]) -> list[tuple[str, list[Row]]]:
    """Return the overloads of each operator; out variants follow the overloads that return a new result."""
    functional: dict[str, list[Row]] = {}
    out: dict[str, list[Row]] = {}
    for w in wrappers:
        name = w.schema.name.name
        functional.setdefault(name, []).extend(_row(w, schema) for schema in _with_numbers(w, w.schema))
        kind = "copy_out" if w.kind == "copy" else "out"
        for variant in w.native.derived if w.has_out else ():
            if variant.kind == kind:
                schemas = _with_numbers(w, w.schema)[1:]
                out.setdefault(name, []).extend(_row(w, s) for s in (variant.schema, *(s.as_out() for s in schemas)))
    return [(name, rows + out.get(name, [])) for name, rows in sorted(functional.items())]


def _with_numbers(w: Wrapper, schema: FunctionSchema) -> tuple[FunctionSchema, ...]:
    """Return the schema, and the one with a number as second argument if that is a separate overload."""
    if w.native.number_overload is None:
        return (schema,)
    first, second, *others = schema.arguments
    name = replace(schema.name, overload=w.native.number_overload)
    return schema, FunctionSchema(name, (first, replace(second, type=SCALAR), *others), schema.returns)


def _row(w: Wrapper, schema: FunctionSchema) -> Row:
    own = _VARIANT_TAGS.get(schema.kind)
    tags = sorted({*w.native.tags, own} - {"core"} if own else w.native.tags)
    numbers = " ".join(p.argument.name for p in w.parameters if p.number)
    return Row(
        schema.name.overload or "default",
        w.own_name,
        repr(str(schema)),
        " ".join(tags),
        numbers,
        "composite" if w.composite else "kernel",
    )


@dataclass(frozen=True, slots=True)
class ScalarOperator:
    """One line of generated/scalars.py."""

    name: str
    definition: str
    parameters: str
    promotion: str
    promotes: str
    half_numbers: str


def scalar_table(wrappers: Collection[Wrapper]) -> list[ScalarOperator]:
    """Return the definition of every functional pointwise operator that has one."""
    return [
        ScalarOperator(
            w.name,
            w.native.scalar.source,
            ", ".join(a.python_name for a in w.schema.inputs),
            w.native.type_promotion or "none",
            ", ".join(p.argument.python_name for p in w.promotes),
            w.native.half_numbers or "",
        )
        for w in wrappers
        if w.native.scalar is not None and w.native.schema is w.schema
    ]


@dataclass(frozen=True, slots=True)
class DefinedKernel:
    """A kernel of several calls of NumPy that a definition describes."""

    function: str
    operator: str
    arrays: tuple[int, ...]  # the places of tensors among its parameters


def defined_kernels(wrappers: Collection[Wrapper]) -> list[tuple[str, list[DefinedKernel]]]:
    """Return the kernels, by module, that machine code can replace. Where overloads share one, that with most tensors
    describes it; tensors that are optional do not count."""
    found: dict[tuple[str, str], DefinedKernel] = {}
    for w in wrappers:
        native, kernel = w.native, w.native.kernel
        if native.scalar is None or kernel is None or native.schema is not w.schema:
            continue
        if not is_worth_code(native.scalar):
            continue
        if native.has_made_kernel:
            place = f"generated.variable_type.{native.family}", native.made_name
        elif kernel.kind == "named":
            place = f"kernels.{kernel.modules[0][1]}", kernel.source.partition(".")[2]
        else:
            continue
        arrays = tuple(i for i, a in enumerate(w.schema.inputs) if str(a.type) == "Tensor")
        if place not in found or len(found[place].arrays) < len(arrays):
            found[place] = DefinedKernel(place[1], w.name, arrays)
    return [(module, [k for (m, _), k in found.items() if m == module]) for module in sorted({m for m, _ in found})]


@dataclass(frozen=True, slots=True)
class RowOperator:
    """One entry of the second table of generated/scalars.py."""

    name: str
    results: tuple[str, ...]
    parameters: str
    over: tuple[str, ...]
    named: tuple[tuple[str, str], ...]
    written: tuple[tuple[str, str], ...]


def row_table(wrappers: Collection[Wrapper]) -> list[RowOperator]:
    """Return the definition of every functional operator on rows that has one."""
    return [
        RowOperator(
            w.name,
            tuple("" if r is None else r.source for r in w.native.rows.results),
            ", ".join(a.python_name for a in w.schema.inputs),
            w.native.rows.over,
            tuple((name, value.source) for name, value in w.native.rows.named),
            tuple((name, value.source) for name, value in w.native.rows.written),
        )
        for w in wrappers
        if w.native.rows is not None and w.native.schema is w.schema
    ]


@dataclass(frozen=True, slots=True)
class BatchedOperator:
    """One line of generated/batching.py."""

    wrapper: str
    name: str
    rule: str
    parameters: str
    promotes: str


def batching_table(wrappers: Collection[Wrapper]) -> list[BatchedOperator]:
    """Return the rule of every wrapper that takes tensors or draws random numbers."""
    by_name = {w.name: w for w in wrappers}
    found = []
    for w in wrappers:
        if w.arrays or "nondeterministic_seeded" in w.native.tags:
            rule = _rule(w, by_name)
            found.append(
                BatchedOperator(
                    f"{w.native.family}.{w.function}",
                    w.name,
                    _spelled(w, rule, by_name),
                    _parameters(w),
                    ", ".join(p.argument.python_name for p in w.promotes),
                )
            )
    return found


def _rule(w: Wrapper, by_name: Mapping[str, Wrapper]) -> Batch:
    """Return the rule of a wrapper: its own, or the one that follows from its tags and arguments."""
    native = w.native
    if native.batch is not None and (w.kind != "inplace" or native.schema is w.schema):
        return native.batch
    if native.composite is not None:
        return Batch("composite")
    tags = native.tags
    if "nondeterministic_seeded" in tags:
        return _random(native)
    rule = native.batch or _derived(native)
    if w.kind != "inplace" or rule.rule in _IN_PLACE:
        return rule
    functional = _functional(w, by_name)
    if functional is None or _rule(functional, by_name).rule == "loop":
        return Batch("loop")  # each batch element is written in place
    return Batch("write", (functional.function,))


# Rules that write to the physical tensor in the same way as they compute a new one.
_IN_PLACE = ("pointwise", "dims", "inserted", "random", "shape.t", "shape.squeeze", "shape.through")


def _derived(native: NativeFunction) -> Batch:
    tags = native.tags
    if "pointwise" in tags:
        return Batch("pointwise")
    if "dynamic_output_shape" in tags:
        return Batch("dynamic")
    if "reduction" in tags and any(a.name == "dim" for a in native.schema.inputs):
        return Batch("reduction", ("dim",))
    return Batch("loop")


def _random(native: NativeFunction) -> Batch:
    names = {a.name for a in native.schema.inputs}
    if "size" in names:
        return Batch("random", ("size",))
    if {"dtype", "memory_format"} <= names:
        return Batch("random", ("like",))
    return Batch("random")


def _functional(w: Wrapper, by_name: Mapping[str, Wrapper]) -> Wrapper | None:
    """Return the operator that computes the values of an in-place one, in the same family."""
    base, dot, overload = w.name.partition(".")
    found = by_name.get(base.removesuffix("_") + dot + overload)
    return found if found is not None and found.native.family == w.native.family else None


def _spelled(w: Wrapper, batch: Batch, by_name: Mapping[str, Wrapper]) -> str:
    """Return a rule as the table has it, with the signatures of the operators it names."""
    arguments = batch.arguments
    if batch.rule == "reduction":
        type_ = next(p.argument.type for p in w.parameters if p.argument.name == arguments[0])
        arguments = (arguments[0] + "[]" * type_.is_list,)
    elif batch.rule == "whole":
        arguments = _whole(w, by_name[batch.arguments[0]])
    return str(Batch(batch.rule, arguments))


def _whole(w: Wrapper, over: Wrapper) -> tuple[str, ...]:
    """Return the operator, whether it takes several dimensions, and the arguments before them."""
    dim = next(p.argument for p in over.parameters if p.argument.name == "dim")
    before = [p.argument.python_name for p in w.parameters[1:] if not p.argument.kwarg_only]
    return (over.python_name, "several" if dim.type.is_list else "one", *before)


def _parameters(w: Wrapper) -> str:
    """Return the arguments in the order of the schema, tensors with their types."""
    words = []
    for p in w.parameters:
        kind = {
            "value": "",
            "tensor": ": Tensor",
            "optional": ": Tensor?",
            "list": ": Tensor[]",
            "optional_list": ": Tensor?[]",
        }[p.kind]
        words.append(p.argument.python_name + kind)
    return ", ".join(words)
