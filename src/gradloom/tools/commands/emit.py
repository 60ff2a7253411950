"""`gradloom emit`: write operators out as a module of PyTorch or JAX that needs no gradloom."""

from __future__ import annotations

import argparse
from pathlib import Path


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kind", choices=("torch", "jax"), help="the library that the module is for")
    parser.add_argument("op", nargs="*", metavar="NAME", help="an operator (softplus, pow.Tensor_Tensor)")
    parser.add_argument("--op", action="append", default=[], dest="more", metavar="NAME", help="the same")
    parser.add_argument(
        "--package",
        type=Path,
        metavar="DIR",
        help="a package of operators: all of its operators, unless some are named; default: that of the current folder",
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="the file to write; default: the output")
    parser.add_argument(
        "--namespace",
        metavar="NAME",
        help="the operators' namespace in torch.ops; default: the package's, or the first operator's name",
    )
    parser.add_argument("--force", action="store_true", help="replace a file that this command did not write")


def run(arguments: argparse.Namespace) -> int:
    from ..emit.command import main

    arguments.op = [*arguments.op, *arguments.more]
    return main(arguments)
