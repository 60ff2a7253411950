"""Products plus addends that are rounded once, as by the fused multiply-adds of PyTorch's loops."""

from __future__ import annotations

import numpy as np


def fused64(x: np.ndarray, factor: float, addend: float) -> np.ndarray:
    """x * factor + addend with one rounding, like a fused multiply-add; float64 in and out. The rounding errors of the
    product (Dekker 1971) and of the sum (Knuth's two-sum) are added at the end."""
    if factor == 1:
        return x + addend
    product = x * factor
    if addend == 0:
        return product
    split = x * 134217729.0  # 2**27 + 1: halves of 26 bits, whose products are exact
    high = split - (split - x)
    low = x - high
    factor_split = factor * 134217729.0
    factor_high = factor_split - (factor_split - factor)
    factor_low = factor - factor_high
    error = ((high * factor_high - product) + high * factor_low + low * factor_high) + low * factor_low
    total = product + addend
    kept = total - product
    error += (product - (total - kept)) + (addend - kept)
    return total + error


def fused32(x: np.ndarray, factor: float, addend: float) -> np.ndarray:
    """x * factor + addend, rounded once to float32: computed in double, where the product of two float32 numbers is
    exact.

    Args:
        x: float32 or float64 holding float32 numbers.
        factor, addend: rounded to float32 first.
    """
    factor, addend = float(np.float32(factor)), float(np.float32(addend))
    if factor == 1 and addend == 0:
        return x.astype(np.float32, copy=False)
    wide = x.astype(np.float64)
    wide *= factor
    wide += addend
    return wide.astype(np.float32)
