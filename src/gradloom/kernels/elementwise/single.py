"""exp(x) - 1 and log(1 + x) of float32 numbers, at most 3 units in the last place off.

With AVX512 on Linux, NumPy computes expm1 and log1p in vector instructions, at most 2.2 units off. Elsewhere they call
the C library for one number after the other; there these functions are made of others that NumPy computes in vectors,
and relative errors stay small near zero, where exp(x) - 1 and log(1 + x) lose digits.
"""

from __future__ import annotations

import sys

import numpy as np

_IN_VECTORS = sys.platform == "linux" and bool(np._core._multiarray_umath.__cpu_features__.get("AVX512_SKX"))


def _constants(*values: float) -> list[np.ndarray]:
    return [np.array(value, np.float32) for value in values]


_ONE, _TWO, _HALF = _constants(1, 2, 0.5)

# 2 artanh(s) ~ s L(s^2) for 0 <= s <= 1/3, lowest power first: a least squares fit with equalised relative error, at
# most 4e-9.
_L = _constants(2.0000000079202955, 0.6666631469076604, 0.4002491002386289, 0.2796060540324407, 0.28178326445133633)


def expm1_of_negative(x: np.ndarray) -> np.ndarray:
    """Overwrite float32 numbers x <= 0 (or NaN) by exp(x) - 1 = 2 t / (1 - t), with t = tanh(x / 2)."""
    if _IN_VECTORS:
        return np.expm1(x, x)
    np.multiply(x, _HALF, x)
    np.tanh(x, x)
    slope = np.subtract(_ONE, x)
    np.divide(x, slope, x)
    return np.multiply(x, _TWO, x)


def log1p_of_unit(x: np.ndarray) -> np.ndarray:
    """Overwrite float32 numbers 0 <= x <= 1 (or NaN) by log(1 + x) = 2 artanh(s), with s = x / (x + 2)."""
    if _IN_VECTORS:
        return np.log1p(x, x)
    square = np.add(x, _TWO)
    np.divide(x, square, x)
    np.multiply(x, x, square)
    found = np.multiply(square, _L[-1])
    for c in _L[-2:0:-1]:
        np.add(found, c, found)
        np.multiply(found, square, found)
    np.add(found, _L[0], found)
    return np.multiply(x, found, x)


def log1p_of_decay(x: np.ndarray) -> np.ndarray:
    """Return log(1 + exp(-|x|)) of a floating array."""
    found = np.asarray(np.abs(x))
    np.negative(found, found)
    np.exp(found, found)
    return log1p_of_unit(found) if found.dtype.char == "f" and found.ndim else np.log1p(found, found)
