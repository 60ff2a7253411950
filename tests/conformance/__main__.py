"""`python -m tests.conformance`: check a library against PyTorch and print the table and the misses."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

# Two processes share the machine; threads of BLAS in each would only get in the way. NumPy reads this once.
for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")


def main(arguments: list[str] | None = None) -> int:
    """Exit status 0 where every miss is known and every known miss misses, 1 elsewhere, 2 for a wrong
    call."""
    parser = _parser()
    given = parser.parse_args(arguments)
    try:
        import torch  # noqa: F401
    except ImportError:
        parser.error("PyTorch is not installed in this environment; `make conformance` makes one that has it")
    from . import report, session
    from .results import OpResult

    unknown = set(given.only or ()) - set(session.ALL_STAGES)
    if unknown:
        parser.error(f"no stage {', '.join(sorted(unknown))}; there are {', '.join(session.ALL_STAGES)}")
    selection = session.Selection(
        names=tuple(given.ops or ()),
        families=tuple(given.family or ()),
        kinds=tuple(given.kind),
        stages=tuple(given.only or session.ALL_STAGES),
        limit=given.limit,
        samples=given.samples,
        whole=given.whole,
    )
    candidate = session.load_candidate(given.candidate)
    tasks = session.all_tasks(candidate, selection)
    if not tasks:
        parser.error("nothing in PyTorch's databases is selected")
    done = 0

    def told(result: OpResult) -> None:
        nonlocal done
        done += 1
        if sys.stderr.isatty():
            print(f"\r\033[K{done}/{len(tasks)} {result.name}", end="", file=sys.stderr, flush=True)
        elif given.whole:
            print(f"{done}/{len(tasks)} {result.name}: {result.seconds:.0f} s", file=sys.stderr, flush=True)

    limit = given.time_per_op or (1800.0 if given.whole else 60.0)
    run = session.run(candidate, selection, jobs=given.jobs, time_per_op=limit, known=given.known, told=told)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    print(report.text(run))
    if given.notes:
        for result in run.results:
            for note in result.notes:
                print(f"note: {result.name}: {note}")
    if given.draft:
        print(report.draft(run))
    if given.skips:
        print("\n".join(report.skips(run.results)))
    print("written:", *report.write(run, given.out))
    return 0 if run.verdict.passed else 1


def _parser() -> argparse.ArgumentParser:
    from .known import KINDS

    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument(
        "--ops",
        nargs="+",
        metavar="NAME",
        help="names such as add, linalg.svd, nn.Linear, optim.SGD, or patterns such as 'nn.functional.*'",
    )
    parser.add_argument("--family", action="append", metavar="F", help="one family of operators; may be repeated")
    parser.add_argument("--kind", nargs="+", choices=KINDS, default=list(KINDS), help="parts of the database")
    parser.add_argument("--only", type=lambda text: text.split(","), metavar="STAGES", help="such as forward,backward")
    parser.add_argument("--candidate", default="gradloom", help="the module to check (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: %(default)s)")
    parser.add_argument("--limit", type=int, metavar="N", help="at most N of the names that are selected")
    parser.add_argument("--samples", type=int, metavar="N", help="at most N samples for each stage and dtype")
    parser.add_argument(
        "--time-per-op",
        type=float,
        metavar="S",
        help="seconds after which one name is given up (default: 60, with --whole 1800)",
    )
    parser.add_argument(
        "--whole", action="store_true", help="all samples of all dtypes, each also non-contiguous (hours)"
    )
    parser.add_argument("--skips", action="store_true", help="count the checks that were not made, by reason")
    parser.add_argument("--known", type=Path, help="the list of known misses (gradloom's by default)")
    parser.add_argument("--out", type=Path, default=Path("build/conformance"), help="folder for JSON and Markdown")
    parser.add_argument("--draft", action="store_true", help="print the new misses in the form of known_misses.yaml")
    parser.add_argument(
        "--notes", action="store_true", help="print what is only noted: strides, messages, samples left out"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
