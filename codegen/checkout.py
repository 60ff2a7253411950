"""Where the specification is: the checkout that a command works on, and the files that its YAML gives."""

from __future__ import annotations

import argparse
from pathlib import Path

from .target import FILES, Target, UsageError, own, project


def add_root(parser: argparse.ArgumentParser) -> None:
    """The --root option, which all commands share."""
    parser.add_argument(
        "--root",
        type=Path,
        metavar="DIR",
        help="the checkout, or the folder of a package of operators; default: the one that holds the "
        "current folder, else the installed gradloom",
    )


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
    raise UsageError(
        "there is no gradloom checkout here: change to one, or name it with --root DIR; "
        "`gradloom new NAME` starts a package of operators of your own"
    )


def find_target(given: Path | None) -> Target:
    """What to work on: a package of operators or gradloom itself, from the folder given, else from the current one up.

    Raises:
        UsageError: if there is neither.
    """
    if given is not None:
        found = project(given) if given.is_dir() else None
        return found or own(find_root(given))
    here = Path.cwd()
    for folder in (here, *here.parents):
        if all((folder / f).exists() for f in FILES) and (folder / "codegen").is_dir():
            return own(folder)
        found = project(folder)
        if found is not None:
            return found
    return own(find_root(None))


def shown(target: Target, name: str) -> str:
    """One of the YAML files as messages name it: from the current folder where that is above, as editors like it."""
    path = target.path(name)
    return name if target.is_own or not path.is_relative_to(Path.cwd()) else str(path.relative_to(Path.cwd()))


def rendered(target: Target) -> dict[str, str]:
    """The generated files that the YAML files of a target give."""
    from .render import render_package
    from .specification import load

    return render_package(load(target, lambda name: shown(target, name)))
