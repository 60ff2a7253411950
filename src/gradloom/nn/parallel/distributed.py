"""DistributedDataParallel: a module whose gradients are averaged over processes during the backward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

import gradloom as gl

from ...autograd.function import Function
from ...core.engine import queue_callback
from ...core.tensor import wrap
from ...distributed import distributed_c10d as dist
from ...distributed._reducer import FIRST_BUCKET, Reducer
from ...distributed._reduction_log import describe, dump_environment as _dump_DDP_relevant_env_vars
from ...distributed._same_parameters import check_same_parameters
from ...distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook, compress_wrapper, fp16_compress_hook
from ...distributed.algorithms.join import Join, Joinable, JoinHook
from ...utils._pytree import tree_map
from ..modules.module import Module
from ..modules.sparse import Embedding, EmbeddingBag
from ._mixed_precision import _MixedPrecision, cast_buffers, run as _run_cast

__all__ = ["DistributedDataParallel", "_MixedPrecision", "_dump_DDP_relevant_env_vars"]

_DEFAULT_BUCKET_CAP_MB, _MB_TO_BYTES = 25, 1 << 20


class DistributedDataParallel(Module, Joinable):
    """Average the gradients of a module over the ranks of a process group, while the backward pass computes them.

    Every rank makes the same module, wraps it, and feeds it with its own part of the batch. The parameters start as
    those of rank 0. After `backward` the gradients of all ranks are the same: the mean of what the ranks computed.

    Args:
        module: with parameters on the CPU. Its parameters have the prefix `module.` in state_dict.
        device_ids: None or empty, since the parameters are on the CPU.
        output_device: None.
        dim: the batch dimension; has no effect.
        broadcast_buffers: send rank 0's buffers to the others when the object is made and before each forward pass;
            True by default.
        init_sync: compare the ranks' parameters, and send rank 0's parameters and buffers when the object is made.
        process_group: whose ranks to average over; the default group by default.
        bucket_cap_mb: MiB after which a bucket of gradients, reduced by one call, is full; 25 by default, with 1 for
            the first.
        find_unused_parameters: look through the graph of each forward pass for parameters that take no part.
        check_reduction: has no effect, as in PyTorch.
        gradient_as_bucket_view: let `.grad` be the memory that is reduced, which saves a copy.
        static_graph: every pass uses the same parameters, as often. Allows parts that are checkpointed and share
            parameters.
        delay_all_reduce_named_params, param_to_hook_all_reduce: None; PyTorch's private options.
        mixed_precision: a `_MixedPrecision`, with the dtypes of parameters, reduction and buffers; None to keep them.
        device_mesh: a mesh of one dimension, instead of `process_group`.
        skip_all_reduce_unused_params: with `find_unused_parameters`, do not ask which parameters other ranks used:
            all ranks use the same.
        bucket_cap_mb_list: MiB of each bucket, instead of `bucket_cap_mb`.
        batched_grad_copy: has no effect: gradients are copied when they come.
        forward_sync_buffers: as `broadcast_buffers`, but for forward passes only: buffers are sent once in any case.
        lazy_bucket_allocation: has no effect.

    Shape:
        input, output: as for `module`.

    Raises:
        RuntimeError: if no parameter requires a gradient, or ranks have different parameters; from `forward`, if some
            parameters got no gradient in the pass before.
        ValueError: for devices, or if both a group and a mesh are given.
    """

    _active_ddp_module: Any = None
    module: Module
    process_group: Any
    dim: int
    device: gl.device
    device_type: str
    output_device: None
    broadcast_buffers: bool
    find_unused_parameters: bool
    gradient_as_bucket_view: bool
    static_graph: bool
    require_backward_grad_sync: bool
    require_forward_param_sync: bool
    parameters_to_ignore: set[str]
    bucket_bytes_cap_default: bool
    bucket_bytes_cap: int
    reducer: Reducer
    modules_buffers: list[Any]
    named_module_buffers: dict[str, Any]

    def __init__(
        self,
        module: Module,
        device_ids: Sequence[Any] | None = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool | None = None,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        delay_all_reduce_named_params: Any = None,
        param_to_hook_all_reduce: Any = None,
        mixed_precision: Any = None,
        device_mesh: Any = None,
        skip_all_reduce_unused_params: bool = False,
        bucket_cap_mb_list: Sequence[float] | None = None,
        batched_grad_copy: bool = False,
        forward_sync_buffers: bool | None = None,
        lazy_bucket_allocation: bool = False,
    ) -> None:
        super().__init__()
        Joinable.__init__(self)
        if delay_all_reduce_named_params is not None or param_to_hook_all_reduce is not None:
            raise NotImplementedError("DistributedDataParallel does not delay the reduction of single parameters")
        if process_group is not None and device_mesh is not None:
            raise RuntimeError("Cannot specify both process_group and device_mesh arguments.")
        if device_mesh is not None:
            if device_mesh.ndim != 1:
                raise RuntimeError(f"Only 1D device mesh is supported, but got {device_mesh}.")
            process_group = device_mesh.get_group(mesh_dim=0)
        sends_buffers = forward_sync_buffers is not None or broadcast_buffers is not False
        if forward_sync_buffers is not None:
            broadcast_buffers = forward_sync_buffers
        elif broadcast_buffers is None:
            broadcast_buffers = True
        self.process_group = dist._get_default_group() if process_group is None else process_group
        self.module, self.dim, self.device, self.device_type = module, dim, gl.device("cpu"), "cpu"
        self.device_ids: list[Any] | None = None
        self.output_device = None
        self.broadcast_buffers, self.find_unused_parameters = broadcast_buffers, find_unused_parameters
        self.gradient_as_bucket_view, self.static_graph = gradient_as_bucket_view, static_graph
        self.require_backward_grad_sync = self.require_forward_param_sync = True
        self.mixed_precision: _MixedPrecision | None = mixed_precision
        self.parameters_to_ignore = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        self._skip_unused = skip_all_reduce_unused_params
        self.bucket_bytes_cap_default = bucket_cap_mb is None and bucket_cap_mb_list is None
        self.bucket_bytes_cap = int((_DEFAULT_BUCKET_CAP_MB if bucket_cap_mb is None else bucket_cap_mb) * _MB_TO_BYTES)
        self._limits = [*([FIRST_BUCKET] if self.bucket_bytes_cap_default else []), self.bucket_bytes_cap]
        if bucket_cap_mb_list is not None:
            self._limits = [int(size * _MB_TO_BYTES) for size in bucket_cap_mb_list]
        self._comm_hooks: list[tuple[Any, Any]] = []
        self._divide_by_initial_world_size = True
        if init_sync:
            check_same_parameters(module, self.parameters_to_ignore, self.process_group)
        named, sparse = self._reduced_parameters()
        distributed = next((name for name, parameter in named if hasattr(parameter, "_local_tensor")), None)
        if distributed is not None:
            raise NotImplementedError(
                f"DistributedDataParallel takes no DTensors yet, and the parameter {distributed} is one: use "
                "fully_shard(module, mesh=...) with the part of the mesh that parallelize_module has left"
            )
        self._check_devices(named, device_ids, output_device)
        self._module_parameters = [parameter for _, parameter in named]
        if init_sync:
            self._broadcast([*self._kept("parameters"), *(self._kept("buffers") if sends_buffers else ())], 0)
        if mixed_precision is not None and mixed_precision.buffer_dtype is not None:
            cast_buffers(module, mixed_precision.buffer_dtype, self.parameters_to_ignore)
        self._find_buffers()
        self._make_reducer(named, sparse)

    def _reduced_parameters(self) -> tuple[list[tuple[str, Any]], list[bool]]:
        """Return the parameters to reduce, by name, and whether their gradients are sparse."""
        named: dict[int, tuple[str, Any]] = {}
        sparse: dict[int, bool] = {}
        for prefix, part in self.module.named_modules():
            for name, parameter in part.named_parameters(recurse=False):
                full = f"{prefix}.{name}" if prefix else name
                if not parameter.requires_grad or full in self.parameters_to_ignore:
                    continue
                named.setdefault(id(parameter), (full, parameter))
                is_sparse = isinstance(part, (Embedding, EmbeddingBag)) and part.sparse
                sparse[id(parameter)] = sparse.get(id(parameter), False) or is_sparse
        if not named:
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameter that requires a "
                "gradient."
            )
        return list(named.values()), [sparse[key] for key in named]

    def _check_devices(self, named: list[tuple[str, Any]], device_ids: Any, output_device: Any) -> None:
        for name, parameter in named:
            if isinstance(parameter, gl.nn.parameter.UninitializedParameter):
                raise RuntimeError(
                    "Modules with uninitialized parameters can't be used with `DistributedDataParallel`. Run a dummy "
                    "forward pass to correctly initialize the modules"
                )
            if parameter.device.type != "cpu":
                raise ValueError(
                    f"DistributedDataParallel reduces gradients on the CPU; {name} is on {parameter.device}"
                )
        if device_ids or output_device is not None:
            raise ValueError(
                "DistributedDataParallel device_ids and output_device arguments only work with modules on a GPU, but "
                f"got device_ids {device_ids}, output_device {output_device}, and module parameters on the CPU. Leave "
                "them out"
            )

    def _make_reducer(self, named: list[tuple[str, Any]], sparse: list[bool]) -> None:
        self._named = named, sparse
        self.reducer = Reducer(
            named,
            sparse,
            self.process_group,
            self._limits,
            find_unused=self.find_unused_parameters,
            static=self.static_graph,
            as_view=self.gradient_as_bucket_view,
            skip_unused=self._skip_unused,
        )
        self._set_divisor_of_batchnorms()
        self._set_reduced_dtype()

    def _set_reduced_dtype(self) -> None:
        """Let gradients be reduced in the dtype that `mixed_precision` names."""
        precision = self.mixed_precision
        if precision is not None and (dtype := precision.reduce_dtype or precision.param_dtype) is not None:
            state, hook = self.reducer.hook or (self.process_group, allreduce_hook)
            self.reducer.hook = state, compress_wrapper(dtype, hook)

    def _set_divisor_of_batchnorms(self) -> None:
        for part in self.module.modules():
            if isinstance(part, gl.nn.SyncBatchNorm) and part.process_group is None:
                part._ddp_group = self.process_group

    # --- parameters and buffers -----------------------------------------------------------------------------------

    def _kept(self, kind: str) -> list[Any]:
        named = getattr(self.module, f"named_{kind}")()
        return [value for name, value in named if name not in self.parameters_to_ignore]

    def _find_buffers(self) -> None:
        self.modules_buffers = self._kept("buffers")
        self.named_module_buffers = dict(self.module.named_buffers())

    def _broadcast(self, tensors: Sequence[Any], root: int) -> None:
        """Send tensors of root to the others by one call, as bytes."""
        arrays = [tensor.detach().resolve_conj()._array for tensor in tensors]
        if not arrays:
            return
        flat = np.concatenate([np.ascontiguousarray(array).reshape(-1).view(np.uint8) for array in arrays])
        dist.broadcast(wrap(flat), group=self.process_group, group_src=root)
        if dist.get_rank(self.process_group) == root:
            return
        start = 0
        with gl.no_grad():
            for tensor, array in zip(tensors, arrays, strict=True):
                end = start + array.nbytes
                tensor.copy_(wrap(flat[start:end].view(array.dtype).reshape(array.shape)))
                start = end

    def will_sync_module_buffers(self) -> bool:
        """Return whether the next forward pass begins with rank 0's buffers."""
        return self.require_forward_param_sync and self.broadcast_buffers and bool(self.modules_buffers)

    def _sync_buffers(self) -> None:
        root = 0
        if self._join_config.enable:  # rank 0 may have no inputs left: the last rank that has is asked
            rank = wrap(np.array([dist.get_rank(self.process_group)], np.int64))
            dist.all_reduce(rank, dist.ReduceOp.MAX, group=self.process_group)
            root = int(rank.item())
        self._find_buffers()
        self._broadcast(self.modules_buffers, root)

    def _sync_buffers_of_others(self) -> None:
        """Take part in `_sync_buffers` without inputs."""
        if self.will_sync_module_buffers():
            rank = wrap(np.array([-1], np.int64))
            dist.all_reduce(rank, dist.ReduceOp.MAX, group=self.process_group)
            self._broadcast(self.modules_buffers, int(rank.item()))

    # --- passes ---------------------------------------------------------------------------------------------------

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Return the module's result, and expect its backward pass."""
        reduces = gl.is_grad_enabled() and self.require_backward_grad_sync
        if reduces:
            self.reducer.check_finished()
            self.reducer.times = self.reducer.log.begin()
        work = Join.notify_join_context(self)
        if work is not None and not self._divide_by_initial_world_size:
            work.wait()
            self.reducer.divisor = int(work.result()[0].item())
        if self._join_config.enable:
            self._any_reduces(True)
        if self.will_sync_module_buffers():
            self._sync_buffers()
        output = self._run(inputs, kwargs)
        self.require_forward_param_sync = reduces
        if reduces:
            self.reducer.prepare(output)
            if self.reducer.counts_uses:
                return tree_map(partial(_ending, self.reducer), output)
        return output

    def _run(self, inputs: Any, kwargs: Any) -> Any:
        DistributedDataParallel._active_ddp_module = self
        dtype = None if self.mixed_precision is None else self.mixed_precision.param_dtype
        try:
            if dtype is not None:
                return _run_cast(self.module, dtype, self.parameters_to_ignore, inputs, kwargs)
            return self.module(*inputs, **kwargs)
        finally:
            DistributedDataParallel._active_ddp_module = None

    @property
    def require_manual_backward_finalization(self) -> bool:
        """Whether the program ends each backward pass by `finalize_backward`; False at first. Set it between passes."""
        return self.reducer.manual

    @require_manual_backward_finalization.setter
    def require_manual_backward_finalization(self, required: bool) -> None:
        self.reducer.manual = required

    @property
    def should_finalize_after_backward(self) -> bool:
        """Whether `finalize_backward` must be called after backward has returned, not in one of its hooks: as long as
        buckets are rebuilt, and for `mixed_precision`."""
        will_rebuild = not self.reducer.rebuilt and (self.static_graph or not self.find_unused_parameters)
        return self.reducer.manual and (will_rebuild or self.mixed_precision is not None)

    def finalize_backward(self) -> None:
        """Wait for the reduction of gradients, and write them to the parameters.

        Raises RuntimeError unless `require_manual_backward_finalization` and all gradients of a pass are there.
        """
        self.reducer.finalize()

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Leave gradients as each rank computes them; the first pass after the context reduces what was accumulated."""
        former, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = former

    def train(self, mode: bool = True) -> DistributedDataParallel:
        """Set the mode of this module and of the one inside."""
        super().train(mode)
        return self

    def _set_static_graph(self) -> None:
        """Declare that every pass uses the same parameters; see `static_graph`.

        Raises:
            RuntimeError: after a forward pass.
        """
        if self.static_graph:
            return
        log = self.reducer.log
        if log.has_begun:
            text = "_set_static_graph() should be called before training loop starts, and after construction"
            raise log.failed(RuntimeError(text))
        self.static_graph = self.reducer.static = True

    def _remove_autograd_hooks(self) -> None:
        """Stop reducing gradients."""
        self.reducer.remove_hooks()

    def _check_reducer_finalized(self) -> None:
        self.reducer.check_finished()

    def _update_process_group(self, new_process_group: Any) -> None:
        """Reduce over another group from now on."""
        self.process_group = self.reducer.group = new_process_group
        self.reducer.divisor = new_process_group.size()

    # --- communication hooks --------------------------------------------------------------------------------------

    def register_comm_hook(self, state: object, hook: Callable[[Any, Any], Any]) -> None:
        """Let `hook(state, bucket)` reduce the gradients of each bucket, and return a future of the result.

        Args:
            state: passed to the hook; often the process group, or None for the default one.
            hook: starts the reduction of a GradBucket. It divides by the number of ranks itself.
        """
        if not callable(hook):
            raise TypeError("Communication hook must be callable.")
        if self._comm_hooks:
            raise RuntimeError("register_comm_hook or register_builtin_comm_hook can only be called once.")
        self._comm_hooks.append((hook, state))
        self.reducer.hook = state, hook
        self._set_reduced_dtype()

    def _register_builtin_comm_hook(self, comm_hook_type: Any) -> None:
        """Reduce gradients by a hook of `algorithms.ddp_comm_hooks.default_hooks`, named by a BuiltinCommHookType."""
        whole = comm_hook_type is dist.BuiltinCommHookType.ALLREDUCE
        self.register_comm_hook(self.process_group, allreduce_hook if whole else fp16_compress_hook)

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(module: Module, params_and_buffers_to_ignore: Any) -> None:
        """Name parameters and buffers, as in state_dict, that are neither reduced nor broadcast."""
        module._ddp_params_and_buffers_to_ignore = params_and_buffers_to_ignore

    def _get_ddp_logging_data(self) -> dict[str, Any]:
        """Return settings, buckets and times, by PyTorch's names; see `distributed._reduction_log.describe`."""
        return describe(self)

    def _set_ddp_runtime_logging_sample_rate(self, sample_rate: int) -> None:
        """Measure the times of one of so many passes, and of the first ten."""
        self.reducer.log.set_rate(sample_rate)

    # --- copies ---------------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        if self.process_group is not dist._get_default_group():
            raise RuntimeError(
                "DDP Pickling/Unpickling are only supported when using DDP with the default process group."
            )
        left_out = ("process_group", "reducer", "_named", "_comm_hooks")
        return {name: value for name, value in self.__dict__.items() if name not in left_out}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.process_group = dist._get_default_group()
        self._comm_hooks = []
        named, sparse = self._reduced_parameters()
        self._find_buffers()
        self._make_reducer(named, sparse)

    # --- uneven inputs --------------------------------------------------------------------------------------------

    def join(
        self, divide_by_initial_world_size: bool = True, enable: bool = True, throw_on_early_termination: bool = False
    ) -> Any:
        """Return a context in which ranks may have different numbers of inputs; see `algorithms.join.Join`.

        Args:
            divide_by_initial_world_size: average over all ranks of the group; else over those that have inputs.
            enable: False if all ranks are known to have as many inputs.
            throw_on_early_termination: raise on all ranks when the first has no more inputs.
        """
        return Join(
            [self], enable, throw_on_early_termination, divide_by_initial_world_size=divide_by_initial_world_size
        )

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """Return what takes part in the others' passes when this rank has no more inputs."""
        return _Matching(self, divide_by_initial_world_size=kwargs.get("divide_by_initial_world_size", True))

    @property
    def join_device(self) -> Any:
        """Return the device of the parameters."""
        return self.device

    @property
    def join_process_group(self) -> Any:
        """Return the process group."""
        return self.process_group

    def _any_reduces(self, has_inputs: bool) -> bool:
        """Return whether the ranks with inputs reduce gradients in this pass."""
        flag = wrap(np.array([has_inputs and self.require_backward_grad_sync], np.int64))
        dist.all_reduce(flag, group=self.process_group)
        return bool(flag.item())


class _End(Function):
    """Identity whose backward has the reducer finish at the end of the outermost backward pass."""

    @staticmethod
    def forward(ctx: Any, tensor: Any, reducer: Reducer) -> Any:
        ctx.reducer = reducer
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        if ctx.reducer.counts_uses and not ctx.reducer.is_ending:
            ctx.reducer.is_ending = True
            queue_callback(ctx.reducer.finish_first_static)
        return grad, None


def _ending(reducer: Reducer, value: Any) -> Any:
    return _End.apply(value, reducer) if isinstance(value, gl.Tensor) and value.requires_grad else value


class _Matching(JoinHook):
    """What a rank without inputs does while others have some."""

    def __init__(self, module: DistributedDataParallel, divide_by_initial_world_size: bool) -> None:
        self._module = module
        module._divide_by_initial_world_size = divide_by_initial_world_size

    def main_hook(self) -> None:
        """Match the calls of one pass of the others."""
        module = self._module
        reduces = module._any_reduces(False)
        module._sync_buffers_of_others()
        module.require_forward_param_sync = reduces
        if reduces:
            module.reducer.match()

    def post_hook(self, is_last_joiner: bool) -> None:
        """Take parameters and buffers over from a rank that had inputs to the end."""
        module = self._module
        rank = wrap(np.array([dist.get_rank(module.process_group) if is_last_joiner else -1], np.int64))
        dist.all_reduce(rank, dist.ReduceOp.MAX, group=module.process_group)
        module._broadcast([*module._kept("parameters"), *module._kept("buffers")], int(rank.item()))
        module.reducer.divisor = module.process_group.size()
