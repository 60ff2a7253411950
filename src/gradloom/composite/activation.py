"""Softmax with a dtype to compute in."""

from __future__ import annotations

from .. import _operators as ops


def softmax(self, dim, dtype=None):
    """exp(self) / sum(exp(self)) along `dim`, converted to `dtype` first."""
    return ops._softmax(self if dtype is None or dtype is self.dtype else self.to(dtype), dim, False)


def log_softmax(self, dim, dtype=None):
    """The logarithm of softmax along `dim`, converted to `dtype` first."""
    return ops._log_softmax(self if dtype is None or dtype is self.dtype else self.to(dtype), dim, False)
