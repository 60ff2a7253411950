"""`gradloom upstream`: compare two releases of PyTorch, and list what gradloom lacks of the second."""

from __future__ import annotations

import argparse
from pathlib import Path


def configure(parser: argparse.ArgumentParser) -> None:
    release = "a wheel, an environment with PyTorch, `installed`, or a version such as 2.15.0"
    parser.add_argument("old", metavar="OLD", help=release)
    parser.add_argument("new", metavar="NEW", help="another release")
    parser.add_argument(
        "--op",
        action="append",
        default=[],
        metavar="NAME",
        help="compare this operator (clamp.Tensor), all overloads of a name (clamp), or this public name only; may be "
        "given again",
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="run all operators in both releases, not only those whose formulas changed; takes minutes",
    )
    parser.add_argument(
        "--against",
        choices=("gradloom",),
        help="list what gradloom lacks of NEW or has otherwise, too; the exit status is 1 if something is missing",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results to FILE, too (- is stdout)")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write a page: all known releases")
    parser.add_argument(
        "--keep", action="store_true", help="only add the facts of both releases to those that are known"
    )


def run(arguments: argparse.Namespace) -> int:
    from ..upstream.command import main

    return main(arguments)
