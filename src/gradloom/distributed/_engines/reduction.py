"""Reduction of arrays in the order of the ranks: the arithmetic that all engines share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import Op

_UFUNCS: dict[str, Callable[..., Any]] = {
    "sum": np.add,
    "avg": np.add,
    "premul_sum": np.add,
    "product": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "band": np.bitwise_and,
    "bor": np.bitwise_or,
    "bxor": np.bitwise_xor,
}
OPS = tuple(_UFUNCS)


class Reduction:
    """One operation on arrays of one dtype.

    Sums and products of float16 and bfloat16 are accumulated in float32 and rounded once. Of bool, a sum is `or`, a
    product `and`.

    Args:
        op: see Op.
        dtype: of the arrays.
        size: number of ranks.

    Raises:
        ValueError: the dtype does not have the operation.
    """

    __slots__ = ("_divisor", "_factor", "_is_compared", "_is_exact", "_ufunc", "_wide", "name")

    def __init__(self, op: Op, dtype: np.dtype, size: int) -> None:
        name = op if isinstance(op, str) else op[0]
        if name not in _UFUNCS:
            raise ValueError(f"unknown reduction {name!r}: use one of {', '.join(OPS)}")
        exact = dtype.kind in "iub"
        refused = (
            (name in ("band", "bor", "bxor") and not exact)
            or (name in ("min", "max") and dtype.kind == "c")
            or (name in ("avg", "premul_sum") and dtype.kind == "b")
        )
        if refused:
            raise ValueError(f"reduction {name!r} is not defined for dtype {dtype}")
        self.name = name
        self._ufunc = _UFUNCS[name]
        rounds = name in ("sum", "avg", "premul_sum", "product")
        self._wide = np.dtype(np.float32) if rounds and not exact and dtype.itemsize <= 2 else None
        self._is_exact, self._is_compared = exact, name in ("min", "max") and not exact
        self._divisor = size if name == "avg" else None
        self._factor = None if isinstance(op, str) else self._scalar(op[1], dtype)

    def _scalar(self, factor: Any, dtype: np.dtype) -> np.ndarray:
        found = np.asarray(factor)
        if found.size != 1:
            raise ValueError(f"premul_sum takes one factor, not an array of shape {found.shape}")
        return found.reshape(()).astype(self._wide or dtype)

    def prepared(self, array: np.ndarray) -> np.ndarray:
        """Return what this rank contributes: the array, or for premul_sum its product with the factor."""
        if self._factor is None:
            return array
        return np.multiply(array, self._factor, dtype=self._wide).astype(array.dtype, copy=False)

    def reduce(self, out: np.ndarray, parts: Sequence[np.ndarray]) -> None:
        """Reduce `parts` into `out`, in their order.

        Args:
            out: an array that overlaps none of `parts` but the first two.
            parts: what the ranks contribute, of the shape and dtype of `out`.
        """
        if self._wide is not None:
            total = np.empty(out.shape, self._wide)
            self._accumulate(total, parts)
            out[...] = self._averaged(total)
            return
        self._accumulate(out, parts)
        if self._divisor is not None:
            out[...] = self._averaged(out)

    def exchanged(self, array: np.ndarray) -> np.ndarray:
        """Return what another library reduces for this rank: `prepared`, or integers in the order of the numbers.

        Libraries compare floating-point numbers in C, where the result depends on the order of the ranks if there is a
        NaN, or zeros of both signs.
        """
        return _ordered(array, self.name) if self._is_compared else self.prepared(array)

    def finish(self, total: np.ndarray, out: np.ndarray) -> None:
        """Put what another library made of `exchanged` into `out`, which may be `total`.

        A NaN has the same bits everywhere: which one a sum of several gives depends on their order.
        """
        if self._is_compared:
            out[...] = _numbers(total)
        elif self._divisor is not None:
            out[...] = self._averaged(total if self._wide is None else total.astype(self._wide))
        elif out is not total:
            out[...] = total
        if not self._is_exact:
            parts = out.view(out.real.dtype) if out.dtype.kind == "c" else out
            parts[np.isnan(parts)] = np.nan

    def _accumulate(self, out: np.ndarray, parts: Sequence[np.ndarray]) -> None:
        if len(parts) == 1:
            out[...] = parts[0]
            return
        ufunc, wide = self._ufunc, self._wide
        ufunc(parts[0], parts[1], out=out, dtype=wide)
        for part in parts[2:]:
            ufunc(out, part, out=out, dtype=wide)

    def _averaged(self, total: np.ndarray) -> np.ndarray:
        if self._divisor is None:
            return total
        if total.dtype.kind in "iu":
            return np.trunc(total / self._divisor)
        return np.divide(total, self._divisor, out=total)


def _ordered(array: np.ndarray, name: str) -> np.ndarray:
    """Return integers that are in the order of floating-point numbers; -0 is less than 0.

    A NaN becomes the integer that decides a minimum or maximum, which `name` says.
    """
    wide = array if array.dtype.kind == "f" and array.itemsize > 2 else array.astype(np.float32)
    limits = np.iinfo(f"i{wide.itemsize}")
    bits = wide.view(limits.dtype)
    ordered = bits ^ ((bits >> (limits.bits - 1)) & limits.max)
    ordered[np.isnan(wide)] = limits.max if name == "max" else limits.min
    return ordered


def _numbers(ordered: np.ndarray) -> np.ndarray:
    """Return the numbers of which `_ordered` made integers."""
    limits = np.iinfo(ordered.dtype)
    return (ordered ^ ((ordered >> (limits.bits - 1)) & limits.max)).view(f"f{ordered.itemsize}")
