"""What makes the generated pages: docs/_generator. The site as a whole is looked at in test_site.py."""

from __future__ import annotations

import importlib
import re
import sys
import xml.dom.minidom

import pytest

from gradloom.codegen.operators import native_functions
from tests.docs.pages import PAGES, ROOT

GENERATOR = ROOT / "docs" / "_generator"


@pytest.fixture(scope="module")
def module():
    """Imports a module of docs/_generator, as mkdocs does."""
    before = set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(GENERATOR))
        yield importlib.import_module
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(GENERATOR)):
            del sys.modules[name]


@pytest.fixture(scope="module")
def reference(module):
    return module("reference")


@pytest.fixture(scope="module")
def made(reference):
    return reference.pages(ROOT)


def entry(pages: dict[str, str], family: str, name: str) -> str:
    """What the reference says about an operator."""
    return pages[f"operators/{family}.md"].partition(f"\n## `{name}` ")[2].partition("\n## ")[0]


def test_an_entry_says_what_the_yaml_says(made):
    said = entry(made, "elementwise", "addcmul")
    native = native_functions.load(ROOT / "native_functions.yaml")["addcmul"]
    assert f"native_functions.yaml#L{native.text.line})" in said
    for text in (
        "`gradloom.addcmul`",
        "`gradloom.Tensor.addcmul_`",
        "\naddcmul.out(Tensor self",
        "`AddcmulBackward0`",
        "`tensor1` needs a gradient",
        r"\frac{\partial L}{\partial ",
        "`grad * (tensor2 * value).conj()`, [proved for complex numbers](../proofs.md)\n",
    ):
        assert text in said, text


def test_every_operator_is_in_the_reference_and_in_the_support_matrix(made):
    for function in native_functions.load(ROOT / "native_functions.yaml"):
        said = entry(made, function.family, function.schema.name.base)
        assert all(f"\n{schema}\n" in said for schema in function.schemas), function.name
        assert f"| [`{function.name}`](" in made["support.md"]


def test_names_that_a_program_cannot_reach_are_not_given(reference, made):
    assert reference.is_reachable("gradloom.nn.functional.softplus")
    assert reference.is_reachable("gradloom.Tensor.addcmul_")
    assert not reference.is_reachable("gradloom.nn.functional.softplus_backward")
    assert "No program calls it by name" in entry(made, "activation", "softplus_backward")


def test_definitions_are_found(module):
    place = module("locate").Definitions(ROOT, ROOT / "src" / "gradloom").find("kernels", "activation.smooth", "elu")
    assert place.shown == "src/gradloom/kernels/activation/smooth.py"
    assert place.path.read_text().splitlines()[place.line - 1].startswith("def elu(")


def test_a_definition_that_is_not_there_is_an_error(module):
    with pytest.raises(LookupError, match="nonesuch"):
        module("locate").Definitions(ROOT, ROOT / "src" / "gradloom").find("kernels", "activation.smooth", "nonesuch")


def test_links_out_of_docs_lead_to_pages_that_show_the_file(module):
    sources = module("sources")
    text = (
        "see [engine](../../Makefile#L3), [page](../core.md), [folder](../../src)\n\n"
        "```text\n[x](../../Makefile)\n```\n"
    )
    assert list(sources.linked(ROOT, "tutorials/page.md", text)) == ["Makefile"]
    assert sources.rewrite(ROOT, "tutorials/page.md", text) == (
        'see <a href="../source/Makefile.html#__codelineno-0-3">engine</a>, [page](../core.md), folder\n\n'
        "```text\n[x](../../Makefile)\n```\n"
    )


def test_every_note_that_is_referred_to_exists(module):
    known = {note.name for note in module("notes").notes(ROOT)}
    files = [*ROOT.glob("docs/*.md"), *(ROOT / "src").rglob("*.py"), *(ROOT / "codegen").rglob("*.py")]
    for path in files:
        for name in re.findall(r"Note \[([^\]]+)\]", path.read_text(encoding="utf-8")):
            assert " ".join(name.split()) in known, f"{path.relative_to(ROOT)}: Note [{name}]"


def test_what_is_not_there_is_found_by_asking(module):
    differences = module("differences")
    assert differences.is_there("nn")
    assert not differences.is_there("nonesuch") and not differences.is_there("nn.nonesuch")


def test_known_misses_that_refer_to_another_stage_give_its_reason(module, tmp_path):
    (tmp_path / "tests" / "conformance").mkdir(parents=True)
    (tmp_path / "tests" / "conformance" / "known_misses.yaml").write_text(
        "operators:\n  foo:\n    forward: rounding\n    backward: as forward\n    out: as forward; and aliases\n"
    )
    table = module("differences").known_misses(tmp_path)
    assert "| `foo` | forward, backward | rounding |" in table and "| `foo` | out | rounding; and aliases |" in table


def test_known_misses_of_whole_runs_are_shown_with_the_others(module, tmp_path):
    misses = tmp_path / "tests/conformance/known_misses.yaml"
    misses.parent.mkdir(parents=True)
    misses.write_text(
        "operators:\n  add:\n    forward: rounding\nwith --whole:\n  operators:\n    add:\n      backward: order\n"
        "  modules:\n    nn.Linear:\n      forward: width\nbefore 2.15:\n  operators:\n    sub:\n      forward: then\n"
    )
    table = module("differences").known_misses(tmp_path).splitlines()
    assert table[2:] == [
        "| `add` | forward | rounding |",
        "| `add` | backward | order |",
        "| `nn.Linear` | forward | width |",
        "| `sub` | forward (before 2.15) | then |",
    ]
    module("differences").known_misses(ROOT)  # can be read as it is


def test_formulas_are_set_and_wrong_ones_end_the_build(module):
    pytest.importorskip("latex2mathml")
    exceptions = pytest.importorskip("mkdocs.exceptions")
    typeset = module("typeset")
    made = typeset.formulas(r'<p><span class="arithmatex">\(\operatorname{my\_fn}(x) &lt; 1\)</span></p>')
    assert made.startswith("<p><span data-search-exclude><math") and ">my_fn</mi>" in made and "&#x0003C;" in made
    assert ">not implemented: _unique<" in typeset.formulas(
        r'<span class="arithmatex">\(\text{not implemented: \_unique}\)</span>'
    ).replace("&#x000A0;", " ")
    for wrong in (r"\nonesuch{x}", r"x^2^3", r"\frac"):
        with pytest.raises(exceptions.PluginError, match="cannot be set"):
            typeset.formulas(rf'<span class="arithmatex">\({wrong}\)</span>')


def test_the_pictures_are_those_that_the_program_draws(module):
    pictures = module("pictures")
    for name, draw in pictures.DRAWINGS.items():
        made = draw()
        assert (pictures.ASSETS / name).read_text(encoding="utf-8") == made, f"{name}: run docs/_generator/pictures.py"
        xml.dom.minidom.parseString(made)


def test_pictures_are_small_and_shown(module):
    pictures = module("pictures")
    shown = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    for name in [*pictures.DRAWINGS, "digits.png"]:
        assert 1000 < (pictures.ASSETS / name).stat().st_size < pictures.LARGEST
        assert f"assets/{name}" in shown
