"""The order of the elements of short rows: eight rows at a time, one in each lane, by a sorting network.

Note [Keys]
An element becomes an integer that orders as it does, with one for both zeros and the greatest for each NaN. Together
with its place in the row it is unique, so that the network, which is not stable, sorts stably. Keys of 32 bits and
places are one number of 64 bits; those of 64 bits are two. The network is Batcher's merge exchange (D. E. Knuth, The
Art of Computer Programming, volume 3, algorithm 5.2.2M), which sorts any number of elements.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from .ir import BITS, I1, I32, I64, Function, V, loop, when
from .lower import ELEMENTS
from .routines import Held, Routine, Writer

ROWS = 8  # at a time


_SIZES = ("n", "after", "rank", "count", "strict")


@cache
def order(dtype: str, descending: bool) -> Routine:
    """Return the routine of (memory, x, values, places): elements of some ranks of rows, and their places in them.

    A piece is a row; a part needs memory of `bytes_of_keys`. The integers are: elements of a row, elements between
    neighbours, the first rank and how many; and what it refuses: nothing (0), a rank whose element has equals (1), a
    NaN as well (2).
    """
    held, name = [*_held(dtype).values()], f"order {dtype} {descending}"
    return Routine(name, lambda: _order(dtype, descending), held, len(_SIZES), True)


def _held(dtype: str) -> dict[str, Held]:
    """Return what it relies on of its arrays: rows with all elements, and with those of the ranks."""

    def ranks(first: Any, last: Any, n: Any, after: Any, rank: Any, count: Any, strict: Any) -> Any:
        return last * count

    return {
        "x": Held(dtype, lambda first, last, n, *_: last * n),
        "values": Held(dtype, ranks, True),
        "places": Held("int64", ranks, True),
    }


def _order(dtype: str, descending: bool) -> str:
    w = Writer({"memory": None, **_held(dtype)}, _SIZES)
    f, first, last = w.f, w.first, w.last
    n, after, rank, count, strict = w.size.values()
    memory, x_address, values, indices = w.address.values()
    memory = f.offset(memory, w.part * n * bytes_of_keys(1, BITS[ELEMENTS[dtype]] // 8))
    keys = _Keys(f, memory, n, dtype, descending)
    bad = f.alloca(I1)
    f.store(f.const(0, I1), bad)
    size = BITS[ELEMENTS[dtype]] // 8

    def group(g: V) -> None:
        rows = [f.intrinsic("smin", g + lane, last - 1) for lane in range(ROWS)]
        outer = [(row._binary("udiv", after), row._binary("urem", after)) for row in rows]
        sources = [f.offset(x_address, ((a * n) * after + b) * size) for a, b in outer]
        targets = [(a * count) * after + b for a, b in outer]

        def read(i: V) -> None:
            place = i * after * size
            x = V(f, "poison", keys.elem, ROWS)
            for lane, source in enumerate(sources):
                one = f.load(f.offset(source, place), keys.elem)
                x = f.emit(f"insertelement {x.type} {x.name}, {one.elem} {one.name}, i32 {lane}", x.elem, ROWS)
            keys.write(i, x)

        loop(f, f.const(0, I64), n, 1, read)
        _network(f, n, keys.exchange)
        when(f, strict > 0, lambda: f.store(f.load(bad, I1) | keys.refused(rank, strict), bad))

        def write(i: V) -> None:
            places = keys.places(rank + i)
            for lane in range(ROWS):
                place, to = places.lane(lane), targets[lane] + i * after
                x = f.load(f.offset(sources[lane], place * after * size), keys.elem)
                f.store(x, f.offset(values, to * size))
                f.store(place, f.offset(indices, to * 8))

        loop(f, f.const(0, I64), count, 1, write)

    loop(f, first, last, ROWS, group)
    return w.text(f.load(bad, I1).convert("zext", I32))


def bytes_of_keys(n: int, itemsize: int) -> int:
    """Return how much memory `order` needs for rows of `n` elements."""
    return n * ROWS * (16 if itemsize == 8 else 8)


class _Keys:
    """The keys of eight rows in memory; see Note [Keys]."""

    def __init__(self, f: Function, address: str, n: V, dtype: str, descending: bool) -> None:
        self.f, self.address, self.n, self.descending = f, address, n, descending
        self.bits = BITS[ELEMENTS[dtype]]
        self.elem, self.floating = (I32, I64)[self.bits == 64], dtype[0] == "f"
        self.second = f.offset(address, n * (8 * ROWS))  # the places, where they are numbers of their own

    def at(self, i: V, second: bool = False) -> str:
        return self.f.offset(self.second if second else self.address, i * (8 * ROWS))

    def load(self, i: V, second: bool = False) -> V:
        return self.f.load(self.at(i, second), I64, ROWS, 8)

    def nan(self) -> int:
        return (1 << self.bits - 1) - 1

    def write(self, i: V, x: V) -> None:
        key = x
        if self.floating:
            top = (1 << self.bits - 1) - 1
            size = x & top
            key = x ^ (x.shift_right(self.bits - 1, True) & top)
            key = size.equals(0).where(0, key)
            infinity = 0x7F800000 if self.bits == 32 else 0x7FF0000000000000
            key = (size > infinity).where(self.nan(), key)
        if self.descending:
            key = ~key
        if self.bits == 32:
            self.f.store(key.convert("sext", I64) << 32 | i, self.at(i), 8)
        else:
            self.f.store(key, self.at(i), 8)
            self.f.store(self.f.splat(i, ROWS), self.at(i, True), 8)

    def exchange(self, i: V, j: V) -> None:
        f, a, b = self.f, self.load(i), self.load(j)
        if self.bits == 32:
            f.store(f.intrinsic("smin", a, b), self.at(i), 8)
            f.store(f.intrinsic("smax", a, b), self.at(j), 8)
            return
        c, d = self.load(i, True), self.load(j, True)
        swap = (b < a) | (b.equals(a) & (d < c))
        for first, other, second in ((a, b, False), (c, d, True)):
            f.store(swap.where(other, first), self.at(i, second), 8)
            f.store(swap.where(first, other), self.at(j, second), 8)

    def places(self, i: V) -> V:
        return self.load(i) & 0xFFFFFFFF if self.bits == 32 else self.load(i, True)

    def refused(self, rank: V, strict: V) -> V:
        """Return whether in a row the element of a rank has equals, or with `strict` 2, there is a NaN."""
        f = self.f

        def key(i: V) -> V:
            found = self.load(i)
            return found.shift_right(32, True) if self.bits == 32 else found

        below, above = f.intrinsic("smax", rank - 1, f.const(0, I64)), f.intrinsic("smin", rank + 1, self.n - 1)
        here = key(rank)
        found = key(below).equals(here).any() & (rank > 0)
        found = found | (key(above).equals(here).any() & (rank < self.n - 1))
        if self.floating:
            found = found | (key(self.n - 1).equals(self.nan()).any() & strict.equals(2))
        return found


def _network(f: Function, n: V, exchange: Callable[[V, V], None]) -> None:
    """Write the comparisons of the network in their order; `exchange` orders two of the elements."""
    one = f.const(1, I64)
    steps = 64 - f.intrinsic("ctlz", n - 1, extra="zero")

    def stage(s: V) -> None:
        p = one << (steps - 1 - s)

        def merge(j: V) -> None:
            initial = j.equals(0)
            q = one << (steps - initial.where(one, j))
            distance, offset = initial.where(p, q - p), initial.where(f.const(0, I64), p)
            stop = n - distance

            def block(base: V) -> None:
                end = f.intrinsic("smin", base + p, stop)
                loop(f, base, end, 1, lambda i: exchange(i, i + distance))

            loop(f, offset, stop, p + p, block)

        loop(f, f.const(0, I64), s + 1, 1, merge)

    loop(f, f.const(0, I64), steps, 1, stage)
