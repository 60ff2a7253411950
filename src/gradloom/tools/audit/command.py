"""The command `gradloom audit`."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from .findings import Finding
from .libraries import load
from .processes import Audit, audit
from .rechecking import rechecked
from .report import as_lines, merged, page, read, summary, text


def main(arguments: argparse.Namespace) -> int:
    """Audit, print the findings, and return the exit code: 0 without findings, 1 with some, 130 if stopped by Ctrl-C.

    Raises:
        ValueError: for an unknown operator or family.
        ImportError: if the library is not installed.
        OSError: if a file cannot be written or read.
    """
    to_stdout = str(arguments.json) == "-"
    for path in (arguments.json if not to_stdout else None, arguments.page):
        if path is not None:
            path.open("a").close()  # refused now, and not after the work
    if arguments.read:
        former = [read(path) for path in arguments.read]
        if arguments.recheck:
            former.append(rechecked(former, load(arguments.library)))
            _write(former[-1], arguments.json)
        audits = merged(former)
    else:
        audits = [_run(arguments, to_stdout)]
    if arguments.page is not None:
        arguments.page.write_text(page(audits), encoding="utf-8")
    return 1 if any(a.findings for a in audits) else 0


def _run(arguments: argparse.Namespace, to_stdout: bool) -> Audit:
    progress = _Progress()

    def report(finding: Finding) -> None:
        progress.clear()
        if not to_stdout:
            print(text(finding, arguments.library), end="\n\n", flush=True)

    found = audit(
        arguments.library,
        arguments.op,
        families=arguments.family,
        seed=arguments.seed,
        seconds=arguments.seconds,
        processes=arguments.processes,
        progress=progress,
        report=report,
    )
    progress.clear()
    _write(found, arguments.json)
    if not to_stdout:
        print(summary(found))
    return found


def _write(found: Audit, path: Path | None) -> None:
    lines = "\n".join(as_lines(found))
    if str(path) == "-":
        print(lines)
    elif path is not None:
        path.write_text(lines + "\n", encoding="utf-8")


class _Progress:
    """A bar on stderr that is rewritten on a terminal; else a line every ten seconds."""

    def __init__(self) -> None:
        self.terminal, self.shown = sys.stderr.isatty(), time.monotonic()

    def clear(self) -> None:
        if self.terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def __call__(self, found: Audit, operator: str) -> None:
        if time.monotonic() - self.shown < (0.1 if self.terminal else 10):
            return
        self.shown = time.monotonic()
        done, total = len(found.done), found.total
        bar = ("#" * (30 * done // max(total, 1))).ljust(30)
        line = f"[{bar}] {done}/{total}, {len(found.findings)} findings, {operator}"[:100]
        print(
            f"\r\x1b[K{line}" if self.terminal else line, end="" if self.terminal else "\n", file=sys.stderr, flush=True
        )
