"""Pages that show files of the checkout to which docs/ and the operator reference link."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

_LINK = re.compile(r"(?<!\!)\[([^\]\n]*(?:\n[^\]\n]*)?)\]\(([^)\s#]+)(#[\w-]+)?\)")
_LANGUAGES = {".py": "python", ".yaml": "yaml", ".toml": "toml", ".jinja": "jinja", ".md": "markdown", ".pyi": "python"}
_FENCED = re.compile(r"^(```+).*?^\1$", re.MULTILINE | re.DOTALL)


def target(root: Path, page: str, link: str) -> str | None:
    """Return the path in the checkout of a linked file outside docs/; None for any other link."""
    if "://" in link or link.startswith(("/", "mailto:")):
        return None
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), link))
    return path if not path.startswith(("docs/", "..")) and (root / path).exists() else None


def linked(root: Path, page: str, text: str) -> Iterator[str]:
    """Return the files of the checkout that a page links to."""
    for _, link, _ in _LINK.findall(_FENCED.sub("", text)):
        path = target(root, page, link)
        if path is not None and (root / path).is_file():
            yield path


def page_of(path: str) -> str:
    """Return the path of the page that shows a file."""
    return f"source/{path}.md"


def page(root: Path, path: str) -> str:
    """Return the page: the file with numbered lines, excluded from the search."""
    text = (root / path).read_text(encoding="utf-8")
    fence = "`" * (3 + max((len(run) for run in re.findall(r"`{3,}", text)), default=0))
    language = _LANGUAGES.get(Path(path).suffix, "text")
    return (
        f"---\ntitle: {path}\nhide: [toc]\nsearch:\n  exclude: true\n---\n\n# {Path(path).name}\n\n`{path}`\n\n"
        f'{fence}{{.{language} linenums="1"}}\n{text.rstrip()}\n{fence}\n'
    )


def rewrite(root: Path, page: str, text: str) -> str:
    """Return the text of a page with its links to files of the checkout redirected to the pages that show them.

    A folder has no such page: of a link to one, the words stay.
    """

    def replaced(match: re.Match[str]) -> str:
        words, link, line = match[1], match[2], match[3] or ""
        path = target(root, page, link)
        if path is None:
            return match[0]
        if not (root / path).is_file():
            return words
        up = "../" * page.count("/")
        anchor = line.replace("#L", "#__codelineno-0-", 1)
        return f'<a href="{up}source/{path}.html{anchor}">{words}</a>'

    return _outside_code(text, lambda prose: _LINK.sub(replaced, prose))


def _outside_code(text: str, change) -> str:
    parts, at = [], 0
    for block in _FENCED.finditer(text):
        parts += [change(text[at : block.start()]), block[0]]
        at = block.end()
    return "".join((*parts, change(text[at:])))
