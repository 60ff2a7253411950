"""gradloom.autograd: backward, grad, grad modes, custom functions and graph tools, as in torch.autograd."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.engine import queue_callback as queue_callback
from ..core.node import Node
from ..dispatch.state import state
from ..types.public import found_in as _found_in
from .anomaly_mode import detect_anomaly, set_detect_anomaly
from .grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled
from .gradcheck import gradcheck, gradgradcheck  # the functions replace the module of that name, as in PyTorch
from .passes import backward, grad, increment_version

__all__ = [
    "Function",
    "Node",
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "forward_ad",
    "functional",
    "grad",
    "grad_mode",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "increment_version",
    "inference_mode",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
]

_LAZY = {
    "Function": "function",
    "NestedIOFunction": "function",
    "Variable": "variable",
    **dict.fromkeys(("is_multithreading_enabled", "set_multithreading_enabled"), "grad_mode"),
    **dict.fromkeys(
        (
            "_force_original_view_tracking",
            "_unsafe_preserve_version_counter",
            "enforce_grad_layout_policy",
            "is_view_replay_enabled",
        ),
        "grad_mode",
    ),
    **dict.fromkeys(
        (
            "DeviceType",
            "ProfilerActivity",
            "SavedTensor",
            "_calculate_shape",
            "_get_sequence_nr",
            "_is_checkpoint_valid",
            "_make_grads",
            "_pop_saved_tensors_default_hooks",
            "_push_saved_tensors_default_hooks",
            "kineto_available",
            "_tensor_or_tensors_to_tuple",
        ),
        "private_names",
    ),
    "_engine_run_backward": "graph",
}
_MODULES = {
    "_functions",
    "forward_ad",
    "functional",
    "graph",
    "function",
    "profiler",
    "profiler_util",
    "anomaly_mode",
    "grad_mode",
    "variable",
}


if TYPE_CHECKING:
    from ..core.tensor import Tensor
    from . import anomaly_mode, forward_ad, function, functional, grad_mode, graph, profiler, profiler_util, variable
    from .function import Function, NestedIOFunction as NestedIOFunction
    from .grad_mode import (
        enforce_grad_layout_policy as enforce_grad_layout_policy,
        is_multithreading_enabled as is_multithreading_enabled,
        is_view_replay_enabled as is_view_replay_enabled,
        set_multithreading_enabled as set_multithreading_enabled,
    )
    from .private_names import (
        DeviceType as DeviceType,
        ProfilerActivity as ProfilerActivity,
        SavedTensor as SavedTensor,
        kineto_available as kineto_available,
    )
    from .variable import Variable
else:

    def __getattr__(name):
        from importlib import import_module

        if name in _LAZY:
            found = getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
            globals()[name] = found
            return found
        if name in _MODULES:
            return import_module(f"{__name__}.{name}")
        raise AttributeError(f"module 'gradloom.autograd' has no attribute '{name}'")


def _profiler_enabled() -> bool:
    """Return whether a profiler records the operators of this thread."""
    return state.profiler is not None


def _is_running() -> bool:
    return state.graph_task is not None


_found_in(__name__, backward, grad)
