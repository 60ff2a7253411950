"""`gradloom verify`: prove derivatives numerically."""

from __future__ import annotations

import argparse
from pathlib import Path

from gradloom.codegen.errors import UsageError


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--op",
        action="append",
        default=[],
        metavar="NAME",
        help="an operator (mul.Tensor), or all overloads of a name (mul); may be given again",
    )
    parser.add_argument(
        "--family",
        action="append",
        default=[],
        metavar="FAMILY",
        help="a family of operators, such as reduction; may be given again",
    )
    parser.add_argument(
        "--package",
        metavar="DIR_OR_NAME",
        help="a package of operators: the folder of its project, or its name if it is installed",
    )
    speed = parser.add_mutually_exclusive_group()
    speed.add_argument(
        "--fast",
        dest="mode",
        action="store_const",
        const="fast",
        help="each sample once, products of Jacobians with random vectors",
    )
    speed.add_argument(
        "--thorough",
        dest="mode",
        action="store_const",
        const="thorough",
        help="several draws of each sample, larger Jacobians entry by entry",
    )
    parser.add_argument("--long", action="store_true", help="a row of the table for every operator")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results to FILE, too (- is stdout)")
    parser.add_argument("--quiet", action="store_true", help="print only what is wrong")


def run(arguments: argparse.Namespace) -> int:
    from ..verify.command import main

    try:
        return main(arguments)
    except ValueError as error:
        raise UsageError(str(error)) from None
