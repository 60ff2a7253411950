"""`gradloom check`: compare without writing."""

from __future__ import annotations

import argparse
import sys

from ..checkout import add_root, find_root, rendered
from ..write import difference

configure = add_root


def run(arguments: argparse.Namespace) -> int:
    root = find_root(arguments.root)
    text = difference(root / "generated", rendered(root))
    if not text:
        print("generated/ is up to date")
        return 0
    print(text)
    print("generated/ is not what the YAML files give: run `gradloom generate`", file=sys.stderr)
    return 1
