"""Where things are written: files, lines and the text there, read when asked for, so that they are true now."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from gradloom.codegen.reading.python_files import Functions


@dataclass(frozen=True)
class Place:
    """Some lines of a file.

    line      the number of the first, from 1
    text      the lines, without indentation that all have
    language  'python' or 'yaml', for highlighting
    """

    path: Path
    line: int
    text: str
    language: str = "python"

    @property
    def shown(self) -> str:
        """`path:line`; the path is relative where it is below the current folder."""
        try:
            path = os.path.relpath(self.path)
        except ValueError:  # another drive
            path = str(self.path)
        return f"{self.path if path.startswith(os.pardir) else path}:{self.line}"


def definition(path: Path, name: str) -> Place | None:
    """A function or class at the top of a Python file that the generator wrote, up to the next thing there."""
    text = _read(path)
    return None if text is None else definition_in(text, path, name)


def definition_in(text: str, path: Path, name: str) -> Place | None:
    """The same in the text of a file."""
    lines = text.splitlines()
    heads = tuple(f"{word} {name}{mark}" for word in ("def", "class") for mark in "(:")
    start = next((i for i, line in enumerate(lines) if line.startswith(heads)), None)
    if start is None:
        return None
    end = start + 1
    while end < len(lines) and (not lines[end].strip() or lines[end][0] in " \t)"):
        end += 1
    return Place(path, start + 1, "\n".join(lines[start:end]).rstrip())


def member(functions: Functions, family: str, name: str) -> Place | None:
    """A name of a folder's module, where it is written rather than where it is imported."""
    module, own = functions.origin(family, name)
    tree = functions.definition(module, own)
    if tree is None:
        return None
    first = min([tree.lineno, *(d.lineno for d in getattr(tree, "decorator_list", ()))])
    path = functions.paths[module]
    lines = path.read_text(encoding="utf-8").splitlines()
    return Place(path, first, "\n".join(lines[first - 1 : tree.end_lineno]))


def entry(path: Path, key: str, name: str) -> Place | None:
    """The entry of a YAML file whose `key:` (`func`, `name`) is the schema of an operator."""
    text = _read(path)
    return None if text is None else entry_in(text, path, key, name)


def entry_in(text: str, path: Path, key: str, name: str) -> Place | None:
    """The same in the text of a file."""
    lines = text.splitlines()
    wanted = re.compile(rf"[-\s]\s*['\"]?{key}['\"]?\s*:\s*['\"]?{re.escape(name)}\s*\(")
    for start, line in enumerate(lines):
        if not wanted.match(line):
            continue
        while start and not lines[start].startswith("-"):
            start -= 1
        end = start + 1
        while end < len(lines) and (not lines[end].strip() or lines[end][0] in " \t"):
            end += 1
        return Place(path, start + 1, "\n".join(lines[start:end]).rstrip(), "yaml")
    return None


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return None
