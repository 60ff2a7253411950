"""The parts of a wrapper that templates print one by one: parameters, edges, results, tangents."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from dataclasses import dataclass

from .schema import Argument, Symbol

# Names from NumPy for parameters that an array function has; the parser accepts them.
ALIASES = {"dim": "axis", "keepdim": "keepdims"}
# Types whose values a guard can recognise by their class alone.
GUARDED = {"int": "int", "bool": "bool", "float": "float", "str": "str", "SymInt": "int"}


class _Rename(ast.NodeTransformer):
    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        dotted = ast.unparse(node)
        if dotted in self.names:
            return ast.copy_location(ast.Name(self.names[dotted], node.ctx), node)
        return self.generic_visit(node)  # type: ignore[return-value]

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.copy_location(ast.Name(self.names.get(node.id, node.id), node.ctx), node)


def rename(expression: str, names: Mapping[str, str]) -> str:
    """Replace names, also dotted ones, in an expression; it is unchanged to the letter if none occurs."""
    tree = ast.parse(expression, mode="eval")
    if not any(isinstance(n, ast.Name | ast.Attribute) and ast.unparse(n) in names for n in ast.walk(tree)):
        return expression
    return ast.unparse(_Rename(names).visit(tree))


def module_alias(room: str, module: str) -> str:
    """What generated code calls a module of kernels or composites: `kernels_shape_views`.

    A family may be called like one of its operators (matmul), so that its own name is taken.
    """
    return f"{room}_{module.replace('.', '_')}"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a wrapper. `name` is what callers use; `array` its array's variable, for tensors."""

    argument: Argument
    name: str
    number: bool = False

    @property
    def kind(self) -> str:
        """'tensor', 'optional', 'list', 'optional_list' or 'value'."""
        type_ = self.argument.type
        if not type_.is_tensor_like:
            return "value"
        if type_.is_list:
            return "optional_list" if "Tensor?" in str(type_) else "list"
        return "optional" if type_.is_optional else "tensor"

    @property
    def array(self) -> str:
        return f"{self.argument.python_name}_"

    @property
    def read_array(self) -> str:
        return {
            "tensor": f"{self.name}._operand",
            "optional": f"None if {self.name} is None else {self.name}._operand",
            "list": f"[t._operand for t in {self.name}]",
            "optional_list": f"[None if t is None else t._operand for t in {self.name}]",
        }[self.kind]

    @property
    def read_metadata(self) -> str:
        """The same for what is only asked for its shape and dtype, which also tensors without values have."""
        return self.read_array.replace("._operand", "._array")

    @property
    def default(self) -> str | None:
        """The default as Python source; None without one."""
        if self.argument.default is None:
            return None
        value = self.argument.default_value
        if isinstance(value, Symbol) and value.value is not None:
            return repr(value.value)
        if isinstance(value, list):
            return repr(tuple(value))
        if isinstance(value, float) and not math.isfinite(value):
            return f'float("{value}")'
        size = getattr(self.argument.type, "size", None)
        if size and isinstance(value, int):
            return repr((value,) * size)
        return repr(value) if isinstance(value, (bool, int, float, str, type(None))) else "None"

    @property
    def check(self) -> str | None:
        """A condition under which a guard must hand the call to the parser; None where there is nothing to check."""
        type_ = self.argument.type
        if self.kind != "value":
            return None
        base, name = type_.base.name, self.name
        test = f"{name}.__class__ not in NUMBERS" if base == "Scalar" else f"{name}.__class__ is not {GUARDED[base]}"
        return f"{name} is not None and {test}" if type_.is_optional else test


@dataclass(frozen=True, slots=True)
class Number:
    """A tensor parameter that takes a Python number: how to call again with the number wrapped."""

    name: str
    other: str
    wrapped_call: str
    follows: bool  # the tensor that it meets; then it is wrapped where it stands


@dataclass(frozen=True, slots=True)
class Unnamed:
    """A tensor parameter without a derivative."""

    name: str
    variable: str
    is_optional: bool
    operator: str  # as the error calls it


@dataclass(frozen=True, slots=True)
class Edge:
    """A differentiable input in a wrapper."""

    name: str
    variable: str
    is_list: bool
    is_optional: bool

    @property
    def requires(self) -> str:
        if self.is_list:
            return f"any([e is not NO_EDGE for e in edges_{self.name}])"
        return f"edge_{self.name} is not NO_EDGE"


@dataclass(frozen=True, slots=True)
class Result:
    """An output of a wrapper."""

    name: str
    array: str
    variable: str
    is_list: bool
    output_nr: int | None
    condition: str | None
    may_be_undefined: bool

    @property
    def metadata(self) -> str:
        if self.may_be_undefined:
            return f"*metadata_of({self.name})"
        return f"{self.array}.shape, {self.array}.dtype"


@dataclass(frozen=True, slots=True)
class TangentRead:
    """A tangent that a forward formula reads."""

    name: str
    variable: str
    is_list: bool
    is_optional: bool
    materialize: bool


@dataclass(frozen=True, slots=True)
class Primal:
    """An input whose value a forward formula reads."""

    name: str
    variable: str
    keeps_original: bool


@dataclass(frozen=True, slots=True)
class ForwardFormula:
    """A forward formula in a wrapper's terms."""

    targets: str
    formula: str
    comment: str
    not_implemented: str | None
    message: str
