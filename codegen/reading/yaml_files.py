"""Load a YAML file of list items into entries in which every word has its line and column.

A `Source` is a file's text. A `Text` is a scalar in it; an offset inside its value maps back to the file's line and
column whatever the style of the scalar (plain or quoted over several lines, `|`, `>`), so that an error in the third
line of a folded formula is reported there. `TextList` and `TextMap` are a YAML list and mapping.

The files use a small part of YAML: one document, a list of mappings, values that are text, lists or mappings of text.
Anchors, aliases and tags are refused, so that a short file cannot expand to a long one and no object is ever
constructed. PyYAML's events are read, with bounded nesting and without recursion.

PyYAML reports a syntax error where it gave up: an unclosed quote at the end of the file, a key that is indented too far
at its colon. `syntax_error` scans the file once more with PyYAML's pure Python scanner, whose errors also have the
start of the construct. So the message is the same with and without libyaml.
"""

from __future__ import annotations

import os
import re
import stat
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

import yaml

from ..errors import SpecError, shorten

MAX_BYTES = 2 * 2**20
MAX_DEPTH = 8
MAX_VALUE = 20_000  # characters of one value

# What YAML 1.1 allows, without the separators that YAML counts as line ends and editors do not.
_FORBIDDEN = re.compile("[^\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_QUOTE = "put the whole value in quotes"

_ESCAPE_DIGITS = {"x": 2, "u": 4, "U": 8}
_WHITE = frozenset(" \t\n\r\x85\xa0")
_WHITE_ESCAPES = frozenset("nrtNL P_\t\n")


class Source:
    """The text of a file, or of a part of it that begins in the line `first`, with its line ends as `\\n`."""

    __slots__ = ("path", "text", "first", "_starts")

    def __init__(self, path: str, text: str, first: int = 1) -> None:
        self.path, self.text, self.first = path, text, first
        self._starts = [0]
        for line in text.split("\n")[:-1]:
            self._starts.append(self._starts[-1] + len(line) + 1)

    def index(self, line: int, column: int) -> int:
        """Return the index in the text of a line and column that count from 0, as YAML's marks do."""
        return self._starts[min(line, len(self._starts) - 1)] + column

    def line_col(self, index: int) -> tuple[int, int]:
        """Return the line and column, from 1, of an index."""
        line = bisect_right(self._starts, index)
        return line + self.first - 1, index - self._starts[line - 1] + 1

    def line(self, number: int) -> str:
        """Return the text of line `number`, counted from 1."""
        start = self._starts[number - self.first]
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
    """A scalar: its value and its position in the source. `style` is None (plain) or one of `' " | >`."""

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
        """Return the line and column in the file, from 1, of the character at `offset` in the value."""
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
        """Return a part of the value as a Text; a plain style keeps its position."""
        return self._word(offset, length, *self._places())

    def _word(self, offset: int, length: int, solid: list[int], places: list[int]) -> Text:
        start = self._index(offset, solid, places)
        end = self._index(offset + max(0, length - 1), solid, places) + 1
        return Text(self.value[offset : offset + length], self.source, start, end)

    def words(self, separator: str = ",") -> list[Text]:
        """Split the value at a separator; strip white space around the parts, keep empty parts."""
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
        chomping change white space only, so these suffice to locate every word."""
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


class LaterEntry(TextMap):
    """The entry of a text that was analysed before: it is read when it is asked for something, mostly an error."""

    __slots__ = ("_entry",)
    _entry: TextMap

    def __init__(self, source: Source) -> None:
        for name, value in (("source", source), ("start", 0), ("end", len(source.text))):
            object.__setattr__(self, name, value)

    def _read(self) -> TextMap:
        try:
            return self._entry
        except AttributeError:
            object.__setattr__(self, "_entry", entries_in(self.source)[0])
            return self._entry

    @property
    def fields(self) -> dict[str, Node]:  # type: ignore[override]
        return self._read().fields

    @property
    def keys(self) -> dict[str, Text]:  # type: ignore[override]
        return self._read().keys

    def __reduce__(self) -> tuple[type, tuple[Source]]:
        return LaterEntry, (self.source,)


Entry = TextMap
Node = Text | TextList | TextMap


def _marked(node: TextList | TextMap) -> int:
    """Return the number of characters to mark of a node that may span several lines: its first line."""
    end = node.source.text.find("\n", node.start)
    end = end if 0 <= end < node.end else node.end
    return max(1, len(node.source.text[node.start : end].rstrip()))


def load_entries(path: str | os.PathLike[str], shown: str | None = None) -> tuple[Entry, ...]:
    """Return the list items of a YAML file. `shown` is the path that errors name; by default `path` itself. Raises
    SpecError if the file cannot be read, is not UTF-8 text, is not YAML, or is not a list of mappings."""
    shown = str(path) if shown is None else shown
    return parse_entries(read_text(path, shown), shown)


def read_text(path: str | os.PathLike[str], shown: str) -> str:
    """Return the text of a file, with `\\n` as line ends. Raises SpecError if it cannot be read or is no UTF-8 text."""
    return _decode(_read(path, shown), shown)


_ITEM = re.compile("^- ", re.MULTILINE)
_MARKER = re.compile(r"^(---|\.\.\.|%)", re.MULTILINE)


def split(text: str, shown: str) -> list[Source] | None:
    """Return a source for each entry of a file, with the comments behind it, such that the entries that these have are
    those of the file; None if the file is not so simple. A part may yet be none: if a quote is not closed in it."""
    starts = [match.start() for match in _ITEM.finditer(text)]
    before = text[: starts[0]] if starts else text
    if not starts or _MARKER.search(text) or any(line.strip()[:1] not in ("", "#") for line in before.split("\n")):
        return None
    found, line = [], before.count("\n") + 1
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        part = text[start:end]
        found.append(Source(shown, part, line))
        line += part.count("\n")
    return found


def parse_entries(text: str, shown: str) -> tuple[Entry, ...]:
    """Return the list items of a YAML text; see `load_entries`."""
    return entries_in(Source(shown, text))


def entries_in(source: Source) -> tuple[Entry, ...]:
    """Return the list items of a YAML text; see `load_entries`."""
    text, shown = source.text, source.path
    _check_characters(source)
    if not text.strip():
        raise SpecError(shown, 1, 1, "", "the file is empty", "a list of entries is expected: `- func: ...`")
    try:
        document = _Reader(source).document()
    except (yaml.YAMLError, ValueError) as error:
        raise syntax_error(source, error) from None
    if not isinstance(document, TextList):
        kind = "a mapping" if isinstance(document, TextMap) else "text"
        if isinstance(document, Text) and not document.value:
            raise source.error(document.start, "the file has no entries", "a list is expected: `- func: ...`")
        raise document.error(f"the file holds {kind}, not a list of entries", "start every entry with `- `")
    for item in document.items:
        if not isinstance(item, TextMap):
            what = f"`{shorten(item.value)}`" if isinstance(item, Text) else "a list"
            raise item.error(f"an entry is {what}, not a mapping", "an entry is `- key: value` and more keys below")
    return document.items  # type: ignore[return-value]


def _read(path: str | os.PathLike[str], shown: str) -> bytes:
    try:
        # Without O_NONBLOCK, opening a pipe would wait for a writer.
        with os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
            info = os.fstat(file.fileno())
            if not stat.S_ISREG(info.st_mode):
                raise SpecError(shown, 1, 1, "", "it is not a regular file", "name a YAML file")
            if info.st_size > MAX_BYTES:
                hint = f"the limit is {MAX_BYTES >> 20} MiB"
                raise SpecError(shown, 1, 1, "", f"the file has {info.st_size} bytes", hint)
            return file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise SpecError(shown, 1, 1, "", "there is no such file", "check the path, or run in a checkout") from None
    except OSError as error:
        reason = (error.strerror or type(error).__name__).lower()
        raise SpecError(shown, 1, 1, "", f"the file cannot be read: {reason}", "name a readable YAML file") from None


def _decode(data: bytes, shown: str) -> str:
    """Return the text of a file with `\\n` as line ends. A byte order mark is dropped."""
    binary = data.find(b"\0")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        where = error.start if binary < 0 else min(binary, error.start)
        raise _binary(data, where, shown) from None
    if binary >= 0:
        raise _binary(data, binary, shown)
    return _unix(text)


def _unix(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _binary(data: bytes, where: int, shown: str) -> SpecError:
    before = _unix(data[:where].decode("utf-8-sig", "replace"))
    after = _unix(data[where : where + 200].decode("utf-8", "replace"))
    line = before[before.rfind("\n") + 1 :] + after.partition("\n")[0]
    col = len(before) - before.rfind("\n")
    message = f"binary data: byte 0x{data[where]:02x} is not UTF-8 text"
    return SpecError(shown, before.count("\n") + 1, col, line, message, "save the file as UTF-8 text")


def _check_characters(source: Source) -> None:
    found = _FORBIDDEN.search(source.text)
    if found is None:
        return
    if found.group() == "\t":
        raise source.error(found.start(), "tab character", "use spaces: YAML does not indent with tabs")
    raise source.error(found.start(), f"control character U+{ord(found.group()):04X}", "remove it")


class _Reader:
    """Builds nodes from PyYAML's events, without recursion."""

    def __init__(self, source: Source, loader: type[yaml.SafeLoader] = _Loader) -> None:
        self.source = source
        self.loader = loader(source.text)

    def place(self, mark: object) -> int:
        return self.source.index(mark.line, mark.column)  # type: ignore[attr-defined]

    def document(self) -> Node:
        try:
            return self._document()
        finally:
            self.loader.dispose()

    def _document(self) -> Node:
        root: Node | None = None
        open_nodes: list[tuple[int, list[Node] | _OpenMap]] = []
        while not isinstance(event := self.loader.get_event(), yaml.StreamEndEvent):
            if isinstance(event, yaml.DocumentStartEvent):
                self.check_document(event, root)
            if not isinstance(event, yaml.NodeEvent | yaml.CollectionEndEvent):
                continue
            if isinstance(event, yaml.NodeEvent):
                self.check_node(event)
            if isinstance(event, yaml.CollectionStartEvent):
                if len(open_nodes) == MAX_DEPTH:
                    message = f"nested more than {MAX_DEPTH} levels deep"
                    raise self.source.error(self.place(event.start_mark), message, f"values are not nested; {_QUOTE}")
                is_list = isinstance(event, yaml.SequenceStartEvent)
                open_nodes.append((self.place(event.start_mark), [] if is_list else _OpenMap()))
                continue
            if isinstance(event, yaml.ScalarEvent):
                node: Node = self.scalar(event)
            else:
                start, children = open_nodes.pop()
                end = self.place(event.end_mark)
                if isinstance(children, _OpenMap):
                    node = TextMap(children.fields, children.keys, self.source, start, end)
                else:
                    node = TextList(tuple(children), self.source, start, end)
            if not open_nodes:
                root = node
            else:
                self.attach(open_nodes[-1][1], node)
        if root is None:
            raise self.source.error(0, "the file has no entries", "a list is expected: `- func: ...`")
        return root

    def check_document(self, event: yaml.DocumentStartEvent, root: Node | None) -> None:
        start = self.place(event.start_mark)
        if root is not None:
            raise self.source.error(start, "a second document starts at `---`", "keep one list; remove the line", 3)
        if event.version or event.tags:
            raise self.source.error(start, "a YAML directive", "remove the line that starts with `%`")

    def check_node(self, event: yaml.NodeEvent) -> None:
        start = self.place(event.start_mark)
        word = re.match(r"\S*", self.source.text[start : start + 80])
        text = word.group() if word else ""
        if isinstance(event, yaml.AliasEvent):
            raise self.source.error(start, f"alias `{shorten(text)}`", f"{_QUOTE}, or write it out", len(text))
        if event.anchor is not None:
            raise self.source.error(start, f"anchor `{shorten(text)}`", f"{_QUOTE}, or remove the anchor", len(text))
        if getattr(event, "tag", None) is not None:
            raise self.source.error(start, f"tag `{shorten(text)}`", f"{_QUOTE}, or remove the tag", len(text))

    def scalar(self, event: yaml.ScalarEvent) -> Text:
        style = event.style if event.style in ("'", '"', "|", ">") else None
        start, end = self.place(event.start_mark), self.place(event.end_mark)
        if style in ("'", '"') and "\n" in self.source.text[start:end]:
            error = unclosed_quote(self.source, start, end)
            if error is not None:
                raise error
        if end - start > MAX_VALUE:
            raise self.source.error(start, f"a value of {end - start} characters", f"the limit is {MAX_VALUE}")
        return Text(event.value, self.source, start, end, style)

    def attach(self, parent: list[Node] | _OpenMap, node: Node) -> None:
        if isinstance(parent, list):
            parent.append(node)
        elif parent.key is not None:
            parent.fields[parent.key.value] = node
            parent.key = None
        elif not isinstance(node, Text):
            raise node.error("a key that is not text", f"write `key: value`, or {_QUOTE}")
        elif not node.value:
            raise node.error("an empty key", "write `key: value`")
        elif node.value in parent.keys:
            first = parent.keys[node.value].line
            raise node.error(
                f"duplicate key `{shorten(node.value)}`",
                f"line {first} has it already: remove one, or start a new entry with `- `",
            )
        else:
            parent.key = parent.keys[node.value] = node


class _OpenMap:
    """A mapping that is being read; `key` waits for its value."""

    __slots__ = ("fields", "keys", "key")

    def __init__(self) -> None:
        self.fields: dict[str, Node] = {}
        self.keys: dict[str, Text] = {}
        self.key: Text | None = None


_ALIGN = "start every entry with `- ` in one column, and put its keys below each other"
_KEY_LINE = re.compile(r"\n *(?:(?:- +)?[A-Za-z_][\w, ]*:(?= |\n)|#)")  # or a comment


def unclosed_quote(source: Source, start: int, end: int) -> SpecError | None:
    """Return the error for a quoted value that contains a key, because a later quote closed it; else None."""
    return _unclosed(source, start) if _KEY_LINE.search(source.text, start, end) else None


def syntax_error(source: Source, error: Exception) -> SpecError:
    """Return the error to show for a YAMLError, or ValueError, that reading `source` raised."""
    swallowed = _swallowing_quote(source)
    if swallowed is not None:
        return _unclosed(source, swallowed)
    try:
        # LibYAML looks ahead of the event that it returns, and may raise before _Reader has seen what it refuses.
        _Reader(source, yaml.SafeLoader).document()
    except SpecError as first:
        return first
    except yaml.MarkedYAMLError as precise:
        error = precise
    except (yaml.YAMLError, RecursionError, ValueError):  # ValueError: `\U00110000`
        pass
    problem = getattr(error, "problem", None) or "not YAML"
    context = getattr(error, "context", None) or ""
    mark = getattr(error, "problem_mark", None)
    began = getattr(error, "context_mark", None) or mark
    if mark is None or began is None:
        return source.error(0, f"the file is not YAML: {shorten(str(error))}", _ALIGN)
    at, began_at = (source.index(m.line, m.column) for m in (mark, began))
    return _explain(source, problem, context, at, began_at)


def _explain(source: Source, problem: str, context: str, at: int, began: int) -> SpecError:
    text = source.text
    if "quoted scalar" in context and "end of stream" in problem:
        return _unclosed(source, began)
    if "mapping values are not allowed" in problem:
        start = text.rfind("\n", 0, at) + 1
        key = text[start:at].strip()
        if re.fullmatch(r"(- +)?[A-Za-z_][\w, ]*", key):
            place = at - len(key)
            return source.error(place, f"key `{shorten(key)}` is not aligned with the key above it", _ALIGN, len(key))
        return source.error(at, "`:` before a space, inside a value", _QUOTE)
    if "could not find expected ':'" in problem:
        word = text[began:].split("\n", 1)[0].rstrip()
        return source.error(began, f"`{shorten(word)}` is not `key: value`", "write `key: value`", len(word))
    if "flow sequence" in context or "flow mapping" in context:
        if text.count("\n", began, at):
            return source.error(began, f"`{text[began]}` is not closed", f"close it, or {_QUOTE}")
        word = _word(text, at)
        return source.error(at, f"unexpected `{word}` after `{text[began]}`", f"write a comma, or {_QUOTE}", len(word))
    if "escape" in problem:
        place = text.rfind("\\", 0, at + 1)
        word = text[place : max(place + 2, at)]
        hint = "double the backslash, or use '...'"
        return source.error(place, f"unknown escape `{word}` in a string", hint, len(word))
    if context.startswith(("while scanning an alias", "while scanning an anchor", "while scanning a tag")):
        word = _word(text, began)
        return source.error(began, f"`{word}` starts a value that is not text", _QUOTE, len(word))
    word = _word(text, at)
    if "cannot start any token" in problem:
        return source.error(at, f"a value cannot start with {text[at]!r}", _QUOTE)
    if text[:at].rstrip(" ")[-1:] in ("'", '"'):
        hint = "double a quote that belongs to the value, or use the other kind of quotes around it"
        return source.error(at, f"unexpected `{word}` after the closing quote", hint, len(word))
    if "block" in context:
        return source.error(at, f"unexpected `{word}`" if word else "unexpected end", _ALIGN, max(1, len(word)))
    return source.error(at, f"the file is not YAML at `{word}`: {problem}", _QUOTE, max(1, len(word)))


def _word(text: str, at: int) -> str:
    match = re.compile(r"[\w.]+|\S").match(text, at)
    return shorten(match.group()) if match else ""


def _unclosed(source: Source, at: int) -> SpecError:
    quote = source.text[at]
    end = source.text.find("\n", at)
    length = (end if end >= 0 else len(source.text)) - at
    return source.error(at, f"quote `{quote}` is not closed", f"write another {quote} where the value ends", length)


def _swallowing_quote(source: Source) -> int | None:
    """Return the start of the first quoted scalar that contains a line like a key of an entry."""
    if _KEY_LINE.search(source.text) is None:
        return None
    try:
        for token in yaml.scan(source.text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
            if isinstance(token, yaml.ScalarToken) and token.style in ("'", '"'):
                start = source.index(token.start_mark.line, token.start_mark.column)
                end = source.index(token.end_mark.line, token.end_mark.column)
                if _KEY_LINE.search(source.text, start, end):
                    return start
    except (yaml.YAMLError, RecursionError, ValueError):  # ValueError: `\U00110000`
        pass
    return None
