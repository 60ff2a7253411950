"""What is printed: findings, a summary, lines of JSON, and the page of all findings by version."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from .auditing import DOCUMENTED, NOT_SHOWN, OTHER
from .findings import Finding
from .judging import CONVENTION, MISSING, OURS, RAISES, RIGHT, ROUNDING, TORN, UNDECIDED, WRONG
from .processes import Audit
from .rechecking import REFUSED, STILL_RIGHT

_UNKNOWN = "not audited"
_NOT_WRONG = STILL_RIGHT, REFUSED, _UNKNOWN  # how the cells of a row begin that does not count for a version
_KINDS = RIGHT, ROUNDING, CONVENTION, DOCUMENTED, UNDECIDED, MISSING, RAISES, NOT_SHOWN, OTHER, OURS


def text(finding: Finding, library: str) -> str:
    """Return a finding as it is printed."""
    if not finding.program:
        return f"{finding.operator} ({finding.label}): {finding.kind}: {finding.found}\n  gradloom      {finding.entry}"
    rows = [(f"{library}", finding.found), ("right", finding.right), ("known", finding.how)]
    rows += [("likely cause" if n == 0 else "or", cause) for n, cause in enumerate(finding.causes)]
    rows.append(("gradloom", finding.entry))
    what = "" if finding.kind == WRONG else f": {finding.kind}"
    return "\n".join(
        [
            f"{finding.operator}, {finding.mode}, {finding.dtype}, {finding.label}{what}",
            *(f"    {line}" for line in finding.program.splitlines()),
            *(f"  {name:13} {value}" for name, value in rows),
        ]
    )


def summary(audit: Audit) -> str:
    """Return the last lines of the report."""
    counts = {kind: audit.counts[kind] for kind in _KINDS if audit.counts[kind]}
    total = judged(audit)
    operators = {f.operator for f in audit.findings}
    lines = [
        f"{audit.library} {audit.version}: {len(audit.findings)} findings in {len(operators)} of "
        + f"{len(audit.done)} operators"
        + (f", stopped before {audit.total - len(audit.done)} more" if audit.stopped else ""),
        f"{total:,} derivatives in {audit.seconds:.0f} s: " + ", ".join(f"{n:,} {kind}" for kind, n in counts.items()),
    ]
    ours = [f"gradloom is wrong, and {audit.library} is not: {', '.join(n[:3])}" for n in audit.notes if n[3] == OURS]
    return "\n".join([*ours, *lines])


def judged(audit: Audit) -> int:
    """Return the number of derivatives that were judged."""
    return sum(audit.counts[k] for k in (*_KINDS, WRONG, TORN) if k not in (NOT_SHOWN, OTHER))


def as_lines(audit: Audit) -> Iterator[str]:
    """Yield lines of JSON: one for the audit, one for each finding."""
    yield json.dumps(
        {
            "library": audit.library,
            "version": audit.version,
            "operators": sorted(audit.done),
            "stopped": audit.stopped,
            "seconds": round(audit.seconds, 1),
            "first": audit.first,
            "derivatives": judged(audit),
            "counts": dict(audit.counts),
            "notes": audit.notes,
            "printed": audit.printed,
        }
    )
    for finding in audit.findings:
        yield json.dumps({"finding": finding.as_dict()})


def merged(audits: Sequence[Audit]) -> list[Audit]:
    """Return one audit for each version: all findings and operators of its runs, the later ones first."""
    found: dict[str, Audit] = {}
    for audit in reversed(audits):
        one = found.setdefault(audit.version, Audit(audit.library, audit.version))
        one.findings += [f for f in audit.findings if f.operator not in one.done]
        one.done += [name for name in audit.done if name not in one.done]
        one.printed |= audit.printed
    return [found[version] for version in sorted(found)]


def read(path: Path) -> Audit:
    """Return an audit whose lines a former run wrote."""
    head, *lines = path.read_text("utf-8").splitlines()
    given = json.loads(head)
    found = Audit(given["library"], given["version"], done=given["operators"], stopped=given["stopped"])
    found.printed = given.get("printed", {})
    found.findings = [Finding.from_dict(json.loads(line)["finding"]) for line in lines]
    return found


def page(audits: Sequence[Audit]) -> str:
    """Return the page of the findings in several versions of a library, each in one line."""
    library = audits[0].library
    title = {"torch": "PyTorch", "jax": "JAX", "autograd": "HIPS autograd"}.get(library, library)
    rows: dict[tuple[str, str, str], dict[str, Finding]] = {}
    for audit in audits:
        for finding in audit.findings:
            rows.setdefault((finding.operator, finding.mode, finding.kind), {}).setdefault(audit.version, finding)
    head = ["operator", "mode", "program", *(a.version for a in audits), "right", "known by", "here"]
    wrong: Counter[str] = Counter()
    table = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for (operator, mode, _), found in sorted(rows.items()):
        first = next(iter(found.values()))
        program = "; ".join(line for line in first.program.splitlines() if not line.startswith("import torch"))
        program = program.replace("](", "] (")  # not a link
        cells = [f"`{operator}`", mode or first.kind, f"`{program}`" if program else first.label]
        for audit in audits:
            cells.append(_cell(audit, first, found.get(audit.version)))
            wrong[audit.version] += not cells[-1].startswith(_NOT_WRONG)
        cells += [
            _code(first.right, mode),
            first.how,
            f"`{first.entry.partition(' (')[2][:-1]}`" if first.entry.endswith(")") else "",
        ]
        table.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    counts = ", ".join(f"{wrong[a.version]} in {a.version}" for a in audits)
    lines = [f"# Where {title} is wrong", "", _INTRODUCTION.format(title=title, library=library, counts=counts), ""]
    lines += table
    return "\n".join(lines) + "\n"


def _cell(audit: Audit, first: Finding, found: Finding | None) -> str:
    """Return what a version prints for a row's program, or gives for the operator in this mode."""
    if first.program in audit.printed:
        text = audit.printed[first.program]
        return text if text.startswith((STILL_RIGHT, REFUSED)) else f"`{text}`"
    if found is not None:
        return _code(found.found, first.mode)
    return "right" if first.operator in audit.done else _UNKNOWN


def _code(text: str, mode: str) -> str:
    return f"`{text}`" if mode else text


_INTRODUCTION = """\
`gradloom audit {library}` ([how it works](audit.md)) wrote this page; its findings are {counts}.
gradloom computes the right value in each. A row has the operator, how it is differentiated, a program, what that prints
with each version of {title} (*right*, or *refused* if it raises an error), the right value, how that is known, and
gradloom's formula, or the function that composes the operator.

Modes: *reverse* is the gradient, *forward* the tangent (jvp); *forward over reverse* is the jvp of a gradient, *reverse
over forward* the gradient of a jvp. Where another mode is the reason, the function has a kink: its derivative there is
a convention, and {title}'s modes follow different ones."""
