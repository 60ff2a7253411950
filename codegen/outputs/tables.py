"""The tables that the templates of package modules write: overloads, definitions of scalars and rows, batching."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from ..language.scalars import (
    FUNCTIONS,
    NUMBERS,
    Defined,
    Scalar,
    from_formula,
    is_worth_code,
    is_worth_code_if_large,
    names_in,
)
from ..operators.keys import WHOLE, Batch
from ..operators.native_functions import NativeFunction
from ..schema import Base, FunctionSchema
from ..wrappers.wrappers import NodeClass, Wrapper


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


def by_values(wrappers: Iterable[Wrapper]) -> list[str]:
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
    """A kernel that a definition describes; `large` if machine code is faster for large arrays only."""

    function: str
    operator: str
    arrays: tuple[int, ...]  # the places of tensors among its parameters
    large: bool


def defined_kernels(wrappers: Collection[Wrapper]) -> list[tuple[str, list[DefinedKernel]]]:
    """Return the kernels, by module, that machine code can replace. Where overloads share one, that with most tensors
    describes it; tensors that are optional do not count, and the overload with fewer of them goes first."""
    found: dict[tuple[str, str], DefinedKernel] = {}
    ranks: dict[tuple[str, str], tuple[int, int]] = {}
    for w in wrappers:
        native, kernel = w.native, w.native.kernel
        if native.scalar is None or kernel is None or native.schema is not w.schema:
            continue
        arrays = tuple(i for i, a in enumerate(w.schema.inputs) if str(a.type) == "Tensor")
        large = not is_worth_code(native.scalar)
        if large and not (is_worth_code_if_large(native.scalar) and _have_one_dtype(w, arrays)):
            continue
        if native.has_made_kernel:
            place = f"generated.variable_type.{native.family}", native.made_name
        elif kernel.kind == "named":
            place = f"kernels.{kernel.modules[0][1]}", kernel.source.partition(".")[2]
        else:
            continue
        rank = len(arrays), -sum(str(a.type) == "Tensor?" for a in w.schema.inputs)
        if place not in found or ranks[place] < rank:
            found[place], ranks[place] = DefinedKernel(place[1], w.name, arrays, large), rank
    return [(module, [k for (m, _), k in found.items() if m == module]) for module in sorted({m for m, _ in found})]


@dataclass(frozen=True, slots=True)
class NodeGradients:
    """A node class with at least one gradient that has a definition.

    Attributes:
        edges: for each edge, the definition, and the names of the saved tensors and of the other saved values in it;
            None for an edge without one.
    """

    name: str
    edges: tuple[tuple[str, tuple[str, ...], tuple[str, ...]] | None, ...]


def gradient_table(
    nodes: Mapping[str, Iterable[NodeClass]], wrappers: Iterable[Wrapper]
) -> list[tuple[str, list[NodeGradients]]]:
    """Return, by family, the nodes whose formulas have definitions."""
    operators: dict[str, list[tuple[Scalar, FunctionSchema]]] = {}
    for w in wrappers:
        if w.native.scalar is not None and w.native.schema is w.schema:
            operators.setdefault(w.schema.name.name, []).append((w.native.scalar, w.schema))
    found = []
    for family, classes in nodes.items():
        rows = [row for node in classes if (row := _gradients(node, operators)) is not None]
        if rows:
            found.append((family, rows))
    return found


def _gradients(node: NodeClass, operators: Defined) -> NodeGradients | None:
    info = node.info
    if not node.single_gradient or any(i.is_list for i in info.inputs):
        return None
    saved = {s.name: s for s in info.saved}
    tensors = {name for name, s in saved.items() if s.kind == "tensor" and not s.is_optional}
    edges: list[tuple[str, tuple[str, ...], tuple[str, ...]] | None] = []
    for i in info.inputs:
        d = info.derivatives[i.derivative]
        scalar = None
        if i.position is None and d.not_implemented is None and not d.mask and not d.retain_variables:
            scalar = from_formula(d.source, {"grad", *tensors}, operators)
        if (
            scalar is None
            or isinstance(scalar.tree, ast.Name)
            or not "grad" in names_in(scalar.tree) <= {"grad", *saved, *NUMBERS, *FUNCTIONS}
        ):
            edges.append(None)
            continue
        used = names_in(scalar.tree)
        values = tuple(sorted(used & {s for s in saved if s not in tensors}))
        edges.append((scalar.source, tuple(sorted(used & tensors)), values))
    return NodeGradients(node.name, tuple(edges)) if any(edges) else None


def _have_one_dtype(w: Wrapper, arrays: tuple[int, ...]) -> bool:
    """Return whether an operator's tensors are brought to one dtype before its kernel gets them."""
    promoted = {p.argument.python_name for p in w.promotes}
    return len(arrays) == 1 or all(w.schema.inputs[i].python_name in promoted for i in arrays)


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
    elif batch.rule in WHOLE:
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
