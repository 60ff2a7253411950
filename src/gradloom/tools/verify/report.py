"""The report of a verification as text: a table, then what is wrong, then what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .findings import CHECKS, MISSING, WRONG, OperatorResult, Report

# With more operators than this, the table has a row for each family.
ROWS = 40


def text(report: Report, every_row: bool = False) -> str:
    """The report, as the command line prints it.

    Args:
        every_row: a row for each operator however many there are; otherwise one for each family where they are many.
    """
    parts = [table(report.results, by_family=len(report.results) > ROWS and not every_row)]
    for severity, title in ((WRONG, ""), (MISSING, "Nobody wrote these; what uses them raises an error:")):
        found = [f for f in report.findings if f.severity == severity]
        if found and title:
            parts.append(title)
        parts += [str(f) for f in found]
    parts.append(summary(report))
    return "\n\n".join(p for p in parts if p)


def summary(report: Report) -> str:
    """One line."""
    operators, bad = len(report.results), sum(not r.ok for r in report.results)
    calls = sum(sum(r.counts.values()) for r in report.results)
    missing = sum(f.severity == MISSING for f in report.findings)
    state = f"{bad} of {_many(operators, 'operator')} wrong" if bad else f"{_many(operators, 'operator')}: all right"
    more = f", {_many(missing, 'derivative')} missing" if missing else ""
    return f"{state}{more} ({_many(calls, 'check')} in {report.seconds:.1f} s)"


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def table(results: Sequence[OperatorResult], by_family: bool = False) -> str:
    """How many calls passed each check; `FAIL` where one did not, `-` where there was nothing to check."""
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
