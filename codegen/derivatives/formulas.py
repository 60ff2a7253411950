"""Analyse the formulas of one entry, of inputs (backward) and of outputs (forward).

Backward formulas give gradients, saved fields and the conditions for saving them. Forward formulas are explicit or
derived.

Note [Derived forward formulas]
`auto_linear`: an operator that is linear in all of its differentiable inputs together maps tangents as it maps values,
so the formula is the operator itself with the tangents in the inputs' places.

`auto_element_wise`: an operator that works element by element on one input z has a diagonal Jacobian J. Its backward
formula computes conj(J) * grad (the conjugate Wirtinger convention), so conj(formula(conj(tangent))) is J * tangent,
for real and for holomorphic functions alike.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ..language.formula import Formula, FormulaError
from ..language.names import GradientUse, Resolved, resolve
from ..language.saving import Capture, list_size, needs, on_arrays, write_backward, write_forward
from ..language.scope import Callables, Kind, Role
from ..schema import FunctionSchema
from .entries import GRAD, NON_DIFFERENTIABLE, FormulaLine, backward_scope, forward_scope, return_names
from .model import Derivative, DifferentiableInput, ForwardDerivative, Gradient, Output, SavedAttribute, Tangent

NOT_IMPLEMENTED = "not_implemented"
_FORWARD_ONLY = ("auto_linear", "auto_element_wise")


@dataclass(frozen=True, slots=True)
class Backward:
    """The backward half of an entry. `resolved` maps each derivative with a formula to the analysed formula."""

    inputs: tuple[DifferentiableInput, ...]
    derivatives: tuple[Derivative, ...]
    saved: tuple[SavedAttribute, ...]
    resolved: tuple[Resolved | None, ...]


def not_implemented_reason(line: FormulaLine, formula: Formula) -> str | None:
    """Return the reason in `not_implemented("reason")`, else None. Raises SpecError if the reason is missing."""
    node = formula.tree
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == NOT_IMPLEMENTED):
        return None
    arguments = [a.value for a in node.args if isinstance(a, ast.Constant)]
    if len(arguments) != 1 or node.keywords or not isinstance(arguments[0], str) or len(node.args) != 1:
        message = f"`{NOT_IMPLEMENTED}` takes one string: what has no derivative"
        raise line.error(formula.error(node, message, f'write `{NOT_IMPLEMENTED}("{line.of[0]}")`'))
    return arguments[0]


def parse_lines(lines: Sequence[FormulaLine]) -> dict[FormulaLine, Formula]:
    """Parse the formulas of the differentiable inputs. Raises SpecError for an invalid one, or an output's."""
    formulas = {}
    for line in lines:
        if line.word in _FORWARD_ONLY:
            message = f"`{line.word}` is forward mode, `{line.of[0]}` is an input"
            raise line.text.error(message, f"write it as the formula of an output: `result: {line.word}`")
        if line.word != NON_DIFFERENTIABLE:
            formulas[line] = line.parse()
    return formulas


def analyse_backward(
    formulas: Mapping[FormulaLine, Formula], schema: FunctionSchema, outputs: tuple[Output, ...], callables: Callables
) -> Backward:
    """Analyse the formulas of all inputs. Raises SpecError for an unknown name, or a value that does not fit its
    key."""
    derivatives: list[Derivative] = []
    captures: list[tuple[Capture, ...]] = []
    resolved: list[Resolved | None] = []
    for line, formula in formulas.items():
        reason = not_implemented_reason(line, formula)
        if reason is not None:
            derivatives.append(Derivative(line.of, "", line.word, not_implemented=reason, place=line.text))
            captures.append(())
            resolved.append(None)
            continue
        scope = backward_scope(schema, outputs, line.of, callables)
        try:
            names = resolve(formula, scope)
            _check_arity(line, names, schema)
            if any(o.is_differentiable for o in outputs):  # `analyse` refuses every formula otherwise
                _check_uses_gradient(names)
        except FormulaError as error:
            raise line.error(error) from None
        written = write_backward(names, line.of)
        derivatives.append(_derivative(line, names, written.text, written.captures, outputs))
        captures.append(written.captures)
        resolved.append(names)
    inputs = _inputs(schema, derivatives)
    saved = _saved(schema, inputs, derivatives, captures, outputs)
    return Backward(inputs, tuple(derivatives), saved, tuple(resolved))


def _derivative(
    line: FormulaLine, resolved: Resolved, text: str, captures: tuple[Capture, ...], outputs: tuple[Output, ...]
) -> Derivative:
    uses = resolved.gradients
    used: dict[str, Gradient] = {}
    for use in uses:
        if use.index is not None:
            name = resolved.formula.source(use.node)
            used.setdefault(name, Gradient(name, use.index))
    count = sum(o.is_differentiable for o in outputs)
    has_list = any(o.is_list for o in outputs if o.is_differentiable)
    return Derivative(
        inputs=line.of,
        formula=text,
        source=" ".join(line.word.split()),
        gradients=tuple(used.values()),
        uses_all_gradients=any(use.index is None for use in uses),
        materialize=_materialize(uses, count, has_list),
        defined_by=_defined_by(uses, count, has_list),
        saved=tuple(c.name for c in captures),
        mask=resolved.first(Role.MASK) is not None and "grad_input_mask" in text,
        retain_variables=resolved.first(Role.FLAG) is not None,
        place=line.text,
        on_arrays=on_arrays(resolved, captures) if len(line.of) == 1 and count == 1 and not has_list else None,
    )


def _materialize(uses: Sequence[GradientUse], count: int, has_list: bool) -> tuple[int, ...]:
    """Return the gradients that must be zeros if undefined: the formula computes with them without testing them. A
    formula that uses one gradient is not evaluated if that is undefined."""
    whole = any(use.index is None for use in uses)
    indices = {use.index for use in uses if use.index is not None}
    if has_list or (len(indices) < 2 and not (whole and count > 1)):
        return ()
    tested = {use.index for use in uses if use.how == "tested"}
    return tuple(sorted(i for i in indices - tested if any(u.index == i and u.how == "computed" for u in uses)))


def _defined_by(uses: Sequence[GradientUse], count: int, has_list: bool) -> tuple[int, ...]:
    """Return the gradients of which one must be defined; empty if any gradient will do, and for an unknown number."""
    indices = {use.index for use in uses if use.index is not None}
    everything = has_list or len(indices) == count or any(use.index is None for use in uses)
    return () if everything else tuple(sorted(indices))


def _check_arity(line: FormulaLine, resolved: Resolved, schema: FunctionSchema) -> None:
    """Check that a formula has as many values as its key has inputs, if the number is visible."""
    names = line.of
    check_is_tensor(resolved)
    if len(names) == 1:
        argument = next(a for a in schema.inputs if a.python_name == names[0])
        wrong = None if argument.type.is_list else _tuple_in(resolved.formula.tree)
        if wrong is not None:
            message = f"a tuple of {len(wrong.elts)} values for one input, `{names[0]}`"
            raise resolved.formula.error(wrong, message, "write one value, or name the other inputs in the key too")
        return
    for node, count in _results(resolved.formula.tree, resolved):
        if count != len(names):
            values = "one value" if count == 1 else f"{count} values"
            message = f"{values} for {len(names)} inputs, {', '.join(f'`{n}`' for n in names)}"
            raise resolved.formula.error(node, message, "the formula must give a tuple with a gradient for each")


def check_is_tensor(resolved: Resolved) -> None:
    """Refuse a formula whose value is a number or a shape, such as `0`."""
    tree = resolved.formula.tree
    kind = resolved.kinds[tree]
    if isinstance(tree, ast.Constant) and isinstance(tree.value, str | type(...)):
        raise resolved.formula.error(tree, "the formula is a constant that is no tensor", "write a tensor")
    if kind in (Kind.NUMBER, Kind.DTYPE) or (kind is Kind.NUMBERS and not isinstance(tree, ast.Tuple)):
        hint = "write a tensor, such as `zeros_like(self)`, or None for an undefined gradient"
        raise resolved.formula.error(tree, f"the formula gives {kind.value}", hint)


# What a formula may give whatever the gradients are.
_ZEROS = ("zeros", "zeros_like", "new_zeros")


def _check_uses_gradient(resolved: Resolved) -> None:
    """Refuse a value of a formula that does not depend on a gradient and is not zero. A test for None is no use."""
    used = {use.node for use in resolved.gradients if use.how != "tested"}
    pending = [resolved.formula.tree]
    while pending:
        match pending.pop():
            case ast.IfExp(body=body, orelse=orelse):
                pending += (orelse, body)
            case ast.Tuple(elts=items) | ast.List(elts=items):
                pending += reversed(items)
            case ast.Constant(value=None):
                pass
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in _ZEROS:
                pass
            case node if used.isdisjoint(ast.walk(node)):
                hint = "it is linear in the gradient, as `grad * 2`"
                hint += "; else write `zeros_like(self)`, `not_implemented(...)` or `non_differentiable`"
                raise resolved.formula.error(node, "the formula uses no gradient", hint)


def _tuple_in(node: ast.expr) -> ast.Tuple | None:
    if isinstance(node, ast.IfExp):
        return _tuple_in(node.body) or _tuple_in(node.orelse)
    return node if isinstance(node, ast.Tuple) else None


def _results(node: ast.expr, resolved: Resolved) -> list[tuple[ast.expr, int]]:
    """Return the expressions that a formula may evaluate to, with the number of values if it is visible."""
    if isinstance(node, ast.IfExp):
        return _results(node.body, resolved) + _results(node.orelse, resolved)
    if isinstance(node, (ast.Tuple, ast.List)):
        return [(node, len(node.elts))]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        helper = resolved.helpers.get(node.func.id)
        if helper is not None and helper.arity is not None:
            return [(node, helper.arity)]
    one = resolved.kinds[node] in (Kind.TENSOR, Kind.NUMBER) and not _is_none(node)
    return [(node, 1)] if one else []


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _inputs(schema: FunctionSchema, derivatives: Sequence[Derivative]) -> tuple[DifferentiableInput, ...]:
    """Return the inputs with a formula, in the order of the schema, with the number of their first edge."""
    of = {name: (i, d) for i, d in enumerate(derivatives) for name in d.inputs}
    found = []
    number, sizes = 0, list[str]()
    for index, argument in enumerate(schema.inputs):
        name = argument.python_name
        if name not in of:
            continue
        position, derivative = of[name]
        is_list = argument.type.is_list
        edge = " + ".join([*sizes, str(number)]) if sizes and number else " + ".join(sizes) or str(number)
        size = list_size(name).name if is_list else None
        nth = derivative.inputs.index(name) if len(derivative.inputs) > 1 else None
        found.append(DifferentiableInput(name, index, argument.type, edge, size, position, nth))
        if size is not None:
            sizes.append(size)
        else:
            number += 1
    return tuple(found)


def _saved(
    schema: FunctionSchema,
    inputs: tuple[DifferentiableInput, ...],
    derivatives: Sequence[Derivative],
    captures: Sequence[tuple[Capture, ...]],
    outputs: tuple[Output, ...],
) -> tuple[SavedAttribute, ...]:
    """Return the node's fields: all captures of the formulas, each once. Inputs come first, in schema order."""
    merged: dict[str, list[tuple[Derivative, Capture]]] = {}
    for derivative, taken in zip(derivatives, captures, strict=True):
        for capture in taken:
            merged.setdefault(capture.name, []).append((derivative, capture))
    arguments = {a.python_name for a in schema.inputs}
    results = {o.name: o for o in outputs if o.name not in arguments}
    fields = [_field(uses, inputs, results) for uses in merged.values()]
    names = {f.name for f in fields}
    for item in inputs:
        if item.size is not None and item.size not in names:
            size = list_size(item.name)
            fields.append(SavedAttribute(size.name, size.of, "value", size.type, size.read, is_public=False))
    order = {a.python_name: i for i, a in enumerate(schema.inputs)}
    order |= {o.name: len(order) + o.index for o in outputs if o.name not in order}
    return tuple(sorted(fields, key=lambda f: order[f.of]))


def _field(
    uses: Sequence[tuple[Derivative, Capture]], inputs: tuple[DifferentiableInput, ...], results: Mapping[str, Output]
) -> SavedAttribute:
    capture = uses[0][1]
    is_tensor = capture.is_whole and capture.type.is_tensor_like
    return SavedAttribute(
        name=capture.name,
        of=capture.of,
        kind="value" if not is_tensor else "tensor_list" if capture.type.is_list else "tensor",
        type=capture.type,
        read=capture.read,
        output=results.get(capture.of),
        condition=_condition(uses, inputs) if is_tensor else None,
        is_public=any(c.is_public for _, c in uses),
        is_optional=capture.type.is_optional or any(c.condition is not None for _, c in uses),
    )


def _condition(uses: Sequence[tuple[Derivative, Capture]], inputs: tuple[DifferentiableInput, ...]) -> str | None:
    """Return the condition for saving a tensor: an input whose formulas use it needs a gradient. None if that holds
    whenever the node exists. A list needs a gradient if any of its elements does."""
    users = {name for derivative, capture in uses if capture.condition is None for name in derivative.inputs}
    if users >= {i.name for i in inputs}:
        return None
    parts = [needs(i.name) for i in inputs if i.name in users]
    for derivative, capture in uses:
        if capture.condition is not None and not users.issuperset(derivative.inputs):
            parts.append(f"({capture.condition})" if parts or len(uses) > 1 else capture.condition)
    return " or ".join(dict.fromkeys(parts)) or None


LINEAR, ELEMENT_WISE = "auto_linear", "auto_element_wise"


def linear_call(schema: FunctionSchema, inputs: Collection[str], home: str) -> str:
    """Return the call of an operator with the tangents of `inputs` in their places; `home` is the operators' module."""
    parts = []
    for argument in schema.inputs:
        name = argument.python_name
        value = f"{name}_t" if name in inputs else name
        parts.append(f"{name}={value}" if argument.kwarg_only else value)
    return f"{home}.{schema.name.unambiguous}({', '.join(parts)})"


@dataclass(frozen=True, slots=True)
class Forward:
    """The forward half of an entry; `resolved` has the explicit formulas and the sources of derived ones."""

    derivatives: tuple[ForwardDerivative, ...]
    resolved: tuple[Resolved, ...]


class ForwardAnalysis:
    """Analysis of the output formulas of one operator."""

    def __init__(
        self, schema: FunctionSchema, outputs: tuple[Output, ...], backward: Backward, callables: Callables
    ) -> None:
        self.schema, self.outputs, self.backward, self.callables = schema, outputs, backward, callables
        self.inputs = backward.inputs
        self.resolved: list[Resolved] = []

    def analyse(self, lines: Sequence[FormulaLine]) -> Forward:
        """Analyse all formulas. Raises SpecError for an invalid one, or one that cannot be derived."""
        found = tuple(self.derivative(line) for line in lines)
        return Forward(found, tuple(self.resolved))

    def derivative(self, line: FormulaLine) -> ForwardDerivative:
        self.check_outputs(line)
        if line.word == LINEAR:
            return self.linear(line)
        if line.word == ELEMENT_WISE:
            return self.element_wise(line)
        return self.explicit(line)

    def check_outputs(self, line: FormulaLine) -> None:
        by_name = {o.name: o for o in self.outputs}
        for name in line.names:
            if not by_name[name.value].is_differentiable:
                message = f"formula for output `{name.value}`, which is not differentiable"
                raise name.error(message, "remove it, or say so in `output_differentiability`")
        if not self.inputs:
            message = f"`{line.of[0]}` has a forward formula, but no input has a formula"
            raise line.names[0].error(message, "forward mode needs a differentiable input: give it a formula as well")

    def one_output(self, line: FormulaLine, what: str) -> None:
        if len(self.schema.returns) != 1 or len(line.of) != 1:
            count = len(self.schema.returns)
            message = f"`{what}` for an operator with {count} outputs"
            raise line.text.error(message, "it needs an operator with one output; write the formula out")

    # Derived formulas

    def linear(self, line: FormulaLine) -> ForwardDerivative:
        self.one_output(line, LINEAR)
        tangents = {i.name for i in self.inputs}
        missing = [a.python_name for a in self.schema.inputs if a.is_write and a.python_name not in tangents]
        if missing:
            message = f"`{LINEAR}`, but `{missing[0]}`, which the operator writes to, has no formula"
            raise line.text.error(message, f"give `{missing[0]}` a formula, or write the forward formula out")
        functional = self.schema.as_functional()
        if functional.name.base not in self.callables.operators:
            message = f"`{LINEAR}` needs an operator `{functional.name.base}` that writes to nothing"
            raise line.text.error(message, "write the formula out")
        text = linear_call(functional, tangents, self.callables.operators[functional.name.base].home)
        return ForwardDerivative(line.of, text, line.word, LINEAR, self.tangents(self.inputs), place=line.text)

    def element_wise(self, line: FormulaLine) -> ForwardDerivative:
        self.one_output(line, ELEMENT_WISE)
        if len(self.inputs) != 1:
            names = ", ".join(f"`{i.name}`" for i in self.inputs)
            message = f"`{ELEMENT_WISE}` for an operator with {len(self.inputs)} differentiable inputs, {names}"
            raise line.text.error(message, "it needs one differentiable input; write the formula out")
        source, resolved = self.backward.derivatives[0], self.backward.resolved[0]
        name = self.inputs[0].name
        if self.inputs[0].is_list or self.outputs[0].is_list:
            raise line.text.error(f"`{ELEMENT_WISE}` for a list of tensors", "write the formula out")
        if resolved is None:
            return ForwardDerivative(
                line.of,
                "",
                line.word,
                ELEMENT_WISE,
                self.tangents(self.inputs),
                not_implemented=source.not_implemented,
                place=line.text,
            )
        wrong = resolved.first(Role.MASK, Role.FLAG, Role.GRADIENTS) or next(
            (n for n, v in resolved.variables.items() if v.role is Role.GRADIENT and v.name != GRAD), None
        )
        if wrong is not None:
            message = f"`{ELEMENT_WISE}`, but the formula of `{name}` uses `{wrong.id}`"
            raise line.text.error(message, f"it needs a formula over `{GRAD}`; write this one out")
        substitutions = {GRAD: f"{name}_t.conj()", name: f"{name}_p"}
        text = f"({write_forward(resolved, substitutions)}).conj()"
        self.resolved.append(resolved)
        used = resolved.names(Role.ARGUMENT)
        return ForwardDerivative(
            line.of, text, line.word, ELEMENT_WISE, self.tangents(self.inputs),
            primals=(name,) if name in used else (), results=resolved.names(Role.RESULT),
            place=line.text,
        )  # fmt: skip

    # Explicit formulas

    def explicit(self, line: FormulaLine) -> ForwardDerivative:
        formula = line.parse()
        reason = not_implemented_reason(line, formula)
        if reason is not None:
            tangents = self.tangents(self.inputs)
            return ForwardDerivative(
                line.of, "", line.word, "explicit", tangents, not_implemented=reason, place=line.text
            )
        scope = forward_scope(self.schema, self.outputs, (i.name for i in self.inputs), self.callables)
        try:
            resolved = resolve(formula, scope)
            self.check_arity(line, resolved)
        except FormulaError as error:
            raise line.error(error) from None
        if resolved.first(Role.TANGENT) is None:
            names = ", ".join(f"`{i.name}_t`" for i in self.inputs)
            message = f"the formula of `{line.of[0]}` uses no tangent"
            raise line.text.error(message, f"a forward formula is linear in the tangents: {names}")
        self.resolved.append(resolved)
        used = resolved.names(Role.TANGENT)
        primals = resolved.names(Role.PRIMAL)
        text = write_forward(resolved, {name: f"{name}_p" for name in primals})
        return ForwardDerivative(
            line.of, text, " ".join(line.word.split()), "explicit",
            self.tangents([i for i in self.inputs if i.name in used]),
            primals=primals, results=resolved.names(Role.RESULT),
            place=line.text,
        )  # fmt: skip

    def check_arity(self, line: FormulaLine, resolved: Resolved) -> None:
        tree = resolved.formula.tree
        count = len(line.of)
        check_is_tensor(resolved)
        if isinstance(tree, ast.Tuple) and len(tree.elts) != count and not self.gives_list(line):
            message = f"{len(tree.elts)} values for {count} output{'s' * (count > 1)}"
            raise resolved.formula.error(tree, message, "give one value for each output in the key")
        if count > 1 and resolved.kinds[tree] is Kind.TENSOR:
            raise resolved.formula.error(tree, f"one value for {count} outputs", "give a tuple with one for each")

    def gives_list(self, line: FormulaLine) -> bool:
        index = return_names(self.schema).index(line.of[0])
        return len(line.of) == 1 and self.outputs[index].is_list

    def tangents(self, inputs: Sequence[DifferentiableInput]) -> tuple[Tangent, ...]:
        """Return the tangents of some inputs. A single one is defined when its formula runs; several need not be."""
        several = len(inputs) > 1
        return tuple(Tangent(i.name, i.is_list, i.is_optional, several or i.is_list) for i in inputs)


def analyse_forward(
    lines: Sequence[FormulaLine],
    schema: FunctionSchema,
    outputs: tuple[Output, ...],
    backward: Backward,
    callables: Callables,
) -> Forward:
    """Return the forward half of an entry. Raises SpecError; see `ForwardAnalysis`."""
    return ForwardAnalysis(schema, outputs, backward, callables).analyse(lines)
