"""Decide whether a library's derivative is wrong.

Note [Judging]
A derivative is compared with gradloom's. Where they differ, difference quotients of the library's own values decide, if
their error is small and the function has no kink there. At a kink the derivative is a convention; then a library is
wrong only if its modes contradict each other while gradloom's agree. What cannot be decided is counted, not shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from .libraries import Array, Library
from .problems import BY_OUTPUT, FIRST, MODES, SECOND, Problem, joined
from .quotients import Quotient

# Judgments. WRONG and TORN are findings: a value that quotients refute, and modes that contradict each other at a kink.
RIGHT, WRONG, TORN, OURS = "right", "wrong", "modes disagree", "ours is wrong"
CONVENTION, ROUNDING, UNDECIDED, RAISES, MISSING = "convention", "rounding", "undecided", "raises", "not implemented"
FINDINGS = (WRONG, TORN)
_MISSING = (
    "not implemented",
    "does not support",
    "not supported",
    "no formula",
    "NotImplemented",
    "not differentiable",
)
_SAME_RTOL, _SAME_ATOL = 1e-6, 1e-9  # two formulas of one derivative
_RTOL, _ATOL = 1e-4, 1e-6  # a derivative and quotients


class Judgment(NamedTuple):
    """What was decided about one derivative.

    Attributes:
        kind: RIGHT or another of the judgments.
        found, ours: the derivative by the library and by gradloom; None if it raised.
        quotient: the product with `Problem.probe`, by quotients; None if it was not needed.
        message: what was raised.
    """

    kind: str
    found: list[Array] | None = None
    ours: list[Array] | None = None
    quotient: Quotient | None = None
    message: str = ""


Attempts = Mapping[str, "list[Array] | Judgment"]


def judge(
    problem: Problem, library: Library, witness: Library | None, modes: Sequence[str] = MODES, is_alone: bool = False
) -> dict[str, Judgment]:
    """Judge the derivatives of a problem, by mode.

    Args:
        is_alone: whether other modes are left out that only tell whether modes disagree.
        witness: gradloom, to compare with; None to compare with quotients alone.
    """
    judged: dict[str, Judgment] = {}
    for group in (FIRST, SECOND):
        wanted = [m for m in group if m in modes]
        if not wanted:
            continue
        made = wanted if is_alone else group
        theirs = {m: _attempt(problem, library, m) for m in made}
        ours = {m: _attempt(problem, witness, m) for m in made} if witness is not None else {}
        for mode in wanted:
            judged[mode] = _judged(problem, mode, library, theirs, ours)
    return judged


def _attempt(problem: Problem, library: Library, mode: str) -> list[Array] | Judgment:
    try:
        return problem.derivative(library, mode)
    except Exception as error:
        text = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        return Judgment(MISSING if any(word in text for word in _MISSING) else RAISES, message=text)


def _judged(problem: Problem, mode: str, library: Library, theirs: Attempts, ours: Attempts) -> Judgment:
    found, mine = theirs[mode], ours.get(mode)
    if isinstance(found, Judgment):
        return found
    mine = None if isinstance(mine, Judgment) else mine
    apart = is_apart(problem, mode, theirs, ours)
    if mine is not None and same(found, mine) and not apart:
        return Judgment(RIGHT, found, mine)
    quotient = problem.quotient(library, mode)
    kind = decided(problem, mode, found, mine, quotient)
    return Judgment(TORN if apart and kind == CONVENTION else kind, found, mine, quotient)


def decided(problem: Problem, mode: str, found: list[Array], ours: list[Array] | None, quotient: Quotient) -> str:
    """Return what difference quotients say."""
    value, error = float(quotient.value[0]), float(quotient.error[0])
    theirs = problem.contracted(mode, found)
    if bool(quotient.kinked[0]):
        return CONVENTION
    size = max(abs(value), 1e-3 * quotient.scale)
    if not np.isfinite(value) or not error <= 1e-5 * max(size, quotient.scale):
        return UNDECIDED

    def agrees(number: float) -> bool:
        return bool(abs(number - value) <= _RTOL * size + _ATOL * quotient.scale + 100 * error)

    mine = ours is not None and agrees(problem.contracted(mode, ours))
    if agrees(theirs):
        return RIGHT if ours is None else ROUNDING if mine else OURS
    return WRONG if mine or ours is None else UNDECIDED


def is_apart(problem: Problem, mode: str, theirs: Attempts, ours: Attempts) -> bool:
    """Return whether a mode contradicts all others of its order, and these, if there are two, gradloom's.

    Of the first derivatives, reverse mode sets the convention.
    """
    totals = {m: total(problem, m, found) for m, found in theirs.items() if not isinstance(found, Judgment)}
    right = [t for m, t in totals.items() if m != mode]
    if mode not in totals or not right or len(right) < len(theirs) - 1 or not np.isfinite(right).all():
        return False
    if _near(totals[mode], right[0]) or not all(_near(t, right[0]) for t in right):
        return False
    witness = [total(problem, m, found) for m, found in ours.items() if not isinstance(found, Judgment)]
    if len(witness) == len(theirs) and all(_near(t, witness[0]) for t in witness):
        return _near(right[0], witness[0])
    return mode != "reverse"


def total(problem: Problem, mode: str, found: list[Array]) -> float:
    """Return <u, J v> or <u, D2 f[v, w]>, which all modes of one order have in common."""
    with_inputs = problem.w if mode == "reverse over forward" else problem.v
    return float(joined(found) @ joined(list(problem.u if mode in BY_OUTPUT else with_inputs)))


def _near(a: float, b: float) -> bool:
    return bool(abs(a - b) <= _SAME_RTOL * max(abs(a), abs(b)) + _SAME_ATOL)


def same(found: Sequence[Array], ours: Sequence[Array], tolerance: float = _SAME_RTOL) -> bool:
    """Return whether two derivatives are equal up to rounding."""
    if [a.shape for a in found] != [a.shape for a in ours]:
        return False
    a, b = joined(list(found)), joined(list(ours))
    finite = np.abs(b[np.isfinite(b)])
    with np.errstate(all="ignore"):
        return bool(np.allclose(a, b, tolerance, 1e-3 * tolerance * finite.max(initial=1e-300), equal_nan=True))
