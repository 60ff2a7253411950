"""From measured times to what is printed: the table of rows, the table of statements, JSON, and pages with both."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from rows import CONTENDERS, MICRO, MILLI, ROWS, Row
from rows_compile import BACKENDS, PROGRAMS, missing, name_of
from rows_statements import LLVM, STATEMENTS

NOTE = (
    "Medians. A ratio is gradloom's time over PyTorch's on the same number of threads, `best` that of the better of\n"
    'each one\'s two times. `llvm` is gradloom with `set_kernels("llvm")`. Other load on the machine distorts it.'
)
PARTS = "forward", "backward"
# Columns of ratios: the threads, and which kernels of gradloom.
RATIOS = {
    **{f"ratio {threads}": (threads, "gradloom") for threads in "12"},
    **{f"llvm / torch {threads}": (threads, "llvm") for threads in "12"},
    "best": ("", "gradloom"),
}
Times = dict[tuple[str, str, str], list[float]]  # (contender, program, part) -> seconds
Cells = dict[str, float]  # contender -> median in the row's unit


def medians(times: Times) -> dict[str, Cells]:
    """Return {title of a row: its cells}."""
    table: dict[str, Cells] = {}
    for row in ROWS:
        cells = table[row.title] = {}
        for name in CONTENDERS:
            if seconds := times.get((name, row.program, row.part)):
                cells[name] = statistics.median(seconds) / row.scale
    return table


def low(seconds: list[float]) -> float:
    """Return the fifth percentile: the time without what else the machine does.

    The minimum would be that of the one sample in which the garbage collector did nothing.
    """
    return sorted(seconds)[len(seconds) // 20]


def ratio(cells: Cells, threads: str = "", ours: str = "gradloom") -> float | None:
    """Return gradloom's time over PyTorch's with "1" or "2" threads, or ("") of the better of each."""
    own, theirs = ([cells[name] for name in cells if name.startswith(f"{x}-{threads}")] for x in (ours, "torch"))
    return min(own) / min(theirs) if own and theirs else None


def verdict(row: Row, cells: Cells) -> str:
    """Return the row's limit, and whether it is kept."""
    if row.limit is None:
        return ""
    value = cells.get("gradloom-1") if row.difference else ratio(cells)
    limit = f"{row.limit:g}{' ' + row.unit if row.difference else ''}"
    return limit if value is None else f"{limit} {'kept' if value <= row.limit else 'EXCEEDED'}"


def render(table: dict[str, Cells]) -> str:
    """Return the rows in Markdown."""
    lines = []
    for row in ROWS:
        if cells := table[row.title]:
            numbers = [_number(cells[name]) if name in cells else "" for name in CONTENDERS]
            ratios = ["" if row.difference else _ratio(ratio(cells, *which)) for which in RATIOS.values()]
            lines.append((row.title, row.unit, *numbers, *ratios, verdict(row, cells)))
    return _markdown(("row", "unit", *CONTENDERS, *RATIOS, "limit"), lines, left=2)


def render_statements(times: Times) -> str:
    """Return the statements in Markdown, on one thread, with the geometric means of their ratios."""
    lines, ratios, by_llvm = [], {part: [] for part in PARTS}, {part: [] for part in PARTS}
    measured = {program.removeprefix(LLVM) for _, program, _ in times}
    for statement in filter(measured.__contains__, STATEMENTS):
        line = [f"`{statement}`"]
        for part in PARTS:
            names = ("gradloom-1", statement), ("gradloom-1", LLVM + statement), ("torch-1", statement)
            seconds = [times.get((name, program, part)) for name, program in names]
            ours, llvm, theirs = (low(found) / MICRO if found else None for found in seconds)
            both = ours / theirs if ours and theirs else None
            if both:
                ratios[part].append(both)
            if llvm and theirs:
                by_llvm[part].append(llvm / theirs)
            line += [*("" if n is None else _number(n) for n in (ours, llvm, theirs)), _ratio(both)]
        lines.append(tuple(line))
    columns = "gradloom", 'with `set_kernels("llvm")`', "PyTorch", "ratio"
    head = "statement, us", *(f"{name} {part}" for part in PARTS for name in columns)
    llvm_means = summarise_statements(by_llvm, 'With `set_kernels("llvm")`')
    means = "\n".join(filter(None, (summarise_statements(ratios, "Geometric means of the ratios"), llvm_means)))
    return f"{_markdown(head, lines, left=1)}\n\n{means}" if lines else ""


def summarise_statements(ratios: dict[str, list[float]], what: str) -> str:
    found = [
        f"{part} {math.exp(statistics.fmean(map(math.log, values))):.2f} ({sum(value > 2 for value in values)} of "
        f"{len(values)} above 2)"
        for part, values in ratios.items()
        if values
    ]
    return f"{what}: {', '.join(found)}." if found else ""


def render_compile(times: Times) -> str:
    """Return the compiled programs in Markdown: milliseconds of forward and backward, and of compiling."""
    columns = [(library, backend) for library, backends in BACKENDS.items() for backend in backends]
    lines = []
    for program, title in PROGRAMS.items():
        for threads in ("1", "2"):

            def cell(library: str, backend: str, part: str) -> float | None:
                found = times.get((f"{library}-{threads}", name_of(program, backend), part))  # noqa: B023
                return statistics.median(found) / MILLI if found else None

            steps = [cell(*column, "step") for column in columns]
            compiling = [cell(*column, "compile") for column in columns if column[1] != "eager"]
            if not any(steps):
                continue
            of = dict(zip(columns, steps, strict=True))
            ours = [of["gradloom", name] for name in ("numpy", "llvm") if of["gradloom", name]]
            ratios = [
                min(ours) / other if ours and other else None
                for other in (of["torch", "eager"], of["torch", "inductor"])
            ]
            texts = ["" if n is None else _number(n) for n in (*steps, *compiling)]
            lines.append((title, threads, *texts, *map(_ratio, ratios)))
    names = [f"{'PyTorch' if library == 'torch' else library} {backend}" for library, backend in columns]
    compiled = [f"compiling, {backend}" for _, backend in columns if backend != "eager"]
    head = ("forward and backward, ms", "threads", *names, *compiled, "to PyTorch eager", "to inductor")
    left_out = [f"{reason}." for library, backend in columns if (reason := missing(library, backend)) is not None]
    return "\n\n".join([_markdown(head, lines, left=1), *left_out]) if lines else ""


def _markdown(head: tuple[str, ...], lines: Iterable[tuple[str, ...]], left: int) -> str:
    """Return a table whose first `left` columns stand to the left, the others to the right; "" without lines."""
    lines = [head, *lines]
    if len(lines) == 1:
        return ""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]

    def padded(line: tuple[str, ...]) -> str:
        texts = [text.ljust(width) for text, width in zip(line[:left], widths[:left], strict=True)]
        numbers = (text.rjust(width) for text, width in zip(line[left:], widths[left:], strict=True))
        return "| " + " | ".join([*texts, *numbers]) + " |"

    dashes = ["-" * (width + 1) + ("-" if i < left else ":") for i, width in enumerate(widths)]
    return "\n".join([padded(lines[0]), f"|{'|'.join(dashes)}|", *map(padded, lines[1:])])


def _number(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def write_between(page: Path, tables: dict[str, str]) -> None:
    """Replace what stands between the comments `make bench: NAME` and `make bench: end NAME` of a page by its table.

    Raises ValueError if the page has no such comments.
    """
    text = page.read_text()
    found = [name for name in tables if f"<!-- make bench: {name} -->" in text]
    if not found:
        raise ValueError(f"{page} has no lines <!-- make bench: {next(iter(tables))} --> to put a table after")
    for name in found:
        before, begin, rest = text.partition(f"<!-- make bench: {name} -->\n")
        _, end, after = rest.partition(f"<!-- make bench: end {name} -->")
        if not end:
            raise ValueError(f"{page} has no line <!-- make bench: end {name} --> to put the table before")
        text = f"{before}{begin}{tables[name]}\n{end}{after}"
    page.write_text(text)


def write_json(path: Path, times: Times, about: dict[str, str], errors: dict[tuple[str, str], str]) -> None:
    """Write every median and low quantile, in seconds, with its number of samples, and what failed."""
    rows = {(row.program, row.part): row for row in ROWS}
    measured: dict[tuple[str, str], dict] = {}
    for (contender, program, part), seconds in times.items():
        row = rows.get((program, part))
        entry = measured.setdefault(
            (program, part),
            {
                "program": program,
                "part": part,
                "title": row.title if row else program,
                "median": {},
                "low": {},
                "samples": {},
            },
        )
        entry["median"][contender], entry["samples"][contender] = statistics.median(seconds), len(seconds)
        entry["low"][contender] = low(seconds)
    for entry in measured.values():
        cells = entry["median"]
        entry["ratio"] = {name: ratio(cells, threads) for name, threads in (("1", "1"), ("2", "2"), ("best", ""))}
    failed = [{"library": name, "program": program, "error": text} for (name, program), text in errors.items()]
    when = datetime.now(UTC).isoformat(timespec="seconds")
    content = {"when": when, "unit": "s", "machine": about, "rows": list(measured.values()), "failed": failed}
    path.write_text(json.dumps(content, indent=2) + "\n")
