"""Steps that change the order of examples."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sized
from typing import Any, TypeVar

import gradloom as gl

from ...sampler import Sampler, SequentialSampler
from .._decorator import functional_datapipe
from ..datapipe import IterDataPipe
from .utils import length, pickled

__all__ = ["SamplerIterDataPipe", "ShufflerIterDataPipe"]

_Item = TypeVar("_Item", covariant=True)


class SamplerIterDataPipe(IterDataPipe[_Item]):
    """Yield what a sampler yields.

    Args:
        datapipe: the source, with a length.
        sampler: class of the sampler.
        sampler_args, sampler_kwargs: its arguments, but `data_source`, which is the source.

    Raises:
        AssertionError: if the source has no length.
    """

    datapipe: IterDataPipe[Any]
    sampler: Sampler[Any]

    def __init__(
        self,
        datapipe: IterDataPipe[Any],
        sampler: type[Sampler[Any]] = SequentialSampler,
        sampler_args: tuple[Any, ...] | None = None,
        sampler_kwargs: dict[str, Any] | None = None,
    ) -> None:
        if not isinstance(datapipe, Sized):
            raise AssertionError("Sampler class requires input datapipe implemented `__len__`")
        super().__init__()
        self.datapipe = datapipe
        self.sampler_args = () if sampler_args is None else sampler_args
        self.sampler_kwargs = {} if sampler_kwargs is None else sampler_kwargs
        self.sampler_kwargs["data_source"] = self.datapipe
        self.sampler = sampler(*self.sampler_args, **self.sampler_kwargs)

    def __iter__(self) -> Iterator[_Item]:
        return iter(self.sampler)

    def __len__(self) -> int:
        return length(self.sampler, self)


@functional_datapipe("shuffle")
class ShufflerIterDataPipe(IterDataPipe[_Item]):
    """Yield the examples in random order (functional name: shuffle).

    A buffer is filled first. Then each further example takes the place of a random one of the buffer, which is yielded,
    and at the end the rest of the buffer is yielded in random order.

    Args:
        datapipe: the source.
        buffer_size: size of the buffer; all orders are equally likely if it is not smaller than the source.
        unbatch_level: levels of batches to undo first.

    Raises:
        AssertionError: if `buffer_size` is not positive.
    """

    datapipe: IterDataPipe[Any]
    buffer_size: int

    def __init__(self, datapipe: IterDataPipe[Any], *, buffer_size: int = 10000, unbatch_level: int = 0) -> None:
        super().__init__()
        self._buffer: list[Any] = []
        if buffer_size <= 0:
            raise AssertionError("buffer_size should be larger than 0")
        self.datapipe = datapipe.unbatch(unbatch_level=unbatch_level) if unbatch_level else datapipe
        self.buffer_size = buffer_size
        self._enabled = True
        self._seed: int | None = None
        self._rng = random.Random()

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
            yield from self.datapipe
            return
        for example in self.datapipe:
            if len(self._buffer) < self.buffer_size:
                self._buffer.append(example)
                continue
            place = self._rng.randint(0, len(self._buffer) - 1)
            chosen, self._buffer[place] = self._buffer[place], example
            yield chosen
        while self._buffer:
            yield self._buffer.pop(self._rng.randint(0, len(self._buffer) - 1))

    def __len__(self) -> int:
        return length(self.datapipe, self)

    def reset(self) -> None:
        """Empty the buffer, and seed the order."""
        self._buffer = []
        if self._enabled:
            if self._seed is None:
                self._seed = int(gl.empty((), dtype=gl.int64).random_().item())
            self._rng.seed(self._seed)
            self._seed = None

    def __getstate__(self) -> Any:
        rng = self._rng.getstate()
        return pickled(self, self.datapipe, self.buffer_size, self._enabled, self._seed, self._buffer, rng)

    def __setstate__(self, state: Any) -> None:
        self.datapipe, self.buffer_size, self._enabled, self._seed, self._buffer, rng, *counts = state
        self._valid_iterator_id, self._number_of_samples_yielded = counts
        self._rng = random.Random()
        self._rng.setstate(rng)

    def __del__(self) -> None:
        self.__dict__.get("_buffer", []).clear()
