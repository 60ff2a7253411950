"""`gradloom.explain`: where an operator is defined, line by line, and what it does.

    gradloom.explain("mul")                 an operator, all of its overloads
    gradloom.explain("MulBackward0")        a node class
    gradloom.explain(gradloom.mul)          a function or a method
    gradloom.explain(loss.grad_fn)          a node and its saved values; or the tensor itself

The command is `gradloom explain mul`.

Layout: `lookup` (from the argument to operators), `library` (collects facts), `facts` (operators, nodes, places in
files), `page` (the explanation as blocks), `as_text` and `as_html` (output formats).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from .as_text import as_text
from .library import Library, libraries
from .lookup import Target, UnknownName, find
from .page import Block, page

__all__ = ["Explanation", "UnknownName", "explain"]


class Explanation:
    """The result of `explain`. `str()` is plain text; a notebook shows HTML, an interactive session colored text.

    Attributes:
        title: the name of what is explained.
        blocks: headings, paragraphs, tables, equations and source code, in order.
    """

    title: str

    def __init__(self, target: Target, among: Sequence[Library]) -> None:
        self._target, self._libraries = target, among
        self.title = target.title

    @cached_property
    def blocks(self) -> list[Block]:
        return page(self._target, self._libraries)

    def text(self, *, color: bool = False, sources: bool = True) -> str:
        """Return the explanation as text.

        Args:
            color: use ANSI escapes; source code is highlighted if pygments is installed.
            sources: include source code, not only its place.
        """
        return as_text(self.blocks, color=color, sources=sources)

    def html(self) -> str:
        """Return the explanation as a self-contained HTML document."""
        from .as_html import document

        return document(self.title, self.blocks)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return self.text(color=sys.stdout.isatty())

    def _repr_html_(self) -> str:
        from .as_html import fragment

        return fragment(self.blocks)


def explain(target: Any) -> Explanation:
    """Explain an operator, a node or a function: its YAML entries with file and line, its derivative in mathematical
    notation, what it supports, what its node saves and why, its kernel, helpers and generated code.

    Args:
        target: an operator's name (`"mul"`, `"mul.Tensor"`, `"add_"`, `"linalg.inv"`), the name or class of a node
            (`"MulBackward0"`), a function or method of gradloom, a node (`loss.grad_fn`), a tensor with one, or a
            custom Function. Operators of packages and of `gradloom.ops.define` work, too (`"myops.softabs"`).

    Returns:
        An Explanation: print it, or let the interactive session or notebook show it.

    Raises:
        UnknownName: (a LookupError) for an unknown name; the message suggests a similar one.
        TypeError: for any other object.
    """
    among = libraries()
    return Explanation(find(target, among), among)
