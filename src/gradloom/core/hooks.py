"""Hooks: how the engine calls a node's hooks, and how users register hooks on tensors.

Note [The order of hooks]
1. The hooks of the tensors that the node computed (`Tensor.register_hook`), in the order of registration, each with the
   result of the one before it; then the hooks that retain `.grad` of these tensors (`retain_grad`).
2. The pre-hooks of the node, the node, its post-hooks.

`autograd.grad` captures a gradient after step 1 if the node does not run. If the node runs, because it leads to other
inputs, the gradient is captured before its hooks, as in PyTorch.

A hook may add and remove hooks of any node: each step runs the hooks that existed when it began.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING
from weakref import ref

from ..dispatch import _operators
from ..dispatch.state import ANOMALY, GRAD_ASKED, state
from ..memory.metadata import NoValuesError
from .edge import gradient_edge
from .gradient_checks import validate_gradient
from .node import REGISTERING, RemovableHandle, as_pair

if TYPE_CHECKING:
    from .tensor import Tensor


def on_tensors(hooks, grads: list) -> None:
    """Run step 1: the hooks of the node's tensors may replace the gradients in `grads` (None if undefined)."""
    for nr, registered in list(hooks.tensor_pre.items()):
        for hook in list(registered.values()):
            found = hook(grads[nr])
            if found is not None:
                grads[nr] = checked_replacement(hook, grads[nr], found)
    for nr, keep in list(hooks.retain_grad.items()):
        if grads[nr] is not None:
            keep(grads[nr])


def run(node, grads: list, edges: tuple) -> tuple:
    """Run a node that has hooks, or under anomaly mode or a profiler.

    Args:
        edges: the node's next edges, with NO_EDGE in place of those whose gradients are not needed.

    Returns:
        The gradients for the next nodes.
    """
    if state.profiler is not None:
        return state.profiler.evaluate(node, grads, edges, run_hooked, apply_node)
    return run_hooked(node, grads, edges, apply_node)


def run_hooked(node, grads: list, edges: tuple, apply) -> tuple:
    """Run a node with its hooks; `apply(node, grads, edges)` runs the node itself."""
    hooks = node.hooks
    if hooks is None:
        return apply(node, grads, edges)
    on_tensors(hooks, grads)
    if hooks.pre:
        grads = before(hooks, grads)
    given = tuple(grads) if hooks.post else None  # a node may take gradients out of the list
    outputs = apply(node, grads, edges)
    if given is not None:
        outputs = after(hooks, validated(node, outputs), given)
    elif hooks.post:  # registered meanwhile
        outputs = after(hooks, validated(node, outputs), tuple(grads))
    return outputs


def apply_node(node, grads: list, edges: tuple) -> tuple:
    """Run a node without its hooks, with anomaly mode's checks if that is on."""
    if state.flags & ANOMALY:
        from .anomaly import apply_watched

        return apply_watched(node, grads, edges)
    try:
        return node.apply(grads, edges)
    except NoValuesError as error:
        return apply_by_operators(node, grads, edges, error)


def apply_by_operators(node, grads: list, edges: tuple, error: Exception) -> tuple:
    """Run a node whose formulas on arrays met a saved tensor without values: by operators on tensors.

    Raises `error` again if the node has no formulas of its own.
    """
    if not node._saved_fields:
        raise error
    flags = state.flags
    state.flags = flags | GRAD_ASKED  # formulas run on arrays while no bit but GRAD_OFF is set
    try:
        return node.apply(grads, edges)
    finally:
        state.flags = flags


def before(hooks, grads: list) -> list:
    """Return a node's incoming gradients after its pre-hooks."""
    for hook in list(hooks.pre.values()):
        found = hook(tuple(grads))
        if found is not None:
            grads = list(checked_replacements(hook, tuple(grads), found))
    return grads


def validated(node, outputs) -> tuple:
    """Return a node's results for post-hooks, in the shapes and dtypes of its inputs."""
    found = []
    for i, ((following, nr), grad) in enumerate(zip(node.next_functions, outputs, strict=False)):
        if grad is not None and following is not None:
            shape, numpy_type = following.input_metadata[2 * nr : 2 * nr + 2]
            grad = validate_gradient(grad, shape, numpy_type, node, i)
        found.append(grad)
    return tuple(found)


def after(hooks, outputs: tuple, grads: tuple) -> tuple:
    """Return a node's results after its post-hooks."""
    for hook in list(hooks.post.values()):
        found = hook(outputs, grads)
        if found is not None:
            outputs = checked_replacements(hook, outputs, found)
    return outputs


def checked_replacements(hook, old: tuple, new) -> tuple:
    """Return a hook's replacement of several gradients, checked.

    Raises:
        TypeError: if it is not a tuple of Tensors and None.
        RuntimeError: if its length, or a dtype or shape in it, differs, or it replaces an undefined gradient.
    """
    if not isinstance(new, tuple):
        raise TypeError(f"expected tuple, but hook returned '{type(new).__name__}'")
    if len(new) != len(old):
        raise RuntimeError(
            f"hook {_name(hook)} has returned an incorrect number of values (got {len(new)}, but expected {len(old)})"
        )
    return tuple([None if n is None else checked_replacement(hook, o, n) for o, n in zip(old, new, strict=True)])


def checked_replacement(hook, old, new):
    """Return a hook's replacement of a gradient, checked.

    Raises:
        TypeError: if it is not a Tensor.
        RuntimeError: if its dtype or shape differ from the gradient's, or the gradient is undefined.
    """
    if not isinstance(new, _operators.Tensor):
        raise TypeError(f"expected Variable, but hook returned '{type(new).__name__}'")
    if old is None:
        raise RuntimeError("can't replace a None gradient with a non-None value")
    if new.dtype is not old.dtype:
        raise RuntimeError(f"hook {_name(hook)} has changed the type of value (was {old.type()} got {new.type()})")
    if new.shape != old.shape:
        raise RuntimeError(f"hook {_name(hook)} has changed the size of value")
    return new


def _name(hook) -> str:
    return f"'{getattr(hook, '__name__', '<unknown>')}'"


def register_hook(tensor: Tensor, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
    """See Tensor.register_hook."""
    if not tensor.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    node, nr = as_pair(gradient_edge(tensor))
    is_leaf = tensor.grad_fn is None
    with REGISTERING:
        if node is None:  # a view that requires grad through its base: it receives no gradient
            registered = tensor._backward_hooks or OrderedDict()
        elif is_leaf:  # the leaf holds the hooks, since its AccumulateGrad may be freed and made again
            registered = tensor._backward_hooks
            if registered is None:
                registered = OrderedDict()
            node.ensure_hooks().tensor_pre[0] = registered
        else:
            registered = node.ensure_hooks().tensor_pre.setdefault(nr, OrderedDict())
        tensor._backward_hooks = registered
    handle = RemovableHandle(registered)
    registered[handle.id] = hook
    return handle


def retain_grad(tensor: Tensor) -> None:
    """See Tensor.retain_grad."""
    if not tensor.requires_grad:
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    if tensor._last_edge[0] is None or tensor._retains_grad:  # a stale view that was made without history is a leaf
        return
    node, nr = as_pair(gradient_edge(tensor))
    target = ref(tensor)

    def keep(grad):
        found = target()
        if found is not None:
            sum_so_far = found._grad
            found._grad = grad.clone() if sum_so_far is None else sum_so_far + grad

    node.ensure_hooks().retain_grad[nr] = keep
    tensor._retains_grad = True


def register_post_accumulate_grad_hook(tensor: Tensor, hook: Callable[[Tensor], None]) -> RemovableHandle:
    """See Tensor.register_post_accumulate_grad_hook."""
    if not tensor.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if tensor.grad_fn is not None:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    with REGISTERING:
        if tensor._post_accumulate_grad_hooks is None:
            tensor._post_accumulate_grad_hooks = OrderedDict()
    handle = RemovableHandle(tensor._post_accumulate_grad_hooks)
    tensor._post_accumulate_grad_hooks[handle.id] = hook
    return handle
