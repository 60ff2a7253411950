"""The parameters of one module that are gathered and reduced together.

Note [Memory of gathered parameters]
The gathered parameters of a group lie in one anonymous mapping, which they keep. When they are not needed, the kernel
takes its pages back (MADV_DONTNEED), while tensors and everything that refers to their memory, such as what the graph
saved for the backward pass, stay valid: the next gathering writes the same values to the same places. So nothing needs
to know that parameters come and go. Without madvise, the memory is kept.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import gradloom as gl

from ...autograd.graph import get_gradient_edge
from ...core.tensor import wrap
from ...nn.modules.module import Module
from ...nn.parameter import Parameter
from .. import distributed_c10d as dist
from .._sharding import ShardedParameter, Sharding, marked

__all__ = ["Place", "ShardGroup"]


class Place:
    """Where a parameter is: the modules and names that refer to it."""

    __slots__ = ("name", "uses")

    def __init__(self, name: str) -> None:
        self.name = name
        self.uses: list[tuple[Module, str]] = []

    def put(self, parameter: Any) -> None:
        """Let the modules refer to another tensor."""
        for module, name in self.uses:
            module._parameters[name] = parameter


class ShardGroup:
    """Parameters that are gathered by one call, and whose gradients are reduced by one.

    Args:
        parameters: with the places where they are. They are replaced by shards.
        group: the process group.
        compute_dtype: dtype of gathered parameters, or None for their own.
        reduce_dtype: dtype in which gradients are reduced, or None for that of the gradients.

    Attributes:
        shards: the parameters that modules have between computations.
        syncs: whether a backward pass ends with reduced gradients.
        reshards: whether it ends with shards in the modules' places.
        on_last_gradient: called when the last gradient of a backward pass has come.
    """

    def __init__(
        self, parameters: list[tuple[Place, Any]], group: Any, compute_dtype: Any = None, reduce_dtype: Any = None
    ) -> None:
        self.group, self.size, self.rank = group, group.size(), dist.get_rank(group)
        self.reduce_dtype = reduce_dtype
        self.divisor: float = self.size
        self.places = [place for place, _ in parameters]
        originals = [parameter for _, parameter in parameters]
        self.shardings = [Sharding(group, tuple(one.shape) or (1,)) for one in originals]
        self.shapes = [tuple(one.shape) for one in originals]
        self.compute_dtype = compute_dtype or originals[0].dtype
        self.shards = [self._shard(one, how) for one, how in zip(originals, self.shardings, strict=True)]
        self._make_memory(originals)
        self.syncs = self.reshards = True
        self.on_last_gradient: Callable[[], None] = lambda: None
        self.is_gathered = False
        self._work: Any = None
        self._received: Any = None
        self._pending = 0
        for place, shard in zip(self.places, self.shards, strict=True):
            place.put(shard)

    def _shard(self, original: Any, sharding: Sharding) -> Any:
        whole = original.detach()._array
        local = sharding.local(whole.reshape(sharding.shape)).copy()
        return marked(ShardedParameter(wrap(local), original.requires_grad), sharding)

    def _make_memory(self, originals: list[Any]) -> None:
        """Make the mapping, and on it the gathered parameters."""
        dtype = gl.empty(0, dtype=self.compute_dtype)._array.dtype
        sizes = [one.numel() for one in originals]
        self._map = mmap.mmap(-1, max(1, sum(sizes) * dtype.itemsize))
        flat = np.frombuffer(self._map, dtype, sum(sizes))
        self.gathered, start = [], 0
        for original, shape, size in zip(originals, self.shapes, sizes, strict=True):
            whole = Parameter(wrap(flat[start : start + size].reshape(shape)), original.requires_grad)
            self.gathered.append(whole)
            start += size
        self._edges = []
        for number, whole in enumerate(self.gathered):
            if whole.requires_grad:
                node = get_gradient_edge(whole).node
                node.register_hook(partial(self._arrived, number))
                self._edges.append(node)
        self._starts = np.cumsum([0, *(how.padded for how in self.shardings)]).tolist()

    # --- gathering ------------------------------------------------------------------------------------------------

    def start_gathering(self) -> None:
        """Start to gather the parameters, unless they are there or on their way."""
        if self.is_gathered or self._work is not None:
            return
        dtype = self.gathered[0]._array.dtype
        own = np.zeros(self._starts[-1], dtype)
        for shard, start in zip(self.shards, self._starts, strict=False):
            own[start : start + shard.numel()] = shard._array.reshape(-1)
        self._received = np.empty(self.size * own.size, dtype)
        self._work = dist.all_gather_into_tensor(wrap(self._received), wrap(own), group=self.group, async_op=True)

    def gather(self) -> None:
        """Put the gathered parameters into the modules' places."""
        if self.is_gathered:
            return
        self.start_gathering()
        self._work.wait()
        received = self._received.reshape(self.size, -1)
        for whole, how, start in zip(self.gathered, self.shardings, self._starts, strict=False):
            rows = whole._array.reshape(how.shape)
            for rank in range(self.size):
                first, last = how.rows(rank)
                part = rows[first:last]
                part[...] = received[rank, start : start + part.size].reshape(part.shape)
        self._work = self._received = None
        self.is_gathered = True
        for place, whole in zip(self.places, self.gathered, strict=True):
            place.put(whole)

    def release(self) -> None:
        """Put the shards into the modules' places, and give the memory of the gathered parameters back."""
        if self._work is not None:
            self._work.wait()
            self._work = self._received = None
        if not self.is_gathered:
            return
        self.is_gathered = False
        for place, shard in zip(self.places, self.shards, strict=True):
            place.put(shard)
        if hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)

    # --- gradients ------------------------------------------------------------------------------------------------

    def expect(self) -> None:
        """Expect the gradients of a backward pass."""
        self._seen: set[int] = set()
        self._pending = len(self._edges)

    def _arrived(self, number: int, grad_inputs: Any, grad_outputs: Any) -> None:
        if self._pending and number not in self._seen:
            self._seen.add(number)
            self._pending -= 1
            if not self._pending:
                self.on_last_gradient()

    def reduce(self) -> None:
        """Reduce the gradients of the gathered parameters into those of the shards."""
        grads = [whole._grad for whole in self.gathered]
        if not any(grad is not None for grad in grads) and not self._edges:
            return
        kind = self.reduce_dtype or self.compute_dtype
        dtype = gl.empty(0, dtype=kind)._array.dtype
        sent = np.zeros((self.size, self._starts[-1]), dtype)
        for grad, how, start in zip(grads, self.shardings, self._starts, strict=False):
            if grad is None:
                continue
            rows = grad._array.reshape(how.shape)
            for rank in range(self.size):
                first, last = how.rows(rank)
                part = rows[first:last]
                sent[rank, start : start + part.size] = part.reshape(-1)
        sent /= np.asarray(self.divisor, dtype)
        out = np.empty(self._starts[-1], dtype)
        dist.reduce_scatter_tensor(wrap(out), wrap(sent.reshape(-1)), group=self.group)
        for shard, whole, start in zip(self.shards, self.gathered, self._starts, strict=False):
            whole.grad = None
            if not shard.requires_grad:
                continue
            values = out[start : start + shard.numel()].reshape(shard._array.shape).astype(shard._array.dtype)
            if shard.grad is None:
                shard.grad = marked(wrap(values), shard._sharding)
            else:
                shard.grad += wrap(values)
