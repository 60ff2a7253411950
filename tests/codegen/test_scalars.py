"""Definitions of pointwise operators: what `scalar:` may say, the kernel it makes, a kernel as a definition."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gradloom
from gradloom.codegen.errors import SpecError
from gradloom.codegen.language.kernels import analyse
from gradloom.codegen.language.scalars import (
    Scalar,
    analyse_scalar,
    array_expression,
    from_formula,
    from_kernel,
    is_worth_code,
)
from gradloom.codegen.operators import native_functions
from gradloom.codegen.reading.python_files import FunctionIndex
from gradloom.codegen.reading.yaml_files import parse_entries
from gradloom.codegen.schema import parse
from gradloom.ops import define
from gradloom.tools.verify import own_operators, verify
from gradloom.tools.verify.definitions import evaluate

SCHEMA = parse("f(Tensor self, Tensor other, *, Scalar value=1, float? limit=None, str mode='a') -> Tensor")


def scalar(text: str) -> Scalar:
    quoted = text.replace("'", "''")
    (entry,) = parse_entries(f"- scalar: '{quoted}'\n", "f.yaml")
    return analyse_scalar(entry.fields["scalar"], SCHEMA)


@pytest.mark.parametrize(
    ("text", "kernel"),
    [
        ("self / (1 + exp(-self))", "self / (1 + xp.exp(-self))"),
        ("where((self > 0) & (other < pi), self, value)", "xp.where((self > 0) & (other < xp.pi), self, value)"),
        ("self if limit is None else minimum(self, limit)", "self if limit is None else xp.minimum(self, limit)"),
        ("self ** 3 if mode == 'a' else inf", "self ** 3 if mode == 'a' else xp.inf"),
    ],
)
def test_a_definition_makes_the_kernel(text, kernel):
    assert array_expression(scalar(text)) == kernel


@pytest.mark.parametrize(
    ("text", "worth"),
    [
        ("self / (1 + exp(-self))", True),
        ("where(self > 0, self, 0)", True),
        ("self + other * value", True),
        ("exp(self)", False),
        ("self * (pi / 180)", False),
        ("maximum(self, value)", False),
        ("fmod(self, other)", True),
        ("self // other", True),
        ("erf(self)", True),
        ("where(self == 0, -1 / self, digamma(self))", False),
        ("sqrt(self) if value == 0.5 else 1 / sqrt(self)", False),
        ("1 / sqrt(self) if value == 0.5 else sqrt(self)", True),
        ("maximum(minimum(self, value), limit) if limit is not None else minimum(self, value)", True),
    ],
)
def test_several_calls_of_numpy_are_worth_machine_code(text, worth):
    assert is_worth_code(scalar(text)) == worth


@pytest.mark.parametrize(
    ("text", "at", "message"),
    [
        ("slef + 1", "slef", "unknown name `slef`"),
        ("xp.exp(self)", "xp.exp", "`xp.exp` is not a function of numbers"),
        ("sum(self)", "sum", "`sum` is not a function of numbers"),
        ("self.shape", "self.shape", "`self.shape` is outside the scalar language"),
        ("self[0]", "self[0]", "`self[0]` is outside the scalar language"),
        ("self @ other", "self @ other", "`self @ other` is outside the scalar language"),
        ("exp(self, other)", "exp(self, other)", "`exp` takes 1 argument(s)"),
        ("where(self)", "where(self)", "`where` takes 3 argument(s)"),
        ("self if self > 0 else 0", "self if self > 0 else 0", "`if` on the elements of a tensor"),
        ("self > 0 and other > 0", "self > 0 and other > 0", "`and`, `or` on the elements of a tensor"),
        ("[self]", "[self]", "`[self]` is outside the scalar language"),
        ("9 ** 99", "9 ** 99", "a constant of more than 64 bits"),
    ],
)
def test_what_a_definition_may_not_say(text, at, message):
    with pytest.raises(SpecError) as error:
        scalar(text)
    assert message in str(error.value)
    (line,) = [line for line in str(error.value).splitlines() if line.strip().startswith("^")]
    assert line.count("^") + line.count("~") == len(at)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("tags: reduction\n  scalar: self", "`f` is not pointwise"),
        ("tags: pointwise\n  scalar: exp(self) +", "nothing follows `+`"),
    ],
)
def test_what_an_entry_may_not_say(entry, message):
    with pytest.raises(SpecError, match=message.replace("+", r"\+")):
        define(f"- func: f(Tensor self) -> Tensor\n  {entry}\n")


def test_an_operator_by_its_definition_alone():
    definition = define("""
    - func: swish_by(Tensor self, Tensor other) -> Tensor
      tags: pointwise
      scalar: where(self > 0, self / (1 + exp(-other * self)), 0)
    - name: swish_by(Tensor self, Tensor other) -> Tensor
      self, other: not_implemented("swish_by")
    """)
    x = gradloom.tensor([1.0, -2.0, 0.5])
    try:
        found = gradloom.ops.user.swish_by(x, gradloom.tensor(2.0))
    finally:
        definition.remove()
    np.testing.assert_allclose(found.numpy(), [1 / (1 + np.exp(-2.0)), 0, 0.5 / (1 + np.exp(-1.0))], rtol=1e-6)


def test_a_kernel_that_is_elementwise_is_a_definition():
    index = FunctionIndex(Path(native_functions.__file__).parents[2] / "src" / "gradloom" / "kernels")

    def read(text):
        (entry,) = parse_entries(f"- kernel: {text}\n", "f.yaml")
        found = from_kernel(analyse(entry.fields["kernel"], SCHEMA, index))
        return found and found.source

    assert (
        read("xp.where(self > 0, xp.square(self), xp.reciprocal(other))") == "where(self > 0, self * self, 1 / other)"
    )
    assert read("xp.logical_and(self, other)") == "(self != 0) & (other != 0)"
    assert read("self * xp.pi") == "self * pi"
    for text in ("xp.sum(self)", "self.real", "self[0]", "xp.add(self, other, dtype=xp.float32)", "xp.exp"):
        try:
            assert read(text) is None
        except SpecError:
            assert text == "xp.exp"


def test_verify_finds_a_kernel_that_differs_from_its_definition_at_an_infinity():
    definition = define("""
    - func: halved_logistic(Tensor self) -> Tensor
      tags: pointwise
      scalar: 0.5 / (1 + exp(-self))
      kernel: 0.5 * xp.exp(self) / (1 + xp.exp(self))
    - name: halved_logistic(Tensor self) -> Tensor
      self: not_implemented("halved_logistic")
    """)
    try:
        (finding,) = [f for f in verify(package=definition).findings if f.check == "scalar"]
    finally:
        definition.remove()
    assert "differs from `scalar: 0.5 / (1 + exp(-self))`, first at self=" in finding.message


def test_most_pointwise_operators_are_defined():
    pointwise = [o for o in own_operators() if o.is_pointwise and o.schema.kind == "functional"]
    defined = [o for o in pointwise if o.joined.function.scalar is not None]
    assert len(defined) >= 140
    silu = next(o for o in defined if o.name == "silu").joined.function.scalar
    np.testing.assert_allclose(evaluate(silu, {"self": gradloom.tensor([0.0, 1.0])}), [0, 1 / (1 + np.exp(-1))])


FORMULA_OPERATORS = {
    "cos": [(Scalar("cos(self)", None), parse("cos(Tensor self) -> Tensor"))],
    "add": [
        (
            Scalar("self + other * alpha", None),
            parse("add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"),
        ),
        (Scalar("self - other", None), parse("add.Scalar(Tensor self, Scalar other) -> Tensor")),
    ],
    "pick": [(Scalar("self if mode == 'a' else 0", None), parse("pick(Tensor self, *, str mode='a') -> Tensor"))],
}


@pytest.mark.parametrize(
    ("formula", "definition"),
    [
        ("grad * self.cos().conj()", "grad * cos(self)"),
        ("grad * cos(self + 1)", "grad * cos(self + 1)"),
        ("-grad.add(self, alpha=value)", "-(grad + self * value)"),
        ("add(grad, value)", "grad - value"),
        ("pick(grad)", "grad if 'a' == 'a' else 0"),
        ("pick(grad, mode=word)", "grad if word == 'a' else 0"),
        ("grad.add(self, beta=2)", None),
        ("grad if value else self", None),
        ("grads[0]", None),
        ("grad.reshape(value)", None),
        ("helper(grad)", None),
        ("value * 2", None),
    ],
)
def test_a_formula_as_a_definition(formula, definition):
    found = from_formula(formula, ("grad", "self"), FORMULA_OPERATORS)
    assert (found and found.source) == definition
