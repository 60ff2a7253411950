"""Vector norms, which are real for complex arrays too, and distances."""

from __future__ import annotations

from math import inf

import numpy as np

from ...types.dtype import TYPE_OF, c_name, can_cast, scalar_type_name
from .._common.blas import dot, gemm
from .._common.dims import axes, cast, count, dropped
from .._common.errors import not_implemented, size_mismatch, type_name
from .._common.layout import row_major
from .._common.numbers import is_half
from .sums import along, total


def vector_norm(self, ord=2, dim=None, keepdim=False, dtype=None):
    """Return (sum |x|**ord) ** (1 / ord) over dimensions, all for None or (). `ord` 0 counts the nonzero elements; inf
    and -inf give the greatest and least magnitude."""
    kind = self.dtype
    if kind.kind not in "fcV":
        raise NotImplementedError(
            f"linalg.vector_norm: Expected a floating point or complex tensor as input. Got {type_name(kind)}"
        )
    if dtype is not None:
        _check_type(kind, dtype)
        self, kind = cast(self, dtype), dtype
    axis = axes(dim, self.ndim)
    if not count(self, axis) and (ord < 0 or ord == inf):
        _refuse_empty(self, ord, axis)
    x = self.astype(np.float32) if is_half(kind) else self
    found = p_norm(x, ord, axis, keepdim)
    return found.astype(kind, copy=False) if kind.kind != "c" else found


def p_norm(x, p, axis, keepdim):
    """Return the norm of a floating or complex array over NumPy's `axis`, in its real dtype; of one element, its
    magnitude."""
    if p != 0 and count(x, axis) == 1:
        size = np.asarray(np.abs(x))
        return size if keepdim else dropped(size, axis)
    if p == 2:
        if axis is None and not keepdim and x.flags.forc:
            flat = x.reshape(-1) if x.flags.c_contiguous else x.reshape(-1, order="F")
            if flat.dtype.kind == "c":
                flat = flat.view(flat.real.dtype)
            return np.sqrt(dot(flat, flat))
        squares = x.real**2 + x.imag**2 if x.dtype.kind == "c" else x * x
        return np.sqrt(along(squares, axis, keepdim))
    if p == 0:
        return row_major(np.add.reduce(x != 0, axis, x.real.dtype, None, keepdim))
    size = np.abs(x)
    if p == inf:
        return row_major(np.maximum.reduce(size, axis, None, None, keepdim, 0))
    if p == -inf:
        return row_major(np.minimum.reduce(size, axis, None, None, keepdim))
    if p == 1:
        return total(size) if axis is None and not keepdim else along(size, axis, keepdim)
    return along(size**p, axis, keepdim) ** size.dtype.type(1 / p)


def _check_type(kind, dtype):
    given, wanted = TYPE_OF[kind], TYPE_OF[dtype]
    if given.is_complex is not wanted.is_complex or dtype.kind not in "fcV":
        what = "complex" if given.is_complex else "real"
        raise RuntimeError(
            f"linalg.vector_norm: dtype should be {what} for {what} inputs, but got {scalar_type_name(wanted)}"
        )
    if not can_cast(given, wanted) or wanted.itemsize < given.itemsize:
        raise RuntimeError(
            f"linalg.vector_norm: the dtype of the input ({scalar_type_name(given)}) should be "
            f"convertible without narrowing to the specified dtype ({scalar_type_name(wanted)})"
        )


def _refuse_empty(array, p, axis):
    shown = f"{p:g}"
    if axis is None:
        raise RuntimeError(
            f"linalg.vector_norm cannot compute the {shown} norm on an empty tensor because the "
            "operation does not have an identity"
        )
    for a in (axis,) if axis.__class__ is int else axis:
        if not array.shape[a]:
            raise RuntimeError(
                f"linalg.vector_norm cannot compute the {shown} norm on the dimension {a}because this "
                "dimension is empty and the operation does not have an identity"
            )


def norm(self, p=2, dtype=None):
    """Return the vector norm of all elements."""
    return vector_norm(self, 2 if p is None else p, None, False, dtype)


def norm_dim(self, p, dim, keepdim=False, dtype=None):
    """Return the vector norm over dimensions; `p` None stands for 2."""
    return vector_norm(self, 2 if p is None else p, dim, keepdim, dtype)


def renorm(self, p, dim, maxnorm):
    """Scale each slice along `dim` whose p-norm exceeds `maxnorm` down to it."""
    if p.__class__ is complex or p <= 0:
        raise RuntimeError("renorm: non-positive-norm not supported")
    if maxnorm.__class__ is complex:
        raise RuntimeError("renorm: maxnorm must be real-valued")
    if maxnorm < 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm:g}")
    if self.ndim < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {self.ndim} dimensions")
    axis = axes(dim, self.ndim)
    others = tuple([i for i in range(self.ndim) if i != axis])
    sizes = vector_norm(self.astype(np.float32) if is_half(self.dtype) else self, p, others, True)
    scale = np.where(sizes > maxnorm, maxnorm / (sizes + sizes.dtype.type(1e-7)), sizes.dtype.type(1))
    return row_major(self * scale.astype(self.dtype, copy=False)).astype(self.dtype, copy=False)


_MATMUL_FROM = 25  # rows, from which on PyTorch computes euclidean distances by a matrix product
_BLOCK = 1 << 22  # elements of differences held at once


def dist(self, other, p=2):
    """Return the p-norm of the difference of two arrays; shapes broadcast."""
    kind = self.dtype
    if kind.kind not in "fcV":
        raise RuntimeError(
            f"norm(): input dtype should be either floating point or complex. Got {type_name(kind)} instead."
        )
    text = size_mismatch((self.shape, other.shape))
    if text:
        raise RuntimeError(text)
    difference = self - other
    if is_half(kind):
        return p_norm(difference.astype(np.float32), p, None, False).astype(kind)
    return p_norm(difference, p, None, False) if difference.size else np.zeros((), difference.real.dtype)


def cdist(x1, x2, p, compute_mode=None):
    """Return the p-norm distance of each row of `x1` to each row of `x2`: (..., P, R). Raises RuntimeError for
    integers, complex numbers and two dtypes, NotImplementedError for half precision without a matrix product.

    Args:
        x1, x2: (..., P, M) and (..., R, M), floating, whose batch shapes broadcast.
        compute_mode: 0 or None: by a matrix product for p 2 and more than 25 rows; 1: always; 2: never.
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
    if is_half(x1.dtype):
        raise not_implemented("cdist", x1)
    if x1.dtype is not x2.dtype:
        raise RuntimeError(f"expected scalar type {type_name(x1.dtype)} but found {type_name(x2.dtype)}")
    out = np.empty((*x1.shape[:-1], columns), x1.dtype)
    step = max(1, _BLOCK // max(1, x2.size))
    for i in range(0, rows, step):
        difference = x1[..., i : i + step, None, :] - x2[..., None, :, :]
        if p == inf:  # NaN is passed by, unlike in other norms
            found = np.fmax.reduce(np.abs(difference), -1, initial=0)
        else:
            found = _distance(difference, p)
        out[..., i : i + step, :] = found
    return out


@np.errstate(all="ignore")
def pdist(self, p):
    """Return the p-norm distances of all pairs of rows i < j of a matrix, row by row; float32 and float64 only."""
    if self.dtype.kind != "f" or self.dtype.itemsize < 4:
        raise not_implemented("pdist", self)
    rows = len(self)
    out = np.zeros(rows * (rows - 1) // 2, self.dtype)
    start = 0
    for i in range(rows - 1 if self.shape[1] else 0):
        difference = self[i + 1 :] - self[i]
        stop = start + len(difference)
        out[start:stop] = _distance(difference, p)
        start = stop
    return out


def _distance(difference, p):
    """Return the p-norms along the last dimension. The count for p 0 is NaN where a difference is."""
    found = p_norm(difference, p, difference.ndim - 1, False)
    if p == 0:
        found[np.isnan(difference).any(-1)] = np.nan
    return found


def _floating(x1, x2):
    for name, x in (("X1", x1), ("X2", x2)):
        if x.dtype.kind not in "fV":
            raise RuntimeError(f"cdist only supports floating-point dtypes, {name} got: {type_name(x.dtype)}")


def euclidean(x1, x2):
    """Return all distances between rows, from |a - b|**2 = |a|**2 + |b|**2 - 2 a.b, clamped at zero."""
    _floating(x1, x2)
    if x1.dtype is not x2.dtype:
        raise RuntimeError(
            f"expected m1 and m2 to have the same dtype, but got: {c_name(x1.dtype)} != {c_name(x2.dtype)}"
        )
    squares = np.add.reduce(x1 * x1, -1)[..., :, None] + np.add.reduce(x2 * x2, -1)[..., None, :]
    squares -= 2 * gemm(x1, np.swapaxes(x2, -1, -2))
    return np.sqrt(np.maximum(squares, 0, out=squares), out=squares)
