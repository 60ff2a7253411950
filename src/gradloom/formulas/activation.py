"""Derivative helpers of activations and softmax."""

from __future__ import annotations

import math

from ..dispatch import _operators as ops


def softmax_double_backward(grad, grad_output, dim, output):
    """Return the vjp of y * (g - sum(g * y)) for y, with cotangent `grad` (h): (g - sum(g * y)) * h - g * sum(y *
    h)."""
    inner = grad_output - (grad_output * output).sum([dim], True)
    return inner * grad - grad_output * (output * grad).sum([dim], True)


def masked_softmax_double_backward(grad, grad_output, output, mask, dim):
    """`softmax_double_backward` of the elements whose mask is False; 0 for others."""
    grad, grad_output, output = (ops.masked_fill(x, mask, 0) for x in (grad, grad_output, output))
    return ops.masked_fill(softmax_double_backward(grad, grad_output, -1 if dim is None else dim, output), mask, 0)


def masked_softmax_backward_jvp(grad_tangent, output_tangent, grad_output, output, mask, dim):
    """`softmax_backward_jvp` of the elements whose mask is False; 0 for others."""
    parts = (ops.masked_fill(x, mask, 0) for x in (grad_tangent, output_tangent, grad_output, output))
    return softmax_backward_jvp(*parts, -1 if dim is None else dim)


def softmax_backward_jvp(grad_tangent, output_tangent, grad_output, output, dim):
    """Return the tangent of y * (g - sum(g * y)) for the tangents of g and y."""
    inner = grad_output - (grad_output * output).sum([dim], True)
    inner_tangent = grad_tangent - (grad_tangent * output + grad_output * output_tangent).sum([dim], True)
    return output_tangent * inner + output * inner_tangent


def log_softmax_backward_jvp(grad_tangent, output_tangent, grad_output, output, dim):
    """Return the tangent of g - exp(y) * sum(g) for the tangents of g and y."""
    total = grad_output.sum([dim], True)
    return grad_tangent - ops.exp(output) * (output_tangent * total + grad_tangent.sum([dim], True))


def prelu_double_backward(for_self, for_weight, grad_output, self, weight):
    """Return the gradients for g, x and w of PReLU's backward, which is g * w for x and g * x for w where x <= 0, and g
    and 0 elsewhere. An undefined cotangent counts as zeros."""
    positive = self > 0
    below = for_self * weight if for_self is not None else 0
    if for_weight is not None:
        below = below + for_weight * self
    above = 0 if for_self is None else for_self
    self_grad = ops.zeros_like(self) if for_weight is None else ops.where(positive, 0, grad_output * for_weight)
    weight_grad = ops.zeros_like(self) if for_self is None else ops.where(positive, 0, grad_output * for_self)
    return ops.where(positive, above, below), self_grad, weight_grad


# Second derivatives of elementwise functions at `x`: the derivative of f'(x) * g for x is f''(x) * g.


def elu_second(x, alpha, scale, input_scale, is_result):
    """Return input_scale ** 2 * alpha * scale * exp(input_scale * x) below 0, 0 elsewhere. With `is_result`, x is the
    result y, and f' = input_scale * (y + alpha * scale): return input_scale below 0."""
    if is_result:
        return ops.where(x < 0, ops.full_like(x, input_scale), 0)
    return ops.where(x < 0, ops.exp(ops.clamp(x, max=0) * input_scale) * (input_scale * input_scale * alpha * scale), 0)


def hardswish_double_backward(grad, x):
    """Return `grad` times the second derivative, which is 1/3 in (-3, 3)."""
    return ops.where(ops.logical_and(x > -3, x < 3), grad / 3.0, 0)


def gelu_second(x, approximate):
    """Return the second derivative of x * Phi(x), phi(x) * (2 - x * x) with the normal density phi; or that of x * (1 +
    tanh(u)) / 2, u = b * (x + k * x ** 3), which is (1 - t * t) * (u' + x * (u'' / 2 - t * u' * u')). Both are 0 where
    |x| > 40, and the square of x may be out of range."""
    x = ops.clamp(x, -40, 40)
    if approximate == "none":
        return ops.exp(x * x * -0.5) * (2.0 - x * x) * (2 * math.pi) ** -0.5
    b, k = math.sqrt(2 / math.pi), 0.044715
    t = ops.tanh((x + k * (x * x * x)) * b)
    first = (1.0 + 3 * k * (x * x)) * b
    return (1.0 - t * t) * (first + x * (x * (3 * k * b) - t * first * first))


def silu_second(x):
    """Return the second derivative of x * s, s = sigmoid(x): s * (1 - s) * (2 + x * (1 - 2 * s))."""
    s = ops.sigmoid(x)
    return s * (1.0 - s) * (2.0 + x * (1.0 - 2.0 * s))


def mish_second(x):
    """Return the second derivative of x * t, t = tanh(softplus(x)), s = sigmoid(x): (1 - t * t) * s * (2 + x * (1 - s -
    2 * t * s))."""
    t, s = ops.tanh(ops.softplus(x)), ops.sigmoid(x)
    return (1.0 - t * t) * s * (2.0 + x * (1.0 - s - 2.0 * t * s))


def softplus_second(x, beta, threshold):
    """Return beta * s * (1 - s) with s = sigmoid(beta * x); 0 where beta * x is above the threshold."""
    scaled = x * beta
    s = ops.sigmoid(scaled)
    return ops.where(scaled > threshold, 0, s * (1.0 - s) * beta)


def log_sigmoid_second(x):
    """Return -s * (1 - s) with s = sigmoid(x)."""
    s = ops.sigmoid(x)
    return -(s * (1.0 - s))


# Gated linear units: a * s with s = sigmoid(b), for the halves a and b of x along `dim`.


def glu_jvp(tangent, x, dim):
    """Return the tangent of a * s: s * a_t + a * s * (1 - s) * b_t. It is also the adjoint of glu_backward."""
    a, b = ops.chunk(x, 2, dim)
    a_t, b_t = ops.chunk(tangent, 2, dim)
    s = ops.sigmoid(b)
    return s * (a_t + a * (1.0 - s) * b_t)


def glu_double_backward(tangent, grad_output, x, dim):
    """Return the tangent of glu_backward for x. The map is symmetric, so this is also its adjoint. The halves are s' *
    b_t * g and s' * (a_t + a * (1 - 2 * s) * b_t) * g, with s' = s * (1 - s)."""
    a, b = ops.chunk(x, 2, dim)
    a_t, b_t = ops.chunk(tangent, 2, dim)
    s = ops.sigmoid(b)
    slope = s * (1.0 - s) * grad_output
    return ops.cat((slope * b_t, slope * (a_t + a * (1.0 - 2.0 * s) * b_t)), dim)
