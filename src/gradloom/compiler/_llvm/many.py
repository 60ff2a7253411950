"""One call for many arrays: a pointwise program on contiguous arrays of any sizes, such as the parameters of a network.

The function `many` calls the program's kernel for each row of a table, which has the elements to compute and the
arrays. Rows are parts of arrays where threads share the work; elements do not depend on how they are divided.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ...kernels._common.threads import get_num_threads
from .._loops import LoopProgram
from .kernel import Code, library
from .plan import Plan, make_plan
from .pool import SHARED_FROM, in_threads
from .schedule import code_for, cost_of


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
    of the program's dtypes with as many elements as `sizes` says, which is not checked.

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

    def __call__(self, arrays: Sequence[Any], sizes: tuple[int, ...], numbers: Sequence[Any] = (), *,
                 in_order: bool = False) -> None:  # fmt: skip
        """Compute the program for each row.

        Args:
            arrays: those of all rows, one row after another.
            sizes: the number of elements of each row's arrays.
            numbers: Python's, for all rows.
            in_order: compute one row after another, because they may share memory.
        """
        shared = not in_order and get_num_threads() > 1 and sum(sizes) * self._cost >= SHARED_FROM
        found = self._tables.get((sizes, shared))
        if found is None:
            if len(self._tables) >= 64:
                self._tables.clear()
            found = self._tables[sizes, shared] = self._divided(sizes, shared)
        ranges, origins, items = found
        if shared:
            width = self.width
            arrays = [a for row in origins for a in arrays[row * width : (row + 1) * width]]
        objects = (ctypes.py_object * len(arrays))(*arrays)
        first, table = ctypes.addressof(objects), ranges.ctypes.data
        function, fixed = self._function, self._fixed
        if not shared:
            function(*fixed, len(sizes), table, first, *numbers)
            return
        step = 8 * self.width

        def one(number: int, start: int, count: int) -> int:
            return function(*fixed, count, table + 16 * start, first + step * start, *numbers)  # type: ignore[no-any-return]

        in_threads(self._shared, one, items, *fixed, table, first, *numbers)

    def _divided(self, sizes: tuple[int, ...], shared: bool) -> tuple[Any, list[int], Any]:
        """Return the table of ranges, the row that each is a part of, and the pieces of work as (first, count)."""
        if not shared:
            return np.array([(0, n) for n in sizes], np.int64), [], []
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
        return np.array(ranges, np.int64), origins, np.array(items, np.int64)
