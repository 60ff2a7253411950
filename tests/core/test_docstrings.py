"""What `help()` says of operators: signatures, the derivative, where it comes from."""

from __future__ import annotations

import inspect
import pydoc
import subprocess
import sys

import pytest

import gradloom
from gradloom.generated import namespaces
from tests.waiting import LIMIT

pytestmark = pytest.mark.skipif(sys.flags.optimize > 1, reason="python -OO leaves docstrings out")


def test_a_function_says_what_it_computes_how_it_differentiates_and_where_that_is_written():
    assert inspect.getdoc(gradloom.mul) == inspect.cleandoc("""mul.Tensor(Tensor self, Tensor other) -> Tensor

    z = x · y
    ∂L/∂x = g · y*
    ∂L/∂y = g · x*
    dz = dy · x + dx · y
    where x = self, y = other, z = result, g = ∂L/∂z

    MulBackward0, from the entry mul.Tensor of derivatives.yaml.
    """)


def test_methods_say_the_same_as_functions():
    assert gradloom.Tensor.mul.__doc__ == gradloom.mul.__doc__
    assert gradloom.Tensor.sum.__doc__ == gradloom.sum.__doc__


def test_help_shows_the_signature_and_every_overload():
    text = pydoc.plain(pydoc.render_doc(gradloom.std))
    assert "std.correction(Tensor self, int[1]? dim=None, *, Scalar? correction=None" in text
    assert "std(Tensor self, bool unbiased=True) -> Tensor" in text
    assert "StdBackward0, from the entry std.correction of derivatives.yaml." in text
    assert "mul(input, other, *, out=None)" in pydoc.plain(pydoc.render_doc(gradloom.mul))


def test_signatures_show_required_arguments_without_a_default():
    x = gradloom.ones(2)
    assert str(inspect.signature(gradloom.cumsum)) == "(input, dim, *, dtype=None, out=None)"
    assert str(inspect.signature(x.cumsum)) == "(dim, *, dtype=None)"
    assert str(inspect.signature(gradloom.Tensor.__mul__)) == "(input, other, *, out=None)"
    assert str(inspect.signature(x.uniform_)) == "(from_=0.0, /, to=1.0, *, generator=None)"
    spaces = gradloom, gradloom.Tensor, gradloom.nn.functional, gradloom.linalg, gradloom.fft, gradloom.special
    functions = [f for space in spaces for n in dir(space) if inspect.isfunction(f := getattr(space, n, None))]
    assert len(functions) > 1500
    assert not [f for f in functions if "MISSING" in str(inspect.signature(f))]


def test_the_source_of_a_wrapper_is_found_behind_its_signature():
    for function in gradloom.mul, gradloom.Tensor.__mul__:
        assert inspect.getsource(function).startswith("def mul(input=MISSING, other=MISSING, *, out=None):")
    assert inspect.getsourcefile(gradloom.mul).endswith("elementwise.py")


def test_an_inplace_variant_points_at_its_operator():
    assert gradloom.Tensor.mul_.__doc__.splitlines()[2].strip() == (
        "mul.Tensor, written into self; see there for the derivative."
    )


def test_an_inplace_operator_with_an_entry_of_its_own_shows_that():
    assert "from the entry elu_ of derivatives.yaml" in gradloom.dispatch._operators.elu_.__doc__


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("absolute", "Made of other operators by composite.elementwise.absolute, and differentiable through them."),
        ("floor_divide", "Its derivative is not implemented."),
        ("argmax", "Its result never requires a gradient."),
        ("expand_copy", "ExpandBackward0_copy, from the entry expand of derivatives.yaml."),
        ("std_mean", "where x = self, z₀ = result0, z₁ = result1, g₀ = ∂L/∂z₀, g₁ = ∂L/∂z₁"),
        ("aminmax", "g_min = ∂L/∂min, g_max = ∂L/∂max"),
        ("unbind", "g = the gradients of all results"),
        ("topk", "g = ∂L/∂values"),
        ("prod", "prod_backward: d(prod x)/dx_k = prod over j != k of x_j."),
    ],
)
def test_what_else_a_docstring_says(name, words):
    assert words in getattr(gradloom.dispatch._operators, name).__doc__


def test_every_public_operator_has_a_docstring_that_starts_with_its_schema():
    for name, function in namespaces.OPERATORS.items():
        assert function.__doc__.startswith(f"{name}(") or function.__doc__.startswith(f"{name}."), name


def test_every_overload_is_named_in_the_docstring_of_its_function():
    for name, entries in namespaces.ENTRIES.items():
        for _, wrapper in entries:
            assert wrapper.__doc__.strip() in namespaces.OPERATORS[name].__doc__


def test_docstrings_survive_python_without_them():
    """`python -OO` has none; overloads then show the signatures that the parser knows."""
    code = (
        "import gradloom; assert gradloom.mul.__doc__ is None; "
        "assert gradloom.sum.__doc__.startswith('sum(Tensor self'); print(gradloom.ones(2).sum())"
    )
    done = subprocess.run([sys.executable, "-OO", "-c", code], capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "tensor(2.)\n"
