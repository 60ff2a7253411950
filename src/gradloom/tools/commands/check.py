"""`gradloom check`: compare without writing."""

from __future__ import annotations

import argparse
import sys

from gradloom.codegen.outputs.render import has_debug
from gradloom.codegen.target import find_target
from gradloom.codegen.writing.folder import difference

from .. import kept
from ..prove import certificates


def run(arguments: argparse.Namespace) -> int:
    target = find_target(arguments.root)
    assert target.output is not None
    text = difference(target.output, kept.generated_files(target, has_debug(target)))
    if text:
        print(text)
        print("generated/ is not what the YAML files give: run `gradloom generate`", file=sys.stderr)
        return 1
    unproved = certificates.stale(target)
    if unproved:
        shown = ", ".join(unproved[:8]) + (f" and {len(unproved) - 8} more" if len(unproved) > 8 else "")
        print(
            f"generated/{certificates.FILE} is not what a proof of the formulas of {shown} follows from: run "
            "`gradloom prove --write`, for which SymPy is needed",
            file=sys.stderr,
        )
        return 1
    print("generated/ is up to date")
    return 0
