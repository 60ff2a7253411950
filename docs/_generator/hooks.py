"""Hooks of mkdocs: add the generated pages, and typeset the formulas.

Links from a page to files of the checkout outside docs/ (`../src/gradloom/tensor.py#L12`) work where the repository is
browsed; on the site they lead to a page that shows the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import api
import differences
import notes
import reference
import sources
import typeset
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]


_made: dict[str, str] = {}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Make the generated pages, and add pages to the navigation that mkdocs.yml does not list: the page of each family
    below that of all operators, and other pages of docs/ below Tools."""
    _made.clear()
    operators = reference.operators(ROOT)
    _made.update(reference.pages(ROOT, operators))
    _made.update(api.pages({operator.name: operator.family for operator in operators}))
    _made["notes.md"] = notes.page(ROOT)
    sections = {title: part for item in config.nav or () if isinstance(item, dict) for title, part in item.items()}
    listed = set(_named(config.nav))
    written = sorted(p.relative_to(config.docs_dir).as_posix() for p in Path(config.docs_dir).glob("*.md"))
    sections["Operators"] += sorted(uri for uri in _made if uri.startswith("operators/") and uri not in listed)
    sections["Tools"] += [uri for uri in written if uri not in listed]
    return config


def _named(nav: object) -> Iterator[str]:
    """Return the pages that a navigation names."""
    if isinstance(nav, str):
        yield nav
    elif isinstance(nav, list | dict):
        for part in nav if isinstance(nav, list) else nav.values():
            yield from _named(part)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the operator reference, and a page for each file of the checkout that a page links to."""
    made = dict(_made)
    pages = {f.src_uri: f.content_string for f in files.documentation_pages()} | made
    shown = sorted({path for uri, text in pages.items() for path in sources.linked(ROOT, uri, text)})
    made |= {sources.page_of(path): sources.page(ROOT, path) for path in shown}
    for uri, text in made.items():
        files.append(File.generated(config, uri, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    return sources.rewrite(ROOT, page.file.src_uri, differences.fill(ROOT, markdown))


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    return typeset.formulas(html)
