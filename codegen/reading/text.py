"""Values of a YAML file, with their places in it.

A `Source` is a file's text. A `Text` is a scalar in it; an offset inside its value maps back to the file's line and
column whatever the style of the scalar (plain or quoted over several lines, `|`, `>`), so that an error in the third
line of a folded formula is reported there. `TextList` and `TextMap` are a YAML list and mapping.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

from ..errors import SpecError

_ESCAPE_DIGITS = {"x": 2, "u": 4, "U": 8}
_WHITE = frozenset(" \t\n\r\x85\xa0")
_WHITE_ESCAPES = frozenset("nrtNL P_\t\n")


class Source:
    """The text of a file, with its line ends as `\\n`."""

    __slots__ = ("path", "text", "_starts")

    def __init__(self, path: str, text: str) -> None:
        self.path, self.text = path, text
        self._starts = [0]
        for line in text.split("\n")[:-1]:
            self._starts.append(self._starts[-1] + len(line) + 1)

    def index(self, line: int, column: int) -> int:
        """Return the index in the text of a line and column that count from 0, as YAML's marks do."""
        return self._starts[min(line, len(self._starts) - 1)] + column

    def line_col(self, index: int) -> tuple[int, int]:
        """Line and column, from 1, of an index."""
        line = bisect_right(self._starts, index)
        return line, index - self._starts[line - 1] + 1

    def line(self, number: int) -> str:
        """Return the text of line `number`, counted from 1."""
        start = self._starts[number - 1]
        end = self.text.find("\n", start)
        return self.text[start : end if end >= 0 else len(self.text)]

    def error(self, index: int, message: str, hint: str, length: int = 1) -> SpecError:
        """Return an error at an index of the text. Past the last line it is placed at the end of that line."""
        index = min(index, len(self.text))
        if index == len(self.text) and self.text.endswith("\n"):
            index = len(self.text.rstrip())
        line, col = self.line_col(index)
        return SpecError(self.path, line, col, self.line(line), message, hint, length)


@dataclass(frozen=True, slots=True)
class Text:
    """A scalar: its value and its place in the source. `style` is None (plain) or one of `' " | >`."""

    value: str
    source: Source = field(repr=False, compare=False)
    start: int = field(default=0, compare=False)
    end: int = field(default=0, compare=False)
    style: str | None = field(default=None, compare=False)

    @property
    def path(self) -> str:
        return self.source.path

    @property
    def line(self) -> int:
        """The line of the first character of the value, counted from 1."""
        return self.position(0)[0]

    @property
    def col(self) -> int:
        """The column of the first character of the value, counted from 1."""
        return self.position(0)[1]

    def index(self, offset: int) -> int:
        """Return the index in the source of the character at `offset` in the value."""
        return self._index(offset, *self._places())

    def _places(self) -> tuple[list[int], list[int]]:
        """Return the offsets of the value's characters that are not white space, and their indices in the source."""
        return [i for i, char in enumerate(self.value) if char not in _WHITE], list(self._solid_places())

    def _index(self, offset: int, solid: list[int], places: list[int]) -> int:
        if len(solid) != len(places) or not solid:
            return self.start
        # White space is what YAML folds, so an offset in it counts from the last character before it.
        k = bisect_right(solid, offset) - 1
        return places[0] if k < 0 else places[k] + min(offset - solid[k], 1)

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column in the file, from 1, of the character at `offset` in the value."""
        return self.source.line_col(self.index(offset))

    def error(self, message: str, hint: str, offset: int = 0, length: int | None = None) -> SpecError:
        """Return an error about `length` characters of the value from `offset` on (by default all of it)."""
        if length is None:
            length = len(self.value) - offset
        start = self.index(offset)
        line_end = self.source.text.find("\n", start)
        line_end = line_end if line_end >= 0 else len(self.source.text)
        # A word that continues on the next line is marked up to the end of the first.
        end = self.index(offset + length - 1) + 1 if length > 1 else start + 1
        return self.source.error(start, message, hint, max(1, min(end, line_end) - start))

    def word(self, offset: int, length: int) -> Text:
        """Return a part of the value as a Text of its own; a plain style keeps its place."""
        return self._word(offset, length, *self._places())

    def _word(self, offset: int, length: int, solid: list[int], places: list[int]) -> Text:
        start = self._index(offset, solid, places)
        end = self._index(offset + max(0, length - 1), solid, places) + 1
        return Text(self.value[offset : offset + length], self.source, start, end)

    def words(self, separator: str = ",") -> list[Text]:
        """Split the value at a separator; white space around the parts goes, empty parts stay."""
        parts, offset = [], 0
        solid, places = self._places()
        for piece in self.value.split(separator):
            lead = len(piece) - len(piece.lstrip())
            # An empty part is marked at the separator after it; the last one at the separator before it.
            is_last = offset + len(piece) == len(self.value)
            start = max(offset - len(separator), 0) if is_last and not piece.strip() else offset + lead
            parts.append(self._word(start, len(piece.strip()), solid, places))
            offset += len(piece) + len(separator)
        return parts

    def _solid_places(self) -> Iterator[int]:
        """Return the indices in the source of the value's characters that are not white space. Folding, indentation and
        chomping change white space only, so these suffice to place every word."""
        text, i, end = self.source.text, self.start, self.end
        if self.style in ("|", ">"):
            i = text.find("\n", i, end)
            if i < 0:
                return
        elif self.style in ("'", '"'):
            i, end = i + 1, end - 1
        while i < end:
            char = text[i]
            if char == "'" and self.style == "'":
                yield i
                i += 2
            elif char == "\\" and self.style == '"':
                kind = text[i + 1]
                digits = _ESCAPE_DIGITS.get(kind, 0)
                white = kind in _WHITE_ESCAPES or (digits and chr(int(text[i + 2 : i + 2 + digits], 16)) in _WHITE)
                if not white:
                    yield i
                i += 2 + digits
            else:
                if char not in _WHITE:
                    yield i
                i += 1

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class TextList:
    """A YAML list."""

    items: tuple[Node, ...]
    source: Source = field(repr=False, compare=False)
    start: int = field(default=0, compare=False)
    end: int = field(default=0, compare=False)

    def error(self, message: str, hint: str) -> SpecError:
        return self.source.error(self.start, message, hint, _marked(self))


@dataclass(frozen=True, slots=True)
class TextMap:
    """A YAML mapping, in the order of the file. `keys` holds each key as a Text, for its position."""

    fields: dict[str, Node]
    keys: dict[str, Text]
    source: Source = field(repr=False, compare=False)
    start: int = field(default=0, compare=False)
    end: int = field(default=0, compare=False)

    def get(self, key: str) -> Node | None:
        return self.fields.get(key)

    def __contains__(self, key: str) -> bool:
        return key in self.fields

    def error(self, message: str, hint: str) -> SpecError:
        return self.source.error(self.start, message, hint, _marked(self))


Entry = TextMap
Node = Text | TextList | TextMap


def _marked(node: TextList | TextMap) -> int:
    """Return how many characters to mark of a node that may span several lines: its first line."""
    end = node.source.text.find("\n", node.start)
    end = end if 0 <= end < node.end else node.end
    return max(1, len(node.source.text[node.start : end].rstrip()))
