"""Proves derivatives numerically.

    from gradloom.tools.verify import verify

    report = verify(["mul.Tensor", "tanh"])
    report.ok, report.findings
    print(report)

For every operator, calls are made from its schema and the `domain:` of its entry (or are written by hand, where the
schema says too little), and everything that its entry claims is checked on them:

- the operator writes to nothing and shares no memory that its schema does not mention;
- the in-place and the out variant, other layouts in memory, broadcasting, single precision and integers give the same;
- reverse mode and forward mode give what finite differences give, each other's, and that of complex steps where the
  kernel takes complex numbers;
- undefined gradients count as zeros; backward can be run again, and be recorded;
- second derivatives, reverse over reverse and forward over reverse, give what finite differences give.

A finding names the formula with its line, the expected and the found values, and the likely cause, if it looks like a
mistake that people make.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from gradloom.tools.define import Definition

from .findings import CHECKS, Comparison, Finding, OperatorResult, Report
from .operators import Operator, join
from .packages import operators_of, own_operators
from .runner import MODES, run, verify_operator

__all__ = [
    "CHECKS",
    "MODES",
    "Comparison",
    "Finding",
    "Operator",
    "OperatorResult",
    "Report",
    "join",
    "operators_of",
    "own_operators",
    "select",
    "verify",
    "verify_operator",
]


def verify(
    names: Iterable[str] = (),
    *,
    families: Iterable[str] = (),
    package: str | Path | Definition | None = None,
    operators: Iterable[Operator] | None = None,
    mode: str = "default",
    progress: Callable[[int, int, Operator], None] | None = None,
) -> Report:
    """Check operators and their derivatives.

    Args:
        names: full names (`mul.Tensor`), or names whose overloads are all meant (`mul`); with `families`, those too.
            Neither: all.
        families: families of operators, such as `reduction`.
        package: a package of operators instead of gradloom's own: its name, the folder of its project, or what
            `gradloom.ops.define` gave.
        operators: what to choose from instead, made by `join`.
        mode: 'fast', 'default' or 'thorough'.
        progress: called before each operator with the number done, the number of all, and the operator.

    Returns:
        The results; `ok` says whether nothing is wrong.

    Raises:
        ValueError: for a name or family that there is not, or another mode.
        gradloom.codegen.target.UsageError: for a package that there is not, or that was not generated anew.
    """
    if operators is None:
        operators = own_operators() if package is None else operators_of(package)
    return run(select(tuple(operators), names, families), mode, progress)


def select(
    operators: tuple[Operator, ...], names: Iterable[str] = (), families: Iterable[str] = ()
) -> tuple[Operator, ...]:
    """The operators of these names and families; all, if none are given.

    Raises:
        ValueError: for a name or family that there is not.
    """
    from gradloom.codegen.errors import did_you_mean

    if isinstance(names, str) or isinstance(families, str):
        raise ValueError('names and families are lists: write ["mul"], not "mul"')
    names, families = tuple(names), tuple(families)
    for given, known, what in (
        (names, [n for o in operators for n in _names(o)], "operator"),
        (families, [o.family for o in operators], "family"),
    ):
        for word in given:
            if word not in known:
                hint = did_you_mean(word, sorted(set(known)))
                raise ValueError(f"there is no {what} `{word}`{'; ' + hint if hint else ''}")
    if not names and not families:
        return operators
    return tuple(o for o in operators if o.family in families or any(n in names for n in _names(o)))


def _names(operator: Operator) -> list[str]:
    """What an operator is found by: its full name, its name, and those of the variants that its entry derives."""
    schemas = [operator.schema, *(d.schema for d in operator.joined.function.derived)]
    return [name for schema in schemas for name in dict.fromkeys((str(schema.name), schema.name.name))]
