"""The tester tested: planted defects must be found, and sound operators appended to the files must pass."""

from __future__ import annotations

import pytest

from gradloom.tools.verify import verify_operator
from gradloom.tools.verify.findings import COMPOSITIONS

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

- func: planted_nan(Tensor self) -> Tensor
  kernel: xp.sin(self)

- func: planted_range(Tensor self) -> Tensor
  tags: pointwise
  kernel: 1 / self
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
  self: grad * self.cos().conj().detach()
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

- name: planted_nan(Tensor self) -> Tensor
  self: grad * (self.cos() + (self * 0).abs().sqrt()).conj()
  result: self_t * self_p.cos()

- name: planted_range(Tensor self) -> Tensor
  self: -grad * (result * result).conj()
  result: -self_t * self_p.pow(3) / self_p.pow(5)
"""


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    return build(tmp_path_factory.mktemp("planted"), ENTRIES, FORMULAS)


def checks(operator) -> set[str]:
    """The checks that find something."""
    return {f.check for f in verify_operator(operator).findings}


def test_a_sound_operator_passes(planted):
    result = verify_operator(planted["planted_sound"])
    assert not result.findings
    assert result.counts.keys() >= {
        "variants",
        "layout",
        "dtypes",
        "reverse",
        "forward",
        "dot product",
        "complex step",
        "undefined",
        *COMPOSITIONS.values(),
    }


@pytest.mark.parametrize(
    "name, check",
    [
        ("first", "reverse"),
        ("sign", "reverse"),
        ("input", "reverse"),
        ("second", "rev-rev"),
        ("tangent", "forward"),
        ("undefined", "undefined"),
        ("no_tangent", "forward"),
        ("nan", "rev-rev"),
        ("range", "boundary"),
    ],
)
def test_a_wrong_derivative_is_found(planted, name, check):
    assert check in checks(planted[f"planted_{name}"])


def test_only_the_second_derivative_of_planted_second_is_wrong(planted):
    assert checks(planted["planted_second"]) == {"rev-rev", "fwd-rev", "rev-fwd", "fwd-fwd"}
