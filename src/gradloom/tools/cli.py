"""The `gradloom` command. Each of its commands is a module of `commands/`; only the requested one is imported.

A command module has `run(arguments)`, which returns the exit code (0 for success, 1 for an error in the YAML or a
finding, 2 for wrong usage), and, if it has options besides --root, `configure(parser)`, which adds them.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

COMMANDS = {
    "generate": "write generated/ anew from the two YAML files",
    "verify": "check derivatives numerically: reverse mode, forward mode, second derivatives, variants, dtypes",
    "propose": "derive an operator's formulas from its definition, as lines for derivatives.yaml",
    "prove": "prove formulas equal to the derivatives of definitions, by symbolic mathematics, or refute them",
    "emit": "write operators out as a Python module for PyTorch or JAX that needs no gradloom",
    "audit": "find wrong derivatives of PyTorch, of other libraries or of gradloom, with a program that shows each",
    "upstream": "compare two releases of PyTorch, and list what gradloom lacks of the second",
    "explain": "show where an operator comes from, its derivative, and what it saves and supports",
    "check": "fail, with a diff, if generated/ is not what the YAML files give",
    "new": "start a package of your own operators",
    "run": "run a program that was written for PyTorch on gradloom",
    "torchrun": "run a program that was written for PyTorch in several processes, on one machine or more",
    "doctor": "list the names of torch that a program uses and gradloom lacks",
}
WITH_ROOT = ("generate", "verify", "check", "propose", "prove")
# These build trees that live until they end: without the garbage collector they take two thirds of the time.
WITHOUT_COLLECTION = ("generate", "check", "explain", "new", "doctor")


def main(argv: list[str] | None = None) -> int:
    """Run the command; return 0 for success, 1 for an error in the YAML or a finding, 2 for wrong usage, 130 if
    stopped."""
    ends_process = argv is None
    argv = sys.argv[1:] if argv is None else argv
    parser = _parser(argv)
    if not argv:
        parser.print_help(sys.stderr)
        return 2
    arguments = parser.parse_args(argv)
    collects = gc.isenabled()
    if arguments.command in WITHOUT_COLLECTION and not getattr(arguments, "watch", False):
        gc.disable()
    try:
        code: int = arguments.run(arguments)
        return code
    except BrokenPipeError:  # the reader closed the pipe: `gradloom explain mul | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python would report an error at exit
        return 0
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"gradloom: {where}{error.strerror or error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except Exception as error:
        from gradloom.codegen.errors import SpecError, UsageError  # not above: `run` starts without the generator

        if isinstance(error, SpecError):
            print(error, file=sys.stderr)
            return 1
        if isinstance(error, UsageError):
            print(f"gradloom: {error}", file=sys.stderr)
            return 2
        raise
    finally:
        if collects:
            gc.enable()
        if ends_process and arguments.command in WITHOUT_COLLECTION:
            gc.freeze()  # or Python would search what is left for cycles before it ends


def _parser(argv: list[str]) -> argparse.ArgumentParser:
    """Return the parser of a command line; of its commands, only the one that `argv` names has its options."""
    parser = _Parser(
        prog="gradloom",
        description="Generate, check and explain operators defined in YAML; run programs written for PyTorch.",
        epilog="'gradloom COMMAND --help' describes the options of a command.",
    )
    parser.add_argument("--version", action=_Version, help="show the version and exit")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    if argv and argv[0] not in COMMANDS and not argv[0].startswith("-"):
        hint = _did_you_mean(argv[0], COMMANDS) or f"the commands are {', '.join(COMMANDS)}"
        parser.error(f"there is no command `{argv[0]}`; {hint}")
    for name, text in COMMANDS.items():
        sub = commands.add_parser(name, help=text, description=text)
        if name in argv[:1]:
            module = import_module(f".commands.{name}", __package__)
            if name in WITH_ROOT:
                _add_root(sub)
            if hasattr(module, "configure"):
                module.configure(sub)
            sub.set_defaults(run=module.run)
    return parser


class _Parser(argparse.ArgumentParser):
    """A parser that refuses an unknown option with the usage of its command and the closest option.

    argparse's own parser of a command leaves unknown options to `gradloom`, which knows none of the command's options.
    """

    def parse_known_args(self, *values: Any, **options: Any) -> Any:
        arguments, unknown = super().parse_known_args(*values, **options)
        if unknown:
            word = unknown[0].partition("=")[0]
            if not word.startswith("-"):
                self.error(f"unexpected argument `{word}`")
            hint = _did_you_mean(word, self._option_string_actions, cutoff=0.7) or "--help lists the options"
            self.error(f"there is no option `{word}`; {hint}")
        return arguments, unknown


def _did_you_mean(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    from gradloom.codegen.errors import did_you_mean

    hint: str = did_you_mean(word, known, cutoff)
    return hint


def _add_root(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--root",
        type=Path,
        metavar="DIR",
        help="the checkout, or the folder of a package of operators; default: the one that holds the "
        "current folder, else the installed gradloom",
    )


class _Version(argparse.Action):
    """Action of --version, which looks the version up only when needed."""

    def __init__(self, option_strings: list[str], dest: str, **options: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, **options)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"gradloom {version('gradloom')}")
        parser.exit()
