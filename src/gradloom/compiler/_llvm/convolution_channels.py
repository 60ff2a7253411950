"""Convolutions of images and their gradients as machine code whose vectors are of output channels.

Note [Vectors of channels]
A tile of the result is some neighbouring columns of a row by a few vectors of channels, and stays in registers while
the sum over input channels and kernel elements is taken: a vector of weights times one number of the input for each
column. So no lane is idle, however narrow an image is, and the input may have any step between columns. The weights are
copied once so that channels lie together, and the input so that it has its padding, all channels of a row together.
A tile is transposed when it is stored.

The gradient of the input is the same with other places: column j meets element k of a kernel's row at column
(j + padding - k dilation) / stride of the gradient, where that is a whole number. Tiles begin at multiples of the
stride, so the code knows which elements those are.

The gradient of the weight has in its tile the elements of a kernel's row, for some input channels, by a few vectors of
output channels; the sum is over the places of some images or rows, of a copy of the gradient whose channels lie
together. Sums over chunks of images, which depend on sizes alone, are added in their order.

Zeros of the padding are multiplied: an infinity or NaN in a weight or gradient shows in all results that it meets.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from ...kernels._common.windows import Windows
from ...kernels.conv import flat, products
from .convolution_copies import BYTE, Padded, lanes_of, turned
from .fits import contiguous
from .host import FLOP, registers
from .ir import BITS, I64, V, fma, lane_numbers, least, loop, masked_store, shuffle, transposed, when
from .lower import ELEMENTS
from .routines import Routine, Writer

_PIECES = 16  # of work, if there are that many
_NEAR = 128 << 10  # bytes of a gradient that are read again and again
_STORED = 200  # vectors that are multiplied in the time in which one vector for each column is stored, transposed


# Sums


class Tile(NamedTuple):
    """What code for a convolution, or for the gradient of its input, depends on.

    Attributes:
        lanes, vectors: of channels.
        columns: of the result, beside each other.
        reads: for each element of a kernel's row, which column of the input each column of the tile meets, if any.
        factor: columns of the input for one of the result.
        step: rows and columns of the result for one of the input.
    """

    dtype: str
    lanes: int
    vectors: int
    columns: int
    reads: tuple[tuple[int | None, ...], ...]
    factor: int
    step: tuple[int, ...]


_SIZES = (
    *("images", "bands", "rows", "height", "width", "channels", "kernel_rows"),
    *("shift", "row_factor", "origin", "row", "plane", "image", "kernel_step"),
    *("out_row", "out_plane", "out_image", "out_channels"),
)  # fmt: skip


@lru_cache(256)
def _sums(tile: Tile) -> Routine:
    """Return the function of (copy, weights, bias, result); a piece of work is a band of rows of an image, for a block
    of channels. Weights are (blocks, channels, kernel rows, kernel columns, channels of a block)."""
    return Routine(f"channels {tile}", lambda: _Sums(tile).written(), 4, len(_SIZES))


class _Sums(Writer):
    def __init__(self, tile: Tile) -> None:
        super().__init__(("x", "w", "b", "y"), _SIZES)
        self.tile, self.elem = tile, ELEMENTS[tile.dtype]
        self.item = BITS[self.elem] // 8
        self.wide = tile.lanes * tile.vectors * self.item  # bytes of weights of one element

    def written(self) -> str:
        f, n = self.f, self.size

        def piece(t: V) -> None:
            block, rest = (t._binary(op, n["images"] * n["bands"]) for op in ("udiv", "urem"))
            image, band = (rest._binary(op, n["bands"]) for op in ("udiv", "urem"))
            self.x = f.offset(self.address["x"], image * n["image"] + n["origin"])
            self.block = block
            taps = n["channels"] * n["kernel_rows"] * len(self.tile.reads)
            self.w = f.offset(self.address["w"], block * taps * self.wide)
            self.b = f.offset(self.address["b"], block * self.wide)
            first_channel = block * (self.tile.lanes * self.tile.vectors)
            self.y = f.offset(self.address["y"], image * n["out_image"] + first_channel * n["out_plane"])
            self.left = n["out_channels"] - first_channel
            first = band * n["rows"]
            loop(f, first, least(first + n["rows"], n["height"]), 1, self.row)

        return self.each(piece)

    def row(self, r: V) -> None:
        f, n, tile = self.f, self.size, self.tile
        met = r * n["row_factor"] + n["shift"]
        start, first = (met._binary(op, tile.step[0]) for op in ("udiv", "urem"))
        x = f.offset(self.x, start * n["row"])
        y = f.offset(self.y, r * n["out_row"])

        def of_tile(c: V) -> None:
            column = c._binary("udiv", tile.step[1]) * tile.factor
            self.sums(f.offset(x, column * self.item), first, f.offset(y, c * self.item), n["width"] - c)

        loop(f, f.const(0, I64), n["width"], tile.columns, of_tile)

    def sums(self, x: str, first: V, y: str, width: V) -> None:
        f, n, tile, item = self.f, self.size, self.tile, self.item
        lanes = tile.lanes
        kept = [[f.alloca(f"<{lanes} x {self.elem}>", 64) for _ in range(tile.vectors)] for _ in range(tile.columns)]
        for v in range(tile.vectors):
            bias = f.load(f.offset(self.b, v * lanes * item), self.elem, lanes)
            for of_column in kept:
                f.store(bias, of_column[v], 64)
        weights = len(tile.reads) * self.wide

        def channel(c: V) -> None:
            at_channel = f.offset(x, c * n["plane"])
            w_channel = f.offset(self.w, c * n["kernel_rows"] * weights)

            def taps(k: V) -> None:
                at = f.offset(at_channel, (k - first)._binary("udiv", tile.step[0]) * n["kernel_step"])
                w = f.offset(w_channel, k * weights)
                found = [[f.load(a, self.elem, lanes, 64) for a in of_column] for of_column in kept]
                for tap, reads in enumerate(tile.reads):
                    places = [
                        f.load(f.offset(w, tap * self.wide + v * lanes * item), self.elem, lanes)
                        for v in range(tile.vectors)
                    ]
                    for j, column in enumerate(reads):
                        if column is not None:
                            value = f.splat(f.load(f.offset(at, column * item), self.elem), lanes)
                            for v, weight in enumerate(places):
                                found[j][v] = fma(weight, value, found[j][v])
                for of_column, values in zip(kept, found, strict=True):
                    for address, value in zip(of_column, values, strict=True):
                        f.store(value, address, 64)

            loop(f, first, n["kernel_rows"], tile.step[0], taps)

        loop(f, f.const(0, I64), n["channels"], 1, channel)
        for start in range(0, tile.columns, lanes):
            for v in range(tile.vectors):
                part = [of_column[v] for of_column in kept[start : start + lanes]]
                place = f.offset(y, start * item)
                when(f, self.left > v * lanes, partial(self.write, part, v, place, width - start))

    def write(self, part: list[str], v: int, y: str, width: V) -> None:
        """Write the stores of a vector of channels for some columns, of which `width` exist."""
        f, lanes, step = self.f, self.tile.lanes, self.size["out_plane"]
        values = [f.load(address, self.elem, lanes, 64) for address in part]
        count = 1 << (len(part) - 1).bit_length()
        values += [values[-1]] * (count - len(values))
        y = f.offset(y, step * (v * lanes))
        mask = lane_numbers(self.f, I64, count) < least(width, f.const(len(part), I64))
        runs = []
        for value in transposed(values):
            for first in range(0, lanes, count):
                runs.append(value if count == lanes else shuffle(value, value, range(first, first + count)))

        def store(channel: int) -> None:
            masked_store(self.f, f.offset(y, step * channel), mask, runs[channel])

        whole, some, done = (f.new_label(name) for name in ("whole", "some", "done"))
        f.branch(self.left >= (v + 1) * lanes, whole, some)
        f.start(whole, fall=False)
        for channel in range(lanes):
            store(channel)
        f.line(f"br label %{done}")
        f.start(some, fall=False)
        for channel in range(lanes):
            when(f, self.left > v * lanes + channel, partial(store, channel))
        f.start(done)


def _tile(dtype: str, windows: Windows, depth: int, channels: int, gradient: bool) -> Tile:
    """Return the tile for so many channels of the result: the one that computes the least in vain, and of these, the
    one that waits the least: for sums, if there are fewer than 8, for numbers of the input and weights, and for stores
    of the result. A number of the input that several elements of a row meet is kept in a register, if one is left."""
    width = windows.size[1] if gradient else windows.output[1]
    multiple = windows.stride[1] if gradient else 1
    lanes, most = lanes_of(dtype), registers()
    best: Any = None
    for vectors in range(1, 5):
        for columns in range(multiple, most + multiple, multiple):
            sums, reads = columns * vectors, _reads(windows, columns, gradient)
            met = [m for of_tap in reads for m in of_tap if m is not None]
            few, count = len(set(met)), len(met) * vectors
            spilled = max(0, sums + vectors + few - most)
            if best is not None and (sums + vectors + 1 > most or spilled > count / 8):
                continue
            each = vectors * lanes
            taken = -(-width // columns) * columns / width * -(-channels // each) * each
            loads = (few + vectors * len(reads)) / max(1, count)
            waits = max(1, 8 / sums) + 0.1 * loads + max(0, loads - 0.5) + spilled / max(1, count)
            score = taken * (waits + _STORED / columns / depth)
            if best is None or score < best[0]:
                best = score, vectors, columns
    _, vectors, columns = best
    factor, step = (1, windows.stride) if gradient else (windows.stride[1], (1, 1))
    return Tile(dtype, lanes, vectors, columns, _reads(windows, columns, gradient), factor, step)


def _reads(windows: Windows, columns: int, gradient: bool) -> tuple[tuple[int | None, ...], ...]:
    step, dilation, pad, left = windows.stride[1], windows.dilation[1], windows.padding[1], _margin(windows, 1)
    found: list[tuple[int | None, ...]] = []
    for k in range(windows.kernel[1]):
        if gradient:
            met = [j + pad - k * dilation for j in range(columns)]
            found.append(tuple([None if m % step else m // step + left for m in met]))
        else:
            found.append(tuple([j * step + k * dilation for j in range(columns)]))
    return tuple(found)


def _margin(windows: Windows, axis: int) -> int:
    """Return how many rows or columns of zeros are before the gradient, which may be negative."""
    reach = windows.dilation[axis] * (windows.kernel[axis] - 1)
    return -(-reach // windows.stride[axis]) - windows.padding[axis] // windows.stride[axis]


def _convolution(dtype: str, images: int, channels: int, out_channels: int, windows: Windows,
                 gradient: bool = False) -> Callable[..., None]:  # fmt: skip
    """Return the function of (input, weights, bias, result); the input has so many channels, and may be a gradient."""
    tile = _tile(dtype, windows, channels * _elements(windows.kernel), out_channels, gradient)
    stride, dilation, kernel = windows.stride, windows.dilation, windows.kernel
    height, width = windows.size if gradient else windows.output
    whole = -(-width // tile.columns) * tile.columns
    item, each = np.dtype(dtype).itemsize, tile.lanes * tile.vectors
    if gradient:
        top, left = _margin(windows, 0), _margin(windows, 1)
        rows = (height - 1 + windows.padding[0]) // stride[0] + top + 1
        columns = (whole - 1 + windows.padding[1]) // stride[1] + left + 1
        given, shift, factor, down = windows.output, windows.padding[0], 1, -dilation[0] if stride[0] == 1 else -1
    else:
        top, left = windows.padding
        rows = (height - 1) * stride[0] + dilation[0] * (kernel[0] - 1) + 1
        columns = (whole - 1) * stride[1] + dilation[1] * (kernel[1] - 1) + 1
        given, shift, factor, down = windows.size, 0, stride[0], dilation[0]
    copy = Padded(rows, columns, top, left).copied(dtype, images, channels, given)
    row = channels * columns * item
    blocks = -(-out_channels // each)
    bands = min(height, max(1, -(-_PIECES // (images * blocks))))
    band = -(-height // bands)
    bands = -(-height // band)
    sizes = (
        *(images, bands, band, height, width, channels, kernel[0], shift, factor, top * row if gradient else 0),
        *(row, columns * item, rows * row, down * row),
        *(width * item, height * width * item, out_channels * height * width * item, out_channels),
    )  # fmt: skip
    work = images * channels * out_channels * _elements(windows.output) * _elements(kernel)
    turn = _weights(dtype, channels, out_channels, _elements(kernel), each, gradient)
    panels = blocks, channels * _elements(kernel), each
    walks = (
        contiguous(dtype, images, rows, channels, columns), contiguous(dtype, *panels),
        contiguous(dtype, blocks * each), contiguous(dtype, images, out_channels, height, width, is_written=True),
    )  # fmt: skip
    sums = _sums(tile).bound(sizes, blocks * images * bands, work * FLOP[dtype], walks)

    def call(x: Any, w: Any, bias: Any, out: Any) -> None:
        short = np.zeros(blocks * each, dtype)
        if bias is not None:
            short[:out_channels] = bias
        weights = np.empty(panels, dtype)
        turn(w, weights)
        sums(copy(x), weights, short, out)

    return call


def _elements(sizes: tuple[int, ...]) -> int:
    return sizes[0] * sizes[1]


def _weights(dtype: str, channels: int, out_channels: int, taps: int, each: int,
             gradient: bool) -> Callable[..., None]:  # fmt: skip
    """Return the function of (weights, copy) that puts channels of the result together, each element's vectors."""
    item = np.dtype(dtype).itemsize
    blocks, depth = -(-out_channels // each), channels * taps
    block = depth * each * item
    if gradient:
        row, outer, places = taps, out_channels * taps, (taps, channels)
    else:
        row, outer, places = depth, 0, (depth, 1)
    sizes = (
        *(blocks, out_channels, each, each, places[0], 0, places[0], row * item, each * item),
        *(outer * item, each * row * item, taps * each * item, block),
    )  # fmt: skip
    walks = contiguous(dtype, channels, out_channels, taps), contiguous(dtype, blocks, depth, each, is_written=True)
    return turned(dtype).bound(sizes, blocks * places[1], BYTE * block * blocks, walks)


def idle(dtype: str, channels: int) -> float:
    """Return how long vectors of channels take for each channel, relative to those that are full."""
    lanes = lanes_of(dtype)
    return -(-channels // lanes) * lanes / channels


def forward(dtype: str, images: int, channels: int, out_channels: int, windows: Windows,
            biased: bool) -> Callable[..., None]:  # fmt: skip
    """Return the function of (input, weight, bias if `biased`, output): a convolution."""
    compute = _convolution(dtype, images, channels, out_channels, windows)

    def call(x: np.ndarray, w: np.ndarray, *rest: np.ndarray) -> None:
        compute(x, w, rest[0] if biased else None, rest[-1])

    return call


def input_gradient(dtype: str, images: int, channels: int, out_channels: int,
                   windows: Windows) -> Callable[..., None]:  # fmt: skip
    """Return the function of (gradient, weight, gradient of the input)."""
    compute = _convolution(dtype, images, out_channels, channels, windows, True)

    def call(g: np.ndarray, w: np.ndarray, out: np.ndarray) -> None:
        if flat.is_finite(w):
            compute(g, w, None, out)
        else:  # zeros of the margin do not count
            given = g.reshape(images, out_channels, *windows.output)
            w = w.reshape(out_channels, channels, *windows.kernel)
            out[...] = products.input_gradient(given, w, windows, 1).reshape(out.shape)

    return call


# The gradient of the weight


class Taps(NamedTuple):
    """What code for the gradient of a weight depends on.

    Attributes:
        lanes, vectors: of output channels.
        channels: of the input.
        taps: elements of a kernel's row.
        step, dilation: along a row.
    """

    dtype: str
    lanes: int
    vectors: int
    channels: int
    taps: int
    step: int
    dilation: int


_GRADIENT_SIZES = (
    *("blocks", "chunk", "images", "some", "rows", "height", "width", "channels", "kernel_rows"),
    *("row", "plane", "image", "row_step", "kernel_step"),
)  # fmt: skip


@lru_cache(256)
def _products(taps: Taps) -> Routine:
    """Return the function of (gradient, copy, sums); a piece of work is a chunk of images for a block of channels. The
    gradient is (images, blocks, rows, columns, channels of a block), and sums are (chunks, blocks, channels, kernel
    rows, kernel columns, channels of a block)."""
    return Routine(f"weight gradient by channels {taps}", lambda: _Products(taps).written(), 3, len(_GRADIENT_SIZES))


class _Products(Writer):
    def __init__(self, taps: Taps) -> None:
        super().__init__(("g", "x", "s"), _GRADIENT_SIZES)
        self.taps, self.elem = taps, ELEMENTS[taps.dtype]
        self.item = BITS[self.elem] // 8
        self.wide = taps.lanes * taps.vectors * self.item

    def written(self) -> str:
        f, n, taps = self.f, self.size, self.taps
        zero = f.const(0, I64)

        def piece(t: V) -> None:
            chunk, block = (t._binary(op, n["blocks"]) for op in ("udiv", "urem"))
            first = chunk * n["chunk"]
            last = least(first + n["chunk"], n["images"])
            of_channel = n["kernel_rows"] * (taps.taps * self.wide)
            sums = f.offset(self.address["s"], t * n["channels"] * of_channel)
            plane = n["height"] * n["width"] * self.wide
            g = f.offset(self.address["g"], block * plane)

            def some(i: V) -> None:
                stop = least(i + n["some"], last)

                def band(r: V) -> None:
                    end = least(r + n["rows"], n["height"])

                    def of_row(c: V, k: V) -> None:
                        channels = [least(c + d, n["channels"] - 1) for d in range(taps.channels)]
                        places = [f.offset(sums, d * of_channel + k * (taps.taps * self.wide)) for d in channels]
                        reads = [f.offset(self.address["x"], d * n["plane"] + k * n["kernel_step"]) for d in channels]
                        starts = (i.equals(first) & r.equals(0)).convert("zext", I64)
                        self.add(g, plane * n["blocks"], (i, stop), (r, end), reads, places, starts)

                    loop(f, zero, n["channels"], taps.channels,
                         lambda c: loop(f, zero, n["kernel_rows"], 1, lambda k: of_row(c, k)))  # fmt: skip

                loop(f, zero, n["height"], n["rows"], band)

            loop(f, first, last, n["some"], some)

        return self.each(piece)

    def add(self, g: str, g_image: V, images: tuple[V, V], rows: tuple[V, V], reads: list[str], places: list[str],
            starts: V) -> None:  # fmt: skip
        """Write the sums for one row of the kernel over some images and rows, which are added to those that are there
        unless this `starts` them."""
        f, n, taps, item = self.f, self.size, self.taps, self.item
        lanes = taps.lanes
        kept = [f.alloca(f"<{lanes} x {self.elem}>", 64) for _ in range(taps.channels * taps.taps * taps.vectors)]
        for s in kept:
            f.store(f.const(0, self.elem, lanes), s, 64)

        def row(i: V, r: V) -> None:
            at = i * n["image"] + r * n["row_step"]
            xs = [f.offset(read, at) for read in reads]
            gradient = f.offset(g, i * g_image + r * n["width"] * self.wide)

            def place(c: V) -> None:
                found = [f.load(s, self.elem, lanes, 64) for s in kept]
                inputs = [f.offset(x, c * (taps.step * item)) for x in xs]
                weights = f.offset(gradient, c * self.wide)
                vectors = [f.load(f.offset(weights, v * lanes * item), self.elem, lanes) for v in range(taps.vectors)]
                met = [f.offset(x, k * taps.dilation * item) for x in inputs for k in range(taps.taps)]
                for number, address in enumerate(met):
                    value = f.splat(f.load(address, self.elem), lanes)
                    for v, vector in enumerate(vectors, number * taps.vectors):
                        found[v] = fma(vector, value, found[v])
                for s, value in zip(kept, found, strict=True):
                    f.store(value, s, 64)

            loop(f, f.const(0, I64), n["width"], 1, place)

        loop(f, *images, 1, lambda i: loop(f, *rows, 1, lambda r: row(i, r)))
        found = [f.load(s, self.elem, lanes, 64) for s in kept]
        targets = [f.offset(p, k * self.wide + v * lanes * item) for p in places for k in range(taps.taps)
                   for v in range(taps.vectors)]  # fmt: skip

        def added() -> None:
            before = [f.load(t, self.elem, lanes) for t in targets]
            for s, old, new in zip(kept, before, found, strict=True):
                f.store(old + new, s, 64)

        when(f, starts.equals(0), added)
        for s, t in zip(kept, targets, strict=True):
            f.store(f.load(s, self.elem, lanes, 64), t)


def _taps(dtype: str, windows: Windows, channels: int, out_channels: int) -> Taps:
    """Return the tile for the gradient of a weight, chosen as for a convolution."""
    lanes, most, taps = lanes_of(dtype), registers(), windows.kernel[1]
    best: Any = None
    for vectors in range(1, 5):
        for some in range(1, 9):
            sums = some * taps * vectors
            if best is not None and sums + vectors + 1 > most:
                break
            each = vectors * lanes
            taken = -(-channels // some) * some / channels * -(-out_channels // each) * each
            score = taken * max(1, 8 / sums) * (1 + 0.1 * (some * taps + vectors) / sums)
            if best is None or score < best[0]:
                best = score, vectors, some
    _, vectors, some = best
    return Taps(dtype, lanes, vectors, some, taps, windows.stride[1], windows.dilation[1])


def weight_gradient(dtype: str, images: int, channels: int, out_channels: int,
                    windows: Windows) -> Callable[..., None]:  # fmt: skip
    """Return the function of (gradient, input, gradient of the weight)."""
    taps = _taps(dtype, windows, channels, out_channels)
    (height, width), item, each = windows.output, np.dtype(dtype).itemsize, taps.lanes * taps.vectors
    stride, dilation, kernel = windows.stride, windows.dilation, windows.kernel
    blocks = -(-out_channels // each)
    chunk = -(-images // min(images, max(1, -(-_PIECES // blocks))))
    chunks = -(-images // chunk)
    near = width * each * item  # bytes of a row of the gradient
    rows = min(height, max(1, _NEAR // near))
    some = max(1, _NEAR // (near * height)) if rows == height else 1
    padded = Padded(
        (height - 1) * stride[0] + dilation[0] * (kernel[0] - 1) + 1,
        (width - 1) * stride[1] + dilation[1] * (kernel[1] - 1) + 1,
        *windows.padding,
    )
    copy = padded.copied(dtype, images, channels, windows.size)
    row = channels * padded.columns * item
    sizes = (
        *(blocks, chunk, images, some, rows, height, width, channels, kernel[0]),
        *(row, padded.columns * item, row * padded.rows, stride[0] * row, dilation[0] * row),
    )  # fmt: skip
    work = images * channels * out_channels * height * width * _elements(kernel)
    places, depth = height * width, channels * _elements(kernel)
    turn_sizes = (
        *(blocks, out_channels, each, each, places, 0, places, places * item, each * item),
        *(out_channels * places * item, each * places * item, blocks * places * each * item, places * each * item),
    )  # fmt: skip
    of_turned, of_sums = (images, blocks, places, each), (chunks, blocks, depth, each)
    x_copy, g_copy = contiguous(dtype, images, *padded.shape(channels)), contiguous(dtype, *of_turned)
    walks = [g_copy, x_copy, contiguous(dtype, *of_sums, is_written=True)]
    multiply = _products(taps).bound(sizes, blocks * chunks, work * FLOP[dtype], walks)
    walks = [contiguous(dtype, images, out_channels, places), g_copy._replace(is_written=True)]
    turn = turned(dtype).bound(turn_sizes, images * blocks, BYTE * images * blocks * places * each * item, walks)
    back_sizes = (
        *(blocks, depth, 0, depth, out_channels, each, each, each * item, depth * item),
        *(0, depth * each * item, 0, each * depth * item),
    )  # fmt: skip
    walks = [contiguous(dtype, *of_sums[1:]), contiguous(dtype, out_channels, depth, is_written=True)]
    turn_back = turned(dtype).bound(back_sizes, blocks, BYTE * blocks * depth * each * item, walks)

    def call(g: np.ndarray, x: np.ndarray, out: np.ndarray) -> None:
        turned = np.empty(of_turned, dtype)
        turn(g, turned)
        sums = np.empty(of_sums, dtype)
        multiply(turned, copy(x), sums)
        total = sums[0]
        for part in sums[1:]:
            total += part
        turn_back(total, out)

    return call
