"""The records of operators: what records/<family>.py of a generated package says of every overload.

Note [Records] in gradloom.dispatch.records describes the fields. A fact is written if it differs from its default.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from ..language.rows import Rows
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
from ..operators.model import NativeFunction, NativeFunctions
from ..operators.sparse import INPLACE
from ..schema import Base, FunctionSchema
from ..wrappers.wrappers import NodeClass, Wrapper


@dataclass(frozen=True, slots=True)
class DefinedRows:
    """A definition on rows as text."""

    results: tuple[str, ...]
    over: tuple[str, ...]
    named: tuple[tuple[str, str], ...]
    written: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Record:
    """One overload. Facts that are `facts` have the names of the fields of gradloom's `Record`."""

    schema: str  # as Python source
    wrapper: str
    facts: tuple[tuple[str, object], ...]
    rows: DefinedRows | None = None
    kernel: tuple[object, ...] = ()
    float8: tuple[tuple[str, tuple[str, ...]], ...] = ()  # the fields for 8-bit floats, with arguments of `Float8`


SCALAR = Base("Scalar")
# The tag of a derived variant; `core` is dropped, since other operators are not made of variants.
_VARIANT_TAGS = {"inplace": "inplace", "out": "out"}


def operators_of_families(wrappers: Iterable[Wrapper]) -> list[tuple[str, list[str]]]:
    """Return the operators whose overloads are in the same families, `elementwise reduction`, in alphabetical order."""
    found: dict[str, dict[str, None]] = {}
    for w in wrappers:
        found.setdefault(w.schema.name.name, {})[w.native.family] = None
    operators: dict[str, list[str]] = {}
    for name, families in sorted(found.items()):
        operators.setdefault(" ".join(families), []).append(name)
    return list(operators.items())


class Records:
    """The records of operators, by family, in the order of the YAML file. `with_kernels`: say what kernels definitions
    describe."""

    def __init__(self, wrappers: Collection[Wrapper], with_kernels: bool) -> None:
        self._wrappers = wrappers
        self._by_name = {w.name: w for w in wrappers}
        self._kernels = _described_kernels(wrappers) if with_kernels else {}

    def of(self, family: str) -> list[Record]:
        mine = (w for w in self._wrappers if w.native.family == family)
        return [r for w in mine for r in _records(w, self._by_name, self._kernels.get(w.name, ()))]


def records_on_lists(functions: NativeFunctions) -> list[Record]:
    """Return the records of the operators on lists. A variant in place names the variants of the operators that its
    rule does."""
    found = []
    for function in functions.on_lists:
        for schema in function.schemas:
            own = _VARIANT_TAGS.get(schema.kind)
            tags = tuple(sorted({*function.tags, own} if own else function.tags))
            foreach = function.foreach.fact if function.foreach else ()
            if schema.kind == "inplace":
                foreach = tuple(_in_place(functions, fact) for fact in foreach)
            fused = function.fused.fact if function.fused else ()
            facts = tuple(_present(tags=tags, foreach=foreach, fused=fused))
            found.append(Record(repr(str(schema)), schema.name.unambiguous, facts))
    return found


def _in_place(functions: NativeFunctions, fact: int | str) -> int | str:
    """Return the variant in place of an operator; other facts as they are."""
    return functions.in_place(fact) or fact if isinstance(fact, str) and fact in functions else fact


def _records(w: Wrapper, by_name: Mapping[str, Wrapper], kernel: tuple[object, ...]) -> Iterator[Record]:
    """Yield the record of a wrapper's own overload, then those of the other overloads that it serves."""
    own, *with_number = _with_numbers(w, w.schema)
    yield Record(repr(str(own)), w.function, (*_shared(w, own), *_own(w, by_name)), _rows(w), kernel, _float8(w))
    kind = "copy_out" if w.kind == "copy" else "out"
    outs = [v.schema for v in w.native.derived if v.kind == kind] if w.has_out else []
    for schema in (*with_number, *outs, *(s.as_out() for s in with_number if outs)):
        yield Record(repr(str(schema)), w.function, tuple(_shared(w, schema)))


def _with_numbers(w: Wrapper, schema: FunctionSchema) -> tuple[FunctionSchema, ...]:
    """Return the schema, and the one with a number as second argument if that is a separate overload."""
    if w.native.number_overload is None:
        return (schema,)
    first, second, *others = schema.arguments
    name = replace(schema.name, overload=w.native.number_overload)
    return schema, FunctionSchema(name, (first, replace(second, type=SCALAR), *others), schema.returns)


def _shared(w: Wrapper, schema: FunctionSchema) -> Iterator[tuple[str, object]]:
    """Yield the facts that all overloads of a wrapper have."""
    own = _VARIANT_TAGS.get(schema.kind)
    tags = sorted({*w.native.tags, own} - {"core"} if own else w.native.tags)
    numbers = tuple(p.argument.name for p in w.parameters if p.number)
    yield from _present(tags=tuple(tags), numbers=numbers, is_composite=w.composite is not None)


def _own(w: Wrapper, by_name: Mapping[str, Wrapper]) -> Iterator[tuple[str, object]]:
    """Yield the facts of a wrapper's own overload."""
    native, rule = w.native, Batch("loop")
    if w.arrays or "nondeterministic_seeded" in native.tags:
        rule = _rule(w, by_name)
        yield "batch", (rule.rule, *_arguments(w, rule, by_name))
    onnx = native.onnx.fact if native.onnx is not None and w.kind != "copy" else ()
    yield from _present(shape=_shape(w, rule), shard=_shard(native), onnx=onnx)
    if w.arrays or "nondeterministic_seeded" in native.tags:
        yield from _present(promotes=tuple(p.argument.python_name for p in w.promotes))
    if w.strategy == "not_differentiable":
        yield "is_differentiable", False
    yield from _present(sparse=_sparse(w))
    if w.has_out:
        yield from _present(out=native.out_takes, out_errors=native.out_errors)
    if native.schema is not w.schema:
        return
    if native.scalar is not None:
        yield from _present(promotion=native.type_promotion, keeps_numbers=native.half_numbers == "exact")
        yield "scalar", native.scalar.source


def _sparse(w: Wrapper) -> tuple[str, ...]:
    """Return what computes a wrapper for sparse tensors; with `inplace` if it replaces the entries by the result."""
    words = w.native.sparse
    if w.kind == "inplace" and words == ("values",):
        return ("values", INPLACE)
    if w.native.schema is w.schema:
        return words[:1]
    if w.kind != "inplace" or len(words) < 2:
        return ()
    return words if words[1] == INPLACE else words[1:]


def _float8(w: Wrapper) -> tuple[tuple[str, tuple[str, ...]], ...]:
    found = w.native.float8
    if found is None:
        return ()
    return tuple((n, f.arguments) for n, f in (("float8", found), ("float8_e8m0", found.e8m0)) if f is not None)


def _present(**facts: object) -> Iterator[tuple[str, object]]:
    """Yield the facts that say something."""
    for name, value in facts.items():
        if value and value != "none":
            yield name, value


def _rows(w: Wrapper) -> DefinedRows | None:
    """Return the definition of a functional operator on rows."""
    rows = w.native.rows if w.native.schema is w.schema else None
    return None if rows is None else _text_of(rows)


def _text_of(rows: Rows) -> DefinedRows:
    return DefinedRows(
        tuple("" if r is None else r.source for r in rows.results),
        rows.over,
        tuple((name, value.source) for name, value in rows.named),
        tuple((name, value.source) for name, value in rows.written),
    )


def _described_kernels(wrappers: Collection[Wrapper]) -> dict[str, tuple[object, ...]]:
    """Return the kernels that machine code can replace, by the operators whose definitions describe them.

    Where overloads share one, that with most tensors describes it; tensors that are optional do not count, and the
    overload with fewer of them goes first.
    """
    found: dict[tuple[str, str], tuple[str, tuple[object, ...]]] = {}
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
            found[place], ranks[place] = (w.name, (*place, arrays, large)), rank
    return dict(found.values())


def _have_one_dtype(w: Wrapper, arrays: tuple[int, ...]) -> bool:
    """Return whether an operator's tensors are brought to one dtype before its kernel gets them."""
    promoted = {p.argument.python_name for p in w.promotes}
    return len(arrays) == 1 or all(w.schema.inputs[i].python_name in promoted for i in arrays)


# --- batching rules ---------------------------------------------------------------------------------------------------


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
    if native.rows is not None and not native.has_written_kernel:
        return _of_rows(native, native.rows)
    return Batch("loop")


def _of_rows(native: NativeFunction, rows: Rows) -> Batch:
    """Return the rule of an operator whose kernel follows from its definition of rows."""
    over = rows.over[0]
    tensors = [a for a in native.schema.inputs if a.type.is_tensor_like]
    dim = next((a for a in native.schema.inputs if a.python_name == over), None)
    if dim is None or len(tensors) > 1 or str(dim.type) != "int":
        return Batch("loop")
    return Batch("dims", (dim.name,))


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


def _arguments(w: Wrapper, batch: Batch, by_name: Mapping[str, Wrapper]) -> tuple[str, ...]:
    """Return the arguments of a rule, with the signatures of the operators that it names."""
    arguments = batch.arguments
    if batch.rule == "reduction":
        type_ = next(p.argument.type for p in w.parameters if p.argument.name == arguments[0])
        return (arguments[0] + "[]" * type_.is_list,)
    return _whole(w, by_name[arguments[0]]) if batch.rule in WHOLE else arguments


def _whole(w: Wrapper, over: Wrapper) -> tuple[str, ...]:
    """Return the operator, whether it takes several dimensions, and the arguments before them."""
    dim = next(p.argument for p in over.parameters if p.argument.name == "dim")
    before = [p.argument.python_name for p in w.parameters[1:] if not p.argument.kwarg_only]
    return (over.python_name, "several" if dim.type.is_list else "one", *before)


# --- rules of shapes and of parts -------------------------------------------------------------------------------------

# Batching rules of operators whose results have no other sizes than their arguments.
_SAME_SIZES = ("reduction", "whole", "loss", "loss_backward", "aligned", "random", "write")


def _shape(w: Wrapper, batch: Batch) -> tuple[int | str, ...]:
    """Return the rule of shapes of a wrapper: its own, or the one that follows from its schema, tags and batching
    rule; empty for an operator that runs on small arrays."""
    native = w.native
    if native.composite is not None:
        return ()
    if w.kind == "copy":
        return "large.copy", native.name
    if native.shape is not None:
        return native.shape.fact
    if "inplace_view" in native.tags:
        return ("restrided",)
    if native.is_view:
        return ("view",)
    if batch.rule == "pointwise":
        return ("pointwise",)
    return ("same",) if batch.rule in _SAME_SIZES else ()


def _shard(native: NativeFunction) -> tuple[int | str, ...]:
    """Return the sharding rule of an entry: its own, or that of pointwise operators; empty for one that needs whole
    tensors."""
    if native.shard is not None:
        return native.shard.fact
    return ("pointwise",) if "pointwise" in native.tags and native.composite is None else ()


# --- definitions of gradients -----------------------------------------------------------------------------------------


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
) -> dict[str, list[NodeGradients]]:
    """Return, by family, the nodes whose formulas have definitions."""
    operators: dict[str, list[tuple[Scalar, FunctionSchema]]] = {}
    for w in wrappers:
        if w.native.scalar is not None and w.native.schema is w.schema:
            operators.setdefault(w.schema.name.name, []).append((w.native.scalar, w.schema))
    found: dict[str, list[NodeGradients]] = {}
    for family, classes in nodes.items():
        rows = [row for node in classes if (row := _gradients(node, operators)) is not None]
        if rows:
            found[family] = rows
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
