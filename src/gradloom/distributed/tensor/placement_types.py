"""Placements: how a distributed tensor lies on the processes along one dimension of a mesh."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

__all__ = ["Partial", "Placement", "Replicate", "Shard"]


class Placement:
    """Base of the placements."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Return whether each process has a part, along `dim` if that is given."""
        return isinstance(self, Shard) and (dim is None or self.dim == dim)

    def is_replicate(self) -> bool:
        """Return whether each process has the whole tensor."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Return whether the tensor is a sum of the processes' tensors, or reduced by `reduce_op`."""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)


@dataclass(frozen=True)
class Replicate(Placement):
    """Each process has the whole tensor."""

    def __str__(self) -> str:
        return "R"


@dataclass(frozen=True)
class Shard(Placement):
    """Each process has a part along a dimension, as `torch.chunk` divides it: the last parts may be smaller, or empty.

    Attributes:
        dim: the dimension.
    """

    dim: int

    def __str__(self) -> str:
        return f"S({self.dim})"

    @staticmethod
    def local_shard_size_and_offset(curr_local_size: int, num_chunks: int, rank: int) -> tuple[int, int]:
        """Return how many of `curr_local_size` elements the part of a rank has, and its first."""
        step = -(-curr_local_size // num_chunks)
        start = min(step * rank, curr_local_size)
        return min(step, curr_local_size - start), start


@dataclass(frozen=True, repr=False)
class _StridedShard(Shard):
    """Each process has a part of what the other dimensions of the mesh leave: this one divides last.

    `fully_shard` makes such placements of parameters that `parallelize_module` has divided along the same dimension.

    Attributes:
        split_factor: into how many parts the other dimensions of the mesh divide the dimension.
    """

    split_factor: int = field(kw_only=True)

    def __repr__(self) -> str:
        return f"_StridedShard(dim={self.dim}, sf={self.split_factor})"

    def __str__(self) -> str:
        return f"_S({self.dim}, {self.split_factor})"


@dataclass(frozen=True, repr=False)
class Partial(Placement):
    """The tensor is what a reduction makes of the processes' tensors.

    Attributes:
        reduce_op: "sum", "avg", "product", "max" or "min".
    """

    reduce_op: str = "sum"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.reduce_op})"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"


@dataclass(frozen=True, repr=False)
class _NormPartial(Partial):
    """The tensor is the norm of the processes' norms.

    Attributes:
        norm_type: order of the norm.
    """

    norm_type: float = 2.0

    def __repr__(self) -> str:
        return f"_NormPartial({self.norm_type:g})"

    def __str__(self) -> str:
        return f"P(norm {self.norm_type:g})"


def normalized(placements: Any, ndim: int, mesh_ndim: int) -> tuple[Placement, ...]:
    """Return placements with dimensions counted from the front.

    Args:
        placements: one for each dimension of the mesh.
        ndim: number of dimensions of the tensor.
        mesh_ndim: number of dimensions of the mesh.

    Raises:
        ValueError: if there are too many or too few.
        AssertionError: for a dimension that the tensor does not have.
    """
    found: list[Placement] = []
    if len(placements) != mesh_ndim:
        raise ValueError(
            "`placements` must have the same length as `device_mesh.ndim`! "
            f"Found placements length: {len(placements)}, and device_mesh.ndim: {mesh_ndim}."
        )
    for one in placements:
        if not isinstance(one, Placement):
            raise TypeError(f"a placement is Shard(dim), Replicate() or Partial(), not {one!r}")
        if isinstance(one, Shard):
            dim = one.dim + ndim if one.dim < 0 else one.dim
            if not 0 <= dim < ndim:
                raise AssertionError(f"Sharding dim {one.dim} greater than tensor ndim {ndim}")
            if dim != one.dim:
                one = replace(one, dim=dim)
        found.append(one)
    return tuple(found)
