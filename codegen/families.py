"""Which family an operator belongs to: the file in generated/ that it goes to.

The first of these that says something decides: `family:` in the entry, the one family whose kernels or
composite it names, the banner above it (a comment line `# == reduction ==`), and else elementwise. So a
banner is a help for readers that also files what it heads, and an entry without one, appended to the end, is
as good as any.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from pathlib import Path

from .kernel_expr import KernelExpr
from .kernel_index import families_in
from .native_keys import word_of
from .schema import did_you_mean
from .text import Entry, Source

DEFAULT_FAMILY = "elementwise"
ROOMS = ("kernels", "composite", "formulas")

_BANNER = re.compile(r"^# == (\w+) ==$", re.MULTILINE)


class Families:
    """The families of a package and, for entries of one file, the family of each."""

    def __init__(self, package: Path | None, source: Source, default: str = DEFAULT_FAMILY) -> None:
        rooms = () if package is None else (package / room for room in ROOMS)
        self.known = frozenset(family for room in rooms for family in families_in(room))
        banners = [m for m in _BANNER.finditer(source.text) if m[1] in self.known]
        self._default = default
        self._starts = [m.start() for m in banners]
        self._names = [m[1] for m in banners]

    def of(self, entry: Entry, kernel: KernelExpr | None, composite: str | None) -> str:
        """The family of an entry. Raises SpecError for an unknown word in `family:`."""
        told = word_of(entry, "family")
        if told is not None:
            if told not in self.known:
                hint = did_you_mean(told, sorted(self.known)) or f"known are {', '.join(sorted(self.known))}"
                raise entry.fields["family"].error(f"unknown family `{told}`", hint)
            return told
        if composite is not None:
            return composite.split(".")[0]
        if kernel is not None and len(kernel.families) == 1:
            return kernel.families[0]
        above = bisect_left(self._starts, entry.start) - 1
        return self._names[above] if above >= 0 else self._default
