"""What README.md and docs/ say holds: links lead somewhere, make has the targets, examples print their text.

A ```python block with a ```text block right after it is run, and has to print exactly that. The README's two
YAML entries are appended to a copy of the checkout first, as it tells its reader to.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").glob("**/*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXAMPLE = re.compile(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
EXAMPLES = [pytest.param(code, shown, id=f"{page.name}-{number}") for page in PAGES
            for number, (code, shown) in enumerate(EXAMPLE.findall(page.read_text()))]


def prose(page: Path) -> str:
    return BLOCK.sub("", page.read_text())


def anchors(page: Path) -> set[str]:
    """The fragments that a page's headings can be linked by."""
    headings = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for link in LINK.findall(prose(page)):
        path, _, fragment = link.partition("#")
        if "://" in link:
            continue
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name} links to {link}"
        assert not fragment or fragment in anchors(target), f"{page.name} links to {link}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_make_targets_that_are_named_exist(page):
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = re.findall(r"(?:`|^)make ([a-z]+)", page.read_text(), re.MULTILINE)
    assert set(named) <= targets


@pytest.fixture(scope="module")
def package(tmp_path_factory) -> Path:
    """A folder to import gradloom from: a copy of the checkout, with the README's operator added."""
    copy = tmp_path_factory.mktemp("checkout")
    for name in ("src", "codegen", "generated"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    entries = [text for language, text in BLOCK.findall(README.read_text()) if language == "yaml"]
    for name, entry in zip(("native_functions.yaml", "derivatives.yaml"), entries, strict=True):
        assert "softabs" in entry and "softabs" not in (ROOT / name).read_text()
        (copy / name).write_text((ROOT / name).read_text() + "\n" + entry)
    command = [sys.executable, "-m", "gradloom.codegen", "generate", "--root", str(copy)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    shutil.move(copy / "generated", copy / "src" / "gradloom" / "generated")
    return copy / "src"


@pytest.mark.parametrize("code, shown", EXAMPLES)
def test_examples_print_what_is_shown(package, code, shown):
    command = [sys.executable, "-W", "error", "-c", code]
    environment = os.environ | {"PYTHONPATH": str(package)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert done.stderr == "" and done.stdout == shown


def test_the_readme_has_examples():
    assert sum(example.id.startswith("README") for example in EXAMPLES) >= 3
