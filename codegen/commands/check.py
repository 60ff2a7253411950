"""`gradloom check`: compare without writing."""

from __future__ import annotations

import argparse
import sys

from ..outputs.render import generated_files, has_debug
from ..target import find_target
from ..writing.folder import difference


def run(arguments: argparse.Namespace) -> int:
    target = find_target(arguments.root)
    assert target.output is not None
    text = difference(target.output, generated_files(target, has_debug(target)))
    if not text:
        print("generated/ is up to date")
        return 0
    print(text)
    print("generated/ is not what the YAML files give: run `gradloom generate`", file=sys.stderr)
    return 1
