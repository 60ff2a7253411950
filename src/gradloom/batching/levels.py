"""The levels of the running vmaps of this thread."""

from __future__ import annotations

from itertools import count

from ..dispatch.interception import attend
from ..dispatch.state import Whole, state

_number = count(1).__next__


class Level:
    """One running vmap.

    Attributes:
        number: increases with each vmap, so it is greater than that of every vmap around it.
        depth: nesting depth, from 1.
        size: size of the batch.
        randomness: 'error', 'different' or 'same'.
        alive: whether the vmap is still running.
    """

    __slots__ = ("number", "depth", "size", "randomness", "alive")

    def __init__(self, size: int, randomness: str) -> None:
        self.number = _number()
        self.depth = len(state.batching) + 1
        self.size = size
        self.randomness = randomness
        self.alive = True

    def __lt__(self, other: Level) -> bool:
        return self.number < other.number


class running(Whole):
    """A `with` block in which a level is the innermost. Calls without batched arguments are intercepted, too, because
    `randomness` applies to random operators."""

    def __init__(self, level: Level) -> None:
        self.level = level

    def _change(self) -> Level:
        self._keep(state.batching)
        state.batching = (*state.batching, self.level)
        attend()
        return self.level

    def _restore(self, before: tuple[Level, ...]) -> None:
        self.level.alive = False
        state.batching = before
        attend()


class below(Whole):
    """A `with` block in which only the levels outside a level run, as for the operators that a rule calls."""

    def __init__(self, level: Level) -> None:
        self.level = level

    def _change(self) -> None:
        self._keep(state.batching)
        number = self.level.number
        state.batching = tuple([outer for outer in state.batching if outer.number < number])
        attend()

    def _restore(self, before: tuple[Level, ...]) -> None:
        state.batching = before
        attend()
