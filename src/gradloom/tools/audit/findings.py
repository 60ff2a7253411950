"""A finding: its values in words, how the right one is known, the likely cause, and gradloom's entry."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from gradloom.tools.verify.causes import likely_causes
from gradloom.tools.verify.findings import BACKWARD, COMPOSITIONS, FORWARD, Comparison, Fault
from gradloom.tools.verify.jacobians import coordinates, from_real
from gradloom.tools.verify.operators import Operator

from .judging import TORN, Judgment, same
from .libraries import Array, Library
from .problems import BY_OUTPUT, FIRST, SECOND, Problem, joined
from .programs import program

CRASH, HANG = "crash", "hang"
_FEW = 24  # numbers that are shown, and coordinates of a Jacobian that is searched for a cause


@dataclass(frozen=True)
class Finding:
    """What is wrong with one mode of one operator.

    Attributes:
        kind: 'wrong', 'modes disagree', 'crash' or 'hang'.
        label: how the numbers were chosen with which it was found.
        program: a program that prints `found`, with the library alone; empty for a crash or hang.
        found, right: the values.
        how: how the right value is known.
        causes: likely causes.
        entry: gradloom's entry, `derivatives.yaml:12`, and its formula.
        calls: number of calls that showed it.
    """

    operator: str
    mode: str
    kind: str
    dtype: str = "float64"
    label: str = ""
    program: str = ""
    found: str = ""
    right: str = ""
    how: str = ""
    causes: tuple[str, ...] = ()
    entry: str = ""
    calls: int = 1

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> Finding:
        return cls(**{**given, "causes": tuple(given["causes"])})


def finding(
    problem: Problem, mode: str, judgment: Judgment, library: Library, witness: Library | None
) -> Finding | None:
    """Return the finding of a problem; None if no program shows it."""
    assert judgment.found is not None
    text = program(problem, mode, library, judgment.found)
    if text is None:
        return None
    right, how = _right(problem, mode, judgment, library)
    if right is None:
        return None
    return Finding(
        problem.case.operator.name,
        mode,
        judgment.kind,
        "complex128" if problem.is_complex else "float64",
        problem.label,
        text,
        shown(judgment.found),
        shown(right),
        how,
        tuple(_causes(problem, mode, judgment.found, library, witness)),
        entry(problem.case.operator, mode),
    )


def _right(problem: Problem, mode: str, judgment: Judgment, library: Library) -> tuple[list[Array] | None, str]:
    """Return (the right value, how it is known)."""
    if judgment.kind == TORN:
        others = [m for m in (FIRST if mode in FIRST else SECOND) if m != mode]
        how = f"by {library.name}'s own other mode{'s' if len(others) > 1 else ''}, {', '.join(others)}"
        if judgment.ours is None or same(judgment.ours, judgment.found or []):
            return _by_other_mode(problem, mode, library), how
        return judgment.ours, f"{how}, and gradloom's formula"
    if sum(coordinates(a) for a in (problem.like if mode in BY_OUTPUT else problem.inputs)) > _FEW:
        return judgment.ours, _by_quotients(library, judgment)
    right = problem.right(library, mode)
    found = joined(right)
    sizes = [np.abs(a[np.isfinite(a)]).max(initial=1e-300) for a in map(joined, (right, judgment.found or []))]
    size = float(max(sizes))
    if judgment.ours is not None and np.allclose(found, joined(judgment.ours), 1e-4, 1e-5 * size):
        return judgment.ours, _by_quotients(library, judgment)
    if judgment.ours is not None or not np.isfinite(found).all():
        return None, ""
    return right, _by_quotients(library, judgment)


def _by_other_mode(problem: Problem, mode: str, library: Library) -> list[Array] | None:
    """Return the tangent that the gradients give, for one output with one element."""
    if mode != "forward" or len(problem.outputs) != 1 or problem.like[0].size != 1:
        return None
    ones = replace(problem, u=(np.ones_like(problem.like[0]),))
    found = joined(ones.derivative(library, "reverse")) @ joined(list(problem.v))
    return [np.full_like(problem.like[0], found)]


def _by_quotients(library: Library, judgment: Judgment) -> str:
    text = f"by difference quotients of {library.name}'s own values"
    if judgment.quotient is not None:
        text += f" (error {max(float(judgment.quotient.error[0]), 1e-16):.0e})"
    return text if judgment.ours is None else f"{text}, and gradloom's formula"


def shown(arrays: list[Array]) -> str:
    """Return arrays as one line."""
    texts = []
    for array in arrays:
        with np.errstate(all="ignore"):
            finite = np.abs(array[np.isfinite(array)])
            array = np.where(np.abs(array) < 1e-14 * finite.max(initial=0), 0, array)  # rounding
        with np.printoptions(precision=6, threshold=_FEW, edgeitems=3, suppress=False, linewidth=10**6):
            text = np.array2string(
                np.asarray(array) + 0.0, separator=", ", formatter={"float_kind": lambda x: f"{x:.6g}"}
            )
        texts.append(" ".join(text.split()))
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"


def entry(operator: Operator, mode: str = "") -> str:
    """Return the place of an operator's entry, and the formula of a mode if there is one."""
    info = operator.joined.info
    if info is None or info.place is None:
        place = operator.joined.function.text
        composite = operator.joined.function.entry.get("composite")
        return f"{place.path}:{place.line}" + (f" (composite: {composite.value})" if composite is not None else "")
    formulas = info.forward if mode.endswith("forward") or mode == "forward" else info.derivatives
    found = next((f for f in formulas if f.place is not None), None)
    if found is None:
        return f"{info.place.path}:{info.place.line}"
    return f"{found.place.path}:{found.place.line} ({found.place.value})"


def _causes(problem: Problem, mode: str, found: list[Array], library: Library, witness: Library | None) -> list[str]:
    """Return likely causes, by the effect on values and on the Jacobian or Hessian."""
    causes = []
    a = joined(found)
    for first in FIRST if mode in SECOND and witness is not None else ():
        if first in mode and not _agrees(problem, first, library, witness):
            return [f"the first derivative in {first} mode is wrong"]
    if not np.isfinite(a).all():
        causes.append("the formula divides by zero, or leaves the range of numbers, at this point")
    elif mode in SECOND and not a.any():
        causes.append("the second-order term is dropped: a saved value is taken as constant")
    elif not a.any():
        causes.append("the formula gives zeros at this point")
    try:
        causes += _recognized(problem, mode, library, witness)
    except Exception:
        return causes
    if not causes and mode in SECOND and witness is not None:
        whole = [m for m in SECOND if m != mode and _agrees(problem, m, library, witness)]
        if len(whole) == len(SECOND) - 1:
            causes.append("only this composition is wrong: one pass takes a value as constant that the other varies")
    return causes


def _agrees(problem: Problem, mode: str, library: Library, witness: Library) -> bool:
    try:
        return same(problem.derivative(library, mode), problem.derivative(witness, mode))
    except Exception:
        return False


def _recognized(problem: Problem, mode: str, library: Library, witness: Library | None) -> list[str]:
    """Return the causes that `verify` recognizes in the Jacobian of one input, or its Hessian."""
    if len(problem.places) != 1 or len(problem.outputs) != 1 or witness is None or mode == "forward over forward":
        return []
    (array,), (like,) = problem.inputs, problem.like
    if coordinates(array) > _FEW or coordinates(like) > _FEW:
        return []
    blocks = [_block(problem, mode, one, array, like) for one in (witness, library)]
    comparison = Comparison(blocks[0], blocks[1], array, array if mode in SECOND else like)
    check = COMPOSITIONS.get(mode, mode)
    blame = FORWARD if mode == "forward" else BACKWARD
    place = problem.places[0]
    return likely_causes([Fault(problem.case, check, "", blame, place, 0, comparison)], None)


def _block(problem: Problem, mode: str, library: Library, array: Array, like: Array) -> Array:
    """Return the Jacobian as [input, output], or the Hessian as [input, input]."""
    name, free = {"reverse": ("u", like), "forward": ("v", array), "reverse over forward": ("v", array)}.get(
        mode, ("w", array)
    )
    rows = []
    for unit in np.eye(coordinates(free)):
        one = replace(problem, **{name: (from_real(unit, free),)})
        rows.append(joined(one.derivative(library, mode)))
    return np.stack(rows, 1) if mode == "reverse" else np.stack(rows)
