"""Derivatives of random operators."""

from __future__ import annotations


def dropout_scale(p: float, train: bool | None) -> float:
    """The factor of the kept elements in dropout: 1 / (1 - p), or 1 where it is not training. `train` None stands for
    training. For p = 1 nothing is kept, and the factor is 0."""
    if train is False:
        return 1.0
    return 0.0 if p == 1 else 1.0 / (1.0 - p)
