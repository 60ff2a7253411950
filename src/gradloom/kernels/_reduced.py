"""Half precision: formulas of several steps are computed in float32 and rounded once, as PyTorch does."""

from __future__ import annotations

import numpy as np


def widened(function):
    """A kernel of floating arrays whose float16 and bfloat16 inputs are computed in float32.

    The result is rounded to the dtype of the first array, unless it is no floating array.
    """
    def kernel(first, *rest):
        kind = first.dtype
        if kind.itemsize != 2 or kind.kind not in "fV":
            return function(first, *rest)
        wide = [x.astype(np.float32) if x.__class__ is np.ndarray and x.dtype is kind else x for x in rest]
        return function(first.astype(np.float32), *wide).astype(kind)
    kernel.__name__ = function.__name__
    kernel.__doc__ = function.__doc__
    return kernel


def number(value, array: np.ndarray):
    """A Python number for arithmetic with `array`: bfloat16 would otherwise be widened by a Python float."""
    return array.dtype.type(value) if array.dtype.kind == "V" else value
