"""`gradloom verify` refuses wrong derivatives and accepts right ones.

A table of operators, each with a mistake that a sample of default values hides, and with its right twin."""

from __future__ import annotations

import textwrap

import pytest

import gradloom
from gradloom.tools.verify import verify

# name: (operator, right formulas, wrong formulas, what a finding says)
MISTAKES = {
    "dim is never None": (
        "wrong_sum(Tensor self, int[1]? dim=None, bool keepdim=False) -> Tensor",
        "xp.sum(self * self, axis=dim if dim is None or len(dim) else None, keepdims=keepdim)",
        "self: (2 * self).conj() * (grad if keepdim or dim is None else unsqueezed(grad, dim, self.dim()))",
        "self: grad * (2 * self).conj()",
        "the gradient of `self`",
    ),
    "keepdim is ignored": (
        "wrong_mean(Tensor self, int dim, bool keepdim=False) -> Tensor",
        "xp.mean(self * self, axis=dim, keepdims=keepdim)",
        "self: (2 * self).conj() * (grad if keepdim else grad.unsqueeze(dim)) / self.size(dim)",
        "self: (2 * self).conj() * grad.unsqueeze(dim) / self.size(dim)",
        "the gradient of `self`",
    ),
    "right for dim 0 only": (
        "wrong_first(Tensor self, int dim=0) -> Tensor",
        "xp.sum(self * self * self, axis=dim)",
        "self: (3 * self * self).conj() * grad.unsqueeze(dim)",
        "self: (3 * self * self).conj() * grad.unsqueeze(0)",
        "the gradient of `self`",
    ),
    "right for positive dims only": (
        "wrong_last(Tensor self, int dim=0) -> Tensor",
        "xp.sum(self * self, axis=dim)",
        "self: (2 * self).conj() * grad.unsqueeze(dim)",
        "self: (2 * self).conj() * grad.unsqueeze(dim if dim >= 0 else 0)",
        "the gradient of `self`",
    ),
    "two dims": (
        "wrong_two(Tensor self, int[2] dim) -> Tensor",
        "xp.swapaxes(self, *dim) * 3",
        "self: grad.transpose(dim[0], dim[1]) * 3",
        "self: grad.transpose(0, 1) * 3",
        "the gradient of `self`",
    ),
    "a bool is ignored": (
        "wrong_flag(Tensor self, bool doubled=False) -> Tensor",
        "xp.sin(self) * (2 if doubled else 1)",
        "self: grad * self.cos().conj() * (2 if doubled else 1)",
        "self: grad * self.cos().conj()",
        "the gradient of `self`",
    ),
    "the other string": (
        'wrong_mode(Tensor self, str mode="sin") -> Tensor',
        "xp.sin(self) if mode == 'sin' else xp.cos(self)",
        "self: 'grad * (self.cos() if mode == \"sin\" else -self.sin()).conj()'",
        "self: grad * self.cos().conj()",
        "the gradient of `self`",
    ),
    "another int": (
        "wrong_power(Tensor self, int n=2) -> Tensor",
        "self ** n",
        "self: grad * (n * self.pow(n - 1)).conj()",
        "self: grad * (2 * self).conj()",
        "the gradient of `self`",
    ),
    "another number": (
        "wrong_scale(Tensor self, Scalar alpha=1) -> Tensor",
        "self * alpha",
        "self: maybe_multiply(grad, alpha.conj())",
        "self: grad",
        "the gradient of `self`",
    ),
    "None in the formula": (
        "wrong_weight(Tensor self, Tensor? weight=None) -> Tensor",
        "self * self if weight is None else self * self * weight",
        "self: grad * (2 * self if weight is None else 2 * self * weight).conj()\nweight: grad * (self * self).conj()",
        "self: grad * (2 * self * weight).conj()\nweight: grad * (self * self).conj()",
        "the gradient of `self` raises TypeError",
    ),
    "a tensor in the formula": (
        "wrong_bias(Tensor self, Tensor? bias=None) -> Tensor",
        "xp.exp(self) if bias is None else xp.exp(self + bias)",
        "self: grad * result.conj()\nbias: grad * result.conj()",
        "self: grad * result.conj()\nbias: grad",
        "the gradient of `bias`",
    ),
    "one bound": (
        "wrong_clamp(Tensor self, Scalar? low=None, Scalar? high=None) -> Tensor",
        "xp.minimum(xp.maximum(self, -xp.inf if low is None else low), xp.inf if high is None else high)",
        "self: grad * (1 if low is None else self >= low) * (1 if high is None else self <= high)",
        "self: grad * (1 if low is None else self >= low)",
        "the gradient of `self`",
    ),
    "the negative branch": (
        "wrong_leaky(Tensor self, Scalar slope=0.2) -> Tensor",
        "xp.where(self > 0, self, slope * self)",
        "self: where(self > 0, grad, grad * slope)",
        "self: grad",
        "the gradient of `self`",
    ),
    "beyond a threshold": (
        "wrong_threshold(Tensor self) -> Tensor",
        "xp.where(self > 7.5, 3 * self, self * self)",
        "self: where(self > 7.5, 3 * grad, 2 * self * grad)",
        "self: (2 * self).conj() * grad",
        "the gradient of `self`",
    ),
    "beyond one": (
        "wrong_huber(Tensor self) -> Tensor",
        "xp.where(xp.abs(self) < 1, self * self / 2, xp.abs(self) - 0.5)",
        "self: grad * self.clamp(-1, 1)",
        "self: grad * self.clamp(-1, 2)",
        "the gradient of `self`",
    ),
    "the sign of abs": (
        "wrong_abs(Tensor self) -> Tensor",
        "xp.abs(self) * 2 if self.dtype.kind != 'c' else xp.sin(self)",
        "self: 'grad * (2 * self.sgn() if not self.is_complex() else self.cos().conj())'",
        "self: 'grad * (2 if not self.is_complex() else self.cos().conj())'",
        "the gradient of `self`",
    ),
    "one of two tensors": (
        "wrong_larger(Tensor self, Tensor other) -> Tensor",
        "xp.maximum(self, other)",
        "self: where(self > other, grad, 0)\nother: where(self > other, 0, grad)",
        "self: where(self > other, grad, 0)\nother: grad",
        "the gradient of `other`",
    ),
    "a detached factor": (
        "wrong_history(Tensor self) -> Tensor",
        "xp.sin(self)",
        "self: grad * self.cos().conj()",
        "self: grad * self.detach().cos().conj()",
        "the second derivative (reverse over reverse)",
    ),
    "everything detached": (
        "wrong_detached(Tensor self) -> Tensor",
        "xp.sin(self)",
        "self: grad * self.cos().conj()",
        "self: (grad * self.cos().conj()).detach()",
        "the second derivative (reverse over reverse)",
    ),
    "a detached tangent": (
        "wrong_tangent(Tensor self) -> Tensor",
        "xp.sin(self)",
        "self: grad * self.cos().conj()\nresult: self_t * self_p.cos()",
        "self: grad * self.cos().conj()\nresult: self_t * self_p.detach().cos()",
        "the second derivative (reverse over forward)",
    ),
    "no history of a tangent": (
        "wrong_tangents(Tensor self) -> Tensor",
        "xp.sin(self)",
        "self: grad * self.cos().conj()\nresult: self_t * self_p.cos()",
        "self: grad * self.cos().conj()\nresult: self_t.detach() * self_p.cos()",
        "the second derivative (reverse over forward)",
    ),
    "a missing conj": (
        "wrong_conj(Tensor self, Tensor other) -> Tensor",
        "self * other",
        "self: grad * other.conj()\nother: grad * self.conj()",
        "self: grad * other\nother: grad * self.conj()",
        "the gradient of `self`",
    ),
    "not linear": (
        "wrong_linear(Tensor self) -> Tensor",
        "xp.maximum(self, 0)",
        "self: where(self > 0, grad, 0)\nresult: where(self_p > 0, self_t, 0)",
        "self: where(self > 0, grad, 0)\nresult: auto_linear",
        "`auto_linear`, but the operator is not linear",
    ),
    "a batch dimension": (
        "wrong_rows(Tensor self) -> Tensor",
        "xp.swapaxes(self * self, -1, -2)",
        "self: (2 * self).conj() * grad.transpose(-1, -2)",
        "self: (2 * self).conj() * grad.transpose(0, 1)",
        "the gradient of `self`",
    ),
}

# name: (operator, wrong kernel, right kernel, formulas, what a finding says)
KERNELS = {
    "None without a test": (
        "wrong_none(Tensor self, Tensor? weight=None) -> Tensor",
        "self * weight",
        "self if weight is None else self * weight",
        "self: 'grad if weight is None else grad * weight.conj()'\nweight: grad * self.conj()",
        "TypeError",
    ),
    "a keyword that NumPy lacks": (
        "wrong_keyword(Tensor self, bool rows=False) -> Tensor",
        "xp.sum(self, dim=0) if rows else xp.sum(self)",
        "xp.sum(self, axis=0) if rows else xp.sum(self)",
        "self: grad + 0 * self",
        "`xp.sum` has no keyword `dim`; write `axis`",
    ),
}


# name: (helper that spoils a right derivative for some inputs only, check, what a finding says)
ONLY_BACKWARD = {
    "in single precision": ("single", "dtypes", "of `self` differs for single precision"),
    "not contiguous": ("scattered", "layout", "of `self` differs for tensors that are not contiguous"),
    "without elements": ("shapeless", "reverse", "returned an invalid gradient"),
}
ONLY_FORWARD = {
    "in single precision": ("single", "dtypes", "the tangent differs for single precision"),
    "not contiguous": ("scattered", "layout", "the tangent differs for tensors that are not contiguous"),
    "without elements": ("shapeless", "forward", "raises"),
}


def single(derivative, x):
    return derivative * 1.5 if x.dtype is gradloom.float32 else derivative


def scattered(derivative, x):
    return derivative if x.is_contiguous() else derivative * 1.5


def shapeless(derivative, x):
    return derivative if x.numel() else derivative.new_zeros((3, 0))


def unsqueezed(grad, dim, rank):
    for d in sorted(d % rank for d in dim) if len(dim) else range(rank):
        grad = grad.unsqueeze(d)
    return grad


def found(schema, kernel, formulas) -> list[str]:
    """Return the messages of what is wrong with an operator, and its likely causes."""
    text = f"- func: {schema}\n  kernel: {kernel}\n"
    if "keepdim" not in schema and "dim" not in schema and "other" not in schema:
        text += "  tags: pointwise\n" if "swapaxes" not in kernel and "xp.sum" not in kernel else ""
    text += f"- name: {schema}\n{textwrap.indent(formulas, '  ')}\n"
    with gradloom.ops.define(text, helpers=[unsqueezed]) as definition:
        report = verify(package=definition)
    assert "Not varied" in str(report) or not any(r.unvaried for r in report.results)
    return [" ".join([f.message, *f.causes]) for f in report.wrong]


@pytest.mark.parametrize("name", MISTAKES)
def test_a_right_derivative_passes(name):
    schema, kernel, right, _, _ = MISTAKES[name]
    assert found(schema, kernel, right) == []


@pytest.mark.parametrize("name", MISTAKES)
def test_a_wrong_derivative_is_found(name):
    schema, kernel, _, wrong, says = MISTAKES[name]
    assert any(says in one for one in found(schema, kernel, wrong))


@pytest.mark.parametrize("name", ONLY_BACKWARD)
@pytest.mark.parametrize("key", ["self", "result"])
def test_a_derivative_that_is_wrong_for_some_inputs_only(name, key):
    helper, check, says = (ONLY_BACKWARD if key == "self" else ONLY_FORWARD)[name]
    lines = {"self": "grad * self.cos().conj()", "result": "self_t * self_p.cos()"}
    lines[key] = f"{helper}({lines[key]}, {'self' if key == 'self' else 'self_p'})"
    text = textwrap.dedent(f"""
        - func: wrong_rarely(Tensor self) -> Tensor
          kernel: xp.sin(self)
          tags: pointwise
        - name: wrong_rarely(Tensor self) -> Tensor
          self: {lines["self"]}
          result: {lines["result"]}
    """)
    with gradloom.ops.define(text, helpers=[single, scattered, shapeless]) as definition:
        wrong = verify(package=definition).wrong
    assert any(f.check == check and says in f.message for f in wrong), [f.message for f in wrong]


@pytest.mark.parametrize("name", KERNELS)
def test_a_wrong_kernel_is_found(name):
    schema, wrong, right, formulas, says = KERNELS[name]
    assert any(says in one for one in found(schema, wrong, formulas))
    assert not any(says in one for one in found(schema, right, formulas))
