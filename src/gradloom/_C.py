"""What code written for PyTorch asks its C++ core about the engine, under the same names."""

from __future__ import annotations

from ._library.operator import _AutoDispatchBelowAutograd
from .autograd import engine
from .autograd.grad_mode import is_multithreading_enabled as _is_multithreading_enabled
from .autograd.node import Node
from .dispatch import ALL_ANSWER, NOBODY_ANSWERS, state
from .dispatch import disabled_torch_function as _disabled_torch_function_impl
from .ops._schema import Argument, FunctionSchema, parse_schema
from .torch_function.answers import DisableTorchFunction, DisableTorchFunctionSubclass

__all__ = ["Argument", "DisableTorchFunction", "DisableTorchFunctionSubclass", "FunctionSchema",
           "_AutoDispatchBelowAutograd", "_current_autograd_node", "_current_graph_task_execution_order",
           "_current_graph_task_id",
           "_disabled_torch_function_impl", "_is_multithreading_enabled", "_is_torch_function_all_disabled",
           "_is_torch_function_enabled", "_is_torch_function_mode_enabled", "_len_torch_function_stack",
           "_will_engine_execute_node", "parse_schema"]


def _current_graph_task_id() -> int:
    """The number of the backward pass that this thread is running; -1 outside of one."""
    task = state.graph_task
    return -1 if task is None else task.id


def _current_autograd_node() -> Node | None:
    """The node that the backward pass of this thread is running; None outside of one."""
    task = state.graph_task
    return None if task is None else task.node


def _will_engine_execute_node(node: Node) -> bool:
    """Whether the backward pass that this thread is running has run, runs or will run a node.

    Raises:
        RuntimeError: outside of a backward pass, for anything that is no node, and for a node whose gradient
            autograd.grad only hands out.
    """
    if not isinstance(node, Node):
        raise RuntimeError(f"_will_engine_execute_node expects an grad_fn, but got {type(node).__name__}")
    if state.graph_task is None:
        raise RuntimeError("_get_should_execute_nodes should only be called during the backward pass")
    return engine.will_run(node)


def _current_graph_task_execution_order() -> list[Node]:
    """The nodes that the backward pass of this thread runs, in the order in which it runs them.

    Raises:
        RuntimeError: outside of a backward pass.
    """
    if state.graph_task is None:
        raise RuntimeError("_current_graph_task_execution_order should only be called during the backward pass")
    return engine.execution_order(state.graph_task)


def _is_torch_function_enabled() -> bool:
    """Whether classes answer functions in this thread."""
    return state.function_overrides == ALL_ANSWER


def _is_torch_function_all_disabled() -> bool:
    """Whether neither classes nor modes answer functions in this thread."""
    return state.function_overrides == NOBODY_ANSWERS


def _is_torch_function_mode_enabled() -> bool:
    """Whether a function mode is entered in this thread, and answers."""
    return bool(state.function_modes) and state.function_overrides != NOBODY_ANSWERS


def _len_torch_function_stack() -> int:
    """How many function modes are entered in this thread."""
    return len(state.function_modes)
