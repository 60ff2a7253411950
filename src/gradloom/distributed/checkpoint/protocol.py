"""What makes a local tensor one of which each rank has parts."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

__all__ = ["CheckpointableTensor"]


@runtime_checkable
class CheckpointableTensor(Protocol):
    """Attributes of a tensor whose parts are saved as those of a larger one.

    Attributes:
        global_shape: shape of the whole tensor.
        global_offsets: for each part, the index of its first element in the whole tensor.
        local_offsets: for each part, the index of its first element in this tensor.
        local_sizes: for each part, its shape.
    """

    global_shape: tuple[int, ...]
    global_offsets: tuple[tuple[int, ...], ...]
    local_offsets: tuple[tuple[int, ...], ...]
    local_sizes: tuple[tuple[int, ...], ...]
