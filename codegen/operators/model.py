"""Model of native_functions.yaml: an operator, the variants derived from it, and the operators of a file.

add.schema, add.kernel.ufunc, [v.name for v in add.derived]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ..errors import SpecError, did_you_mean
from ..language.kernels import KernelExpr
from ..language.rows import Rows
from ..language.scalars import Scalar, is_worth_code
from ..reading.yaml_files import Entry, Node, Source, Text, TextMap
from ..schema import FunctionSchema, OperatorName, SchemaError
from .float8 import Float8
from .keys import Batch
from .out_tensors import out_takes
from .rules import Rule


@dataclass(frozen=True, slots=True)
class NativeFunction:
    """One entry."""

    entry: Entry
    text: Text  # the `func:` value, for errors about the operator
    schema: FunctionSchema  # the operator
    variants: tuple[str, ...]  # 'function', 'method', 'function_', 'internal'
    kernel: KernelExpr | None  # its kernel; None for a composite
    scalar: Scalar | None  # what it computes element by element, by `scalar:` or by its kernel; None if neither says
    composite: str | None  # 'family.function' in src/gradloom/composite/, None for an operator with a kernel
    derived: tuple[Variant, ...]  # the variants listed in `autogen:`
    tags: tuple[str, ...]  # in the order of the file
    python_module: str | None  # 'nn', 'linalg', 'fft', 'special' or None
    family: str  # its file in generated/
    type_promotion: str | None  # its rule of type promotion; None if the entry has none
    promotes: tuple[str, ...]  # names of the tensor arguments that it converts to one dtype; empty for all
    accepts_number: tuple[str, ...]  # names of tensor arguments that callers may give as a Python number
    domain: Node | None  # the domain of valid inputs, for tests
    deprecated: str | None = None  # the call to write instead, which a warning names
    deprecated_because: str | None = None  # the reason, which makes every call warn
    number_overload: str | None = None  # its overload with a number as the second argument, if PyTorch has one
    deprecated_order: tuple[str, ...] = ()  # its arguments in another order, by position, that callers may still use
    infix: str | None = None  # the sign that formulas may use for it, between a tensor and a number; else None
    rows: Rows | None = (
        None  # what it computes for rows of elements, by `scalar:` and `over:`; None if these do not say
    )
    is_differentiable: bool = True  # whether its definition gets derivatives, if derivatives.yaml has no entry
    kinks: tuple[str, ...] = ()  # what its formulas give where it has no derivative: words of `KINKS`
    on_real: str | None = None  # 'self' if it returns a real tensor unchanged; else None
    out: tuple[str, ...] = ()  # the words of `out:`; `out_takes` derives the requirements from them
    out_errors: tuple[
        str, ...
    ] = ()  # for each result the error for an `out=` tensor of another dtype, if it is its own
    # 'exact' if a number is not rounded to half precision beside such a tensor; else None
    half_numbers: str | None = None
    # 'lower_precision', 'fp32', 'promote' or 'lower_result': autocast's rule; None for none
    autocast: str | None = None
    float8: Float8 | None = None  # what it does with 8-bit floats; None if its composite or a common error says it
    # what computes it for sparse tensors, and its in-place variant: a function in sparse/kernels/, or a word
    sparse: tuple[str, ...] = ()
    batch: Batch | None = None  # its batching rule for vmap, None if that follows from other keys
    shape: Rule | None = None  # how the meta device finds the shapes of its results; None if that follows
    shard: Rule | None = None  # how it is computed from parts of its tensors; None if that follows, or it is not
    onnx: Rule | None = None  # how it is exported to ONNX, None if it is not
    foreach: Rule | None = None  # what an operator on lists computes for each tensor; None for others
    fused: Rule | None = None  # the step of an optimizer that an operator on lists is; None for others
    top_level: bool = False  # whether an operator of a package is also a function of gradloom
    composite_module: str | None = None  # the module of the composite, as 'shape.reshapes'
    has_written_kernel: bool = False  # whether it has `kernel:`; else its kernel follows from `scalar:`

    @property
    def declaration(self) -> NativeFunction:
        """The entry without what only its own code and record follow from: its definition, its domain, what it does
        with sparse and 8-bit tensors, its export, and the places of its words."""
        nowhere = Source("", "")
        text = Text(self.text.value, nowhere)
        derived = tuple(replace(v, text=Text(v.text.value, nowhere)) for v in self.derived)
        return replace(
            self,
            entry=TextMap({}, {}, nowhere),
            text=text,
            kernel=None,
            scalar=None,
            rows=None,
            domain=None,
            kinks=(),
            out_errors=(),
            float8=None,
            sparse=(),
            onnx=None,
            has_written_kernel=False,
            derived=derived,
        )

    @property
    def is_on_lists(self) -> bool:
        """Return whether it is an operator on lists, which has a record and no wrapper of its own."""
        return self.foreach is not None or self.fused is not None

    @property
    def has_made_kernel(self) -> bool:
        """Return whether its kernel is a function that generated code has for a definition: one of several calls."""
        made = self.kernel is not None and not self.has_written_kernel
        return made and self.scalar is not None and is_worth_code(self.scalar)

    @property
    def made_name(self) -> str:
        """The function of that kernel."""
        return f"scalar_{self.schema.name.unambiguous}"

    @property
    def made_parameters(self) -> tuple[str, ...]:
        """Its parameters."""
        return tuple(a.python_name for a in self.schema.inputs)

    @property
    def name(self) -> str:
        """The full name, `add.Tensor`."""
        return str(self.schema.name)

    @property
    def schemas(self) -> tuple[FunctionSchema, ...]:
        """The operator itself and its derived variants."""
        return (self.schema, *(v.schema for v in self.derived))

    def variants_of(self, schema: FunctionSchema) -> tuple[str, ...]:
        """Return how Python calls the operator or its in-place variant: `function`, `method` or both, or `internal`."""
        words = tuple(w for w in self.variants if w != "function_")
        is_derived = schema.kind == "inplace" and schema.name != self.schema.name
        if is_derived and "method" in words and "function_" not in self.variants:
            return ("method",)
        return words

    @property
    def out_takes(self) -> tuple[str, ...]:
        """Its requirements for a tensor given as `out=`, if they are not the usual ones."""
        return out_takes(self.out, self.type_promotion, self.tags, self.composite is not None)

    @property
    def is_view(self) -> bool:
        """Return whether a result shares memory with an argument, by the alias annotations."""
        return self.schema.is_view


class NativeFunctions:
    """The entries of a file in their order; `[]` and `in` take full names, derived ones included. `on_lists` has the
    operators on lists, which are not among the others."""

    def __init__(self, functions: tuple[NativeFunction, ...]) -> None:
        self._functions = tuple(f for f in functions if not f.is_on_lists)
        self.on_lists = tuple(f for f in functions if f.is_on_lists)
        self._by_name = {str(s.name): f for f in self._functions for s in f.schemas}

    def __iter__(self) -> Iterator[NativeFunction]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def __getitem__(self, name: str) -> NativeFunction:
        """Return the entry with that name, or that derives it. Raises KeyError."""
        return self._by_name[name]

    def get(self, name: str) -> NativeFunction | None:
        return self._by_name.get(name)

    def schema(self, name: str) -> FunctionSchema | None:
        """Return the schema of that full name, of an entry or of a derived variant."""
        function = self._by_name.get(name)
        return next((s for s in function.schemas if str(s.name) == name), None) if function else None

    def in_place(self, name: str) -> str | None:
        """Return the full name of an operator's variant in place, derived or with an entry; None if there is none."""
        function = self._by_name[name]
        own = str(replace(function.schema.name, inplace=True))
        derived = (v.name for v in function.derived if v.kind == "inplace")
        return next(derived, own if own in self._by_name else None)

    @property
    def names(self) -> tuple[str, ...]:
        """All full names, derived ones included, in the order of the file."""
        return tuple(self._by_name)

    def overloads(self, name: str) -> tuple[FunctionSchema, ...]:
        """Return the schemas that Python code calls by one name (`add`), out variants included."""
        return tuple(s for f in self._functions for s in f.schemas if s.name.name == name)


# --- variants ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Variant:
    """A derived operator. kind: 'functional', 'inplace', 'out', 'copy' or 'copy_out'; text: its word in `autogen:`."""

    kind: str
    schema: FunctionSchema
    text: Text

    @property
    def name(self) -> str:
        return str(self.schema.name)


_MAKERS: dict[str, Callable[[FunctionSchema], FunctionSchema]] = {
    "functional": FunctionSchema.as_functional,
    "inplace": FunctionSchema.as_inplace,
    "out": FunctionSchema.as_out,
    "copy": FunctionSchema.as_copy,
    "copy_out": lambda schema: schema.as_copy().as_out(),
}


def variant_names(name: OperatorName) -> dict[str, str]:
    """Return the names that `autogen:` may give for an operator, and the kind of variant of each. As in PyTorch's file,
    the overload is kept (`add_.Tensor`) or, if the name is free, omitted (`add_`, `add.out`)."""
    overload = name.overload
    outs = [f"{overload}_out", "out"] if overload else ["out"]
    names: dict[str, str] = {}
    plain = replace(name, inplace=False)
    copy = replace(plain, base=plain.base + "_copy")
    for kind, base in (("functional", plain), ("inplace", replace(plain, inplace=True)), ("copy", copy)):
        for kept in dict.fromkeys((overload, "")):
            names.setdefault(str(replace(base, overload=kept)), kind)
    for kind, base in (("out", plain), ("copy_out", copy)):
        for out in outs:
            names.setdefault(str(replace(base, overload=out)), kind)
    return {n: kind for n, kind in names.items() if n != str(name)}


def derive(schema: FunctionSchema, word: Text) -> Variant:
    """Return the variant of `schema` that a word of `autogen:` names. Raises SpecError at the word if no variant has
    that name, or the operator has no such variant."""
    names = variant_names(schema.name)
    kind = names.get(word.value)
    if kind is None:
        possible = {n: k for n, k in names.items() if _is_possible(schema, k)}
        close = did_you_mean(word.value, possible) if word.value != str(schema.name) else ""
        hint = f"its variants are {', '.join(f'`{n}`' for n in possible)}" if possible else "it has no variants"
        raise word.error(f"`{word.value}` is not a variant of `{schema.name}`", f"{close} {hint}".strip())
    try:
        derived = _MAKERS[kind](schema)
    except SchemaError as error:
        raise word.error(error.message, error.hint) from None
    if derived == schema or (kind == "functional" and schema.kind == "functional"):
        raise word.error(f"`{schema.name}` is that variant already", "remove it from `autogen:`")
    return Variant(kind, replace(derived, name=OperatorName.parse(word.value)), word)


def _is_possible(schema: FunctionSchema, kind: str) -> bool:
    if kind == "functional" and schema.kind == "functional":
        return False
    try:
        return _MAKERS[kind](schema) != schema
    except SchemaError:
        return False


def schema_error(text: Text, error: SchemaError) -> SpecError:
    """Return a SchemaError with its position in the file."""
    return text.error(error.message, error.hint, error.offset, error.length)
