"""One call for many arrays: a pointwise program on contiguous arrays of any sizes, such as the parameters of a network.

The function `many` calls the program's kernel for each row of a table, which has the elements to compute and the
arrays. Rows are parts of arrays where threads share the work; elements do not depend on how they are divided.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np

from ...kernels._common.threads import get_num_threads
from .._loops import LoopProgram
from .direct import checks
from .fits import ALIGNED, CONTIGUOUS, WRITABLE
from .kernel import Code, library
from .plan import Plan, make_plan
from .pool import SHARED_FROM, in_threads
from .schedule import code_for, cost_of


class Rows:
    """Rows of arrays.

    Args:
        arrays: those of all rows, one row after another.
        sizes: the number of elements of each row's arrays; a complex number counts as two.
        dtype: of the arrays.

    Attributes:
        first: the address of the arrays.
    """

    __slots__ = ("_objects", "arrays", "dtype", "first", "sizes")

    def __init__(self, arrays: Sequence[Any], sizes: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.arrays, self.sizes, self.dtype = arrays, sizes, dtype
        self._objects = (ctypes.py_object * len(arrays))(*arrays)
        self.first = ctypes.addressof(self._objects)


class Memory:
    """The memory of the arrays of several calls of `Many.look`: `count` is how many these are at most."""

    def __init__(self, count: int) -> None:
        size = 1 << (2 * count).bit_length()
        self._owners, self._spans, self._used = (ctypes.c_int64 * size)(), (ctypes.c_int64 * (2 * count))(), 0
        self.places = ctypes.addressof(self._owners), size - 1

    def room(self, count: int) -> int:
        """Return the address of the next `count` places for addresses."""
        found = ctypes.addressof(self._spans) + 16 * self._used
        self._used += count
        return found

    def overlaps(self) -> bool:
        """Return whether two arrays have bytes in common."""
        spans = np.frombuffer(memoryview(self._spans), np.int64).reshape(-1, 2)
        first, last = spans[spans[:, 0].argsort()].T
        return bool((first[1:] < np.maximum.accumulate(last)[:-1]).any())


@cache
def looking() -> Any:
    """Return the function `rows` of Note [Arrays that fit]."""
    pointer, size = ctypes.c_void_p, ctypes.c_int64
    prototype = ctypes.PYFUNCTYPE(ctypes.c_int32, pointer, pointer, pointer, size, pointer, size, pointer)
    return prototype(checks()[3])


@lru_cache(256)
def compile_many(program: LoopProgram) -> Many:
    """Return a callable for rows of arrays; `program` is pointwise over one contiguous dimension, whatever its size.

    Raises Unsupported or ImportError as `kernel.compile`.
    """
    plan = make_plan(program)
    return Many(plan, code_for(plan, ("kernel", "many", "shared")))


class Many:
    """Machine code for lists of arrays.

    `many(rows, sizes, numbers)` computes the program for each row, a list of its inputs and outputs: contiguous arrays
    of the program's dtypes with as many elements as `sizes` says, which `look` has made sure of.

    Attributes:
        program: the loop program.
        width: how many arrays a row has.
    """

    def __init__(self, plan: Plan, code: Code) -> None:
        self.program = plan.program
        self.width = len(plan.program.inputs) + len(plan.program.outputs)
        numbers = [0, 0, 0, *plan.geometry]
        self._geometry = (ctypes.c_int64 * len(numbers))(*numbers)
        self._owner = code
        kinds = [ctypes.c_double if dtype == "float64" else ctypes.c_int64 for dtype in plan.program.numbers]
        pointer = ctypes.c_void_p
        prototype = ctypes.CFUNCTYPE(ctypes.c_int32, pointer, pointer, ctypes.c_int64, pointer, pointer, *kinds)
        self._function = prototype(code.loaded.addresses[1])
        job = pointer, pointer, pointer, ctypes.c_int64, ctypes.c_int64
        prototype = ctypes.CFUNCTYPE(ctypes.c_int32, *job, *[pointer] * 4, *kinds)
        self._shared = prototype(code.loaded.addresses[2])
        self._fixed = ctypes.addressof(self._geometry), ctypes.addressof(library())
        self._cost = cost_of(plan) / plan.lanes.size  # of an element, in nanoseconds
        self._tables: dict[tuple[tuple[int, ...], bool], tuple[Any, list[int], Any]] = {}
        self._words: dict[np.dtype[Any], Any] = {}

    def look(self, rows: Rows, memory: Memory) -> int:
        """Compare the arrays of rows with what the program relies on: Note [Arrays that fit].

        Returns:
            2 if one does not fit; else 1 if two may share memory, which `memory` knows, and 0 if none do.
        """
        table = self._words.get(rows.dtype)
        if table is None:
            program, dtype = self.program, rows.dtype
            aliased = {output for output, _ in program.aliases}
            words = [self.width, id(np.ndarray), dtype.kind == "c", dtype.itemsize]
            for i in range(self.width):
                output = i - len(program.inputs)
                flags = CONTIGUOUS | ALIGNED | (WRITABLE if output >= 0 else 0)
                words += [id(dtype), flags, output not in aliased]
            table = self._words[dtype] = (ctypes.c_int64 * len(words))(*words)
        count = len(rows.sizes)
        sizes, spans = (ctypes.c_int64 * count)(*rows.sizes), memory.room(count * self.width)
        given = ctypes.addressof(table), rows.first, ctypes.addressof(sizes), count
        return looking()(*given, *memory.places, spans)  # type: ignore[no-any-return]

    def __call__(self, rows: Rows, numbers: Sequence[Any] = ()) -> None:
        """Compute the program for each row; `numbers` are Python's, for all rows."""
        sizes = rows.sizes
        shared = get_num_threads() > 1 and sum(sizes) * self._cost >= SHARED_FROM
        found = self._tables.get((sizes, shared))
        if found is None:
            if len(self._tables) >= 64:
                self._tables.clear()
            found = self._tables[sizes, shared] = self._divided(sizes, shared)
        ranges, origins, items = found
        table, function, fixed = ctypes.addressof(ranges), self._function, self._fixed
        if not shared:
            function(*fixed, len(sizes), table, rows.first, *numbers)
            return
        width, arrays = self.width, rows.arrays
        parts = Rows([a for row in origins for a in arrays[row * width : (row + 1) * width]], (), rows.dtype)
        step, first = 8 * width, parts.first

        def one(number: int, start: int, count: int) -> int:
            return function(*fixed, count, table + 16 * start, first + step * start, *numbers)  # type: ignore[no-any-return]

        in_threads(self._shared, one, items, *fixed, table, first, *numbers)

    def _divided(self, sizes: tuple[int, ...], shared: bool) -> tuple[Any, list[int], Any]:
        """Return the table of ranges, the row that each is a part of, and the pieces of work as (first, count)."""
        if not shared:
            return _table([(0, n) for n in sizes]), [], []
        total = sum(sizes)
        count = max(2, min(64, int(total * self._cost / SHARED_FROM * 2)))
        step = max(1024, -(-total // count // 64) * 64)
        ranges, origins, items = [], [], []
        first = elements = 0
        for row, n in enumerate(sizes):
            for start in range(0, n, step):
                stop = min(start + step, n)
                ranges.append((start, stop))
                origins.append(row)
                elements += stop - start
                if elements >= step:
                    items.append((first, len(ranges) - first))
                    first, elements = len(ranges), 0
        if first < len(ranges):
            items.append((first, len(ranges) - first))
        return _table(ranges), origins, np.array(items, np.int64)


def _table(ranges: list[tuple[int, int]]) -> Any:
    """Return the ends of ranges as an array for machine code."""
    return (ctypes.c_int64 * (2 * len(ranges)))(*[end for ends in ranges for end in ends])
