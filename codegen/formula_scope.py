"""The names that a formula may use: variables of one operator, and what can be called from every formula.

A `Scope` has the variables that one formula may read. `Callables` has helpers (the public functions in
src/gradloom/formulas/, see formula_helpers.py) and operators (from native_functions.yaml). Each
variable has a `Kind`, the little of types that the analysis needs: whether a method call is one of tensors,
whether `max(a, b)` is Python's or the operator, and what must be saved.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from .schema import FunctionSchema, Type

OPERATORS = "ops"  # what generated code calls the module of gradloom's operators: `ops.where(...)`
OWN = "own"  # the same of a package


class Kind(Enum):
    """What sort of value an expression has."""

    TENSOR = "a tensor"
    TENSORS = "a list of tensors"
    NUMBER = "a number"
    NUMBERS = "a list of numbers"
    DTYPE = "a dtype"
    OTHER = "neither a tensor nor a number"
    UNKNOWN = "of unknown type"  # treated as a tensor

    @property
    def may_be_tensor(self) -> bool:
        return self in (Kind.TENSOR, Kind.UNKNOWN)


class Role(Enum):
    """Where a variable comes from."""

    ARGUMENT = "argument"
    RESULT = "result"
    GRADIENT = "gradient"
    GRADIENTS = "list of gradients"
    TANGENT = "tangent"
    PRIMAL = "primal"
    MASK = "mask"
    FLAG = "flag"
    LOCAL = "variable of the comprehension"


_NUMBERS = frozenset(("int", "SymInt", "float", "bool", "SymBool", "Scalar", "DeviceIndex"))


def kind_of_type(type_: Type) -> Kind:
    """The kind of an argument or result of a schema type."""
    base = type_.base.name
    if base == "Tensor":
        return Kind.TENSORS if type_.is_list else Kind.TENSOR
    if base in _NUMBERS:
        return Kind.NUMBERS if type_.is_list else Kind.NUMBER
    return Kind.DTYPE if base == "ScalarType" and not type_.is_list else Kind.OTHER


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a formula.

    Attributes:
        name: as the formula writes it.
        of: the argument or return that it is, or belongs to (`self` for `self_t`).
        type: the schema type of an argument or result.
        index: for one gradient, which of the differentiable outputs it belongs to.
        size: for a mask or list of gradients, the number of its elements; None where that is known only at
            run time.
    """

    name: str
    kind: Kind
    role: Role
    of: str = ""
    type: Type | None = None
    index: int = 0
    size: int | None = None

    @property
    def is_optional(self) -> bool:
        return self.type is not None and self.type.is_optional


@dataclass(frozen=True, slots=True)
class Helper:
    """A public function in a folder of formulas: its module and what can be seen of its signature.

    `module` is the name in gradloom.formulas (`elementwise`); of a package, it is the whole (`myops.formulas.smooth`).
    """

    name: str
    module: str
    positional: tuple[str, ...]
    required: int
    keywords: frozenset[str]
    required_keywords: frozenset[str]
    is_variadic: bool
    returns: Kind
    arity: int | None

    def misuse(self, given: int, keywords: Iterable[str]) -> tuple[str, str] | None:
        """Why it cannot be called so, as (the offending keyword or '', message); None if it can."""
        keywords = list(keywords)
        if self.is_variadic:
            return None
        for word in keywords:
            if word not in self.keywords and word not in self.positional:
                return word, f"`{self.name}` has no argument `{word}`"
            if word in self.positional[:given]:
                return word, f"`{self.name}` gets `{word}` twice"
        if given > len(self.positional):
            return "", f"`{self.name}` takes {_count(len(self.positional))}, {given} are given"
        missing = [p for p in self.positional[given : self.required] if p not in keywords]
        missing += sorted(self.required_keywords.difference(keywords))
        if missing:
            return "", f"`{self.name}` needs {', '.join(f'`{m}`' for m in missing)}"
        return None


def _count(number: int) -> str:
    return "1 argument" if number == 1 else f"{number} arguments"


@dataclass(frozen=True, slots=True)
class Operator:
    """What formulas need to know of the operators of one name, all overloads together.

    Attributes:
        name: the name in the operators' module (`linalg_inv`).
        namespace: the Python module that it is in (`linalg`), or ''.
        is_function, is_method: the ways in which it may be called.
        returns: the kind of its result, UNKNOWN where that depends on the overload.
        arguments: names of all overloads' arguments.
        is_inplace: whether it writes to its tensor, as `mul_` does; formulas may do so to tangents of theirs.
        home: what generated code calls the module that has it: `ops`, or `own` for those of a package.
        is_factory: whether it makes a tensor of a given size, dtype and device, as `zeros` does.
    """

    name: str
    namespace: str
    is_function: bool
    is_method: bool
    returns: Kind
    arguments: frozenset[str]
    is_factory: bool
    is_inplace: bool = False
    home: str = OPERATORS

    @property
    def in_code(self) -> str:
        """The operator in generated code: `ops.linalg_inv`."""
        return f"{self.home}.{self.name}"

    @property
    def public_name(self) -> str:
        """`linalg.inv` for `linalg_inv`."""
        if not self.namespace:
            return self.name
        return f"{self.namespace}.{self.name.removeprefix(self.namespace + '_')}"


@dataclass(frozen=True, slots=True)
class Infix:
    """What a sign between a tensor and a number means: an overload for numbers, whose node keeps the number.

    with_number: the call of it, with {} for tensor and number. of_tensors: what is called where the number stands first
    and the order counts; it takes the number for a tensor.
    """

    with_number: str
    of_tensors: str


@dataclass(frozen=True, slots=True)
class Callables:
    """Everything that a formula may call, by name."""

    helpers: Mapping[str, Helper] = field(default_factory=dict)
    operators: Mapping[str, Operator] = field(default_factory=dict)
    array_forms: Mapping[str, str] = field(default_factory=dict)  # see Note [Formulas on arrays]
    infixes: Mapping[str, Infix] = field(default_factory=dict)  # by sign
    namespaces: Mapping[str, Mapping[str, Operator]] = field(init=False)  # namespace -> name in it -> operator

    def __post_init__(self) -> None:
        found: dict[str, dict[str, Operator]] = {}
        for operator in self.operators.values():
            if operator.namespace:
                found.setdefault(operator.namespace, {})[operator.public_name.rpartition(".")[2]] = operator
        object.__setattr__(self, "namespaces", found)

    def is_method(self, name: str) -> bool:
        """Whether tensors have an operator of that name as a method."""
        operator = self.operators.get(name)
        return operator is not None and operator.is_method

    def and_those_of(self, package: Callables) -> Callables:
        """What the formulas of a package may call: its own first, then these."""
        operators = dict(self.operators)
        for name, operator in package.operators.items():
            base = self.operators.get(name)
            # A function of that name hides the one that it is called like; the method of tensors stays.
            operators[name] = replace(operator, is_method=True) if base and base.is_method else operator
        helpers = {name: h for name, h in self.helpers.items() if name not in package.operators}
        forms = {name: form for name, form in self.array_forms.items() if name not in package.operators}
        return Callables(helpers | dict(package.helpers), operators, forms | dict(package.array_forms), self.infixes)

    @property
    def methods(self) -> list[str]:
        return [o.name for o in self.operators.values() if o.is_method and not o.is_inplace]


@dataclass(frozen=True, slots=True)
class Scope:
    """The names of one formula.

    Attributes:
        variables: what it may read.
        elsewhere: names that formulas of the other direction have, with a hint on what to write here.
        callables: what it may call.
        writes_tangent: whether methods that write to a tangent are allowed (`self_t.zero_()` of an in-place
            operator).
    """

    variables: Mapping[str, Variable]
    elsewhere: Mapping[str, str]
    callables: Callables
    writes_tangent: bool = False


def describe_operators(
    entries: Iterable[tuple[FunctionSchema, Iterable[str], str]], home: str = OPERATORS
) -> dict[str, Operator]:
    """Operators by name, from (schema, variants, python module). Those that write are not among them.

    `home` is what generated code calls the module that has them.
    """
    groups: dict[str, list[tuple[FunctionSchema, frozenset[str], str]]] = {}
    for schema, variants, module in entries:
        if schema.kind in ("functional", "inplace"):
            groups.setdefault(schema.name.name, []).append((schema, frozenset(variants), module))
    return {name: _describe(name, group, home) for name, group in groups.items()}


def _describe(name: str, group: list[tuple[FunctionSchema, frozenset[str], str]], home: str) -> Operator:
    kinds = {kind_of_type(s.returns[0].type) if len(s.returns) == 1 else Kind.UNKNOWN for s, _, _ in group}
    return Operator(
        name=name,
        namespace=next((module for _, _, module in group if module and module != "nn"), ""),
        is_function=any({"function", "internal"} & variants and s.kind == "functional" for s, variants, _ in group),
        is_method=any("method" in variants for _, variants, _ in group),
        returns=kinds.pop() if len(kinds) == 1 else Kind.UNKNOWN,
        arguments=frozenset(a.name for s, _, _ in group for a in s.arguments),
        is_factory=any(_is_factory(schema) for schema, _, _ in group),
        is_inplace=group[0][0].kind == "inplace",
        home=home,
    )


def _is_factory(schema: FunctionSchema) -> bool:
    first = schema.arguments[0] if schema.arguments else None
    sized = first is not None and first.name == "size" and kind_of_type(first.type) is Kind.NUMBERS
    return sized and {"dtype", "device"} <= {a.name for a in schema.kwarg_only}
