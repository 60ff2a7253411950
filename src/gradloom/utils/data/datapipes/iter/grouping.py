"""Steps that make lists of examples, and undo them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from .._decorator import functional_datapipe
from ..datapipe import DataChunk, IterDataPipe
from ..utils.common import _check_unpickable_fn
from .utils import Buffered, length

__all__ = ["BatcherIterDataPipe", "GrouperIterDataPipe", "UnBatcherIterDataPipe"]


@functional_datapipe("batch")
class BatcherIterDataPipe(IterDataPipe[DataChunk[Any]]):
    """Yield lists of `batch_size` examples (functional name: batch).

    Args:
        datapipe: the source.
        batch_size: examples per list.
        drop_last: drop the last list if it is shorter.
        wrapper_class: class of the lists.

    Raises:
        AssertionError: if `batch_size` is not positive.
    """

    datapipe: IterDataPipe[Any]
    batch_size: int
    drop_last: bool

    def __init__(
        self,
        datapipe: IterDataPipe[Any],
        batch_size: int,
        drop_last: bool = False,
        wrapper_class: Callable[[list[Any]], Any] = DataChunk,
    ) -> None:
        if batch_size <= 0:
            raise AssertionError("Batch size is required to be larger than 0!")
        super().__init__()
        self.datapipe, self.batch_size, self.drop_last = datapipe, batch_size, drop_last
        self.wrapper_class = wrapper_class

    def __iter__(self) -> Iterator[Any]:
        source = iter(self.datapipe)
        while examples := list(islice(source, self.batch_size)):
            if not self.drop_last or len(examples) == self.batch_size:
                yield self.wrapper_class(examples)

    def __len__(self) -> int:
        count = length(self.datapipe, self)
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


@functional_datapipe("unbatch")
class UnBatcherIterDataPipe(IterDataPipe[Any]):
    """Yield the examples of lists (functional name: unbatch).

    Args:
        datapipe: the source.
        unbatch_level: levels of lists to undo; -1 for all.

    Raises:
        ValueError: while iterating, for a level below -1.
        IndexError: while iterating, if there are fewer levels.
    """

    def __init__(self, datapipe: IterDataPipe[Any], unbatch_level: int = 1) -> None:
        self.datapipe, self.unbatch_level = datapipe, unbatch_level

    def __iter__(self) -> Iterator[Any]:
        for element in self.datapipe:
            yield from self._dive(element, self.unbatch_level)

    def _dive(self, element: Any, unbatch_level: int) -> Iterator[Any]:
        if unbatch_level < -1:
            raise ValueError("unbatch_level must be -1 or >= 0")
        if unbatch_level and isinstance(element, list):
            for item in element:
                yield from self._dive(item, max(unbatch_level - 1, -1))
        elif unbatch_level > 0:
            raise IndexError(f"unbatch_level {self.unbatch_level} exceeds the depth of the DataPipe")
        else:
            yield element


@functional_datapipe("groupby")
class GrouperIterDataPipe(Buffered[Any]):
    """Yield lists of examples with the same key (functional name: groupby).

    Examples wait in a buffer until there are `group_size` of their key. When the buffer is full, its largest group
    leaves it. At the end all groups are yielded.

    Args:
        datapipe: the source.
        group_key_fn: function from an example to its key.
        keep_key: yield (key, list).
        buffer_size: examples that may wait.
        group_size: examples of a group; None for all of a key.
        guaranteed_group_size: size from which on a group may leave a full buffer; by default `group_size`.
        drop_remaining: drop the largest group of a full buffer if it is smaller, which is an error else.

    Raises:
        AssertionError: unless 0 < guaranteed_group_size <= group_size <= buffer_size.
        RuntimeError: while iterating, if a full buffer has no group that is large enough.
    """

    wrapper_class = DataChunk
    _kept = (
        *("datapipe", "group_key_fn", "keep_key", "max_buffer_size", "group_size"),
        *("guaranteed_group_size", "drop_remaining"),
    )

    def __init__(
        self,
        datapipe: IterDataPipe[Any],
        group_key_fn: Callable[[Any], Any],
        *,
        keep_key: bool = False,
        buffer_size: int = 10000,
        group_size: int | None = None,
        guaranteed_group_size: int | None = None,
        drop_remaining: bool = False,
    ) -> None:
        _check_unpickable_fn(group_key_fn)
        self.datapipe, self.group_key_fn, self.keep_key = datapipe, group_key_fn, keep_key
        self.max_buffer_size, self.group_size, self.drop_remaining = buffer_size, group_size, drop_remaining
        if group_size is not None and buffer_size is not None and not 0 < group_size <= buffer_size:
            raise AssertionError("group_size must be > 0 and <= buffer_size")
        if guaranteed_group_size is not None and (group_size is None or not 0 < guaranteed_group_size <= group_size):
            raise AssertionError("guaranteed_group_size must be > 0 and <= group_size and group_size must be set")
        default = None if buffer_size is None else group_size
        self.guaranteed_group_size = default if guaranteed_group_size is None else guaranteed_group_size
        self._clear()

    def _remove_biggest_key(self) -> list[Any] | None:
        """Remove the largest group of a full buffer, the first of several; return it, or None if it is dropped."""
        key = max(self.buffer_elements, key=lambda one: len(self.buffer_elements[one]))
        group = self.buffer_elements[key]
        small = self.guaranteed_group_size is not None and len(group) < self.guaranteed_group_size
        if small and not self.drop_remaining:
            raise RuntimeError("Failed to group items", str(group))
        del self.buffer_elements[key]
        self.curr_buffer_size -= len(group)
        return None if small else group

    def _made(self, key: Any, group: list[Any]) -> Any:
        chunk: DataChunk[Any] = self.wrapper_class(group)
        return (key, chunk) if self.keep_key else chunk

    def __iter__(self) -> Iterator[Any]:
        for example in self.datapipe:
            key = self.group_key_fn(example)
            group = self.buffer_elements[key]
            group.append(example)
            self.curr_buffer_size += 1
            if len(group) == self.group_size:
                yield self._made(key, group)
                self.curr_buffer_size -= len(group)
                del self.buffer_elements[key]
            if self.curr_buffer_size == self.max_buffer_size:
                largest = self._remove_biggest_key()
                if largest is not None:
                    yield self._made(key, largest)  # with the key of the last example, as in PyTorch
        for key in tuple(self.buffer_elements):
            group = self.buffer_elements.pop(key)
            self.curr_buffer_size -= len(group)
            yield self._made(key, group)

    def _clear(self) -> None:
        self.buffer_elements: defaultdict[Any, list[Any]] = defaultdict(list)
        self.curr_buffer_size = 0
