"""How far two results of the same sums may be apart: any BLAS, on any processor, adds in an order of its own."""

from __future__ import annotations

import numpy as np


def assert_sums_agree(found: np.ndarray, expected: np.ndarray, magnitude: np.ndarray | float, terms: int) -> None:
    """Assert that two results of sums of products are within the rounding of both.

    A computed sum of k products is within k * eps * sum |a_i * b_i| of the exact one, in whatever order it is added,
    also of complex numbers (Higham 2002, "Accuracy and stability of numerical algorithms", sections 3.1 and 3.6).

    Args:
        found, expected: the results. Integers must be equal.
        magnitude: sum |a_i * b_i| for each element, or something greater.
        terms: k, or something greater.
    """
    eps = np.finfo(expected.dtype).eps if expected.dtype.kind in "fc" else 0
    bound = 2 * (terms + 2) * eps * np.asarray(magnitude)
    assert found.shape == expected.shape and np.all(np.abs(found - expected) <= bound), np.abs(found - expected).max()
