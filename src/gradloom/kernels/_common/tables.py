"""Small constant arrays that kernels need at every call, kept read-only."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

LONGEST = 4096  # elements of a kept array


def ones(char: str, n: int) -> np.ndarray:
    """Return `n` ones of a floating or complex dtype, read-only: vectors that sum rows by a product."""
    return _kept_ones(char, n) if n <= LONGEST else np.ones(n, char)


@lru_cache(64)
def _kept_ones(char: str, n: int) -> np.ndarray:
    found = np.ones(n, char)
    found.flags.writeable = False
    return found


def starts(count: int, step: int) -> np.ndarray:
    """Return 0, step, 2 * step, ...: the places in memory where `count` rows of `step` elements begin. Read-only."""
    return _kept_starts(count, step) if count <= LONGEST else np.arange(0, count * step, step)


@lru_cache(64)
def _kept_starts(count: int, step: int) -> np.ndarray:
    found = np.arange(count)
    found *= step  # a step of 0 is that of rows without elements
    found.flags.writeable = False
    return found


@lru_cache(64)
def number(value: float, dtype: np.dtype) -> np.ndarray:
    """Return a Python number as a 0-dim array, which NumPy takes as an operand faster than the number. Read-only. Zeros
    have no sign, because -0.0 and 0.0 share an entry."""
    found = np.array(value or 0, dtype)
    found.flags.writeable = False
    return found
