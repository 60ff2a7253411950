"""The library reference: each name has a page with a short, true example, and docstrings become Markdown.

tests/conformance/test_examples.py runs the examples with PyTorch.
"""

from __future__ import annotations

import doctest
import importlib
import io
import warnings

import pytest

import gradloom
from tests.docs.pages import ROOT

MODULES = ["nn", "nn.functional", "optim", "optim.lr_scheduler", "utils.data", "distributions"]


def load_api():
    """Import docs/_generator/api.py, as mkdocs does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "docs" / "_generator"))
        return importlib.import_module("api")


api = load_api()


def failures(torch, examples: dict[str, str]) -> str:
    """Run examples, each after `torch.manual_seed(0)`; return what doctest says of those that print something else."""
    report = io.StringIO()
    for name, text in examples.items():
        torch.manual_seed(0)
        text = text.replace("gradloom", torch.__name__)
        test = doctest.DocTestParser().get_doctest(text, api.names_of_examples(torch), name, None, None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            doctest.DocTestRunner(verbose=False).run(test, out=report.write)
    return report.getvalue()


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_print_what_they_say(module):
    found = failures(gradloom, api.examples(module))
    assert not found, found


@pytest.mark.parametrize("module", MODULES)
def test_each_name_has_a_short_example_that_uses_it(module):
    examples = api.examples(module)
    assert list(examples) == list(api.members(module))  # in the order of the names, without regard to case
    for name, text in examples.items():
        assert name in text and text.count("\n") <= 12, name
        assert len(doctest.DocTestParser().get_examples(text)) and max(map(len, text.splitlines())) <= 132, name


def test_a_wrong_example_is_found():
    assert "Expected:\n    3\nGot:\n    2\n" in failures(gradloom, {"sum": ">>> 1 + 1\n3\n"})


def test_every_public_class_and_function_has_a_page():
    pages = api.pages({"softmax": "activation"})
    assert set(api.MODULES) == set(MODULES)
    for module, names in (("nn", ["Conv2d", "Module", "LSTM"]), ("nn.functional", ["softmax", "conv2d", "relu_"]),
                          ("optim", ["AdamW"]), ("optim.lr_scheduler", ["StepLR"]), ("utils.data", ["DataLoader"]),
                          ("distributions", ["Normal", "kl_divergence"])):  # fmt: skip
        index = pages[f"api/{module}.md"]
        for name in names:
            assert f"]({module}/{name}.md)" in index
            assert f"\n## Example\n\n```pycon\n{api.examples(module)[name]}```" in pages[f"api/{module}/{name}.md"]
    assert "../../operators/activation.md#softmax" in pages["api/nn.functional/softmax.md"]


def test_a_page_has_signature_arguments_shapes_errors_and_methods():
    page = api.pages({})["api/nn/Conv2d.md"]
    assert "\nnn.Conv2d(in_channels, out_channels, kernel_size, stride=1, padding=0, " in page
    for text in ("## Arguments\n\n`in_channels`\n:   number of", "## Shapes\n\n`input`\n:   (N, C\\_in", "## Errors\n"):
        assert text in page
    assert "reset\\_parameters" in page and "named\\_parameters" not in page
    module = api.pages({})["api/nn/Module.md"]
    assert "\n### named\\_parameters\n" in module and "\n### register\\_forward\\_hook\n" in module


DOCSTRING = """Do something with `x_1`, of *any* size.

A second paragraph:

With steps::

    a = b * c

Args:
    first, second: two things, the first of which
        has a long text.

Shape:
    input: (*, in_features).
"""
MARKDOWN = r"""Do something with `x_1`, of \*any\* size.

A second paragraph:

With steps:

```text
a = b * c
```

## Arguments

`first`, `second`
:   two things, the first of which has a long text.

## Shapes

`input`
:   (\*, in\_features).
"""


def test_a_docstring_as_markdown():
    lines = "\n".join(api.markdown(DOCSTRING.strip())) + "\n"
    assert [line for line in lines.splitlines() if line] == [line for line in MARKDOWN.splitlines() if line]
    assert "size.\n\nA second paragraph:\n\nWith steps:\n\n```text" in lines


def test_signatures_leave_out_annotations_and_private_parameters():
    def function(x: int, *, dim: int = 0, _stacklevel: int = 3) -> int:
        return x

    assert api.signature(function) == "(x, *, dim=0)" and api.signature(function, method=True) == "(*, dim=0)"
