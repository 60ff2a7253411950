"""Max pooling of images, and the gradient, as machine code: a piece of work is a plane (one channel of one image).

Windows that lie inside the image are computed `lanes` at a time along a row, the others one by one. A step of 2 between
windows reads two vectors and keeps every other lane.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from .fits import contiguous
from .ir import BITS, FLOAT, I1, I32, I64, V, lane_numbers, least, loop, shuffle
from .lower import ELEMENTS
from .routines import Routine, Writer

MOST_ELEMENTS = 64  # of a window, which are written out
STEPS = (1, 2)  # between windows in a row, that vectors are read for
_SIZES = ("height", "width", "rows", "columns", "down", "top", "left", "r0", "r1", "c0", "c1")


class Shape(NamedTuple):
    """What the code depends on: `lanes` is 0 where all windows are computed one by one."""

    dtype: str
    kernel: tuple[int, int]
    step: int
    lanes: int
    indices: bool


def maxima(shape: Shape, sizes: Sequence[int], planes: int, cost: float) -> Callable[..., None]:
    """Return the function of (input, output, indices): the largest element of each window, and its place in the plane.

    Of equal elements the first is chosen, of NaNs the last, as by the operator.

    Args:
        sizes: those of `max_sizes`.
        cost: about how long it takes on one thread, in nanoseconds.
    """
    height, width, rows, columns = sizes[:4]
    written = [shape.dtype, *["int64"] * shape.indices]
    walks = [contiguous(shape.dtype, planes, height, width)]
    walks += [contiguous(dtype, planes, rows, columns, is_written=True) for dtype in written]
    return _maxima(shape).bound(sizes, planes, cost, walks)


@lru_cache(256)
def _maxima(shape: Shape) -> Routine:
    return Routine(f"maxima {shape}", lambda: _Maxima(shape).written(), 2 + shape.indices, len(_SIZES))


def max_sizes(
    size: tuple[int, int],
    output: tuple[int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int],
    dtype: str,
) -> tuple[list[int], int]:
    """Return the sizes that `maxima` takes, and the number of its lanes."""
    inside = []
    for n, o, k, s, p in zip(size, output, kernel, stride, padding, strict=True):
        low = -(-p // s)
        high = min(o, (n - k + p) // s + 1)
        inside.append((low, max(low, high)))
    (r0, r1), (c0, c1) = inside
    most = 16 if dtype == "float32" else 8
    lanes = most
    while lanes > c1 - c0:
        lanes //= 2
    if lanes < 4 or stride[1] not in STEPS or r1 == r0:
        lanes = c0 = c1 = r0 = r1 = 0
    return [*size, *output, stride[0], *padding, r0, r1, c0, c1], lanes


class _Maxima(Writer):
    def __init__(self, shape: Shape) -> None:
        super().__init__(("x", "y", *["i"] * shape.indices), _SIZES)
        self.shape, self.elem = shape, ELEMENTS[shape.dtype]
        self.item = BITS[self.elem] // 8

    def written(self) -> str:
        f, n = self.f, self.size
        plane_in, plane_out = n["height"] * n["width"], n["rows"] * n["columns"]

        def plane(p: V) -> None:
            self.x = f.offset(self.address["x"], p * plane_in * self.item)
            self.y = f.offset(self.address["y"], p * plane_out * self.item)
            self.i = f.offset(self.address["i"], p * plane_out * 8) if self.shape.indices else ""
            loop(f, f.const(0, I64), n["rows"], 1, self.row)

        return self.each(plane)

    def row(self, r: V) -> None:
        f, n = self.f, self.size
        zero = f.const(0, I64)
        self.at = r * n["columns"]
        self.top = r * n["down"] - n["top"]
        if not self.shape.lanes:
            loop(f, zero, n["columns"], 1, lambda c: self.alone(r, c))
            return
        inside = (r >= n["r0"]) & (r < n["r1"])
        first, last = inside.where(n["c0"], n["columns"]), inside.where(n["c1"], n["columns"])
        loop(f, zero, first, 1, lambda c: self.alone(r, c))
        loop(f, first, last, self.shape.lanes, lambda c: self.together(least(c, last - self.shape.lanes)))
        loop(f, last, n["columns"], 1, lambda c: self.alone(r, c))

    def together(self, c: V) -> None:
        """Write the maxima of windows inside the image, from number c of the row."""
        f, n, lanes, step = self.f, self.size, self.shape.lanes, self.shape.step
        corner = self.top * n["width"] + c * step - n["left"]
        best, place = self.read(f.offset(self.x, corner * self.item)), f.const(0, I32, lanes)
        for k in range(1, self.shape.kernel[0] * self.shape.kernel[1]):
            down, right = divmod(k, self.shape.kernel[1])
            offset = n["width"] * down + right
            value = self.read(f.offset(self.x, (corner + offset) * self.item))
            taken = (value > best) | value.is_nan()
            best = taken.where(value, best)
            place = taken.where(f.splat(offset.convert("trunc", I32), lanes), place)
        f.store(best, f.offset(self.y, (self.at + c) * self.item))
        if self.shape.indices:
            wide = place.convert("sext", I64) + (lane_numbers(self.f, I64, lanes, step) + corner)
            f.store(wide, f.offset(self.i, (self.at + c) * 8))

    def read(self, address: str) -> V:
        lanes = self.shape.lanes
        low = self.f.load(address, self.elem, lanes)
        if self.shape.step == 1:
            return low
        # The second vector ends with the last element, so that nothing behind it is read.
        high = self.f.load(self.f.offset(address, (lanes - 1) * self.item), self.elem, lanes)
        return shuffle(low, high, [2 * k if 2 * k < lanes else 2 * k + 1 for k in range(lanes)])

    def alone(self, r: V, c: V) -> None:
        """Write the maximum of one window."""
        f, n, kernel = self.f, self.size, self.shape.kernel
        left = c * self.shape.step - n["left"]
        zero = f.const(0, I64)
        r0, c0 = ((x < 0).where(zero, x) for x in (self.top, left))
        r1 = least(self.top + kernel[0], n["height"])
        c1 = least(left + kernel[1], n["width"])
        best, place = f.alloca(self.elem), f.alloca(I64)
        f.store(f.const(float("-inf"), self.elem), best)
        f.store(r0 * n["width"] + c0, place)

        def one(i: V, j: V) -> None:
            at = i * n["width"] + j
            value, before = f.load(f.offset(self.x, at * self.item), self.elem), f.load(best, self.elem)
            taken = (value > before) | value.is_nan()
            f.store(taken.where(value, before), best)
            f.store(taken.where(at, f.load(place, I64)), place)

        loop(f, r0, r1, 1, lambda i: loop(f, c0, c1, 1, lambda j: one(i, j)))
        f.store(f.load(best, self.elem), f.offset(self.y, (self.at + c) * self.item))
        if self.shape.indices:
            f.store(f.load(place, I64), f.offset(self.i, (self.at + c) * 8))


def scatter(dtype: str, sizes: Sequence[int], planes: int, cost: float) -> Callable[..., None]:
    """Return the function of (gradient, indices, result): each element added at its index in its plane of zeros.

    Raises IndexError for an index outside of the plane.

    Args:
        sizes: the elements of a plane of the result, and of the gradient.
        cost: about how long it takes on one thread, in nanoseconds.
    """
    large, small = sizes
    walks = [contiguous(kind, planes, small) for kind in (dtype, "int64")]
    walks.append(contiguous(dtype, planes, large, is_written=True))
    return _scatter(dtype).bound(sizes, planes, cost, walks)


@lru_cache(256)
def _scatter(dtype: str) -> Routine:
    return Routine(f"scatter {dtype}", lambda: _Scatter(dtype).written(), 3, 2)


class _Scatter(Writer):
    def __init__(self, dtype: str) -> None:
        super().__init__(("g", "i", "x"), ("large", "small"))
        self.elem = ELEMENTS[dtype]

    def written(self) -> str:
        f, n, item = self.f, self.size, BITS[self.elem] // 8
        lanes = 16 if self.elem == FLOAT else 8
        zero = f.const(0, I64)

        def plane(p: V) -> None:
            x = f.offset(self.address["x"], p * n["large"] * item)
            whole = n["large"].shift_right(lanes.bit_length() - 1) * lanes
            loop(f, zero, whole, lanes, lambda k: f.store(f.const(0, self.elem, lanes), f.offset(x, k * item), item))
            loop(f, whole, n["large"], 1, lambda k: f.store(f.const(0, self.elem), f.offset(x, k * item)))
            g = f.offset(self.address["g"], p * n["small"] * item)
            i = f.offset(self.address["i"], p * n["small"] * 8)

            def one(k: V) -> None:
                place = f.load(f.offset(i, k * 8), I64)
                outside = place._binary("icmp uge", n["large"], I1)
                f.store(f.load(bad, I1) | outside, bad)
                at = f.offset(x, outside.where(0, place) * item)
                f.store(f.load(at, self.elem) + f.load(f.offset(g, k * item), self.elem), at)

            loop(f, zero, n["small"], 1, one)

        bad = f.alloca(I1)
        f.store(f.const(0, I1), bad)
        loop(f, self.first, self.last, 1, plane)
        return self.text(f.load(bad, I1).convert("zext", I32))
