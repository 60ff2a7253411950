"""Runs the blocks of a page as its reader would: in order, in a copy of the checkout, with names that stay.

Nothing here knows pytest: `run(page, folder)` returns what did not hold, one line for each.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.docs.pages import ROOT, Block, blocks
from tests.waiting import LIMIT

COPIED = (
    "src",
    "codegen",
    "generated",
    "examples",
    "benchmarks",
    "native_functions.yaml",
    "derivatives.yaml",
    "README.md",
)
WRITES = ("append to", "file")

# Runs the blocks given on standard input in one namespace; says of each what it printed and what it raised.
_SESSION = """
import contextlib, io, json, linecache, sys, traceback
import __main__
found, names = [], __main__.__dict__
for place, text in json.load(sys.stdin):
    printed, raised = io.StringIO(), None
    linecache.cache[place] = (len(text), None, text.splitlines(True), place)
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            exec(compile(text, place, "exec"), names)
    except BaseException as error:
        raised = ["".join(traceback.format_exception_only(error)).rstrip(), "".join(traceback.format_exc())]
    found.append((printed.getvalue(), raised))
    if raised:
        found[-1][1].append(len(found))
sys.__stdout__.write("\\0" + json.dumps(found))
"""


def checkout(folder: Path) -> Path:
    """A copy of the checkout in which gradloom can be imported from `src`, and generated anew."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("*.egg-info"))
        else:
            shutil.copy2(source, folder / name)
    for name in ("codegen", "generated"):
        (folder / "src" / "gradloom" / name).symlink_to(folder / name)
    return folder


def environment(folder: Path) -> dict[str, str]:
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "FORCE_COLOR", "CLICOLOR_FORCE")}
    return kept | {"PATH": path, "PYTHONPATH": str(folder / "src"), "NO_COLOR": "1", "COLUMNS": "120"}


def run(page: Path, folder: Path) -> list[str]:
    """Runs a page's blocks in `folder`, a copy of the checkout; returns what did not hold."""
    return [problem for step in _steps(blocks(page)) for problem in _run(step, folder)]


def _steps(found: list[Block]) -> Iterator[list[Block]]:
    """The blocks to run, with python blocks that share an interpreter together."""
    session: list[Block] = []
    for block in found:
        if block.note in ("not run", "checked by"):
            continue
        if block.language == "python" and block.note not in WRITES:
            session.append(block)
            continue
        if block.note in WRITES or block.language in ("sh", "console"):
            if session:
                yield session
            session = []
            yield [block]
    if session:
        yield session


def _run(step: list[Block], folder: Path) -> Iterator[str]:
    block = step[0]
    if block.note in WRITES:
        _write(block, folder)
    elif block.language == "console":
        yield from _console(block, folder)
    elif block.language == "sh":
        done = _command(block.text, folder)
        if done.returncode:
            yield f"{block.place}: exit status {done.returncode}\n{done.stdout}"
    else:
        yield from _python(step, folder)


def _write(block: Block, folder: Path) -> None:
    path = folder / block.told
    path.parent.mkdir(parents=True, exist_ok=True)
    before = path.read_text(encoding="utf-8") + "\n" if block.note == "append to" else ""
    path.write_text(before + block.text, encoding="utf-8")


def _command(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-e", "-c", text],
        cwd=folder,
        env=environment(folder),
        text=True,
        timeout=LIMIT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
    )


def _console(block: Block, folder: Path) -> Iterator[str]:
    for number, part in enumerate(re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:], start=1):
        command, _, expected = part.partition("\n")
        while command.endswith("\\"):
            more, _, expected = expected.partition("\n")
            command = f"{command[:-1]}{more.removeprefix('> ').strip()}"
        printed = _command(command, folder).stdout
        if not matches(printed, expected):
            yield f"{block.place}: command {number}, `{command}`, prints\n{printed}\nand not\n{expected}"


def matches(printed: str, expected: str) -> bool:
    """Whether a text is the expected one, in which `...` stands for anything; ends of lines may have blanks."""

    def lines(text: str) -> str:
        return "\n".join(line.rstrip() for line in text.strip("\n").split("\n"))

    pattern = ".*?".join(re.escape(part) for part in lines(expected).split("..."))
    return re.fullmatch(pattern, lines(printed), re.DOTALL) is not None


def _python(session: list[Block], folder: Path) -> Iterator[str]:
    given = json.dumps([(block.place, block.text) for block in session])
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", _SESSION],
        cwd=folder,
        env=environment(folder),
        input=given,
        text=True,
        capture_output=True,
        timeout=LIMIT,
    )
    _, marked, report = done.stdout.rpartition("\0")
    if not marked:
        yield f"{session[0].place}: the interpreter ended\n{done.stdout}{done.stderr}"
        return
    for block, (printed, raised) in zip(session, json.loads(report), strict=True):
        yield from _judge(block, printed, raised)


def _judge(block: Block, printed: str, raised: list[str] | None) -> Iterator[str]:
    if raised and block.note != "raises":
        yield f"{block.place}: it raises\n{raised[1]}"
    elif block.note == "raises" and not raised:
        yield f"{block.place}: it should raise, and does not"
    elif raised and not matches(printed + raised[0], block.shown or ""):
        yield f"{block.place}: it raises\n{raised[0]}\nand not\n{block.shown}"
    elif not raised and not matches(printed, block.shown or ""):
        yield f"{block.place}: it prints\n{printed}\nand not\n{block.shown or 'nothing'}"
