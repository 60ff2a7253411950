"""What README.md and docs/ point to exists: files, headings, make targets, commands."""

from __future__ import annotations

import re

import pytest

from gradloom.tools.cli import COMMANDS
from tests.docs.pages import PAGES, README, ROOT, anchors, links

IDS = [str(page.relative_to(ROOT)) for page in PAGES]
# Pages that are made while the site is built; the site's own test follows the links to them.
MADE = re.compile(r"(^|/)(operators/\w+|api/[\w./]+|support|notes)\.md$")


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_links_lead_somewhere(page):
    for link in links(page):
        path, _, fragment = link.partition("#")
        if "://" in link or MADE.search(path):
            continue
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name} links to {link}"
        if re.fullmatch(r"L\d+", fragment):
            assert int(fragment[1:]) <= len(target.read_text(encoding="utf-8").splitlines()), f"{page.name}: {link}"
        else:
            assert not fragment or fragment in anchors(target), f"{page.name} links to {link}"


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_the_make_targets_that_are_named_exist(page):
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = re.findall(r"(?:`|^)make ([a-z]+)", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(named) <= targets


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_the_commands_that_are_named_exist(page):
    named = re.findall(r"(?:`|^\$ )gradloom ([a-z]+)", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(named) <= set(COMMANDS)


def test_the_readme_names_every_command():
    assert all(f"| `gradloom {command}" in README.read_text(encoding="utf-8") for command in COMMANDS)


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_the_files_that_are_named_exist(page):
    """Names of files in code spans that have a folder: `src/gradloom/core/tensor.py`, `codegen/operators/keys.py`."""
    folders = ("src/", "codegen/", "tests/", "examples/", "benchmarks/", "docs/", "generated/")
    for name in re.findall(r"`([\w./-]+/[\w.-]*\.(?:py|yaml|md|jinja|toml))`", page.read_text(encoding="utf-8")):
        if name.startswith(folders):
            assert (ROOT / name).exists(), f"{page.name} names {name}"
