"""The pages of the documentation, taken apart: their code blocks, links and anchors.

What happens to a code block when the tests run it is decided by its language, and by a comment right above it, which
no reader sees:

    python          run, in the order of the page and with the names of the blocks before it. A ```text block right
                    after it is what it prints, with `...` for anything; without one, it must print nothing.
    console         `$ command` is run in the page's folder, and the lines below it are what it prints, in the same
                    way.
    sh              run in the page's folder, and must succeed.
    yaml            loaded by the generator, as entries that may have formulas for each other.
    text            shown, not run.

    <!-- docs: not run: REASON -->          any language: the reason why the tests do not run it
    <!-- docs: append to FILE -->           it is appended to that file of the page's folder, before what follows
    <!-- docs: file FILE -->                it is that file of the page's folder
    <!-- docs: raises -->                   python: it raises, and the ```text block after it is `Class: message`
    <!-- docs: checked by FILE -->          a test elsewhere runs it: in that file, which must exist

The page's folder is a copy of the checkout. A python block that follows a change to it starts in a new interpreter.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [README, *sorted(p for p in (ROOT / "docs").glob("**/*.md") if "_generator" not in p.parts)]

BLOCK = re.compile(
    r"^(?P<fence>```+)(?P<language>[\w+-]*)(?P<rest>[^\n]*)\n(?P<text>.*?)^(?P=fence)[ ]*$", re.MULTILINE | re.DOTALL
)
_NOTE = re.compile(r"<!-- docs: (not run|append to|file|raises|checked by)(?::)? ?([^>]*?) -->\s*\Z")
_LINK = re.compile(r"(?<!`)\[[^\]]*\]\(([^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    """A fenced block. `note` and `told` are the comment above it, `shown` the ```text block right after it."""

    page: Path
    line: int
    language: str
    text: str
    note: str
    told: str
    shown: str | None

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """The blocks of a page, in order. A ```text block that shows what another one prints is part of that one."""
    source = page.read_text(encoding="utf-8")
    matches = list(BLOCK.finditer(source))
    found, shown_by_last = [], False
    for i, match in enumerate(matches):
        if shown_by_last:
            shown_by_last = False
            continue
        following = matches[i + 1] if i + 1 < len(matches) else None
        shown = None
        if (
            match["language"] == "python"
            and following is not None
            and following["language"] == "text"
            and not source[match.end() : following.start()].strip()
        ):
            shown, shown_by_last = following["text"], True
        note = _NOTE.search(source, 0, match.start())
        line = source.count("\n", 0, match.start()) + 1
        found.append(
            Block(
                page,
                line,
                match["language"],
                match["text"],
                note[1] if note else "",
                note[2].strip() if note else "",
                shown,
            )
        )
    return found


def prose(page: Path) -> str:
    """A page without its blocks."""
    return BLOCK.sub("", page.read_text(encoding="utf-8"))


def links(page: Path) -> list[str]:
    return _LINK.findall(prose(page))


def anchors(page: Path) -> set[str]:
    """The fragments that a page's headings can be linked by."""
    text = prose(page)
    given = set(re.findall(r"\{ ?#([\w.-]+) ?\}", text))
    headings = re.findall(r"^#+ (.*?)(?: \{.*\})?$", text, re.MULTILINE)
    return given | {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}
