"""What `gradloom verify` does with its arguments."""

from __future__ import annotations

import argparse
import json
import sys
import time

from . import runner, select
from .findings import Report
from .operators import Operator, own_operators, specification
from .report import summary, text


def main(arguments: argparse.Namespace) -> int:
    """Verify and print; returns the exit code.

    Raises:
        ValueError: for an operator or a family that there is not, or a checkout that is not the one that is imported.
    """
    own = specification()
    if arguments.root is not None and (own.root is None or arguments.root.resolve() != own.root):
        raise ValueError(f"--root {arguments.root}: the gradloom that Python imports here is not that checkout's but "
                         f"{own.package}; run the command in the checkout's environment")
    stale = own.stale()
    if stale:
        print(f"generated/ is not what the YAML files give ({', '.join(stale[:3])}"
              f"{', ...' if len(stale) > 3 else ''}): run `gradloom generate` first", file=sys.stderr)
        return 1
    chosen = select(own_operators(), arguments.op, arguments.family)
    with _Progress(silent=arguments.quiet) as progress:
        report = runner.run(chosen, arguments.mode or "default", progress)
    _write_json(report, arguments.json)
    if arguments.quiet:
        for finding in report.wrong:
            print(finding, end="\n\n")
        if not report.ok:
            print(summary(report))
    elif arguments.json is None or str(arguments.json) != "-":
        print(text(report, every_row=arguments.long))
    return 0 if report.ok else 1


def _write_json(report: Report, path) -> None:
    if path is None:
        return
    found = json.dumps(report.as_dict(), indent=1, default=str)
    if str(path) == "-":
        print(found)
    else:
        path.write_text(found + "\n", encoding="utf-8")


class _Progress:
    """A line on the terminal that says how far it is; where stderr is none, a line for each family."""

    def __init__(self, silent: bool) -> None:
        self.silent, self.terminal = silent, sys.stderr.isatty()
        self.shown, self.family = 0.0, ""

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *exc: object) -> None:
        if self.terminal and not self.silent:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def __call__(self, done: int, count: int, operator: Operator) -> None:
        if self.silent:
            return
        if self.terminal:
            if time.monotonic() - self.shown > 0.1:
                self.shown = time.monotonic()
                print(f"\r\x1b[K{done}/{count} {operator.name}"[:100], end="", file=sys.stderr, flush=True)
        elif operator.family != self.family:
            self.family = operator.family
            print(f"{done}/{count} {operator.family}", file=sys.stderr, flush=True)
