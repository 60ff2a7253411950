"""Steps that make one pipe of several."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from itertools import chain
from typing import Any

from .._decorator import functional_datapipe
from ..datapipe import IterDataPipe
from .splitting import (
    DemultiplexerIterDataPipe as DemultiplexerIterDataPipe,
    ForkerIterDataPipe as ForkerIterDataPipe,
    _ChildDataPipe as _ChildDataPipe,
    _DemultiplexerIterDataPipe as _DemultiplexerIterDataPipe,
    _ForkerIterDataPipe as _ForkerIterDataPipe,
)
from .utils import no_length

__all__ = [
    "ConcaterIterDataPipe",
    "DemultiplexerIterDataPipe",
    "ForkerIterDataPipe",
    "MultiplexerIterDataPipe",
    "ZipperIterDataPipe",
]


def _lengths(pipe: Any) -> list[int]:
    """Return the lengths of a pipe's sources. Raises TypeError, which names the pipe, if one has none."""
    return [len(source) if isinstance(source, Sized) else no_length(pipe) for source in pipe.datapipes]


@functional_datapipe("concat")
class ConcaterIterDataPipe(IterDataPipe[Any]):
    """Yield the examples of one pipe after those of the other (functional name: concat).

    Args:
        datapipes: the sources.

    Raises:
        ValueError: for none.
        TypeError: if one is not an IterDataPipe.
    """

    datapipes: tuple[IterDataPipe[Any], ...]

    def __init__(self, *datapipes: IterDataPipe[Any]) -> None:
        if not datapipes:
            raise ValueError("Expected at least one DataPipe, but got nothing")
        if not all(isinstance(pipe, IterDataPipe) for pipe in datapipes):
            raise TypeError("Expected all inputs to be `IterDataPipe`")
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        for pipe in self.datapipes:
            yield from pipe

    def __len__(self) -> int:
        return sum(_lengths(self))


@functional_datapipe("mux")
class MultiplexerIterDataPipe(IterDataPipe[Any]):
    """Yield one example of each pipe in turn, until one of them ends (functional name: mux).

    A turn that is not complete is dropped.

    Args:
        datapipes: the sources.
    """

    def __init__(self, *datapipes: Any) -> None:
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        return chain.from_iterable(zip(*self.datapipes, strict=False))

    def __len__(self) -> int:
        return min(_lengths(self)) * len(self.datapipes)


@functional_datapipe("zip")
class ZipperIterDataPipe(IterDataPipe[tuple[Any, ...]]):
    """Yield tuples of one example of each pipe, until one of them ends (functional name: zip).

    Args:
        datapipes: the sources.

    Raises:
        TypeError: if one is not an IterDataPipe.
    """

    datapipes: tuple[IterDataPipe[Any], ...]

    def __init__(self, *datapipes: IterDataPipe[Any]) -> None:
        if not all(isinstance(pipe, IterDataPipe) for pipe in datapipes):
            raise TypeError("All inputs are required to be `IterDataPipe` for `ZipIterDataPipe`.")
        super().__init__()
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return zip(*self.datapipes, strict=False)

    def __len__(self) -> int:
        return min(_lengths(self))
