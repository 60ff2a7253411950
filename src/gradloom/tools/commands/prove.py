"""`gradloom prove`: compare formulas with the derivatives of definitions by symbolic mathematics."""

from __future__ import annotations

import argparse
from pathlib import Path


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", help="an operator (softplus, pow.Tensor_Tensor); default: all")
    parser.add_argument("--op", action="append", default=[], metavar="NAME", help="the same; may be given again")
    parser.add_argument("--family", action="append", default=[], metavar="NAME", help="the operators of a family")
    parser.add_argument(
        "--write",
        action="store_true",
        help="keep the verdicts in proofs.yaml of the generated package, which `gradloom check` compares; without a "
        "name, prove only what is not up to date there",
    )
    parser.add_argument(
        "--torch",
        nargs="?",
        const="installed",
        metavar="RELEASE",
        help="prove the formulas of a release of PyTorch instead: the one that is installed here, or a version such as "
        "2.15.0, a wheel, an environment",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the verdicts to FILE, too (- is stdout)")


def run(arguments: argparse.Namespace) -> int:
    from ..prove.command import main

    return main(arguments)
