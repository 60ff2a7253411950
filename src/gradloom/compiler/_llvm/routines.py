"""Machine code that no loop program describes: scans, sorts, sums at places, random words, convolutions, pooling.

A *routine* computes the pieces of some work from `first` to below `last`, with arrays and integers that it gets at each
call, so that one routine serves all sizes:

    int kernel(int64 part, arrays..., int64 first, int64 last, integers...)     returns 1 if it refuses, 0 otherwise

Threads share the pieces where they take long; `part` is the number of the range that is computed then. Pieces write to
different places, or the same values to the same place, so results do not depend on the number of threads.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ...kernels._common.threads import get_num_threads
from . import direct, host, pool
from .code import load_code
from .entry import write_entry, write_parallel
from .ir import I32, I64, PTR, Function, Module, V, loop
from .kernel import header_size
from .pool import SHARED_FROM

_ENTRIES = ("kernel", "shared", direct.ENTRY)
_PARTS, _WITH_MEMORY = 64, 4  # at most; and for each thread, where a part has memory of its own
empty, _BYTE = np.empty, np.dtype(np.uint8)


class Routine:
    """A routine in memory.

    Args:
        key: all that the text depends on, beside the processor and the version.
        text: returns the module's text, as a Writer makes it.
        arrays, integers: how many of them `kernel` takes; of integers, beside the range.

    Attributes:
        call: `call(*arrays, first, last, *integers)` for arrays of NumPy's own type, which are contiguous. It holds the
            GIL, and returns True if the routine refused; None otherwise.
    """

    __slots__ = ("_function", "_owner", "_shared", "call")

    def __init__(self, key: str, text: Callable[[], str], arrays: int, integers: int) -> None:
        self._owner = loaded = load_code((key, str(header_size())), _ENTRIES, text)
        pointer, size = ctypes.c_void_p, ctypes.c_int64
        objects, sizes = [ctypes.py_object] * arrays, [size] * integers
        first, shared, last = loaded.addresses
        self._function = ctypes.CFUNCTYPE(ctypes.c_int32, size, *objects, size, size, *sizes)(first)
        job = pointer, pointer, pointer, size, size
        self._shared = ctypes.CFUNCTYPE(ctypes.c_int32, *job, *objects, *sizes)(shared)
        self.call: Callable[..., bool | None] = self._called
        if direct.available():
            self.call = direct.builtin(last, 0, 0, 0, 0, loaded)

    def _called(self, *arguments: Any) -> bool | None:
        return True if self._function(0, *arguments) else None

    def over(
        self,
        count: int,
        cost: float,
        arrays: Sequence[Any],
        integers: Sequence[int],
        memory: int = 0,
        each: int = _PARTS,
    ) -> bool | None:
        """Compute the pieces 0 ... count, which threads share if they take long.

        Args:
            cost: about how many nanoseconds they take on one thread.
            memory: bytes that each part needs; the routine's first array has them, one part after another.
            each: parts for each thread, at most: 1 where every part reads all of an index.

        Returns:
            as `call`; some parts may be done if one of them is refused.
        """
        if cost < SHARED_FROM:
            own = (empty(memory, _BYTE),) if memory else ()
            return self.call(*own, *arrays, 0, count, *integers)
        threads = get_num_threads()
        most = 1 if threads == 1 else threads * _WITH_MEMORY if memory else min(threads * each, _PARTS)
        parts = min(count, most, int(cost / SHARED_FROM * 2))
        if memory:
            arrays = (empty(memory * parts, _BYTE), *arrays)
        if parts == 1:
            return self._called(*arrays, 0, count, *integers)  # by ctypes, which releases the GIL

        def one(part: int, first: int, last: int) -> int:
            return self._function(part, *arrays, first, last, *integers)  # type: ignore[no-any-return]

        return True if pool.in_threads(self._shared, one, _ranges(count, parts), *arrays, *integers) else None

    def bound(self, integers: Sequence[int], count: int, cost: float) -> Callable[..., None]:
        """Return the function of the arrays that calls `over`, for a routine that refuses nothing."""

        def call(*arrays: Any) -> None:
            self.over(count, cost, arrays, integers)

        return call


@lru_cache(1024)
def _ranges(count: int, parts: int) -> np.ndarray:
    edges = [count * i // parts for i in range(parts + 1)]
    return np.array(list(zip(edges, edges[1:], strict=False)), np.int64)


class Writer:
    """Begins and ends the text of a routine.

    Args:
        arrays, integers: their names.

    Attributes:
        first, last: the range.
        address: where the elements of each array begin.
        size: the integers.
    """

    def __init__(self, arrays: Sequence[str], integers: Sequence[str]) -> None:
        self.module = Module(host.host().fma)
        self.arrays, self.integers = [(PTR, x) for x in arrays], [(I64, x) for x in integers]
        parameters = [(I64, "part"), *self.arrays, (I64, "first"), (I64, "last"), *self.integers]
        self.f = f = Function(self.module, "kernel", I32, parameters)
        self.address = {x: f.load(f.offset(f"%{x}", header_size()), PTR).name for x in arrays}
        self.size = {x: f.parameter(x, I64) for x in integers}
        self.part, self.first, self.last = (f.parameter(x, I64) for x in ("part", "first", "last"))

    def each(self, piece: Callable[[V], None]) -> str:
        """Return the text of a routine that computes one piece after another."""
        loop(self.f, self.first, self.last, 1, piece)
        return self.text()

    def text(self, refused: V | None = None) -> str:
        """Return the module's text; `refused` is what `kernel` returns."""
        self.f.line(f"ret i32 {0 if refused is None else refused.name}")
        self.f.finish()

        def call(f: Function, kept: dict[str, V], part: V) -> V:
            item = f.offset(kept["items"].name, part * 16)
            edges = [f.load(f.offset(item, 8 * k), I64) for k in range(2)]
            arrays, integers = ([kept[x] for _, x in names] for names in (self.arrays, self.integers))
            return f.call("kernel", I32, I32, 0, [(x.elem, x.name) for x in (part, *arrays, *edges, *integers)])

        write_parallel(self.module, [*self.arrays, *self.integers], call)
        write_entry(self.module, len(self.arrays), [I64] * (2 + len(self.integers)), header_size(), (0,))
        return str(self.module)
