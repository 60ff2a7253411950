"""Names of PyTorch's C++ core that have a meaning here, for programs that import them from `torch._C`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from .._library.operator import _AutoDispatchBelowAutograd
from ..autograd.grad_mode import is_multithreading_enabled as _is_multithreading_enabled
from ..core import engine
from ..core.accumulate_grad import AccumulateGrad
from ..core.node import Node
from ..dispatch.state import ALL_DISABLED, ENABLED, disabled_torch_function as _disabled_torch_function_impl, state
from ..ops._schema import Argument, FunctionSchema, parse_schema
from ..python_dispatch.torch_function.handlers import DisableTorchFunction, DisableTorchFunctionSubclass
from . import _state

_GRAPHS = frozenset(("Block", "Graph", "Node", "Type", "Value"))  # classes of TorchScript's graphs, for annotations

if TYPE_CHECKING:
    from . import _autograd as _autograd, _functions as _functions, _functorch as _functorch, _profiler as _profiler

_MODULES = {"_autograd", "_functions", "_functorch", "_profiler"}
# Names resolved on first use -> (module, name there).
_LAZY = {
    **{
        name: (module, name)
        for module, names in {
            "gradloom._C._state": """
                _VariableFunctions _VariableFunctionsClass _WeakTensorRef _add_docstr _any_requires_grad
                _are_functorch_transforms_active
                _jit_override_can_fuse_on_cpu _jit_override_can_fuse_on_gpu _jit_set_profiling_executor
                _jit_set_profiling_mode _jit_set_texpr_fuser_enabled _fft _get_obj_in_tls
                _get_accelerator _get_default_device _get_privateuse1_backend_name _get_tracing_state _has_storage
                _is_fwd_grad_enabled
                _is_grad_layout_enforcement_enabled _is_key_in_tls _is_view_replay_enabled _linalg _log_api_usage_once
                _nn _remove_obj_from_tls _set_fwd_grad_enabled _set_grad_enabled _set_grad_layout_enforcement_enabled
                _set_multithreading_enabled _set_view_replay_enabled _special _stash_obj_in_tls
                """,
            "gradloom._C._dispatch_keys": "DispatchKey DispatchKeySet _ExcludeDispatchKeyGuard",
            "gradloom": """
                Generator Size Tag default_generator device dtype finfo iinfo is_anomaly_check_nan_enabled
                is_anomaly_enabled is_grad_enabled is_inference_mode_enabled layout memory_format set_anomaly_enabled
                """,
        }.items()
        for name in names.split()
    },
    "_DisableTorchDispatch": ("gradloom.dispatch.state", "DisableTorchDispatch"),
    "_disabled_torch_dispatch_impl": ("gradloom.dispatch.state", "disabled_torch_dispatch"),
    "_len_torch_dispatch_stack": ("gradloom.utils._python_dispatch", "_len_torch_dispatch_stack"),
    "StorageBase": ("gradloom.storage", "StorageBase"),
    "TensorBase": ("gradloom", "Tensor"),
    "_TensorMeta": ("gradloom._C._state", "_TensorMeta"),
    "_TensorBase": ("gradloom", "Tensor"),
    "_InferenceMode": ("gradloom", "inference_mode"),
    "_LinAlgError": ("gradloom.linalg", "LinAlgError"),
    "_increment_version": ("gradloom.autograd", "increment_version"),
    "_has_torch_function": ("gradloom.overrides", "has_torch_function"),
    "_has_torch_function_unary": ("gradloom.overrides", "has_torch_function_unary"),
    "_has_torch_function_variadic": ("gradloom.overrides", "has_torch_function_variadic"),
    "_FunctionBase": ("gradloom.autograd.function", "Function"),
    "_LegacyVariableBase": ("gradloom.autograd.variable", "Variable"),
    "_EngineBase": ("gradloom.autograd.variable", "ImperativeEngine"),
    "_ImperativeEngine": ("gradloom.autograd.variable", "ImperativeEngine"),
}

# Modules of operators, which an import finds, too: pickles name the operators by them.
sys.modules.update((space.__name__, space) for space in (_state._fft, _state._linalg, _state._nn, _state._special))

if not TYPE_CHECKING:

    def __getattr__(name):
        from importlib import import_module

        if name in _MODULES:
            return import_module(f"{__name__}.{name}")
        if name in _LAZY:
            module, attribute = _LAZY[name]
            found = globals()[name] = getattr(import_module(module), attribute)
            return found
        if name in _GRAPHS:
            refused = import_module("gradloom.utils._refused").refused
            found = globals()[name] = refused(
                f"torch._C.{name}", "gradloom has no TorchScript, so there are no graphs of it"
            )
            return found
        raise AttributeError(
            f"module 'gradloom._C' has no attribute '{name}': gradloom has no C++ core, only those of its "
            "names that have a meaning in Python"
        )


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES, *_LAZY})


__all__ = [
    "Argument",
    "DisableTorchFunction",
    "DisableTorchFunctionSubclass",
    "FunctionSchema",
    "_AutoDispatchBelowAutograd",
    "_current_autograd_node",
    "_current_graph_task_execution_order",
    "_current_graph_task_id",
    "_disabled_torch_function_impl",
    "_is_multithreading_enabled",
    "_is_torch_function_all_disabled",
    "_is_torch_function_enabled",
    "_is_torch_function_mode_enabled",
    "_len_torch_function_stack",
    "_will_engine_execute_node",
    "parse_schema",
]


def _current_graph_task_id() -> int:
    """Return the number of this thread's backward pass; -1 outside of one."""
    task = state.graph_task
    return -1 if task is None else task.id


def _current_autograd_node() -> Node | None:
    """Return the node that this thread's backward pass is running; None outside of one."""
    task = state.graph_task
    return None if task is None else task.node


def _will_engine_execute_node(node: Node) -> bool:
    """Return whether this thread's backward pass has run, runs or will run a node, other than its only root.

    Raises RuntimeError outside of a backward pass, for anything but a node, and for a leaf's node whose gradient
    autograd.grad captures.
    """
    if not isinstance(node, Node):
        raise RuntimeError(f"_will_engine_execute_node expects an grad_fn, but got {type(node).__name__}")
    if state.graph_task is None:
        raise RuntimeError("_get_should_execute_nodes should only be called during the backward pass")
    task = state.graph_task
    if task.plan is not None and isinstance(node, AccumulateGrad) and task.plan.captures.get(node):
        raise RuntimeError(
            "A leaf node was passed to _will_engine_execute_node but we are currently running autograd.grad(). "
            "This is currently not supported."
        )
    return node is not task.root and engine.will_run(node)


def _current_graph_task_execution_order() -> list[Node]:
    """Return the nodes of this thread's backward pass in their order of execution.

    Raises RuntimeError outside of a backward pass, and while `set_multithreading_enabled` is on, as in PyTorch.
    """
    if state.graph_task is None:
        raise RuntimeError("_current_graph_task_execution_order should only be called during the backward pass")
    if state.multithreading:
        raise RuntimeError(
            "_current_graph_task_execution_order expects the current backward to be executed with multithreading "
            "disabled: run it within torch.autograd.set_multithreading_enabled(False)"
        )
    return engine.execution_order(state.graph_task)


def _is_torch_function_enabled() -> bool:
    """Return whether `__torch_function__` of classes is called in this thread."""
    return state.function_overrides == ENABLED


def _is_torch_function_all_disabled() -> bool:
    """Return whether `__torch_function__` of classes and modes is disabled in this thread."""
    return state.function_overrides == ALL_DISABLED


def _is_torch_function_mode_enabled() -> bool:
    """Return whether a TorchFunctionMode is active in this thread."""
    return bool(state.function_modes) and state.function_overrides != ALL_DISABLED


def _len_torch_function_stack() -> int:
    """Return the number of TorchFunctionModes on this thread's stack."""
    return len(state.function_modes)
