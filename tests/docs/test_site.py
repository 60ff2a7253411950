"""The site that `make docs` built: whole, without anything from elsewhere, and with a search that finds operators.

Skipped where it was not built. mkdocs itself fails on a broken link between pages; here the finished HTML is read.
"""

from __future__ import annotations

import html.parser
import json
import os
import posixpath
import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gradloom.codegen.operators import native_functions
from tests.docs.pages import ROOT

SITE = ROOT / "build" / "site"


def is_current() -> bool:
    """Whether the site was built after the last change to a page."""
    built = SITE / "index.html"
    newest = max(p.stat().st_mtime for p in (ROOT / "docs").rglob("*.*") if "__pycache__" not in p.parts)
    return built.is_file() and built.stat().st_mtime >= newest


# `make docs`, which has just built it, says so, and then nothing is skipped.
pytestmark = pytest.mark.skipif(
    "DOCS_BUILT" not in os.environ and not is_current(), reason="`make docs` builds the site"
)


@dataclass
class Html(html.parser.HTMLParser):
    """Anchors, links and what else a page loads."""

    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors.update(v for k in ("id", "name") if (v := given.get(k)))
        if tag == "a" and given.get("href"):
            self.links.append(given["href"] or "")
        elif tag in ("link", "script", "img", "iframe"):
            self.loads.append(given.get("href") or given.get("src") or "")


@pytest.fixture(scope="module")
def site() -> dict[str, Html]:
    found = {}
    for path in sorted(SITE.rglob("*.html")):
        page = found[path.relative_to(SITE).as_posix()] = Html()
        page.feed(path.read_text(encoding="utf-8"))
    return found


def test_every_link_leads_to_a_page_and_an_anchor(site):
    wrong = []
    for name, page in site.items():
        for link in page.links:
            path, _, fragment = link.partition("#")
            if "://" in link or name == "404.html":
                continue
            target = posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) if path else name
            target = target if target.endswith(".html") else posixpath.join(target, "index.html").removeprefix("./")
            if target not in site or (fragment and fragment not in site[target].anchors):
                wrong.append(f"{name}: {link}")
    assert not wrong, wrong[:20]


def test_pages_load_nothing_from_elsewhere(site):
    for name, page in site.items():
        assert not [load for load in page.loads if load.startswith(("http:", "https:", "//"))], name
    for style in SITE.rglob("*.css"):
        assert not re.findall(r"url\(['\"]?https?:[^)]*", style.read_text(encoding="utf-8")), style


def test_every_operator_has_its_entry(site):
    for function in native_functions.load(ROOT / "native_functions.yaml"):
        page = site[f"operators/{function.family}.html"]
        assert function.schema.name.base in page.anchors, function.name


@pytest.fixture(scope="module")
def index() -> list[dict[str, str]]:
    return json.loads((SITE / "search" / "search_index.json").read_text(encoding="utf-8"))["docs"]


@pytest.mark.parametrize(
    "operator, page", [("softplus", "operators/activation.html"), ("addcmul", "operators/elementwise.html")]
)
def test_the_search_finds_an_operator(index, operator, page):
    assert any(d["location"] == f"{page}#{operator}" and operator in d["title"] for d in index)


def test_the_search_puts_no_operator_of_formulas_before_one_of_programs(index):
    """They are found in the list of all names."""
    assert not any(d["location"].endswith("#softplus_backward") for d in index)
    assert any(d["location"] == "operators/index.html#by-name" and "softplus_backward" in d["text"] for d in index)


def test_operators_with_an_underscore_are_found_by_the_names_of_programs(index):
    """A search for softmax leads to the page of `softmax`, and to `_softmax` only in the list of all names."""
    titles = {d["location"]: d["title"] for d in index}
    assert titles["api/nn.functional/softmax.html"] == "softmax" and titles["api/nn/Softmax.html"] == "Softmax"
    assert "operators/activation.html#softmax" in titles and "operators/activation.html#_softmax" not in titles
    assert not [place for place in titles if place.startswith("operators/") and "#_" in place]


def test_pages_of_the_library_are_found_before_others(index):
    pages = [d for d in index if d["location"].startswith("api/") and "#" not in d["location"]]
    assert len(pages) > 400 and all(d.get("boost", 1) >= 2 for d in pages if d["location"].count("/") == 2)


def test_the_search_has_words_and_no_markup_of_formulas(index):
    assert not [d["location"] for d in index if "<math" in d["text"] or "\\frac" in d["text"]]
    assert not [d["location"] for d in index if d["location"].startswith("source/")]


def test_formulas_are_set(site):
    text = (SITE / "operators" / "elementwise.html").read_text(encoding="utf-8")
    assert 'class="arithmatex"' not in text and "<merror" not in text


def test_no_page_was_left_empty(site):
    for name in site:
        text = re.sub(r"<[^>]+>", " ", (Path(SITE) / name).read_text(encoding="utf-8").partition("<article")[2])
        assert name == "404.html" or len(text.split()) > 20, name
