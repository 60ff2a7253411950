"""What the templates print of each wrapper: decided here, so that the templates need only loops and conditions.

One `Wrapper` is one generated function: an operator, or the in-place variant of one. Expressions from the YAML files
(kernels, formulas) are text with their names replaced: in a wrapper `self` is called `input`, as callers know it, and
in kernels a tensor's name stands for its array, `self_`.
"""

from __future__ import annotations

import ast
import keyword
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from .derivative_model import (
    DifferentiabilityInfo,
    DifferentiableFunction,
    DifferentiableInput,
    ForwardDerivative,
    Output,
    SavedAttribute,
)
from .formula_scope import OPERATORS, OWN
from .kernel_expr import outermost_ufunc
from .native_functions import NativeFunction
from .schema import Argument, FunctionSchema
from .target import Target

# Arguments that say where a result lives; every result lives on the CPU in a strided layout.
PLACEMENT = ("layout", "device", "pin_memory", "non_blocking")
# Names from NumPy for parameters that an array function has; the parser accepts them.
ALIASES = {"dim": "axis", "keepdim": "keepdims"}
# Types whose values a guard can recognise by their class alone.
_GUARDS = {"int": "int", "bool": "bool", "float": "float", "str": "str", "SymInt": "int"}


class _Rename(ast.NodeTransformer):
    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.copy_location(ast.Name(self.names.get(node.id, node.id), node.ctx), node)


def rename(expression: str, names: Mapping[str, str]) -> str:
    """An expression with some of its names replaced; unchanged to the letter if none occurs."""
    tree = ast.parse(expression, mode="eval")
    if not any(isinstance(n, ast.Name) and n.id in names for n in ast.walk(tree)):
        return expression
    return ast.unparse(_Rename(names).visit(tree))


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
        test = f"{name}.__class__ not in NUMBERS" if base == "Scalar" else f"{name}.__class__ is not {_GUARDS[base]}"
        return f"{name} is not None and {test}" if type_.is_optional else test


@dataclass(frozen=True, slots=True)
class Number:
    """A tensor parameter that takes a Python number: how to call again with the number wrapped."""

    name: str
    other: str
    wrapped_call: str
    follows: bool  # the tensor that it meets; then it is wrapped where it stands


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


@dataclass(frozen=True, slots=True)
class Wrapper:
    """A generated function; see the templates for what each field is used for."""

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
    operators: str = OPERATORS  # what the code calls the module that has this operator
    of_methods: bool = True  # whether an in-place variant is a method even if nobody says so
    replacement: str = ""  # of a derivative that is replaced: the module with what the new formulas call

    # --- signature and calls -----------------------------------------------------------------------------------

    @property
    def names(self) -> Mapping[str, str]:
        """Argument name -> variable in the wrapper."""
        return {p.argument.python_name: p.name for p in self.parameters}

    @property
    def signature(self) -> str:
        parts, starred, missing = [], False, False
        for p in self.parameters:
            if p.argument.kwarg_only and not starred and self.guard:
                parts.append("*")
                starred = True
            missing = missing or bool(self.guard and p.name in ALIASES)
            default = p.default if not missing or p.default is not None else "MISSING"
            parts.append(p.name if default is None or (not self.guard) else f"{p.name}={default}")
        tail = [f"{ALIASES[p.name]}=MISSING" for p in self.parameters if self.guard and p.name in ALIASES]
        tail += ["out=None"] if self.has_out else []
        if self.makes_leaf:  # the parser passes everything but `out` by position
            parts.append("requires_grad=False")
        if tail and not starred:
            parts.append("*")
        return ", ".join(parts + tail)

    @property
    def call_as_given(self) -> str:
        """The arguments as the guard passes them on."""
        parts = [f"{p.name}={p.name}" if p.argument.kwarg_only else p.name for p in self.parameters]
        parts += [f"{ALIASES[p.name]}={ALIASES[p.name]}" for p in self.parameters if p.name in ALIASES]
        return ", ".join(parts + (["out=out"] if self.has_out else []))

    @property
    def call_by_position(self) -> str:
        return ", ".join(p.name for p in self.parameters)

    @property
    def call_all(self) -> str:
        """All arguments in the order of the schema, and what a factory takes besides."""
        return ", ".join([p.name for p in self.parameters] + (["requires_grad"] if self.makes_leaf else []))

    @property
    def intercepted(self) -> str:
        """How the call is handed to whoever wants to see it: all arguments, in the order of the schema."""
        parts = [self.itself, f"({self.call_all}{'' if ',' in self.call_all else ','})"]
        if self.has_out or self.composite:
            parts.append("out" if self.has_out else "None")
        return f"intercept({', '.join(parts + ([self.composite] if self.composite else []))})"

    @property
    def call_values(self) -> str:
        """The arguments that a call passes by position, as the inside of a tuple."""
        names = [p.name for p in self.parameters if not (self.guard and p.argument.kwarg_only)]
        if self.makes_leaf:
            names = ["factory_dtype(dtype, out)" if name == "dtype" else name for name in names]
        return ", ".join(names) + ("," if len(names) == 1 else "")

    @property
    def call_keywords(self) -> str:
        """The arguments that a call passes by keyword, after others."""
        return "".join(f", {p.name}={p.name}" for p in self.parameters if self.guard and p.argument.kwarg_only)

    @property
    def overload_text(self) -> str:
        """The signature as the argument parser reads it."""
        return repr(parser_signature(self))

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
        """How it is called: `function`, `method`; the copy variant of a view is a function."""
        return ("function",) if self.kind == "copy" else self.native.variants

    @property
    def makes_leaf(self) -> bool:
        """Whether it is a factory, which takes `requires_grad=`."""
        return self.kind == "functional" and is_factory(self.schema)

    @property
    def autocast(self) -> str | None:
        """The rule by which autocast casts the arguments; variants write where callers say and keep theirs."""
        return self.native.autocast if self.kind == "functional" else None

    @property
    def first(self) -> str:
        return self.parameters[0].name

    @property
    def first_array(self) -> str:
        return self.parameters[0].array

    # --- kernel ------------------------------------------------------------------------------------------------

    @property
    def _kernel_names(self) -> Mapping[str, str]:
        assert self.native.kernel is not None
        # A family may be called like one of its operators (matmul), so its kernels go by another name.
        names = {family: f"kernels_{family}" for family in self.native.kernel.families}
        for p in self.parameters:
            name = p.argument.python_name
            if p.kind != "value":
                names[name] = p.array
            elif p.argument.type.base.name == "ScalarType":
                names[name] = f"{name}_numpy"
            elif p.name != name:
                names[name] = p.name
        return names

    @property
    def kernel(self) -> str:
        kernel = self.native.kernel
        assert kernel is not None
        if kernel.kind == "expression":
            return rename(kernel.source, self._kernel_names)
        values = []
        for p in self.parameters:
            if p.argument.python_name in PLACEMENT:
                continue
            if p.kind != "value":
                values.append(p.array)
            elif p.argument.type.base.name == "ScalarType" and not p.argument.type.is_list:
                values.append(f"None if {p.name} is None else {p.name}.numpy")
            elif p.argument.type.base.name == "Generator":
                values.append(f"None if {p.name} is None else {p.name}._stream")
            else:
                values.append(p.name)
        return f"kernels_{kernel.source}({', '.join(values)})"

    @property
    def itself(self) -> str:
        """What the wrapper calls itself: its name, or another one where a parameter bears that (threshold)."""
        return f"{self.function}_wrapper" if any(p.name == self.function for p in self.parameters) else self.function

    @property
    def refuses(self) -> bool:
        """Whether NumPy's errors about shapes and dtypes are said in PyTorch's words: those of pointwise operators."""
        return "pointwise" in self.native.tags

    @property
    def refusal(self) -> str:
        arrays = [p.array for p in self.arrays if p.kind in ("tensor", "optional")]
        return f"refusal(error, {', '.join([repr(self.python_name.rstrip('_')), *arrays])})"

    @property
    def ufunc_out(self) -> str | None:
        """The kernel as a ufunc that writes to the first argument's array; None where it is no single ufunc."""
        kernel = self.native.kernel
        if kernel is None or kernel.kind != "expression" or self.native.type_promotion == "always_bool":
            return None
        found = with_out(ast.parse(kernel.source, mode="eval").body, self.first_array, self._kernel_names)
        return found

    @property
    def operand_arrays(self) -> tuple[str, ...]:
        return tuple(p.array for p in self.arrays[1:] if p.kind == "tensor")

    @property
    def written(self) -> str:
        return self.first_array

    @property
    def scalars(self) -> tuple[str, ...]:
        """Python numbers that take part in type promotion."""
        if self.native.type_promotion != "default_with_numbers":
            return ()
        return tuple(p.name for p in self.parameters if p.kind == "value" and p.argument.type.base.name == "Scalar")

    @property
    def promotes(self) -> tuple[Parameter, ...]:
        """The tensors whose arrays are brought to one dtype before the kernel."""
        rule = self.native.type_promotion or self._default_promotion
        chosen = self.native.promotes
        arrays = tuple(p for p in self.arrays if not chosen or p.argument.name in chosen)
        tensors = tuple(p for p in arrays if p.kind in ("tensor", "optional"))
        if rule == "none" or len(arrays) != len(tensors):
            return ()
        if rule == "int_to_float":
            return tensors
        return tensors if len(tensors) > 1 or self.scalars else ()

    @property
    def _default_promotion(self) -> str:
        kernel = self.native.kernel
        pointwise = "pointwise" in self.native.tags
        return "default" if pointwise or (kernel is not None and kernel.kind == "expression") else "none"

    @property
    def promotion(self) -> str:
        return {"int_to_float": "promote_to_float", "no_bool": "promote_numbers"}.get(
            self.native.type_promotion or "", "promote")

    @property
    def dtypes_differ(self) -> str:
        first, *rest = self.promotes
        tests = [
            f"{first.array}.dtype is not {p.array}.dtype"
            if p.kind == "tensor"
            else f"{p.array} is not None and {first.array}.dtype is not {p.array}.dtype"
            for p in rest
        ]
        if self.native.type_promotion == "int_to_float" or self.scalars:
            tests.append(f"{first.array}.dtype.kind not in 'fcV'")
        tests += [f"{s}.__class__ is complex" for s in self.scalars]
        return " or ".join(tests)

    @property
    def narrows(self) -> tuple[str, ...]:
        """The arrays to look at where NumPy may have made float64 of integers: expressions that say nothing else."""
        kernel = self.native.kernel
        if kernel is None or kernel.kind != "expression" or self.native.type_promotion is not None:
            return ()
        if "pointwise" in self.native.tags and kernel.ufunc in _KEEPS_INTEGERS:
            return ()
        return tuple(f"*{p.array}" if "list" in p.kind else p.array for p in self.arrays)

    # --- results -------------------------------------------------------------------------------------------------

    @property
    def is_view(self) -> bool:
        return self.schema.is_view

    @property
    def source(self) -> str:
        """The tensor that a view shows."""
        letters = {s for r in self.schema.returns if r.annotation for s in r.annotation.sets}
        for p in self.parameters:
            if p.argument.annotation and letters & set(p.argument.annotation.sets):
                return p.name
        return self.first

    @property
    def own_name(self) -> str:
        """The name that reaches this overload alone."""
        return self.schema.name.unambiguous if self.function == self.python_name else self.function

    @property
    def records_view(self) -> bool:
        """Whether its result is a view to autograd, too, and not only in memory."""
        return self.is_view and self.strategy != "not_differentiable"

    @property
    def changes_view(self) -> bool:
        """Whether it changes what its tensor shows of the memory, and not the memory."""
        return self.kind == "inplace" and "inplace_view" in self.native.tags

    @property
    def writes_itself(self) -> bool:
        """Whether the kernel writes to the first argument's array, as one whose name ends in `_` does."""
        kernel = self.native.kernel
        return (self.kind == "inplace" and kernel is not None and kernel.function is not None
                and kernel.function.endswith("_"))

    @property
    def replay(self) -> str:
        """How to make the view again from another tensor, for a view that as_strided cannot make."""
        if "changes_dtype" not in self.native.tags:
            return ""
        rest = "".join(f", {p.name}={p.name}" if p.argument.kwarg_only else f", {p.name}" for p in self.parameters[1:])
        return f"lambda t: {self.operators}.{self.schema.name.unambiguous}(t{rest})"

    @property
    def list_output(self) -> bool:
        return len(self.schema.returns) == 1 and self.schema.returns[0].type.is_list

    @property
    def outputs(self) -> tuple[Result, ...]:
        checks = any(p.argument.type.base.name == "ScalarType" for p in self.parameters)
        masked = any(p.argument.type.is_list and p.argument.type.base.name == "bool" for p in self.parameters)
        known: Iterable[Output | None] = self.info.outputs if self.info else [None] * len(self.schema.returns)
        found = []
        for index, output in enumerate(known):
            name = output.name if output else _output_name(self.schema, index)
            if name in {p.name for p in self.parameters} or keyword.iskeyword(name):
                name += "_out"
            is_list = self.schema.returns[index].type.is_list
            if self.kind == "inplace":
                found.append(Result(name, self.first_array, self.first, False,
                                    output.output_nr if output else None, None, False))
                continue
            condition = rename(output.condition, self.names) if output and output.condition else None
            if masked:
                condition = f"{name} is not None"
            elif checks and condition is None:
                condition = f"{name}_.dtype.kind in 'fcV'"
            found.append(Result("results" if is_list else name, f"{name}_", "results" if is_list else name, is_list,
                                output.output_nr if output else None, condition, masked))
        return tuple(found)

    @property
    def differentiable(self) -> tuple[Result, ...]:
        return tuple(o for o in self.outputs if o.output_nr is not None)

    @property
    def result_tuple(self) -> str:
        if self.list_output:
            return "results"
        return f"({', '.join(o.name for o in self.outputs)},)"

    @property
    def result_class(self) -> str | None:
        returns = self.schema.returns
        if len(returns) < 2 or any(r.name is None for r in returns) or self.kind != "functional":
            return None
        return f"{self.schema.name.base}_result"

    @property
    def returns(self) -> str:
        if self.list_output:
            return "tuple(results)"
        names = ", ".join(o.name for o in self.outputs)
        if len(self.outputs) == 1:
            return names
        return f"{self.result_class}(({names}))" if self.result_class else f"({names})"

    @property
    def not_implemented(self) -> bool:
        return self.strategy == "not_implemented" and any(r.type.base.name == "Tensor" for r in self.schema.returns)

    @property
    def tensor_inputs(self) -> str:
        return ", ".join(
            f"*{p.name}" if "list" in p.kind else p.name for p in self.parameters if p.kind != "value"
        ) + ","

    # --- history ---------------------------------------------------------------------------------------------------

    @property
    def node(self) -> str | None:
        """The node class, as the code names it."""
        if self.info is None or self.info.node is None:
            return None
        return f"{self.replacement}.{self.info.node}" if self.replacement else self.info.node

    @property
    def inputs(self) -> tuple[Edge, ...]:
        assert self.info is not None
        return tuple(self._edge(i) for i in self.info.inputs)

    def _edge(self, i: DifferentiableInput) -> Edge:
        return Edge(i.name, self.names.get(i.name, i.name), i.is_list, "?" in str(i.type))

    @property
    def edge_list(self) -> str:
        return ", ".join(f"*edges_{e.name}" if e.is_list else f"edge_{e.name}" for e in self.inputs) + (
            "," if len(self.inputs) == 1 else "")

    @property
    def other_inputs(self) -> str:
        """The differentiable inputs after the first, as the inside of a tuple."""
        return "".join(f"{e.variable}, " for e in self.inputs if e.variable != self.first).rstrip()

    @property
    def needed(self) -> tuple[Edge, ...]:
        assert self.info is not None
        return tuple(self._edge(i) for i in self.info.needed)

    @property
    def requires(self) -> str:
        return " or ".join(e.requires for e in self.inputs)

    def _saved(self, items: Iterable[SavedAttribute]) -> tuple[SavedAttribute, ...]:
        names = dict(self.names)
        for o, known in zip(self.outputs, self.info.outputs if self.info else (), strict=True):
            names[known.name] = o.variable
        return tuple(
            replace(s, read=rename(s.read, names), condition=rename(s.condition, self.names) if s.condition else None)
            for s in items
        )

    @property
    def saved_inputs(self) -> tuple[SavedAttribute, ...]:
        return self._saved(self.info.saved_inputs) if self.info else ()

    @property
    def saved_outputs(self) -> tuple[SavedAttribute, ...]:
        return self._saved(self.info.saved_outputs) if self.info else ()

    # --- forward mode ------------------------------------------------------------------------------------------------

    @property
    def _forward(self) -> tuple[ForwardDerivative, ...]:
        return self.info.forward if self.info is not None else ()

    @property
    def forward(self) -> tuple[ForwardFormula, ...]:
        names = dict(self.names)
        if self.info is not None:
            for o, known in zip(self.outputs, self.info.outputs, strict=True):
                names[known.name] = o.variable
        found = []
        for f in self._forward:
            targets = ", ".join(f"{name}_tangent" for name in f.outputs)
            message = repr(
                f"the forward-mode derivative for '{self.name}' is not implemented. {f.not_implemented or ''}"
            )
            formula = rename(f.formula, {**names, **self._moved}) if f.not_implemented is None else ""
            found.append(ForwardFormula(targets, formula, f"{', '.join(f.outputs)}: {_one_line(f.source)}",
                                        f.not_implemented, message))
        return tuple(found)

    @property
    def _moved(self) -> Mapping[str, str]:
        """What a formula calls, as code says that runs in another module than the one that imports it."""
        if not self.replacement or self.info is None:
            return {}
        return {name: f"{self.replacement}.{name}" for name in (OWN, *(n for _, n in self.info.forward_helpers))}

    @property
    def tangents(self) -> tuple[TangentRead, ...]:
        found: dict[str, TangentRead] = {}
        for f in self._forward:
            for t in f.tangents:
                known = found.get(t.name)
                found[t.name] = TangentRead(t.name, self.names[t.input], t.is_list, t.is_optional,
                                            t.materialize or (known is not None and known.materialize))
        return tuple(found.values())

    @property
    def refuses_tangents(self) -> bool:
        """Whether forward mode must stop here: the operator has derivatives, or might have, and no forward formula."""
        return not self._forward and (self.node is not None or self.not_implemented)

    @property
    def has_tangent(self) -> str:
        tests = [f"any([t is not None for t in {t.name}])" if t.is_list else f"{t.name} is not None"
                 for t in self.tangents]
        return " or ".join(tests) or "False"

    @property
    def primals(self) -> tuple[Primal, ...]:
        found: dict[str, Primal] = {}
        for f in self._forward:
            for name in f.primals:
                keeps = name in f.keeps_original or (name in found and found[name].keeps_original)
                found[name] = Primal(name, self.names[name], keeps)
        return tuple(found.values())

    @property
    def forward_outputs(self) -> tuple[Result, ...]:
        given = {name for f in self._forward if f.not_implemented is None for name in f.outputs}
        if self.info is None:
            return ()
        return tuple(replace(o, name=known.name) if not o.is_list else replace(o, variable="results", name=known.name)
                     for o, known in zip(self.outputs, self.info.outputs, strict=True) if known.name in given)


_KEEPS_INTEGERS = frozenset(
    "add subtract multiply negative positive absolute maximum minimum fmax fmin equal not_equal less less_equal "
    "greater greater_equal logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor invert "
    "left_shift right_shift remainder fmod floor_divide sign square conjugate gcd lcm isnan isinf isfinite "
    "signbit".split()
)


def with_out(tree: ast.expr, target: str, names: Mapping[str, str]) -> str | None:
    """A kernel expression whose outermost ufunc, on either branch of a condition, writes to `target`."""
    if isinstance(tree, ast.IfExp):
        body, orelse = with_out(tree.body, target, names), with_out(tree.orelse, target, names)
        test = rename(ast.unparse(tree.test), names)
        return f"{body} if {test} else {orelse}" if body and orelse else None
    ufunc, operands = outermost_ufunc(tree)
    if ufunc is None:
        return None
    return f"xp.{ufunc}({', '.join(rename(o, names) for o in operands)}, out={target})"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _output_name(schema: FunctionSchema, index: int) -> str:
    returned = schema.returns[index]
    if returned.name:
        return returned.name
    return "result" if len(schema.returns) == 1 else f"result{index}"


def is_factory(schema: FunctionSchema) -> bool:
    """Whether it makes a tensor of a given dtype on a given device, so that it may be asked for a leaf."""
    return {"dtype", "device"} <= {a.name for a in schema.kwarg_only}


def is_direct(schema: FunctionSchema) -> bool:
    """Whether a guard can check all arguments by their classes, so that no parser stands before the wrapper."""
    if is_factory(schema) or not schema.arguments or schema.arguments[0].type.base.name != "Tensor":
        return False
    for argument in schema.inputs:
        type_ = argument.type
        if type_.is_list or (type_.base.name not in _GUARDS and type_.base.name not in ("Tensor", "Scalar")):
            return False
        if argument.name in ALIASES and argument.default is not None:
            return False
    return True


def parser_signature(wrapper: Wrapper) -> str:
    """The signature of a wrapper in the language of the argument parser."""
    schema = wrapper.schema
    parts, starred = [], False
    for p in wrapper.parameters:
        a = p.argument
        if a.kwarg_only and not starred:
            parts.append("*")
            starred = True
        type_ = a.type.text(None).replace("SymInt", "int")
        if p.number:
            type_ = type_.replace("Tensor", "Tensor|number", 1)
        parts.append(f"{type_} {a.name}" + ("" if a.default is None else f"={a.default}"))
    tail = ["bool? requires_grad=False"] if wrapper.makes_leaf else []
    if wrapper.has_out:
        count = len(schema.returns)
        tail.append("Tensor? out=None" if count == 1 and not schema.returns[0].type.is_list
                    else "Tensor[]? out=None" if count == 1 else f"Tensor[{count}]? out=None")
    if tail and not starred:
        parts.append("*")
    return f"{wrapper.python_name}({', '.join(parts + tail)})"


def make_wrappers(joined: DifferentiableFunction, is_single: bool, taken: Collection[str] = (),
                  doc: str = "", target: Target | None = None) -> Wrapper:
    """The wrapper of an operator or of its in-place variant.

    Args:
        is_single: whether its Python name has only this overload.
        taken: the Python names of all operators; an overload must not be called like one of another name.
        doc: its docstring.
        target: the package that has it; gradloom itself by default.
    """
    native: NativeFunction = joined.function
    schema = joined.schema
    kind = "inplace" if schema.kind == "inplace" else "copy" if joined.variant is not None else "functional"
    out_kind = "copy_out" if kind == "copy" else "out"
    name = schema.name.name
    first_is_self = bool(schema.arguments) and schema.arguments[0].name == "self"
    is_copy = joined.variant is not None and joined.variant.kind == "copy"
    renames = first_is_self and (is_copy or native.variants != ("method",))
    parameters = tuple(
        Parameter(a, "input" if a.name == "self" and renames else a.python_name, a.name in native.accepts_number)
        for a in schema.inputs
    )
    direct = is_single and is_direct(schema)
    function = name if direct else schema.name.unambiguous
    if function != name and function in taken:
        function += "_overload"
    return Wrapper(
        name=str(schema.name),
        function=function,
        python_name=name,
        kind=kind,
        doc=doc or str(schema),
        schema=schema,
        native=native,
        parameters=parameters,
        info=joined.info if native.composite is None else None,
        strategy=joined.strategy,
        guard=f"_{schema.name.unambiguous.upper()}" if direct else None,
        has_out=kind != "inplace" and any(v.kind == out_kind for v in native.derived),
        composite=None if native.composite is None else f"composite_{native.composite}",
        operators=OPERATORS if target is None else target.operators,
        of_methods=target is None or target.is_own,
    )
