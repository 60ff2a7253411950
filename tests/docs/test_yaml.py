"""The YAML of the language's pages is what the generator takes, and the errors that they show are what it says."""

from __future__ import annotations

import pytest

from gradloom.codegen.derivatives import derivatives
from gradloom.codegen.errors import SpecError
from gradloom.codegen.operators import native_functions
from tests.docs.pages import PAGES, ROOT, Block, blocks

UNNOTED = [b for page in PAGES for b in blocks(page) if b.language == "yaml" and not b.note]
PACKAGE = ROOT / "src" / "gradloom"


def place(block: Block) -> str:
    return block.place


@pytest.mark.parametrize("block", [b for b in UNNOTED if b.page.name != "yaml-derivatives.md"], ids=place)
def test_entries_of_native_functions_are_taken(tmp_path, block):
    """What a page shows of native_functions.yaml loads with the library's own kernels. A block that begins inside an
    entry goes on from one that ends before its kernel."""
    text = block.text
    if not text.startswith("- "):
        text = f"- func: leaky(Tensor self, Scalar weight) -> Tensor\n{text}"
    assert text.startswith("- func: "), f"{place(block)}: not an entry of native_functions.yaml"
    path = tmp_path / "native_functions.yaml"
    path.write_text(text)
    assert len(native_functions.load(path, package=PACKAGE)) == text.count("- func: ")


def test_derivatives_are_checked_where_the_generator_is():
    """tests/codegen/test_derivatives.py loads every block of that page."""
    source = (ROOT / "tests" / "codegen" / "test_derivatives.py").read_text()
    assert "yaml-derivatives.md" in source
    assert all(b.text.startswith("- name: ") for b in UNNOTED if b.page.name == "yaml-derivatives.md")


# Page -> the lines before the one that its error is about.
BROKEN = {
    "yaml-language.md": "\n- func: leaky(Tensor self, Scalar weight) -> Tensor\n",
    "yaml-derivatives.md": "- name: addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor\n"
    "  self: grad\n",
}


@pytest.mark.parametrize("page", BROKEN)
def test_the_error_that_is_shown_is_what_the_generator_says(tmp_path, page):
    shown = next(b for b in blocks(ROOT / "docs" / page) if b.language == "text" and ": error: " in b.text)
    name, line, *_ = shown.text.split(":")
    text = BROKEN[page] + shown.text.splitlines()[1] + "\n"
    assert text.count("\n") == int(line)
    (tmp_path / name).write_text(text)
    with pytest.raises(SpecError) as caught:
        functions = native_functions.load(
            tmp_path / name if name.startswith("native") else ROOT / "native_functions.yaml",
            shown=name,
            package=PACKAGE,
        )
        derivatives.load(tmp_path / name, functions, shown=name, package=PACKAGE)
    assert str(caught.value).strip() == shown.text.strip()
