"""Functions of machine code that are not loop programs: calls for pieces of work, which threads share.

A function `range(sizes, first, last, arrays...)` computes the pieces from `first` to below `last`. Sizes are an array
of integers, so that one function serves all sizes; arrays are Python's objects, as in Note [Calls] of kernel.py. Pieces
write to different places, or the same values to the same place, so results do not depend on the number of threads.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...kernels._common.threads import get_num_threads, share
from . import pool
from .code import load_code
from .emit import write_parallel
from .host import Host, host
from .ir import I32, I64, PTR, Function, Module, V
from .kernel import header_size
from .pool import SHARED_FROM

ENTRIES = ("range", "shared")


class Writer:
    """Begins and ends the function, and has what its text needs.

    Args:
        arrays: names of the arrays; `address` has where their elements begin.
        sizes: names of the integers.
    """

    def __init__(self, arrays: Sequence[str], sizes: Sequence[str]) -> None:
        self.host: Host = host()
        self.module = Module(self.host.fma)
        parameters = [(PTR, "sizes"), (I64, "first"), (I64, "last"), *((PTR, name) for name in arrays)]
        self.f = Function(self.module, ENTRIES[0], I32, parameters)
        self.address = {name: self.f.load(self.f.offset(f"%{name}", header_size()), PTR).name for name in arrays}
        self.size = {name: self.f.load(self.f.offset("%sizes", 8 * i), I64) for i, name in enumerate(sizes)}

    def text(self) -> str:
        self.f.line("ret i32 0")
        self.f.finish()
        arrays = [(PTR, name) for name in self.address]

        def call(f: Function, kept: dict[str, V], part: V) -> V:
            item = f.offset(kept["items"].name, part * 16)
            edges = [f.load(f.offset(item, 8 * k), I64) for k in range(2)]
            given = [kept["sizes"], *edges, *(kept[name] for _, name in arrays)]
            return f.call(ENTRIES[0], I32, I32, 0, [(x.elem, x.name) for x in given])

        write_parallel(self.module, [(PTR, "sizes"), *arrays], call)
        return str(self.module)


class Tasks:
    """The function of one structure: `tasks(sizes, pieces, cost, arrays)`.

    Args:
        key: all that the text depends on, beside the processor and the version.
        text: returns the module's text.
        arrays: how many arrays it takes.
    """

    def __init__(self, key: str, text: Callable[[], str], arrays: int) -> None:
        self._loaded = load_code((key, str(header_size())), ENTRIES, text)
        pointer, size = ctypes.c_void_p, ctypes.c_int64
        objects = [ctypes.py_object] * arrays
        first, shared = self._loaded.addresses
        self._function = ctypes.CFUNCTYPE(ctypes.c_int32, pointer, size, size, *objects)(first)
        job = pointer, pointer, pointer, size, size
        self._shared = ctypes.CFUNCTYPE(ctypes.c_int32, *job, pointer, *objects)(shared)

    def bound(self, sizes: Sequence[int], pieces: int, cost: float) -> Callable[..., None]:
        """Return a function of the arrays for these sizes.

        Args:
            pieces: how many pieces of work there are.
            cost: about how long they take on one thread, in nanoseconds.
        """
        numbers = np.array(sizes, np.int64)
        address, function, shared = numbers.ctypes.data, self._function, self._shared
        count = min(pieces, 64, int(cost / SHARED_FROM * 2)) if cost >= SHARED_FROM else 1
        edges = [pieces * i // count for i in range(count + 1)]
        items = np.array(list(zip(edges, edges[1:], strict=False)), np.int64)
        place = items.ctypes.data

        def call(*arrays: Any, _owner: Any = (numbers, items, self)) -> None:
            threads = get_num_threads()
            if count == 1 or threads == 1:
                function(address, 0, pieces, *arrays)
                return
            found = pool.workers()
            if found is None:
                share(lambda item: function(address, *item, *arrays), items.tolist())
            else:
                shared(found.state, found.run, place, count, threads - 1, address, *arrays)

        return call
