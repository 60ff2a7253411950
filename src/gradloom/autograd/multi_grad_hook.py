"""register_multi_grad_hook: one hook for the gradients of several tensors."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from ..core.edge import gradient_edge
from ..core.engine import will_run
from ..dispatch.state import state
from ..utils.hooks import RemovableHandle

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from ..core.tensor import Tensor


class _MultiHandle(RemovableHandle):
    """Removes all the hooks that stand for one."""

    __module__ = "gradloom.autograd.graph"  # where PyTorch has it

    def __init__(self, handles: Any) -> Any:
        self.handles = tuple(handles)

    def remove(self) -> None:
        """Remove the hook; a second call does nothing."""
        for handle in self.handles:
            handle.remove()

    def __getstate__(self) -> Any:
        return self.handles

    def __setstate__(self, handles: Any) -> Any:
        self.handles = handles


def register_multi_grad_hook(tensors: Sequence[Tensor], fn: Callable[..., Any], *, mode: str = "all") -> _MultiHandle:
    """Call a hook in each backward pass that computes gradients of some of `tensors`.

    Args:
        tensors: Tensors that require grad.
        fn: with mode "all", called as `fn(grads)` when all gradients that the pass computes are there, with one entry
            per tensor: its gradient, or None; with mode "any", as `fn(grad)` with the first that is computed. What it
            returns is ignored.
        mode: "all" or "any".

    Returns:
        A handle whose `remove()` takes the hook away.

    Raises:
        ValueError: for another mode.
        AssertionError: if a tensor does not require grad.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    tensors = tuple(tensors)
    if not all(tensor.requires_grad for tensor in tensors):
        raise AssertionError(
            "Expected gradient function to be set: every tensor of register_multi_grad_hook must require grad"
        )
    if mode == "any":
        hook = _first_of_each_pass(fn)
        return _MultiHandle([tensor.register_hook(hook) for tensor in tensors])
    collector = _all_of_each_pass(fn, [gradient_edge(tensor)[0] for tensor in tensors])
    return _MultiHandle([tensor.register_hook(collector(i)) for i, tensor in enumerate(tensors)])


def _first_of_each_pass(fn):
    key, lock = object(), Lock()

    def call_once(grad):
        task = state.graph_task
        with lock:
            if key in task.notes:
                return
            task.notes[key] = True
        fn(grad)

    return call_once


def _all_of_each_pass(fn, nodes):
    """Collects the gradients in the notes of the pass that computes them, so that passes do not meet."""
    key, lock = object(), Lock()

    def collector(index):
        def collect(grad):
            task = state.graph_task
            with lock:
                found = task.notes.get(key)
                if found is None:
                    found = task.notes[key] = [sum(map(will_run, nodes)), [None] * len(nodes)]
                found[0] -= 1
                found[1][index] = grad
                if found[0]:
                    return
                del task.notes[key]
            fn(found[1])

        return collect

    return collector
