"""`gradloom torchrun`: run a program written for PyTorch on gradloom, in several processes."""

from __future__ import annotations

import argparse


def configure(parser: argparse.ArgumentParser) -> None:
    from ..launch import add_torchrun_arguments

    add_torchrun_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    from ..launch import torchrun

    return torchrun(arguments)
