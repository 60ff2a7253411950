"""Derivative helpers of activations and softmax."""

from __future__ import annotations

from .. import _operators as ops


def softmax_jvp(tangent, result, dim):
    """The tangent of y = softmax(x): y * (t - sum(y * t))."""
    return result * (tangent - (result * tangent).sum([dim], True))


def log_softmax_jvp(tangent, result, dim):
    """The tangent of y = log_softmax(x): t - sum(exp(y) * t)."""
    return tangent - (ops.exp(result) * tangent).sum([dim], True)


def softmax_double_backward(grad, grad_output, dim, output):
    """The derivative of v = y * (g - sum(g * y)) for y, applied to `grad` (h): (g - sum(g * y)) * h - g * sum(y * h)."""
    inner = grad_output - (grad_output * output).sum([dim], True)
    return inner * grad - grad_output * (output * grad).sum([dim], True)


def softmax_backward_jvp(grad_tangent, output_tangent, grad_output, output, dim):
    """The tangent of y * (g - sum(g * y)) for tangents of g and y."""
    inner = grad_output - (grad_output * output).sum([dim], True)
    inner_tangent = grad_tangent - (grad_tangent * output + grad_output * output_tangent).sum([dim], True)
    return output_tangent * inner + output * inner_tangent


def log_softmax_backward_jvp(grad_tangent, output_tangent, grad_output, output, dim):
    """The tangent of g - exp(y) * sum(g) for tangents of g and y."""
    total = grad_output.sum([dim], True)
    return grad_tangent - ops.exp(output) * (output_tangent * total + grad_tangent.sum([dim], True))


def log_softmax_backward_grad_output(grad, output, dim):
    """The adjoint of g -> g - exp(y) * sum(g), applied to `grad` (h): h - sum(h * exp(y))."""
    return grad - (grad * ops.exp(output)).sum([dim], True)


def log_softmax_backward_output(grad, grad_output, output, dim):
    """The derivative of g - exp(y) * sum(g) for y, applied to `grad` (h): -sum(g) * exp(y) * h."""
    return -(grad_output.sum([dim], True) * ops.exp(output) * grad)
