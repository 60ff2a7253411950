"""The signature of a wrapper: its parameters, and the calls that it makes with them.

The small classes at the top are the parts that templates print one by one: parameters, edges, results, tangents.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from dataclasses import dataclass

from ..derivatives.model import DifferentiabilityInfo
from ..operators.model import NativeFunction
from ..schema import ALIASES, KEYWORD_ONLY, Argument, FunctionSchema, Symbol, parameters
from ..target import OPERATORS

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
    """Replace names, also dotted ones, in an expression; return it unchanged if none occurs."""
    tree = ast.parse(expression, mode="eval")
    if not any(isinstance(n, ast.Name | ast.Attribute) and ast.unparse(n) in names for n in ast.walk(tree)):
        return expression
    return ast.unparse(_Rename(names).visit(tree))


def module_alias(folder_name: str, module: str) -> str:
    """Return the name of a module of kernels or composites in generated code: `kernels_shape_views`. The plain name may
    be taken: a family may have the name of one of its operators (matmul)."""
    return f"{folder_name}_{module.replace('.', '_').replace(':', '_')}"


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
        """The condition under which a guard must pass the call to the parser; None for no check."""
        type_ = self.argument.type
        if self.kind != "value":
            return None
        base, name = type_.base.name, self.name
        test = f"{name}.__class__ not in NUMBERS" if base == "Scalar" else f"{name}.__class__ is not {GUARDED[base]}"
        return f"{name} is not None and {test}" if type_.is_optional else test


@dataclass(frozen=True, slots=True)
class Number:
    """A tensor parameter that takes a Python number, and the call with the number wrapped."""

    name: str
    other: str
    wrapped_call: str
    follows: bool  # the other tensor; the number is then wrapped in place


@dataclass(frozen=True, slots=True)
class Unnamed:
    """A tensor parameter without a derivative."""

    name: str
    variable: str
    is_optional: bool
    operator: str  # its name in the error


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
            return f"some_{self.name}"
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
    refuses_integers: bool = False  # inputs that require grad may give integers

    @property
    def metadata(self) -> str:
        if self.may_be_undefined:
            return f"*metadata_of({self.name})"
        return f"{self.array}.shape, {self.array}.dtype"

    @property
    def edge(self) -> str:
        return f"(fn, {self.output_nr})" if self.output_nr else "fn"


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


@dataclass(frozen=True, slots=True)
class Calls:
    """The parts of a wrapper, its signature, and the calls that it makes."""

    name: str
    function: str
    python_name: str
    kind: str
    doc: str
    schema: FunctionSchema
    native: NativeFunction
    parameters: tuple[Parameter, ...]
    info: DifferentiabilityInfo | None
    strategy: str
    guard: str | None
    has_out: bool
    composite: str | None = None
    operators: str = OPERATORS  # the operator's module in generated code
    replacement: str = ""  # for a replaced derivative, the module with the names that the new formulas call
    debug: bool = False  # whether its code asserts what gradloom.diagnostics.debug_checks lists

    @property
    def names(self) -> Mapping[str, str]:
        """Argument name -> variable in the wrapper."""
        return {p.argument.python_name: p.name for p in self.parameters}

    @property
    def signature(self) -> str:
        parts, starred = [], False
        required = max((i for i, p in enumerate(self.parameters) if p.default is None), default=-1)
        for i, p in enumerate(self.parameters):
            if p.argument.kwarg_only and not starred and self.guard:
                parts.append("*more" if self.native.deprecated_order else "*")
                starred = True
            # the guard refuses MISSING, so that the argument parser raises PyTorch's error, not Python its own
            default = p.default if p.default is not None or not self.guard else "MISSING"
            shown = default is not None and (self.guard or i > required)
            parts.append(f"{p.name}={default}" if shown else p.name)
        tail = [f"{ALIASES[p.name]}=MISSING" for p in self.parameters if self.guard and p.name in ALIASES]
        tail += ["out=None"] if self.has_out else []
        if self.makes_leaf:  # the parser passes everything but `out` by position
            parts.append("requires_grad=False")
        if tail and not starred:
            parts.append("*")
        return ", ".join(parts + tail)

    @property
    def keyword_only(self) -> tuple[str, ...]:
        """The arguments of the schema that the wrapper takes by keyword only."""
        return tuple(p.name for p in self.parameters if p.argument.kwarg_only and self.guard)

    @property
    def call_as_given(self) -> str:
        """The arguments in the form in which the guard passes them on."""
        parts = [f"{p.name}={p.name}" if p.argument.kwarg_only else p.name for p in self.parameters]
        parts += [f"{ALIASES[p.name]}={ALIASES[p.name]}" for p in self.parameters if p.name in ALIASES]
        return ", ".join(parts + (["out=out"] if self.has_out else []))

    @property
    def call_in_old_order(self) -> str:
        """The arguments of a call with more positional ones than the schema has."""
        names = [*(p.name for p in self.parameters if not p.argument.kwarg_only), "*more"]
        keywords = [p.name for p in self.parameters if p.argument.kwarg_only] + (["out"] if self.has_out else [])
        return f"({', '.join(names)}), {{{', '.join(f'{chr(34)}{k}{chr(34)}: {k}' for k in keywords)}}}"

    @property
    def call_by_position(self) -> str:
        return ", ".join(p.name for p in self.parameters)

    @property
    def call_all(self) -> str:
        """The arguments in the order of the schema, and the additional ones of a factory."""
        return ", ".join([p.name for p in self.parameters] + (["requires_grad"] if self.makes_leaf else []))

    @property
    def intercepted(self) -> str:
        """The call of `intercept`, with all arguments in the order of the schema."""
        parts = [self.itself, f"({self.call_all}{'' if ',' in self.call_all else ','})"]
        if self.has_out or self.composite:
            parts.append("out" if self.has_out else "None")
        return f"intercept({', '.join(parts + ([self.composite] if self.composite else []))})"

    @property
    def call_values(self) -> str:
        """The arguments that a call passes by position, as the inside of a tuple."""
        given = [p for p in self.parameters if not (self.guard and p.argument.kwarg_only)]
        names = [p.name for p in given]
        if self.makes_leaf:
            names = ["factory_dtype(dtype, out)" if p.name == "dtype" else p.name for p in given]
        return ", ".join(names) + ("," if len(names) == 1 else "")

    @property
    def call_keywords(self) -> str:
        """The arguments that a call passes by keyword, after others."""
        return "".join(f", {p.name}={p.name}" for p in self.parameters if self.guard and p.argument.kwarg_only)

    @property
    def overload_parameters(self) -> str:
        """Python source of its parameters, in the argument parser's form."""
        return repr(overload_parameters(self))

    @property
    def arrays(self) -> tuple[Parameter, ...]:
        return tuple(p for p in self.parameters if p.kind != "value")

    @property
    def numbers(self) -> tuple[Number, ...]:
        tensors = [p for p in self.parameters if p.kind == "tensor"]
        found = []
        for p in self.parameters:
            if p.number and len(tensors) > 1 and not (self.kind == "inplace" and p is self.parameters[0]):
                other = next(t.name for t in tensors if t is not p)
                parts = [
                    f"wrapped_number({p.name}, {other})"
                    if q is p
                    else (f"{q.name}={q.name}" if q.argument.kwarg_only and self.guard else q.name)
                    for q in self.parameters
                ]
                follows = p is not tensors[0] and other == tensors[0].name
                found.append(Number(p.name, other, ", ".join(parts + (["out=out"] if self.has_out else [])), follows))
        return tuple(found)

    @property
    def checks(self) -> tuple[str, ...]:
        found = [p.check for p in self.parameters]
        found += [f"{ALIASES[p.name]} is not MISSING" for p in self.parameters if p.name in ALIASES]
        return tuple(c for c in found if c is not None)

    @property
    def device(self) -> bool:
        return any(p.argument.python_name == "device" for p in self.parameters)

    @property
    def layout(self) -> bool:
        return any(p.argument.python_name == "layout" for p in self.parameters)

    @property
    def variants(self) -> tuple[str, ...]:
        """The ways to call it: `function`, `method`; the copy variant of a view is a function."""
        return ("function",) if self.kind == "copy" else self.native.variants_of(self.schema)

    @property
    def makes_leaf(self) -> bool:
        """Return whether it is a factory, which takes `requires_grad=`."""
        return self.kind == "functional" and is_factory(self.schema)

    @property
    def autocast(self) -> str | None:
        """The rule by which autocast casts the arguments; variants write to a given tensor and are not cast."""
        return self.native.autocast if self.kind == "functional" else None

    @property
    def first(self) -> str:
        return self.parameters[0].name

    @property
    def first_array(self) -> str:
        return self.parameters[0].array

    @property
    def itself(self) -> str:
        """The wrapper's own name in its code; another name if a parameter has that one (threshold)."""
        return f"{self.function}_wrapper" if any(p.name == self.function for p in self.parameters) else self.function

    @property
    def own_name(self) -> str:
        """The name of this overload alone."""
        return self.schema.name.unambiguous if self.function == self.python_name else self.function


def is_factory(schema: FunctionSchema) -> bool:
    """Return whether it makes a new tensor of a given dtype on a given device, so that it takes `requires_grad`."""
    return {"dtype", "device"} <= {a.name for a in schema.kwarg_only} and not schema.is_view


def is_direct(schema: FunctionSchema) -> bool:
    """Return whether a guard can check all arguments by their classes, without the parser."""
    if is_factory(schema) or not schema.arguments or schema.arguments[0].type.base.name != "Tensor":
        return False
    for argument in schema.inputs:
        type_ = argument.type
        if type_.is_list or (type_.base.name not in GUARDED and type_.base.name not in ("Tensor", "Scalar")):
            return False
        if argument.name in ALIASES and argument.default is not None or argument.python_name != argument.name:
            return False
    return True


def overload_parameters(wrapper: Calls) -> tuple[object, ...]:
    """Return the parameters of a wrapper in the argument parser's form: those of its schema, and the additional ones of
    factories and of operators with an out variant."""
    numbers = {p.argument.name for p in wrapper.parameters if p.number}
    found = parameters([p.argument for p in wrapper.parameters], numbers)
    more: tuple[object, ...] = (("requires_grad", "bool?", False),) if wrapper.makes_leaf else ()
    if wrapper.has_out and wrapper.makes_leaf:  # a dtype that is given must be that of `out`; one by default need not
        found = tuple([(*p[:2], None) if p[0] == "dtype" else p for p in found])
    if wrapper.has_out:
        returns = wrapper.schema.returns
        many = f"[{len(returns)}]" if len(returns) > 1 else "[]" if returns[0].type.is_list else ""
        more += (("out", f"Tensor{many}?", None),)
    return (*found, *(() if not more or KEYWORD_ONLY in found else (KEYWORD_ONLY,)), *more)
