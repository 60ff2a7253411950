"""Patterns of names of modules and files, and trees of files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

GlobPattern = str | Iterable[str]


class GlobGroup:
    """A set of names given by patterns, less those of other patterns.

    `*` stands for any characters within a part of a name, `**` as a whole part for any number of parts: "a.**" matches
    a, a.b and a.b.c.

    Args:
        include: a pattern or several, one of which must match.
        exclude: a pattern or several, none of which may match.
        separator: what stands between the parts of a name.

    Raises:
        ValueError: for `**` within a part.
    """

    def __init__(self, include: GlobPattern, *, exclude: GlobPattern = (), separator: str = ".") -> None:
        self._shown = f"GlobGroup(include={include}, exclude={exclude})"
        self.separator = separator
        self.include = self._compiled(include)
        self.exclude = self._compiled(exclude)

    def __repr__(self) -> str:
        return self._shown

    def matches(self, candidate: str) -> bool:
        """Return whether a name is in the set."""
        name = self.separator + candidate
        return any(p.fullmatch(name) for p in self.include) and not any(p.fullmatch(name) for p in self.exclude)

    def _compiled(self, patterns: GlobPattern) -> list[re.Pattern[str]]:
        texts = [patterns] if isinstance(patterns, str) else list(patterns)
        return [re.compile("".join(map(self._part, text.split(self.separator)))) for text in texts]

    def _part(self, part: str) -> str:
        before = re.escape(self.separator)
        inside = f"[^{before}]"
        if part == "**":
            return f"(?:{before}{inside}+)*"
        if "**" in part:
            raise ValueError("** can only appear as an entire path segment")
        return before + f"{inside}*".join(map(re.escape, part.split("*")))


class Directory:
    """A file or folder of a package; as a string, the tree below it.

    Attributes:
        name: its name, without those of the folders around it.
        is_dir: whether it is a folder.
        children: {name: Directory} of what a folder holds.
    """

    def __init__(self, name: str, is_dir: bool) -> None:
        self.name, self.is_dir = name, is_dir
        self.children: dict[str, Directory] = {}

    def has_file(self, filename: str) -> bool:
        """Return whether there is a file or folder of this path, such as "models/net.py"."""
        found: Any = self
        for part in filename.split("/"):
            found = found.children.get(part)
            if found is None:
                return False
        return True

    def _add(self, path: str) -> None:
        *folders, name = path.split("/")
        place = self
        for folder in folders:
            place = place.children.setdefault(folder, Directory(folder, True))
        place.children[name] = Directory(name, False)

    def _lines(self, indent: str) -> Iterator[str]:
        ordered = sorted(self.children.values(), key=lambda child: (not child.is_dir, child.name))
        for child in ordered:
            is_last = child is ordered[-1]
            yield f"{indent}{'└' if is_last else '├'}── {child.name}\n"
            yield from child._lines(indent + ("    " if is_last else "│   "))

    def __str__(self) -> str:
        return f"─── {self.name}\n" + "".join(self._lines("    "))
