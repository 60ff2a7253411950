"""Findings: what the checks of an operator report, and the faults of single calls that they are made from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradloom.codegen.reading.yaml_files import Text

from .case import Case, Place

# Second derivatives: the mode of each derivative -> its column.
COMPOSITIONS = {
    "reverse over reverse": "rev-rev",
    "forward over reverse": "fwd-rev",
    "reverse over forward": "rev-fwd",
    "forward over forward": "fwd-fwd",
}
# The columns of the table, in the order in which they are checked.
CHECKS = (
    "static",
    "call",
    "scalar",
    "variants",
    "broadcast",
    "layout",
    "dtypes",
    "reverse",
    "forward",
    "dot product",
    "complex step",
    "undefined",
    *COMPOSITIONS.values(),
    "boundary",
)

WRONG, MISSING = "wrong", "missing"


@dataclass(frozen=True)
class Comparison:
    """Two Jacobians of one output and one input that should be equal, in real coordinates as [input, output].

    Attributes:
        expected, found: the Jacobians.
        input, output: arrays with the shapes and dtypes of the input and the output.
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
        check: the check that found it, one of CHECKS.
        message: what is wrong, in a sentence.
        place: the formula, kernel or entry to blame, in its YAML file.
        input: the argument whose derivative is wrong, or None.
        output: the output number, or None.
        cases: the calls that show it.
        expected, found: values that differ: gradients for a cotangent of ones, tangents for a tangent of ones, or
            results; None if there are none.
        worst: the entry of the Jacobian that differs most, in words.
        causes: likely causes, most likely first; empty if none was recognised.
        sources: further files and lines of the formula: helpers, composites.
        severity: 'wrong', or 'missing' for a derivative that is not implemented.
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
        """The place as `derivatives.yaml:12`; empty if there is none."""
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
        """Return the finding as JSON types."""
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
    """Return an array as lists; complex numbers, which JSON does not have, as text."""
    return np.asarray(array).astype(str).tolist() if array.dtype.kind == "c" else np.asarray(array).tolist()


@dataclass(frozen=True)
class Unvaried:
    """An argument of an operator that was not varied, or not to every value, and why."""

    argument: str
    reason: str

    def __str__(self) -> str:
        return f"`{self.argument}`: {self.reason}"


@dataclass
class OperatorResult:
    """The results of one operator.

    Attributes:
        counts: check -> number of calls checked.
        findings: what is wrong or missing.
        unvaried: what was not varied.
        ignored: arguments that the kernel never uses.
        underived: why no derivative was checked; empty if one was, or if it is wrong or missing.
        seconds: duration.
    """

    name: str
    family: str
    strategy: str
    counts: dict[str, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    unvaried: list[Unvaried] = field(default_factory=list)
    ignored: tuple[str, ...] = ()
    underived: str = ""
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return not any(f.severity == WRONG for f in self.findings)

    def mark(self, check: str) -> str:
        """Return a cell of the table: `FAIL`, `missing`, the number of calls that passed, or `-` if none was made."""
        severities = {f.severity for f in self.findings if f.check == check}
        if WRONG in severities:
            return "FAIL"
        if MISSING in severities:
            return MISSING
        return str(self.counts[check]) if self.counts.get(check) else "-"


# What is to blame: the backward formula of an input, the forward formula of an output, the kernel or composite, or the
# entry as a whole.
BACKWARD, FORWARD, KERNEL, ENTRY = "backward", "forward", "kernel", "entry"


@dataclass
class Fault:
    """What one check of one call found. Fields that Finding has too are described there.

    Attributes:
        blame: BACKWARD, FORWARD, KERNEL or ENTRY.
        causes: causes that the check itself recognised.
    """

    case: Case
    check: str
    message: str
    blame: str
    input: Place | None = None
    output: int | None = None
    comparison: Comparison | None = None
    expected: np.ndarray | None = None
    found: np.ndarray | None = None
    causes: tuple[str, ...] = ()
    severity: str = WRONG


def close(found: np.ndarray, expected: np.ndarray, rtol: float, atol: float) -> bool:
    """Return whether two arrays agree; NaN agrees with NaN, infinity with itself."""
    if found.shape != expected.shape:
        return False
    with np.errstate(all="ignore"):
        return bool(np.allclose(found, expected, rtol, atol, equal_nan=True))


def scale(*arrays: np.ndarray) -> float:
    """Return the largest magnitude of the finite numbers in some arrays, at least 1."""
    found = 1.0
    for array in arrays:
        with np.errstate(all="ignore"):
            values = np.abs(array[np.isfinite(array)]) if array.size else array
        found = max(found, float(values.max(initial=0.0)))
    return found


def said(error: BaseException) -> str:
    """Return an exception as one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:200] + '...' if len(text) > 200 else text}"
