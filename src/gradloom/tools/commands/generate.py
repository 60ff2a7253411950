"""`gradloom generate`: write what changed; with --watch, again whenever a source is saved.

Watching compares the times and sizes of files a few times a second, which needs no package and works on every file
system. It waits until a burst of writes, such as by an editor or a checkout, has ended.

Note [Watched files]
The sources of the target are read anew every time. Modules that this process has loaded are not: the generator's own,
and for a package the gradloom that it builds on. Once one of these is saved, every generation runs in a new process,
which loads their current state and may fail without ending the watch.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from gradloom.codegen.errors import SpecError, UsageError
from gradloom.codegen.operators.entries import RULE_FOLDERS
from gradloom.codegen.operators.keys import SOURCE_FOLDERS
from gradloom.codegen.outputs import render
from gradloom.codegen.outputs.render import has_debug
from gradloom.codegen.target import FILES, GENERATOR, PROJECT, Target, find_target, own
from gradloom.codegen.writing.folder import exclusive, write

from .. import kept


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--debug",
        action="store_true",
        help="also write generated/debug/: the same operators with assertions about memory, versions and gradients, "
        "which GRADLOOM_DEBUG=1 imports; as long as the folder exists, it is kept up to date",
    )
    parser.add_argument(
        "--watch",
        action="store_true",
        help="go on, and generate again whenever a file is saved that the code depends on: YAML, "
        "kernels, formulas, composites, templates, the generator; end with Ctrl-C",
    )
    parser.add_argument(
        "--afresh",
        action="store_true",
        help="use and keep no results of other runs, which are kept in the user's cache folder; the files are the same",
    )


def run(arguments: argparse.Namespace) -> int:
    if arguments.watch:
        again = partial(generate, afresh=arguments.afresh)
        return watch(lambda: find_target(arguments.root), again, lambda: _generate_in_process(arguments))
    generate(find_target(arguments.root), arguments.debug, arguments.afresh)
    return 0


def generate(target: Target, debug: bool = False, afresh: bool = False) -> None:
    """Write the generated files of a target and report how many changed; `afresh`, without results of other runs."""
    assert target.output is not None
    start = time.perf_counter()
    with exclusive(target.output):
        generated_files = render.generated_files if afresh else kept.generated_files
        files = generated_files(target, debug or has_debug(target))
        changed = write(target.output, files)
    print(f"generated {len(files)} files in {time.perf_counter() - start:.1f} s, {len(changed)} changed", flush=True)


def _generate_in_process(arguments: argparse.Namespace) -> None:
    """Generate in a new process, which loads the generator's current code."""
    given = [] if arguments.root is None else ["--root", str(arguments.root)]
    given += ["--afresh"] * arguments.afresh
    subprocess.run([sys.executable, "-m", "gradloom", "generate", *given])


INTERVAL = 0.2  # seconds between two looks; files must be unchanged for that long before they are read

Stamps = dict[Path, tuple[int, int]]


def watch(
    find: Callable[[], Target],
    generate: Callable[[Target], None],
    afresh: Callable[[], None],
    interval: float = INTERVAL,
) -> int:
    """Generate now and after every change of the sources, in this process or `afresh` in a new one, until Ctrl-C;
    return the exit code. An error in a source is printed, and the next save tried."""
    try:
        target = find()
        loaded = _stamps(generator_files(target))
        stamps = sources(target) | loaded
        attempt(generate, target)
        print(f"watching {target.specification}; Ctrl-C ends it", flush=True)
        while True:
            time.sleep(interval)
            stamps, before = _all(target), stamps
            if stamps == before:
                continue
            while (later := _after(target, interval)) != stamps:
                stamps = later
            print(f"{', '.join(_changed(before, stamps))} changed", flush=True)
            if _stamps(generator_files(target)) == loaded:
                attempt(generate, target)
                continue
            attempt(afresh)
            target, known = _found(find, target), target
            if target != known:
                stamps = _all(target)
    except KeyboardInterrupt:
        print()
        return 0


def attempt(generate: Callable[..., None], *arguments: Target) -> None:
    """Generate; print errors instead of raising them."""
    try:
        generate(*arguments)
    except (SpecError, UsageError) as error:
        print(f"{error}\n", file=sys.stderr, flush=True)
    except OSError as error:
        print(f"gradloom: {error.filename or ''}: {error.strerror}", file=sys.stderr, flush=True)


def sources(target: Target) -> Stamps:
    """Return the time and size of every file of the target that its generated code depends on."""
    assert target.source is not None
    paths = [target.path(name) for name in FILES] + _source_files(target.source)
    if target.is_own:
        paths += target.source.glob("*.py")  # the stubs omit names that these files declare by hand
    return _stamps(paths)


def generator_files(target: Target) -> list[Path]:
    """Return the files that generation depends on and that a process reads once."""
    paths = [p for kind in ("*.py", "*.yaml", "*.jinja") for p in GENERATOR.rglob(kind)]
    if not target.is_own:
        assert target.source is not None
        below = own()
        assert below.source is not None
        paths += [below.path(name) for name in FILES] + _source_files(below.source)
        paths += [folder / PROJECT for folder in target.source.parents if (folder / PROJECT).is_file()][:1]
    return paths


def _source_files(folder: Path) -> list[Path]:
    return [path for name in (*SOURCE_FOLDERS, *RULE_FOLDERS) for path in (folder / name).rglob("*.py")]


def _stamps(paths: Iterable[Path]) -> Stamps:
    found = {}
    for path in paths:
        try:
            status = path.stat()
        except OSError:  # removed or being replaced: counts as a change
            continue
        found[path] = status.st_mtime_ns, status.st_size
    return found


def _all(target: Target) -> Stamps:
    return sources(target) | _stamps(generator_files(target))


def _after(target: Target, interval: float) -> Stamps:
    time.sleep(interval)
    return _all(target)


def _found(find: Callable[[], Target], target: Target) -> Target:
    """Return the current target; the old one while its project file is wrong, which `generate` reports."""
    try:
        return find()
    except UsageError:
        return target


def _changed(before: Stamps, after: Stamps) -> list[str]:
    return sorted({path.name for path in before.keys() | after.keys() if before.get(path) != after.get(path)})
