"""`gradloom.explain` of operators that are not gradloom's own: of packages, and of `gradloom.ops.define`."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

import gradloom
from gradloom.tools.explain import UnknownName, explain
from tests.waiting import LIMIT

YAML = """
- func: softabs(Tensor self, float eps=0.1) -> Tensor
  variants: function, method
  autogen: softabs_, softabs.out
  tags: pointwise
  type_promotion: int_to_float
  kernel: python.softabs_kernel
- name: softabs(Tensor self, float eps=0.1) -> Tensor
  self: softabs_slope(grad, self, result)
  result: auto_element_wise
"""
OVERRIDE = """
- name: sin(Tensor self) -> Tensor
  override: true
  self: grad * self.cos() * 2
  result: auto_element_wise
"""


def softabs_kernel(self, eps):
    return (self * self + eps * eps) ** 0.5


def softabs_slope(grad, self, result):
    """x / softabs(x)."""
    for _ in range(1):
        grad = grad * self
    return grad / result


@pytest.fixture
def softabs():
    with gradloom.ops.define(YAML, kernels=[softabs_kernel], helpers=[softabs_slope]) as definition:
        yield definition


def test_an_operator_that_was_defined_in_memory(softabs):
    text = str(explain("softabs"))
    order = [
        "== softabs ==",
        "<define>:2  entry",
        "kernel: python.softabs_kernel",
        "<define>:8  entry",
        "self: softabs_slope(grad, self, result)",
        "∂L/∂x = softabs_slope(g, x, z)",
        "in-place         yes (softabs_)",
        "What SoftabsBackward0 saves",
        f"{os.path.basename(__file__)}:",
        "def softabs_kernel(self, eps):",
        "def softabs_slope(grad, self, result):",
        "def softabs(input=MISSING, eps=0.1, *, out=None):",
        "class SoftabsBackward0(Node):",
    ]
    places = [text.index(words) for words in order]
    assert places == sorted(places)


def test_it_is_found_by_its_names_functions_and_nodes(softabs):
    x = gradloom.ones(2, requires_grad=True)
    expected = str(explain("softabs"))
    for target in (
        "user.softabs",
        "ops.user.softabs",
        "gradloom.ops.user.softabs",
        "user::softabs",
        gradloom.ops.user.softabs,
        gradloom.Tensor.softabs,
        "SoftabsBackward0",
        type(x.softabs().grad_fn),
    ):
        assert str(explain(target)) == expected
    assert "This SoftabsBackward0" in str(explain(x.softabs()))
    assert "derived by `autogen:`" in str(explain("softabs_"))


def test_its_support_row_is_found_as_for_gradlooms_own(softabs):
    text = explain("softabs").text(sources=False)
    assert "double backward  yes" in text and "complex numbers  yes (by trying)" in text


def test_it_is_suggested_and_forgotten(softabs):
    with pytest.raises(UnknownName, match="did you mean `softabs`"):
        explain("softbs")
    softabs.remove()
    with pytest.raises(UnknownName):
        explain("softabs")


def test_gradlooms_own_come_first_and_show_what_replaces_them():
    plain = str(explain("sin"))
    with gradloom.ops.define(OVERRIDE):
        text = str(explain("sin"))
        assert "Its derivative is replaced by this one:\n  <define>:2  override\n    - name: sin(Tensor self)" in text
        assert "∂L/∂x = g · cos(x)*" in text
        replaced = str(explain(gradloom.ones(2, requires_grad=True).sin()))
        assert "∂L/∂x = 2 · g · cos(x)" in replaced and "<define>:2  entry" in replaced
        assert "functions.overrides>:" in replaced
    assert str(explain("sin")) == plain


# --- a package -------------------------------------------------------------------------------------------------------


def run(*command, cwd, **environment):
    done = subprocess.run(
        [str(c) for c in command],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        cwd=cwd,
        env={**os.environ, **environment},
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def myops(tmp_path_factory):
    """The project that `gradloom new` makes."""
    folder = tmp_path_factory.mktemp("new")
    code, text = run(sys.executable, "-m", "gradloom", "new", "myops", cwd=folder)
    assert code == 0, text
    return folder / "myops"


def test_every_operator_of_a_package_is_explained_from_its_files(myops):
    code, text = run(
        sys.executable,
        "-W",
        "error",
        "-c",
        textwrap.dedent("""
        import gradloom, myops
        from gradloom.tools.explain.library import libraries
        mine = libraries()[1]
        for function in mine.derivatives:
            facts = mine.facts(function)
            for place in (*facts.entries, *[p for _, p in (*facts.generated, *facts.kernels, *facts.helpers)]):
                lines = place.path.read_text().splitlines()
                shown = place.text.split(chr(10))
                assert lines[place.line - 1:place.line - 1 + len(shown)] == shown, place.shown
                assert "myops" in str(place.path)
            if function.schema.kind != "out":
                assert dict(facts.generated)["wrapper"]
            print(function.name, facts.node, len(facts.kernels), len(facts.helpers), facts.support.reverse.answer)
        name = next(iter(gradloom.ops.myops))
        assert str(gradloom.explain(getattr(gradloom.ops.myops, name))) == str(gradloom.explain(f"myops.{name}"))
    """),
        cwd=myops,
        PYTHONPATH=str(myops / "src"),
    )
    assert code == 0, text
    assert "Backward0" in text and "yes" in text


@pytest.mark.parametrize("where", ["project", "elsewhere"])
def test_the_command_knows_the_package_of_a_project(myops, where, tmp_path):
    code, text = run(
        sys.executable,
        "-c",
        "import gradloom, myops; print(next(iter(gradloom.ops.myops)))",
        cwd=myops,
        PYTHONPATH=str(myops / "src"),
    )
    name = text.strip()
    assert code == 0, text
    more = [] if where == "project" else ["--package", myops]
    code, text = run(
        sys.executable,
        "-m",
        "gradloom",
        "explain",
        f"myops.{name}",
        "--brief",
        *more,
        cwd=myops / "src" if where == "project" else tmp_path,
    )
    assert code == 0, text
    assert f"== {name} ==" in text and "derivatives.yaml:" in text


def test_a_package_that_is_not_there_is_an_error_of_usage(tmp_path):
    code, text = run(sys.executable, "-m", "gradloom", "explain", "mul", "--package", "no_such_package", cwd=tmp_path)
    assert code == 2 and "there is no package `no_such_package`" in text
