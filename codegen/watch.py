"""Generates again whenever a source is saved: `gradloom generate --watch`.

Files are looked at a few times a second, by their times and sizes; that needs no package and works on every file
system. A burst of writes, as an editor or a checkout makes it, is waited out.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

from .errors import SpecError
from .families import ROOMS
from .target import FILES, Target, UsageError

INTERVAL = 0.2  # seconds between two looks, and how long the files must stay as they are before they are read

Stamps = dict[Path, tuple[int, int]]


def watch(target: Target, generate: Callable[[], None], interval: float = INTERVAL) -> int:
    """Call `generate` now and after every change of the sources, until Ctrl-C.

    An error in a source is printed, and the next save tried. Returns the exit code.
    """
    try:
        stamps = sources(target)
        attempt(generate)
        print(f"watching {target.specification}; Ctrl-C ends it", flush=True)
        while True:
            time.sleep(interval)
            stamps, before = sources(target), stamps
            if stamps == before:
                continue
            while (later := _after(target, interval)) != stamps:
                stamps = later
            print(f"{', '.join(_changed(before, stamps))} changed", flush=True)
            attempt(generate)
    except KeyboardInterrupt:
        print()
        return 0


def attempt(generate: Callable[[], None]) -> None:
    """Generate; what is wrong is printed instead of raised."""
    try:
        generate()
    except (SpecError, UsageError) as error:
        print(f"{error}\n", file=sys.stderr, flush=True)
    except OSError as error:
        print(f"gradloom: {error.filename or ''}: {error.strerror}", file=sys.stderr, flush=True)


def sources(target: Target) -> Stamps:
    """The time and size of every file that the generated code depends on."""
    assert target.source is not None
    paths = [target.path(name) for name in FILES]
    paths += [path for room in ROOMS for path in (target.source / room).glob("*.py")]
    if target.is_own:
        paths += (Path(__file__).parent / "templates").glob("*.jinja")
    found = {}
    for path in paths:
        try:
            status = path.stat()
        except OSError:  # gone, or being replaced: that is a change, too
            continue
        found[path] = status.st_mtime_ns, status.st_size
    return found


def _after(target: Target, interval: float) -> Stamps:
    time.sleep(interval)
    return sources(target)


def _changed(before: Stamps, after: Stamps) -> list[str]:
    return sorted({path.name for path in before.keys() | after.keys() if before.get(path) != after.get(path)})
