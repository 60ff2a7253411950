"""The memory column: what results allocate, and when it is freed.

NumPy does not say when it allocates. What can be seen is that an operator returns an array that owns its memory and was
not there before; memory that a kernel allocates and gives back is not seen. A weak reference tells when the array goes.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..dispatch import _operators

if TYPE_CHECKING:
    from .recorder import Record, Recorder

MEMORY_EVENT = "[memory]"


class MemoryChange(NamedTuple):
    """Memory was allocated or, with a negative number of bytes, freed."""

    time: int
    thread: int
    address: int
    bytes: int
    total: int


class Allocations:
    """Watches the arrays that results own.

    Args:
        recorder: whose records the bytes are added to.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.changes: list[MemoryChange] = []
        self._recorder = recorder
        self._live: dict[int, weakref.ref] = {}  # id of an array -> what tells that it is gone
        self._total = 0

    def note(self, record: Record, arguments: Any, result: Any) -> None:
        """Add to a record the memory of its result that is neither an argument's nor known already."""
        known: set[int] | None = None
        for array in _owners(result):
            if id(array) in self._live:
                continue
            if known is None:
                known = {id(owner) for owner in _owners(arguments)}
            if id(array) not in known:
                self._watch(array)
                self._change(record, array.ctypes.data, array.nbytes)

    def _watch(self, array: np.ndarray) -> None:
        key, address, count = id(array), array.ctypes.data, array.nbytes

        def freed(_: object) -> None:
            self._live.pop(key, None)
            self._freed(address, count)

        self._live[key] = weakref.ref(array, freed)

    def _freed(self, address: int, count: int) -> None:
        recorder = self._recorder
        if recorder.open:
            self._change(recorder.open[-1], address, -count)
        elif recorder.records:  # between two calls
            from .recorder import Record

            record = Record(MEMORY_EVENT, 0, -1, recorder.records[-1].thread, None)
            record.end = record.start
            recorder.records.append(record)
            self._change(record, address, -count)

    def _change(self, record: Record, address: int, count: int) -> None:
        record.allocated += count
        self._total += count
        self.changes.append(MemoryChange(time.perf_counter_ns(), record.thread, address, count, self._total))

    def close(self) -> None:
        """Watch no longer."""
        self._live.clear()


def _owners(values: Any) -> Iterator[np.ndarray]:
    """The arrays that own the memory of the tensors in a value, or in a tuple or list of values."""
    if isinstance(values, (tuple, list)):
        for value in values:
            yield from _owners(value)
    elif isinstance(values, _operators.Tensor):
        array = values._array
        while isinstance(array, np.ndarray) and array.base is not None:
            array = array.base
        if isinstance(array, np.ndarray):
            yield array
