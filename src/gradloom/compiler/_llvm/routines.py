"""Machine code that no loop program describes: scans, sorts, sums at places, random words, convolutions, pooling.

A *routine* computes the pieces of some work from `first` to below `last`, with arrays and integers that it gets at each
call, so that one routine serves all sizes:

    int kernel(int64 part, arrays..., int64 first, int64 last, integers...)     returns 1 if it refuses, 0 otherwise

Threads share the pieces where they take long; `part` is the number of the range that is computed then. Pieces write to
different places, or the same values to the same place, so results do not depend on the number of threads.

What is read and written of the arrays follows from the integers: a routine says of each array how many elements it has
(`Held`), or gets the walks over its arrays when it is bound to integers. See Note [Arrays that fit].
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ...kernels._common.threads import get_num_threads
from . import direct, host, pool
from .code import load_code
from .entry import write_entry, write_parallel
from .fits import ALIGNED, CONTIGUOUS, MISFIT, WRITABLE, Walk, contiguous, header_size, misfit
from .ir import I32, I64, PTR, Function, Module, V, loop
from .layouts import Layouts
from .pool import SHARED_FROM

_ENTRIES, FIT = ("kernel", "shared", direct.ENTRY), "fit"
_PARTS, _WITH_MEMORY = 64, 4  # at most; and for each thread, where a part has memory of its own
empty, _BYTE = np.empty, np.dtype(np.uint8)


class Held(NamedTuple):
    """What a routine relies on of an array, which is contiguous.

    Attributes:
        dtype: its name; None for any.
        count: how many elements it has: a function of `first`, `last` and the other integers.
    """

    dtype: str | None
    count: Callable[..., Any]
    is_written: bool = False


class Routine:
    """A routine in memory.

    Args:
        key: all that the text depends on, beside the processor and the version.
        text: returns the module's text, as a Writer makes it.
        arrays: how many arrays `kernel` takes, for a routine that is `bound`; or what it relies on of them, beside
            memory of its own.
        integers: how many integers it takes, beside the range.
        memory: whether its first array is memory of its own.

    Attributes:
        call: `call(*arrays, first, last, *integers)` for arrays of NumPy's own type. It holds the GIL, and returns True
            if the routine refused, MISFIT if an array does not fit, and None otherwise.
    """

    __slots__ = ("_fit", "_function", "_held", "_integers", "_owner", "_shared", "_table", "call")

    def __init__(
        self, key: str, text: Callable[[], str], arrays: int | Sequence[Held], integers: int, memory: bool = False
    ) -> None:
        self._held = held = () if isinstance(arrays, int) else tuple(arrays)
        entries = (*_ENTRIES, FIT) if held else _ENTRIES
        self._owner = loaded = load_code((key, str(header_size())), entries, text)
        pointer, size = ctypes.c_void_p, ctypes.c_int64
        count = arrays if isinstance(arrays, int) else len(held) + memory
        objects, sizes = [ctypes.py_object] * count, [size] * integers
        self._integers = integers
        first, shared, last, *fit = loaded.addresses
        self._function = ctypes.CFUNCTYPE(ctypes.c_int32, size, *objects, size, size, *sizes)(first)
        job = pointer, pointer, pointer, size, size
        self._shared = ctypes.CFUNCTYPE(ctypes.c_int32, *job, *objects, *sizes)(shared)
        self.call: Callable[..., Any] = self._checked
        self._fit: Callable[..., Any] = self._slow_fit
        self._table = np.array([word for x in held for word in _words_of(x)], np.int64)
        if direct.available():
            owner, address = (loaded, self._table), self._table.ctypes.data
            self.call = direct.builtin(last, 0, 0, 0, 0, owner, address)
            if held:
                self._fit = direct.builtin(fit[0], 0, 0, 0, 0, owner, address)

    def _called(self, *arguments: Any) -> bool | None:
        return True if self._function(0, *arguments) else None

    def _checked(self, *arguments: Any) -> Any:
        at = len(arguments) - self._integers - 2
        return self._fit(*arguments[at - len(self._held) :]) or self._called(*arguments)

    def _slow_fit(self, *arguments: Any) -> str | None:
        integers = arguments[len(self._held) :]
        for x, held in zip(arguments, self._held, strict=False):
            dtype = x.dtype if held.dtype is None else np.dtype(held.dtype)
            w = contiguous(dtype, held.count(*integers), is_written=held.is_written)
            if type(x) is not np.ndarray or not x.flags.c_contiguous or misfit(w, x) is not None:
                return MISFIT
        return None

    def over(
        self,
        count: int,
        cost: float,
        arrays: Sequence[Any],
        integers: Sequence[int],
        memory: int = 0,
        each: int = _PARTS,
    ) -> Any:
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
        if self._held and (misfit := self._fit(*arrays, 0, count, *integers)):
            return misfit
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

    def bound(self, integers: Sequence[int], count: int, cost: float, walks: Sequence[Walk]) -> Callable[..., None]:
        """Return the function of the arrays that calls `over`, for a routine that refuses nothing but arrays over which
        it cannot walk: it raises MisfitError for them, and IndexError if it refuses."""
        layouts = Layouts(walks)

        def call(*arrays: Any) -> None:
            layouts.require(arrays)
            if self.over(count, cost, arrays, integers):
                raise IndexError("an index is out of bounds")

        return call


def _words_of(held: Held) -> tuple[int, int]:
    flags = CONTIGUOUS | ALIGNED | (WRITABLE if held.is_written else 0)
    return 0 if held.dtype is None else id(np.dtype(held.dtype)), flags


@lru_cache(1024)
def _ranges(count: int, parts: int) -> np.ndarray:
    edges = [count * i // parts for i in range(parts + 1)]
    return np.array(list(zip(edges, edges[1:], strict=False)), np.int64)


class Writer:
    """Begins and ends the text of a routine.

    Args:
        arrays: their names; with what the routine relies on of them, None for memory of its own, if it is not `bound`.
        integers: their names.

    Attributes:
        first, last: the range.
        address: where the elements of each array begin.
        size: the integers.
    """

    def __init__(self, arrays: Sequence[str] | Mapping[str, Held | None], integers: Sequence[str]) -> None:
        self.module = Module(host.host().fma)
        self.held = [x for x in arrays.values() if x is not None] if isinstance(arrays, Mapping) else []
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
        integers = [I64] * (2 + len(self.integers))
        counts = [lambda given, held=held: held.count(*given) for held in self.held]
        write_entry(self.module, len(self.arrays), integers, header_size(), (0,), counts)
        if self.held:
            write_entry(self.module, len(self.held), integers, header_size(), (0,), counts, FIT)
        return str(self.module)
