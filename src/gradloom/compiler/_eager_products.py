"""Products of matrices in eager mode by machine code, where it is faster: Note [Which products are generated]."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

ndarray, empty = np.ndarray, np.empty
_LEAST = 1 << 17  # multiplications from which a product saves more than finding it by its shapes takes


class _Matrices(NamedTuple):
    """What `Product` asks for of an array whose first element is that of the matrices."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Any
    offset: int = 0


def product(kept: dict[Any, Any], limit: int) -> Callable[[Any], Any]:
    """Return what makes the replacement of `kernels.matmul.product`; it keeps up to `limit` products in `kept`."""

    def make(original: Any) -> Any:
        from ._llvm import Product, reason_for_blas

        def made(a: np.ndarray, b: np.ndarray, key: Any) -> Any:
            shape = (*a.shape[:-1], b.shape[-1])
            out = empty(shape, a.dtype)
            matrices = [_Matrices(x.shape, x.strides, x.dtype) for x in (a, b, out)]
            if len(kept) >= limit:
                kept.clear()
            found = kept[key] = False if reason_for_blas(*matrices) is not None else (Product(*matrices), shape)
            return found

        def kernel(a: Any, b: Any, name: str, keep_wide: bool = False) -> Any:
            if type(a) is type(b) is ndarray and 1 < a.ndim == b.ndim and a.size * b.shape[-1] >= _LEAST:
                dtype = a.dtype
                if dtype is b.dtype and dtype.char in "fd" and b.size:
                    key = "product", a.shape, a.strides, b.shape, b.strides, dtype
                    found = kept.get(key)
                    if found is None:
                        found = made(a, b, key)
                    if found is not False:
                        multiply, shape = found
                        out = empty(shape, dtype)
                        multiply(*((a, b) if multiply.layout.panel == 0 else (b, a)), out)
                        return out
            return original(a, b, name, keep_wide)

        return kernel

    return make
