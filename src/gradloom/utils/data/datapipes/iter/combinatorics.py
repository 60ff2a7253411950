"""Steps that change the order of examples."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from itertools import islice
from typing import Any, TypeVar

from ...sampler import Sampler, SequentialSampler
from .._decorator import functional_datapipe
from ..datapipe import IterDataPipe
from .utils import RandomOrder, length

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
    sampler_args: tuple[Any, ...]
    sampler_kwargs: dict[str, Any]

    def __init__(
        self,
        datapipe: IterDataPipe[Any],
        sampler: type[Sampler[Any]] = SequentialSampler,
        sampler_args: tuple[Any, ...] | None = None,
        sampler_kwargs: dict[str, Any] | None = None,
    ) -> None:
        if not isinstance(datapipe, Sized):
            raise AssertionError("Sampler class requires input datapipe implemented `__len__`")
        self.datapipe, self.sampler_args = datapipe, sampler_args or ()
        self.sampler_kwargs = {**(sampler_kwargs or {}), "data_source": datapipe}
        self.sampler = sampler(*self.sampler_args, **self.sampler_kwargs)

    def __iter__(self) -> Iterator[_Item]:
        return iter(self.sampler)

    def __len__(self) -> int:
        return length(self.sampler, self)


@functional_datapipe("shuffle")
class ShufflerIterDataPipe(RandomOrder[_Item]):
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
    _waiting: list[Any]

    def __init__(self, datapipe: IterDataPipe[Any], *, buffer_size: int = 10000, unbatch_level: int = 0) -> None:
        super().__init__()
        if buffer_size < 1:
            raise AssertionError("buffer_size should be larger than 0")
        self.buffer_size = buffer_size
        self.datapipe = datapipe.unbatch(unbatch_level) if unbatch_level else datapipe

    def __iter__(self) -> Iterator[_Item]:
        if not self._enabled:
            yield from self.datapipe
            return
        source, waiting, draw = iter(self.datapipe), self._waiting, self._rng.randint
        waiting += islice(source, self.buffer_size)
        for example in source:
            place = draw(0, len(waiting) - 1)
            yield waiting[place]
            waiting[place] = example
        while waiting:
            yield waiting.pop(draw(0, len(waiting) - 1))

    def __len__(self) -> int:
        return length(self.datapipe, self)

    def reset(self) -> None:
        """Empty the buffer, and seed the order if it is random."""
        self._waiting = []
        if self._enabled:
            self._reseed()
