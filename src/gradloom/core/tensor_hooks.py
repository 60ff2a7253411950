"""Hooks that a user puts on a tensor: register_hook, retain_grad, register_post_accumulate_grad_hook."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING
from weakref import ref

from ..utils.hooks import RemovableHandle
from .edge import gradient_edge
from .node import REGISTERING

if TYPE_CHECKING:
    from collections.abc import Callable

    from .tensor import Tensor


def register_hook(tensor: Tensor, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
    """See Tensor.register_hook."""
    if not tensor.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    node, nr = gradient_edge(tensor)
    is_leaf = tensor.grad_fn is None
    with REGISTERING:
        if node is None:  # a view that requires grad because its base does: no gradient arrives at it
            registered = tensor._backward_hooks or OrderedDict()
        elif is_leaf:  # the leaf keeps the hooks: its AccumulateGrad may come and go
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
    if tensor.is_leaf or tensor._retains_grad:
        return
    node, nr = gradient_edge(tensor)
    target = ref(tensor)

    def keep(grad):
        found = target()
        if found is not None:
            held = found._grad
            found._grad = grad.clone() if held is None else held + grad

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
