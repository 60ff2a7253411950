"""Convolutions of images and their gradients as machine code whose vectors are along rows, without copies of windows.

Note [Direct convolution]
The input is copied once, with its padding as zeros and each row continued by zeros, so that vectors of it can be read
wherever a window is. A tile of the output is `block` channels by a few vectors along its rows; it stays in registers
while the sum over input channels and kernel elements is taken: a vector of the input times one weight for each channel.
Rows that do not fill vectors end with one that overlaps the one before, and gives the same values again. With a step of
2 between windows the copy has even and odd columns apart, so that neighbouring windows read neighbours.

The gradient of the input is a convolution of the gradient with the kernel turned around. That of the weight has a
vector for each pair of an output channel and an element of a kernel's row, over the places of some images or rows, and
then adds up its lanes. Images are divided into chunks by sizes alone, and the sums of chunks added in their order.

Zeros of the padding are multiplied: an infinity or NaN in a weight or gradient shows in all results that it meets.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from ...kernels._common.windows import Windows
from ...kernels.conv import flat, products
from .fits import contiguous
from .host import FLOP, host, registers
from .ir import BITS, I32, I64, V, fma, lane_numbers, least, loop, masked_load, masked_store, shuffle, when
from .lower import ELEMENTS
from .routines import Routine, Writer

_NEAR = 24 << 10  # bytes of a gradient that are read again and again, in the first cache
_BAND = 256 << 10  # bytes of an input that are read again for each block of channels, in the second cache
_PIECES = 32  # of work, if there are that many


class Layout(NamedTuple):
    """What code for a convolution depends on.

    Attributes:
        lanes: numbers in a vector.
        block: output channels in a tile, or of the gradient of the weight.
        rows, vectors: of a tile.
        taps: elements of a kernel's row.
        step, dilation: along a row.
        narrow: whether a row is shorter than a vector.
        whole: whether rows are a number of the tile's vectors.
    """

    dtype: str
    lanes: int
    block: int
    rows: int
    vectors: int
    taps: int
    step: int
    dilation: int
    narrow: bool
    whole: bool

    @property
    def places(self) -> list[tuple[int, int]]:
        """For each element of a kernel's row, the phase and the column that the first window meets."""
        return [divmod(k * self.dilation, self.step)[::-1] for k in range(self.taps)]


# How long an operation on a vector of all lanes, half of them, or a quarter takes, for each of its lanes.
_SLOWER = 1.0, 1.1, 2.0


def _vectors(width: int, dtype: str) -> list[tuple[int, float]]:
    """Return numbers of lanes, and how long rows of some width take with them."""
    bits = BITS[ELEMENTS[dtype]]
    most = host().register // bits
    options = [(most >> k, slower) for k, slower in enumerate(_SLOWER) if most >> k >= 128 // bits]
    return [(n, -(-width // n) * n * slower) for n, slower in options]


@lru_cache(256)
def _layout(dtype: str, windows: Windows, channels: int) -> Layout:
    """Return the tile of a convolution with so many output channels: the one that computes the least in vain, and of
    these, the one that reads the least for each product. Fewer than 8 sums would wait for each other."""
    height, width = windows.output
    best: Any = None
    for lanes, cost in _vectors(width, dtype):
        count = -(-width // lanes)
        for block, rows, vectors in itertools.product((16, 8, 4, 2, 1), range(1, 9), range(1, 5)):
            tile = rows * vectors
            if block * tile + tile + 1 > registers() or rows > height or vectors > count:
                continue
            taken = cost * -(-height // rows) * rows * -(-count // vectors) * vectors / count
            taken *= -(-channels // block) * block * max(1, 8 / (block * tile))
            score = taken, (block + 4 * tile) / (block * tile)  # vectors often lie in two lines of the cache
            if best is None or score < best[0]:
                best = score, lanes, block, rows, vectors
    return _layout_of(dtype, windows, *best[1:])


@lru_cache(256)
def _gradient_layout(dtype: str, windows: Windows) -> Layout:
    """Return the layout for the gradient of the weight: sums for each element of a row and each channel of a block."""
    lanes, _ = min(_vectors(windows.output[1], dtype), key=lambda found: found[1])
    block = min(8, lanes)
    while block > 1 and (block + 1) * windows.kernel[1] + 1 > registers():
        block //= 2
    return _layout_of(dtype, windows, lanes, block, 1, 1)


def _layout_of(dtype: str, windows: Windows, lanes: int, block: int, rows: int, vectors: int) -> Layout:
    width = windows.output[1]
    along = windows.kernel[1], windows.stride[1], windows.dilation[1]
    return Layout(dtype, lanes, block, rows, vectors, *along, width < lanes, not width % (lanes * vectors))


class Padded(NamedTuple):
    """The copy of an input: (images, channels, rows, step, columns), columns of one phase after those of the other."""

    rows: int
    columns: int
    needed: int  # columns of the input with its padding that windows meet
    step: int

    @classmethod
    def of(cls, windows: Windows, lanes: int) -> Padded:
        (height, width), step = windows.output, windows.stride[1]
        rows = (height - 1) * windows.stride[0] + (windows.kernel[0] - 1) * windows.dilation[0] + 1
        reach = (windows.kernel[1] - 1) * windows.dilation[1]
        columns = max(width, lanes) + lanes + reach // step
        return cls(rows, -(-columns // lanes) * lanes, (width - 1) * step + reach + 1, step)


_PAD_SIZES = ("height", "width", "rows", "columns", "top", "left", "needed")


@lru_cache(64)
def _padding(dtype: str, lanes: int, step: int) -> Routine:
    """Return the function of (input, copy); a piece of work is a channel of an image."""
    return Routine(
        f"padding {dtype} {lanes} {step}", lambda: _Padding(dtype, lanes, step).written(), 2, len(_PAD_SIZES)
    )


class _Padding(Writer):
    def __init__(self, dtype: str, lanes: int, step: int) -> None:
        super().__init__(("x", "y"), _PAD_SIZES)
        self.elem, self.lanes, self.step = ELEMENTS[dtype], lanes, step

    def written(self) -> str:
        f, n, item, lanes = self.f, self.size, BITS[self.elem] // 8, self.lanes
        zero = f.const(0, I64)
        narrow = {name: n[name].convert("trunc", I32) for name in ("width", "left", "needed")}

        def part(x: str, y: str, inside: V, phase: int, q: V) -> None:
            found = []
            for k in range(self.step):
                column = q * self.step + (phase + k * lanes)  # of the input with its padding
                numbers = lane_numbers(self.f, I32, lanes) + column.convert("trunc", I32)
                mask = (numbers - narrow["left"]).compare("olt", "ult", narrow["width"])
                mask = mask & (numbers < narrow["needed"]) & f.splat(inside, lanes)
                value = masked_load(self.f, f.offset(x, (column - n["left"]) * item), mask, self.elem)
                found.append(value)
            both = found[0] if self.step == 1 else shuffle(found[0], found[1], range(0, 2 * lanes, 2))
            f.store(both, f.offset(y, (n["columns"] * phase + q) * item))

        def plane(p: V) -> None:
            source = f.offset(self.address["x"], p * n["height"] * n["width"] * item)
            target = f.offset(self.address["y"], p * n["rows"] * n["columns"] * (item * self.step))

            def row(r: V) -> None:
                i = r - n["top"]
                inside = (i >= 0) & (i < n["height"])
                x, y = f.offset(source, i * n["width"] * item), f.offset(target, r * n["columns"] * (item * self.step))
                for phase in range(self.step):
                    loop(f, zero, n["columns"], lanes, partial(part, x, y, inside, phase))

            loop(f, zero, n["rows"], 1, row)

        return self.each(plane)


_SIZES = (
    *("bands", "groups", "rows", "blocks", "all_blocks", "height", "width", "channels", "kernel_rows"),
    *("plane", "image", "row_step", "kernel_step", "phase", "out_row", "out_plane", "out_image", "out_channels"),
)  # fmt: skip


@lru_cache(256)
def _sums(layout: Layout) -> Routine:
    """Return the function of (padded input, weights, bias, output); a piece of work is a band of rows of an image, for
    a group of blocks of channels. Weights are (blocks, channels, kernel rows, taps, block)."""
    return Routine(f"convolution {layout}", lambda: _Sums(layout).written(), 4, len(_SIZES))


class _Sums(Writer):
    def __init__(self, layout: Layout) -> None:
        super().__init__(("x", "w", "b", "y"), _SIZES)
        self.layout, self.elem = layout, ELEMENTS[layout.dtype]
        self.item = BITS[self.elem] // 8

    def written(self) -> str:
        f, n, layout = self.f, self.size, self.layout

        def piece(t: V) -> None:
            image, rest = (t._binary(op, n["bands"] * n["groups"]) for op in ("udiv", "urem"))
            band, group = (rest._binary(op, n["groups"]) for op in ("udiv", "urem"))
            self.x = f.offset(self.address["x"], image * n["image"])
            self.y = f.offset(self.address["y"], image * n["out_image"])
            first = band * n["rows"]
            last = least(first + n["rows"], n["height"])
            block = group * n["blocks"]
            stop = least(block + n["blocks"], n["all_blocks"])

            def of_block(b: V) -> None:
                self.number = b
                self.w = f.offset(
                    self.address["w"], b * n["channels"] * n["kernel_rows"] * (layout.taps * layout.block * self.item)
                )
                self.b = f.offset(self.address["b"], b * (layout.block * self.item))
                loop(f, first, last, layout.rows, self.row)

            loop(f, block, stop, 1, of_block)

        return self.each(piece)

    def row(self, r: V) -> None:
        f, n, layout = self.f, self.size, self.layout
        if layout.rows > 1:
            r = least(r, n["height"] - layout.rows)
        step = layout.lanes * layout.vectors
        loop(f, f.const(0, I64), n["width"], step, lambda c: self.tile(r, c))

    def tile(self, r: V, c: V) -> None:
        f, n, layout, item = self.f, self.size, self.layout, self.item
        lanes = layout.lanes
        columns = []
        for k in range(layout.vectors):
            column = c + k * lanes
            if not layout.narrow and not layout.whole:
                column = least(column, n["width"] - lanes)
            columns.append(column)
        places = [(r + k, column) for k in range(layout.rows) for column in columns]
        reads = [f.offset(f.offset(self.x, i * n["row_step"]), j * item) for i, j in places]
        sums = [[f.alloca(f"<{lanes} x {self.elem}>", 64) for _ in places] for _ in range(layout.block)]
        for o, of_channel in enumerate(sums):
            bias = f.splat(f.load(f.offset(self.b, o * item), self.elem), lanes)
            for place in of_channel:
                f.store(bias, place, 64)

        def taps(channel: V, k: V) -> None:
            offset = channel * n["plane"] + k * n["kernel_step"]
            weights = f.offset(self.w, (channel * n["kernel_rows"] + k) * (layout.taps * layout.block * item))
            found = [[f.load(address, self.elem, lanes, 64) for address in kept] for kept in sums]
            at = [f.offset(read, offset) for read in reads]
            for tap, (phase, column) in enumerate(layout.places):
                inputs = []
                for address in at:
                    start = f.offset(address, n["phase"]) if phase else address
                    inputs.append(f.load(f.offset(start, column * item), self.elem, lanes))
                for o, values in enumerate(found):
                    weight = f.splat(f.load(f.offset(weights, (tap * layout.block + o) * item), self.elem), lanes)
                    for j, x in enumerate(inputs):
                        values[j] = fma(weight, x, values[j])
            for values, kept in zip(found, sums, strict=True):
                for value, address in zip(values, kept, strict=True):
                    f.store(value, address, 64)

        zero = f.const(0, I64)
        loop(f, zero, n["channels"], 1, lambda i: loop(f, zero, n["kernel_rows"], 1, lambda k: taps(i, k)))
        for o, of_channel in enumerate(sums):
            number = self.number * layout.block + o
            when(f, number < n["out_channels"], partial(self.write, of_channel, number, places))

    def write(self, sums: list[str], number: V, places: list[tuple[V, V]]) -> None:
        f, n, lanes = self.f, self.size, self.layout.lanes
        y = f.offset(self.y, number * n["out_plane"])
        for place, (i, j) in zip(sums, places, strict=True):
            value, target = f.load(place, self.elem, lanes, 64), f.offset(y, i * n["out_row"] + j * self.item)
            if self.layout.narrow:
                masked_store(self.f, target, lane_numbers(self.f, I64, lanes) < n["width"], value)
            else:
                f.store(value, target)


_GRADIENT_SIZES = (
    *("blocks", "chunk", "images", "some", "rows", "height", "width", "channels", "kernel_rows"),
    *("plane", "image", "row_step", "kernel_step", "phase", "out_row", "out_plane", "out_image", "out_channels"),
)  # fmt: skip


@lru_cache(256)
def _products(layout: Layout) -> Routine:
    """Return the function of (gradient, padded input, sums); a piece of work is a chunk of images for a block of
    channels. Sums are (chunks, blocks, channels, kernel rows, taps, block), zeros at first."""
    return Routine(f"weight gradient {layout}", lambda: _Products(layout).written(), 3, len(_GRADIENT_SIZES))


class _Products(Writer):
    def __init__(self, layout: Layout) -> None:
        super().__init__(("g", "x", "s"), _GRADIENT_SIZES)
        self.layout, self.elem = layout, ELEMENTS[layout.dtype]
        self.item = BITS[self.elem] // 8

    def written(self) -> str:
        f, n, layout = self.f, self.size, self.layout
        zero = f.const(0, I64)

        def piece(t: V) -> None:
            chunk, block = (t._binary(op, n["blocks"]) for op in ("udiv", "urem"))
            first = chunk * n["chunk"]
            last = least(first + n["chunk"], n["images"])
            size = n["channels"] * n["kernel_rows"] * (layout.taps * layout.block * self.item)
            sums = f.offset(self.address["s"], t * size)
            most = n["out_channels"] - 1
            planes = [least(block * layout.block + o, most) * n["out_plane"] for o in range(layout.block)]

            def some(i: V) -> None:
                stop = least(i + n["some"], last)

                def band(r: V) -> None:
                    end = least(r + n["rows"], n["height"])

                    def row(c: V, k: V) -> None:
                        found = self.found((i, stop), (r, end), c, k, planes)
                        place = f.offset(sums, (c * n["kernel_rows"] + k) * (layout.taps * layout.block * self.item))
                        for tap, of_tap in enumerate(found):
                            at = f.offset(place, tap * layout.block * self.item)
                            before = f.load(at, self.elem, layout.block)
                            f.store(before + self.across(of_tap), at)

                    loop(f, zero, n["channels"], 1, lambda c: loop(f, zero, n["kernel_rows"], 1, lambda k: row(c, k)))

                loop(f, zero, n["height"], n["rows"], band)

            loop(f, first, last, n["some"], some)

        return self.each(piece)

    def found(self, images: tuple[V, V], rows: tuple[V, V], c: V, k: V, planes: list[V]) -> list[list[V]]:
        """Write the sums for one row of the kernel; return a vector for each of its elements and each channel."""
        f, n, layout, item = self.f, self.size, self.layout, self.item
        lanes = layout.lanes
        sums = [[f.alloca(f"<{lanes} x {self.elem}>", 64) for _ in planes] for _ in range(layout.taps)]
        for of_tap in sums:
            for s in of_tap:
                f.store(f.const(0, self.elem, lanes), s, 64)
        start = c * n["plane"] + k * n["kernel_step"]

        def place(i: V, r: V, j: V) -> None:
            x = f.offset(self.address["x"], i * n["image"] + start + r * n["row_step"] + j * item)
            g = f.offset(self.address["g"], i * n["out_image"] + r * n["out_row"] + j * item)
            read = [[f.load(s, self.elem, lanes, 64) for s in of_tap] for of_tap in sums]
            inside = lane_numbers(self.f, I64, lanes) + j < n["width"]
            inputs = []
            for phase, column in layout.places:
                at = f.offset(x, n["phase"]) if phase else x
                inputs.append(f.load(f.offset(at, column * item), self.elem, lanes))
            for o, plane in enumerate(planes):
                at = f.offset(g, plane)
                value = f.load(at, self.elem, lanes) if layout.whole else masked_load(self.f, at, inside, self.elem)
                for tap, x_value in enumerate(inputs):
                    read[tap][o] = fma(value, x_value, read[tap][o])
            for of_tap, values in zip(sums, read, strict=True):
                for s, value in zip(of_tap, values, strict=True):
                    f.store(value, s, 64)

        def row(i: V, r: V) -> None:
            loop(f, f.const(0, I64), n["width"], lanes, lambda j: place(i, r, j))

        loop(f, *images, 1, lambda i: loop(f, *rows, 1, lambda r: row(i, r)))
        return [[f.load(s, self.elem, lanes, 64) for s in of_tap] for of_tap in sums]

    def across(self, vectors: list[V]) -> V:
        """Return a vector with the sum of the lanes of each of these vectors."""
        segment = self.layout.lanes
        width = segment
        while len(vectors) > 1:
            half = segment // 2
            starts = [p * segment + q for q in (0, half) for p in range(2 * width // segment)]
            count = len(starts) // 2
            low, high = ([s + k for s in part for k in range(half)] for part in (starts[:count], starts[count:]))
            pairs = zip(vectors[::2], vectors[1::2], strict=True)
            vectors = [shuffle(a, b, low) + shuffle(a, b, high) for a, b in pairs]
            segment = half
        (found,) = vectors
        while segment > 1:
            half = segment // 2
            starts = list(range(0, width, segment))
            low, high = ([s + d + k for s in starts for k in range(half)] for d in (0, half))
            found = shuffle(found, found, low) + shuffle(found, found, high)
            width, segment = width // 2, half
        return found


STEPS = (1, 2)  # between windows in a row, that vectors are read for


def idle(dtype: str, width: int) -> float:
    """Return how long rows of a result take for each number, relative to those that fill vectors."""
    vectors = _vectors(width, dtype)
    return min(cost for _, cost in vectors) / width if width >= min(n for n, _ in vectors) else math.inf


def forward(dtype: str, images: int, channels: int, out_channels: int, windows: Windows,
            biased: bool) -> Callable[..., None]:  # fmt: skip
    """Return the function of (input, weight, bias if `biased`, output): a convolution."""
    compute = _convolution(dtype, images, channels, out_channels, windows)
    none = np.zeros(out_channels, dtype)

    def call(x: np.ndarray, w: np.ndarray, *rest: np.ndarray) -> None:
        compute(x, w, rest[0] if biased else none, rest[-1])

    return call


def input_gradient(dtype: str, images: int, channels: int, out_channels: int,
                   windows: Windows) -> Callable[..., None]:  # fmt: skip
    """Return the function of (gradient, weight, gradient of the input), for a step of 1 between windows."""
    margin = [d * (k - 1) - p for d, k, p in zip(windows.dilation, windows.kernel, windows.padding, strict=True)]
    turned = windows._replace(size=windows.output, padding=tuple(margin), output=windows.size)
    compute = _convolution(dtype, images, out_channels, channels, turned)
    none = np.zeros(channels, dtype)

    def call(g: np.ndarray, w: np.ndarray, out: np.ndarray) -> None:
        w = w.reshape(out_channels, channels, *windows.kernel)
        if flat.is_finite(w):
            compute(g, w[:, :, ::-1, ::-1].swapaxes(0, 1), none, out)
        else:  # zeros of the margin do not count
            given = g.reshape(images, out_channels, *windows.output)
            out[...] = products.input_gradient(given, w, windows, 1).reshape(out.shape)

    return call


def _convolution(dtype: str, images: int, channels: int, out_channels: int, windows: Windows) -> Callable[..., None]:
    layout = _layout(dtype, windows, out_channels)
    padded = Padded.of(windows, layout.lanes)
    (height, width), item, block = windows.output, np.dtype(dtype).itemsize, layout.block
    blocks = -(-out_channels // block)
    row = padded.step * padded.columns * item
    plane = padded.rows * row
    band = max(layout.rows, _BAND // (channels * row * windows.stride[0]) // layout.rows * layout.rows)
    bands = -(-height // min(band, height))
    band = -(-height // bands // layout.rows) * layout.rows
    bands = -(-height // band)
    groups = min(blocks, max(1, -(-_PIECES // (images * bands))))
    each = -(-blocks // groups)
    groups = -(-blocks // each)
    sizes = (
        *(bands, groups, band, each, blocks, height, width, channels, windows.kernel[0], plane, plane * channels),
        *(row * windows.stride[0], row * windows.dilation[0], padded.columns * item),
        *(width * item, height * width * item, height * width * out_channels * item, out_channels),
    )  # fmt: skip
    products_ = images * height * width * channels * out_channels * windows.kernel[0] * windows.kernel[1]
    pad, copy = _copy(dtype, layout.lanes, images, channels, windows, padded)
    walks = (
        contiguous(dtype, *copy), contiguous(dtype, blocks, channels, *windows.kernel, block),
        contiguous(dtype, blocks * block), contiguous(dtype, images, out_channels, height, width, is_written=True),
    )  # fmt: skip
    sums = _sums(layout).bound(sizes, images * bands * groups, products_ * FLOP[dtype], walks)

    def call(x: np.ndarray, w: np.ndarray, bias: np.ndarray, out: np.ndarray) -> None:
        weights = np.zeros((blocks, channels, *windows.kernel, block), dtype)
        short = np.zeros(blocks * block, dtype)
        short[:out_channels] = bias
        _by_blocks(weights, w.reshape(out_channels, channels, *windows.kernel))
        x_padded = np.empty(copy, dtype)
        pad(x, x_padded)
        sums(x_padded, weights, short, out)

    return call


def _copy(dtype: str, lanes: int, images: int, channels: int, windows: Windows, padded: Padded) -> Any:
    sizes = (*windows.size, padded.rows, padded.columns, *windows.padding, padded.needed)
    shape = images, channels, padded.rows, padded.step, padded.columns
    cost = 0.2 * np.dtype(dtype).itemsize * images * channels * padded.rows * padded.step * padded.columns
    walks = contiguous(dtype, images, channels, *windows.size), contiguous(dtype, *shape, is_written=True)
    return _padding(dtype, lanes, padded.step).bound(sizes, images * channels, cost, walks), shape


def _by_blocks(target: np.ndarray, w: np.ndarray) -> None:
    """Write weights (out, in, *kernel) to (blocks, in, *kernel, block), whose last channels may stay zeros."""
    block = target.shape[-1]
    whole = len(w) // block
    target[:whole] = np.moveaxis(w[: whole * block].reshape(whole, block, *w.shape[1:]), 1, -1)
    if len(w) % block:
        target[whole, ..., : len(w) % block] = np.moveaxis(w[whole * block :], 0, -1)


def weight_gradient(dtype: str, images: int, channels: int, out_channels: int,
                    windows: Windows) -> Callable[..., None]:  # fmt: skip
    """Return the function of (gradient, input, gradient of the weight)."""
    layout = _gradient_layout(dtype, windows)
    padded = Padded.of(windows, layout.lanes)
    (height, width), item, block = windows.output, np.dtype(dtype).itemsize, layout.block
    blocks = -(-out_channels // block)
    chunk = -(-images // min(images, max(1, -(-_PIECES // blocks))))
    chunks = -(-images // chunk)
    near = block * width * item  # bytes of a row of the gradient
    rows = min(height, max(1, _NEAR // near))
    some = max(1, _NEAR // (near * height)) if rows == height else 1
    row = padded.step * padded.columns * item
    plane = padded.rows * row
    sizes = (
        *(blocks, chunk, images, some, rows, height, width, channels, windows.kernel[0], plane, plane * channels),
        *(row * windows.stride[0], row * windows.dilation[0], padded.columns * item),
        *(width * item, height * width * item, height * width * out_channels * item, out_channels),
    )  # fmt: skip
    products_ = images * height * width * channels * out_channels * windows.kernel[0] * windows.kernel[1]
    pad, copy = _copy(dtype, layout.lanes, images, channels, windows, padded)
    walks = (
        contiguous(dtype, images, out_channels, height, width), contiguous(dtype, *copy),
        contiguous(dtype, chunks, blocks, channels, *windows.kernel, block, is_written=True),
    )  # fmt: skip
    multiply = _products(layout).bound(sizes, blocks * chunks, products_ * FLOP[dtype], walks)

    def call(g: np.ndarray, x: np.ndarray, out: np.ndarray) -> None:
        if not layout.whole and not flat.is_finite(x):  # lanes beyond the row do not count
            given = g.reshape(images, out_channels, height, width), x.reshape(images, channels, *windows.size)
            out[...] = products.weight_gradient(*given, windows.kernel, windows, 1).reshape(out.shape)
            return
        x_padded = np.empty(copy, dtype)
        pad(x, x_padded)
        sums = np.zeros((chunks, blocks, channels, *windows.kernel, block), dtype)
        multiply(g, x_padded, sums)
        total = sums[0]
        for part in sums[1:]:
            total += part
        whole = out_channels // block
        by_block = np.moveaxis(total, -1, 1)
        out = out.reshape(out_channels, channels, *windows.kernel)
        out[: whole * block].reshape(whole, block, *out.shape[1:])[...] = by_block[:whole]
        if out_channels % block:
            out[whole * block :] = by_block[whole, : out_channels % block]

    return call
