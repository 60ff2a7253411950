"""The tester tested: planted defects must be found, and sound operators appended to the files must pass."""

from __future__ import annotations

import pytest

from gradloom.autograd.gradcheck import GradcheckError
from gradloom.tools.verify.checks import Sample, check_first_order, check_second_order, check_variants
from gradloom.tools.verify.sampler import samples

from .planted import build

ENTRIES = """
- func: planted_sound(Tensor self, Tensor other) -> Tensor
  variants: function
  autogen: planted_sound_, planted_sound.out
  kernel: xp.sin(self) * other

- func: planted_first(Tensor self) -> Tensor
  kernel: xp.sin(self)

- func: planted_sign(Tensor self) -> Tensor
  kernel: xp.cos(self)

- func: planted_input(Tensor self, Tensor other) -> Tensor
  kernel: self * other

- func: planted_second(Tensor self) -> Tensor
  kernel: xp.sin(self)

- func: planted_tangent(Tensor self) -> Tensor
  kernel: xp.sin(self)

- func: planted_undefined(Tensor self) -> (Tensor, Tensor)
  kernel: (self * 2, self * 3)

- func: planted_no_tangent(Tensor self) -> Tensor
  kernel: xp.sin(self)
"""

FORMULAS = """
- name: planted_sound(Tensor self, Tensor other) -> Tensor
  self: grad * (self.cos() * other).conj()
  other: grad * self.sin().conj()
  result: self_t * self_p.cos() * other_p + other_t * self_p.sin()

- name: planted_first(Tensor self) -> Tensor
  self: grad * self.sin()
  result: self_t * self_p.cos()

- name: planted_sign(Tensor self) -> Tensor
  self: grad * self.sin()
  result: auto_element_wise

- name: planted_input(Tensor self, Tensor other) -> Tensor
  self: grad * other
  other: grad * other
  result: self_t * other_p + other_t * self_p

- name: planted_second(Tensor self) -> Tensor
  self: grad * self.cos().detach()
  result: auto_element_wise

- name: planted_tangent(Tensor self) -> Tensor
  self: grad * self.cos()
  result: self_t * self_p.sin()

- name: planted_undefined(Tensor self) -> (Tensor, Tensor)
  self: "grads[0] * 2 + (grads[1] * 3 if grads[1] is not None else grads[0])"
  result0: self_t * 2
  result1: self_t * 3

- name: planted_no_tangent(Tensor self) -> Tensor
  self: grad * self.cos()
"""


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    return build(tmp_path_factory.mktemp("planted"), ENTRIES, FORMULAS)


def cases(operator):
    return [Sample(operator, args, kwargs) for args, kwargs in samples(operator)]


def check(operator):
    for case in cases(operator):
        check_variants(case)
        check_first_order(case)
        check_second_order(case)


def test_a_sound_operator_passes(planted):
    check(planted["planted_sound"])


@pytest.mark.parametrize("name", ["first", "sign", "input", "second", "tangent", "undefined"])
def test_a_wrong_derivative_is_found(planted, name):
    with pytest.raises(GradcheckError):
        check(planted[f"planted_{name}"])


def test_a_missing_forward_formula_is_found(planted):
    with pytest.raises(AssertionError, match="has no forward-mode formula"):
        check(planted["planted_no_tangent"])


def test_only_the_second_derivative_of_planted_second_is_wrong(planted):
    for case in cases(planted["planted_second"]):
        check_first_order(case)
    with pytest.raises(GradcheckError):
        check_second_order(cases(planted["planted_second"])[0])
