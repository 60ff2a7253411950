"""A step that yields the examples of a MapDataPipe in random order."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, TypeVar

import gradloom as gl

from ..datapipe import IterDataPipe, MapDataPipe
from ..iter.utils import pickled

__all__ = ["ShufflerIterDataPipe"]

_Item = TypeVar("_Item", covariant=True)


class ShufflerIterDataPipe(IterDataPipe[_Item]):
    """Yield the examples of a MapDataPipe in random order (functional name: shuffle).

    Args:
        datapipe: the source.
        indices: its indices, by default 0, 1, ...
    """

    datapipe: Any

    def __init__(self, datapipe: MapDataPipe[_Item], *, indices: list[Any] | None = None) -> None:
        super().__init__()
        self.datapipe = datapipe
        self.indices: list[Any] = list(range(len(self.datapipe))) if indices is None else indices
        self._enabled = True
        self._seed: int | None = None
        self._rng = random.Random()
        self._shuffled_indices = self.indices

    def set_shuffle(self, shuffle: bool = True) -> ShufflerIterDataPipe[_Item]:
        """Turn the step on or off; return the pipe."""
        self._enabled = shuffle
        return self

    def set_seed(self, seed: int) -> ShufflerIterDataPipe[_Item]:
        """Seed the next iteration, which else draws a seed from the default generator; return the pipe."""
        self._seed = seed
        return self

    def __iter__(self) -> Iterator[_Item]:
        if not self._enabled:
            for index in self.indices:
                yield self.datapipe[index]
            return
        while self._shuffled_indices:
            yield self.datapipe[self._shuffled_indices.pop()]

    def reset(self) -> None:
        """Draw a new order."""
        if self._enabled and self._seed is None:
            self._seed = int(gl.empty((), dtype=gl.int64).random_().item())
        self._rng.seed(self._seed)
        self._seed = None
        self._shuffled_indices = self._rng.sample(self.indices, len(self.indices))

    def __len__(self) -> int:
        return len(self.datapipe)

    def __getstate__(self) -> Any:
        rng = self._rng.getstate()
        return pickled(self, self.datapipe, self.indices, self._enabled, self._seed, rng, self._shuffled_indices)

    def __setstate__(self, state: Any) -> None:
        self.datapipe, self.indices, self._enabled, self._seed, rng, self._shuffled_indices, *counts = state
        self._valid_iterator_id, self._number_of_samples_yielded = counts
        self._rng = random.Random()
        self._rng.setstate(rng)


MapDataPipe.register_datapipe_as_function("shuffle", ShufflerIterDataPipe)
