"""`gradloom explain`: where an operator or a node comes from, and what it does."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ..checkout import UsageError


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help="an operator (mul, mul.Tensor, add_, linalg.inv) or a node (MulBackward0)")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page to FILE instead ('-': to the output)")
    parser.add_argument("--color", choices=("auto", "always", "never"), default="auto",
                        help="highlight the text; auto, the default: on a terminal, unless NO_COLOR is set")
    parser.add_argument("--brief", action="store_true", help="say where things are written, without their source code")


def run(arguments: argparse.Namespace) -> int:
    from gradloom.tools.explain import UnknownName, explain

    try:
        explanation = explain(arguments.name)
    except UnknownName as error:
        raise UsageError(str(error)) from None
    if arguments.html is None:
        sys.stdout.write(explanation.text(color=_wants_color(arguments.color), sources=not arguments.brief))
    elif str(arguments.html) == "-":
        sys.stdout.write(explanation.html())
    else:
        arguments.html.write_text(explanation.html(), encoding="utf-8")
        print(f"wrote {arguments.html}")
    return 0


def _wants_color(choice: str) -> bool:
    import os

    return choice == "always" or choice == "auto" and sys.stdout.isatty() and not os.environ.get("NO_COLOR")
