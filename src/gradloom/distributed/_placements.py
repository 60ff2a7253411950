"""How a distributed tensor lies on the processes of a mesh: values that libraries make when they are imported.

gradloom has no distributed tensors, which alone would use them.
"""

from __future__ import annotations

from dataclasses import dataclass


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


@dataclass(frozen=True)
class Shard(Placement):
    """Each process has a part along a dimension.

    Attributes:
        dim: the dimension.
    """

    dim: int


@dataclass(frozen=True)
class Partial(Placement):
    """The tensor is what a reduction makes of the processes' tensors.

    Attributes:
        reduce_op: the reduction.
    """

    reduce_op: str = "sum"
