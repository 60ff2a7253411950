"""Anomaly mode: where was the failing node made, and which backward produced a NaN."""

from __future__ import annotations

import numpy as np

from ..dispatch import ANOMALY, state
from .node import NodeHooks


class set_detect_anomaly:
    """Switch anomaly detection on or off, now or as a context manager.

    Args:
        mode: whether nodes remember the forward call that made them.
        check_nan: whether a NaN that a backward function returns raises.
    """

    def __init__(self, mode: bool, check_nan: bool = True):
        self._before = (state.flags & ANOMALY, state.check_nan)
        state.flags = state.flags | ANOMALY if mode else state.flags & ~ANOMALY
        state.check_nan = check_nan

    def __enter__(self):
        return None

    def __exit__(self, *exc):
        state.flags = (state.flags & ~ANOMALY) | self._before[0]
        state.check_nan = self._before[1]


class detect_anomaly(set_detect_anomaly):
    """Anomaly detection within a `with` block."""

    def __init__(self, check_nan: bool = True):
        import warnings
        warnings.warn("Anomaly Detection has been enabled. This mode will increase the runtime and should only be "
                      "enabled for debugging.", stacklevel=2)
        super().__init__(True, check_nan)


def is_anomaly_enabled() -> bool:
    """Whether nodes made now remember where."""
    return bool(state.flags & ANOMALY)


def is_anomaly_check_nan_enabled() -> bool:
    """Whether a NaN from a backward function raises."""
    return state.check_nan


def remember(node) -> None:
    """Keep the stack of the forward call that makes `node`."""
    import traceback

    if node.hooks is None:
        node.hooks = NodeHooks()
    node.hooks.trace = "".join(traceback.format_list(traceback.extract_stack()[:-2]))


def apply_watched(node, grads):
    """Run a node under anomaly mode."""
    trace = node.hooks.trace if node.hooks is not None else None
    try:
        outputs = node.apply(grads)
    except Exception as error:
        if trace and not getattr(error, "_gradloom_traced", False):
            error._gradloom_traced = True
            error.add_note(f"Error detected in {node.name()}. Traceback of forward call that caused the error:\n"
                           f"{trace}")
        raise
    if state.check_nan:
        for i, grad in enumerate(outputs):
            if grad is not None and grad._array.dtype.kind in "fcV" and np.isnan(grad._array).any():
                error = RuntimeError(f"Function '{node.name()}' returned nan values in its {i}th output.")
                if trace:
                    error.add_note(f"Error detected in {node.name()}. Traceback of forward call that caused the "
                                   f"error:\n{trace}")
                raise error
    return outputs
