"""`gradloom generate`: write what changed; with --watch, again whenever a source is saved."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from ..checkout import add_root, find_target, rendered
from ..target import Target
from ..write import exclusive, write


def configure(parser: argparse.ArgumentParser) -> None:
    add_root(parser)
    parser.add_argument(
        "--watch",
        action="store_true",
        help="go on, and generate again whenever a file is saved that the code depends on: YAML, "
        "kernels, formulas, composites, templates, the generator; end with Ctrl-C",
    )


def run(arguments: argparse.Namespace) -> int:
    if arguments.watch:
        from ..watch import watch

        return watch(lambda: find_target(arguments.root), generate, lambda: _generate_afresh(arguments.root))
    generate(find_target(arguments.root))
    return 0


def generate(target: Target) -> None:
    """Write the generated files of a target and say what that came to."""
    assert target.output is not None
    start = time.perf_counter()
    with exclusive(target.output):
        files = rendered(target)
        changed = write(target.output, files)
    print(f"generated {len(files)} files in {time.perf_counter() - start:.1f} s, {len(changed)} changed", flush=True)


def _generate_afresh(root: Path | None) -> None:
    """Generate in a new process, which loads the generator as it is now."""
    given = [] if root is None else ["--root", str(root)]
    subprocess.run([sys.executable, "-m", __package__.partition(".commands")[0], "generate", *given])
