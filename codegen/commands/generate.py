"""`gradloom generate`: write what changed."""

from __future__ import annotations

import argparse
import time

from ..checkout import add_root, find_root, rendered
from ..write import write

configure = add_root


def run(arguments: argparse.Namespace) -> int:
    root = find_root(arguments.root)
    start = time.perf_counter()
    files = rendered(root)
    changed = write(root / "generated", files)
    print(f"generated {len(files)} files in {time.perf_counter() - start:.1f} s, {len(changed)} changed")
    return 0
