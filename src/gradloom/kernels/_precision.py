"""Half precision: what float16 and bfloat16 are computed in."""

from __future__ import annotations

import numpy as np

_FLOAT32 = np.dtype(np.float32)


def is_half(dtype: np.dtype) -> bool:
    """Whether this is float16 or bfloat16 (of which NumPy only knows that it is a void type of two bytes)."""
    return dtype.itemsize == 2 and dtype.kind in "fV"


def widen(a: np.ndarray) -> np.ndarray:
    """Halves as float32; any other array unchanged."""
    dtype = a.dtype
    return a.astype(_FLOAT32) if dtype.itemsize == 2 and dtype.kind in "fV" else a
