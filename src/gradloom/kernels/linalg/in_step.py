"""Factorizations and solutions of batches of many small matrices, in step.

Note [Matrices in step]
LAPACK takes one matrix, and a call from Python costs more than the arithmetic of a small one. Here the batch is the
last dimension, and each step of an elimination is an operation of NumPy on all matrices at once: the order of the
arithmetic and the choice of pivots are those of LAPACK's unblocked routines, so that results differ by rounding only.
"""

from __future__ import annotations

import numpy as np

_LARGEST = 16  # rows and columns of matrices that are worth it
_TOGETHER = 1 << 17  # elements of the matrices that are eliminated together, which a core's cache holds


def goes_in_step(A):
    """Return whether a batch has so many small matrices that steps over all of them at once cost less than a call of
    LAPACK for each."""
    size = max(A.shape[-2:])
    return A.size > 0 and size <= _LARGEST and A.size >= 4 * size * A.shape[-1] * A.shape[-2]


def _batch_last(batch):
    """Return a copy of a batch of matrices with the batch as one dimension, the last."""
    m, n = batch.shape[-2:]
    flat = np.ascontiguousarray(batch).reshape(-1, m * n)
    return np.array(flat.T, order="C").reshape(m, n, -1)


def _batch_first(work, shape):
    """Return a copy of matrices with the batch last in `shape`, each stored column after column."""
    *batch, m, n = shape
    return np.ascontiguousarray(work.transpose(2, 1, 0)).reshape(*batch, n, m).swapaxes(-1, -2)


def solve_in_step(A, B=None):
    """Factor matrices by Gaussian elimination with row interchanges, one column of all matrices after the other, and
    solve A X = B with them.

    Args:
        A: (..., m, n); B: right-hand sides (..., m, k) in the same batch, for m = n, or None.

    Returns:
        The factors; the pivots, counted from 0; the number of the first zero pivot or 0; and X or None.
    """
    *batch, m, n = A.shape
    k = 0 if B is None else B.shape[-1]
    count = A.size // (m * n)
    factors, found = np.empty((count, n, m), A.dtype), np.empty((count, k, m), A.dtype)
    pivots, info = np.zeros((count, min(m, n)), np.int32), np.zeros(count, np.int32)
    step = max(1, _TOGETHER // (m * (n + k)))
    matrices, rights = A.reshape(count, m, n), None if B is None else B.reshape(count, m, k)
    for start in range(0, count, step):
        at = slice(start, min(start + step, count))
        work = np.empty((m, n + k, at.stop - start), A.dtype)
        work[:, :n] = matrices[at].transpose(1, 2, 0)
        if rights is not None:
            work[:, n:] = rights[at].transpose(1, 2, 0)
        _eliminate(work, n, pivots[at].T, info[at])
        factors[at] = work[:, :n].transpose(2, 1, 0)
        if k:
            _substitute(work[:, :n], work[:, n:], True)
            found[at] = work[:, n:].transpose(2, 1, 0)
    solution = None if B is None else found.reshape(*batch, k, m).swapaxes(-1, -2)
    factors = factors.reshape(*batch, n, m).swapaxes(-1, -2)
    return factors, pivots.reshape(*batch, -1), info.reshape(batch), solution


@np.errstate(all="ignore")
def _eliminate(work, n, pivots, info):
    """Factor the first n columns of (m, n + k, count) in place, with the interchanges and steps for all columns."""
    m = work.shape[0]
    places, buffer = _places(work), np.empty(work.size, work.dtype)
    weights = np.arange(m, 0, -1, dtype=np.int8)[:, None]
    for j in range(min(m, n)):
        best = _largest(work[j:, j], weights[j:]) + j
        pivots[j] = best
        row = _interchange(work, j, best, places)
        zero = row[j] == 0
        if zero.any():
            info[zero & (info == 0)] = j + 1
        below, rest = work[j + 1 :, j], work[j + 1 :, j + 1 :]
        np.divide(below, np.where(zero, 1, row[j]), out=below)
        rest -= np.multiply(below[:, None], row[j + 1 :], out=buffer[: rest.size].reshape(rest.shape))


def _largest(column, weights):
    """Return the first place of the largest magnitude along the first dimension; 0 if it is NaN."""
    sizes = np.abs(column.real) + np.abs(column.imag) if column.dtype.kind == "c" else np.abs(column)
    found = np.multiply(sizes == sizes.max(0), weights, dtype=np.int8).max(0)
    return np.where(found == 0, 0, weights[0] - found)


def _places(work):
    """Return the positions of the first row's elements in a flat (rows, columns, count)."""
    return np.arange(work[0].size).reshape(work.shape[1:])


def _interchange(work, j, other, places):
    """Exchange in place row j of each matrix with its row in `other`, and return the new row j."""
    flat, chosen = work.reshape(-1), other.astype(np.intp) * places.size + places
    row = flat.take(chosen)
    flat[chosen] = work[j]
    work[j] = row
    return row


def lu_solve_in_step(LU, pivots, B, adjoint):
    """Solve A X = B, or A^H X = B, with the results of `solve_in_step` for A, with its pivots counted from 1."""
    a, x = _batch_last(LU), _batch_last(B)
    n, places = a.shape[0], _places(x)
    order = pivots.reshape(-1, n).T - 1
    if adjoint:
        _substitute(a, x, True, False, 2)
        _substitute(a, x, False, True, 2)
        for j in range(n - 1, -1, -1):
            _interchange(x, j, order[j], places)
    else:
        for j in range(n):
            _interchange(x, j, order[j], places)
        _substitute(a, x, False, True)
        _substitute(a, x, True)
    return _batch_first(x, B.shape)


def triangular_in_step(A, B, upper, unit=False, trans=0):
    """Solve op(A) X = B, where op(A) is A, A^T or A^H for `trans` 0, 1 or 2, by one row of all right-hand sides after
    the other; divide by zero without an error."""
    x = _batch_last(B)
    _substitute(_batch_last(A), x, upper, unit, trans)
    return _batch_first(x, B.shape)


@np.errstate(all="ignore")
def _substitute(a, x, upper, unit=False, trans=0):
    """Solve as `triangular_in_step` does, in place of x (n, k, count), with a (n, n, count)."""
    if trans:
        a, upper = a.swapaxes(0, 1), not upper
        a = a.conj() if trans == 2 else a
    n = a.shape[0]
    buffer = np.empty(x.shape, x.dtype)
    for i in range(n - 1, -1, -1) if upper else range(n):
        if not unit:
            x[i] /= a[i, i]
        others = slice(0, i) if upper else slice(i + 1, n)
        rest = x[others]
        rest -= np.multiply(a[others, i, None], x[i], out=buffer[: len(rest)])


@np.errstate(all="ignore")
def cholesky_in_step(A):
    """Return the lower factors L of Hermitian matrices, L L^H = A, or None if some A is not positive-definite. Only the
    lower triangle of A is read."""
    n = A.shape[-1]
    work = _batch_last(A)
    buffer = np.empty(work.size, work.dtype)
    for j in range(n):
        pivot = work[j, j].real
        if not (pivot > 0).all():
            return None
        work[j, j] = np.sqrt(pivot)
        work[:j, j] = 0
        column, rest = work[j + 1 :, j], work[j + 1 :, j + 1 :]
        column /= work[j, j].real
        rest -= np.multiply(column[:, None], column.conj(), out=buffer[: rest.size].reshape(rest.shape))
    return _batch_first(work, A.shape)


def cholesky_solve_in_step(factor, B, upper):
    """Solve A X = B, where A is L L^H, or U^H U for `upper`."""
    a, x = _batch_last(factor), _batch_last(B)
    _substitute(a, x, upper, trans=2 if upper else 0)
    _substitute(a, x, upper, trans=0 if upper else 2)
    return _batch_first(x, B.shape)


def cholesky_inverse_in_step(factor, upper):
    """Return the Hermitian inverse of L L^H, or of U^H U for `upper`."""
    eye = np.broadcast_to(np.eye(factor.shape[-1], dtype=factor.dtype), factor.shape)
    half = np.tril(cholesky_solve_in_step(factor, eye, upper))
    diagonal = np.diagonal(half, 0, -2, -1).real
    whole = half + np.swapaxes(half, -1, -2).conj()
    np.einsum("...ii->...i", whole)[...] = diagonal
    return whole
