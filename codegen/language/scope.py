"""The names that a formula may use: variables of one operator, and functions that every formula can call.

A `Scope` has the variables that one formula may read. `Callables` has the helpers (the public functions in
src/gradloom/formulas/, which `find_helpers` reads without importing them) and the operators of native_functions.yaml.
Each variable has a `Kind`, a coarse type that answers three questions: is a method call one of tensors, is `max(a, b)`
Python's function or the operator, and what must be saved?

`metadata_read` recognises reads of metadata: the shape, dtype and the like of a tensor. PyTorch's own formulas spell
these in C++ (`self.sym_sizes()`, `self.scalar_type()`); these spellings are accepted, and written in Python in the
generated code. Each kind of metadata has PyTorch's name for the node field that holds it, because `_saved_<field>` is
public.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path

from ..errors import SpecError
from ..reading.python_files import Signature, modules_in, signature
from ..reading.yaml_files import Source
from ..schema import MODULE_NAMES, Base, FunctionSchema, List, Type
from ..target import OPERATORS


class Kind(Enum):
    """The kind of an expression's value."""

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
    """The origin of a variable."""

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
    """Return the kind of an argument or result of a schema type."""
    base = type_.base.name
    if base == "Tensor":
        return Kind.TENSORS if type_.is_list else Kind.TENSOR
    if base in _NUMBERS:
        return Kind.NUMBERS if type_.is_list else Kind.NUMBER
    return Kind.DTYPE if base == "ScalarType" and not type_.is_list else Kind.OTHER


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a formula."""

    name: str  # its name in the formula
    kind: Kind
    role: Role
    of: str = ""  # the argument or return that it is, or belongs to (`self` for `self_t`)
    type: Type | None = None  # the schema type of an argument or result
    index: int = 0  # for one gradient, the number of its differentiable output
    # for a mask or list of gradients, the number of its elements; None if known only at run time
    size: int | None = None

    @property
    def is_optional(self) -> bool:
        return self.type is not None and self.type.is_optional


@dataclass(frozen=True, slots=True)
class Helper:
    """A public function in a folder of formulas. `module` is the name in gradloom.formulas (`elementwise`), or for a
    package the whole name (`myops.formulas.smooth`)."""

    name: str
    module: str
    signature: Signature = Signature()
    returns: Kind = Kind.UNKNOWN
    arity: int | None = None  # the number of its results, if its annotation shows it


@dataclass(frozen=True, slots=True)
class Operator:
    """The operators of one name, all overloads together, as far as formulas need them."""

    name: str  # the name in the operators' module (`linalg_inv`)
    namespace: str  # its Python module (`linalg`), or ''
    # is_function, is_method: the ways in which it may be called
    is_function: bool
    is_method: bool
    returns: Kind  # the kind of its result; UNKNOWN if that depends on the overload
    arguments: frozenset[str]  # names of all overloads' arguments
    is_factory: bool  # whether it makes a tensor of a given size, dtype and device, as `zeros` does
    # whether it writes to its tensor, as `mul_` does; formulas may do so to their own tangents
    is_inplace: bool = False
    home: str = OPERATORS  # the name of its module in generated code: `ops`, or `own` for those of a package

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
    """The meaning of a sign between a tensor and a number: an overload for numbers, whose node saves the number.

    with_number: its call, with {} for tensor and number. of_tensors: the operator for a number on the left if the order
    matters; it takes the number as a tensor.
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
        """Return whether tensors have an operator of that name as a method."""
        operator = self.operators.get(name)
        return operator is not None and operator.is_method

    def extended_by(self, package: Callables) -> Callables:
        """Return the functions that the formulas of a package may call: its own first, then these."""
        operators = dict(self.operators)
        for name, operator in package.operators.items():
            base = self.operators.get(name)
            # The package's function hides gradloom's of that name; the method of tensors stays.
            operators[name] = replace(operator, is_method=True) if base and base.is_method else operator
        helpers = {name: h for name, h in self.helpers.items() if name not in package.operators}
        forms = {name: form for name, form in self.array_forms.items() if name not in package.operators}
        return Callables(helpers | dict(package.helpers), operators, forms | dict(package.array_forms), self.infixes)

    @property
    def methods(self) -> list[str]:
        return [o.name for o in self.operators.values() if o.is_method and not o.is_inplace]


@dataclass(frozen=True, slots=True)
class Scope:
    """The names of one formula."""

    variables: Mapping[str, Variable]  # the variables that it may read
    elsewhere: Mapping[str, str]  # names of the other direction, with a hint on the right name here
    callables: Callables  # the functions that it may call
    # whether methods that write to a tangent are allowed (`self_t.zero_()` of an in-place operator)
    writes_tangent: bool = False


def describe_operators(
    entries: Iterable[tuple[FunctionSchema, Iterable[str], str]], home: str = OPERATORS
) -> dict[str, Operator]:
    """Return the functional and in-place operators by name, from (schema, variants, python module). `home` is the name
    of their module in generated code."""
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


_INT, _INTS, _DTYPE = Base("int"), List(Base("int")), Base("ScalarType")


@dataclass(frozen=True, slots=True)
class Metadata:
    """One kind of metadata."""

    suffix: str  # the field that holds it: `self_sym_sizes`
    read: str  # the Python expression for it, with `{}` for the tensor
    # kind, type: of its value
    kind: Kind
    type: Type
    # whether PyTorch shows the field as `_saved_<field>`; it is then kept even if the tensor is, too
    is_public: bool = False


SIZES = Metadata("sym_sizes", "{}.shape", Kind.NUMBERS, _INTS, True)
STRIDES = Metadata("sym_strides", "{}.stride()", Kind.NUMBERS, _INTS, True)
NUMEL = Metadata("sym_numel", "{}.numel()", Kind.NUMBER, _INT, True)
DIM = Metadata("dim", "{}.dim()", Kind.NUMBER, _INT, True)
OFFSET = Metadata("sym_storage_offset", "{}.storage_offset()", Kind.NUMBER, _INT)
DTYPE = Metadata("scalar_type", "{}.dtype", Kind.DTYPE, _DTYPE)
DEVICE = Metadata("device", "{}.device", Kind.OTHER, Base("Device"))
LAYOUT = Metadata("layout", "{}.layout", Kind.OTHER, Base("Layout"))

# Attributes and methods without arguments: their metadata, and the expression that selects a part of it.
_ATTRIBUTES = {
    "shape": (SIZES, ""), "dtype": (DTYPE, ""), "device": (DEVICE, ""), "layout": (LAYOUT, ""),
    "ndim": (DIM, ""), "itemsize": (DTYPE, ".itemsize"),
}  # fmt: skip
_METHODS = {
    "size": (SIZES, ""), "sizes": (SIZES, ""), "sym_sizes": (SIZES, ""),
    "stride": (STRIDES, ""), "strides": (STRIDES, ""), "sym_strides": (STRIDES, ""),
    "numel": (NUMEL, ""), "sym_numel": (NUMEL, ""), "nelement": (NUMEL, ""),
    "dim": (DIM, ""), "ndimension": (DIM, ""),
    "storage_offset": (OFFSET, ""), "sym_storage_offset": (OFFSET, ""),
    "scalar_type": (DTYPE, ""), "element_size": (DTYPE, ".itemsize"),
    "is_complex": (DTYPE, ".is_complex"), "is_floating_point": (DTYPE, ".is_floating_point"),
}  # fmt: skip
_INDEXED = {"size": SIZES, "sym_size": SIZES, "stride": STRIDES, "sym_stride": STRIDES}

# Neither metadata nor operators: attributes that are tensors, and methods.
TENSOR_ATTRIBUTES = {"real", "imag", "T", "mT", "H", "mH"}
TENSOR_METHODS = {"item": Kind.NUMBER, "options": Kind.OTHER, "to": Kind.TENSOR, "is_contiguous": Kind.NUMBER}
DTYPE_ATTRIBUTES = {"is_complex", "is_floating_point", "is_signed", "itemsize"}
DTYPE_METHODS = {"to_real", "to_complex"}
NUMBER_ATTRIBUTES = {"real", "imag"}
NUMBER_METHODS = {"conj": "conjugate"}  # Python's name for PyTorch's

ATTRIBUTE_NAMES = frozenset(_ATTRIBUTES) | TENSOR_ATTRIBUTES
METHOD_NAMES = frozenset(_METHODS) | frozenset(_INDEXED) | frozenset(TENSOR_METHODS)


@dataclass(frozen=True, slots=True)
class Read:
    """An expression that reads metadata of `base`: `self.size(0)` reads SIZES of `self` at index `0`. `rest` is the
    text after it: `.is_complex` for `self.is_complex()`."""

    base: ast.expr
    metadata: Metadata
    index: ast.expr | None = None
    rest: str = ""

    @property
    def kind(self) -> Kind:
        return Kind.NUMBER if self.index is not None or self.rest else self.metadata.kind


def metadata_read(node: ast.expr) -> Read | None:
    """Return the metadata that an expression reads; None if it reads none. `x.shape[0]` is one read."""
    if isinstance(node, ast.Attribute) and node.attr in _ATTRIBUTES:
        metadata, rest = _ATTRIBUTES[node.attr]
        return Read(node.value, metadata, None, rest)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.keywords:
        name, base = node.func.attr, node.func.value
        if not node.args and name in _METHODS:
            metadata, rest = _METHODS[name]
            return Read(base, metadata, None, rest)
        if len(node.args) == 1 and name in _INDEXED:
            return Read(base, _INDEXED[name], node.args[0])
    if isinstance(node, ast.Subscript) and not isinstance(node.slice, (ast.Slice, ast.Tuple)):
        whole = metadata_read(node.value)
        if whole is not None and whole.index is None and whole.metadata.kind is Kind.NUMBERS:
            return Read(whole.base, whole.metadata, node.slice)
    return None


def find_helpers(directory: Path, shown: str, package: str = "gradloom.formulas") -> dict[str, Helper]:
    """Return the public functions of the modules in a directory, which errors name as `shown`; `package` precedes the
    modules' names. Raises SpecError for a file that is not Python, or a name that two modules define."""
    found: dict[str, Helper] = {}
    for module, path in modules_in(directory):
        if any(part.startswith("_") for part in module.split(".")):
            continue
        shown_path = f"{shown}/{path.relative_to(directory).as_posix()}"
        source = Source(shown_path, path.read_text(encoding="utf-8"))
        try:
            tree = ast.parse(source.text)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            at = source.index((getattr(error, "lineno", 1) or 1) - 1, 0)
            raise source.error(at, "the file is not Python", "run it with Python to see why") from None
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                if node.name in MODULE_NAMES:
                    raise _taken(source, node)
                if node.name in found:
                    raise _twice(source, node, found[node.name])
                found[node.name] = _helper(node, f"{package}.{module}")
    return found


def _taken(source: Source, node: ast.FunctionDef) -> SpecError:
    at = source.index(node.lineno - 1, node.col_offset + len("def "))
    message = f"`{node.name}` cannot be the name of a helper: generated code uses it"
    return source.error(at, message, "choose another name, or let it start with an underscore", len(node.name))


def _twice(source: Source, node: ast.FunctionDef, first: Helper) -> SpecError:
    at = source.index(node.lineno - 1, node.col_offset + len("def "))
    path = first.module.partition(".formulas.")[2].replace(".", "/")
    message = f"helper `{node.name}` is also defined in {path}.py"
    return source.error(at, message, "rename one: formulas call helpers by name only", len(node.name))


def _helper(node: ast.FunctionDef, module: str) -> Helper:
    returns = Kind.TENSOR if _says(node.returns, "Tensor") else Kind.UNKNOWN
    return Helper(node.name, module, signature(node), returns, _tuple_arity(node.returns))


def _annotation(node: ast.expr | None) -> ast.expr | None:
    """Return an annotation as an expression, also if it is written as a string."""
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
    """Return 3 for `tuple[Tensor, Tensor, Tensor | None]`; None if the annotation does not show it."""
    node = _annotation(node)
    if not (isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "tuple"):
        return None
    if not isinstance(node.slice, ast.Tuple):
        return 1
    items = node.slice.elts
    is_open = any(isinstance(item, ast.Constant) and item.value is Ellipsis for item in items)
    return None if is_open else len(items)
