"""Steps that make several pipes of one: `fork` and `demux`.

The pipes that they return are children of one container, which reads the source and keeps what a child has not asked
for yet. Iterators of the children belong to a generation: each child may start one iterator in it, and a child that
starts a second one begins a new generation, which resets the container and invalidates the iterators of the last.
"""

from __future__ import annotations

import copy as copies
import warnings
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Literal

from .....types.public import found_in
from .._decorator import functional_datapipe
from .._hook_iterator import _SnapshotState
from ..datapipe import IterDataPipe
from ..utils.common import StreamWrapper, _check_unpickable_fn
from .utils import Buffered

_HOME = __name__.replace("splitting", "combining")


class _ContainerTemplate(ABC):
    """What a child asks its container."""

    @abstractmethod
    def get_next_element_by_instance(self, instance_id: int) -> Iterator[Any]:
        """Return the iterator of a child."""

    @abstractmethod
    def is_every_instance_exhausted(self) -> bool:
        """Return whether the source and all children have ended."""

    @abstractmethod
    def reset(self) -> None:
        """Begin a new generation."""

    @abstractmethod
    def get_length_by_instance(self, instance_id: int) -> int:
        """Return the length of a child. Raises TypeError if it is not known."""


class _Container(Buffered[Any], _ContainerTemplate):
    """Base of the two containers: the source, and which children have stopped.

    Args:
        datapipe: the source.
        num_instances: number of children.
        buffer_size: examples that may wait; negative for no limit.
    """

    _name: str

    def __init__(self, datapipe: IterDataPipe[Any], num_instances: int, buffer_size: int) -> None:
        self.main_datapipe, self.num_instances, self.buffer_size = datapipe, num_instances, buffer_size
        if buffer_size < 0:
            warnings.warn(
                f"Unlimited buffer size is set for `{self._name}`, please be aware of OOM at random places",
                stacklevel=4,
            )
        self._clear()

    def _clear(self) -> None:
        """Forget the source's iterator, and stop all children."""
        self._datapipe_iterator: Iterator[Any] | None = None
        self._ended = False
        self._child_stop = [True] * self.num_instances

    def _start(self, instance_id: int) -> None:
        """Start the source and all children, unless a child has."""
        if self._datapipe_iterator is None and self._child_stop[instance_id]:
            self._datapipe_iterator = iter(self.main_datapipe)
            self._snapshot_state = _SnapshotState.Iterating  # so that it is reset later
            self._ended = False
            self._child_stop = [False] * self.num_instances

    def _read(self) -> Any:
        """Return the next example of the source. Raises StopIteration at its end, from then on."""
        if self._ended or self._datapipe_iterator is None:
            raise StopIteration
        try:
            return next(self._datapipe_iterator)
        except StopIteration:
            self._ended, self._datapipe_iterator = True, None
            raise

    def is_every_instance_exhausted(self) -> bool:
        return self._ended and all(self._child_stop)


@functional_datapipe("fork")
class ForkerIterDataPipe(IterDataPipe[Any]):
    """Make several pipes that each yield all examples (functional name: fork); return a list of them.

    Args:
        datapipe: the source; it is returned itself for one instance.
        num_instances: number of pipes.
        buffer_size: how many examples the foremost pipe may be ahead of the last; -1 for no limit.
        copy: "shallow" or "deep" copies of the examples; None for the same objects.

    Raises:
        ValueError: for less than one pipe, or another `copy`.
        BufferError: from the pipes, if one is too far ahead.
    """

    def __new__(  # type: ignore[misc]
        cls,
        datapipe: IterDataPipe[Any],
        num_instances: int,
        buffer_size: int = 1000,
        copy: Literal["shallow", "deep"] | None = None,
    ) -> Any:
        if num_instances < 1:
            raise ValueError(f"Expected `num_instances` larger than 0, but {num_instances} is found")
        if num_instances == 1:
            return datapipe
        container = _ForkerIterDataPipe(datapipe, num_instances, buffer_size, copy)
        return [_ChildDataPipe(container, index) for index in range(num_instances)]


def _no_op(x: Any) -> Any:
    return x


class _ForkerIterDataPipe(_Container):
    """The container of `fork`: a queue of the examples that not all children have had.

    Attributes:
        buffer: the queue.
        slowest_ptr: how many examples have left it.
        child_pointers: how many examples each child has had.
    """

    _name = "fork"
    _kept = ("main_datapipe", "num_instances", "buffer_size", "copy_fn")

    def __init__(
        self,
        datapipe: IterDataPipe[Any],
        num_instances: int,
        buffer_size: int = 1000,
        copy: Literal["shallow", "deep"] | None = None,
    ) -> None:
        super().__init__(datapipe, num_instances, buffer_size)
        if copy not in (None, "shallow", "deep"):
            raise ValueError(f"Unknown copy method `{copy}` requested, choose one of None, `shallow` or `deep`.")
        self.copy_fn = {None: _no_op, "shallow": copies.copy, "deep": copies.deepcopy}[copy]

    def _clear(self) -> None:
        super()._clear()
        self.buffer: deque[Any] = deque()
        self.child_pointers = [0] * self.num_instances
        self.slowest_ptr = 0

    def __len__(self) -> int:
        return len(self.main_datapipe)  # type: ignore[arg-type]

    def get_next_element_by_instance(self, instance_id: int) -> Iterator[Any]:
        self._start(instance_id)
        try:
            while not self._child_stop[instance_id]:
                place = self.child_pointers[instance_id] - self.slowest_ptr
                if place == len(self.buffer):
                    try:
                        self.buffer.append(self._read())
                    except StopIteration:
                        break
                example = self.buffer[place]
                self.child_pointers[instance_id] += 1
                if min(self.child_pointers) > self.slowest_ptr:
                    self.slowest_ptr += 1
                    self.buffer.popleft()
                if 0 <= self.buffer_size < len(self.buffer):
                    raise BufferError(
                        f"ForkerIterDataPipe buffer overflow,buffer size {self.buffer_size} is insufficient."
                    )
                yield self.copy_fn(example)
        finally:
            self._child_stop[instance_id] = True
            if all(self._child_stop):  # perhaps before the end of the source
                self._datapipe_iterator = None
                self._cleanup()

    def get_length_by_instance(self, instance_id: int) -> int:
        return len(self)

    def _cleanup(self) -> None:
        while self.buffer:
            StreamWrapper.close_streams(self.buffer.popleft())

    def __del__(self) -> None:
        if "buffer" in self.__dict__:
            self._cleanup()


class _ChildDataPipe(IterDataPipe[Any]):
    """One of the pipes of a container.

    Args:
        main_datapipe: the container.
        instance_id: number of the child.
    """

    _is_child_datapipe = True

    def __init__(self, main_datapipe: Any, instance_id: int) -> None:
        if not isinstance(main_datapipe, _ContainerTemplate):
            raise AssertionError("main_datapipe must implement _ContainerTemplate")
        self.main_datapipe: Any = main_datapipe
        self.instance_id = instance_id

    def __iter__(self) -> Iterator[Any]:
        # no generator, so that the container is reset now and not with the first example
        return self.main_datapipe.get_next_element_by_instance(self.instance_id)  # type: ignore[no-any-return]

    def __len__(self) -> int:
        return self.main_datapipe.get_length_by_instance(self.instance_id)  # type: ignore[no-any-return]

    def _set_main_datapipe_valid_iterator_id(self) -> int:
        """Start an iterator in the container's generation, or in a new one; return the generation's number."""
        container = self.main_datapipe
        if container._valid_iterator_id is None:
            container._valid_iterator_id = 0
        elif container._valid_iterator_id == self._valid_iterator_id:
            container._valid_iterator_id += 1
            if not container.is_every_instance_exhausted():
                warnings.warn(
                    "Some child DataPipes are not exhausted when __iter__ is called. We are resetting the buffer and "
                    "each child DataPipe will read from the start again.",
                    stacklevel=2,
                )
            container.reset()
        self._valid_iterator_id = container._valid_iterator_id
        return int(container._valid_iterator_id)

    def _check_valid_iterator_id(self, iterator_id: int) -> bool:
        return iterator_id == self._valid_iterator_id == self.main_datapipe._valid_iterator_id


@functional_datapipe("demux")
class DemultiplexerIterDataPipe(IterDataPipe[Any]):
    """Distribute the examples to several pipes (functional name: demux); return a list of the pipes.

    Args:
        datapipe: the source.
        num_instances: number of pipes.
        classifier_fn: function from an example to the number of its pipe, or None.
        drop_none: drop the examples for which it returns None.
        buffer_size: how many examples may wait for their pipes, together; -1 for no limit.

    Raises:
        ValueError: for less than one pipe; from the pipes, for the number of none, or None without `drop_none`.
        BufferError: from the pipes, if too many examples wait.
    """

    def __new__(  # type: ignore[misc]
        cls,
        datapipe: IterDataPipe[Any],
        num_instances: int,
        classifier_fn: Callable[[Any], int | None],
        drop_none: bool = False,
        buffer_size: int = 1000,
    ) -> Any:
        if num_instances < 1:
            raise ValueError(f"Expected `num_instances` larger than 0, but {num_instances} is found")
        _check_unpickable_fn(classifier_fn)
        container = _DemultiplexerIterDataPipe(datapipe, num_instances, classifier_fn, drop_none, buffer_size)
        return [_ChildDataPipe(container, index) for index in range(num_instances)]


class _DemultiplexerIterDataPipe(_Container):
    """The container of `demux`: a queue for each child.

    Attributes:
        child_buffers: the queues.
        current_buffer_usage: number of examples in them.
    """

    _name = "demux"
    _kept = ("main_datapipe", "num_instances", "buffer_size", "classifier_fn", "drop_none")

    def __init__(
        self,
        datapipe: IterDataPipe[Any],
        num_instances: int,
        classifier_fn: Callable[[Any], int | None],
        drop_none: bool,
        buffer_size: int,
    ) -> None:
        super().__init__(datapipe, num_instances, buffer_size)
        self.classifier_fn, self.drop_none = classifier_fn, drop_none

    def _clear(self) -> None:
        super()._clear()
        self.child_buffers: list[deque[Any]] = [deque() for _ in range(self.num_instances)]
        self.current_buffer_usage = 0

    def _find_next(self, instance_id: int) -> Any:
        """Return the source's next example for a child; keep those before it. Raises StopIteration at the end."""
        while True:
            value = self._read()
            number = self.classifier_fn(value)
            if number is None and self.drop_none:
                StreamWrapper.close_streams(value)
                continue
            if number is None or not 0 <= number < self.num_instances:
                raise ValueError(
                    f"Output of the classification fn should be between 0 and {self.num_instances - 1}. "
                    f"{number} is returned."
                )
            if number == instance_id:
                return value
            self.child_buffers[number].append(value)
            self.current_buffer_usage += 1
            if 0 <= self.buffer_size < self.current_buffer_usage:
                raise BufferError(
                    f"DemultiplexerIterDataPipe buffer overflow, buffer size {self.buffer_size} is insufficient."
                )

    def get_next_element_by_instance(self, instance_id: int) -> Iterator[Any]:
        self._start(instance_id)
        try:
            while not self._child_stop[instance_id]:
                if self.child_buffers[instance_id]:
                    self.current_buffer_usage -= 1
                    example = self.child_buffers[instance_id].popleft()
                else:
                    try:
                        example = self._find_next(instance_id)
                    except StopIteration:
                        break
                yield example
        finally:
            self._child_stop[instance_id] = True
            if all(self._child_stop):
                self._datapipe_iterator = None
            self._cleanup(instance_id)

    def get_length_by_instance(self, instance_id: int) -> int:
        raise TypeError

    def _cleanup(self, instance_id: int) -> None:
        waiting = self.child_buffers[instance_id]
        self.current_buffer_usage -= len(waiting)
        while waiting:
            StreamWrapper.close_streams(waiting.popleft())

    def __del__(self) -> None:
        for index in range(len(self.__dict__.get("child_buffers", ()))):
            self._cleanup(index)


found_in(_HOME, ForkerIterDataPipe, DemultiplexerIterDataPipe, _ChildDataPipe, _ContainerTemplate, _no_op)
found_in(_HOME, _ForkerIterDataPipe, _DemultiplexerIterDataPipe)
