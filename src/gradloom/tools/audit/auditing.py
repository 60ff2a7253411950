"""Audit one operator in this process."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gradloom.tools.verify.findings import said
from gradloom.tools.verify.operators import Operator
from gradloom.tools.verify.runner import raised_at
from gradloom.tools.verify.sampling import NoSamples

from .drawing import draws, is_extreme
from .findings import Finding, finding
from .judging import FINDINGS, OURS, RAISES, Judgment, judge, same
from .libraries import Absent, Library
from .problems import MODES, Problem
from .shrinking import finite, shrunk

_ENOUGH = 3  # calls that show a finding, after which the mode is left alone
NOT_SHOWN = "without a program"
OTHER = "other values"
DOCUMENTED = "documented"  # gradloom's own numbers where `kinks: nan` says that they have no meaning
NOTED = OURS, RAISES
_VALUES = 1e-4  # relative difference of values, above which they are others


def auditable(operator: Operator) -> bool:
    """Return whether an operator returns what depends on its arguments alone, and has a derivative."""
    return operator.schema.kind == "functional" and operator.differentiable and not operator.is_random


def audit_operator(
    operator: Operator,
    library: Library,
    witness: Library | None,
    seed: int = 0,
    skipped: int = 0,
    at: Callable[[int, str], None] = lambda number, label: None,
) -> Iterator[Finding | tuple[str, Any]]:
    """Yield the findings of an operator, ("note", what is not a finding but may be a fault), and at the end ("counts",
    {judgment: number of derivatives}).

    Args:
        skipped: how many calls not to make: those up to one that ended a former process.
        at: called before each call with its number and how its numbers were chosen.
    """
    counts: Counter[str] = Counter()
    is_documented = witness is None and "nan" in operator.joined.function.kinks
    shown: Counter[tuple[str, bool]] = Counter()
    tried: Counter[tuple[str, bool]] = Counter()
    written: set[tuple[str, bool]] = set()
    noted: set[tuple[str, str] | str] = set()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            for number, (case, label) in enumerate(draws(operator, seed)):
                if number < skipped:
                    continue
                at(number, label)
                problem = _problem(case, label, library)
                if problem is None:
                    continue
                if isinstance(problem, str):
                    counts[problem] += 1
                    if problem not in noted:
                        noted.add(problem)
                        yield "note", [operator.name, "value", label, problem, ""]
                    continue
                left = tuple(m for m in MODES if shown[m, True] + shown[m, False] < _ENOUGH)
                for mode, judgment in judge(problem, library, witness, left).items():
                    counts[judgment.kind] += 1
                    if judgment.kind in NOTED and (mode, judgment.kind) not in noted:
                        noted.add((mode, judgment.kind))
                        yield "note", [operator.name, mode, label, judgment.kind, judgment.message]
                    if judgment.kind not in FINDINGS:
                        continue
                    if is_documented and case.is_varied:
                        counts[judgment.kind] -= 1
                        counts[DOCUMENTED] += 1
                        continue
                    key = (mode, finite(judgment))
                    shown[key] += 1
                    if key in written or tried[key] == _ENOUGH or is_extreme(label) and (mode, True) in written:
                        continue
                    tried[key] += 1
                    try:
                        made = _found(problem, mode, judgment, library, witness)
                    except Exception as error:
                        made = None
                        yield "note", [operator.name, mode, label, NOT_SHOWN, f"{said(error)} ({raised_at(error)})"]
                    if made is None:
                        counts[NOT_SHOWN] += 1
                        shown[key] = 0
                    else:
                        written.add(key)
                        yield made
        except Absent:
            counts["absent"] += 1
        except NoSamples:
            counts["no samples"] += 1
    yield "counts", dict(counts)


def _problem(case: Any, label: str, library: Library) -> Problem | str | None:
    """Return the derivatives of a call to judge; OTHER if its value is not gradloom's, None if it is refused or not
    finite."""
    try:
        problem = Problem.of(case, label)
        if problem is None or problem.is_complex and not library.takes_complex:
            return None
        values = problem.values(library)
    except Absent:
        if library.function(case.operator) is not None:
            return None
        raise
    except Exception:
        return None
    if not all(np.isfinite(a).all() for a in values):
        return None
    return problem if same(values, problem.like, _VALUES) else OTHER


def _found(
    problem: Problem, mode: str, judgment: Judgment, library: Library, witness: Library | None
) -> Finding | None:
    small, again = shrunk(problem, mode, judgment, library, witness)
    if judge(small.along(5), library, witness, (mode,))[mode].kind != judgment.kind:
        return None  # gradloom's value was right by the chance of a direction
    return finding(small, mode, again, library, witness)
