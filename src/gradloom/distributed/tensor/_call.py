"""The call of an operator on distributed tensors, as sharding rules see it, and what rules propose."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ._spec import DTensorSpec, TensorMeta
from .placement_types import Placement, Replicate, Shard

__all__ = ["REPLICATE", "Call", "Leaf", "Option", "Rule"]

REPLICATE = Replicate()


@dataclass(frozen=True)
class Leaf:
    """A distributed tensor among the arguments.

    Attributes:
        index: its number among the distributed tensors.
        spec: how it is distributed.
    """

    index: int
    spec: DTensorSpec

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the whole tensor."""
        return self.spec.shape

    @property
    def ndim(self) -> int:
        """Number of its dimensions."""
        return self.spec.ndim


@dataclass(frozen=True)
class Option:
    """A way to compute an operator from parts, along one dimension of a mesh.

    Attributes:
        inputs: placement of each distributed argument.
        outputs: placement of each tensor that the operator returns, or one for all.
        local: computes the result from local arguments instead of the operator: called with the specs of the
            distributed arguments, those of the results, the operator, its arguments and its keyword arguments.
        takes_empty: whether the operator computes on parts without elements; others may raise.
    """

    inputs: tuple[Placement, ...]
    outputs: Placement | tuple[Placement, ...]
    local: Callable[..., Any] | None = None
    takes_empty: bool = False


@dataclass
class Call:
    """A call, and the dimension of the mesh for which a rule proposes options.

    Attributes:
        func: the operator.
        values: arguments by name, with a `Leaf` for each distributed tensor.
        leaves: the distributed tensors, but for `out`.
        outs: of the tensors that the operator returns.
        mesh_dim: the dimension of the mesh.
        written: numbers of the leaves that the operator changes in place.
        targets: tensors given as `out`, with the numbers of the results that are written to them.
        local: computes the result whatever option is chosen, as `Option.local` does; a rule sets it.
    """

    func: Any
    values: dict[str, Any]
    leaves: list[Leaf]
    outs: list[TensorMeta]
    mesh_dim: int = 0
    written: frozenset[int] = field(default_factory=frozenset)
    targets: list[tuple[Leaf, int]] = field(default_factory=list)
    local: Callable[..., Any] | None = None

    @property
    def argument_names(self) -> list[str]:
        """Names of the operator's arguments, in the order of its schema."""
        return [argument.name for argument in self.func._schema.arguments]

    def current(self, leaf: Leaf) -> Placement:
        """Return how a tensor is distributed along the dimension of the mesh."""
        return leaf.spec.placements[self.mesh_dim]

    def is_even(self, leaf: Leaf, dim: int) -> bool:
        """Return whether all processes have as many elements of `dim` if this dimension of the mesh shards it, too."""
        spec, ways = leaf.spec, 1
        for mesh_dim, one in enumerate(spec.placements):
            if mesh_dim == self.mesh_dim or one == Shard(dim):
                ways *= spec.mesh.size(mesh_dim)
        return leaf.shape[dim] % ways == 0

    def is_on_all(self, leaf: Leaf, dim: int) -> bool:
        """Return whether every process has an element of `dim` if this dimension of the mesh shards it."""
        size, ways = leaf.shape[dim], leaf.spec.mesh.size(self.mesh_dim)
        return self.is_even(leaf, dim) or (
            sum(one == Shard(dim) for one in leaf.spec.placements) < 2 and (ways - 1) * -(-size // ways) < size
        )

    def where(self, given: dict[int, Placement]) -> tuple[Placement, ...]:
        """Return the placements of all leaves: those given by number, and `Replicate()`."""
        return tuple([given.get(leaf.index, REPLICATE) for leaf in self.leaves])


Rule = Callable[[Call], Iterable[Option]]


def dims_of(value: Any, ndim: int) -> list[int]:
    """Return dimensions counted from the front: those of an int or list, or all for None and an empty list."""
    if value is None or (isinstance(value, Sequence) and not value):
        return list(range(ndim))
    listed = list(value) if isinstance(value, Sequence) else [value]
    return sorted([dim + ndim if dim < 0 else dim for dim in listed])
