"""Write an explanation for the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from gradloom.codegen.notation.equations import text

from .page import Block, Code, Formulas, Heading, Paragraph, Table

WIDTH = 110
_BOLD, _DIM, _CYAN, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[36m", "\x1b[0m"


def as_text(blocks: Iterable[Block], *, color: bool = False, sources: bool = True) -> str:
    """Return the blocks as lines of text; see Explanation.text."""
    return "\n".join(_Writer(color, sources).lines(blocks)).strip("\n") + "\n"


class _Writer:
    def __init__(self, color: bool, sources: bool) -> None:
        self.color, self.sources = color, sources

    def lines(self, blocks: Iterable[Block]) -> list[str]:
        found: list[str] = []
        for block in blocks:
            match block:
                case Heading():
                    found += ["", self.heading(block)]
                case Paragraph():
                    found += [line for part in block.text.split("\n") for line in _wrapped(part)]
                case Code():
                    found += self.code(block)
                case Formulas():
                    found += self.formulas(block)
                case Table():
                    found += self.table(block)
        return found

    def paint(self, words: str, style: str) -> str:
        return f"{style}{words}{_PLAIN}" if self.color and words else words

    def heading(self, block: Heading) -> str:
        words = block.text if block.level == 3 else f"== {block.text} =="
        return self.paint(words, _BOLD)

    def code(self, block: Code) -> list[str]:
        place = self.paint(block.place.shown, _CYAN)
        lines = [f"  {place}  {block.title}"]
        if self.sources:
            source = block.place.text
            if self.color:
                source = highlighted(source, block.place.language)
            lines += [f"    {line}".rstrip() for line in source.split("\n")] + [""]
        return lines

    def formulas(self, block: Formulas) -> list[str]:
        width = max(len(text(e.left)) for e in block.equations)
        lines = [f"  {text(e.left):>{width}} = {text(e.right)}" for e in block.equations]
        return lines + [self.paint(line, _DIM) for words in block.legend if words for line in _wrapped(words, "    ")]

    def table(self, block: Table) -> list[str]:
        rows = [*([block.heads] if block.heads else []), *block.rows]
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)]
        lines = []
        for number, row in enumerate(rows):
            cells = [f"{cell:{width}}" for cell, width in zip(row, widths, strict=False)]
            line = "  ".join(["", *cells, row[-1]])
            lines.append(self.paint(line, _DIM) if block.heads and number == 0 else line)
        return lines


def _wrapped(words: str, indent: str = "  ") -> list[str]:
    lead = indent + words[: len(words) - len(words.lstrip())]
    return textwrap.wrap(
        words, WIDTH, initial_indent=lead, subsequent_indent=lead, break_long_words=False, break_on_hyphens=False
    ) or [""]


def highlighted(source: str, language: str) -> str:
    """Return source code highlighted with ANSI escapes; unchanged if pygments is not installed."""
    try:
        from pygments import highlight
        from pygments.formatters import TerminalFormatter
        from pygments.lexers import get_lexer_by_name
    except ImportError:
        return source
    return highlight(source, get_lexer_by_name(language), TerminalFormatter()).rstrip("\n")
