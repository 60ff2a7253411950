"""Machine code that no loop program describes: scans, orders of rows, sums at places, words of a generator.

A routine computes with arrays and integers that it gets at each call. Its code depends on names and dtypes only, so
one routine serves all sizes. Like a program's, it has the function `kernel` and the entry for Note [Direct calls],
and is kept in the cache.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ...kernels._common.threads import get_num_threads, share
from . import direct, host
from .code import load_code
from .entry import write_entry
from .ir import I32, I64, PTR, Function, Module, V
from .kernel import header_size
from .orders import write_order
from .places import write_add_parts, write_scatter_add, write_take
from .pool import SHARED_FROM
from .scans import write_scan
from .words import write_words

_ENTRIES = ("kernel", direct.ENTRY)
empty, _BYTE = np.empty, np.dtype(np.uint8)
_PARTS = 4  # of the work, for each thread


class Form(NamedTuple):
    """What writes a routine: `write(f, addresses, integers, *kinds)` returns 1, or 0 if all went well, as a V or None.

    arrays, integers: how many of them a call gets.
    """

    write: Callable[..., V | None]
    arrays: int
    integers: int


FORMS = {
    "scan": Form(write_scan, 2, 4),
    "extremum": Form(write_scan, 3, 4),
    "order": Form(write_order, 4, 7),
    "take": Form(write_take, 3, 5),
    "scatter_add": Form(write_scatter_add, 3, 5),
    "add_parts": Form(write_add_parts, 3, 7),
    "words": Form(write_words, 1, 4),
}


class Routine:
    """A routine in memory.

    Attributes:
        call: `call(*arrays, *integers)` for arrays of NumPy's own type, which are contiguous. It holds the GIL, and
            returns True if the routine refused; None otherwise.
    """

    __slots__ = ("_function", "_owner", "call")

    def __init__(self, form: Form, kinds: Sequence[str]) -> None:
        loaded = load_code((form.write.__name__, *kinds, str(header_size())), _ENTRIES, lambda: _text(form, kinds))
        self._owner = loaded
        parameters = [ctypes.py_object] * form.arrays + [ctypes.c_int64] * form.integers
        self._function = ctypes.CFUNCTYPE(ctypes.c_int32, *parameters)(loaded.addresses[0])
        self.call: Callable[..., bool | None] = self._called
        if direct.available():
            self.call = direct.builtin(loaded.addresses[1], 0, 0, 0, 0, loaded)

    def _called(self, *arguments: Any) -> bool | None:
        return True if self._function(*arguments) else None

    def over(
        self, count: int, cost: float, arrays: Sequence[Any], integers: Sequence[int], memory: int = 0
    ) -> bool | None:
        """Call a routine whose first integers are a range, for 0 ... count, which threads share if it takes long.

        Args:
            cost: about how many nanoseconds it takes on one thread.
            memory: bytes of an array that each call gets before the others.

        Returns:
            as `call`; parts of the range may be done if one of them is refused.
        """
        if cost < SHARED_FROM:
            own = (empty(memory, _BYTE),) if memory else ()
            return self.call(*own, *arrays, 0, count, *integers)
        function = self._function  # through ctypes, which releases the GIL
        parts = min(count, get_num_threads() * _PARTS) if get_num_threads() > 1 else 1
        edges = [count * i // parts for i in range(parts + 1)]
        ranges = list(zip(edges, edges[1:], strict=False))

        def one(part: tuple[int, int]) -> Any:
            own = (empty(memory, _BYTE),) if memory else ()
            return function(*own, *arrays, *part, *integers)

        return True if any(share(one, ranges)) else None


def _text(form: Form, kinds: Sequence[str]) -> str:
    module, header = Module(host.host().fma), header_size()
    arrays, integers = ([f"{letter}{i}" for i in range(n)] for letter, n in zip("an", form[1:], strict=True))
    f = Function(module, "kernel", I32, [*((PTR, x) for x in arrays), *((I64, x) for x in integers)])
    addresses = [f.load(f.offset(f"%{x}", header), PTR).name for x in arrays]
    refused = form.write(f, addresses, [f.parameter(x, I64) for x in integers], *kinds)
    f.line(f"ret i32 {refused.name if refused is not None else 0}")
    f.finish()
    write_entry(module, form.arrays, [I64] * form.integers, header, ())
    return str(module)


@cache
def routine(name: str, *kinds: str) -> Routine:
    """Return a routine of FORMS for dtypes and other words that its code depends on."""
    host.require()
    return Routine(FORMS[name], kinds)
