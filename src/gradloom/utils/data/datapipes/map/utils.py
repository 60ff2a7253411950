"""The beginning of a pipe: any sequence or mapping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from ..datapipe import MapDataPipe
from ..iter.utils import copied

__all__ = ["SequenceWrapperMapDataPipe"]

_Item = TypeVar("_Item", covariant=True)


class SequenceWrapperMapDataPipe(MapDataPipe[_Item]):
    """The items of a sequence or mapping.

    Args:
        sequence: the sequence.
        deepcopy: copy it, so that later steps may change the items; without effect, but for a warning, if it cannot be
            copied.
    """

    sequence: Sequence[_Item] | Mapping[Any, _Item]

    def __init__(self, sequence: Sequence[_Item] | Mapping[Any, _Item], deepcopy: bool = True) -> None:
        self.sequence = copied(sequence, "sequence") if deepcopy else sequence

    def __getitem__(self, index: Any) -> _Item:
        return self.sequence[index]

    def __len__(self) -> int:
        return len(self.sequence)
