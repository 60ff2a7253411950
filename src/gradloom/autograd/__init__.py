"""gradloom.autograd: backward, grad, grad modes, custom functions and graph tools, as in torch.autograd."""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

from ..core.engine import execute, queue_callback
from ..core.node import Node, bump_version
from ..core.roots import as_tuple, check_flags, edges_of_constants, input_edges, roots_and_gradients, used
from ..dispatch import _operators
from ..dispatch.state import state
from .anomaly_mode import detect_anomaly, set_detect_anomaly
from .grad_mode import enable_grad, inference_mode, no_grad, set_grad_enabled

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
        "rare_modes",
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
    from collections.abc import Iterable, Sequence
    from typing import Any, Literal, TypeAlias

    from ..core.tensor import Tensor
    from . import anomaly_mode, forward_ad, function, functional, grad_mode, graph, profiler, profiler_util, variable
    from .function import Function, NestedIOFunction as NestedIOFunction
    from .grad_mode import is_multithreading_enabled as is_multithreading_enabled, set_multithreading_enabled
    from .graph import GradientEdge
    from .private_names import (
        DeviceType as DeviceType,
        ProfilerActivity as ProfilerActivity,
        SavedTensor as SavedTensor,
        kineto_available as kineto_available,
    )
    from .rare_modes import (
        enforce_grad_layout_policy as enforce_grad_layout_policy,
        is_view_replay_enabled as is_view_replay_enabled,
    )
    from .variable import Variable

    _Roots: TypeAlias = Tensor | GradientEdge | Sequence[Tensor] | Sequence[GradientEdge]
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


def backward(
    tensors: _Roots,
    grad_tensors: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Tensor | Sequence[Tensor | None] | None = None,
    inputs: _Roots | dict[str, Tensor] | None = None,
) -> None:
    """Accumulate into `.grad` of the leaves the derivative of the sum of `tensors`, each times its `grad_tensors`.

    Args:
        tensors: a Tensor, or a sequence of Tensors or GradientEdges.
        grad_tensors: the vectors of the vector-Jacobian product; None for tensors of one element.
        retain_graph: keep what was saved, so that another pass can follow; default: create_graph.
        create_graph: record this pass, for derivatives of higher order.
        inputs: accumulate into these tensors only.
        grad_variables: the old name of `grad_tensors`; warns.

    Raises:
        RuntimeError: if a tensor does not require grad, a gradient is missing or has another shape, or the graph was
            freed by an earlier pass.
    """
    if state.batching:
        from ..batching.gradients import check_backward

        check_backward()
    if grad_variables is not None:
        _warn("`grad_variables` is deprecated. Use `grad_tensors` instead.", FutureWarning)
        if grad_tensors is not None:
            raise RuntimeError(
                "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to "
                "`backward()`. Please only use `grad_tensors`."
            )
        grad_tensors = grad_variables
    roots, grads = roots_and_gradients(as_tuple(tensors), grad_tensors)
    if create_graph:
        _warn_of_cycle()
    if retain_graph is None:
        retain_graph = create_graph
    check_flags(retain_graph, create_graph)
    if inputs is None:
        execute(roots, grads, keep_graph=retain_graph, create_graph=create_graph)
        return
    inputs = tuple(inputs.values()) if isinstance(inputs, dict) else as_tuple(inputs)
    if not inputs:
        raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    edges = input_edges(inputs)
    for tensor in inputs:
        if isinstance(tensor, _operators.Tensor):
            tensor.retain_grad()  # does nothing for leaves
    execute(roots, grads, keep_graph=retain_graph, create_graph=create_graph, run_only=edges)


@overload
def grad(
    outputs: _Roots,
    inputs: _Roots,
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: Literal[False] | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor, ...]: ...


@overload
def grad(
    outputs: _Roots,
    inputs: _Roots,
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    *,
    allow_unused: bool,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]: ...


@overload
def grad(
    outputs: _Roots,
    inputs: dict[str, Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> dict[str, Tensor]: ...


def grad(
    outputs: _Roots,
    inputs: _Roots | dict[str, Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> Any:
    """The derivative of the sum of `outputs` (each times its `grad_outputs`) with respect to each of `inputs`.

    Args:
        outputs: a Tensor or a sequence of them (or GradientEdges).
        inputs: the Tensors to differentiate with respect to.
        grad_outputs: the vectors of the vector-Jacobian product, one per output; None for outputs of one element.
        retain_graph: keep what was saved; default: create_graph.
        create_graph: record this pass, for derivatives of higher order.
        allow_unused: return None for inputs that the outputs do not depend on, instead of raising.
        is_grads_batched: the first dimension of grad_outputs runs over vectors.
        materialize_grads: zeros instead of None for unused inputs.
        only_inputs: has no effect: only the gradients of `inputs` are computed. False warns.

    Returns:
        A tuple with one Tensor (or None) per input.

    Raises:
        RuntimeError: as for backward, and for an unused input without allow_unused.
    """
    inputs, names = _inputs_of_grad(inputs)
    if not only_inputs:
        _warn(
            "only_inputs argument is deprecated and is ignored now (defaults to True). To accumulate gradient for "
            "other parts of the graph, please use torch.autograd.backward.",
            FutureWarning,
        )
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    if allow_unused is None:
        allow_unused = materialize_grads
    if retain_graph is None:
        retain_graph = create_graph
    check_flags(retain_graph, create_graph, allow_unused)
    outputs = as_tuple(outputs)
    if is_grads_batched:
        from .batched_grad import grad_batched

        found = grad_batched(
            grad,
            outputs,
            inputs,
            (None,) * len(outputs) if grad_outputs is None else as_tuple(grad_outputs),
            retain_graph=retain_graph,
            create_graph=create_graph,
            allow_unused=allow_unused,
            materialize_grads=materialize_grads,
        )
    elif (
        state.batching
        and (
            found := _grad_within_vmap(
                outputs, inputs, grad_outputs, retain_graph, create_graph, allow_unused, materialize_grads
            )
        )
        is not None
    ):
        pass
    else:
        roots, grads = roots_and_gradients(outputs, grad_outputs)
        edges = input_edges(inputs)
        if any(node is None for node, _ in edges):
            edges = edges_of_constants(inputs, edges)
        found = execute(roots, grads, keep_graph=retain_graph, create_graph=create_graph, capture_edges=edges)
        found = used(found, inputs, allow_unused, materialize_grads, create_graph)
    return found if names is None else dict(zip(names, found, strict=True))


def _grad_within_vmap(outputs, inputs, vectors, retain_graph, create_graph, allow_unused, materialize_grads):
    """The gradients if outputs or inputs are batched, else None."""
    from ..batching.gradients import any_batched, grad_of_batched

    if not any_batched(outputs, inputs):
        return None
    vectors = None if vectors is None else as_tuple(vectors)
    return grad_of_batched(
        grad,
        outputs,
        inputs,
        vectors,
        retain_graph=retain_graph,
        create_graph=create_graph,
        allow_unused=allow_unused,
        materialize_grads=materialize_grads,
    )


def _inputs_of_grad(inputs):
    """The inputs of `grad` as a tuple, and their keys if they came in a dict."""
    names = None
    if isinstance(inputs, dict):
        names, inputs = tuple(inputs), tuple(inputs.values())
    else:
        inputs = as_tuple(inputs)
    if not inputs:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    return inputs, names


def _warn(message, category) -> None:
    import warnings

    warnings.warn(message, category, stacklevel=3)


_warned_of_cycle = False


def _warn_of_cycle() -> None:
    """Say once what backward(create_graph=True) does to memory."""
    global _warned_of_cycle
    if not _warned_of_cycle:
        _warned_of_cycle = True
        import warnings

        warnings.warn(
            "Using backward() with create_graph=True will create a reference cycle between the parameter and "
            "its gradient which can cause a memory leak: .grad holds the graph, which holds the parameter. "
            "Use autograd.grad when creating the graph, or set .grad of the parameters to None afterwards.",
            stacklevel=4,
        )


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Tell autograd that a tensor's memory was written to from outside.

    Args:
        tensor: a Tensor or an iterable of Tensors. Inference tensors, which have no version, are passed over.

    Raises:
        RuntimeError: for anything else.
    """
    if isinstance(tensor, _operators.Tensor):
        tensor = (tensor,)
    try:
        tensors = list(tensor)
    except TypeError:
        raise RuntimeError(
            "increment_version expect a Iterable[Tensor] as input: a Tensor or an iterable of Tensors, "
            f"but got {type(tensor).__name__}"
        ) from None
    for t in tensors:
        if not isinstance(t, _operators.Tensor):
            raise RuntimeError(
                f"increment_version expects each element of the iterable to be a tensor, but got {type(t).__name__}"
            )
        if not t._inference:
            bump_version(t)


def _is_running() -> bool:
    return state.graph_task is not None


# Last, because it uses `grad`; now, because the function must win over the module of the same name, as in PyTorch.
from .gradcheck import gradcheck, gradgradcheck  # noqa: E402
