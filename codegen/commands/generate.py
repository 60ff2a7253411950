"""`gradloom generate`: write what changed; with --watch, again whenever a source is saved."""

from __future__ import annotations

import argparse
import time

from ..checkout import add_root, find_target, rendered
from ..target import Target
from ..write import exclusive, write


def configure(parser: argparse.ArgumentParser) -> None:
    add_root(parser)
    parser.add_argument("--watch", action="store_true",
                        help="go on, and generate again whenever a YAML file, kernel, formula or composite is saved; "
                             "end with Ctrl-C")


def run(arguments: argparse.Namespace) -> int:
    target = find_target(arguments.root)
    if arguments.watch:
        from ..watch import watch

        return watch(target, lambda: generate(target))
    generate(target)
    return 0


def generate(target: Target) -> None:
    """Write the generated files of a target and say what that came to."""
    assert target.output is not None
    start = time.perf_counter()
    with exclusive(target.output):
        files = rendered(target)
        changed = write(target.output, files)
    print(f"generated {len(files)} files in {time.perf_counter() - start:.1f} s, {len(changed)} changed", flush=True)
