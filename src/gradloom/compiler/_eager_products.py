"""Products of matrices in eager mode by machine code, where it is faster: Note [Which products are generated]."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..kernels._common import blas
from ..types.silence import silence
from ._llvm.fits import MisfitError

ndarray, empty = np.ndarray, np.empty
_NATIVE = {"f": np.dtype(np.float32), "d": np.dtype(np.float64)}
KEPT = 1024  # products, by their shapes and strides; more start anew
_LEAST = 1 << 17  # multiplications from which a product saves more than finding it takes
_kept: dict[Any, Any] = {}  # (Product, shape of the result), or False where BLAS computes it


class _Matrices(NamedTuple):
    """What `Product` asks for of an array whose first element is that of the matrices."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Any
    offset: int = 0


def product(original: Any) -> Any:
    """Return the replacement of `kernels.matmul.product`."""

    def kernel(a: Any, b: Any, name: str, keep_wide: bool = False) -> Any:
        found = _multiplied(a, b, None)
        return original(a, b, name, keep_wide) if found is None else found

    return kernel


def gemm(original: Any) -> Any:
    """Return the replacement of a module's `blas.gemm`."""

    def kernel(a: Any, b: Any, out: Any = None) -> Any:
        found = _multiplied(a, b, out)
        return original(a, b, out) if found is None else found

    return kernel


gemm_or_blas = gemm(blas.gemm)


def _multiplied(a: Any, b: Any, out: Any) -> Any:
    """Return a @ b, in `out` if that is not None; or None where BLAS shall compute it."""
    if type(a) is not ndarray or type(b) is not ndarray or b.ndim < 2 or a.size * b.shape[-1] < _LEAST:
        return None
    dtype = a.dtype
    if dtype is not b.dtype or dtype.char not in "fd":
        return None
    of_out = None if out is None else (type(out), out.shape, out.strides, out.dtype)
    key = a.shape, a.strides, b.shape, b.strides, dtype, of_out
    found = _kept.get(key)
    if found is None:
        found = _found(a, b, out, key)
    if found is False:
        return None
    multiply, shape = found
    if out is None:
        out = empty(shape, dtype)
    try:
        if multiply.layout.panel:
            multiply(b, a, out)
        else:
            multiply(a, b, out)
    except MisfitError:  # an array that is not aligned, or read-only
        return None
    return out


def _found(a: np.ndarray, b: np.ndarray, out: Any, key: Any) -> Any:
    from ._llvm import Product, reason_for_blas

    shape = (*a.shape[:-1], b.shape[-1])
    given = empty(shape, a.dtype) if out is None else out
    found: Any = False
    alike = type(given) is ndarray and given.dtype is a.dtype is _NATIVE[a.dtype.char] and given.shape == shape
    if alike and a.shape[:-2] == b.shape[:-2] and a.shape[-1] == b.shape[-2] and min(a.size, b.size):
        matrices = [_Matrices(x.shape, x.strides, x.dtype) for x in (a, b, given)]
        if reason_for_blas(*matrices) is None:
            found = Product(*matrices), shape
    if len(_kept) >= KEPT:
        _kept.clear()
    _kept[key] = found
    return found


silence(globals())
