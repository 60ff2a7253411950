"""gradloom._C._autograd: creation metadata of views, saved-tensor hooks, version counters, and profiler queries."""

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
    """How a view was created; anything but DEFAULT restricts writes to it."""

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
        raise RuntimeError(
            "Expected meta != nullptr to be true, but got false: the tensor is not a differentiable view"
        )
    return tensor._view


def _get_creation_meta(tensor: Tensor) -> CreationMeta:
    """Return a view's creation metadata.

    Raises RuntimeError if it is not a differentiable view.
    """
    return _META.get(_view_of(tensor).creation, CreationMeta.DEFAULT)


def _set_creation_meta(tensor: Tensor, meta: CreationMeta) -> None:
    """Set a view's creation metadata.

    Raises RuntimeError if it is not a differentiable view.
    """
    _view_of(tensor).creation = _CREATION[meta]


def _unsafe_set_version_counter(tensors: Sequence[Tensor], versions: Sequence[int]) -> None:
    """Set the version counters of tensors. Unsafe: saved tensors no longer notice the writes in between.

    Raises:
        TypeError: for one tensor instead of a sequence.
        RuntimeError: for an inference tensor, a negative version, or another number of versions.
    """
    if not isinstance(tensors, (tuple, list)) or not isinstance(versions, (tuple, list)):
        raise TypeError(
            "_unsafe_set_version_counter(): incompatible function arguments: it takes a sequence of "
            "Tensors and one of ints"
        )
    if len(tensors) != len(versions):
        raise RuntimeError(f"tensors_len={len(tensors)}, versions_len={len(versions)}")
    for tensor, version in zip(tensors, versions, strict=True):
        if tensor._inference:
            raise RuntimeError(
                "Tried to call torch.autograd._unsafe_set_version() on a tensor that does not have a version "
                "counter. Was it created in inference mode?"
            )
        if version < 0:
            raise RuntimeError(f"Cannot set a version_counter to a value below 0: {version}")
        if tensor._vc is None:
            tensor._vc = [0]
        tensor._vc[0] = version


def _get_data_attr(tensor: Tensor) -> Tensor:
    """Return `tensor.data`."""
    return tensor.data


def _get_current_graph_task_keep_graph() -> bool:
    """Return whether this thread's backward pass keeps the graph; True outside of one."""
    task = state.graph_task
    return True if task is None else task.keep_graph


def _top_saved_tensors_default_hooks(ignore_is_tracing: bool = False) -> tuple[Callable, Callable] | None:
    """Return the innermost pair of saved-tensor hooks, or None; nothing is traced, so the argument has no effect."""
    return state.saved_tensor_hooks[-1] if state.saved_tensor_hooks else None


def _saved_tensors_hooks_disable(error_message: str, fail_if_non_empty: bool = True) -> None:
    """Refuse saved-tensor hooks from now on.

    Args:
        error_message: message of the RuntimeError for code that pushes hooks.
        fail_if_non_empty: whether active hooks are an error.

    Raises RuntimeError with that message, if hooks are active.
    """
    if fail_if_non_empty and state.saved_tensor_hooks:
        raise RuntimeError(error_message)
    state.saved_hooks_disabled = error_message


def _saved_tensors_hooks_enable() -> None:
    """Accept saved-tensor hooks again."""
    state.saved_hooks_disabled = None


def _saved_tensors_hooks_is_enabled() -> bool:
    """Return whether saved-tensor hooks are accepted."""
    return state.saved_hooks_disabled is None


def _saved_tensors_hooks_get_disabled_error_message() -> str | None:
    """Return the error message while saved-tensor hooks are refused, else None."""
    return state.saved_hooks_disabled


def _profiler_enabled() -> bool:
    """Return whether a profiler is active in this thread."""
    return state.profiler is not None


def _profiler_type() -> Any:
    """Return the kind of this thread's profiler, an ActiveProfilerType."""
    from ._profiler import ActiveProfilerType

    return ActiveProfilerType.NONE if state.profiler is None else ActiveProfilerType.KINETO


def _supported_activities() -> set[ProfilerActivity]:
    """Return the activities that profilers record."""
    return supported_activities()


def _record_function_with_args_enter(name: str, *args: Any) -> Any:
    """Begin a named block in profiles; return the handle for `_record_function_with_args_exit`."""
    from ._profiler import _RecordFunctionFast

    return _RecordFunctionFast(name, args).__enter__()


def _record_function_with_args_exit(handle: Any) -> None:
    """End the block of a handle that `_record_function_with_args_enter` returned."""
    handle.__exit__(None, None, None)
