"""Derivatives of random operators."""

from __future__ import annotations


def dropout_scale(p: float, train: bool | None) -> float:
    """Return the factor of the kept elements in dropout: 1 / (1 - p) in training (`train` true or None), else 1. For p
    = 1 no element is kept, and the factor is 0."""
    if train is False:
        return 1.0
    return 0.0 if p == 1 else 1.0 / (1.0 - p)
