"""Compare two releases, run what can be run, and list what gradloom lacks of the second."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from gradloom.tools.verify.findings import said
from gradloom.tools.verify.operators import Operator

from .comparing import CHANGED, DERIVATIVE, ENTRY, EQUAL, LOST, NAME, UNMEASURED, Change, compare
from .finding import Release
from .libraries import Gradloom, Library, Torch
from .measuring import Measured, measure, operators
from .ours import NODE, SAVED, VALUES, Gap, gaps, missing_names

Progress = Callable[[str], None]


@dataclass
class Move:
    """The differences of two releases, and of gradloom from the second.

    Attributes:
        old, new: the releases.
        changes: the differences of the releases.
        gaps: what gradloom lacks of the second or has otherwise; None if it was not compared.
        measured: number of operators that were run in both releases.
        against: number of operators that were run in the second release and gradloom.
    """

    old: Release
    new: Release
    changes: list[Change]
    gaps: list[Gap] | None = None
    measured: int = 0
    against: int = 0

    @property
    def missing(self) -> list[Gap]:
        """What gradloom lacks without a reason."""
        return [gap for gap in self.gaps or () if not gap.reason]


@dataclass
class Options:
    """What to compare.

    Attributes:
        names: operators or public names, or the part before the first `.`; empty for all.
        every: run all operators, not only those whose formulas changed.
        against: list what gradloom lacks, too.
    """

    names: frozenset[str] = field(default_factory=frozenset)
    every: bool = False
    against: bool = False

    def takes(self, name: str) -> bool:
        return not self.names or name in self.names or name.partition(".")[0] in self.names


def move(old: Release, new: Release, options: Options, progress: Progress) -> Move:
    """Compare two releases."""
    changes = [c for c in compare(old.facts, new.facts) if options.takes(c.name)]
    found = Move(old, new, changes)
    both = old.python is not None and new.python is not None and old.python != new.python
    if options.against:
        progress("reading gradloom's own entries")
        found.gaps = [gap for gap in gaps(new.facts) if options.takes(gap.name)]
        found.gaps += missing_names([c for c in changes if c.kind == NAME])
    if both:
        with _libraries(Torch(old.python), Torch(new.python)) as (first, second):  # type: ignore[arg-type]
            known = operators()  # while these start
            for name, seen in _run(_chosen(found, options, known), first, second, progress):
                found.measured += 1
                _note(found, name, seen)
    if options.against and new.python is not None:
        with _libraries(Torch(new.python), Gradloom()) as (first, second):
            known = operators()
            for name, seen in _run(_chosen(found, options, known), first, second, progress):
                found.against += 1
                found.gaps += _of_running(name, seen)  # type: ignore[operator]
    return found


@contextmanager
def _libraries(*libraries: Library) -> Iterator[tuple[Library, ...]]:
    try:
        yield libraries
    finally:
        for library in libraries:
            library.close()


def _chosen(found: Move, options: Options, known: dict[str, Operator]) -> list[Operator]:
    shared = known.keys() & found.old.facts.schemas.keys() & found.new.facts.schemas.keys()
    changed = {c.name for c in found.changes if c.kind == ENTRY and c.change == CHANGED}
    if options.every or options.names:
        changed |= {n for n in shared if options.takes(n)}
    return [known[name] for name in sorted(changed & known.keys())]


def _run(chosen: list[Operator], first: Library, second: Library, progress: Progress) -> Iterator[tuple[str, Measured]]:
    for number, operator in enumerate(chosen):
        progress(f"running {first.name} and {second.name}: {number}/{len(chosen)}, {operator.name}")
        try:
            yield operator.name, measure(operator, first, second)
        except Exception as error:  # of a sampler: the other operators are run
            yield operator.name, Measured(UNMEASURED, said(error))


def _note(found: Move, name: str, seen: Measured) -> None:
    """Write what running showed to the change of an entry."""
    change = next((c for c in found.changes if c.kind == ENTRY and c.name == name and c.change == CHANGED), None)
    if change is None:
        if seen.meaning not in (EQUAL, UNMEASURED):
            words = "the same formulas: what they call changed"
            found.changes.append(Change(ENTRY, CHANGED, name, {}, {}, seen.meaning, seen.shown, words))
        return
    change.shown = seen.shown
    if change.meaning not in (DERIVATIVE, LOST) and seen.meaning != UNMEASURED:
        change.meaning = seen.meaning


def _of_running(name: str, seen: Measured) -> Iterator[Gap]:
    if seen.meaning not in (EQUAL, UNMEASURED):
        yield Gap(VALUES, name, seen.shown, seen.meaning, seen.excused)
    if seen.nodes[0] != seen.nodes[1]:
        yield Gap(NODE, name, *seen.nodes)
    saved: Any = [" ".join(fields) for fields in seen.saved]
    if saved[0] != saved[1]:
        yield Gap(SAVED, name, *saved)
