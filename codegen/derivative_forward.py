"""Analyses the formulas of outputs: forward mode, explicit or derived.

Note [Derived forward formulas]
`auto_linear`: an operator that is linear in all of its differentiable inputs together maps tangents as it
maps values, so the formula is the operator itself with the tangents in the inputs' places.

`auto_element_wise`: an operator that works element by element on one input z has a diagonal Jacobian J. Its
backward formula computes conj(J) * grad (the conjugate Wirtinger convention), so conj(formula(conj(tangent)))
is J * tangent, for real and for holomorphic functions alike.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from .derivative_backward import Backward, check_is_tensor, not_implemented_reason
from .derivative_keys import FormulaLine, return_names
from .derivative_model import DifferentiableInput, ForwardDerivative, Output, Tangent
from .derivative_scope import GRAD, forward_scope
from .formula import FormulaError
from .formula_names import Resolved, resolve
from .formula_saving import write_forward
from .formula_scope import Callables, Kind, Role
from .schema import FunctionSchema

LINEAR, ELEMENT_WISE = "auto_linear", "auto_element_wise"


def linear_call(schema: FunctionSchema, inputs: Collection[str], home: str) -> str:
    """The call of an operator, in the module that generated code calls `home`, with the tangents of `inputs` in their
    places.
    """
    parts = []
    for argument in schema.inputs:
        name = argument.python_name
        value = f"{name}_t" if name in inputs else name
        parts.append(f"{name}={value}" if argument.kwarg_only else value)
    return f"{home}.{schema.name.unambiguous}({', '.join(parts)})"


@dataclass(frozen=True, slots=True)
class Forward:
    """The forward half of an entry; `resolved` has the formulas that were written out or derived from."""

    derivatives: tuple[ForwardDerivative, ...]
    resolved: tuple[Resolved, ...]
    uses_operators: bool


class ForwardAnalysis:
    """Analyses the output formulas of one operator."""

    def __init__(
        self, schema: FunctionSchema, outputs: tuple[Output, ...], backward: Backward, callables: Callables
    ) -> None:
        self.schema, self.outputs, self.backward, self.callables = schema, outputs, backward, callables
        self.inputs = backward.inputs
        self.resolved: list[Resolved] = []

    def analyse(self, lines: Sequence[FormulaLine]) -> Forward:
        """All formulas. Raises SpecError for one that is wrong, or cannot be derived."""
        found = tuple(self.derivative(line) for line in lines)
        uses = any(r.operators for r in self.resolved) or any(f.kind == LINEAR for f in found)
        return Forward(found, tuple(self.resolved), uses)

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
        """Tangents of some inputs. A lone one is defined when its formula runs; a list may have others."""
        several = len(inputs) > 1
        return tuple(Tangent(i.name, i.is_list, i.is_optional, several or i.is_list) for i in inputs)


def analyse_forward(
    lines: Sequence[FormulaLine],
    schema: FunctionSchema,
    outputs: tuple[Output, ...],
    backward: Backward,
    callables: Callables,
) -> Forward:
    """The forward half of an entry. Raises SpecError; see `ForwardAnalysis`."""
    return ForwardAnalysis(schema, outputs, backward, callables).analyse(lines)
