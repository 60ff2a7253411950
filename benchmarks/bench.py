"""Time gradloom and PyTorch (each with 1 and 2 threads) and HIPS autograd side by side. `make bench` runs this.

The libraries take turns (A B C D, A B C D, ...), so that a slow phase of the machine affects all of them, and the
table shows medians, that of the statements a low quantile. The column of a library that is not installed is empty.
Limits are printed, not asserted: the exit code is 1 only if a program failed in an installed library.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import generator
import rows_compile
from contender import Contender
from rows import CONTENDERS, ROWS
from rows_statements import LLVM, STATEMENTS
from sweeps import names, plot
from tables import NOTE, Times, medians, render, render_compile, render_statements, write_between, write_json

FEW = ("gradloom-1", "torch-1")  # who runs the statements


def measure(
    contenders: list[Contender], programs: list[str], rounds: int, budget: float, errors: dict[tuple[str, str], str]
) -> Times:
    """Run every program in each contender, in turns, `rounds` times. Failures are added to `errors`."""
    times: Times = {}
    for program in programs:
        _progress(f"measuring {program}")
        for _ in range(rounds):
            for contender in contenders:
                _visit(contender, program, budget, times, errors)
    _progress("")
    return times


def _visit(contender: Contender, program: str, budget: float, times: Times, errors: dict[tuple[str, str], str]) -> None:
    """Add the times of one visit, or its failure; a program that failed is not run again."""
    if (contender.name, program) in errors:
        return
    reply = contender.visit(program, budget)
    if "error" in reply:
        errors[contender.name, program] = reply["error"]
    for part, seconds in reply.get("times", {}).items():
        times.setdefault((contender.name, program, part), []).extend(seconds)


def measure_statements(names: list[str], rounds: int, budget: float, errors: dict[tuple[str, str], str]) -> Times:
    """Run the statements in short turns, in `rounds` passes over all of them.

    gradloom's machine code runs in a process of its own, which never switches kernels.
    """
    contenders = [Contender(name) for name in FEW if name in names]
    machine_code = [Contender(name) for name in FEW[:1] if name in names]
    turns = [(c, "") for c in contenders] + [(c, LLVM) for c in machine_code]
    times: Times = {}
    try:
        for statement in STATEMENTS * rounds:
            _progress(f"measuring {statement}")
            for contender, kernels in turns * 2:
                if not contender.unavailable:
                    _visit(contender, kernels + statement, budget, times, errors)
    finally:
        for contender, _ in turns:
            contender.close()
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
        in_process = [name for name in programs if name not in ("imports", generator.PROGRAM)]
        times = measure(present, in_process, args.rounds, args.budget, errors)
        if not args.only or "statements" in args.only:
            names_present = [contender.name for contender in present]
            times |= measure_statements(names_present, args.rounds, args.budget / 20, errors)
        if not args.only or "compile" in args.only:
            times |= measure(_alike(present), rows_compile.names(), min(args.rounds, 5), args.budget, errors)
        if args.plots:
            times |= measure(_alike(present), names(), 3, args.budget, errors)
        if "imports" in programs:
            times |= measure_imports([c for c in present if not c.name.startswith("llvm")], 2 * args.rounds)
        if generator.PROGRAM in programs:
            _progress("measuring the generator")
            times |= generator.measure([c.name for c in present], min(args.rounds, 5))
    finally:
        for contender in contenders:
            contender.close()
    return report(args, contenders, times, errors)


def _alike(contenders: list[Contender]) -> list[Contender]:
    """Return gradloom and PyTorch with their usual kernels."""
    return [contender for contender in contenders if contender.name.partition("-")[0] in rows_compile.BACKENDS]


def report(args: argparse.Namespace, contenders: list[Contender], times: Times, errors: dict) -> int:
    about = machine(contenders)
    machine_line = f"{', '.join(f'{name} {value}' for name, value in about.items())}."
    rows, statements, compiled = render(medians(times)), render_statements(times), render_compile(times)
    print("\n\n".join(filter(None, (rows, statements, compiled, f"{NOTE}\n{machine_line}"))))
    for contender in contenders:
        if contender.unavailable:
            print(f"left out: {contender.name}, which cannot be imported ({contender.unavailable})")
    for (name, program), message in errors.items():
        print(f"failed: {program} in {name}: {message}")
    if args.json:
        write_json(Path(args.json), times, about, errors)
        print(f"wrote {args.json}")
    for page in map(Path, args.pages):
        tables = {"rows": f"{rows}\n\n{NOTE}\n{machine_line}", "statements": statements, "compile": compiled}
        chosen = args.only and {"statements", "compile"}.intersection(args.only)
        write_between(page, {name: tables[name] for name in chosen or tables})
        print(f"wrote {page}")
    for picture in plot(times, Path(args.plots)) if args.plots else ():
        print(f"wrote {picture}")
    return 1 if errors else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", metavar="FILE", help="write the numbers there, too")
    parser.add_argument(
        "--pages", nargs="+", default=(), metavar="FILE", help="put the tables between the markers of these pages"
    )
    parser.add_argument("--plots", metavar="FOLDER", help="measure sizes, depths and widths, too, and draw them there")
    parser.add_argument("--rounds", type=int, default=9, help="turns of each library (default: %(default)s)")
    parser.add_argument("--budget", type=float, default=0.2, help="seconds of a turn (default: %(default)s)")
    choices = sorted({"statements", "compile", *(row.program for row in ROWS)})
    parser.add_argument("--only", nargs="+", choices=choices, help="just these")
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=CONTENDERS)
    return run(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
