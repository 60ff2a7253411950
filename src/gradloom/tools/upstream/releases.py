"""The facts of known releases, kept as the changes from each release to the next.

`rules.xz` has schemas, kinds of kernels and formulas, and is part of the wheel; `docs/assets/pytorch-names.xz` has
public names, and is in a checkout only. Each is JSON: a list of [version, {section: {name: facts, or null for what is
gone}}].
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from .facts import Facts

RULES = Path(__file__).with_name("rules.xz")
NAMES = Path(__file__).parents[4] / "docs" / "assets" / "pytorch-names.xz"
SECTIONS = {RULES: ("schemas", "kernels", "derivatives"), NAMES: ("names",)}
_FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME}]


def order(version: str) -> tuple[int, ...]:
    """Return a version as numbers, to sort by."""
    return tuple(int(part) for part in version.split(".") if part.isdigit())


@cache
def _changes(path: Path) -> list[tuple[str, dict[str, dict[str, Any]]]]:
    return [(version, sections) for version, sections in json.loads(lzma.decompress(path.read_bytes()))]


def versions() -> list[str]:
    """Return the versions of known releases, from the oldest."""
    return [version for version, _ in _changes(RULES)]


def kept(version: str) -> Facts | None:
    """Return the facts of a known release; None if it is not known. `2.15` is `2.15.0`."""
    version += ".0" * (2 - version.count("."))
    if version not in versions():
        return None
    facts = Facts(version, where="kept facts")
    for path, sections in SECTIONS.items():
        for known, changes in _changes(path) if path.exists() else ():
            if order(known) <= order(version):
                for section in sections:
                    _apply(getattr(facts, section), changes[section])
    return facts


def _apply(facts: dict[str, Any], changes: dict[str, Any]) -> None:
    facts.update(changes)
    for name in [name for name, value in changes.items() if value is None]:
        del facts[name]


def keep(new: Iterable[Facts]) -> None:
    """Add releases to the known ones, or replace their facts."""
    found = {version: kept(version) for version in (versions() if RULES.exists() else ())}
    found |= {facts.version: facts for facts in new}
    for path, sections in SECTIONS.items():
        former: dict[str, dict[str, Any]] = {section: {} for section in sections}
        changes = []
        for version in sorted(found, key=order):
            now = {section: getattr(found[version], section) for section in sections}
            changes.append([version, {s: _changed(former[s], now[s]) for s in sections}])
            former = now
        text = json.dumps(changes, separators=(",", ":"), sort_keys=True)
        path.write_bytes(lzma.compress(text.encode(), filters=_FILTERS))
    _changes.cache_clear()


def _changed(former: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    changed = {name: value for name, value in now.items() if former.get(name) != value}
    return changed | dict.fromkeys(former.keys() - now.keys())
