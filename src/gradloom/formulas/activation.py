"""Derivative helpers of activations and softmax."""

from __future__ import annotations

import math

from ..dispatch import _operators as ops


def softmax_double_backward(grad, grad_output, dim, output):
    """The derivative of y * (g - sum(g * y)) for y, applied to `grad` (h): (g - sum(g * y)) * h - g * sum(y * h)."""
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


def prelu_double_backward(for_self, for_weight, grad_output, self, weight):
    """The derivatives of PReLU's gradients, g * w for x and g * x for w where x < 0 (g and 0 elsewhere), for g, x and
    w. An undefined gradient of one of them counts as zeros, and gives zeros."""
    positive = self >= 0
    below = for_self * weight if for_self is not None else 0
    if for_weight is not None:
        below = below + for_weight * self
    above = 0 if for_self is None else for_self
    self_grad = ops.zeros_like(self) if for_weight is None else ops.where(positive, 0, grad_output * for_weight)
    weight_grad = ops.zeros_like(self) if for_self is None else ops.where(positive, 0, grad_output * for_self)
    return ops.where(positive, above, below), self_grad, weight_grad


# Second derivatives of elementwise functions, at `x`. With them, f'(x) * g has the derivative f''(x) * g for
# x.


def elu_second(x, alpha, scale, input_scale, is_result):
    """input_scale ** 2 * alpha * scale * exp(input_scale * x) below 0, 0 above. Of f' = input_scale * (y + alpha *
    scale) as a function of the result y, input_scale below 0."""
    if is_result:
        return ops.where(x > 0, 0, ops.full_like(x, input_scale))
    return ops.where(x > 0, 0, ops.exp(ops.clamp(x, max=0) * input_scale) * (input_scale * input_scale * alpha * scale))


def hardswish_double_backward(grad, x):
    """`grad` times the second derivative, which is 1/3 in (-3, 3)."""
    return ops.where(ops.logical_and(x > -3, x < 3), grad / 3.0, 0)


def gelu_second(x, approximate):
    """Of x * Phi(x): phi(x) * (2 - x * x), with the normal density phi. Of x * (1 + tanh(u)) / 2, u = b * (x + k * x **
    3): (1 - t * t) * (u' + x * (u'' / 2 - t * u' * u'))."""
    if approximate == "none":
        return ops.exp(x * x * -0.5) * (2.0 - x * x) * (2 * math.pi) ** -0.5
    b, k = math.sqrt(2 / math.pi), 0.044715
    t = ops.tanh((x + k * (x * x * x)) * b)
    first = (1.0 + 3 * k * (x * x)) * b
    return (1.0 - t * t) * (first + x * (x * (3 * k * b) - t * first * first))


def silu_second(x):
    """Of x * s, s = sigmoid(x): s * (1 - s) * (2 + x * (1 - 2 * s))."""
    s = ops.sigmoid(x)
    return s * (1.0 - s) * (2.0 + x * (1.0 - 2.0 * s))


def mish_second(x):
    """Of x * t, t = tanh(softplus(x)), s = sigmoid(x): (1 - t * t) * s * (2 + x * (1 - s - 2 * t * s))."""
    t, s = ops.tanh(ops.softplus(x)), ops.sigmoid(x)
    return (1.0 - t * t) * s * (2.0 + x * (1.0 - s - 2.0 * t * s))


def softplus_second(x, beta, threshold):
    """beta * s * (1 - s) with s = sigmoid(beta * x); 0 where beta * x is above the threshold."""
    scaled = x * beta
    s = ops.sigmoid(scaled)
    return ops.where(scaled > threshold, 0, s * (1.0 - s) * beta)


def log_sigmoid_second(x):
    """-s * (1 - s) with s = sigmoid(x)."""
    s = ops.sigmoid(x)
    return -(s * (1.0 - s))


# Gated linear units: a * s with s = sigmoid(b), for the halves a and b of x along `dim`.


def glu_jvp(tangent, x, dim):
    """The tangent of a * s: s * a_t + a * s * (1 - s) * b_t. It is the adjoint of glu_backward, too."""
    a, b = ops.chunk(x, 2, dim)
    a_t, b_t = ops.chunk(tangent, 2, dim)
    s = ops.sigmoid(b)
    return s * (a_t + a * (1.0 - s) * b_t)


def glu_double_backward(tangent, grad_output, x, dim):
    """The tangent of glu_backward for x, which is symmetric, so its adjoint too. Its halves are s' * b_t * g and s' *
    (a_t + a * (1 - 2 * s) * b_t) * g, s' = s * (1 - s)."""
    a, b = ops.chunk(x, 2, dim)
    a_t, b_t = ops.chunk(tangent, 2, dim)
    s = ops.sigmoid(b)
    slope = s * (1.0 - s) * grad_output
    return ops.cat((slope * b_t, slope * (a_t + a * (1.0 - 2.0 * s) * b_t)), dim)
