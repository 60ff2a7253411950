"""Check derivatives numerically.

    from gradloom.tools.verify import verify

    report = verify(["mul.Tensor", "tanh"])
    report.ok, report.findings
    print(report)

For every operator, sample calls are made from its schema and the `domain:` of its entry, or written by hand where the
schema is not specific enough. On these calls, everything that the entry claims is checked:

- the operator writes to and shares only the memory that its schema declares;
- in-place and out variants, other memory layouts, broadcasting, single precision and integers give the same results;
- reverse and forward mode agree with finite differences, with each other, and with complex steps if the kernel takes
  complex numbers;
- undefined gradients count as zeros; backward can be repeated and recorded;
- second derivatives, reverse over reverse and forward over reverse, agree with finite differences.

A finding names the formula and its line, the expected and the found values, and the likely cause if the values match a
common mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .operators import Operator, join, operators_of, own_operators

if TYPE_CHECKING:
    from gradloom.tools.define import Definition

    from .findings import CHECKS, Comparison, Finding, OperatorResult
    from .report import Report
    from .runner import MODES, verify_operator

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
# Imported on first use: `explain` needs the operators only.
_LATER = {
    **dict.fromkeys(("CHECKS", "Comparison", "Finding", "OperatorResult"), "findings"),
    "Report": "report",
    **dict.fromkeys(("MODES", "verify_operator"), "runner"),
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)


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
        names: full names (`mul.Tensor`), or names for all their overloads (`mul`). Default, without `families`: all.
        families: families of operators, such as `reduction`.
        package: a package of operators instead of gradloom's own: its name, the folder of its project, or the result
            of `gradloom.ops.define`.
        operators: the operators to select from instead, made by `join`.
        mode: 'fast', 'default' or 'thorough'.
        progress: called before each operator with the number done, the total number, and the operator.

    Returns:
        The results; `ok` is True if nothing is wrong.

    Raises:
        ValueError: for an unknown name, family or mode.
        gradloom.codegen.target.UsageError: for an unknown package, or one whose generated code is out of date.
    """
    from .runner import run

    if operators is None:
        operators = own_operators() if package is None else operators_of(package)
    return run(select(tuple(operators), names, families), mode, progress)


def select(
    operators: tuple[Operator, ...], names: Iterable[str] = (), families: Iterable[str] = ()
) -> tuple[Operator, ...]:
    """Return the operators with these names and families; all, if none are given.

    Raises ValueError for an unknown name or family.
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
    """Return the names that select an operator: its full name and its name, and those of its derived variants."""
    schemas = [operator.schema, *(d.schema for d in operator.joined.function.derived)]
    return [name for schema in schemas for name in dict.fromkeys((str(schema.name), schema.name.name))]
