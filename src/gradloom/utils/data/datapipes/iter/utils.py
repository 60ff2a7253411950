"""The beginning of a pipe: any iterable. And what several pipes share: lengths, states, copies, random orders."""

from __future__ import annotations

import copy
import random
import warnings
from collections.abc import Iterable, Iterator, Sized
from typing import Any, NoReturn, Self, TypeVar

import gradloom as gl

from ..datapipe import IterDataPipe

__all__ = ["IterableWrapperIterDataPipe"]

_Item = TypeVar("_Item", covariant=True)
_COUNTS = ("_valid_iterator_id", "_number_of_samples_yielded")


def no_length(pipe: Any) -> NoReturn:
    """Raise the TypeError of a pipe whose length is not known."""
    raise TypeError(f"{type(pipe).__name__} instance doesn't have valid length")


def length(source: Any, pipe: Any) -> int:
    """Return the length of a pipe's source. Raises TypeError, which names the pipe, if it has none."""
    return len(source) if isinstance(source, Sized) else no_length(pipe)


def copied(source: Any, kind: str, end: str = "") -> Any:
    """Return a deep copy; the source itself, with a warning, if it cannot be copied."""
    try:
        return copy.deepcopy(source)
    except TypeError:
        advice = "please be aware of in-place modification would affect source data"
        warnings.warn(f"The input {kind} can not be deepcopied, {advice}{end}", stacklevel=3)
        return source


class Buffered(IterDataPipe[_Item]):
    """Base of pipes that are pickled without their buffers.

    Attributes:
        _kept: names of the attributes that are pickled; `reset` makes the others.
    """

    _kept: tuple[str, ...]

    def __getstate__(self) -> Any:
        state = {name: getattr(self, name) for name in (*self._kept, *_COUNTS)}
        hook = IterDataPipe.getstate_hook
        return hook(state) if hook else state

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._clear()

    def _clear(self) -> None:
        """Make the buffers, empty."""

    def reset(self) -> None:
        """Empty the buffers."""
        self._clear()


class RandomOrder(IterDataPipe[_Item]):
    """Base of pipes that yield in a random order, which can be turned off and seeded."""

    _enabled = True
    _seed: int | None = None  # of the next iteration; None draws one from the default generator

    def __init__(self) -> None:
        super().__init__()
        self._rng = random.Random()

    def set_shuffle(self, shuffle: bool = True) -> Self:
        """Turn the random order on or off; return the pipe."""
        self._enabled = shuffle
        return self

    def set_seed(self, seed: int) -> Self:
        """Seed the next iteration, which else draws a seed from the default generator; return the pipe."""
        self._seed = seed
        return self

    def _reseed(self) -> None:
        """Seed the generator for an iteration."""
        seed, self._seed = self._seed, None
        self._rng.seed(int(gl.empty((), dtype=gl.int64).random_().item()) if seed is None else seed)


class IterableWrapperIterDataPipe(IterDataPipe[_Item]):
    """Yield the items of an iterable.

    Args:
        iterable: the iterable.
        deepcopy: copy it whenever iteration starts, so that later steps may change the items; without effect, but for a
            warning, if it cannot be copied.
    """

    def __init__(self, iterable: Iterable[_Item], deepcopy: bool = True) -> None:
        self.iterable: Iterable[_Item] = iterable
        self.deepcopy: bool = deepcopy

    def __iter__(self) -> Iterator[_Item]:
        yield from copied(self.iterable, "iterable", ".") if self.deepcopy else self.iterable

    def __len__(self) -> int:
        return length(self.iterable, self)
