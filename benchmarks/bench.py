"""Time gradloom, PyTorch (1 and 2 threads) and HIPS autograd side by side. `make bench` runs this.

The libraries take turns (A B C D, A B C D, ...), so that a slow phase of the machine affects all of them, and the
table shows medians. The column of a library that is not installed is empty. Limits are printed, not asserted: the exit
code is 1 only if a program failed in an installed library.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from contender import Contender
from rows import CONTENDERS, ROWS, Row

MARKERS = "<!-- make bench: table -->", "<!-- make bench: end -->"
NOTE = (
    "Medians. The ratio is gradloom's time over that of the faster PyTorch; for the convolutional network\n"
    "over PyTorch with 2 threads. Other load on the machine distorts it."
)
Times = dict[tuple[str, str, str], list[float]]  # (contender, program, part) -> seconds


def measure(
    contenders: list[Contender], programs: list[str], rounds: int, budget: float, errors: dict[tuple[str, str], str]
) -> Times:
    """Run every program in each contender, in turns, `rounds` times. Failures are added to `errors`."""
    times: Times = {}
    for program in programs:
        _progress(f"measuring {program}")
        for _ in range(rounds):
            for contender in contenders:
                if (contender.name, program) in errors:
                    continue
                reply = contender.visit(program, budget)
                if "error" in reply:
                    errors[contender.name, program] = reply["error"]
                for part, seconds in reply.get("times", {}).items():
                    times.setdefault((contender.name, program, part), []).extend(seconds)
    _progress("")
    return times


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{text:40}\r", end="", file=sys.stderr, flush=True)


def measure_imports(contenders: list[Contender], rounds: int) -> Times:
    """Measure how much longer a process that imports a library takes than one that imports NumPy, in the same turn."""
    libraries = dict.fromkeys(["numpy", *(contender.name.partition("-")[0] for contender in contenders)])
    # An installed package has its bytecode; a checkout gets it in the first turn, unless this forbids it.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    seconds: dict[str, list[float]] = {library: [] for library in libraries}
    for _ in range(rounds + 1):
        for library in libraries:
            began = time.perf_counter()
            subprocess.run([sys.executable, "-c", f"import {library}"], check=True, env=environment)
            seconds[library].append(time.perf_counter() - began)
    times: Times = {}
    for name in (contender.name for contender in contenders):
        pairs = zip(seconds[name.partition("-")[0]], seconds["numpy"], strict=True)
        # The first turn is dropped: it reads the files from disk.
        times[name, "imports", "import"] = [its - base for its, base in pairs][1:]
    return times


def medians(times: Times) -> dict[str, dict[str, float]]:
    """Return {title of a row: {contender: median in the row's unit}}."""
    table: dict[str, dict[str, float]] = {}
    for row in ROWS:
        cells = table[row.title] = {}
        for name in CONTENDERS:
            if seconds := times.get((name, row.program, row.part)):
                cells[name] = statistics.median(seconds) / row.scale
    return table


def compared(row: Row, cells: dict[str, float]) -> tuple[float | None, str]:
    """Return gradloom's ratio to the row's reference (None for imports), and the comparison with the limit."""
    ours = cells.get("gradloom")
    theirs = [cells[name] for name in cells if name.startswith(row.reference)]
    ratio = None if ours is None or not theirs or row.difference else ours / min(theirs)
    value = ours if row.difference else ratio
    if row.limit is None:
        return ratio, ""
    limit = f"{row.limit:g}{' ' + row.unit if row.difference else ''}"
    return ratio, limit if value is None else f"{limit} {'kept' if value <= row.limit else 'EXCEEDED'}"


def render(table: dict[str, dict[str, float]]) -> str:
    """Return the table in Markdown."""
    lines = [("row", "unit", *CONTENDERS, "ratio", "limit")]
    for row in ROWS:
        if cells := table[row.title]:
            ratio, verdict = compared(row, cells)
            numbers = (_number(cells[name]) if name in cells else "" for name in CONTENDERS)
            shown = "" if ratio is None else f"{ratio:.2f}"
            lines.append((row.title, row.unit, *numbers, shown, verdict))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]

    def padded(line: tuple[str, ...]) -> str:
        texts = [text.ljust(width) for text, width in zip(line[:2], widths[:2], strict=True)]
        numbers = (text.rjust(width) for text, width in zip(line[2:], widths[2:], strict=True))
        return "| " + " | ".join([*texts, *numbers]) + " |"

    dashes = ["-" * (width + 1) + ("-" if i < 2 else ":") for i, width in enumerate(widths)]
    return "\n".join([padded(lines[0]), f"|{'|'.join(dashes)}|", *map(padded, lines[1:])])


def _number(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"


def machine(contenders: list[Contender]) -> dict[str, str]:
    from importlib.metadata import version

    present = [contender for contender in contenders if not contender.unavailable]
    described = {contender.name: f"{contender.version} ({contender.blas})" for contender in present}
    return {
        "cpu": _cpu(),
        "cores": str(os.cpu_count()),
        "system": platform.system(),
        "load": _load(),
        "python": platform.python_version(),
        "numpy": version("numpy"),
        **described,
    }


def _load() -> str:
    """Return the system's load average of the last minute, if it has one."""
    return f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    models = [line.partition(": ")[2] for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor()


def run(args: argparse.Namespace) -> int:
    programs = list(dict.fromkeys(row.program for row in ROWS if not args.only or row.program in args.only))
    contenders = [Contender(name) for name in args.contenders]
    errors: dict[tuple[str, str], str] = {}
    try:
        present = [contender for contender in contenders if not contender.unavailable]
        in_process = [name for name in programs if name != "imports"]
        times = measure(present, in_process, args.rounds, args.budget, errors)
        if "imports" in programs:
            times |= measure_imports(present, 2 * args.rounds)
    finally:
        for contender in contenders:
            contender.close()
    table, about = medians(times), machine(contenders)
    report = f"{render(table)}\n\n{NOTE}\n{', '.join(f'{name} {value}' for name, value in about.items())}."
    print(report)
    for contender in contenders:
        if contender.unavailable:
            print(f"left out: {contender.name}, which cannot be imported ({contender.unavailable})")
    for (name, program), message in errors.items():
        print(f"failed: {program} in {name}: {message}")
    if args.json:
        write_json(Path(args.json), table, about, times, errors)
        print(f"wrote {args.json}")
    if args.readme:
        write_readme(Path(args.readme), report)
        print(f"wrote {args.readme}")
    return 1 if errors else 0


def write_readme(path: Path, report: str) -> None:
    """Replace the text between MARKERS by the table. Raises ValueError if they are missing."""
    before, begin, rest = path.read_text().partition(MARKERS[0])
    _, end, after = rest.partition(MARKERS[1])
    if not end:
        raise ValueError(f"{path} has no lines {MARKERS[0]} and {MARKERS[1]} to put the table between")
    path.write_text(f"{before}{begin}\n{report}\n{end}{after}")


def write_json(path: Path, table, about, times: Times, errors) -> None:
    rows = []
    for row in ROWS:
        ratio, verdict = compared(row, table[row.title])
        samples = {name: len(times.get((name, row.program, row.part), ())) for name in table[row.title]}
        rows.append(
            {
                "row": row.title,
                "unit": row.unit,
                "median": table[row.title],
                "samples": samples,
                "ratio": ratio,
                "limit": row.limit,
                "verdict": verdict,
            }
        )
    failed = [{"library": name, "program": program, "error": text} for (name, program), text in errors.items()]
    when = datetime.now(UTC).isoformat(timespec="seconds")
    content = {"when": when, "machine": about, "rows": rows, "failed": failed}
    path.write_text(json.dumps(content, indent=2) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", metavar="FILE", help="write the numbers there, too")
    parser.add_argument("--readme", metavar="FILE", help="put the table between the markers of that page")
    parser.add_argument("--rounds", type=int, default=9, help="turns of each library (default: %(default)s)")
    parser.add_argument("--budget", type=float, default=0.2, help="seconds of a turn (default: %(default)s)")
    parser.add_argument("--only", nargs="+", choices=sorted({row.program for row in ROWS}), help="just these")
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=CONTENDERS)
    return run(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
