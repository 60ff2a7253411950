"""NumPy's functions without the `__array_function__` protocol, whose dispatch takes 0.2 us of each call.

Kernels get arrays, which have no overrides. NumPy converts stand-ins for arrays by `__array__`, which may raise; so
functions that write to an argument are not here: they would write to a copy, or refuse it.
"""

from __future__ import annotations

import numpy as np


def _direct(function):
    """Return the implementation that NumPy calls when no argument overrides the function."""
    return getattr(function, "_implementation", function)


concatenate = _direct(np.concatenate)
empty_like = _direct(np.empty_like)
where = _direct(np.where)
