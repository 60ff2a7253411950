"""How fully_shard distributes a parameter: the DTensor that it becomes, and the parts that ranks exchange."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..device_mesh import DeviceMesh
from ..tensor._dtensor import DTensor
from ..tensor._spec import DTensorSpec, TensorMeta
from ..tensor.placement_types import Placement, Replicate, Shard, _StridedShard

__all__ = ["Layout"]


class Layout:
    """How one parameter is distributed.

    Args:
        name: of the parameter, for errors.
        parameter: before it is distributed; a DTensor if `parallelize_module` has distributed it.
        mesh: the processes: of one dimension, over which the parameter is divided, or of two, of which the first
            has copies.
        dim: the dimension that is divided.

    Attributes:
        spec: of the DTensor that the parameter becomes.
        shape: of what a rank computes with: the parameter, or its own part of one that is a DTensor.
        size, rank: number of ranks among which it is divided, and this one's number.

    Raises:
        ValueError: for a parameter without dimensions, or without the dimension to divide.
        NotImplementedError: if ranks would get parts of different lengths of another dimension than the first.
    """

    def __init__(self, name: str, parameter: Any, mesh: DeviceMesh, dim: int = 0) -> None:
        if not parameter.dim():
            raise ValueError(
                f"fully_shard doesn't support scalar parameters. Change {name} to a 1D tensor with numel equal to 1."
            )
        self.dim = dim + parameter.dim() if dim < 0 else dim
        if not 0 <= self.dim < parameter.dim():
            raise ValueError(
                f"Shard dim {dim} is invalid for {parameter.dim()}D tensor {name}: {tuple(parameter.shape)}"
            )
        self.size, self.rank = mesh.size(mesh.ndim - 1), mesh.get_local_rank(mesh.ndim - 1)
        inner = parameter._spec if isinstance(parameter, DTensor) else None
        self.shape = tuple(parameter.shape) if inner is None else inner.local_shape()
        if self.dim and self.shape[self.dim] % self.size:
            raise NotImplementedError(
                f"FSDP does not support uneven sharding on dim {self.dim}: {name} has {self.shape}, and there are "
                f"{self.size} ranks: choose a dimension that they divide"
            )
        copies: list[Placement] = [Replicate()] * (mesh.ndim - 1)
        if inner is None:
            self.spec = DTensorSpec(mesh, (*copies, Shard(self.dim)), TensorMeta.of(parameter))
        else:
            ways = math.prod(
                inner.mesh.size(mesh_dim) for mesh_dim, one in enumerate(inner.placements) if one.is_shard(self.dim)
            )
            own = Shard(self.dim) if ways == 1 else _StridedShard(self.dim, split_factor=ways)
            self.spec = DTensorSpec(_joined(mesh, inner.mesh), (*copies, own, *inner.placements), inner.tensor_meta)

    @property
    def padded(self) -> int:
        """Number of elements that each rank sends: those of the first rank."""
        longest, _ = Shard.local_shard_size_and_offset(self.shape[self.dim], self.size, 0)
        return longest * math.prod(n for dim, n in enumerate(self.shape) if dim != self.dim)

    def parts(self, array: np.ndarray) -> Iterator[np.ndarray]:
        """Yield each rank's part of an array of `shape`, as a view."""
        for rank in range(self.size):
            length, start = Shard.local_shard_size_and_offset(self.shape[self.dim], self.size, rank)
            yield array[(slice(None),) * self.dim + (slice(start, start + length),)]

    def own(self, array: np.ndarray) -> np.ndarray:
        """Return a copy of this rank's part of an array of `shape`."""
        return np.array(list(self.parts(array))[self.rank], order="C")


def _joined(outer: DeviceMesh, inner: DeviceMesh) -> DeviceMesh:
    """Return the mesh of which two meshes are parts, with the dimensions of the first in front."""
    root = outer._top()
    names = (*(outer.mesh_dim_names or ()), *(inner.mesh_dim_names or ()))
    if root is not inner._top() or root in (outer, inner):
        raise ValueError(
            "FSDP requires the DP and model parallel TP/EP mesh to have the same parent mesh but got: \n"
            f"DP's mesh: {outer}\nTP/EP's mesh: {inner}"
        )
    return root[names]
