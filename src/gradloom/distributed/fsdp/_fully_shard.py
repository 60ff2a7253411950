"""fully_shard: distribute a module's parameters, and gather them while it computes.

Zhao et al., "PyTorch FSDP: Experiences on Scaling Fully Sharded Data Parallel", VLDB 2023; the names are those of
torch.distributed.fsdp.fully_shard.

Note [Sharded modules]
Each module that `fully_shard` was called on has a group of parameters: its own and those of the modules below it that
have no group. Before its forward pass the group is gathered, and the next one, in the order of the first pass, is
started; after it the parameters are given back. The backward pass gathers again when the gradient of the module's
output comes, in the opposite order. With the last gradient of a group, the gradients are reduced and scattered. What
did not get all gradients by the end of the pass is finished then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any

import gradloom as gl

from ...core.engine import queue_callback
from ...dispatch.state import state as dispatch
from ...nn.modules.module import Module
from ...utils._pytree import tree_leaves, tree_map
from .. import distributed_c10d as dist
from ..device_mesh import DeviceMesh, init_device_mesh
from ._group import Place, ShardGroup

__all__ = [
    "CPUOffloadPolicy",
    "FSDPModule",
    "MixedPrecisionPolicy",
    "OffloadPolicy",
    "UnshardHandle",
    "fully_shard",
    "register_fsdp_forward_method",
]


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """The dtypes in which a sharded module computes and communicates.

    Attributes:
        param_dtype: of gathered parameters; None for that of the shards.
        reduce_dtype: in which gradients are reduced; None for `param_dtype`.
        output_dtype: to which floating-point outputs of `forward` are converted; None leaves them.
        cast_forward_inputs: convert floating-point inputs of `forward` to `param_dtype`.
    """

    param_dtype: Any = None
    reduce_dtype: Any = None
    output_dtype: Any = None
    cast_forward_inputs: bool = True


@dataclass
class OffloadPolicy:
    """Where shards are: on the device of the module."""


@dataclass
class CPUOffloadPolicy(OffloadPolicy):
    """Shards are on the CPU, where they are anyway.

    Attributes:
        pin_memory: has no effect.
    """

    pin_memory: bool = True


class UnshardHandle:
    """What `unshard(async_op=True)` returns."""

    def __init__(self, state: _State) -> None:
        self._state = state

    def wait(self) -> None:
        """Wait until the parameters are gathered."""
        self._state.gather()


class GradientReductionHandle:
    """What `finalize_backward(async_op=True)` returns."""

    def wait(self) -> None:
        """Do nothing: the gradients are reduced."""


class _State:
    """What a sharded module needs: its group, if it has parameters, and its neighbours in the order of computation."""

    def __init__(
        self, module: Module, groups: list[ShardGroup], policy: MixedPrecisionPolicy, reshard: bool | None
    ) -> None:
        self.module, self.groups, self.policy = module, groups, policy
        self.reshard_after_forward = reshard
        self.root: _State | None = None
        self.order: list[_State] = []  # of the root: states in the order of their first forward pass
        self.position = -1
        self.to_prefetch_forward: list[_State] | None = None
        self.to_prefetch_backward: list[_State] | None = None
        self.in_backward = self.callback_queued = False
        self.manual = False  # of the root: whether the program ends backward passes
        self.finished: set[int] = set()
        for group in groups:
            group.on_last_gradient = partial(self._finish_group, group)

    # --- gathering

    def gather(self) -> None:
        for group in self.groups:
            group.gather()

    def start_gathering(self) -> None:
        for group in self.groups:
            group.start_gathering()

    def release(self) -> None:
        for group in self.groups:
            group.release()

    # --- forward

    def before_forward(self, module: Module, args: Any, kwargs: Any) -> Any:
        if self.root is None:
            self._become_root()
        root = self.root
        assert root is not None
        if root is self and dispatch.graph_task is None:  # the last backward pass may have ended by an exception
            self.callback_queued = False
            for state in self.order:
                state.in_backward = False
        if self.position < 0:
            self.position = len(root.order)
            root.order.append(self)
        self.gather()
        for state in self._next(1, self.to_prefetch_forward):
            state.start_gathering()
        if self.policy.param_dtype is not None and self.policy.cast_forward_inputs:
            args, kwargs = tree_map(partial(_cast, self.policy.param_dtype), (args, kwargs))
        return args, kwargs

    def _become_root(self) -> None:
        """Let the modules below know that this one is called first."""
        for part in self.module.modules():
            state = getattr(part, "_fsdp_state", None)
            if state is not None:
                state.root = self
                if state.reshard_after_forward is None:
                    state.reshard_after_forward = state is not self

    def _next(self, step: int, given: list[_State] | None) -> list[_State]:
        if given is not None:
            return given
        assert self.root is not None
        place = self.position + step
        return [self.root.order[place]] if 0 <= place < len(self.root.order) else []

    def after_forward(self, module: Module, args: Any, output: Any) -> Any:
        if self.policy.output_dtype is not None:
            output = tree_map(partial(_cast, self.policy.output_dtype), output)
        if gl.is_grad_enabled():
            for leaf in tree_leaves(output):
                if isinstance(leaf, gl.Tensor) and leaf.requires_grad:
                    leaf.register_hook(self._before_backward)
        # Between forward passes of a checkpointed part, the backward pass goes on with the parameters.
        if self.reshard_after_forward and not self.in_backward:
            self.release()
        return output

    # --- backward

    def _before_backward(self, grad: Any) -> None:
        root = self.root
        assert root is not None
        if not self.in_backward:
            self.in_backward = True
            self.finished.clear()
            for group in self.groups:
                group.expect()
            if not root.callback_queued:
                root.callback_queued = True
                if not root.manual:
                    queue_callback(root.finish_backward)
        self.gather()
        for state in self._next(-1, self.to_prefetch_backward):
            state.start_gathering()

    def _finish_group(self, group: ShardGroup) -> None:
        if self.in_backward and id(group) not in self.finished:
            self.finished.add(id(group))
            if group.syncs:
                group.reduce()
            if group.reshards:
                group.release()

    def finish_backward(self) -> None:
        """Finish what did not get all gradients: the end of the outermost backward pass."""
        self.callback_queued = False
        for state in reversed(self.order):
            if state.in_backward:
                for group in state.groups:
                    state._finish_group(group)
                state.in_backward = False
            for group in state.groups:
                if group._work is not None:
                    group.release()


def _cast(dtype: Any, value: Any) -> Any:
    return value.to(dtype) if isinstance(value, gl.Tensor) and value.is_floating_point() else value


class FSDPModule:
    """What a module is in addition, after `fully_shard`."""

    _fsdp_state: _State

    def _states(self, recurse: bool = True) -> list[_State]:
        if not recurse:
            return [self._fsdp_state]
        return [part._fsdp_state for part in self.modules() if isinstance(part, FSDPModule)]  # type: ignore[attr-defined]

    def _groups(self, recurse: bool) -> list[Any]:
        return [group for state in self._states(recurse) for group in state.groups]

    def unshard(self, async_op: bool = False) -> UnshardHandle | None:
        """Gather the parameters of this module.

        Args:
            async_op: return a handle to wait for, rather than wait.
        """
        if async_op:
            self._fsdp_state.start_gathering()
            return UnshardHandle(self._fsdp_state)
        self._fsdp_state.gather()
        return None

    def reshard(self) -> None:
        """Replace the gathered parameters of this module by shards."""
        self._fsdp_state.release()

    def set_requires_gradient_sync(self, requires_gradient_sync: bool, *, recurse: bool = True) -> None:
        """Set whether backward passes reduce gradients; those that do not add to the gradients of whole parameters.

        Args:
            requires_gradient_sync: whether they do.
            recurse: set it for the modules below, too.
        """
        for group in self._groups(recurse):
            group.syncs = requires_gradient_sync

    def set_requires_all_reduce(self, requires_all_reduce: bool, *, recurse: bool = True) -> None:
        """Set whether backward passes reduce gradients over the dimension of a mesh that has copies, too.

        Gradients of passes that do not are kept, and added to those of the next pass that does.

        Args:
            requires_all_reduce: whether they do.
            recurse: set it for the modules below, too.
        """
        for group in self._groups(recurse):
            group.syncs_copies = requires_all_reduce

    def _apply(self, *args: Any, **options: Any) -> Any:
        groups = self._groups(recurse=False)
        for group in groups:
            group.release()
        found = super()._apply(*args, **options)  # type: ignore[misc]
        for group in groups:
            group.adopt()
        return found

    def set_is_last_backward(self, is_last_backward: bool) -> None:
        """Do nothing: every backward pass ends when its gradients are there.

        Args:
            is_last_backward: has no effect.
        """

    def set_manual_backward_finalization(self, enabled: bool) -> None:
        """Set whether the program ends backward passes, by `finalize_backward`.

        Raises RuntimeError for a module that another one calls, and within a backward pass.
        """
        state = self._fsdp_state
        if state.root not in (None, state):
            raise RuntimeError("set_manual_backward_finalization must be called on the root FSDP module")
        if enabled != state.manual and state.callback_queued:
            raise RuntimeError("set_manual_backward_finalization cannot change mode after backward starts")
        state.manual = enabled

    def finalize_backward(self, *, async_op: bool = False) -> GradientReductionHandle | None:
        """Reduce what did not get all its gradients, and give parameters back: the end of backward passes.

        Args:
            async_op: return a handle; there is nothing to wait for.
        """
        self._fsdp_state.finish_backward()
        return GradientReductionHandle() if async_op else None

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True) -> None:
        """Set whether parameters are given back after each forward pass.

        Args:
            reshard_after_forward: whether they are.
            recurse: set it for the modules below, too.
        """
        for state in self._states(recurse):
            state.reshard_after_forward = reshard_after_forward

    def set_reshard_after_backward(self, reshard_after_backward: bool, *, recurse: bool = True) -> None:
        """Set whether parameters are given back after each backward pass.

        Args:
            reshard_after_backward: whether they are.
            recurse: set it for the modules below, too.
        """
        for group in self._groups(recurse):
            group.reshards = reshard_after_backward

    def set_modules_to_forward_prefetch(self, modules: list[FSDPModule]) -> None:
        """Set the modules that are gathered while this one computes forward, instead of the next one."""
        self._fsdp_state.to_prefetch_forward = [module._fsdp_state for module in modules]

    def set_modules_to_backward_prefetch(self, modules: list[FSDPModule]) -> None:
        """Set the modules that are gathered while this one computes backward, instead of the one before."""
        self._fsdp_state.to_prefetch_backward = [module._fsdp_state for module in modules]

    def set_gradient_divide_factor(self, factor: float) -> None:
        """Set by what summed gradients are divided, instead of the number of ranks."""
        for group in self._fsdp_state.groups:
            group.divisor = factor

    set_reduce_scatter_divide_factor = set_gradient_divide_factor


def fully_shard(
    module: Any,
    *,
    mesh: Any = None,
    reshard_after_forward: bool | int | None = None,
    shard_placement_fn: Callable[[Any], Any] | None = None,
    mp_policy: MixedPrecisionPolicy = MixedPrecisionPolicy(),
    offload_policy: OffloadPolicy | None = None,
    ignored_params: set[Any] | None = None,
    dp_mesh_dims: Any = None,
) -> Any:
    """Distribute the parameters of a module over ranks, in place, and return the module.

    Each rank keeps some rows of each parameter, and so does an optimizer that is made afterwards. Call this for the
    blocks of a model first and then for the model: what is gathered at a time are the parameters of one call.

    Args:
        module: a module, or a list of modules that compute one after the other. Its parameters are replaced by shards,
            and its class by one that is derived from it and from FSDPModule. The parameters must be the same on all
            ranks.
        mesh: the ranks: of one dimension, over which the parameters are divided, or of two with names, of which the
            first has copies. All ranks of the default group by default. Parameters that `parallelize_module` has
            distributed over another part of the same mesh are divided once more.
        reshard_after_forward: give gathered parameters back after the forward pass, and gather them again for the
            backward pass; by default, for all but the first module that is called.
        shard_placement_fn: takes a parameter and returns the `Shard(dim)` to distribute it by, or None for Shard(0).
        mp_policy: dtypes.
        offload_policy: has no effect on a CPU.
        ignored_params: parameters that stay whole, and whose gradients are not reduced.
        dp_mesh_dims: None.

    Raises:
        ValueError: for a container without `forward`, a mesh of more than two dimensions, or a parameter without
            dimensions.
        NotImplementedError: for resharding to fewer ranks, `dp_mesh_dims`, or a dimension other than the first that
            the ranks do not divide evenly.
    """
    modules = list(module) if isinstance(module, (list, tuple)) else [module]
    for one in modules:
        if isinstance(one, (gl.nn.ModuleList, gl.nn.ModuleDict)):
            raise ValueError(f"fully_shard does not support containers that do not implement forward: {one}")
        if isinstance(one, FSDPModule):
            raise RuntimeError("fully_shard has already been applied to this module")
    if dp_mesh_dims is not None:
        raise NotImplementedError("fully_shard has no dp_mesh_dims yet: pass the part of the mesh as `mesh`")
    if isinstance(reshard_after_forward, int) and not isinstance(reshard_after_forward, bool):
        raise NotImplementedError("fully_shard reshards to all ranks or not at all: pass True or False")
    if mesh is None:
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    _check(mesh)
    found = _unsharded_parameters(modules, {id(one) for one in ignored_params or ()})
    by_kind: dict[Any, list[tuple[Place, Any]]] = {}
    for place, parameter in found:
        placement = shard_placement_fn(parameter) if shard_placement_fn is not None else None
        place.dim = 0 if placement is None else placement.dim
        by_kind.setdefault(parameter.dtype, []).append((place, parameter))
    groups = [ShardGroup(part, mesh, mp_policy.param_dtype, mp_policy.reduce_dtype) for part in by_kind.values()]
    state = _State(modules[0], groups, mp_policy, reshard_after_forward)
    for one in modules:
        cls = type(one)
        one.__class__ = type(f"FSDP{cls.__name__}", (FSDPModule, cls), {"__module__": cls.__module__})
        one._fsdp_state = state
        one.register_state_dict_pre_hook(_reshard)
        one._register_load_state_dict_pre_hook(_reshard, with_module=True)
        one.register_load_state_dict_post_hook(_adopt)
    modules[0].register_forward_pre_hook(state.before_forward, prepend=True, with_kwargs=True)
    modules[-1].register_forward_hook(state.after_forward, prepend=False)
    return module


def _check(mesh: DeviceMesh) -> None:
    if mesh.ndim not in (1, 2):
        raise ValueError(f"fully_shard expects a 1D or 2D DeviceMesh but got {mesh}")
    if mesh.ndim == 2 and mesh.mesh_dim_names is None:
        raise AssertionError("Please init the 2D mesh for HSDP with mesh_dim_names specified")


def _unsharded_parameters(modules: list[Module], ignored: set[int]) -> list[tuple[Place, Any]]:
    """Return the parameters below modules that no call of `fully_shard` took yet, with all places of each."""
    taken = set(ignored)
    for module in modules:
        for part in module.modules():
            if isinstance(part, FSDPModule):
                taken.update(id(shard) for group in part._fsdp_state.groups for shard in group.shards)
    found: dict[int, tuple[Place, Any]] = {}
    for module in modules:
        for prefix, part in module.named_modules():
            for name, parameter in part._parameters.items():
                if parameter is None or id(parameter) in taken:
                    continue
                place, _ = found.setdefault(id(parameter), (Place(f"{prefix}.{name}" if prefix else name), parameter))
                place.uses.append((part, name))
    return list(found.values())


def _reshard(module: Any, *rest: Any) -> None:
    """Let a state_dict see the shards: a hook before `state_dict` and `load_state_dict`."""
    for group in module._fsdp_state.groups:
        group.release()


def _adopt(module: Any, incompatible_keys: Any) -> None:
    """Take the parameters that a state_dict was assigned to: a hook after `load_state_dict`."""
    for group in module._fsdp_state.groups:
        group.adopt()


def register_fsdp_forward_method(module: Any, method_name: str) -> None:
    """Let another method of a sharded module gather its parameters as `forward` does.

    Args:
        module: a sharded module; of others, nothing changes.
        method_name: name of the method.
    """
    if not isinstance(module, FSDPModule):
        return
    method = getattr(module, method_name)
    state = module._fsdp_state

    @wraps(method)
    def gathering(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = state.before_forward(module, args, kwargs)  # type: ignore[arg-type]
        return state.after_forward(module, args, method(*args, **kwargs))  # type: ignore[arg-type]

    setattr(module, method_name, gathering)
