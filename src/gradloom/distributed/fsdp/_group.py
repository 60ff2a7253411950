"""The parameters of one module that are gathered and reduced together.

Note [Memory of gathered parameters]
The gathered parameters of a group lie in one anonymous mapping, which they keep. When they are not needed, the kernel
takes its pages back (MADV_DONTNEED), while tensors and everything that refers to their memory, such as what the graph
saved for the backward pass, stay valid: the next gathering writes the same values to the same places. So nothing needs
to know that parameters come and go. Without madvise, the memory is kept.
"""

from __future__ import annotations

import math
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
from ..device_mesh import DeviceMesh
from ..tensor._dtensor import DTensor
from ._layout import Layout

__all__ = ["Place", "ShardGroup"]


class Place:
    """Where a parameter is: the modules and names that refer to it."""

    __slots__ = ("dim", "name", "uses")

    def __init__(self, name: str) -> None:
        self.name = name
        self.dim = 0  # that is divided
        self.uses: list[tuple[Module, str]] = []

    def put(self, parameter: Any) -> None:
        """Let the modules refer to another tensor."""
        for module, name in self.uses:
            module._parameters[name] = parameter


class ShardGroup:
    """Parameters that are gathered by one call, and whose gradients are reduced by one.

    Args:
        parameters: with the places where they are. They are replaced by shards.
        mesh: the processes, see `Layout`.
        compute_dtype: dtype of gathered parameters, or None for their own.
        reduce_dtype: dtype in which gradients are reduced, or None for that of the gradients.

    Attributes:
        shards: the parameters that modules have between computations: DTensors.
        syncs: whether a backward pass ends with reduced gradients.
        syncs_copies: whether they are also reduced over the dimension of the mesh that has copies.
        reshards: whether it ends with shards in the modules' places.
        on_last_gradient: called when the last gradient of a backward pass has come.
    """

    def __init__(
        self, parameters: list[tuple[Place, Any]], mesh: DeviceMesh, compute_dtype: Any = None, reduce_dtype: Any = None
    ) -> None:
        self.group, self.size = mesh.get_group(mesh.ndim - 1), mesh.size(mesh.ndim - 1)
        self.copies = mesh.get_group(0) if mesh.ndim > 1 else None
        self.reduce_dtype = reduce_dtype
        self.divisor: float = mesh.size()
        self.places = [place for place, _ in parameters]
        originals = [parameter for _, parameter in parameters]
        self.layouts = [Layout(place.name, one, mesh, place.dim) for place, one in parameters]
        self._wrapped = [one._spec if isinstance(one, DTensor) else None for one in originals]
        self.compute_dtype = compute_dtype or originals[0].dtype
        self.shards = [self._shard(one, layout) for one, layout in zip(originals, self.layouts, strict=True)]
        self._make_memory(originals)
        self.syncs = self.syncs_copies = self.reshards = True
        self.on_last_gradient: Callable[[], None] = lambda: None
        self.is_gathered = False
        self._work: Any = None
        self._received: Any = None
        self._kept: Any = None  # gradients that were not reduced over the copies yet
        self._pending = 0
        for place, shard in zip(self.places, self.shards, strict=True):
            place.put(shard)

    def _shard(self, original: Any, layout: Layout) -> Any:
        whole = original.detach()
        if isinstance(whole, DTensor):
            whole = whole._local_tensor
        if whole.is_meta:
            local = gl.empty(layout.spec.local_shape(), dtype=whole.dtype, device="meta")
        else:
            local = wrap(layout.own(whole.resolve_conj().resolve_neg()._array))
        return Parameter(DTensor(local, layout.spec), original.requires_grad)

    def _make_memory(self, originals: list[Any]) -> None:
        """Make the mapping, and on it the gathered parameters."""
        dtype = gl.empty(0, dtype=self.compute_dtype)._array.dtype
        sizes = [math.prod(layout.shape) for layout in self.layouts]
        self._map = mmap.mmap(-1, max(1, sum(sizes) * dtype.itemsize))
        flat = np.frombuffer(self._map, dtype, sum(sizes))
        self.gathered, start = [], 0
        for original, layout, spec, size in zip(originals, self.layouts, self._wrapped, sizes, strict=True):
            values = wrap(flat[start : start + size].reshape(layout.shape))
            whole = values if spec is None else DTensor(values, spec)
            self.gathered.append(Parameter(whole, original.requires_grad))
            start += size
        self._edges = []
        for number, whole in enumerate(self.gathered):
            if whole.requires_grad:
                node = get_gradient_edge(whole).node
                node.register_hook(partial(self._arrived, number))
                self._edges.append(node)
        self._starts = np.cumsum([0, *(layout.padded for layout in self.layouts)]).tolist()

    # --- gathering ------------------------------------------------------------------------------------------------

    def start_gathering(self) -> None:
        """Start to gather the parameters, unless they are there or on their way."""
        if self.is_gathered or self._work is not None:
            return
        dtype = self._values(self.gathered[0]).dtype
        own = np.zeros(self._starts[-1], dtype)
        for shard, start in zip(self.shards, self._starts, strict=False):
            array = self._values(shard)
            own[start : start + array.size] = array.reshape(-1)
        self._received = np.empty(self.size * own.size, dtype)
        self._work = dist.all_gather_into_tensor(wrap(self._received), wrap(own), group=self.group, async_op=True)

    def gather(self) -> None:
        """Put the gathered parameters into the modules' places."""
        if self.is_gathered:
            return
        self.start_gathering()
        self._work.wait()
        received = self._received.reshape(self.size, -1)
        for whole, layout, start in zip(self.gathered, self.layouts, self._starts, strict=False):
            for sent, part in zip(received, layout.parts(self._values(whole)), strict=True):
                part[...] = sent[start : start + part.size].reshape(part.shape)
        self._work = self._received = None
        self.is_gathered = True
        for place, whole in zip(self.places, self.gathered, strict=True):
            place.put(whole)

    @staticmethod
    def _values(tensor: Any) -> Any:
        """Return the array of a tensor, or of this process's part."""
        local = tensor._local_tensor if isinstance(tensor, DTensor) else tensor
        if local.is_meta:
            raise RuntimeError(
                "FSDP parameters should be materialized from meta device before training: call "
                "module.to_empty(device='cpu') and initialize them"
            )
        return local.detach()._array

    def adopt(self) -> None:
        """Take the parameters that the modules have now: `load_state_dict` and `to` may have replaced them."""
        for number, (place, shard) in enumerate(zip(self.places, self.shards, strict=True)):
            module, name = place.uses[0]
            found = module._parameters[name]
            if found is shard:
                continue
            if not isinstance(found, DTensor) or found._spec.placements != shard._spec.placements:
                raise RuntimeError(
                    f"the parameter {place.name} of a sharded module can only be replaced by a DTensor with the "
                    f"placements {shard._spec.placements}"
                )
            self.shards[number] = found
            place.put(found)

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
        for grad, layout, spec, start in zip(grads, self.layouts, self._wrapped, self._starts, strict=False):
            if grad is None:
                continue
            if spec is not None:  # as the parameter is: its sums over processes are reduced
                grad = DTensor.redistribute(grad, placements=spec.placements)  # type: ignore[arg-type]
            for row, part in zip(sent, layout.parts(self._values(grad)), strict=True):
                row[start : start + part.size] = part.reshape(-1)
        sent /= np.asarray(self.divisor, dtype)
        out = np.empty(self._starts[-1], dtype)
        dist.reduce_scatter_tensor(wrap(out), wrap(sent.reshape(-1)), group=self.group)
        if self.copies is not None:
            if self._kept is not None:
                out += self._kept
            self._kept = None if self.syncs_copies else out
            if self.syncs_copies:
                dist.all_reduce(wrap(out), group=self.copies)
        for shard, whole, start in zip(self.shards, self.gathered, self._starts, strict=False):
            whole.grad = None
            if not shard.requires_grad or self._kept is not None:
                continue
            own = self._values(shard)
            values = out[start : start + own.size].reshape(own.shape).astype(own.dtype)
            if shard.grad is None:
                shard.grad = DTensor(wrap(values), shard._spec)
            else:
                shard.grad._local_tensor.add_(wrap(values))
