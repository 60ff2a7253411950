"""Running sums, products and extrema along a dimension, in the order of the elements.

Sums and products of float32 are computed in double precision and rounded to each result. Rows that are contiguous are
walked through several at a time, since each step waits for the one before; where the next row is the next element, each
lane takes a row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from math import inf
from typing import Any

from .ir import BITS, DOUBLE, FLOAT, I64, V, is_float, loop
from .lower import ELEMENTS
from .routines import Held, Routine, Writer

_TOGETHER = 4  # rows
_LANES = 8
State = list[V]
Step = Callable[[State, V, V], tuple[State, list[V]]]


@cache
def scan(kind: str, dtype: str) -> Routine:
    """Return the routine of (x, out), or (x, values, places), for cumsum, cumprod, cummax or cummin.

    A piece of an array has all elements of the dimension and those after it. The integers are: elements along the
    dimension, and elements after it.
    """
    arrays = {"x": Held(dtype, _elements), "values": Held(dtype, _elements, True)}
    if kind.startswith("cumm"):
        arrays["places"] = Held("int64", _elements, True)
    text = lambda: _scan(Writer(arrays, ("n", "after")), kind, dtype)  # noqa: E731
    return Routine(f"scan {kind} {dtype}", text, [*arrays.values()], 2)


def _elements(first: Any, last: Any, n: Any, after: Any) -> Any:
    return last * n * after


def _scan(w: Writer, kind: str, dtype: str) -> str:
    f, first, last, n, after = w.f, w.first, w.last, w.size["n"], w.size["after"]
    addresses, elem = [*w.address.values()], ELEMENTS[dtype]
    start, step = _extremum(kind, elem) if kind in ("cummax", "cummin") else _total(kind, elem)
    sizes = [BITS[elem] // 8, BITS[elem] // 8, 8][: len(addresses)]

    def walk(strands: Sequence[V], width: int) -> None:
        """Walk from each of some places on, given in elements."""
        each = [[f.offset(a, place * size) for a, size in zip(addresses, sizes, strict=True)] for place in strands]
        begin = [f.const(value, kind, width) for value, kind in start]
        states = [[f.alloca(value.type) for value in begin] for _ in strands]
        for cells in states:
            for value, cell in zip(begin, cells, strict=True):
                f.store(value, cell)

        def one(i: V) -> None:
            place = i * after
            for ways, cells in zip(each, states, strict=True):
                x = f.load(f.offset(ways[0], place * sizes[0]), elem, width)
                state = [f.load(cell, value.elem, width) for value, cell in zip(begin, cells, strict=True)]
                state, results = step(state, x, i)
                for value, cell in zip(state, cells, strict=True):
                    f.store(value, cell)
                for value, way, size in zip(results, ways[1:], sizes[1:], strict=True):
                    f.store(value, f.offset(way, place * size))

        loop(f, f.const(0, I64), n, 1, one)

    one_by_one, by_lanes, done = (f.new_label(name) for name in ("rows", "lanes", "done"))
    f.branch(after.equals(1), one_by_one, by_lanes)
    f.start(one_by_one, fall=False)
    whole = first + ((last - first) & -_TOGETHER)
    loop(f, first, whole, _TOGETHER, lambda r: walk([(r + k) * n for k in range(_TOGETHER)], 0))
    loop(f, whole, last, 1, lambda r: walk([r * n], 0))
    f.line(f"br label %{done}")
    f.start(by_lanes, fall=False)
    strips = after & -_LANES

    def one_range(r: V) -> None:
        begin = r * n * after
        loop(f, f.const(0, I64), strips, _LANES, lambda c: walk([begin + c], _LANES))
        loop(f, strips, after, 1, lambda c: walk([begin + c], 0))

    loop(f, first, last, 1, one_range)
    f.start(done)
    return w.text()


def _total(kind: str, elem: str) -> tuple[list[tuple[Any, str]], Step]:
    wide = DOUBLE if elem == FLOAT else elem

    def step(state: State, x: V, i: V) -> tuple[State, list[V]]:
        if wide != elem:
            x = x.convert("fpext", wide)
        total = state[0] + x if kind == "cumsum" else state[0] * x
        return [total], [total.convert("fptrunc", elem) if wide != elem else total]

    return [(0 if kind == "cumsum" else 1, wide)], step


def _extremum(kind: str, elem: str) -> tuple[list[tuple[Any, str]], Step]:
    greatest = inf if is_float(elem) else 2 ** (BITS[elem] - 1) - 1
    least = -inf if is_float(elem) else -(2 ** (BITS[elem] - 1))

    def step(state: State, x: V, i: V) -> tuple[State, list[V]]:
        value, place = state
        new = x >= value if kind == "cummax" else x <= value
        if is_float(elem):
            new = new | x.is_nan()
        state = [new.where(x, value), new.where(i, place)]
        return state, state

    return [(least if kind == "cummax" else greatest, elem), (0, I64)], step
