"""The computation, results and history of a wrapper.

`KernelCalls` is the kernel on arrays of one dtype, `Results` the tensors that are returned (some are views, some have
gradients), `History` the node of the backward formulas and the tangents of forward mode.
"""

from __future__ import annotations

import ast
import keyword
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ..derivatives.model import DifferentiableInput, ForwardDerivative, Output, SavedAttribute
from ..language.array_language import WRONG_WITH_GAPS
from ..language.kernels import PLACEMENT, outermost_ufunc
from ..schema import FunctionSchema
from ..target import OWN
from .calls import Calls, Edge, ForwardFormula, Parameter, Primal, Result, TangentRead, Unnamed, module_alias, rename

_KEEPS_INTEGERS = frozenset(
    "add subtract multiply negative positive absolute maximum minimum fmax fmin equal not_equal less less_equal "
    "greater greater_equal logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor invert "
    "left_shift right_shift remainder fmod floor_divide sign square conjugate gcd lcm isnan isinf isfinite "
    "signbit".split()
)


@dataclass(frozen=True, slots=True)
class KernelCalls(Calls):
    """A wrapper with the call of its kernel."""

    @property
    def _kernel_modules(self) -> dict[str, str]:
        assert self.native.kernel is not None
        return {
            name: f"{module_alias('kernels', module)}.{name.partition('.')[2]}"
            for name, module in self.native.kernel.modules
        }

    @property
    def made_source(self) -> str:
        """The body of the function that generated code has for a definition."""
        assert self.native.kernel is not None
        return rename(self.native.kernel.source, self._kernel_modules)

    @property
    def _kernel_names(self) -> Mapping[str, str]:
        names = self._kernel_modules
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
        if self.native.has_made_kernel:
            names = self._kernel_names
            given = [names.get(name, name) for name in self.native.made_parameters]
            return f"{self.native.made_name}({', '.join(given)})"
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
        return f"{self._kernel_names[kernel.source]}({', '.join(values)})"

    @property
    def shared_ufunc(self) -> str | None:
        """The kernel as a ufunc of NumPy, if it is `xp.<ufunc>(<tensor>)`: large results are worth several threads."""
        kernel = self.native.kernel
        if kernel is None or kernel.ufunc is None or len(self.arrays) != 1 or self.arrays[0].kind != "tensor":
            return None
        call = f"xp.{kernel.ufunc}({self.arrays[0].array})"
        return f"xp.{kernel.ufunc}" if self.kernel == call else None

    @property
    def refusal(self) -> str:
        """The error to raise for what the kernel raised: `refusal` is told the arrays, and the integers by name."""
        broadcasts = "pointwise" in self.native.tags and sum(p.kind in ("tensor", "optional") for p in self.arrays) > 1
        if broadcasts and self.kind == "inplace":
            return f"refused_write(error, {self.first_array}, {self.first_array}, {self._told})"
        return f"{'pointwise_refusal' if broadcasts else 'refusal'}(error, {self._told})"

    @property
    def refusal_of_write(self) -> str:
        """The call of `refused_write`: `refusal` for an in-place operator whose arrays were promoted."""
        return f"refused_write(error, written, {self.first_array}, {self._told})"

    @property
    def _told(self) -> str:
        told = [p.array for p in self.arrays if p.kind in ("tensor", "optional")]
        for p in self.parameters:
            if p.kind == "value" and p.argument.type.base.name in ("int", "SymInt"):
                told.append(f"{p.argument.python_name}={p.name}")
        return ", ".join([repr(self.python_name.rstrip("_")), *told])

    @property
    def ufunc_out(self) -> str | None:
        """The kernel as a ufunc that writes to the first argument's array; None if it is not a single ufunc."""
        kernel = self.native.kernel
        if kernel is None or kernel.kind != "expression" or self.native.type_promotion == "always_bool":
            return None
        return with_out(ast.parse(kernel.source, mode="eval").body, self.first_array, self._kernel_names)

    @property
    def refuses_gaps(self) -> bool:
        """Return whether `ufunc_out` must not write to an array whose elements do not lie side by side."""
        kernel = self.native.kernel
        return kernel is not None and kernel.ufunc in WRONG_WITH_GAPS

    @property
    def operand_arrays(self) -> tuple[str, ...]:
        return tuple(p.array for p in self.arrays[1:] if p.kind == "tensor")

    @property
    def scalars(self) -> tuple[str, ...]:
        """The Python numbers that take part in type promotion."""
        if self.native.type_promotion != "default_with_numbers":
            return ()
        return tuple(p.name for p in self.parameters if p.kind == "value" and p.argument.type.base.name == "Scalar")

    @property
    def promotes(self) -> tuple[Parameter, ...]:
        """The tensors whose arrays are cast to one dtype before the kernel."""
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
        special = {
            "default_if_fitting": "promote_fitting",
            "int_to_float": "promote_to_float",
            "no_bool": "promote_numbers",
            "no_integer_quotient": "promote_quotient",
        }
        found = special.get(self.native.type_promotion or "", "promote")
        return found if self.native.half_numbers is None else f"{found}_exact"

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
        """The arrays to check if NumPy may have promoted integers to float64: expressions without a promotion rule."""
        kernel = self.native.kernel
        if kernel is None or kernel.kind != "expression" or self.native.type_promotion is not None:
            return ()
        if "pointwise" in self.native.tags and kernel.ufunc in _KEEPS_INTEGERS:
            return ()
        return tuple(f"*{p.array}" if "list" in p.kind else p.array for p in self.arrays)


def with_out(tree: ast.expr, target: str, names: Mapping[str, str]) -> str | None:
    """Return a kernel expression whose outermost ufunc, on either branch of a condition, writes to `target`."""
    if isinstance(tree, ast.IfExp):
        body, orelse = with_out(tree.body, target, names), with_out(tree.orelse, target, names)
        test = rename(ast.unparse(tree.test), names)
        return f"{body} if {test} else {orelse}" if body and orelse else None
    ufunc, operands = outermost_ufunc(tree)
    if ufunc is None:
        return None
    return f"xp.{ufunc}({', '.join(rename(o, names) for o in operands)}, out={target})"


@dataclass(frozen=True, slots=True)
class Results(KernelCalls):
    """A wrapper with its results."""

    @property
    def is_view(self) -> bool:
        return self.schema.is_view

    @property
    def source(self) -> str:
        """The base of a view."""
        letters = {s for r in self.schema.returns if r.annotation for s in r.annotation.sets}
        for p in self.parameters:
            if p.argument.annotation and letters & set(p.argument.annotation.sets):
                return p.name
        return self.first

    @property
    def records_view(self) -> bool:
        """Return whether its result is a view for autograd, and not only in memory."""
        return self.is_view and self.strategy != "not_differentiable"

    @property
    def changes_view(self) -> bool:
        """Return whether it changes the tensor's shape and strides, but not its memory."""
        return self.kind == "inplace" and "inplace_view" in self.native.tags

    @property
    def writes_itself(self) -> bool:
        """Return whether the kernel writes to the first argument's array, as one whose name ends in `_` does."""
        kernel = self.native.kernel
        return (
            self.kind == "inplace"
            and kernel is not None
            and kernel.function is not None
            and kernel.function.endswith("_")
        )

    @property
    def replay(self) -> str:
        """A function that makes the view again from another tensor, if as_strided cannot replay it."""
        if "replayed" not in self.native.tags:
            return ""
        rest = "".join(f", {p.name}={p.name}" if p.argument.kwarg_only else f", {p.name}" for p in self.parameters[1:])
        return f"lambda t: {self.operators}.{self.schema.name.unambiguous}(t{rest})"

    @property
    def list_output(self) -> bool:
        return len(self.schema.returns) == 1 and self.schema.returns[0].type.is_list

    @property
    def outputs(self) -> tuple[Result, ...]:
        # A dtype argument, or a cast to another input's dtype, may make integers of an input that requires grad.
        casts = self.native.type_promotion == "none" and self.info is not None and len(self.info.inputs) > 1
        checks = casts or any(p.argument.type.base.name == "ScalarType" for p in self.parameters)
        masked = any(p.argument.type.is_list and p.argument.type.base.name == "bool" for p in self.parameters)
        known: Iterable[Output | None] = self.info.outputs if self.info else [None] * len(self.schema.returns)
        found = []
        for index, output in enumerate(known):
            name = output.name if output else _output_name(self.schema, index)
            if name in {p.name for p in self.parameters} or keyword.iskeyword(name):
                name += "_out"
            is_list = self.schema.returns[index].type.is_list
            if self.kind == "inplace":
                found.append(
                    Result(name, self.first_array, self.first, False, output.output_nr if output else None, None, False)
                )
                continue
            refuses = False
            condition = rename(output.condition, self.names) if output and output.condition else None
            if masked:
                condition = f"{name} is not None"
            elif checks and condition is None:
                condition = f"{name}_.dtype.kind in 'fcV'"
                refuses = not any(p.argument.type.base.name == "Device" for p in self.parameters)
            found.append(
                Result(
                    "results" if is_list else name,
                    f"{name}_",
                    "results" if is_list else name,
                    is_list,
                    output.output_nr if output else None,
                    condition,
                    masked,
                    refuses,
                )
            )
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
        return (
            ", ".join(f"*{p.name}" if "list" in p.kind else p.name for p in self.parameters if p.kind != "value") + ","
        )


def _output_name(schema: FunctionSchema, index: int) -> str:
    returned = schema.returns[index]
    if returned.name:
        return returned.name
    return "result" if len(schema.returns) == 1 else f"result{index}"


@dataclass(frozen=True, slots=True)
class History(Results):
    """A wrapper with the history of its results."""

    @property
    def node(self) -> str | None:
        """The node class, under its name in the code."""
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
    def unnamed(self) -> tuple[Unnamed, ...]:
        """The tensors that must not require a gradient, since they have no derivative."""
        assert self.info is not None
        schema = self.info.schema
        optional = {a.python_name: a.type.is_optional for a in schema.inputs}
        return tuple(Unnamed(n, self.names.get(n, n), optional[n], schema.name.name) for n in self.info.unnamed)

    @property
    def edge_list(self) -> str:
        return ", ".join(f"*edges_{e.name}" if e.is_list else f"edge_{e.name}" for e in self.inputs) + (
            "," if len(self.inputs) == 1 else ""
        )

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
        # The shape of the array, a tuple, is what `_saved_*` shows; a tensor's would be a new Size. A tensor's dtype is
        # a property, which takes longer than what it computes.
        for name, variable in (*names.items(), ("t", "t")):  # t: an element of a list
            names[f"{name}.shape"] = f"{variable}._array.shape"
            names[f"{name}.dtype"] = f"TYPE_OF[{variable}._array.dtype]"
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
            found.append(
                ForwardFormula(
                    targets, formula, f"{', '.join(f.outputs)}: {_one_line(f.source)}", f.not_implemented, message
                )
            )
        return tuple(found)

    @property
    def _moved(self) -> Mapping[str, str]:
        """Return new names of the functions that a formula calls, for code that runs outside of their module."""
        if not self.replacement or self.info is None:
            return {}
        return {name: f"{self.replacement}.{name}" for name in (OWN, *(n for _, n in self.info.forward_helpers))}

    @property
    def tangents(self) -> tuple[TangentRead, ...]:
        found: dict[str, TangentRead] = {}
        for f in self._forward:
            for t in f.tangents:
                known = found.get(t.name)
                found[t.name] = TangentRead(
                    t.name,
                    self.names[t.input],
                    t.is_list,
                    t.is_optional,
                    t.materialize or (known is not None and known.materialize),
                )
        return tuple(found.values())

    @property
    def refuses_tangents(self) -> bool:
        """Return whether forward mode must raise: the operator may have derivatives, but has no forward formula."""
        return not self._forward and (self.node is not None or self.not_implemented)

    @property
    def has_tangent(self) -> str:
        tests = [
            f"any([t is not None for t in {t.name}])" if t.is_list else f"{t.name} is not None" for t in self.tangents
        ]
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
        return tuple(
            replace(o, name=known.name) if not o.is_list else replace(o, variable="results", name=known.name)
            for o, known in zip(self.outputs, self.info.outputs, strict=True)
            if known.name in given
        )


def _one_line(text: str) -> str:
    return " ".join(text.split())
