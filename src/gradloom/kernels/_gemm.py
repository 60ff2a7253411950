"""Matrix products by all threads of this library instead of BLAS's own.

OpenBLAS's workers spin for milliseconds after each product, on the cores that the next kernel's threads need:
in a training step on two cores that costs more than they save, and on a busy machine many times more. So
every product that OpenBLAS would give to its workers is computed here with BLAS held to one thread, cut up if
it is large.
"""

from __future__ import annotations

import math

import numpy as np

from gradloom.kernels import _threads

SMALL = 1 << 19  # multiplications: up to here OpenBLAS itself uses one thread
_LARGE = 1 << 22  # from here on a share of the work takes much longer than waking a thread


def matmul(a: np.ndarray, b: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """np.matmul(a, b, out=out), the rows, columns or matrices of a large product shared out among the
    threads."""
    columns = b.shape[-1] if b.ndim > 1 else 1
    work = a.size * columns if b.ndim < 3 else b.size * (a.shape[-2] if a.ndim > 1 else 1)
    if work <= SMALL or a.dtype != b.dtype or a.dtype.char not in "fdFD":
        return np.matmul(a, b, out=out)
    if work < _LARGE or min(a.ndim, b.ndim) < 2 or _threads.get_num_threads() == 1:
        with _threads.single_threaded_blas():
            return np.matmul(a, b, out=out)
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    rows = a.shape[-2]
    if out is None:
        out = np.empty((*batch, rows, columns), a.dtype)
    if batch and batch[0] >= _threads.get_num_threads():
        _share_matrices(a, b, out)
    elif rows >= columns:
        _threads.share(lambda part: np.matmul(a[..., part, :], b, out=out[..., part, :]), _threads.chunks(rows))
    else:
        _threads.share(lambda part: np.matmul(a, b[..., part], out=out[..., part]), _threads.chunks(columns))
    return out


def _share_matrices(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    a = np.broadcast_to(a, (*out.shape[:-2], *a.shape[-2:]))
    b = np.broadcast_to(b, (*out.shape[:-2], *b.shape[-2:]))
    # A few shares for each thread, because a share is not interrupted.
    largest = max(1, math.ceil(len(out) / (4 * _threads.get_num_threads())))
    _threads.share(lambda part: np.matmul(a[part], b[part], out=out[part]), _threads.chunks(len(out), largest))
