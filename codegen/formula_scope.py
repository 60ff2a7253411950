"""The names that a formula may use: variables of one operator, and what can be called from every formula.

A `Scope` has the variables that one formula may read. `Callables` has helpers (the public functions in
src/gradloom/formulas/, found by ast, never imported) and operators (from native_functions.yaml). Each
variable has a `Kind`, the little of types that the analysis needs: whether a method call is one of tensors,
whether `max(a, b)` is Python's or the operator, and what must be saved.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from .errors import SpecError
from .schema import FunctionSchema, Type
from .text import Source


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
    """A public function of src/gradloom/formulas/: its module and what can be seen of its signature."""

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
        is_factory: whether it makes a tensor of a given size, dtype and device, as `zeros` does.
    """

    name: str
    namespace: str
    is_function: bool
    is_method: bool
    returns: Kind
    arguments: frozenset[str]
    is_factory: bool

    @property
    def public_name(self) -> str:
        """`linalg.inv` for `linalg_inv`."""
        if not self.namespace:
            return self.name
        return f"{self.namespace}.{self.name.removeprefix(self.namespace + '_')}"


@dataclass(frozen=True, slots=True)
class Callables:
    """Everything that a formula may call, by name."""

    helpers: Mapping[str, Helper] = field(default_factory=dict)
    operators: Mapping[str, Operator] = field(default_factory=dict)

    @property
    def namespaces(self) -> Mapping[str, Mapping[str, Operator]]:
        """Namespace -> name in it -> operator."""
        found: dict[str, dict[str, Operator]] = {}
        for operator in self.operators.values():
            if operator.namespace:
                found.setdefault(operator.namespace, {})[operator.public_name.rpartition(".")[2]] = operator
        return found


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


def describe_operators(entries: Iterable[tuple[FunctionSchema, Iterable[str], str]]) -> dict[str, Operator]:
    """Operators by name, from (schema, variants, python module). Those that write are not among them."""
    groups: dict[str, list[tuple[FunctionSchema, frozenset[str], str]]] = {}
    for schema, variants, module in entries:
        if schema.kind == "functional":
            groups.setdefault(schema.name.base, []).append((schema, frozenset(variants), module))
    return {name: _describe(name, group) for name, group in groups.items()}


def _describe(name: str, group: list[tuple[FunctionSchema, frozenset[str], str]]) -> Operator:
    kinds = {kind_of_type(s.returns[0].type) if len(s.returns) == 1 else Kind.UNKNOWN for s, _, _ in group}
    return Operator(
        name=name,
        namespace=next((module for _, _, module in group if module and module != "nn"), ""),
        is_function=any("function" in variants for _, variants, _ in group),
        is_method=any("method" in variants for _, variants, _ in group),
        returns=kinds.pop() if len(kinds) == 1 else Kind.UNKNOWN,
        arguments=frozenset(a.name for s, _, _ in group for a in s.arguments),
        is_factory=any(_is_factory(schema) for schema, _, _ in group),
    )


def _is_factory(schema: FunctionSchema) -> bool:
    first = schema.arguments[0] if schema.arguments else None
    sized = first is not None and first.name == "size" and kind_of_type(first.type) is Kind.NUMBERS
    return sized and {"dtype", "device"} <= {a.name for a in schema.kwarg_only}


def find_helpers(directory: Path, shown: str) -> dict[str, Helper]:
    """The public functions of the modules in a directory. `shown` is the directory as errors name it.

    Raises:
        SpecError: for a file that is not Python, or a name that two modules define.
    """
    found: dict[str, Helper] = {}
    for path in sorted(directory.glob("*.py")):
        if path.stem.startswith("_"):
            continue
        source = Source(f"{shown}/{path.name}", path.read_text(encoding="utf-8"))
        try:
            tree = ast.parse(source.text)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            at = source.index((getattr(error, "lineno", 1) or 1) - 1, 0)
            raise source.error(at, "the file is not Python", "run it with Python to see why") from None
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                if node.name in found:
                    raise _twice(source, node, found[node.name])
                found[node.name] = _helper(node, path.stem)
    return found


def _twice(source: Source, node: ast.FunctionDef, first: Helper) -> SpecError:
    at = source.index(node.lineno - 1, node.col_offset + len("def "))
    message = f"helper `{node.name}` is also defined in {first.module}.py"
    return source.error(at, message, "rename one: formulas call helpers by name only", len(node.name))


def _helper(node: ast.FunctionDef, module: str) -> Helper:
    arguments = node.args
    positional = tuple(a.arg for a in (*arguments.posonlyargs, *arguments.args))
    defaults = arguments.kw_defaults
    return Helper(
        name=node.name,
        module=module,
        positional=positional,
        required=len(positional) - len(arguments.defaults),
        keywords=frozenset(a.arg for a in arguments.kwonlyargs),
        required_keywords=frozenset(
            a.arg for a, d in zip(arguments.kwonlyargs, defaults, strict=True) if d is None
        ),
        is_variadic=bool(arguments.vararg or arguments.kwarg),
        returns=Kind.TENSOR if _says(node.returns, "Tensor") else Kind.UNKNOWN,
        arity=_tuple_arity(node.returns),
    )


def _annotation(node: ast.expr | None) -> ast.expr | None:
    """An annotation as an expression, also where it is written as a string."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        try:
            return ast.parse(node.value, mode="eval").body
        except SyntaxError:
            return None
    return node


def _says(node: ast.expr | None, name: str) -> bool:
    node = _annotation(node)
    return isinstance(node, ast.Name) and node.id == name


def _tuple_arity(node: ast.expr | None) -> int | None:
    """3 for `tuple[Tensor, Tensor, Tensor | None]`; None where the annotation does not say."""
    node = _annotation(node)
    if not (
        isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "tuple"
    ):
        return None
    if not isinstance(node.slice, ast.Tuple):
        return 1
    items = node.slice.elts
    is_open = any(isinstance(item, ast.Constant) and item.value is Ellipsis for item in items)
    return None if is_open else len(items)
