"""Support rows of operators: what the YAML files declare; complex numbers are tried if nothing declares them.

row = support_row("mul.Tensor")
print(row.complex)              # yes (NumPy's multiply has loops for them)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from typing import Any

import gradloom
from gradloom.codegen.derivatives.derivatives import Derivatives
from gradloom.codegen.derivatives.model import DifferentiableFunction
from gradloom.codegen.outputs.support import Fact, Row, Support

from .verify.case import tensors
from .verify.operators import Operator, own_operators, own_specification

__all__ = ["complex_by_trying", "own_support", "support_row", "whole_row"]


@cache
def own_support() -> tuple[Derivatives, Support]:
    """Return gradloom's own operators, and the support that their sources declare."""
    spec = own_specification()
    assert spec.target.source is not None
    return spec.derivatives, Support(spec.derivatives, spec.target.source)


def support_row(name: str) -> Row:
    """Return the row of one of gradloom's own operators, by full name (`mul.Tensor`). Raises KeyError if unknown."""
    derivatives, support = own_support()
    return whole_row(derivatives[name], support, own_operators)


def whole_row(function: DifferentiableFunction, support: Support, operators: Callable[[], Iterable[Operator]]) -> Row:
    """Return the row of an operator; complex numbers are tried on the one in `operators` if nothing declares them."""
    row = support.row(function)
    if row.complex.answer != "unknown":
        return row
    found = next((o for o in operators() if o.name == function.function.name), None)
    return row if found is None else replace(row, complex=complex_by_trying(found))


def complex_by_trying(operator: Operator) -> Fact:
    """Return whether an operator takes complex tensors, by calling it with complex versions of its samples."""
    from .verify.sampling import NoSamples, cases

    try:
        tried = [_try(operator.call, case.args, case.kwargs) for case in cases(operator)]
    except NoSamples:
        return Fact("unknown", "there is no sample to try")
    answers = [answer for answer in tried if answer is not None]
    if not answers:
        return Fact("none", "it takes no floating-point tensors")
    return Fact("yes", "by trying") if any(a == "" for a in answers) else Fact("no", answers[0])


def _try(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> str | None:
    """Return '' if the call works with complex tensors, else the error; None if it has no floating-point tensors."""
    import warnings

    if not any(t._array.dtype.kind == "f" for t in tensors([*args, *kwargs.values()])):
        return None
    try:
        with warnings.catch_warnings(), gradloom.no_grad():
            warnings.simplefilter("ignore")
            call(*map(_complex, args), **{k: _complex(v) for k, v in kwargs.items()})
    except Exception as error:  # any error means that complex tensors are not supported
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return ""


def _complex(value: Any) -> Any:
    """Return floating-point tensors as complex ones, also in lists."""
    if isinstance(value, gradloom.Tensor) and value._array.dtype.kind == "f":
        real = value.detach()
        return gradloom.complex(real, real * 0.25)
    if isinstance(value, (list, tuple)) and tensors(value):
        return type(value)([_complex(v) for v in value])
    return value
