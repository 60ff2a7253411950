"""DTensor: a tensor of which each process of a mesh has a part, and the functions that make one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gradloom as gl

from ...autograd.function import Function
from ...core.tensor import Tensor
from ...dispatch.state import disabled_torch_function
from .. import distributed_c10d as dist
from ..device_mesh import DeviceMesh, current_mesh
from ._dispatch import dispatch
from ._redistribute import redistributed
from ._spec import DTensorSpec, TensorMeta, local_part
from .placement_types import Partial, Placement, Replicate, Shard, normalized

__all__ = ["DTensor", "distribute_module", "distribute_tensor"]


def _mesh_or_current(device_mesh: DeviceMesh | None) -> DeviceMesh:
    return current_mesh() if device_mesh is None else device_mesh


def _gradient_placements(placements: Sequence[Placement]) -> tuple[Placement, ...]:
    """Return how the gradient of a tensor is distributed: that of a sum is the same for all its terms."""
    return tuple([Replicate() if one.is_partial() else one for one in placements])


class DTensor(Tensor):
    """A tensor of which each process of a mesh has a part; `distribute_tensor` and `from_local` make them.

    It has the shape and dtype of the whole tensor. Operators on it compute on the parts, communicate where they must,
    and return distributed tensors; all processes call them in the same order.

    Args:
        local_tensor: this process's part.
        spec: how the tensor is distributed.
        requires_grad: whether gradients are recorded.
    """

    __torch_function__: Any = disabled_torch_function
    _local_tensor: Tensor
    _spec: DTensorSpec

    @staticmethod
    def __new__(cls, local_tensor: Tensor, spec: DTensorSpec, *, requires_grad: bool = False) -> DTensor:
        made: Any = Tensor._make_wrapper_subclass(
            cls,
            spec.shape,
            strides=spec.tensor_meta.stride,
            dtype=spec.tensor_meta.dtype,
            device=local_tensor.device,
            requires_grad=requires_grad,
        )
        made._local_tensor, made._spec = local_tensor, spec
        return made

    def __init__(self, *arguments: Any, **options: Any) -> None: ...

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return dispatch(DTensor, func, args, kwargs or {})

    def __repr__(self, *, tensor_contents: str | None = None) -> str:  # type: ignore[override]
        return (
            f"DTensor(local_tensor={self._local_tensor}, device_mesh={self._spec.mesh}, "
            f"placements={self._spec.placements})"
        )

    def __tensor_flatten__(self) -> tuple[list[str], Any]:
        return ["_local_tensor"], (self._spec, self.requires_grad)

    @staticmethod
    def __tensor_unflatten__(parts: dict[str, Any], context: Any, shape: Any, stride: Any) -> DTensor:
        spec, requires_grad = context
        spec = DTensorSpec(spec.mesh, spec.placements, TensorMeta(tuple(shape), tuple(stride), spec.tensor_meta.dtype))
        return DTensor(parts["_local_tensor"], spec, requires_grad=requires_grad)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _restored, (self._local_tensor, self._spec, self.requires_grad, bool(getattr(self, "_is_param", False)))

    @staticmethod
    def from_local(
        local_tensor: Tensor,
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
        *,
        run_check: bool = False,
        shape: Any = None,
        stride: Any = None,
        grad_placements: Sequence[Placement] | None = None,
    ) -> DTensor:
        """Return the tensor whose parts the processes have. Differentiable.

        Args:
            local_tensor: this process's part.
            device_mesh: the processes; the mesh entered by `with` if None.
            placements: how the tensor is distributed; replicated if None.
            run_check: where the tensor is replicated, take the values of the first process.
            shape, stride: of the whole tensor; needed if the parts have not the same size.
            grad_placements: how the gradient is distributed that becomes that of `local_tensor`; `placements` if None.
        """
        mesh = _mesh_or_current(device_mesh)
        if placements is None:
            placements = [Replicate()] * mesh.ndim
        found = normalized(placements, local_tensor.dim(), mesh.ndim)
        if (shape is None) != (stride is None):
            raise RuntimeError(
                f"Found shape:{shape}, stride:{stride}.", "Please pass both shape and stride at the same time."
            )
        if shape is None:
            sizes = list(local_tensor.shape)
            for mesh_dim, one in enumerate(found):
                if isinstance(one, Shard):
                    sizes[one.dim] *= mesh.size(mesh_dim)
            meta = TensorMeta(tuple(sizes), _strides_like(local_tensor, sizes), local_tensor.dtype)
        else:
            meta = TensorMeta(tuple(shape), tuple(stride), local_tensor.dtype)
        spec = DTensorSpec(mesh, found, meta)
        grads = None if grad_placements is None else normalized(grad_placements, local_tensor.dim(), mesh.ndim)
        return _FromTorchTensor.apply(local_tensor, spec, run_check, grads)

    def to_local(self, *, grad_placements: Sequence[Placement] | None = None) -> Tensor:
        """Return this process's part. Differentiable.

        Args:
            grad_placements: how the gradient of the part is distributed; as this tensor if None.
        """
        if not gl.is_grad_enabled():
            return self._local_tensor
        grads = None if grad_placements is None else normalized(grad_placements, self.dim(), self._spec.mesh.ndim)
        return _ToTorchTensor.apply(self, grads)

    def redistribute(
        self,
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
        *,
        async_op: bool = False,
        forward_dtype: Any = None,
        backward_dtype: Any = None,
    ) -> DTensor:
        """Return the same tensor, distributed in another way. Differentiable.

        Args:
            device_mesh: this tensor's own mesh, or None.
            placements: how it is to be distributed.
            async_op: accepted; the result is complete.
            forward_dtype, backward_dtype: dtypes in which values and gradients are sent; None for their own.

        Raises:
            RuntimeError: for another mesh, without placements, or for sums over the processes.
        """
        if placements is None:
            raise RuntimeError("placements is needed for redistribute!")
        mesh = self._spec.mesh
        if device_mesh is not None and device_mesh != mesh:
            raise NotImplementedError("Cross device mesh comm not supported yet!")
        found = normalized(placements, self.dim(), mesh.ndim)
        for before, wanted in zip(self._spec.placements, found, strict=True):
            if wanted.is_partial() and before != wanted:
                raise RuntimeError(
                    f"Can not redistribute from {before} to {wanted}, redistributing to Partial is for internal use "
                    "only!"
                )
        return _Redistribute.apply(self, found, forward_dtype, backward_dtype)

    def full_tensor(self, *, grad_placements: Sequence[Placement] | None = None) -> Tensor:
        """Return the whole tensor, on all processes, which all call this. Differentiable.

        Args:
            grad_placements: how the gradient of the whole tensor is distributed; replicated if None.
        """
        whole = self.redistribute(placements=[Replicate()] * self._spec.mesh.ndim)
        return whole.to_local(grad_placements=grad_placements)

    @property
    def device_mesh(self) -> DeviceMesh:
        """The processes."""
        return self._spec.mesh

    @property
    def placements(self) -> tuple[Placement, ...]:
        """How the tensor is distributed, by dimension of the mesh."""
        return self._spec.placements

    def _parts_alike(self, *others: Any) -> tuple[Any, ...] | None:
        """Return this process's parts of this tensor and others, for an elementwise computation in place.

        Returns:
            parts of one shape; None if a tensor is no DTensor of this shape and mesh, or this one is a sum.

        Args:
            others: tensors, or None, which stays. The first may be distributed in another way.
        """
        spec = self._spec
        if any(one.is_partial() for one in spec.placements) or spec.mesh.get_coordinate() is None:
            return None
        found: list[Any] = [self._local_tensor]
        for number, other in enumerate(others):
            if other is None:
                found.append(other)
                continue
            if not isinstance(other, DTensor) or other._spec.mesh != spec.mesh or other._spec.shape != spec.shape:
                return None
            if number and other._spec.placements != spec.placements:
                return None
            found.append(redistributed(other._local_tensor, other._spec, spec.placements))
        return tuple(found)

    def __create_chunk_list__(self) -> list[Any]:
        """Return what this process has, as checkpoints name it: (offset, size)."""
        size, offset = local_part(self._spec.shape, self._spec.mesh, self._spec.placements)
        return [(offset, size)]


def _restored(local: Any, spec: DTensorSpec, requires_grad: bool, is_param: bool) -> Any:
    """Return a pickled tensor, in a process that has the place in a mesh that the one had that pickled it."""
    made: Any = DTensor(local, spec, requires_grad=requires_grad)
    return gl.nn.Parameter(made, requires_grad) if is_param else made


def _strides_like(local: Any, sizes: Sequence[int]) -> tuple[int, ...]:
    """Return strides for a shape in the order of those of a part."""
    order = sorted(range(len(sizes)), key=lambda dim: (local.stride(dim), local.shape[dim] != 1))
    strides, step = [0] * len(sizes), 1
    for dim in order:
        strides[dim] = step
        step *= max(sizes[dim], 1)
    return TensorMeta.contiguous(sizes, local.dtype).stride if local.is_contiguous() else tuple(strides)


class _FromTorchTensor(Function):
    """The whole tensor of parts; backward: this process's part of its gradient."""

    @staticmethod
    def forward(ctx: Any, local: Any, spec: DTensorSpec, run_check: bool, grads: Any) -> Any:
        ctx.spec, ctx.grads = spec, grads
        if run_check:
            local = local.contiguous().clone()
            for mesh_dim, one in enumerate(spec.placements):
                if one.is_replicate():
                    dist.broadcast(local, group=spec.mesh.get_group(mesh_dim), group_src=0)
        return DTensor(local.view_as(local).detach(), spec)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        wanted = ctx.grads or _gradient_placements(ctx.spec.placements)
        return redistributed(grad._local_tensor, grad._spec, wanted), None, None, None


class _ToTorchTensor(Function):
    """This process's part; backward: the tensor whose parts the gradients are."""

    @staticmethod
    def forward(ctx: Any, tensor: Any, grads: Any) -> Any:
        ctx.spec, ctx.grads = tensor._spec, grads
        return tensor._local_tensor.view_as(tensor._local_tensor)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        meta = TensorMeta(ctx.spec.shape, ctx.spec.tensor_meta.stride, grad.dtype)
        placements = ctx.grads or _gradient_placements(ctx.spec.placements)
        return DTensor(grad, DTensorSpec(ctx.spec.mesh, tuple(placements), meta)), None


class _Redistribute(Function):
    """The tensor, distributed in another way; backward: the gradient, as the tensor was."""

    @staticmethod
    def forward(ctx: Any, tensor: Any, placements: Any, forward_dtype: Any, backward_dtype: Any) -> Any:
        ctx.spec, ctx.dtype, ctx.sent = tensor._spec, tensor.dtype, backward_dtype
        local = tensor._local_tensor
        if forward_dtype is not None and forward_dtype != tensor.dtype:
            local = redistributed(local.to(forward_dtype), tensor._spec, placements).to(tensor.dtype)
        else:
            local = redistributed(local, tensor._spec, placements)
        if local is tensor._local_tensor:
            local = local.view_as(local)
        return DTensor(local, tensor._spec.with_placements(placements))

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        local, wanted = grad._local_tensor, _gradient_placements(ctx.spec.placements)
        if ctx.sent is not None:
            local = local.to(ctx.sent)
        local = redistributed(local, grad._spec, wanted).to(ctx.dtype)
        meta = TensorMeta(ctx.spec.shape, ctx.spec.tensor_meta.stride, ctx.dtype)
        return DTensor(local, DTensorSpec(ctx.spec.mesh, wanted, meta)), None, None, None


def distribute_tensor(
    tensor: Any,
    device_mesh: DeviceMesh | None = None,
    placements: Sequence[Placement] | None = None,
    *,
    src_data_rank: int | None = 0,
) -> DTensor:
    """Distribute a tensor over the processes of a mesh, which all call this.

    Args:
        tensor: the whole tensor: a leaf, such as a parameter.
        device_mesh: the processes; the mesh entered by `with` if None.
        placements: one for each dimension of the mesh; replicated if None.
        src_data_rank: number, in each group of the mesh, of the process whose values are distributed; None if each
            process takes its part of its own values, without communication.

    Raises:
        ValueError: if there is not a placement for each dimension of the mesh, or the tensor is distributed otherwise.
        RuntimeError: if `tensor` is no leaf.
    """
    mesh = _mesh_or_current(device_mesh)
    given = [Replicate()] * mesh.ndim if placements is None else placements
    if isinstance(tensor, DTensor):
        found = normalized(given, tensor.dim(), mesh.ndim)
        if tensor.device_mesh != mesh:
            raise ValueError(
                f"Cannot distribute a DTensor with device mesh {tensor.device_mesh} to a different device mesh {mesh}."
            )
        if tensor.placements != found:
            raise ValueError(
                f"Cannot distribute a DTensor with placements {tensor.placements} to a different placements "
                f"{placements}. do you want to call `redistribute` instead?"
            )
        return tensor
    if not tensor.is_leaf:
        raise RuntimeError("`distribute_tensor` should be used to distribute leaf tensors! but found non-leaf tensor!")
    found = normalized(given, tensor.dim(), mesh.ndim)
    spec = DTensorSpec(mesh, found, TensorMeta.of(tensor))
    local = tensor.detach()
    if mesh.get_coordinate() is None:
        local = local.new_empty(0)
    else:
        for mesh_dim, one in enumerate(found):
            local = _part(local, one, mesh, mesh_dim, src_data_rank)
    return DTensor(local, spec, requires_grad=tensor.requires_grad)


def _part(local: Any, placement: Placement, mesh: DeviceMesh, mesh_dim: int, source: int | None) -> Any:
    """Return a process's part of a tensor along one dimension of a mesh, with values of the process `source`."""
    size, rank, group = mesh.size(mesh_dim), mesh.get_local_rank(mesh_dim), mesh.get_group(mesh_dim)
    if isinstance(placement, Shard):
        lengths = [placement.local_shard_size_and_offset(local.shape[placement.dim], size, one) for one in range(size)]
        length, start = lengths[rank]
        if source is None:
            return local.narrow(placement.dim, start, length).clone(memory_format=gl.contiguous_format)
        longest = lengths[0][0]
        own = local.new_empty([longest if dim == placement.dim else n for dim, n in enumerate(local.shape)])
        parts = None
        if rank == source:
            parts = [gl.zeros_like(own) for _ in lengths]
            for part, (count, first) in zip(parts, lengths, strict=True):
                part.narrow(placement.dim, 0, count).copy_(local.narrow(placement.dim, first, count))
        dist.scatter(own, parts, group=group, group_src=source)
        return own.narrow(placement.dim, 0, length).contiguous()
    if source is not None:
        local = local.clone(memory_format=gl.contiguous_format)
        dist.broadcast(local, group=group, group_src=source)
    if isinstance(placement, Partial) and placement.reduce_op == "sum" and rank:
        return gl.zeros_like(local)
    return local


def distribute_module(
    module: Any,
    device_mesh: DeviceMesh | None = None,
    partition_fn: Callable[..., None] | None = None,
    input_fn: Callable[..., Any] | None = None,
    output_fn: Callable[..., Any] | None = None,
) -> Any:
    """Make the parameters and buffers of a module distributed tensors, in place, and return the module.

    Args:
        module: the module.
        device_mesh: the processes; the mesh entered by `with` if None.
        partition_fn: called with the name of each module inside (as `named_modules` gives it), the module and the mesh;
            distributes its parameters. What is left is replicated.
        input_fn: called with module, inputs and mesh before each forward pass; returns the inputs.
        output_fn: called with module, outputs and mesh after it; returns the outputs.

    Raises:
        RuntimeError: if this was called for the module before.
    """
    mesh = _mesh_or_current(device_mesh)
    if getattr(module, "_distribute_module_applied", False):
        raise RuntimeError(
            "distribute_module should only be called once on a module, but it has already been called on this module!"
        )
    for name, part in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, part, mesh)
        _replicate(part, mesh)
    if input_fn is not None:
        module.register_forward_pre_hook(lambda one, inputs: input_fn(one, inputs, mesh))
    if output_fn is not None:
        module.register_forward_hook(lambda one, inputs, outputs: output_fn(one, outputs, mesh))
    module._distribute_module_applied = True
    return module


def _replicate(module: Any, mesh: DeviceMesh) -> None:
    for name, parameter in module._parameters.items():
        if parameter is not None and not isinstance(parameter, DTensor):
            whole = distribute_tensor(parameter.detach(), mesh)
            module.register_parameter(name, gl.nn.Parameter(whole, parameter.requires_grad))
    for name, buffer in module._buffers.items():
        if buffer is not None and not isinstance(buffer, DTensor):
            module._buffers[name] = distribute_tensor(buffer, mesh)
