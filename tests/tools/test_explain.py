"""`gradloom.explain` and `gradloom explain`: that everything it says of an operator is what is written there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import xml.dom.minidom
from pathlib import Path

import pytest

import gradloom
from gradloom.tools.cli import main
from gradloom.tools.explain import UnknownName, explain
from gradloom.tools.explain.facts import saved_fields
from gradloom.tools.explain.library import libraries, library
from gradloom.tools.explain.lookup import find
from gradloom.utils.viz import describe, saved_values
from tests.waiting import LIMIT

ROOT = Path(__file__).parents[2]


def names(target):
    return [f.name for _, f in find(target, libraries()).functions]


def facts(name):
    return library().facts(library().derivatives[name])


class Double(gradloom.autograd.Function):
    """Twice its argument."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


# --- what can be asked about ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("mul", ["mul.Tensor"]),
        ("mul.Tensor", ["mul.Tensor"]),
        ("mul_", ["mul_.Tensor"]),
        ("add_", ["add_.Tensor"]),
        ("sum", ["sum", "sum.dim_IntList"]),
        ("pow.Scalar", ["pow.Scalar"]),
        ("gradloom.mul", ["mul.Tensor"]),
        ("torch.mul", ["mul.Tensor"]),
        ("aten::mul.Tensor", ["mul.Tensor"]),
        ("ops.aten.mul", ["mul.Tensor"]),
        ("Tensor.mul", ["mul.Tensor"]),
        ("linalg.vector_norm", ["linalg_vector_norm"]),
        ("nn.functional.relu", ["relu"]),
        ("mul_Tensor", ["mul.Tensor"]),
        ("expand_copy", ["expand_copy"]),
        ("MulBackward0", ["mul.Tensor"]),
        ("PowBackward1", ["pow.Tensor_Tensor"]),
        ("mul.out", ["mul.out"]),
        ("PowBackward", ["pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar"]),
        (" sin ", ["sin"]),
        ("ExpandBackward0_copy", ["expand_copy"]),
    ],
)
def test_names(target, expected):
    assert names(target) == expected


def test_operators_on_lists():
    shown = gradloom.explain("_foreach_add.List").text()
    assert "_foreach_add.List(Tensor[] self, Tensor[] other, *, Scalar alpha=1) -> Tensor[]" in shown
    assert "For each tensor, it computes `add.Tensor`" in shown and "foreach: each(add.Tensor)" in shown
    assert "ops/lists/general.py" in shown and "_foreach_add.Scalar" not in shown
    whole = gradloom.explain(gradloom._foreach_add_).text()
    assert all(f"_foreach_add_.{kind}" in whole for kind in ("List", "Scalar", "ScalarList", "Tensor"))
    assert "entry" in whole  # that of _foreach_add, from which they are derived
    fused = gradloom.explain("_fused_adam_").text(sources=False)
    assert "step of an optimizer" in fused and "fused_rules/general.py" in fused
    with pytest.raises(gradloom.tools.explain.UnknownName, match="_foreach_sqrt"):
        gradloom.explain("_foreach_sqrtt")


def test_functions_and_methods():
    x = gradloom.ones(2)
    assert names(gradloom.mul) == names(gradloom.Tensor.mul) == names(x.mul) == ["mul.Tensor"]
    assert names(gradloom.Tensor.__mul__) == ["mul.Tensor"]
    assert names(gradloom.sum) == ["sum", "sum.dim_IntList"]
    assert names(gradloom.nn.functional.linear) == ["linear"]
    assert names(gradloom.linalg.vector_norm) == ["linalg_vector_norm"]


def test_nodes_their_classes_and_tensors():
    x = gradloom.ones(2, requires_grad=True)
    y = x.exp()
    assert names(y) == names(y.grad_fn) == names(type(y.grad_fn)) == ["exp"]
    assert find(Double, libraries()).written is Double
    assert find(Double.apply(x).grad_fn, libraries()).written is Double


def test_what_no_entry_made_is_shown_where_it_is_written():
    x = gradloom.ones(2, requires_grad=True)
    text = str(explain(x.exp().grad_fn.next_functions[0][0]))
    assert "Sink of the graph" in text and re.search(r"core/accumulate_grad\.py:\d+  written by hand", text)
    text = str(explain(Double.apply(x)))
    assert "Twice its argument." in text and f"{Path(__file__).name}:" in text and "return g * 2" in text
    assert "class CopySlices" in str(explain("CopySlices"))
    assert "def meshgrid" in str(explain(gradloom.meshgrid))


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [("mull", "`mul`"), ("tanhh", "`tanh`"), ("MulBackwrd0", "`MulBackward0`"), ("vector_nrm", "`vector_norm`")],
)
def test_an_unknown_name_is_answered_with_one_that_is_close(name, suggestion):
    with pytest.raises(UnknownName, match=f"there is no operator or node `{name}`: did you mean {suggestion}"):
        explain(name)


@pytest.mark.parametrize("name", ["", "zzzzzzzzzz", "..", "add.", "mul.Tensor.out"])
def test_a_name_like_no_other_is_refused_too(name):
    with pytest.raises(UnknownName, match="there is no operator or node"):
        explain(name)


@pytest.mark.parametrize(
    ("thing", "message"),
    [
        (3, "not int"),
        (len, "len is not a function of gradloom"),
        (None, "not NoneType"),
        (gradloom.ones(2), "this tensor has no grad_fn"),
        (lambda: 0, "<lambda> is not a function of gradloom"),
        (int, "int is not a function of gradloom"),
    ],
)
def test_other_things_are_refused(thing, message):
    with pytest.raises(TypeError, match=re.escape(message)):
        explain(thing)


# --- what is said ----------------------------------------------------------------------------------------------------


def test_every_operator_can_be_explained_and_every_place_is_true():
    """Each piece of source that is shown stands in the file and at the line that is named: of one of three operators,
    of all with GRADLOOM_ALL_SAMPLES=1."""
    lines = {}
    for function in list(library().derivatives)[:: 1 if os.environ.get("GRADLOOM_ALL_SAMPLES") == "1" else 3]:
        found = library().facts(function)
        for place in (*found.entries, *[p for _, p in (*found.generated, *found.kernels, *found.helpers)]):
            text = lines.setdefault(place.path, place.path.read_text(encoding="utf-8").splitlines())
            shown = place.text.split("\n")
            assert text[place.line - 1 : place.line - 1 + len(shown)] == shown, (function.name, place.shown)
        assert f"func: {function.function.name}(" in found.entries[0].text.replace('"', "").replace("'", "")
        if function.schema.kind != "out":
            wrapper = dict(found.generated)["wrapper"]
            assert f'"""{function.name}(' in wrapper.text
        if found.node is not None:
            assert f"class {found.node}(" in dict(found.generated)["node"].text
            assert "- name: " in found.entries[1].text
        if function.function.composite is not None or (
            function.function.kernel is not None and function.function.kernel.kind == "named"
        ):
            assert found.kernels, function.name
        if function.info is not None:
            assert len(found.helpers) == len(set(function.info.helpers) | set(function.info.forward_helpers))


def test_the_kernel_is_found_where_it_is_written():
    ((title, place),) = facts("relu").kernels
    assert title == "kernel activation.relu" and place.path.name == "piecewise.py" and "def relu(" in place.text
    assert facts("asinh").kernels == () and facts("asinh").expression == "arcsinh(self)"
    ((title, place),) = facts("special_exp2").kernels
    assert title == "composite special.exp2"


def test_a_composite_names_the_operators_that_it_calls():
    assert facts("linear").calls and set(facts("linear").calls) >= {"addmm"}
    assert facts("special_exp2").calls == ("exp2",) and facts("mul.Tensor").calls == ()
    assert "whose nodes appear in the graph: exp2." in str(explain("special_exp2"))


@pytest.mark.parametrize(("name", "field", "form", "condition", "users"), [
    ("mul.Tensor", "self", "the tensor self, with its version", "if other needs a gradient",
     ["other: grad * self.conj()"]),
    ("mul_.Tensor", "self", "a copy of self, which the operator overwrites", "if other needs a gradient",
     ["other: grad * self.conj()"]),
    ("exp", "result", "the output result, without a reference cycle to its own node", "",
     ["self: grad * result.conj()"]),
    ("sum", "self_sym_sizes", "only self.shape", "", ["self: grad.expand(self.sym_sizes())"]),
    ("add.Tensor", "alpha", "the value of alpha", "", ["other: grad if alpha == 1 else grad * alpha.conj()"]),
    ("cat", "tensors_size_", "only len(tensors)", "", ["the node, to know where the edges of the list end"]),
    ("index.Tensor", "indices", "the tensors of indices, each with its version", "",
     ["self: index_backward(grad, self.sym_sizes(), indices)"]),
])  # fmt: skip
def test_what_is_saved_and_why(name, field, form, condition, users):
    found = next(s for s in saved_fields(library().derivatives[name].info) if s.name == field)
    assert (found.form, found.condition) == (form, condition)
    assert [re.sub(r" \(line \d+\)$", "", u) for u in found.needed_by] == users
    source = (ROOT / "derivatives.yaml").read_text().splitlines()
    for user in found.needed_by:
        number = re.search(r"\(line (\d+)\)$", user)
        assert number is None or source[int(number[1]) - 1].strip() == re.sub(r" \(line \d+\)$", "", user)


def test_a_node_shows_what_it_holds():
    x = gradloom.ones(2, 3, requires_grad=True)
    y = x * gradloom.full((2, 3), 2.0)
    assert saved_values(y.grad_fn) == [("self", "None: no formula will ask for it"), ("other", "2x3 float32")]
    y.sum().backward()
    assert saved_values(y.grad_fn)[1] == ("other", "released by an earlier backward pass")
    assert saved_values(x.sum().grad_fn) == [("self_sym_sizes", "(2, 3)")]
    assert dict(saved_values(x[gradloom.tensor([0])].grad_fn))["indices"].startswith("[1 int64")
    assert saved_values(Double.apply(x).grad_fn) == [("tensor 0", "2x3 float32")]


def test_looking_at_a_node_runs_no_hooks():
    def refuse(_):
        raise AssertionError("a hook ran")

    x = gradloom.ones(2, requires_grad=True)
    with gradloom.autograd.graph.saved_tensors_hooks(lambda t: "packed", refuse):
        y = x.exp() * x
    assert "packed by a saved tensor hook" in explain(y).text(sources=False)


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_anomaly_mode_tells_where_a_node_was_made():
    with gradloom.autograd.detect_anomaly(check_nan=False):
        y = gradloom.ones(2, requires_grad=True).exp()
    text = explain(y).text(sources=False)
    assert "It was made here:" in text and Path(__file__).name in text


def test_long_values_are_cut():
    assert len(describe(tuple(range(100)))) == 60


def test_the_text_of_an_operator():
    text = str(explain("mul"))
    order = [
        "== mul.Tensor ==",
        "native_functions.yaml:",
        "derivatives.yaml:",
        "self: grad * other.conj()",
        "Derivative",
        "∂L/∂x = g · y*",
        "Proved equal to the derivative of the definition: self for complex numbers,",
        "Support",
        "double backward  yes",
        "What MulBackward0 saves",
        "Generated code",
        "variable_type/elementwise.py:",
        "def mul(input=MISSING, other=MISSING, *, out=None):",
        "functions/elementwise.py:",
        "class MulBackward0(Node):",
    ]
    places = [text.index(words) for words in order]
    assert places == sorted(places)
    brief = explain("mul").text(sources=False)
    assert "class MulBackward0" not in brief and "derivatives.yaml:" in brief


def test_color_is_only_there_when_asked_for():
    assert "\x1b[" not in str(explain("exp"))
    assert "\x1b[1m== exp ==" in explain("exp").text(color=True)


def test_without_pygments_the_source_is_plain(monkeypatch):
    monkeypatch.setitem(sys.modules, "pygments", None)
    assert "    - func: exp(Tensor self) -> Tensor" in explain("exp").text(color=True)
    assert "<pre>- func: exp(Tensor self) -&gt; Tensor" in explain("exp").html()


def test_html_is_a_page_of_its_own_with_typeset_formulas():
    page = explain("pow").html()
    assert page.startswith("<!DOCTYPE html>") and "<h3>pow.Tensor_Scalar</h3>" in page
    assert not re.search(r"<script|<link|src=|https?://(?!www\.w3\.org)", page)
    assert "<mfrac><mrow><mo>∂</mo><mi>L</mi></mrow><mrow><mo>∂</mo><mi>x</mi></mrow></mfrac>" in page


def test_a_notebook_gets_html():
    shown = explain("exp")._repr_html_()
    assert shown.startswith('<div class="gradloom-explain">') and "<html" not in shown


def test_the_mathml_of_every_operator_is_well_formed():
    count = 0
    for function in library().derivatives:
        if function.info is not None:
            equations = library().notation.of(function)
            for equation in (*equations.backward, *equations.forward):
                xml.dom.minidom.parseString(equation.mathml)
                count += 1
    assert count > 1000


# --- the command -----------------------------------------------------------------------------------------------------


def test_the_command_prints_what_the_function_gives(capsys):
    assert main(["explain", "exp"]) == 0
    assert capsys.readouterr().out == str(explain("exp"))
    assert main(["explain", "exp", "--brief", "--color", "always"]) == 0
    assert "\x1b[1m" in capsys.readouterr().out


def test_the_command_writes_html(tmp_path, capsys):
    assert main(["explain", "exp", "--html", str(tmp_path / "exp.html")]) == 0
    assert (tmp_path / "exp.html").read_text(encoding="utf-8") == explain("exp").html()
    assert capsys.readouterr().out == f"wrote {tmp_path / 'exp.html'}\n"
    assert main(["explain", "exp", "--html", "-"]) == 0
    assert capsys.readouterr().out.startswith("<!DOCTYPE html>")


def test_the_command_answers_an_unknown_name_with_exit_code_2(capsys):
    assert main(["explain", "mull"]) == 2
    assert capsys.readouterr().err == "gradloom: there is no operator or node `mull`: did you mean `mul`?\n"


def test_the_command_says_why_a_page_cannot_be_written(tmp_path, capsys):
    assert main(["explain", "exp", "--html", str(tmp_path / "no" / "exp.html")]) == 2
    assert "No such file or directory" in capsys.readouterr().err


def test_the_command_prints_where_the_signs_of_mathematics_are_missing():
    done = subprocess.run(
        [sys.executable, "-m", "gradloom", "explain", "exp", "--brief"],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        cwd=ROOT,
        timeout=LIMIT,
    )
    assert done.returncode == 0 and b"?L/?x = g ? z*" in done.stdout and not done.stderr


def test_the_command_may_be_cut_short():
    command = f"{sys.executable} -m gradloom explain conv2d | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, cwd=ROOT, timeout=LIMIT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "== conv2d ==\n", "")


def test_explain_is_imported_only_when_it_is_asked_for():
    code = (
        "import sys, gradloom; assert 'gradloom.tools' not in sys.modules and 'pygments' not in sys.modules; "
        "gradloom.explain; assert 'gradloom.tools.explain' in sys.modules and 'pygments' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=LIMIT)
    assert gradloom.explain is explain
