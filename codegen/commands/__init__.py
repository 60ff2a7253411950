"""The commands of the command line, one module each."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_root(parser: argparse.ArgumentParser) -> None:
    """Add the --root option, which all commands share."""
    parser.add_argument(
        "--root",
        type=Path,
        metavar="DIR",
        help="the checkout, or the folder of a package of operators; default: the one that holds the "
        "current folder, else the installed gradloom",
    )
