"""`gradloom check`: compare without writing."""

from __future__ import annotations

import argparse
import sys

from gradloom.codegen.outputs.render import has_debug
from gradloom.codegen.target import find_target
from gradloom.codegen.writing.folder import difference

from .. import kept


def run(arguments: argparse.Namespace) -> int:
    target = find_target(arguments.root)
    assert target.output is not None
    text = difference(target.output, kept.generated_files(target, has_debug(target)))
    if not text:
        print("generated/ is up to date")
        return 0
    print(text)
    print("generated/ is not what the YAML files give: run `gradloom generate`", file=sys.stderr)
    return 1
