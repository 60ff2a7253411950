"""Derivative helpers of operators on complex numbers."""

from __future__ import annotations

from ..dispatch import _operators as ops
from .elementwise import quotient_or_zero


def polar_backward(grad, abs, angle, grad_input_mask):
    """With z = r e^(i t): g_r = Re(conj(g) e^(i t)), g_t = r Re(conj(g) i e^(i t)), by parts, also at r = 0."""
    cos, sin, x, y = angle.cos(), angle.sin(), ops.real(grad), ops.imag(grad)
    of_abs = x * cos + y * sin if grad_input_mask[0] else None
    return of_abs, abs * (y * cos - x * sin) if grad_input_mask[1] else None


def polar_jvp(abs_t, angle_t, abs, angle):
    """dz = (dr + i r dt) e^(i t), by parts."""
    cos, sin = angle.cos(), angle.sin()
    turn = abs * angle_t
    return ops.complex(abs_t * cos - turn * sin, abs_t * sin + turn * cos)


def angle_backward(grad, self):
    """d arg(z) = Im(dz / z) = (x dy - y dx) / |z|^2; 0 at 0 and for real numbers."""
    if not self.is_complex():
        return ops.zeros_like(self)
    x, y = ops.real(self), ops.imag(self)
    scaled = quotient_or_zero(grad, x * x + y * y, self == 0)
    return ops.complex(-y * scaled, x * scaled)


def angle_jvp(self_t, self):
    """d arg(z) = (x dy - y dx) / |z|^2; 0 at 0 and for real numbers."""
    if not self.is_complex():
        return ops.zeros_like(self_t)
    x, y = ops.real(self), ops.imag(self)
    area = x * ops.imag(self_t) - y * ops.real(self_t)
    return quotient_or_zero(area, x * x + y * y, self == 0)
