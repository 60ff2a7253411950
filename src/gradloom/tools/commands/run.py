"""`gradloom run`: run a program written for PyTorch on gradloom."""

from __future__ import annotations

import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    parser.usage = "gradloom run [-h] (SCRIPT | -m MODULE) [ARGUMENT ...]"
    parser.add_argument("-m", dest="module", action="store_true", help="run a module, as python -m does")
    parser.add_argument("program", metavar="SCRIPT", help="the script; with -m, the name of the module")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="ARGUMENT", help="what the program is given")


def run(arguments: argparse.Namespace) -> int:
    from ..launch import launch

    return launch(arguments.program, arguments.arguments, arguments.module)
