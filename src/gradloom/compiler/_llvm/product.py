"""Products of matrices that machine code computes instead of BLAS: which, and their calls. See matrices.py.

Note [Which products are generated]
NumPy's OpenBLAS copies both factors before it multiplies, and its code for a transposed second factor with few rows,
the forward pass of a linear layer, reaches half of what the processor can. Generated products copy at most one factor;
they are as fast or faster in any layout, if

- the result has at least LEAST rows and columns: a tile has so many, and BLAS has other code for vectors;
- no matrix has more than `Tile.most` bytes. Larger ones need more blocking, for the caches and the TLB, which BLAS
  has; with AVX2 so do smaller ones, because tiles are smaller and the processor comes around to them more often.

So it was measured with AVX-512 and AVX2; elsewhere, and where NumPy has another BLAS, which may know more of its
processor (as Apple's does), BLAS computes all products.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ...kernels._common.threads import get_num_threads, has_openblas, share
from . import direct, host as host_module, pool
from .fits import header_size, walk
from .host import Unsupported
from .kernel import WHOLE, Code, code_of, library, prototypes
from .layouts import Layouts
from .pool import SHARED_FROM
from .tiles import COPIED, DEPTH, IN_PLACE, TURNED, scratch_size, tile_of

LEAST = 16
_SHORT = 100_000.0  # nanoseconds that a product may take while it holds the GIL: Note [Direct calls]
_CACHE = 1 << 20  # bytes of the second level, about
_ELEMENTS = {"float32": "float", "float64": "double"}


if TYPE_CHECKING:  # a Protocol or NamedTuple costs time in a cached start
    from typing import Protocol

    class Matrices(Protocol):
        """Where a batch of matrices is in the memory of an array: `Value` of the graph is such a thing."""

        shape: tuple[int, ...]
        strides: tuple[int, ...]
        offset: int
        dtype: Any


class Place:
    """Matrices, without the memory."""

    __slots__ = ("shape", "strides", "offset", "dtype")

    def __init__(self, shape: tuple[int, ...], strides: tuple[int, ...], offset: int, dtype: Any) -> None:
        self.shape, self.strides, self.offset, self.dtype = shape, strides, offset, dtype


class _Layout:
    """How a product is computed.

    Attributes:
        panel: which factor is the panel.
        across: whether lanes are rows of the result as it lies in memory.
        strides: of a panel's lane and k, a row and its k, and the result: see Note [Generated products].
    """

    __slots__ = ("panel", "across", "packing", "lanes", "rows", "depth", "strides")

    def __init__(
        self, panel: int, across: bool, packing: int, lanes: int, rows: int, depth: int, *strides: int
    ) -> None:
        self.panel, self.across, self.packing = panel, across, packing
        self.lanes, self.rows, self.depth, self.strides = lanes, rows, depth, strides


def reason_for_blas(a: Matrices, b: Matrices, out: Matrices) -> str | None:
    """Return why BLAS computes a product, None if machine code does: Note [Which products are generated]."""
    rows, depth = a.shape[-2:]
    columns = b.shape[-1]
    if min(rows, columns) < LEAST:
        return f"fewer than {LEAST} rows or columns"
    reason = _general_reason()
    if reason is not None:
        return reason
    most = tile_of(host_module.host().register).most
    if max(rows * depth, depth * columns, rows * columns) * out.dtype.itemsize > most:
        return f"a matrix of more than {most >> 20} MiB"
    return "the strides" if _layout(a, b, out) is None else None


@cache
def _general_reason() -> str | None:
    """Return why BLAS computes all products here."""
    host = host_module.host()
    if host.machine not in ("x86_64", "amd64") or host.register < 256 or not host.fma:
        return "the processor has no AVX2"
    return None if has_openblas() else "NumPy's BLAS is not OpenBLAS"


def _layout(a: Matrices, b: Matrices, out: Matrices) -> _Layout | None:
    item = out.dtype.itemsize
    (rows, depth), columns = a.shape[-2:], b.shape[-1]
    (a_row, a_k), (b_k, b_column), (row, column) = a.strides[-2:], b.strides[-2:], out.strides[-2:]
    first, second = 0, 1
    if column != item:  # the transpose of the product of the transposes
        first, second, rows, columns, row, column = 1, 0, columns, rows, column, row
        a_row, a_k, b_k, b_column = b_column, b_k, a_k, a_row
    if column != item:
        return None
    of_second = second, False, columns, rows, depth, b_column, b_k, a_row, a_k, row
    of_first = first, True, rows, columns, depth, a_row, a_k, b_column, b_k, row
    few = tile_of(host_module.host().register).few
    # The rows' factor is read for each panel, so where it does not fit the second level of caches, it is the smaller.
    is_large = columns < rows and rows * min(depth, DEPTH) * item > _CACHE
    if b_column == item and not (a_row == item and is_large):
        found, packing = of_second, COPIED if rows > few else IN_PLACE
    elif a_row == item:
        found, packing = of_first, COPIED if columns > few else IN_PLACE
    elif b_k == item and (a_k != item or columns <= rows):
        found, packing = of_second, TURNED
    elif a_k == item:
        found, packing = of_first, TURNED
    else:
        return None
    panel, across, *numbers = found
    return _Layout(panel, across, packing, *numbers)


def _code(dtype: str, across: bool) -> Code:
    key = "product", dtype, str(across), str(host_module.host().register), str(header_size())
    return code_of(key, WHOLE, lambda: _text(dtype, across))


def _text(dtype: str, across: bool) -> str:
    from .matrices import emit_product

    return emit_product(host_module.host(), header_size(), _ELEMENTS[dtype], across)


_spare: list[np.ndarray] = []  # memory for the parts of products that are not called directly; one for each caller


def _has_gil() -> bool:
    return getattr(sys, "_is_gil_enabled", lambda: True)()  # type: ignore[no-any-return]


@cache
def _scratch() -> np.ndarray:
    """Return memory for products that are called directly, which hold the GIL: one at a time."""
    return np.empty(scratch_size(host_module.host().register), np.uint8)


class Parts:
    """Machine code for ranges of rows and lanes, which threads share, with scratch memory for each range.

    Args:
        function, shared: the code, as `prototypes` describes it.
        arguments: addresses of the geometry and of the library.
        layouts: what it relies on.
    """

    __slots__ = ("_arguments", "_function", "_items", "_shared", "layouts")

    def __init__(self, function: Any, shared: Any, arguments: tuple[int, int], layouts: Layouts) -> None:
        self._function, self._shared, self._arguments, self.layouts = function, shared, arguments, layouts
        self._items: dict[int, np.ndarray] = {}

    def parts(self, threads: int) -> list[tuple[int, int, int, int]]:
        """Return the ranges for a number of threads."""
        raise NotImplementedError

    def compute(self, arrays: Sequence[Any], threads: int | None = None) -> None:
        """Call the code for all ranges. Raises MisfitError, before it writes, for arrays that do not fit."""
        self.layouts.require(arrays)
        threads = get_num_threads() if threads is None else threads
        items = self._items.get(threads)
        if items is None:
            items = self._items[threads] = np.array(self.parts(threads), np.int64)
        size = scratch_size(host_module.host().register)
        try:
            scratch = _spare.pop()
        except IndexError:
            scratch = np.empty(0, np.uint8)
        if scratch.size < size * len(items):
            scratch = np.empty(size * len(items), np.uint8)
        function, arguments, address = self._function, self._arguments, scratch.ctypes.data
        found = pool.workers() if len(items) > 1 else None
        if found is not None:
            job = found.state, found.run, items.ctypes.data, len(items), threads - 1
            self._shared(*job, *arguments, address, *arrays)
        else:

            def compute(part: int) -> None:
                function(*arguments, *items[part].tolist(), part, address, *arrays)

            if len(items) == 1:
                compute(0)
            else:
                share(compute, range(len(items)))
        _spare.append(scratch)


class Product(Parts):
    """Machine code bound to the sizes and strides of one product of matrices, or a batch of them.

    `product(panel, other, out)` takes the arrays in which the factors and the result are, the factor `layout.panel`
    first. Raises MisfitError for others: Note [Arrays that fit].

    Attributes:
        adds: whether the product is added to what `out` has.
        made_by: what makes it again: see Note [Graphs on disk].
        addresses: the addresses of the function and of the geometry.
    """

    __slots__ = ("_direct", "_geometry", "_owner", "addresses", "adds", "batch", "cost", "dtype", "layout", "made_by")

    def __init__(self, a: Matrices, b: Matrices, out: Matrices, adds: bool = False) -> None:
        layout = _layout(a, b, out)
        self.dtype = out.dtype.name
        if layout is None or self.dtype not in _ELEMENTS or not min(layout.lanes, layout.rows, layout.depth):
            raise Unsupported(f"a product of matrices with shapes {a.shape} and {b.shape} in this layout")
        self.made_by = restored, ([(x.shape, x.strides, x.offset, x.dtype) for x in (a, b, out)], adds)
        self.layout, self.adds, self.batch = layout, adds, prod(out.shape[:-2])
        self._owner = code = _code(self.dtype, layout.across)
        factors = (a, b) if layout.panel == 0 else (b, a)
        batch = out.shape[:-2]
        offsets = [x.offset for x in (*factors, out)]
        if batch:
            offsets = np.stack([places(x, batch) for x in (*factors, out)], -1).ravel().tolist()
        numbers = [_scratch().ctypes.data, layout.rows, layout.depth, *layout.strides, layout.packing, adds]
        self._geometry = np.array([*numbers, *offsets], np.int64)
        first, shared, last = code.loaded.addresses
        address = self._geometry.ctypes.data
        self.addresses = first, address
        kernel, job = prototypes(3, ())
        layouts = Layouts(
            [walk(x.dtype, x.shape, x.strides, x.offset, x is out, is_whole=False) for x in (*factors, out)]
        )
        super().__init__(kernel(first), job(shared), (address, ctypes.addressof(library())), layouts)
        self.cost = self.batch * layout.lanes * layout.rows * layout.depth * host_module.FLOP[self.dtype]
        self._direct = None
        if self.cost < _SHORT and direct.available() and _has_gil():
            owner = self._geometry, _scratch(), code, layouts
            rows = self.batch * layout.rows
            self._direct = direct.builtin(last, *self._arguments, rows, layout.lanes, owner, layouts.address)

    def __call__(self, panel: Any, other: Any, out: Any) -> None:
        threads = get_num_threads() if self.cost >= SHARED_FROM else 1
        if threads > 1 or self._direct is None or self._direct(panel, other, out):
            self.compute((panel, other, out), threads)

    @property
    def text(self) -> str:
        """LLVM's text, for people who read it."""
        return _text(self.dtype, self.layout.across)

    def parts(self, threads: int) -> list[tuple[int, int, int, int]]:
        """Return ranges of rows and lanes: as many for each thread, in the direction in which most are whole tiles."""
        layout = self.layout
        if threads == 1:
            return [(0, self.batch * layout.rows, 0, layout.lanes)]
        most = 4 if layout.packing == IN_PLACE else 2  # each part packs its panels
        count = threads * max(1, min(most, round(self.cost / SHARED_FROM / threads)))
        rows, lanes = self.batch * layout.rows, layout.lanes
        register = host_module.host().register
        tile = tile_of(register)
        width = register // 8 // np.dtype(self.dtype).itemsize
        # Each part has as many vectors, and two panels or more.
        parts = min(count, -(-lanes // width) // (2 * tile.vectors) // threads * threads)
        if self.batch == 1 and parts:
            return [(0, rows, *edge) for edge in _edges(lanes, parts, width)]
        step = layout.rows if self.batch >= count else tile.rows
        return [(*edge, 0, lanes) for edge in _edges(rows, count, step)]


def restored(matrices: Sequence[tuple[Any, ...]], adds: bool) -> Product:
    """Return the Product of matrices whose geometry `made_by` holds."""
    a, b, out = [Place(*x) for x in matrices]
    return Product(a, b, out, adds)


def _edges(total: int, count: int, step: int) -> list[tuple[int, int]]:
    """Return `count` ranges, or fewer, that cut `total` at multiples of `step`."""
    steps = -(-total // step)
    count = min(count, steps)
    edges = [min(total, steps * i // count * step) for i in range(count + 1)]
    return list(zip(edges, edges[1:], strict=False))


def places(x: Matrices, batch: Sequence[int]) -> np.ndarray:
    """Return the offset of each matrix."""
    found = np.full(batch, x.offset, np.int64)
    for dim, (size, stride) in enumerate(zip(batch, x.strides[:-2], strict=True)):
        found += (np.arange(size) * stride).reshape([-1 if d == dim else 1 for d in range(len(batch))])
    return found.ravel()
