"""Show a run: a table by family, every miss in one line, and the same as JSON and Markdown."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from .families import FAMILIES
from .results import ABSENT, MODULE_STAGES, OPTIMIZER_STAGES, STAGES, OpResult
from .session import Run

_COLUMNS = {"operators": STAGES, "modules": MODULE_STAGES, "optimizers": OPTIMIZER_STAGES}
_HEADINGS = {"double_backward": "double", "forward_mode": "tangent"}
DEFAULT_FOLDER = Path("build/conformance")


def summarise(results: Iterable[OpResult], kind: str) -> list[dict[str, Any]]:
    """One row for each family of a kind: how many names PyTorch has, how many exist, and for each stage
    (how many pass, how many were checked). The last row is the total."""
    groups: dict[str, list[OpResult]] = {}
    for result in results:
        if result.kind == kind:
            groups.setdefault(result.family, []).append(result)
    order = {family: index for index, family in enumerate(FAMILIES)}
    rows = [
        _row(family, members, kind)
        for family, members in sorted(groups.items(), key=lambda pair: order.get(pair[0], len(order)))
    ]
    if len(rows) > 1:
        rows.append(_row("total", [result for members in groups.values() for result in members], kind))
    return rows


def _row(family: str, members: list[OpResult], kind: str) -> dict[str, Any]:
    row: dict[str, Any] = {
        "family": family,
        "names": len(members),
        "exist": sum(result.status != ABSENT for result in members),
    }
    for stage in _COLUMNS[kind]:
        checked = [
            result.stages[stage] for result in members if stage in result.stages and result.stages[stage].checked
        ]
        row[stage] = (sum(entry.passed for entry in checked), len(checked))
    return row


def table(rows: list[dict[str, Any]], kind: str, markdown: bool = False) -> list[str]:
    """The rows as aligned text; "passed/checked" in each stage's column."""
    stages = _COLUMNS[kind]
    cells = [[kind, "PyTorch", "exist", *(_HEADINGS.get(stage, stage) for stage in stages)]]
    for row in rows:
        counts = ["-" if not row[stage][1] else f"{row[stage][0]}/{row[stage][1]}" for stage in stages]
        cells.append([row["family"], str(row["names"]), str(row["exist"]), *counts])
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        [
            cell.ljust(width) if index == 0 else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        for line in cells
    ]
    if not markdown:
        return ["  ".join(line).rstrip() for line in lines]
    rule = "|".join(["", "-" * (widths[0] + 2), *("-" * (width + 1) + ":" for width in widths[1:]), ""])
    return (
        [f"| {' | '.join(line)} |" for line in lines[:1]] + [rule] + [f"| {' | '.join(line)} |" for line in lines[1:]]
    )


def miss_lines(results: Iterable[OpResult]) -> list[str]:
    """Every operator and stage that misses: "name  stage  first reason  [how many checks missed: where]"."""
    lines = []
    for result in results:
        for stage in result.missed():
            entry = result.stages[stage]
            first = entry.misses[0]
            lines.append(
                f"{result.name}: {stage}: {first['reason']}  [{len(entry.misses)} of {entry.checked}: {first['where']}]"
            )
    return lines


def absent_names(results: Iterable[OpResult], kind: str) -> list[str]:
    return [result.name for result in results if result.kind == kind and result.status == ABSENT]


def text(run: Run) -> str:
    """What the terminal shows."""
    lines = []
    for kind in run.selection.kinds:
        rows = summarise(run.results, kind)
        if rows:
            lines += table(rows, kind) + [""]
    lines += marked_misses(run)
    lines += [*run.verdict.gone, verdict_line(run)]
    return "\n".join(lines)


def marked_misses(run: Run) -> list[str]:
    """The misses, each marked as known or new."""
    new = {(name, stage) for name, stage, _ in run.verdict.new}
    found = [(result.name, stage) for result in run.results for stage in result.missed()]
    return [
        f"{'new' if key in new else 'known'} miss: {line}"
        for key, line in zip(found, miss_lines(run.results), strict=True)
    ]


def draft(run: Run) -> str:
    """The new misses as known_misses.yaml has them, with what happens where the reason belongs."""
    listed: dict[str, dict[str, dict[str, str]]] = {}
    kinds = {result.name: result.kind for result in run.results}
    for name, stage, reason in run.verdict.new:
        listed.setdefault(kinds[name], {}).setdefault(name, {})[stage] = reason
    return yaml.safe_dump(listed, sort_keys=False, width=1000, allow_unicode=True) if listed else ""


def skips(results: Iterable[OpResult]) -> list[str]:
    """The checks by stage: how many passed, missed and were not made, and the latter by reason and name."""
    made: dict[tuple[str, str], list[int]] = {}
    reasons: dict[tuple[str, str, str], dict[str, int]] = {}
    for result in results:
        for stage, entry in result.stages.items():
            counts = made.setdefault((result.kind, stage), [0, 0, 0])
            counts[0] += entry.checked - len(entry.misses)
            counts[1] += len(entry.misses)
            counts[2] += sum(entry.skipped.values())
            for reason, count in entry.skipped.items():
                reasons.setdefault((result.kind, stage, reason), {})[result.name] = count
    lines = [f"{kind} {stage}: {p} passed, {m} missed, {s} skipped" for (kind, stage), (p, m, s) in made.items()]
    for (kind, stage, reason), names in sorted(reasons.items(), key=lambda pair: -sum(pair[1].values())):
        lines.append(f"skipped: {kind} {stage}: {sum(names.values())}: {reason}: {', '.join(names)}")
    return lines


def verdict_line(run: Run) -> str:
    known = sum(len(result.missed()) for result in run.results) - len(run.verdict.new)
    absent = sum(result.status == ABSENT for result in run.results)
    return (
        f"{run.candidate} against PyTorch: {len(run.results) - absent} names checked, {absent} absent, "
        f"{len(run.verdict.new)} new misses, {known} known, {len(run.verdict.gone)} listed that are none; "
        f"{run.seconds:.0f} s"
    )


def as_json(run: Run) -> dict[str, Any]:
    import torch

    return {
        "candidate": run.candidate,
        "pytorch": torch.__version__,
        "seconds": round(run.seconds, 1),
        "passed": run.verdict.passed,
        "new_misses": [": ".join(miss) for miss in run.verdict.new],
        "listed_but_none": run.verdict.gone,
        "summary": {kind: summarise(run.results, kind) for kind in run.selection.kinds},
        "results": [result.as_dict() for result in run.results],
    }


def as_markdown(run: Run) -> str:
    lines = [f"# Conformance of {run.candidate} with PyTorch", "", verdict_line(run), ""]
    for kind in run.selection.kinds:
        rows = summarise(run.results, kind)
        if rows:
            lines += table(rows, kind, markdown=True) + [""]
    lines += ["## Misses", "", *(f"- {line}" for line in marked_misses(run) or ["none"]), ""]
    for kind in run.selection.kinds:
        names = absent_names(run.results, kind)
        if names:
            lines += [f"## Absent {kind}", "", ", ".join(names), ""]
    return "\n".join(lines)


def write(run: Run, folder: Path = DEFAULT_FOLDER) -> list[Path]:
    """conformance.json and conformance.md in `folder`, which is made if needed."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / "conformance.json", folder / "conformance.md"]
    contents = json.dumps(as_json(run), indent=1) + "\n", as_markdown(run)
    for path, content in zip(paths, contents, strict=True):
        partial = path.with_suffix(f"{path.suffix}.{os.getpid()}.part")
        partial.write_text(content, encoding="utf-8")
        partial.replace(path)
    return paths
