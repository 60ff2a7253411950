"""A step that yields the examples of a MapDataPipe in random order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from ..datapipe import MapDataPipe
from ..iter.utils import RandomOrder

__all__ = ["ShufflerIterDataPipe"]

_Item = TypeVar("_Item", covariant=True)
_END = ("the end of the indices",)


class ShufflerIterDataPipe(RandomOrder[_Item]):
    """Yield the examples of a MapDataPipe in random order (functional name: shuffle).

    Args:
        datapipe: the source.
        indices: its indices, by default 0, 1, ...
    """

    datapipe: Any

    def __init__(self, datapipe: MapDataPipe[_Item], *, indices: list[Any] | None = None) -> None:
        super().__init__()
        self.datapipe = datapipe
        self.indices: list[Any] = [*range(len(self.datapipe))] if indices is None else indices
        self._left: list[Any] = []  # the last is next

    def __iter__(self) -> Iterator[_Item]:
        order = iter(self._left.pop, _END) if self._enabled else iter(self.indices)
        for index in order:
            yield self.datapipe[index]

    def reset(self) -> None:
        """Draw a new order."""
        if self._enabled:
            self._reseed()
        self._left = [_END, *self._rng.sample(self.indices, len(self.indices))]

    def __len__(self) -> int:
        return len(self.datapipe)


MapDataPipe.register_datapipe_as_function("shuffle", ShufflerIterDataPipe)
