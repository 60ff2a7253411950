"""`gradloom audit`: find wrong derivatives of PyTorch, of other libraries, or of gradloom itself."""

from __future__ import annotations

import argparse
from pathlib import Path

from gradloom.codegen.errors import UsageError


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("library", choices=("torch", "gradloom", "jax", "autograd"), help="what to audit, as installed")
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
    parser.add_argument("--seed", type=int, default=0, help="of the numbers that are drawn; default: 0")
    parser.add_argument("--seconds", type=float, metavar="N", help="stop after this time, with what was found")
    parser.add_argument("--processes", type=int, default=2, metavar="N", help="default: 2")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write lines of JSON to FILE, too (- is stdout)")
    parser.add_argument(
        "--read",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="take the results that a former run wrote with --json, for --page, instead of a run; may be given again",
    )
    parser.add_argument(
        "--recheck",
        action="store_true",
        help="run the programs of the results that were read with the installed version, for --page and --json",
    )
    parser.add_argument("--page", type=Path, metavar="FILE", help="write a page with a table of the findings")


def run(arguments: argparse.Namespace) -> int:
    from ..audit.command import main

    try:
        return main(arguments)
    except (ValueError, ImportError) as error:
        raise UsageError(str(error)) from None
