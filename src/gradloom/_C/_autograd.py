"""gradloom._C._autograd: how views came to be, hooks for saved tensors, versions, and what the profiler can do."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..autograd.private_names import (
    _get_sequence_nr as _get_sequence_nr,
    _pop_saved_tensors_default_hooks as _pop_saved_tensors_default_hooks,
    _push_saved_tensors_default_hooks as _push_saved_tensors_default_hooks,
)
from ..core import views
from ..core.node import InputMetadata as _InputMetadata
from ..core.saved_variable import SavedTensor as SavedTensor
from ..dispatch.state import state
from ..profiler import (
    DeviceType as DeviceType,
    ProfilerActivity,
    kineto_available as kineto_available,
    supported_activities,
)

if TYPE_CHECKING:
    from ..core.tensor import Tensor

__all__ = ["CreationMeta", "DeviceType", "SavedTensor", "_InputMetadata"]


class CreationMeta(enum.Enum):
    """In which way a view came to be; anything but DEFAULT restricts writes to it."""

    DEFAULT = 0
    IN_CUSTOM_FUNCTION = 1
    MULTI_OUTPUT_NODE = 2
    NO_GRAD_MODE = 3
    INFERENCE_MODE = 4


_META = {
    views.DEFAULT: CreationMeta.DEFAULT,
    views.CUSTOM_FUNCTION: CreationMeta.IN_CUSTOM_FUNCTION,
    views.MULTI_OUTPUT: CreationMeta.MULTI_OUTPUT_NODE,
    views.NO_GRAD: CreationMeta.NO_GRAD_MODE,
    views.INFERENCE_VIEW: CreationMeta.INFERENCE_MODE,
}
_CREATION = {meta: creation for creation, meta in _META.items()}


def _view_of(tensor):
    if tensor._view is None:
        raise RuntimeError("Expected meta != nullptr to be true, but got false: the tensor is no differentiable view")
    return tensor._view


def _get_creation_meta(tensor: Tensor) -> CreationMeta:
    """In which way a view came to be.

    Args:
        tensor: a differentiable view.

    Raises:
        RuntimeError: if it is none.
    """
    return _META.get(_view_of(tensor).creation, CreationMeta.DEFAULT)


def _set_creation_meta(tensor: Tensor, meta: CreationMeta) -> None:
    """Say that a view came to be in another way.

    Args:
        tensor: a differentiable view.
        meta: the way.

    Raises:
        RuntimeError: if it is no view.
    """
    _view_of(tensor).creation = _CREATION[meta]


def _unsafe_set_version_counter(tensors: Sequence[Tensor], versions: Sequence[int]) -> None:
    """Set how often memory has been written to, which saved tensors are compared with: unsafe, since writes go unseen.

    Args:
        tensors: a sequence of Tensors.
        versions: the number for each.

    Raises:
        TypeError: for one tensor instead of a sequence.
        RuntimeError: for an inference tensor.
    """
    if not isinstance(tensors, (tuple, list)) or not isinstance(versions, (tuple, list)):
        raise TypeError(
            "_unsafe_set_version_counter(): incompatible function arguments: it takes a sequence of "
            "Tensors and one of ints"
        )
    for tensor, version in zip(tensors, versions, strict=True):
        if tensor._inference:
            raise RuntimeError("Inference tensors do not track version counter.")
        if tensor._vc is None:
            tensor._vc = [0]
        tensor._vc[0] = version


def _get_data_attr(tensor: Tensor) -> Tensor:
    """`tensor.data`.

    Args:
        tensor: a Tensor.
    """
    return tensor.data


def _get_current_graph_task_keep_graph() -> bool:
    """Whether the backward pass that this thread is running keeps the graph; True outside of one."""
    task = state.graph_task
    return True if task is None else task.keep_graph


def _top_saved_tensors_default_hooks(ignore_is_tracing: bool = False) -> tuple[Callable, Callable] | None:
    """The hooks that were pushed last; None if there are none.

    Args:
        ignore_is_tracing: has no effect: nothing is traced.
    """
    return state.saved_tensor_hooks[-1] if state.saved_tensor_hooks else None


def _saved_tensors_hooks_disable(error_message: str, fail_if_non_empty: bool = True) -> None:
    """Refuse hooks for saved tensors from now on.

    Args:
        error_message: what the RuntimeError of pushing hooks says.
        fail_if_non_empty: whether hooks that are there are an error.

    Raises:
        RuntimeError: with that message, if hooks are there.
    """
    if fail_if_non_empty and state.saved_tensor_hooks:
        raise RuntimeError(error_message)
    state.saved_hooks_disabled = error_message


def _saved_tensors_hooks_enable() -> None:
    """Accept hooks for saved tensors again."""
    state.saved_hooks_disabled = None


def _saved_tensors_hooks_is_enabled() -> bool:
    """Whether hooks for saved tensors are accepted."""
    return state.saved_hooks_disabled is None


def _saved_tensors_hooks_get_disabled_error_message() -> str | None:
    """What pushing hooks says while they are refused; None while they are not."""
    return state.saved_hooks_disabled


def _profiler_enabled() -> bool:
    """Whether this thread is profiled."""
    return state.profiler is not None


def _profiler_type() -> Any:
    """What profiles this thread, as an ActiveProfilerType."""
    from ._profiler import ActiveProfilerType

    return ActiveProfilerType.NONE if state.profiler is None else ActiveProfilerType.KINETO


def _supported_activities() -> set[ProfilerActivity]:
    """What profilers can look at."""
    return supported_activities()


def _record_function_with_args_enter(name: str, *args: Any) -> Any:
    """Begin a block that profiles show.

    Args:
        name: what they call it.
        args: what they show as its arguments.

    Returns:
        What _record_function_with_args_exit takes.
    """
    from ._profiler import _RecordFunctionFast

    return _RecordFunctionFast(name, args).__enter__()


def _record_function_with_args_exit(handle: Any) -> None:
    """End a block.

    Args:
        handle: what _record_function_with_args_enter returned.
    """
    handle.__exit__(None, None, None)
