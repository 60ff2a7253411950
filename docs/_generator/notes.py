"""The page of Notes: explanations in the source that others refer to by name.

A Note is a line `Note [Name]` with the text below it, in a docstring or in a comment, up to the next Note or its end.
"""

from __future__ import annotations

import ast
import io
import re
import textwrap
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOMS = ("src/gradloom", "codegen")
_START = re.compile(r"^[ \t]*Note \[([^\]]+)\]:?[ \t]*\n", re.MULTILINE)


@dataclass(frozen=True)
class Note:
    """A Note: its name, its text, and its place."""

    name: str
    text: str
    path: str
    line: int


def notes(root: Path) -> list[Note]:
    """Return all Notes of the library and of the generator, the core's first."""
    found = []
    for room in ROOMS:
        for path in sorted((root / room).rglob("*.py")):
            if "Note [" in (source := path.read_text(encoding="utf-8")):
                for line, text in _texts(source):
                    found += _split(text, path.relative_to(root).as_posix(), line)
    return sorted(found, key=lambda n: ("autograd" not in n.path, "/kernels/" in n.path, n.path.count("/"), n.path))


def _texts(source: str) -> Iterator[tuple[int, str]]:
    """Yield (line, text) of every docstring and of every comment of several lines."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node, clean=False):
            constant = node.body[0].value  # type: ignore[attr-defined]
            yield constant.lineno, constant.value
    run: list[tuple[int, str]] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        is_comment = token.type == tokenize.COMMENT
        if run and token.type != tokenize.NL and not (is_comment and token.start[0] == run[-1][0] + 1):
            yield run[0][0], "\n".join(text for _, text in run)
            run = []
        if is_comment:
            run.append((token.start[0], token.string.removeprefix("#").removeprefix(" ")))


def _split(text: str, path: str, line: int) -> Iterator[Note]:
    matches = list(_START.finditer(text))
    ends = [match.start() for match in matches[1:]] + [len(text)]
    for match, end in zip(matches, ends, strict=False):  # a text without Notes has one end
        body = text[match.end() : end]
        yield Note(match[1], textwrap.dedent(body).strip(), path, line + text.count("\n", 0, match.start()))


def page(root: Path) -> str:
    """Return the page in Markdown."""
    parts = [
        "# Notes\n\nWhat has to be explained once is explained in the source, in a *Note* that other places refer "
        "to by name. These are all of them; the link leads to the file. Reading order and reasons are in "
        "[the design](core.md).\n"
    ]
    for note in notes(root):
        parts.append(f"## {note.name}\n\n[`{note.path}`](../{note.path}#L{note.line})\n\n{_markdown(note.text)}\n")
    return "\n".join(parts)


def _markdown(text: str) -> str:
    """Return a docstring's paragraphs, with indented text as code."""
    blocks: list[str] = []
    for part in re.split(r"\n\s*\n", text):
        indented = all(line.startswith("    ") for line in part.split("\n"))
        if indented and blocks and blocks[-1].startswith("```"):
            blocks[-1] = blocks[-1].removesuffix("\n```") + f"\n\n{textwrap.dedent(part)}\n```"
        else:
            blocks.append(f"```text\n{textwrap.dedent(part)}\n```" if indented else part)
    return "\n\n".join(blocks)
