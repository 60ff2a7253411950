"""The exceptions for errors in YAML files and on the command line, and the hints in them.

derivatives.yaml:12:9: error: unknown name `exponant`
  self: grad * exponant
               ^~~~~~~~
hint: did you mean `exponent`?
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from gradloom.schema import shorten as shorten

_MARGIN = 60
_WIDTH = 150
MAX_ERRORS = 50  # of one run; nobody reads more, and finding hints takes time


def printable(text: str) -> str:
    """Replace characters that a terminal would interpret, or that UTF-8 cannot encode."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


class SpecError(Exception):
    """An error in a specification file, with its position.

    path         the file's path, as shown to the user
    line, col    counted from 1
    source_line  the text of that line, '' if the file could not be read
    message      the description of the error, with the offending word
    hint         the correction, '' if there is none
    length       the number of characters of the offending word
    """

    def __init__(
        self, path: str, line: int, col: int, source_line: str, message: str, hint: str = "", length: int = 1
    ) -> None:
        super().__init__(message)
        self.path, self.line, self.col, self.source_line = str(path), line, col, source_line
        self.message, self.hint, self.length = printable(message), printable(hint), length

    @property
    def errors(self) -> tuple[SpecError, ...]:
        """All errors that were found; one, unless this is a SpecErrors."""
        return (self,)

    def _excerpt(self) -> list[str]:
        """Return the source line with carets below the word; of a very long line, the part around the word."""
        text = "".join(c if c.isprintable() else " " if c in "\t\r\n" else "\N{REPLACEMENT CHARACTER}"
                       for c in self.source_line)  # fmt: skip
        start = self.col - 1
        if len(text) > _WIDTH:
            cut = max(0, min(start - _MARGIN, len(text) - _WIDTH))
            before, after = ("..." if cut else ""), ("..." if cut + _WIDTH < len(text) else "")
            text = before + text[cut : cut + _WIDTH] + after
            start = start - cut + len(before)
        length = max(1, min(self.length, len(text) - start))
        return [text, " " * start + "^" + "~" * (length - 1)]

    def __str__(self) -> str:
        lines = [f"{self.path}:{self.line}:{self.col}: error: {self.message}"]
        if self.source_line.strip():
            lines += self._excerpt()
        if self.hint:
            lines.append(f"hint: {self.hint}")
        return "\n".join(lines)


class SpecErrors(SpecError):
    """Several errors, in the order of the files; its position is that of the first."""

    def __init__(self, errors: Iterable[SpecError]) -> None:
        found = [e for group in errors for e in group.errors]
        self._errors = tuple(sorted(found, key=lambda e: (e.path, e.line, e.col)))
        first = self._errors[0]
        super().__init__(first.path, first.line, first.col, first.source_line, first.message, first.hint, first.length)

    @property
    def errors(self) -> tuple[SpecError, ...]:
        return self._errors

    def __str__(self) -> str:
        shown = "\n\n".join(map(str, self._errors[:MAX_ERRORS]))
        return f"{shown}\n\nthere may be more errors" if len(self._errors) >= MAX_ERRORS else shown


def raise_all(errors: Iterable[SpecError]) -> None:
    """Raise the collected errors, if there are any."""
    found = [e for group in errors for e in group.errors]
    if len(found) == 1:
        raise found[0]
    if found:
        raise SpecErrors(found)


def did_you_mean(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return a hint with the closest known word, or '' if none is as close as `cutoff` (1 means equal)."""
    names = list(known)
    close = [name for name in names if name.lower() == word.lower()] or get_close_matches(word, names, 1, cutoff)
    return f"did you mean `{close[0]}`?" if close else ""


class UsageError(Exception):
    """An error that the user of the command line can correct."""
