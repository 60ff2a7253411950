"""Adding (or multiplying, or comparing) values into an array at places that may occur more than once.

Note [Repeated places]
`ufunc.at` is right for repeated places, and fast only for one dimension and one dtype; so arrays are flattened for it.
Many rows go ten times faster as a product with a sparse matrix that has a single one in each column. Either way they
are added one after the other in the order of their index.
"""

from __future__ import annotations

import numpy as np

_MANY = 1 << 15  # elements, from which on a sparse product pays


def flat_places(index, axis: int, shape) -> np.ndarray:
    """Where `index` along an axis points, as positions in a contiguous array of `shape`."""
    steps, step = [0] * len(shape), 1
    for d in range(len(shape) - 1, -1, -1):
        steps[d] = step
        step *= shape[d]
    places = index * np.int64(steps[axis])
    for d, n in enumerate(index.shape):
        if d != axis and n > 1:
            places += (np.arange(n) * steps[d]).reshape([-1 if e == d else 1 for e in range(index.ndim)])
    return places


def update(ufunc, self, places, values) -> None:
    """`self[place] = ufunc(self[place], value)` for each of the flat places in turn, in place."""
    work = workspace(self)
    ufunc.at(work.reshape(-1), places.reshape(-1), values.astype(work.dtype, copy=False).reshape(-1))
    if work is not self:
        self[...] = work


def workspace(self):
    """The array itself if it is contiguous and of a dtype that NumPy adds fast; else a copy that is."""
    if self.dtype.kind == "V" or self.dtype == np.float16:
        return self.astype(np.float32, order="C")
    return self if self.flags.c_contiguous else np.array(self, order="C")


def add_rows(rows, index, values) -> None:
    """`rows[i] += value` for each i in `index`, in place.

    Args:
        rows: contiguous (n, m), of a dtype that NumPy adds.
        index: (k,), within the range.
        values: (k, m), of the same dtype.
    """
    count, width = rows.shape
    if not index.size or not width:
        return
    many = values.size >= _MANY and index.size * 8 >= count and rows.dtype.kind != "b"
    csc_array = _sparse_matrix() if many else None
    if csc_array is None:
        places = index if width == 1 else (index[:, None] * np.int64(width) + np.arange(width)).reshape(-1)
        np.add.at(rows.reshape(-1), places, values.reshape(-1))
        return
    one_each = np.ones(index.size, rows.dtype), index, np.arange(index.size + 1, dtype=index.dtype)
    rows += csc_array(one_each, shape=(count, index.size)) @ values


def _sparse_matrix():
    """SciPy's sparse matrices by columns; None where SciPy is not installed."""
    try:
        from scipy.sparse import csc_array
    except ImportError:
        return None
    return csc_array
