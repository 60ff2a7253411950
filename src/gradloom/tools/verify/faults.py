"""A fault: what one check of one call found, before the faults of an operator are put together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .case import Case, Place
from .findings import WRONG, Comparison

# What is to blame: a formula of the backward direction (with the input), one of the forward direction (with the number
# of the output), what computes the values, or the entry as a whole.
BACKWARD, FORWARD, KERNEL, ENTRY = "backward", "forward", "kernel", "entry"


@dataclass
class Fault:
    """See Finding for what the fields of the same name hold.

    Attributes:
        blame: BACKWARD, FORWARD, KERNEL or ENTRY.
        causes: what the check itself recognised.
    """

    case: Case
    check: str
    message: str
    blame: str
    input: Place | None = None
    output: int | None = None
    comparison: Comparison | None = None
    expected: np.ndarray | None = None
    found: np.ndarray | None = None
    causes: tuple[str, ...] = ()
    severity: str = WRONG


def close(found: np.ndarray, expected: np.ndarray, rtol: float, atol: float) -> bool:
    """Whether two arrays agree; NaN agrees with NaN, infinity with itself."""
    if found.shape != expected.shape:
        return False
    with np.errstate(all="ignore"):
        return bool(np.allclose(found, expected, rtol, atol, equal_nan=True))


def scale(*arrays: np.ndarray) -> float:
    """The magnitude of the finite numbers in some arrays; at least 1."""
    found = 1.0
    for array in arrays:
        with np.errstate(all="ignore"):
            values = np.abs(array[np.isfinite(array)]) if array.size else array
        found = max(found, float(values.max(initial=0.0)))
    return found


def said(error: BaseException) -> str:
    """An exception in a line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:200] + '...' if len(text) > 200 else text}"
