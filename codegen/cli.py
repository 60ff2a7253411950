"""The `gradloom` command: generate and check."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from .errors import SpecError

FILES = ("native_functions.yaml", "derivatives.yaml")


class UsageError(Exception):
    """Something that the person at the command line can mend."""


def main(argv: list[str] | None = None) -> int:
    """Run the command; returns the exit code (0 fine, 1 an error in the YAML or a stale file, 2 wrong usage)."""
    parser = argparse.ArgumentParser(prog="gradloom", description="Generate gradloom's operators from their YAML "
                                                                  "files.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, text in (("generate", "write generated/ anew from the two YAML files"),
                       ("check", "fail, with a diff, if generated/ is not what the YAML files give")):
        sub = commands.add_parser(name, help=text, description=text)
        sub.add_argument("--root", type=Path, metavar="DIR",
                         help="the checkout; default: the one that holds the current folder, else the installed one")
    arguments = parser.parse_args(argv)
    try:
        root = find_root(arguments.root)
        return generate(root) if arguments.command == "generate" else check(root)
    except SpecError as error:
        print(error, file=sys.stderr)
        return 1
    except UsageError as error:
        print(f"gradloom: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"gradloom: {error.filename or ''}: {error.strerror}", file=sys.stderr)
        return 2


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
    return render(derivatives.load(root / FILES[1], functions, shown=FILES[1], package=package))


def generate(root: Path) -> int:
    """Write what changed."""
    from .write import write

    start = time.perf_counter()
    files = rendered(root)
    changed = write(root / "generated", files)
    print(f"generated {len(files)} files in {time.perf_counter() - start:.1f} s, {len(changed)} changed")
    return 0


def check(root: Path) -> int:
    """Compare without writing."""
    from .write import difference

    text = difference(root / "generated", rendered(root))
    if not text:
        print("generated/ is up to date")
        return 0
    print(text)
    print("generated/ is not what the YAML files give: run `gradloom generate`", file=sys.stderr)
    return 1
