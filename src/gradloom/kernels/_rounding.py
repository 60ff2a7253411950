"""Double-precision steps rounded as a C library rounds them, for results that are compared bit by bit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

_FEW = 512  # below this many numbers calling the C library one by one costs nothing worth saving


def by_libm(scalar: Callable, vector: np.ufunc, x: np.ndarray, exact: bool) -> np.ndarray:
    """`scalar` (a function of the math module, so the C library's) of every element of `x`.

    NumPy's own `vector` is several times faster, but on some processors its log, log1p, exp and tan differ
    from the C library in the last bit. It is used where that cannot matter (`exact` false: the caller rounds
    to fewer bits) and where the scalar function refuses an argument that C answers with an infinity.

    Args:
        x: float64, any shape.

    Returns:
        float64, the shape of `x`.
    """
    if exact or x.size <= _FEW:
        try:
            return np.fromiter(map(scalar, x.ravel().tolist()), np.float64, x.size).reshape(x.shape)
        except (ValueError, OverflowError):
            pass
    with np.errstate(all="ignore"):
        return vector(x)


def fused64(x: np.ndarray, factor: float, addend: float) -> np.ndarray:
    """x * factor + addend with one rounding, as a fused multiply-add gives it. float64 in and out.

    The rounding error of the product (Dekker 1971) and that of the sum (Knuth's two-sum) are added back at
    the end.
    """
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
    """x * factor + addend with one rounding to float32: in double, where the product of two float32 is exact.

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
