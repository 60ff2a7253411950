"""The assertions of GRADLOOM_DEBUG: each planted mistake is found, and its right twin passes."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import gradloom as torch
from gradloom.tools import define as definitions


def scale(self, factor):
    return self * factor


def itself(self, factor):
    return self


def overwriting(self, factor):
    np.multiply(self, factor, self)
    return self.copy()


def copies(self):
    return self[::2].copy(), self[1::2].copy()


def halves(self):
    return self[::2], self[1::2]


def twins(self):
    half = self[::2].copy()
    return half, half


def head(self):
    return self[:2]


def head_copy(self):
    return self[:2].copy()


def write_(self, other):
    np.multiply(self, other, self)


def write_both_(self, other):
    np.multiply(self, other, self)
    np.multiply(self, other, other)


def narrow(self, grad):
    return self * grad


def wide(self, grad):
    return self.astype(np.float64) * grad


SCALE = "func: op(Tensor self, float factor) -> Tensor"
PAIR = "func: op(Tensor self) -> (Tensor, Tensor)"
VIEW = "func: op(Tensor(a) self) -> Tensor(a)"
WRITE = "func: op_(Tensor(a!) self, Tensor other) -> Tensor(a!)"
# (schema, kernel, other arguments than a tensor of four elements, the message; None for a kernel that is right)
KERNELS = [
    (SCALE, scale, (2.0,), None),
    (SCALE, itself, (2.0,), "op: output 0 shares the memory of `input`"),
    (SCALE, overwriting, (2.0,), "op: the kernel wrote to `input`"),
    (PAIR, copies, (), None),
    (PAIR, halves, (), "op: output 0 shares the memory of `input`"),
    (PAIR, twins, (), "op: output 1 shares the memory of an earlier output"),
    (VIEW, head, (), None),
    (VIEW, head_copy, (), "op: output 0 does not share memory with the tensor that it is a view of"),
    (WRITE, write_, (torch.full((4,), 2.0),), None),
    (WRITE, write_both_, (torch.full((4,), 2.0),), "op_: the kernel wrote to `other`"),
]
GRADIENTS = [
    (narrow, None),
    (wide, "gradient 0 has dtype float64; its input has float32, and the incoming gradients have float32"),
]


@pytest.fixture
def define(monkeypatch):
    """Return `define(text, *kernels)`, whose generated code has the assertions."""
    monkeypatch.setattr(definitions, "DEBUG", True)
    made = []

    def with_assertions(text, *kernels):
        made.append(torch.ops.define(text, namespace="debugged", kernels=kernels))
        return torch.ops.debugged

    yield with_assertions
    for definition in made:
        definition.remove()


def _ids(cases):
    return [next(part.__name__ for part in case if callable(part)) for case in cases]


@pytest.mark.parametrize("schema, kernel, arguments, message", KERNELS, ids=_ids(KERNELS))
def test_a_kernel_keeps_to_its_schema(define, schema, kernel, arguments, message):
    ops = define(f"- {schema}\n  kernel: python.{kernel.__name__}", kernel)
    op = ops.op_ if kernel.__name__.endswith("_") else ops.op
    if message is None:
        op(torch.arange(4.0), *arguments)
    else:
        with pytest.raises(AssertionError, match=message):
            op(torch.arange(4.0), *arguments)


@pytest.mark.parametrize("kernel, message", GRADIENTS, ids=_ids(GRADIENTS))
def test_a_gradient_has_the_metadata_of_its_input(define, kernel, message):
    ops = define(
        f"""
        - func: op_backward(Tensor self, Tensor grad) -> Tensor
          kernel: python.{kernel.__name__}
        - func: op(Tensor self) -> Tensor
          kernel: self * self / 2
        - name: op(Tensor self) -> Tensor
          self: op_backward(self, grad)
        """,
        kernel,
    )
    x = torch.arange(4.0, requires_grad=True)
    loss = ops.op(x).sum()
    if message is None:
        loss.backward()
        assert torch.equal(x.grad, x)
    else:
        with pytest.raises(AssertionError, match=message):
            loss.backward()


SQUARE = """
- func: square_of(Tensor self) -> Tensor
  variants: function
  autogen: square_of.out
  kernel: self * self
- name: square_of(Tensor self) -> Tensor
  self: 2 * grad * self
"""


def test_saved_values_are_those_of_the_forward_pass(define):
    square = define(SQUARE).square_of
    x = torch.arange(4.0, requires_grad=True)
    y = square(x).sum()
    x.detach().numpy()[0] = 5.0
    with pytest.raises(AssertionError, match="SquareOfBackward0: the saved tensor `self` was written to after"):
        y.backward()


def test_a_write_that_autograd_sees_is_left_to_its_own_error(define):
    square = define(SQUARE).square_of
    x = torch.arange(4.0, requires_grad=True).clone()
    y = square(x).sum()
    x += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_an_out_function_returns_its_out(define):
    square, out = define(SQUARE).square_of, torch.empty(4)
    assert square(torch.arange(4.0), out=out) is out


def test_the_variable_chooses_the_operators_with_assertions():
    """Where `gradloom generate --debug` was not run, importing says so."""
    generated = Path(find_spec("gradloom.generated").origin).parent
    program = "import gradloom; print(gradloom.mul.__code__.co_filename)"
    found = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"GRADLOOM_DEBUG": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    if (generated / "debug").is_dir():
        assert Path(found.stdout.strip()).is_relative_to(generated / "debug")
    else:
        assert "run `gradloom generate --debug`" in found.stderr
