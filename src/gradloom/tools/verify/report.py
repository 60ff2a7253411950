"""The report of a verification as text: a table, then what is wrong, then what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from .findings import CHECKS, MISSING, WRONG, Finding, OperatorResult

# With more operators than this, the table has a row for each family.
ROWS = 40


@dataclass
class Report:
    """The results of a run; `str()` returns the table and the findings.

    Attributes:
        results: one per operator.
        mode: 'fast', 'default' or 'thorough'.
        seconds: duration.
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
        """Whether nothing is wrong; a missing derivative is not wrong."""
        return not self.wrong

    def __str__(self) -> str:
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
                    "without_derivative": r.underived or None,
                    "never_used": list(r.ignored),
                    "findings": [f.as_dict() for f in r.findings],
                    "not_varied": [{"argument": u.argument, "reason": u.reason} for u in r.unvaried],
                }
                for r in self.results
            ],
        }


def text(report: Report, every_row: bool = False) -> str:
    """Return the report as the command prints it.

    Args:
        every_row: one row per operator; otherwise, with more than ROWS operators, one row per family.
    """
    parts = [table(report.results, by_family=len(report.results) > ROWS and not every_row)]
    for severity, title in ((WRONG, ""), (MISSING, "Not implemented (using these raises an error):")):
        found = [f for f in report.findings if f.severity == severity]
        if found and title:
            parts.append(title)
        parts += [str(f) for f in found]
    parts += [unvaried(report, every_row), without_derivative(report, every_row), never_used(report, every_row)]
    parts.append(summary(report))
    return "\n\n".join(p for p in parts if p)


def unvaried(report: Report, every_row: bool) -> str:
    """Return what was not varied: each argument, or with many operators their number; empty if there are none."""
    found = [(r.name, u) for r in report.results for u in r.unvaried]
    if not found:
        return ""
    if len(report.results) > ROWS and not every_row:
        names = len({name for name, _ in found})
        what = f"{_many(len(found), 'argument')} of {_many(names, 'operator')}"
        return f"Not varied, or not to every value: {what} (--long lists them, --json has them)"
    return "\n".join(["Not varied, or not to every value:", *(f"  {name}: {one}" for name, one in found)])


def without_derivative(report: Report, every_row: bool) -> str:
    """Return the operators of which no derivative was checked, and why; with many, their number."""
    found = [f"{r.name}: {r.underived}" for r in report.results if r.underived]
    return _listed("No derivative", found, "operator", report, every_row)


def never_used(report: Report, every_row: bool) -> str:
    """Return the arguments that kernels never use; with many operators, their number."""
    found = [f"{r.name}: `{name}` is never used" for r in report.results for name in r.ignored]
    return _listed("Not used by the kernel", found, "argument", report, every_row)


def _listed(title: str, lines: list[str], noun: str, report: Report, every_row: bool) -> str:
    if lines and len(report.results) > ROWS and not every_row:
        return f"{title}: {_many(len(lines), noun)} (--long lists them, --json has them)"
    return "\n".join([f"{title}:", *(f"  {line}" for line in lines)]) if lines else ""


def summary(report: Report) -> str:
    """Return the last line of the report."""
    operators, bad = len(report.results), sum(not r.ok for r in report.results)
    calls = sum(sum(r.counts.values()) for r in report.results)
    missing = sum(f.severity == MISSING for f in report.findings)
    counts = {
        "missing": missing and _many(missing, "derivative"),
        "without a derivative": (n := sum(bool(r.underived) for r in report.results)) and _many(n, "operator"),
        "never used": (n := sum(len(r.ignored) for r in report.results)) and _many(n, "argument"),
    }
    more = "".join(f", {count} {what}" for what, count in counts.items() if count)
    right = "nothing wrong" if more else "all right"
    state = f"{bad} of {_many(operators, 'operator')} wrong" if bad else f"{_many(operators, 'operator')}: {right}"
    return f"{state}{more} ({_many(calls, 'check')} in {report.seconds:.1f} s)"


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def table(results: Sequence[OperatorResult], by_family: bool = False) -> str:
    """Return a table of how many calls passed each check; `FAIL` if one did not, `-` if none was made."""
    if not results:
        return ""
    rows = [["family" if by_family else "operator", *CHECKS]]
    if by_family:
        for family in dict.fromkeys(r.family for r in results):
            members = [r for r in results if r.family == family]
            rows.append([f"{family} ({len(members)})", *(_cell(members, check) for check in CHECKS)])
        rows.append([f"all ({len(results)})", *(_cell(results, check) for check in CHECKS)])
    else:
        rows += [[r.name, *(r.mark(check) for check in CHECKS)] for r in results]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    lines.insert(1, "  ".join("-" * w for w in widths))
    return "\n".join(lines)


def _cell(results: Iterable[OperatorResult], check: str) -> str:
    results = list(results)
    failed = sum(r.mark(check) == "FAIL" for r in results)
    if failed:
        return f"{failed} FAIL"
    count = sum(r.counts.get(check, 0) for r in results)
    return f"{count:,}" if count else "-"
