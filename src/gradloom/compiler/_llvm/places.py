"""Parts of arrays at given places: copies of them, and sums in the order of the index.

A place out of range is refused; by sums before anything is written, and where threads share the work, by each for its
part.

Note [One load of a place]
Another thread, or another process on shared memory, may write to the index at any time. So each use of a place loads
it once, compares what was loaded, and passes over what is out of range: no check holds for a later load.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from .ir import BITS, I1, I8, I32, I64, Function, V, loop, when
from .lower import ELEMENTS
from .routines import Held, Routine, Writer

_LANES = 8
LINE = 64  # bytes of a line of the cache


@cache
def take() -> Routine:
    """Return the routine of (x, index, out), which writes the parts of x at the places in a vector to out, for arrays
    of any dtype.

    A piece is a part of the result. The integers are: parts of x, places, elements of a part, and bytes of an element.
    Parts are those along a dimension; the dimensions before it repeat them.
    """
    held = {
        "x": Held(None, lambda first, last, size, count, each, item: last // count * size * each),
        "index": Held("int64", lambda first, last, size, count, each, item: count),
        "out": Held(None, lambda first, last, size, count, each, item: last * each, True),
    }
    return Routine("take", lambda: _take(Writer(held, ("size", "count", "each", "item"))), [*held.values()], 4)


def _take(w: Writer) -> str:
    f = w.f
    size, count, each, item = w.size.values()
    nbytes = each * item
    x, index, out = w.address.values()
    refused = _flag(f)

    def one(q: V) -> None:
        block, i = q._binary("udiv", count), q._binary("urem", count)
        with_place(f, index, i, size, refused, lambda place: copy(q, block * size + place))

    def copy(q: V, part: V) -> None:
        source, target = f.offset(x, part * nbytes), f.offset(out, q * nbytes)
        start = f.const(0, I64)
        for elem, width in ((I64, _LANES), (I64, 0), (I8, 0)):
            step = BITS[elem] // 8 * max(1, width)
            stop = nbytes & -step

            def move(at: V, elem: str = elem, width: int = width) -> None:
                f.store(f.load(f.offset(source, at), elem, width, 1), f.offset(target, at), 1)

            loop(f, start, stop, step, move)
            start = stop

    loop(f, w.first, w.last, 1, one)
    return w.text(f.load(refused, I1).convert("zext", I32))


@cache
def scatter_add(dtype: str) -> Routine:
    """Return the routine of (out, index, src), which adds each element of src to that of out whose place along a
    dimension the index has.

    A piece has all elements of the dimension and those after it. The integers are: elements of the dimension in out and
    in src, and elements after it.
    """
    sizes = ("size", "count", "after")
    held = {
        "out": Held(dtype, lambda first, last, size, count, after: last * size * after, True),
        "index": Held("int64", lambda first, last, size, count, after: last * count * after),
        "src": Held(dtype, lambda first, last, size, count, after: last * count * after),
    }
    text = lambda: _scatter_add(Writer(held, sizes), dtype)  # noqa: E731
    return Routine(f"scatter_add {dtype}", text, [*held.values()], len(sizes))


def _scatter_add(w: Writer, dtype: str) -> str:
    f, first, last = w.f, w.first, w.last
    size, count, after = w.size.values()
    out, index, src = w.address.values()
    elem = ELEMENTS[dtype]
    nbytes = BITS[elem] // 8
    bad, refused = _any_outside(f, index, first * count * after, last * count * after, size), _flag(f)
    f.store(bad, refused)

    def one_range(b: V) -> None:
        def part(i: V) -> None:
            begin = (b * count + i) * after

            def one(k: V) -> None:
                q = begin + k

                def add(place: V) -> None:
                    target = f.offset(out, ((b * size + place) * after + k) * nbytes)
                    f.store(f.load(target, elem) + f.load(f.offset(src, q * nbytes), elem), target)

                with_place(f, index, q, size, refused, add)

            loop(f, f.const(0, I64), after, 1, one)

        loop(f, f.const(0, I64), count, 1, part)

    when(f, ~bad, lambda: loop(f, first, last, 1, one_range))
    return w.text(f.load(refused, I1).convert("zext", I32))


@cache
def add_parts(dtype: str) -> Routine:
    """Return the routine of (out, index, src), which adds the parts of src to those of out at the places in a vector.

    A piece is `LINE` bytes of each part, so that threads write to different lines of the cache. The integers are:
    dimensions before the one of the parts, parts of out, places, elements after it; and a place whose parts are left
    out.
    """
    sizes = ("before", "size", "count", "after", "omitted")
    held = {
        "out": Held(dtype, lambda first, last, before, size, count, after, omitted: before * size * after, True),
        "index": Held("int64", lambda first, last, before, size, count, after, omitted: count),
        "src": Held(dtype, lambda first, last, before, size, count, after, omitted: before * count * after),
    }
    text = lambda: _add_parts(Writer(held, sizes), dtype)  # noqa: E731
    return Routine(f"add_parts {dtype}", text, [*held.values()], len(sizes))


def _add_parts(w: Writer, dtype: str) -> str:
    f = w.f
    before, size, count, after, omitted = w.size.values()
    out, index, src = w.address.values()
    elem = ELEMENTS[dtype]
    nbytes = BITS[elem] // 8
    first, last = w.first * (LINE // nbytes), w.last * (LINE // nbytes)
    last = (last < after).where(last, after)
    bad, refused = _any_outside(f, index, f.const(0, I64), count, size), _flag(f)
    f.store(bad, refused)
    whole = first + ((last - first) & -_LANES)

    def one_range(b: V) -> None:
        def part(i: V) -> None:
            with_place(f, index, i, size, refused, lambda place: add_part(i, place))

        def add_part(i: V, place: V) -> None:
            target = f.offset(out, (b * size + place) * after * nbytes)
            source = f.offset(src, (b * count + i) * after * nbytes)

            def add(k: V, width: int) -> None:
                at = f.offset(target, k * nbytes)
                f.store(f.load(at, elem, width) + f.load(f.offset(source, k * nbytes), elem, width), at)

            def whole_part() -> None:
                loop(f, first, whole, _LANES, lambda k: add(k, _LANES))
                loop(f, whole, last, 1, lambda k: add(k, 0))

            when(f, place.differs(omitted), whole_part)

        loop(f, f.const(0, I64), count, 1, part)

    when(f, ~bad, lambda: loop(f, f.const(0, I64), before, 1, one_range))
    return w.text(f.load(refused, I1).convert("zext", I32))


def _flag(f: Function) -> str:
    cell = f.alloca(I1)
    f.store(f.const(0, I1), cell)
    return cell


def with_place(f: Function, index: str, i: V, size: V, refused: str, use: Callable[[V], None]) -> None:
    """Load a place of an index once and use it if it is in range, else set a flag. See Note [One load of a place]."""
    place = f.load(f.offset(index, i * 8), I64)
    outside = place._binary("icmp uge", size, I1)
    when(f, outside, lambda: f.store(f.const(1, I1), refused))
    when(f, ~outside, lambda: use(place))


def _any_outside(f: Function, index: str, start: V, stop: V, size: V) -> V:
    """Return whether one of the places from `start` to `stop` is negative or not below `size`."""
    found = [f.alloca(f"<{_LANES} x i1>"), f.alloca(I1)]
    for cell, width in zip(found, (_LANES, 0), strict=True):
        f.store(f.const(0, I1, width), cell)

    def check(i: V, width: int) -> None:
        cell = found[not width]
        place = f.load(f.offset(index, i * 8), I64, width)
        f.store(f.load(cell, I1, width) | place._binary("icmp uge", size, I1), cell)

    whole = start + ((stop - start) & -_LANES)
    loop(f, start, whole, _LANES, lambda i: check(i, _LANES))
    loop(f, whole, stop, 1, lambda i: check(i, 0))
    return f.load(found[0], I1, _LANES).any() | f.load(found[1], I1)
