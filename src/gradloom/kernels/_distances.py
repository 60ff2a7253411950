"""Distances between arrays and between the rows of two matrices."""

from __future__ import annotations

import numpy as np

from ..types.dtype import TYPE_OF, scalar_type_name
from ._norms import p_norm
from ._precision import is_half

_MATMUL_FROM = 25  # rows, from which on PyTorch takes euclidean distances from a matrix product
_BLOCK = 1 << 22  # elements of differences held at once


def dist(self, other, p=2):
    """The p-norm of the difference of two arrays, which may broadcast."""
    kind = self.dtype
    if kind.kind not in "fcV":
        raise RuntimeError(
            "norm(): input dtype should be either floating point or complex. Got "
            f"{scalar_type_name(TYPE_OF[kind])} instead."
        )
    difference = self - other
    if is_half(kind):
        return p_norm(difference.astype(np.float32), p, None, False).astype(kind)
    return p_norm(difference, p, None, False) if difference.size else np.zeros((), difference.real.dtype)


def cdist(x1, x2, p, compute_mode=None):
    """The p-norm distance of each row of `x1` to each row of `x2`.

    Args:
        x1, x2: (..., P, M) and (..., R, M), floating, whose batch shapes broadcast.
        compute_mode: 0 or None: by a matrix product for p 2 and more than 25 rows; 1: always; 2: never.

    Returns:
        (..., P, R)

    Raises:
        RuntimeError: for integers and complex numbers.
    """
    _floating(x1, x2)
    batch = np.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    x1, x2 = (np.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (x1, x2))
    rows, columns = x1.shape[-2], x2.shape[-2]
    by_product = compute_mode == 1 or (compute_mode in (None, 0) and (rows > _MATMUL_FROM or columns > _MATMUL_FROM))
    if not x1.shape[-1] or not x1.size or not x2.size:
        return np.zeros((*x1.shape[:-1], columns), x1.dtype)
    if p == 2 and by_product:
        return euclidean(x1, x2)
    out = np.empty((*x1.shape[:-1], columns), x1.dtype)
    step = max(1, _BLOCK // max(1, x2.size))
    for i in range(0, rows, step):
        difference = x1[..., i : i + step, None, :] - x2[..., None, :, :]
        out[..., i : i + step, :] = p_norm(difference, p, difference.ndim - 1, False)
    return out


def _floating(x1, x2):
    for name, x in (("X1", x1), ("X2", x2)):
        if x.dtype.kind not in "fV":
            raise RuntimeError(
                f"cdist only supports floating-point dtypes, {name} got: {scalar_type_name(TYPE_OF[x.dtype])}"
            )


def euclidean(x1, x2):
    """The distances of all rows, from |a - b|**2 = |a|**2 + |b|**2 - 2 a.b, which rounding may make negative."""
    _floating(x1, x2)
    squares = np.add.reduce(x1 * x1, -1)[..., :, None] + np.add.reduce(x2 * x2, -1)[..., None, :]
    squares -= 2 * (x1 @ np.swapaxes(x2, -1, -2))
    return np.sqrt(np.maximum(squares, 0, out=squares), out=squares)
