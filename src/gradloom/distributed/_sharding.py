"""Shards: tensors of which each rank has some rows.

A tensor of n rows (its first dimension) is divided as `torch.chunk` does: each of the first ranks has ceil(n / size)
rows, the last may have fewer or none. A shard is an ordinary tensor, of this rank's rows, with an attribute `_sharding`
that says of what it is a part. Parameters, gradients, optimizer states and entries of a state_dict carry it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import gradloom as gl

from ..core.tensor import wrap
from ..nn.parameter import Parameter
from . import distributed_c10d as dist

__all__ = ["ShardedParameter", "Sharding", "full_tensor", "mark_states", "marked", "norms_of_whole", "sharding_of"]


@dataclass(frozen=True)
class Sharding:
    """How the rows of a tensor are distributed.

    Attributes:
        group: the process group.
        shape: of the whole tensor, with at least one dimension.
    """

    group: Any
    shape: tuple[int, ...]

    @property
    def rows_per_rank(self) -> int:
        """Number of rows of the first ranks."""
        return -(-self.shape[0] // self.group.size())

    def rows(self, rank: int) -> tuple[int, int]:
        """Return the first row of a rank, and the one behind its last."""
        step = self.rows_per_rank
        return min(rank * step, self.shape[0]), min((rank + 1) * step, self.shape[0])

    @property
    def padded(self) -> int:
        """Number of elements that each rank sends: those of the first ranks."""
        return self.rows_per_rank * int(np.prod(self.shape[1:], dtype=np.int64))

    def local(self, whole: np.ndarray) -> np.ndarray:
        """Return this rank's rows of the whole array."""
        start, end = self.rows(dist.get_rank(self.group))
        return whole[start:end]


def sharding_of(tensor: Any) -> Sharding | None:
    """Return how a tensor is distributed, or None if it is whole."""
    return getattr(tensor, "_sharding", None)


def marked(tensor: Any, sharding: Sharding) -> Any:
    """Mark a tensor as this rank's part of another, and return it."""
    tensor._sharding = sharding
    return tensor


def full_tensor(shard: Any) -> Any:
    """Return the whole tensor of a shard, on all ranks. All ranks call this."""
    sharding = sharding_of(shard)
    if sharding is None:
        return shard
    array = shard.detach()._array
    own = np.zeros(sharding.padded, array.dtype)
    own[: array.size] = array.reshape(-1)
    found = np.empty(sharding.padded * sharding.group.size(), array.dtype)
    dist.all_gather_into_tensor(wrap(found), wrap(own), group=sharding.group)
    count = int(np.prod(sharding.shape, dtype=np.int64))
    return wrap(found[:count].reshape(sharding.shape))


def mark_states(optimizer: Any) -> None:
    """Mark an optimizer's states that have an element for each of a sharded parameter as shards like it."""
    for parameter, state in optimizer.state.items():
        how = sharding_of(parameter)
        if how is None:
            continue
        for value in state.values():
            if isinstance(value, gl.Tensor) and value.shape == parameter.shape and value.dim():
                marked(value, how)


def norms_of_whole(tensors: Sequence[Any], norms: Sequence[Any], norm_type: float) -> list[Any]:
    """Return the norms of whole tensors from those of this rank's rows. All ranks call this.

    Args:
        tensors: shards and whole tensors.
        norms: of them as they are.
        norm_type: order of the norm, above 0.
    """
    found = list(norms)
    groups = {id(how.group): how.group for how in map(sharding_of, tensors) if how is not None}
    for key, group in groups.items():
        places = [i for i, t in enumerate(tensors) if (how := sharding_of(t)) is not None and id(how.group) == key]
        own = np.array([found[place] for place in places], np.float64)
        endless = np.isinf(norm_type)
        total = own if endless else own**norm_type
        dist.all_reduce(wrap(total), dist.ReduceOp.MAX if endless else dist.ReduceOp.SUM, group=group)
        for place, value in zip(places, total if endless else total ** (1 / norm_type), strict=True):
            found[place] = value
    return found


class ShardedParameter(Parameter):
    """This rank's rows of a parameter: what `parameters()` of a module yields after `fully_shard`.

    `shape` and `numel()` are the shard's own; optimizers compute with these rows.
    """

    _sharding: Sharding

    def to_local(self) -> Any:
        """Return this rank's rows."""
        return self.detach()

    def full_tensor(self) -> Any:
        """Return the whole parameter. All ranks call this."""
        return full_tensor(self)

    @property
    def full_shape(self) -> Any:
        """The shape of the whole parameter."""
        return gl.Size(self._sharding.shape)

    def __reduce_ex__(self, protocol: int) -> Any:  # type: ignore[override]
        raise RuntimeError(
            "a sharded parameter cannot be pickled: save get_model_state_dict(model, options=StateDictOptions("
            "full_state_dict=True)), or use torch.distributed.checkpoint"
        )
