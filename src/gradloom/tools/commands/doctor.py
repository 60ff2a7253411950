"""`gradloom doctor`: list the names of torch that a program uses and gradloom lacks."""

from __future__ import annotations

import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("programs", nargs="+", metavar="PROGRAM", help="a script, a folder, or an installed package")
    parser.add_argument("--all", action="store_true", help="list the names that are there, too")


def run(arguments: argparse.Namespace) -> int:
    from ..doctor import main

    return main(arguments.programs, arguments.all)
