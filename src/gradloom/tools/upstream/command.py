"""The command `gradloom upstream`."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from gradloom.codegen.errors import UsageError

from .finding import find
from .moving import Move, Options, move
from .releases import keep
from .report import as_json, text


def main(arguments: argparse.Namespace) -> int:
    """Compare, print the differences, and return the exit code: 0 without differences, 1 with some.

    With `--against gradloom`, what gradloom lacks without a reason decides, and not the differences of the releases.

    Raises:
        UsageError: for a release that cannot be found or read.
        OSError: if a file cannot be written.
    """
    for path in (arguments.json, arguments.page):
        if path is not None and not path.parent.is_dir():  # refused now, and not after the work
            raise UsageError(f"{path}: there is no such folder")
    progress = _Progress()
    try:
        old, new = find(arguments.old, progress), find(arguments.new, progress)
        if arguments.keep:
            keep([old.facts, new.facts])
            print(f"kept {old.version} and {new.version}")
            return 0
        options = Options(frozenset(arguments.op), arguments.all, arguments.against is not None)
        found = move(old, new, options, progress)
    finally:
        progress.clear()
    _check_names(arguments.op, found)
    if arguments.page is not None:
        from .page import page

        _write(arguments.page, page(found))
    if str(arguments.json) == "-":
        print(as_json(found))
    else:
        if arguments.json is not None:
            _write(arguments.json, as_json(found) + "\n")
        print(text(found))
    return 1 if (found.changes if found.gaps is None else found.missing) else 0


def _check_names(names: list[str], found: Move) -> None:
    """Refuse a name that neither release has. Raises UsageError."""
    known = {n for r in (found.old, found.new) for part in (r.facts.schemas, r.facts.names) for n in part}
    known |= {name.partition(".")[0] for name in known}
    for name in names:
        if name not in known:
            raise UsageError(f"neither release has an operator or a public name `{name}`")


def _write(path: Path, content: str) -> None:
    """Write a file as a whole, or not at all."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(content)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


class _Progress:
    """A line on stderr that is rewritten on a terminal; else a line every ten seconds."""

    def __init__(self) -> None:
        self.terminal, self.shown = sys.stderr.isatty(), time.monotonic()

    def clear(self) -> None:
        if self.terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def __call__(self, line: str) -> None:
        if time.monotonic() - self.shown < (0.1 if self.terminal else 10):
            return
        self.shown = time.monotonic()
        print(
            f"\r\x1b[K{line[:100]}" if self.terminal else line,
            end="" if self.terminal else "\n",
            file=sys.stderr,
            flush=True,
        )
