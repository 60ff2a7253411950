"""The command `gradloom verify`."""

from __future__ import annotations

import argparse
import json
import sys
import time

from gradloom.codegen.errors import UsageError
from gradloom.codegen.target import PROJECT, find_target, own

from . import runner, select
from .operators import Operator, check_fresh, operators_of, own_operators
from .report import Report, summary, text


def main(arguments: argparse.Namespace) -> int:
    """Verify, print the report, and return the exit code.

    Raises:
        UsageError: for an unknown package or checkout, or one whose generated code is out of date.
        ValueError: for an unknown operator or family.
        OSError: if the file of --json cannot be written.
    """
    chosen = select(_operators(arguments), arguments.op, arguments.family)
    if _is_file(arguments.json):
        open(arguments.json, "a").close()  # refused now, and not when a minute of work is to be written
    with _Progress(silent=arguments.quiet) as progress:
        report = runner.run(chosen, arguments.mode or "default", progress)
    _write_json(report, arguments.json)
    if arguments.quiet:
        for finding in report.wrong:
            print(finding, end="\n\n")
        if not report.ok:
            print(summary(report))
    elif str(arguments.json) != "-":
        print(text(report, every_row=arguments.long))
    return 0 if report.ok else 1


def _operators(arguments: argparse.Namespace) -> tuple[Operator, ...]:
    """Return the operators of --package, else of the package or checkout at --root or around the current folder."""
    if arguments.package is not None:
        return operators_of(arguments.package)
    ours = own()
    try:
        target = find_target(arguments.root)
    except UsageError:
        if arguments.root is not None:
            raise
        target = ours  # an installed gradloom, and no project around
    if not target.is_own:
        assert target.source is not None
        return operators_of(next(f for f in target.source.parents if (f / PROJECT).is_file()))
    if ours.source is None or target.source is None or target.source.resolve() != ours.source.resolve():
        raise UsageError(
            f"this is the checkout of another gradloom than the one that runs, {ours.source}: run the "
            "command in this checkout's environment, or with --root for the other one"
        )
    check_fresh(target)
    return own_operators()


def _write_json(report: Report, path) -> None:
    if path is None:
        return
    found = json.dumps(report.as_dict(), indent=1, default=str)
    if _is_file(path):
        path.write_text(found + "\n", encoding="utf-8")
    else:
        print(found)


def _is_file(path) -> bool:
    """Return whether --json names a file, rather than nothing or stdout."""
    return path is not None and str(path) != "-"


class _Progress:
    """Progress on stderr: one line that is rewritten on a terminal, else a line for each family."""

    def __init__(self, silent: bool) -> None:
        self.silent, self.terminal = silent, sys.stderr.isatty()
        self.shown, self.family = 0.0, ""

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *exc: object) -> None:
        if self.terminal and not self.silent:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def __call__(self, done: int, count: int, operator: Operator) -> None:
        if self.silent or count == 1:
            return
        if self.terminal:
            if time.monotonic() - self.shown > 0.1:
                self.shown = time.monotonic()
                print(f"\r\x1b[K{done}/{count} {operator.name}"[:100], end="", file=sys.stderr, flush=True)
        elif operator.family != self.family:
            self.family = operator.family
            print(f"{done}/{count} {operator.family}", file=sys.stderr, flush=True)
