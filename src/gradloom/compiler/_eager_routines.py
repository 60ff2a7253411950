"""Eager replacements by routines of machine code: scans, sorts, places and random words. See `_eager`.

Sorts, places and random numbers are those of NumPy's kernels to the bit; so are scans, whose sums and products are
taken in the order of the elements, in double precision for float32. Each function returns what makes the replacement of
a kernel from the kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import prod
from typing import Any

import numpy as np

from ..kernels.indexing.places import writable
from ..kernels.random.streams import BLOCK, WORDS, Stream
from ..types.silence import silence
from ._llvm import places, scans, words as random_words
from ._llvm.orders import ROWS, bytes_of_keys, order

Make = Callable[[Any], Any]
ndarray, empty = np.ndarray, np.empty
_INT64 = np.dtype(np.int64)
_DTYPES = {"f": "float32", "d": "float64", _INT64.char: "int64", "i": "int32"}
_SUMMED = "fd" + _INT64.char
_LONGEST, _FEW = 2048, 64  # elements of a row that are sorted here, if there are rows for all lanes; and always
_STEP, _COMPARISON, _BYTE = 0.5, 0.08, 0.05  # nanoseconds


def _around(shape: tuple[int, ...], dim: Any) -> tuple[int, int, int] | None:
    """Return the elements before a dimension, along it and after it; None if it is not there or the array is empty."""
    ndim = len(shape)
    if dim.__class__ is not int or not -ndim <= dim < ndim or 0 in shape:
        return None
    dim %= ndim
    return prod(shape[:dim]), shape[dim], prod(shape[dim + 1 :])


def total(kind: str) -> Make:
    """Replace cumsum and cumprod."""

    def make(original: Any) -> Any:
        def kernel(self: Any, dim: int, dtype: Any = None) -> Any:
            if (
                type(self) is ndarray and self.dtype.char in _SUMMED and (dtype is None or dtype is self.dtype)
                and self.flags.c_contiguous and (around := _around(self.shape, dim))
            ):  # fmt: skip
                before, count, after = around
                out = empty(self.shape, self.dtype)
                code = scans.scan(kind, _DTYPES[self.dtype.char])
                if not code.over(before, self.size * _STEP, (self, out), (count, after)):
                    return out
            return original(self, dim, dtype)

        return kernel

    return make


def extremum(kind: str) -> Make:
    """Replace cummax and cummin."""

    def make(original: Any) -> Any:
        def kernel(self: Any, dim: int) -> Any:
            if (
                type(self) is ndarray and self.dtype.char in _DTYPES and self.flags.c_contiguous
                and (around := _around(self.shape, dim))
            ):  # fmt: skip
                before, count, after = around
                values, places = empty(self.shape, self.dtype), empty(self.shape, _INT64)
                code = scans.scan(kind, _DTYPES[self.dtype.char])
                if not code.over(before, self.size * _STEP, (self, values, places), (count, after)):
                    return values, places
            return original(self, dim)

        return kernel

    return make


def _ordered(x: Any, dim: Any, descending: bool, rank: int, count: int | None, strict: int = 0) -> Any:
    """Return elements of some ranks (all: None) along a dimension, and their places; None if they are left to NumPy."""
    if type(x) is not ndarray or x.dtype.char not in _DTYPES or not x.flags.c_contiguous:
        return None
    shape, dtype = x.shape, x.dtype
    around = _around(shape, dim)
    if around is None:
        return None
    before, n, after = around
    rows = before * after
    if n > _FEW and (rows < ROWS or n > _LONGEST):
        return None
    if count is None:
        count = n
    else:
        dim %= len(shape)
        shape = (*shape[:dim], count, *shape[dim + 1 :])
    values, places = empty(shape, dtype), empty(shape, _INT64)
    code = order(_DTYPES[dtype.char], descending)
    cost = x.size * n.bit_length() ** 2 * _COMPARISON
    memory = bytes_of_keys(n, dtype.itemsize)
    if code.over(rows, cost, (x, values, places), (n, after, rank, count, strict), memory):
        return None
    return values, places


def sort(original: Any) -> Any:
    def kernel(self: Any, dim: int = -1, descending: bool = False) -> Any:
        found = _ordered(self, dim, bool(descending), 0, None)
        return original(self, dim, descending) if found is None else found

    return kernel


def topk(original: Any) -> Any:
    """Take what NumPy's kernel sorts; where it selects by partition, equal elements may have another order."""
    from ..kernels.sorting import PARTITION_FROM

    def kernel(self: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
        if k > 0 and dim.__class__ is int and -self.ndim <= dim < self.ndim:
            n = self.shape[dim]
            if n < PARTITION_FROM or n >= k > n // 4:
                found = _ordered(self, dim, bool(largest), 0, k) if k <= n else None
                if found is not None:
                    return found
        return original(self, k, dim, largest, sorted)

    return kernel


def kthvalue(original: Any) -> Any:
    """Take rows in which the element has no equals: which of them is found follows from how NumPy's kernel looks."""

    def kernel(self: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
        if dim.__class__ is int and -self.ndim <= dim < self.ndim and 1 <= k <= self.shape[dim]:
            found = _ordered(self, dim, False, k - 1, 1, 1)
            if found is not None:
                return found if keepdim else tuple([x.squeeze(dim) for x in found])
        return original(self, k, dim, keepdim)

    return kernel


def median_dim(original: Any) -> Any:
    """As `kthvalue`, for rows without NaN."""

    def kernel(self: Any, dim: int, keepdim: bool = False) -> Any:
        if dim.__class__ is int and -self.ndim <= dim < self.ndim:
            found = _ordered(self, dim, False, (self.shape[dim] - 1) // 2, 1, 2)
            if found is not None:
                return found if keepdim else tuple([x.squeeze(dim) for x in found])
        return original(self, dim, keepdim)

    return kernel


def _is_index(index: Any) -> bool:
    return type(index) is ndarray and index.dtype is _INT64 and index.flags.c_contiguous and index.size > 0


def index_select(original: Any) -> Any:
    def kernel(self: Any, dim: int, index: Any) -> Any:
        if (
            type(self) is ndarray and self.flags.c_contiguous and _is_index(index) and index.ndim == 1
            and (around := _around(self.shape, dim))
        ):  # fmt: skip
            found = _parts(
                self, index, (*self.shape[: dim % self.ndim], index.size, *self.shape[dim % self.ndim + 1 :]), around
            )
            if found is not None:
                return found
        return original(self, dim, index)

    return kernel


def embedding(original: Any) -> Any:
    def kernel(
        weight: Any, indices: Any, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
    ) -> Any:
        if type(weight) is ndarray and weight.ndim == 2 and weight.flags.c_contiguous and weight.size:
            if _is_index(indices):
                rows, width = weight.shape
                found = _parts(weight, indices, (*indices.shape, width), (1, rows, width))
                if found is not None:
                    return found
        return original(weight, indices, padding_idx, scale_grad_by_freq, sparse)

    return kernel


def _parts(x: Any, index: Any, shape: tuple[int, ...], around: tuple[int, int, int]) -> Any:
    before, size, after = around
    if x.dtype.hasobject:
        return None
    out = empty(shape, x.dtype)
    count, item = index.size, x.itemsize
    refused = places.take().over(before * count, out.nbytes * _BYTE, (x, index, out), (size, count, after, item))
    return None if refused else out


def scatter_add(original: Any) -> Any:
    def kernel(self: Any, dim: int, index: Any, src: Any) -> Any:
        if _scatters(self, dim, index, src):
            out = self.copy()
            if not _scatter(out, dim, index, src):
                return out
        return original(self, dim, index, src)

    return kernel


def scatter_add_(original: Any) -> Any:
    def kernel(self: Any, dim: int, index: Any, src: Any) -> Any:
        if _scatters(self, dim, index, src) and self.flags.writeable:
            if not _scatter(writable(self, index, src), dim, index, src):
                return self
        return original(self, dim, index, src)

    return kernel


def _scatters(x: Any, dim: Any, index: Any, src: Any) -> bool:
    if (
        type(x) is not ndarray or type(src) is not ndarray or not _is_index(index) or x.dtype.char not in _DTYPES
        or src.dtype is not x.dtype or index.shape != src.shape or x.ndim != index.ndim or not x.size
        or not x.flags.c_contiguous or not src.flags.c_contiguous or dim.__class__ is not int
        or not -x.ndim <= dim < x.ndim
    ):  # fmt: skip
        return False
    dim %= x.ndim
    return x.shape[:dim] == index.shape[:dim] and x.shape[dim + 1 :] == index.shape[dim + 1 :]  # type: ignore[no-any-return]


def _scatter(x: Any, dim: int, index: Any, src: Any) -> bool | None:
    """Add; return True if an index is out of range, before anything is written."""
    dim %= x.ndim
    before, count, after = prod(src.shape[:dim]), src.shape[dim], prod(src.shape[dim + 1 :])
    code = places.scatter_add(_DTYPES[x.dtype.char])
    if before == 1 or src.size * _STEP * 4 < 100_000:
        return code.call(x, index, src, 0, before, x.shape[dim], count, after)
    lowest, highest = index.item(index.argmin()), index.item(index.argmax())
    if lowest < 0 or highest >= x.shape[dim]:  # threads write before others have seen their part of the index
        return True
    return code.over(before, src.size * _STEP * 4, (x, index, src), (x.shape[dim], count, after))


def index_add(original: Any) -> Any:
    def kernel(self: Any, dim: int, index: Any, source: Any, alpha: Any = 1) -> Any:
        if _adds(self, dim, index, source, alpha):
            out = self.copy()
            if not _add(out, dim, index, source):
                return out
        return original(self, dim, index, source, alpha)

    return kernel


def index_add_(original: Any) -> Any:
    def kernel(self: Any, dim: int, index: Any, source: Any, alpha: Any = 1) -> Any:
        if _adds(self, dim, index, source, alpha) and self.flags.writeable:
            if not _add(writable(self, index, source), dim, index, source):
                return self
        return original(self, dim, index, source, alpha)

    return kernel


def _adds(x: Any, dim: Any, index: Any, source: Any, alpha: Any) -> bool:
    if (
        type(x) is not ndarray or type(source) is not ndarray or not _is_index(index) or index.ndim != 1
        or x.dtype.char not in _DTYPES or source.dtype is not x.dtype or x.ndim != source.ndim or not x.size
        or not x.flags.c_contiguous or not source.flags.c_contiguous or dim.__class__ is not int
        or not -x.ndim <= dim < x.ndim or alpha.__class__ not in (int, float) or alpha != 1
    ):  # fmt: skip
        return False
    dim %= x.ndim
    return source.shape == (*x.shape[:dim], index.size, *x.shape[dim + 1 :])  # type: ignore[no-any-return]


def _add(x: Any, dim: int, index: Any, source: Any, omitted: int = -1) -> bool | None:
    dim %= x.ndim
    before, count, after = prod(source.shape[:dim]), source.shape[dim], prod(source.shape[dim + 1 :])
    code = places.add_parts(_DTYPES[x.dtype.char])
    cost, lines = source.nbytes * _BYTE * 2, -(-after * x.itemsize // places.LINE)
    return code.over(lines, cost, (x, index, source), (before, x.shape[dim], count, after, omitted), 0, 1)


def embedding_dense_backward(original: Any) -> Any:
    def kernel(grad_output: Any, indices: Any, num_weights: int, padding_idx: int, scale_grad_by_freq: bool) -> Any:
        if (
            type(grad_output) is ndarray and grad_output.dtype.char in "fd" and _is_index(indices)
            and not scale_grad_by_freq and grad_output.size and num_weights > 0
            and grad_output.size == indices.size * grad_output.shape[-1]
        ):  # fmt: skip
            width = grad_output.shape[-1]
            out = np.zeros((num_weights, width), grad_output.dtype)
            values = np.ascontiguousarray(grad_output.reshape(-1, width))  # a sum's gradient is one number, expanded
            if not _add(out, 0, indices.reshape(-1), values, max(-1, padding_idx)):
                return out
        return original(grad_output, indices, num_weights, padding_idx, scale_grad_by_freq)

    return kernel


@cache
def _knows_state() -> bool:
    """Return whether NumPy's generator keeps its words, and how many are used, where `words` reads them."""
    import ctypes

    from numpy.random import MT19937

    bits = MT19937(0)
    bits.random_raw(5)
    held = np.array((ctypes.c_uint32 * (WORDS + 1)).from_address(bits.ctypes.state_address))
    state = bits.state["state"]
    return np.array_equal(held[:WORDS], state["key"]) and held[WORDS] == state["pos"]


def words(kind: str) -> Make:
    """Replace a method of Stream that draws words, or numbers of them. See `_llvm.words`."""
    dtype = np.dtype(random_words.DTYPES[kind])

    def make(original: Any) -> Any:
        def method(self: Stream, n: int, out: Any = None) -> Any:
            if not _knows_state():
                return original(self, n) if out is None else original(self, n, out)
            code = random_words.words(kind)
            bits = self._bits or self._source()
            if n:
                self._untouched = False
            target = empty(n, dtype) if out is None else out
            if not code.call(target, 0, n, bits.ctypes.state_address, 0, 0):
                return target
            return original(self, n) if out is None else original(self, n, out)

        return method

    return make


def draw_integers(original: Any) -> Any:
    from ..kernels.random.integers import is_narrow

    def kernel(stream: Stream, low: int, high: int, shape: tuple[int, ...], dtype: Any) -> Any:
        size = prod(shape)
        if dtype is _INT64 and is_narrow(low, high) and 0 < size <= BLOCK and _knows_state():
            code = random_words.words("integers")
            out = empty(shape, _INT64)
            with stream.lock:
                bits = stream._bits or stream._source()
                stream._untouched = False
                refused = code.call(out, 0, size, bits.ctypes.state_address, low, high - low)
            if not refused:
                return out
        return original(stream, low, high, shape, dtype)

    return kernel


silence(globals())
