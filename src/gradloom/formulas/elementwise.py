"""Derivative helpers of elementwise operators."""

from __future__ import annotations


def maybe_multiply(tensor, scalar):
    """`tensor * scalar`, without the multiplication if the number is 1."""
    return tensor if scalar == 1 else tensor * scalar
