"""DTensorSpec: shape and dtype of a distributed tensor, and which part of it each process has."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..device_mesh import DeviceMesh
from .placement_types import Placement, Shard, _StridedShard

__all__ = ["DTensorSpec", "TensorMeta", "local_part"]


@dataclass(frozen=True)
class TensorMeta:
    """Shape, strides and dtype of a whole tensor."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: Any

    @staticmethod
    def of(tensor: Any) -> TensorMeta:
        """Return those of a tensor."""
        return TensorMeta(tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype)

    @staticmethod
    def contiguous(shape: Sequence[int], dtype: Any) -> TensorMeta:
        """Return those of a contiguous tensor."""
        strides = [math.prod(max(size, 1) for size in shape[dim + 1 :]) for dim in range(len(shape))]
        return TensorMeta(tuple(shape), tuple(strides), dtype)


@dataclass(frozen=True)
class DTensorSpec:
    """How a tensor is distributed.

    Attributes:
        mesh: the processes.
        placements: one for each dimension of the mesh. Where several of them shard a dimension of the tensor, the
            first divides it, and the next divides the parts; those of `_StridedShard` come last.
        tensor_meta: of the whole tensor.
    """

    mesh: DeviceMesh
    placements: tuple[Placement, ...]
    tensor_meta: TensorMeta

    @property
    def device_mesh(self) -> DeviceMesh:
        """The processes."""
        return self.mesh

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the whole tensor."""
        return self.tensor_meta.shape

    @property
    def ndim(self) -> int:
        """Number of dimensions of the tensor."""
        return len(self.tensor_meta.shape)

    def with_placements(self, placements: Sequence[Placement]) -> DTensorSpec:
        """Return the same tensor, distributed in another way."""
        return DTensorSpec(self.mesh, tuple(placements), self.tensor_meta)

    def local_shape(self) -> tuple[int, ...]:
        """Return the shape of this process's part."""
        return local_part(self.shape, self.mesh, self.placements)[0]


def local_part(
    shape: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement], upto: int | None = None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shape of this process's part of a tensor, and the index of its first element.

    Args:
        shape: of the whole tensor.
        mesh: the processes.
        placements: of the tensor.
        upto: a dimension of the mesh: count only what divides the tensor before it does; None for all.

    Returns:
        shape and offset. A process outside the mesh has nothing: sizes 0.
    """
    sizes, offset, where = list(shape), [0] * len(shape), mesh.get_coordinate()
    if where is None:
        return (0,) * len(sizes) or (0,), tuple(offset)
    for mesh_dim in sorted(range(len(placements)), key=lambda dim: isinstance(placements[dim], _StridedShard)):
        if mesh_dim == upto:
            break
        one = placements[mesh_dim]
        if isinstance(one, Shard):
            size, start = one.local_shard_size_and_offset(sizes[one.dim], mesh.size(mesh_dim), where[mesh_dim])
            sizes[one.dim], offset[one.dim] = size, offset[one.dim] + start
    return tuple(sizes), tuple(offset)
