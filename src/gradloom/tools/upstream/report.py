"""What is printed, and JSON."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from collections.abc import Iterator
from typing import Any

from .comparing import CHANGED, ENTRY, GONE, MEANINGS, NAME, NEW, SCHEMA, Change
from .moving import Move

_KINDS = {ENTRY: "derivatives", SCHEMA: "schemas", NAME: "public names"}


def text(move: Move) -> str:
    """Return the report."""
    old, new = move.old.version, move.new.version
    lines = [f"PyTorch {old} -> {new}"]
    for kind, title in _KINDS.items():
        lines += _of_kind(move, kind, title)
    if move.gaps is not None:
        lines += ["", *_gaps(move)]
    lines += ["", summary(move)]
    return "\n".join(lines)


def _of_kind(move: Move, kind: str, title: str) -> Iterator[str]:
    found = [c for c in move.changes if c.kind == kind]
    sections = {ENTRY: "derivatives", SCHEMA: "schemas", NAME: "names"}
    for release in (move.old, move.new):
        if not getattr(release.facts, sections[kind]):
            yield f"\n{title}: those of {release.version} are not known"
            return
    yield f"\n{title}: {_counts(found)}"
    for change in (NEW, GONE):
        for c in (c for c in found if c.change == change):
            if kind == ENTRY:
                formulas: dict[str, str] = c.new or c.old
                yield f"  {change:4} {c.name}"
                yield from (f"         {keys}: {formula}" for keys, formula in formulas.items())
            else:
                given = c.new if change == NEW else c.old
                yield f"  {change:4} {c.name}{given if kind == SCHEMA else f'({given})' if given else ''}"
    changed = [c for c in found if c.change == CHANGED]
    if kind != ENTRY:
        for c in changed:
            yield f"  {c.name}: {c.words}"
            if kind == SCHEMA:
                yield from (f"    {v:7} {given}" for v, given in ((move.old.version, c.old), (move.new.version, c.new)))
        return
    for meaning in MEANINGS:
        group = [c for c in changed if c.meaning == meaning]
        if group:
            yield f"\n  {meaning} ({len(group)})"
        for c in group:
            yield from _formulas(c, move)


def _formulas(change: Change, move: Move) -> Iterator[str]:
    yield f"    {change.name}" + (f" ({change.words})" if change.words else "")
    for keys in dict.fromkeys((*change.old, *change.new)):
        yield f"      {keys}"
        for version, side in ((move.old.version, change.old), (move.new.version, change.new)):
            yield f"        {version:7} {side.get(keys, '(none)')}"
    if change.shown:
        yield from textwrap.wrap(f"-> {change.shown}", 116, initial_indent="      ", subsequent_indent="         ")


def _counts(found: list[Change]) -> str:
    counts = Counter(c.change for c in found)
    return ", ".join(f"{counts[change]} {change}" for change in (NEW, GONE, CHANGED))


def _gaps(move: Move) -> Iterator[str]:
    gaps, missing = move.gaps or [], move.missing
    reasoned = len(gaps) - len(missing)
    yield f"gradloom against {move.new.version}: {len(missing)} missing or different, {reasoned} for a reason"
    for what in dict.fromkeys(g.what for g in gaps):
        group = [g for g in missing if g.what == what]
        if group:
            yield f"\n  {what} ({len(group)})"
        for gap in group:
            yield f"    {gap.name}"
            yield from (
                f"      {side:8} {said}" for side, said in (("PyTorch", gap.theirs), ("gradloom", gap.ours)) if said
            )
        reasons = Counter(g.reason for g in gaps if g.what == what and g.reason)
        for reason, count in reasons.most_common():
            names = ", ".join(g.name for g in gaps if g.what == what and g.reason == reason)
            yield textwrap.shorten(f"    {count} absent, {reason}: {names}", 400, placeholder=" ...")


def summary(move: Move) -> str:
    """Return the last line."""
    parts = [f"{title}: {_counts([c for c in move.changes if c.kind == kind])}" for kind, title in _KINDS.items()]
    ran = f"; {move.measured} operators run in both" if move.measured else ""
    against = f"; {len(move.missing)} missing or different in gradloom" if move.gaps is not None else ""
    return "; ".join(parts) + ran + against


def as_dict(move: Move) -> dict[str, Any]:
    """Return everything, to be written as JSON."""
    found: dict[str, Any] = {
        "old": move.old.version,
        "new": move.new.version,
        "measured": move.measured,
        "changes": [c.as_dict() for c in move.changes],
    }
    if move.gaps is not None:
        found |= {"against": move.against, "gaps": [gap.as_dict() for gap in move.gaps]}
    return found


def as_json(move: Move) -> str:
    return json.dumps(as_dict(move), indent=1)
