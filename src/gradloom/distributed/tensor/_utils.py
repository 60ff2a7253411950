"""Which part of a distributed tensor a process has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..device_mesh import DeviceMesh
from ._spec import local_part
from .placement_types import Placement

__all__ = ["compute_local_shape_and_global_offset"]


def compute_local_shape_and_global_offset(
    global_shape: Any, mesh: DeviceMesh, placements: Sequence[Placement], skip_offset: bool = False
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shape of this process's part of a tensor, and the index of its first element.

    Args:
        global_shape: of the whole tensor.
        mesh: the processes.
        placements: of the tensor.
        skip_offset: return an empty tuple instead of the index.
    """
    shape, offset = local_part(tuple(global_shape), mesh, placements)
    return shape, () if skip_offset else offset
