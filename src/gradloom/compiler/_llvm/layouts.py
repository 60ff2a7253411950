"""What machine code relies on of the arrays that it is called with: Note [Arrays that fit]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import direct
from .fits import ALIGNED, WRITABLE, MisfitError, Walk, merged, misfit

ndarray = np.ndarray


class Layouts:
    """What machine code relies on of the arrays that it is called with.

    Args:
        walks: over the arrays, in their order; or pairs of the number of an array and a walk over it.

    Attributes:
        address: of the table that `fits` reads.
    """

    __slots__ = ("_check", "_table", "address", "walks")

    def __init__(self, walks: Sequence[Any]) -> None:
        self.walks: list[tuple[int, Walk]] = (
            list(enumerate(walks)) if not walks or isinstance(walks[0], Walk) else list(walks)
        )
        words = [len(self.walks), id(ndarray), 1 + max((number for number, _ in self.walks), default=-1)]
        for number, w in self.walks:
            dims = None if w.offset else merged(w.shape, w.strides)
            flags = ALIGNED | (WRITABLE if w.is_written else 0)
            words += [number, id(w.dtype), flags, w.dtype.itemsize, w.is_whole, *w.edges]
            words += [-1] if dims is None else [len(dims), *(x for dim in dims for x in dim)]
        self._table = np.array(words, np.int64)
        self.address: int = self._table.ctypes.data
        self._check: Any = None

    def require(self, arrays: Sequence[Any]) -> None:
        """Raise MisfitError if an array does not fit, TypeError if one is none."""
        if self._check is None:
            self._check = _checking(self)
        if self._check(*arrays):
            for number, w in self.walks:
                x = arrays[number]
                if not isinstance(x, ndarray):  # its memory would be read as an array's
                    raise TypeError(f"machine code takes NumPy arrays, not {type(x).__name__}")
                reason = misfit(w, x)
                if reason is not None:
                    raise MisfitError(f"argument {number} of machine code {reason}")


def _checking(layouts: Layouts) -> Any:
    """Return the function of the arrays that is false if all fit, by machine code."""
    if not direct.available():
        return lambda *arrays: True
    return direct.builtin(direct.checks()[0], 0, 0, 0, 0, (layouts._table, layouts.walks), layouts.address)
