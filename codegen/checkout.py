"""Where the specification is: the checkout that a command works on, and the files that its YAML gives."""

from __future__ import annotations

import argparse
from pathlib import Path

from .target import FILES, UsageError


def add_root(parser: argparse.ArgumentParser) -> None:
    """The --root option, which all commands share."""
    parser.add_argument("--root", type=Path, metavar="DIR",
                        help="the checkout; default: the one that holds the current folder, else the installed one")


def find_root(given: Path | None) -> Path:
    """The checkout to work on.

    Raises:
        UsageError: if there is none.
    """
    if given is not None:
        if not given.is_dir():
            raise UsageError(f"--root {given}: no such folder")
        missing = [f for f in FILES if not (given / f).is_file()]
        if missing:
            raise UsageError(f"--root {given}: there is no {missing[0]} in it")
        return given
    here = Path.cwd()
    for folder in (here, *here.parents):
        if all((folder / f).exists() for f in FILES) and (folder / "codegen").is_dir():
            return folder
    source = Path(__file__).resolve().parent.parent
    if all((source / f).exists() for f in FILES):
        return source
    raise UsageError("there is no gradloom checkout here: change to one, or name it with --root DIR")


def rendered(root: Path) -> dict[str, str]:
    """The generated files that the YAML files of a checkout give."""
    from . import derivatives, native_functions
    from .render import render

    package = root / "src" / "gradloom"
    functions = native_functions.load(root / FILES[0], shown=FILES[0], package=package)
    return render(derivatives.load(root / FILES[1], functions, shown=FILES[1], package=package), package)
