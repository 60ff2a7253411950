"""Decides which outputs of an operator are differentiable, and how its formulas name their gradients.

Note [Gradient styles]
Formulas call gradients `grad` (there is one), `grads[i]` or `grad_<output>`; one entry uses one style. An
operator with several outputs whose formulas say `grad` differentiates its first output only, unless
`output_differentiability`
says otherwise: that is how `(values, indices)` operators are written.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .derivative_keys import DIFFERENTIABILITY, FormulaLine, Section, return_names
from .derivative_model import Output
from .derivative_scope import GRAD, GRADS, condition_scope
from .errors import SpecError
from .formula import Formula, FormulaError, parse
from .formula_names import resolve
from .formula_saving import write_forward
from .formula_scope import Callables, Kind
from .schema import FunctionSchema
from .text import Node, Text, TextList


@dataclass(frozen=True, slots=True)
class StyledUse:
    """A gradient in a formula: in which style, and where."""

    style: str
    line: FormulaLine
    formula: Formula
    node: ast.Name

    def error(self, message: str, hint: str) -> SpecError:
        return self.line.error(self.formula.error(self.node, message, hint))


def styled_uses(formulas: Mapping[FormulaLine, Formula], schema: FunctionSchema) -> list[StyledUse]:
    """All uses of gradients in the backward formulas, in the order of the file."""
    names = return_names(schema)
    named = {f"grad_{n}" for n in names} - {a.python_name for a in schema.inputs}
    uses = []
    for line, formula in formulas.items():
        found = [node for node in ast.walk(formula.tree) if isinstance(node, ast.Name)]
        for node in sorted(found, key=lambda n: n.col_offset):
            if node.id in (GRAD, GRADS):
                uses.append(StyledUse(node.id, line, formula, node))
            elif node.id in named:
                uses.append(StyledUse("grad_<output>", line, formula, node))
    return uses


def check_styles(uses: Sequence[StyledUse], outputs: Iterable[Output]) -> None:
    """Refuse mixed styles, and `grad` where that is ambiguous.

    Raises:
        SpecError: at the first use that does not fit.
    """
    differentiable = [o for o in outputs if o.is_differentiable]
    for use in uses:
        word = use.formula.source(use.node)
        if use.style != uses[0].style:
            first = uses[0].formula.source(uses[0].node)
            place = f"in line {uses[0].line.text.line}" if use.line is not uses[0].line else "before"
            message = f"`{word}` here and `{first}` {place}: an entry names gradients in one way"
            raise use.error(message, f"use {_in_style(uses[0], differentiable)} throughout")
        if not differentiable:
            raise use.error(f"`{word}`: no output is differentiable", f"see `{DIFFERENTIABILITY}` of this entry")
        if use.style == GRAD and differentiable[0].is_list:
            raise use.error(
                f"`{word}`: the output is a list of tensors", f"write `{GRADS}`, the list of their gradients"
            )
        if use.style == GRAD and len(differentiable) > 1:
            options = ", ".join(f"`grad_{o.name}`" for o in differentiable)
            message = f"`{word}`: there are {len(differentiable)} differentiable outputs"
            raise use.error(message, f"write `{GRADS}[0]`, `{GRADS}[1]` ... or {options}")


def _in_style(use: StyledUse, differentiable: Sequence[Output]) -> str:
    if use.style == GRAD:
        return f"`{GRAD}`"
    if use.style == GRADS:
        return f"`{GRADS}[i]`"
    return ", ".join(f"`grad_{o.name}`" for o in differentiable)


def find_outputs(
    section: Section, schema: FunctionSchema, uses: Sequence[StyledUse], callables: Callables
) -> tuple[Output, ...]:
    """All outputs, with their numbers among the differentiable ones.

    Raises:
        SpecError: for an `output_differentiability` that does not fit the operator.
    """
    told = section.differentiability
    if told is not None:
        flags = _told(told, schema, callables)
    else:
        flags = [r.type.is_tensor_like for r in schema.returns]
        if uses and uses[0].style == GRAD and flags.count(True) > 1:
            first = flags.index(True)
            flags = [i == first for i in range(len(flags))]
    outputs, number = [], 0
    for index, (name, ret, flag) in enumerate(zip(return_names(schema), schema.returns, flags, strict=True)):
        differentiable = flag is not False
        condition = flag if isinstance(flag, str) else None
        outputs.append(Output(name, index, ret.type, number if differentiable else None, condition))
        number += differentiable
    return tuple(outputs)


def _told(node: Node, schema: FunctionSchema, callables: Callables) -> list[bool | str]:
    """The value of `output_differentiability`: for each output True, False or a condition."""
    hint = "write one of True, False or a condition for each output, as in `[True, False]`"
    items = node.items if isinstance(node, TextList) else (node,)
    count = len(schema.returns)
    if len(items) != count:
        message = f"`{DIFFERENTIABILITY}` has {len(items)} values, `{schema.name}` has {count} outputs"
        raise node.error(message, hint)
    flags: list[bool | str] = []
    for item, ret in zip(items, schema.returns, strict=True):
        if not isinstance(item, Text) or not item.value.strip():
            raise item.error(f"a value of `{DIFFERENTIABILITY}` is not text", hint)
        word = item.value.strip()
        flag: bool | str = {"true": True, "false": False}.get(word.lower(), word)
        if flag is not False and not ret.type.is_tensor_like:
            raise item.error(f"an output of type {ret.type} cannot be differentiable", "write False")
        flags.append(_condition(item, schema, callables) if isinstance(flag, str) else flag)
    return flags


def _condition(item: Text, schema: FunctionSchema, callables: Callables) -> str:
    try:
        resolved = resolve(parse(item.value), condition_scope(schema, callables))
        tree = resolved.formula.tree
        if isinstance(tree, (ast.Constant, ast.Tuple, ast.List, ast.ListComp)) or (
            resolved.kinds[tree] in (Kind.TENSOR, Kind.TENSORS, Kind.NUMBERS, Kind.DTYPE)
        ):
            message = "a condition that is neither true nor false"
            raise resolved.formula.error(tree, message, "write one such as `dtype is None`, or True or False")
        return write_forward(resolved)
    except FormulaError as error:
        raise item.error(error.message, error.hint, error.offset, error.length) from None
