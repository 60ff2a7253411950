"""What verification finds: findings about one operator, results of each, and the report of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradloom.codegen.reading.text import Text

# The columns of the table, in the order in which they are checked.
CHECKS = (
    "call",
    "variants",
    "broadcast",
    "layout",
    "dtypes",
    "reverse",
    "forward",
    "dot product",
    "complex step",
    "undefined",
    "second",
)

WRONG, MISSING = "wrong", "missing"


@dataclass(frozen=True)
class Comparison:
    """Two Jacobians that should be equal, of one output and one input, in real coordinates as [input, output].

    Attributes:
        expected, found: the Jacobians.
        input, output: arrays of their shapes and dtypes.
    """

    expected: np.ndarray
    found: np.ndarray
    input: np.ndarray
    output: np.ndarray


@dataclass(frozen=True)
class Finding:
    """Something wrong with an operator.

    Attributes:
        operator: its full name.
        check: which check found it, one of CHECKS.
        message: what is wrong, in a sentence.
        place: the formula, kernel or entry that is to blame, where it stands in its YAML file.
        input: the argument whose derivative is wrong; None where it is not about one.
        output: the number of the output; None where it is not about one.
        cases: the calls that show it, the first of them in full.
        expected, found: values that differ: gradients for a cotangent of ones, tangents for a tangent of ones, or
            results; None where there are none to show.
        worst: the entry of the Jacobian that differs most, in words.
        causes: what the error looks like, most likely first; empty where nothing was recognised.
        sources: further files and lines that the formula comes from: helpers, composites.
        severity: 'wrong', or 'missing' for what nobody wrote.
    """

    operator: str
    check: str
    message: str
    place: Text | None = None
    input: str | None = None
    output: int | None = None
    cases: tuple[str, ...] = ()
    expected: np.ndarray | None = None
    found: np.ndarray | None = None
    worst: str = ""
    causes: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    severity: str = WRONG

    @property
    def where(self) -> str:
        """`derivatives.yaml:12`, or nothing."""
        return f"{self.place.path}:{self.place.line}" if self.place is not None else ""

    def __str__(self) -> str:
        lines = [str(self.place.error(self.message, "")) if self.place is not None else f"error: {self.message}"]
        lines += [f"  see {source}" for source in self.sources]
        if self.cases:
            more = f" and in {len(self.cases) - 1} more" if len(self.cases) > 1 else ""
            lines.append(f"  in {self.cases[0]}{more}")
        if self.expected is not None and self.found is not None:
            lines += [f"  expected {_shown(self.expected)}", f"  found    {_shown(self.found)}"]
        if self.worst:
            lines.append(f"  {self.worst}")
        for number, cause in enumerate(self.causes):
            lines.append(f"  likely cause: {cause}" if number == 0 else f"           or: {cause}")
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        place = self.place
        return {
            "operator": self.operator,
            "check": self.check,
            "severity": self.severity,
            "message": self.message,
            "file": place.path if place else None,
            "line": place.line if place else None,
            "column": place.col if place else None,
            "formula": place.value if place else None,
            "input": self.input,
            "output": self.output,
            "cases": list(self.cases),
            "expected": None if self.expected is None else _listed(self.expected),
            "found": None if self.found is None else _listed(self.found),
            "worst": self.worst,
            "causes": list(self.causes),
            "sources": list(self.sources),
        }


def _shown(array: np.ndarray) -> str:
    with np.printoptions(precision=5, threshold=12, edgeitems=2, suppress=True):
        return np.array2string(np.asarray(array), separator=", ").replace("\n", "\n" + " " * 11)


def _listed(array: np.ndarray) -> Any:
    """JSON has no complex numbers: they are text."""
    return np.asarray(array).astype(str).tolist() if array.dtype.kind == "c" else np.asarray(array).tolist()


@dataclass
class OperatorResult:
    """What was checked of one operator.

    Attributes:
        counts: check -> how many calls it was made of.
        findings: what is wrong.
        seconds: how long it took.
    """

    name: str
    family: str
    strategy: str
    counts: dict[str, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return not any(f.severity == WRONG for f in self.findings)

    def mark(self, check: str) -> str:
        """A cell of the table: `FAIL`, `missing`, the number of calls that passed, or `-` where there is nothing to
        check."""
        severities = {f.severity for f in self.findings if f.check == check}
        if WRONG in severities:
            return "FAIL"
        if MISSING in severities:
            return MISSING
        return str(self.counts[check]) if self.counts.get(check) else "-"


@dataclass
class Report:
    """The results of a run; `str()` gives the table and the findings.

    Attributes:
        results: one per operator.
        mode: 'fast', 'default' or 'thorough'.
        seconds: how long it took.
    """

    results: list[OperatorResult]
    mode: str = "default"
    seconds: float = 0.0

    @property
    def findings(self) -> list[Finding]:
        return [f for r in self.results for f in r.findings]

    @property
    def wrong(self) -> list[Finding]:
        return [f for f in self.findings if f.severity == WRONG]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong; a derivative that nobody wrote is not wrong."""
        return not self.wrong

    def __str__(self) -> str:
        from .report import text

        return text(self)

    def as_dict(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "mode": self.mode,
            "seconds": round(self.seconds, 3),
            "operators": [
                {
                    "name": r.name,
                    "family": r.family,
                    "derivative": r.strategy,
                    "ok": r.ok,
                    "seconds": round(r.seconds, 4),
                    "checks": {c: r.mark(c) for c in CHECKS},
                    "findings": [f.as_dict() for f in r.findings],
                }
                for r in self.results
            ],
        }
