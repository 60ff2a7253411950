"""Records and checks of anomaly mode; autograd/anomaly_mode.py has the context managers that switch it on.

Note [Anomaly mode]
While the mode is on,

- every new node keeps the stack of the call (`remember`) and, if it is made inside a backward pass, the trace of the
  node running then, so that the chain leads back to the user's forward line;
- every in-place write is recorded in the tensor's version counter, after the version: `[2, (1, stack), (2, stack)]`;
- the engine checks the results of each node for NaN.

The exception itself reports all of this, beside PyTorch's warnings (diagnostics/error_notes.py). As in PyTorch, the
mode belongs to the process, not to a thread.
"""

from __future__ import annotations

import numpy as np

from ..dispatch import _operators
from ..dispatch.state import ANOMALY, each_thread, overrides_operators, state
from ..types.public import found_in as _found_in
from . import node as nodes
from .node import NodeHooks
from .user_stack import current_stack, stack_lines

_WRITES_KEPT = 16
_mode = {"check_nan": True}


def is_anomaly_enabled() -> bool:
    """Return whether anomaly mode is on."""
    return bool(state.flags & ANOMALY)


def is_anomaly_check_nan_enabled() -> bool:
    """Return whether a NaN from a backward function raises while anomaly mode is on."""
    return _mode["check_nan"]


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """Switch anomaly mode on or off, in all threads.

    Args:
        mode: whether nodes keep the stack of their forward call, and version counters the writes.
        check_nan: whether a NaN from a backward function raises.
    """
    for position, (name, value) in enumerate((("enabled", mode), ("check_nan", check_nan)), 1):
        if not isinstance(value, bool):
            raise TypeError(
                f"set_anomaly_enabled(): argument '{name}' (position {position}) must be bool, not "
                f"{type(value).__name__}"
            )
    each_thread(ANOMALY, mode)
    nodes.write_watcher = note_write if mode else None
    _mode["check_nan"] = check_nan


class Trace:
    """The stack at which a node was made, and the node whose backward made it."""

    __slots__ = ("stack", "parent")

    def __init__(self, stack, parent=None):
        self.stack = stack
        self.parent = parent  # None outside of a backward pass

    def lines(self) -> list[str]:
        """Return the stack in PyTorch's form, `node.metadata["traceback_"]`."""
        return stack_lines(self.stack)


def remember(node) -> None:
    """Keep the stack of the forward call that makes `node`."""
    if node.hooks is None:
        node.hooks = NodeHooks()
    task = state.graph_task
    node.hooks.trace = Trace(current_stack(2), task.node if task is not None else None)


def note_write(counter) -> None:
    """Append the stack of a write to the version counter."""
    counter.append((counter[0], current_stack(3)))
    if len(counter) > _WRITES_KEPT + 1:
        del counter[1]


def apply_watched(node, grads, edges):
    """Run a node and check its results for NaN.

    Raises RuntimeError for a NaN, unless anomaly mode was entered with check_nan=False.
    """
    outputs = node.apply(grads, edges)
    if _mode["check_nan"]:
        for i, grad in enumerate(outputs):
            if grad is not None and (
                bool(_operators.isnan(grad).any())
                if overrides_operators(grad.__class__)
                else _has_nan(getattr(grad._values() if getattr(grad, "is_sparse", False) else grad, "_array", None))
            ):
                raise RuntimeError(f"Function '{node.name()}' returned nan values in its {i}th output.")
    return outputs


def _has_nan(array) -> bool:
    if array is None or array.dtype.kind not in "fcV":
        return False
    return bool(np.isnan(array).any())


_found_in("gradloom", is_anomaly_enabled, is_anomaly_check_nan_enabled, set_anomaly_enabled)
