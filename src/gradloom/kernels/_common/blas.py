"""Calls of NumPy's BLAS, none of which wakes its own threads.

Note [Threads of products]
OpenBLAS's workers spin for milliseconds after each product, on the cores that the next kernel's threads need. In a
training step on two cores that costs more than they save, on a busy machine many times more. So a product that OpenBLAS
would give to its workers is computed with BLAS limited to one thread, and divided among our threads if it is large:
those of machine code where they are in use (`divide`), else Python's, which take longer to wake. Kernels therefore
multiply by `dot` and `gemm`, and by NumPy only what is known to be small or is within `threads.share`, which limits
BLAS itself. OpenBLAS 0.3.27 and later, of NumPy 2, take several threads from these numbers of multiplications on:

    inner products                          10,000
    complex matrices with vectors            4,096
    complex matrices                        65,536
    real matrices with vectors             460,800
    real matrices                          524,288 (by their own transposes, from 400,000 on)

LAPACK is the exception: the factorizations of `np.linalg` and SciPy, of one large matrix after another, gain from
OpenBLAS's threads, and take long enough that a worker that spins afterwards is a small part.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from . import threads

FEW = 1 << 12  # multiplications, up to which OpenBLAS uses one thread for any product
SMALL = 400_000  # the same for products of real matrices, with each other or with vectors
_LARGE = 1 << 24  # multiplications, from which on a share takes much longer than waking a thread of Python
_DIVIDED = 1 << 21  # the same for threads of machine code


# divide(a, b, out) computes a product of floats by the threads of machine code, and returns False where it cannot. The
# compiler sets it when it makes machine code.
divide: Callable[[np.ndarray, np.ndarray, np.ndarray], bool] | None = None


def dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return a.dot(b) for vectors, or a vector and a matrix, or matrices that are small; none is batched."""
    ndim = b.ndim
    work = a.size * b.shape[-1] if ndim > 1 else a.size
    if work <= FEW or work <= SMALL and (ndim > 1 or a.ndim > 1) and a.dtype.kind != "c":
        return a.dot(b)
    with threads.single_threaded_blas():
        return a.dot(b)


def gemm(a: np.ndarray, b: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """Compute np.matmul(a, b, out=out); the threads divide the rows, columns or matrices of a large product."""
    lead, ndim = a.ndim, b.ndim
    columns = b.shape[-1] if ndim > 1 else 1
    work = a.size * columns if ndim < 3 else b.size * (a.shape[-2] if lead > 1 else 1)
    if work <= FEW or work <= SMALL and (lead > 1 or ndim > 1) and a.dtype.kind != "c" or a.dtype.char not in "fdFD":
        return a @ b if out is None else np.matmul(a, b, out=out)
    native = divide is not None and a.dtype.char in "fd"
    alone = work < (_DIVIDED if native else _LARGE) or min(lead, ndim) < 2 or a.dtype != b.dtype
    if alone or threads.get_num_threads() == 1:
        with threads.single_threaded_blas():
            return np.matmul(a, b, out=out)
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    rows = a.shape[-2]
    if out is None:
        out = np.empty((*batch, rows, columns), a.dtype)
    if native and divide(a, b, out):  # type: ignore[misc]
        return out
    if batch and batch[0] >= threads.get_num_threads():
        _share_matrices(a, b, out)
    elif rows >= columns:
        threads.share(lambda part: np.matmul(a[..., part, :], b, out=out[..., part, :]), threads.chunks(rows))
    else:
        threads.share(lambda part: np.matmul(a, b[..., part], out=out[..., part]), threads.chunks(columns))
    return out


def _share_matrices(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    a = np.broadcast_to(a, (*out.shape[:-2], *a.shape[-2:]))
    b = np.broadcast_to(b, (*out.shape[:-2], *b.shape[-2:]))
    # Several shares per thread, because a share is not interrupted.
    largest = max(1, math.ceil(len(out) / (4 * threads.get_num_threads())))
    threads.share(lambda part: np.matmul(a[part], b[part], out=out[part]), threads.chunks(len(out), largest))
