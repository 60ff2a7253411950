"""The beginning of a pipe: any iterable. And the length of a pipe that has as many examples as its source."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Iterator, Sized
from typing import Any, NoReturn, TypeVar

from ..datapipe import IterDataPipe

__all__ = ["IterableWrapperIterDataPipe"]

_Item = TypeVar("_Item", covariant=True)


def no_length(pipe: Any) -> NoReturn:
    """Raise the TypeError of a pipe whose length is not known."""
    raise TypeError(f"{type(pipe).__name__} instance doesn't have valid length")


def length(source: Any, pipe: Any) -> int:
    """Return the length of a pipe's source. Raises TypeError, which names the pipe, if it has none."""
    return len(source) if isinstance(source, Sized) else no_length(pipe)


def pickled(pipe: Any, *state: Any) -> Any:
    """Return what a pipe is pickled as: `state`, its iterator's number and its count, or what the hook makes of it."""
    whole = (*state, pipe._valid_iterator_id, pipe._number_of_samples_yielded)
    return whole if IterDataPipe.getstate_hook is None else IterDataPipe.getstate_hook(whole)


class IterableWrapperIterDataPipe(IterDataPipe[_Item]):
    """Yield the items of an iterable.

    Args:
        iterable: the iterable.
        deepcopy: copy it whenever iteration starts, so that later steps may change the items; without effect, but for a
            warning, if it cannot be copied.
    """

    def __init__(self, iterable: Iterable[_Item], deepcopy: bool = True) -> None:
        self.iterable, self.deepcopy = iterable, deepcopy

    def __iter__(self) -> Iterator[_Item]:
        source = self.iterable
        if self.deepcopy:
            try:
                source = copy.deepcopy(source)
            except TypeError:
                warnings.warn(
                    "The input iterable can not be deepcopied, please be aware of in-place modification would affect "
                    "source data.",
                    stacklevel=2,
                )
        yield from source

    def __len__(self) -> int:
        return length(self.iterable, self)
