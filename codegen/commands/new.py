"""`gradloom new`: the project of a package of operators."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..scaffold import make


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="the package, and its namespace under gradloom.ops: myops")
    parser.add_argument(
        "--dir",
        type=Path,
        default=Path(),
        metavar="DIR",
        help="where to make the folder of that name; default: the current folder",
    )


def run(arguments: argparse.Namespace) -> int:
    folder = make(arguments.name, arguments.dir)
    print(
        f"made {folder}/, with the operators softabs, rolling_mean and softabs_loss to start from\n\n"
        f"  cd {folder}\n  make test        # its tests\n  make generate    # after a change of its YAML files\n"
        f"  make install     # so that `import {arguments.name}` works everywhere"
    )
    return 0
