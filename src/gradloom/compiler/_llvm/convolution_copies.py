"""Copies of images, weights and gradients in which channels lie together, as convolution_channels.py reads them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from .fits import contiguous
from .host import host
from .ir import BITS, I64, V, lane_numbers, least, loop, masked_load, masked_store, transposed, when
from .lower import ELEMENTS
from .routines import Routine, Writer

BYTE = 0.2  # nanoseconds for a byte that is copied


def lanes_of(dtype: str) -> int:
    """Return how many numbers a vector register has."""
    return host().register // BITS[ELEMENTS[dtype]]


_PAD_SIZES = ("channels", "height", "width", "rows", "columns", "top", "left", "row")


@lru_cache(64)
def _padding(dtype: str) -> Routine:
    """Return the function of (input, copy); a piece of work is a row of an image, the copy (images, rows, channels,
    columns)."""
    return Routine(f"rows with padding {dtype}", lambda: _Padding(dtype).written(), 2, len(_PAD_SIZES))


class _Padding(Writer):
    def __init__(self, dtype: str) -> None:
        super().__init__(("x", "y"), _PAD_SIZES)
        self.elem, self.lanes = ELEMENTS[dtype], lanes_of(dtype)

    def written(self) -> str:
        f, n, item, lanes = self.f, self.size, BITS[self.elem] // 8, self.lanes
        zero = f.const(0, I64)
        numbers = lane_numbers(self.f, I64, lanes)
        # From column `first` to below `stop` of the copy, whole vectors of the input are copied, where its row exists.
        before = (n["left"] > 0).where(n["left"], 0)
        first = (before + (lanes - 1)) & -lanes
        first = least(first, (n["columns"] + (lanes - 1)) & -lanes)
        stop = least(n["left"] + n["width"], n["columns"]) & -lanes
        stop = (stop < first).where(first, stop)

        def piece(t: V) -> None:
            image, row = (t._binary(op, n["rows"]) for op in ("udiv", "urem"))
            i = row - n["top"]
            exists = (i >= 0) & (i < n["height"])
            inside = f.splat(exists, lanes)
            source = f.offset(self.address["x"], (image * n["channels"] * n["height"] + i) * n["width"] * item)
            target = f.offset(self.address["y"], t * n["row"])

            def channel(c: V) -> None:
                x = f.offset(source, c * n["height"] * n["width"] * item)
                y = f.offset(target, c * n["columns"] * item)

                def part(q: V) -> None:
                    column = numbers + (q - n["left"])
                    mask = column.compare("olt", "ult", n["width"]) & inside
                    value = masked_load(self.f, f.offset(x, (q - n["left"]) * item), mask, self.elem)
                    masked_store(self.f, f.offset(y, q * item), numbers + q < n["columns"], value)

                def whole(q: V) -> None:
                    f.store(f.load(f.offset(x, (q - n["left"]) * item), self.elem, lanes), f.offset(y, q * item))

                loop(f, zero, first, lanes, part)
                after = exists.where(stop, first)
                loop(f, first, after, lanes, whole)
                loop(f, after, n["columns"], lanes, part)

            loop(f, zero, n["channels"], 1, channel)

        return self.each(piece)


class Padded(NamedTuple):
    """The copy of an input: (images, rows, channels, columns)."""

    rows: int
    columns: int
    top: int
    left: int

    def shape(self, channels: int) -> tuple[int, int, int]:
        """Return the sizes of an image's copy."""
        return self.rows, channels, self.columns

    def copied(self, dtype: str, images: int, channels: int, size: tuple[int, ...]) -> Callable[[Any], np.ndarray]:
        """Return the function that makes the copy."""
        shape = images, *self.shape(channels)
        item = np.dtype(dtype).itemsize
        row = channels * self.columns * item
        sizes = channels, *size, self.rows, self.columns, self.top, self.left, row
        walks = contiguous(dtype, images, channels, *size), contiguous(dtype, *shape, is_written=True)
        pad = _padding(dtype).bound(sizes, images * self.rows, BYTE * row * self.rows * images, walks)

        def copy(x: Any) -> np.ndarray:
            found = np.empty(shape, dtype)
            pad(x, found)
            return found

        return copy


_TURN_SIZES = (
    *("blocks", "rows", "rows_each", "written", "columns", "columns_each", "most", "source_row", "target_row"),
    *("source_outer", "source_block", "target_outer", "target_block"),
)  # fmt: skip


@lru_cache(64)
def turned(dtype: str) -> Routine:
    """Return the function of (source, target), which transposes a block of a matrix for each piece of work. A block has
    the rows and columns that those before, of `rows_each` and `columns_each`, have left, at `most` so many columns.
    Rows that are missing in what is `written` are the last."""
    return Routine(f"blocks turned {dtype}", lambda: _Turned(dtype).written(), 2, len(_TURN_SIZES))


class _Turned(Writer):
    def __init__(self, dtype: str) -> None:
        super().__init__(("x", "y"), _TURN_SIZES)
        self.elem, self.lanes = ELEMENTS[dtype], lanes_of(dtype)

    def written(self) -> str:
        f, n, item, lanes = self.f, self.size, BITS[self.elem] // 8, self.lanes
        zero = f.const(0, I64)
        numbers = lane_numbers(self.f, I64, lanes)

        def piece(t: V) -> None:
            outer, block = (t._binary(op, n["blocks"]) for op in ("udiv", "urem"))
            source = f.offset(self.address["x"], outer * n["source_outer"] + block * n["source_block"])
            target = f.offset(self.address["y"], outer * n["target_outer"] + block * n["target_block"])
            last = n["rows"] - block * n["rows_each"] - 1
            columns = least(n["columns"] - block * n["columns_each"], n["most"])

            def strip(row: V) -> None:
                starts = [f.offset(source, least(row + k, last) * n["source_row"]) for k in range(lanes)]
                place = f.offset(target, row * item)
                stored = numbers + row < n["written"]

                def whole(column: V) -> None:
                    found = [f.load(f.offset(x, column * item), self.elem, lanes) for x in starts]
                    for k, value in enumerate(transposed(found)):
                        f.store(value, f.offset(place, (column + k) * n["target_row"]))

                def part(column: V) -> None:
                    read = numbers + column < columns
                    found = [masked_load(self.f, f.offset(x, column * item), read, self.elem) for x in starts]
                    for k, value in enumerate(transposed(found)):
                        at = f.offset(place, (column + k) * n["target_row"])
                        when(f, column + k < columns, partial(masked_store, f, at, stored, value))

                most = (n["written"] - row >= lanes).where(columns & -lanes, 0)
                loop(f, zero, most, lanes, whole)
                loop(f, most, columns, lanes, part)

            loop(f, zero, n["written"], lanes, strip)

        return self.each(piece)
