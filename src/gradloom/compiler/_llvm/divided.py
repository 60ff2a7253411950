"""Products by NumPy's OpenBLAS whose parts are computed by the pool's threads.

Note [Divided products]
OpenBLAS's own workers spin for milliseconds after each product, on the cores of the loops that follow, and dividing a
product among Python's threads costs 80 us (Note [Threads of products]). The pool's threads call `cblas_sgemm` and
`cblas_dgemm` by their addresses, each for some rows, columns or matrices, while OpenBLAS is limited to one thread. What
the parts are follows from shapes and strides, and is kept for the next product of such matrices.
"""

from __future__ import annotations

import ctypes
from functools import cache, lru_cache
from typing import Any

import numpy as np

from ...kernels._common.threads import find_in_blas, get_num_threads, single_threaded_blas
from . import pool
from .code import load_code
from .fits import header_size

_LARGE = 1 << 26  # multiplications from which each thread gets several parts, in case one is late
_UNIT = 16  # rows and columns that OpenBLAS computes at a time, or a multiple of them
_PLAIN, _TRANSPOSED = 111, 112  # as CBLAS numbers them
# A part: whether the factors are transposed, sizes, and for each matrix its first byte and the distance of its rows.
_WORDS = ("ta", "tb", "m", "n", "k", "a", "lda", "b", "ldb", "c", "ldc")


def divide(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> bool:
    """Write a @ b to `out` by all threads and return True; or return False if BLAS cannot take the matrices where they
    are, or machine code has no threads. All are float32 or all float64; `out` has the shape of the product."""
    addresses, found = _addresses(), pool.workers()
    if found is None or addresses is None:
        return False
    count = get_num_threads()
    parts = _parts(a.shape, a.strides, b.shape, b.strides, out.shape, out.strides, a.itemsize, count)
    if parts is None:
        return False
    _, table, length = parts
    single = a.itemsize == 4
    function, gemm = (_functions()[0], addresses[0]) if single else (_functions()[1], addresses[1])
    with single_threaded_blas():
        function(found.state, found.run, table, length, count - 1, gemm, a, b, out)
    return True


@lru_cache(4096)
def _parts(
    a: tuple[int, ...],
    of_a: tuple[int, ...],
    b: tuple[int, ...],
    of_b: tuple[int, ...],
    out: tuple[int, ...],
    of_out: tuple[int, ...],
    item: int,
    threads: int,
) -> tuple[np.ndarray, int, int] | None:
    """Return the parts of a product of arrays with these shapes and strides: a table, its address and its length."""
    (m, k), n = a[-2:], b[-1]
    left, right, result = _layout(a, of_a, item), _layout(b, of_b, item), _layout(out, of_out, item)
    if left is None or right is None or result is None or result[0] != _PLAIN or not min(m, n, k):
        return None
    batch = out[:-2]
    first = [_offsets(shape[:-2], strides[:-2], batch) for shape, strides in ((a, of_a), (b, of_b), (out, of_out))]
    matrices = list(zip(*first, strict=True))
    work = m * n * k * len(matrices)
    wanted = threads * (1 if work < _LARGE else 2)
    pieces = 1 if len(matrices) >= threads else max(1, min(wanted, max(m, n) // _UNIT))
    by_rows = m >= n
    units = -(-max(m, n) // _UNIT)
    edges = [min(units * i // pieces * _UNIT, max(m, n)) for i in range(pieces)] + [max(m, n)]
    rows = []
    for at_a, at_b, at_c in matrices:
        for start, stop in zip(edges, edges[1:], strict=False):
            down, right_by = (start, 0) if by_rows else (0, start)
            size = (stop - start, n) if by_rows else (m, stop - start)
            rows.append(
                (
                    *(left[0], right[0], *size, k),
                    *(at_a + down * of_a[-2], left[1]),
                    *(at_b + right_by * of_b[-1], right[1]),
                    *(at_c + down * of_out[-2] + right_by * of_out[-1], result[1]),
                )
            )
    table = np.array(rows, np.int64)
    return table, table.ctypes.data, len(rows)


def _layout(shape: tuple[int, ...], strides: tuple[int, ...], item: int) -> tuple[int, int] | None:
    """Return whether BLAS reads a matrix as transposed, and the distance of its rows in elements; None if it cannot."""
    (rows, columns), (down, along) = shape[-2:], strides[-2:]
    if along == item and down % item == 0 and down >= item * columns:
        return _PLAIN, down // item
    if down == item and along % item == 0 and along >= item * rows:
        return _TRANSPOSED, along // item
    return None


def _offsets(shape: tuple[int, ...], strides: tuple[int, ...], batch: tuple[int, ...]) -> list[int]:
    found = np.zeros(1, np.int64)
    lead = len(batch) - len(shape)
    for d, n in enumerate(batch):
        stride = strides[d - lead] if d >= lead and shape[d - lead] != 1 else 0
        found = np.add.outer(found, np.arange(n, dtype=np.int64) * stride).ravel()
    return found.tolist()  # type: ignore[no-any-return]


@cache
def _addresses() -> tuple[int, int] | None:
    """Return the addresses of `cblas_sgemm` and `cblas_dgemm` of an OpenBLAS with sizes of 64 bits."""
    found = [find_in_blas(f"cblas_{kind}gemm", 64) for kind in "sd"]
    return (found[0], found[1]) if all(found) else None  # type: ignore[return-value]


_kept: list[Any] = []  # the memory of the code


@cache
def _functions() -> tuple[Any, Any]:
    header = header_size()
    loaded = load_code(("products", str(header)), ("single", "double"), lambda: _text(header))
    pointer, size, array = ctypes.c_void_p, ctypes.c_int64, ctypes.py_object
    prototype = ctypes.CFUNCTYPE(ctypes.c_int32, pointer, pointer, pointer, size, size, pointer, array, array, array)
    single, double = map(prototype, loaded.addresses)
    _kept.append(loaded)
    return single, double


def _text(header: int) -> str:
    return "".join(
        _IR.replace("<name>", name)
        .replace("<type>", type)
        .replace("<header>", str(header))
        .replace("<words>", "".join(_word(i, word) for i, word in enumerate(_WORDS)))
        for name, type in (("single", "float"), ("double", "double"))
    )


def _word(i: int, name: str) -> str:
    return (
        f"  %{name}.at = getelementptr [{len(_WORDS)} x i64], ptr %table, i64 %part, i64 {i}\n"
        f"  %{name} = load i64, ptr %{name}.at, align 8\n"
    )


_IR = """
define internal i32 @part.<name>(i64 %part, ptr %context) nounwind {
  %gemm = load ptr, ptr %context, align 8
  %table.at = getelementptr ptr, ptr %context, i64 1
  %table = load ptr, ptr %table.at, align 8
  %left.at = getelementptr ptr, ptr %context, i64 2
  %left = load ptr, ptr %left.at, align 8
  %right.at = getelementptr ptr, ptr %context, i64 3
  %right = load ptr, ptr %right.at, align 8
  %out.at = getelementptr ptr, ptr %context, i64 4
  %out = load ptr, ptr %out.at, align 8
<words>  %ta.narrow = trunc i64 %ta to i32
  %tb.narrow = trunc i64 %tb to i32
  %a.first = getelementptr i8, ptr %left, i64 %a
  %b.first = getelementptr i8, ptr %right, i64 %b
  %c.first = getelementptr i8, ptr %out, i64 %c
  call void %gemm(i32 101, i32 %ta.narrow, i32 %tb.narrow, i64 %m, i64 %n, i64 %k, <type> 1.0, ptr %a.first, i64 %lda,
                  ptr %b.first, i64 %ldb, <type> 0.0, ptr %c.first, i64 %ldc)
  ret i32 0
}

define i32 @<name>(ptr %pool, ptr %run, ptr %table, i64 %count, i64 %helpers, ptr %gemm, ptr %a, ptr %b,
                   ptr %out) nounwind {
  %context = alloca [5 x ptr], align 8
  store ptr %gemm, ptr %context, align 8
  %table.at = getelementptr ptr, ptr %context, i64 1
  store ptr %table, ptr %table.at, align 8
  %a.object = getelementptr i8, ptr %a, i64 <header>
  %a.data = load ptr, ptr %a.object, align 8
  %a.at = getelementptr ptr, ptr %context, i64 2
  store ptr %a.data, ptr %a.at, align 8
  %b.object = getelementptr i8, ptr %b, i64 <header>
  %b.data = load ptr, ptr %b.object, align 8
  %b.at = getelementptr ptr, ptr %context, i64 3
  store ptr %b.data, ptr %b.at, align 8
  %out.object = getelementptr i8, ptr %out, i64 <header>
  %out.data = load ptr, ptr %out.object, align 8
  %out.at = getelementptr ptr, ptr %context, i64 4
  store ptr %out.data, ptr %out.at, align 8
  %result = call i32 %run(ptr %pool, ptr @part.<name>, ptr %context, i64 %count, i64 %helpers)
  ret i32 %result
}
"""
