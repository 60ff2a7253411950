"""Edges: where a tensor's gradient goes.

Note [Edges]
An edge leads to gradient number `nr` of `node`. Number 0 is the common case, and its edge is the node itself: a graph
that lives long then has one object less per operator for the cycle collector to visit. `as_pair(edge)` returns
`(node, nr)` for either form. Every tensor has its edge in `_edge`:

    NO_EDGE      the pair (None, 0): the tensor does not require grad
    node         it is output 0 of the operator whose backward is `node`
    (node, nr)   it is output `nr`; (node, 0) is the same edge as node
    None         ask `gradient_edge(tensor)`: it is a leaf that requires grad, with a weak reference to its
                 AccumulateGrad (which refers to the leaf, and graphs are freed without the cycle collector), or a view,
                 whose history a write to its base may have replaced

A wrapper gets an input's edge, which also tells whether it requires grad, by `edge = tensor._edge or
gradient_edge(tensor)`.
"""

from __future__ import annotations

from typing import Any
from weakref import ref

from ..dispatch.state import state
from ..memory.locks import new_lock
from .accumulate_grad import AccumulateGrad
from .attributes import copy_fields
from .node import NO_EDGE, tell_created

# The edge of a tensor that requires grad although no node takes its gradient; told from NO_EDGE by identity.
DEAD_EDGE = tuple([None, 0])  # noqa: C409  (a literal would be the same object as NO_EDGE)
_making_accumulator = new_lock()


def gradient_edge(tensor):
    """Return the edge that a gradient of `tensor` flows along; NO_EDGE if it does not require grad."""
    edge = tensor._edge
    if edge is not None:
        return edge
    if tensor._vc is not None:  # every view has a counter
        view = tensor._view
        if view is not None:
            return view.current_edge(tensor)
    found = tensor._accumulator
    node = found() if found is not None else None
    return leaf_edge(tensor) if node is None else node


def edges_of(tensors):
    """Return the edges of several tensors, NO_EDGE in place of None, and whether any of them requires grad."""
    edges, some = [], False
    for tensor in tensors:
        edge = NO_EDGE if tensor is None else tensor._edge or gradient_edge(tensor)
        edges.append(edge)
        if edge is not NO_EDGE:
            some = True
    return edges, some


def leaf_edge(tensor):
    """Return the edge of a leaf that requires grad: its AccumulateGrad, made on first use."""
    found = tensor._accumulator
    node = found() if found is not None else None
    if node is None:
        with _making_accumulator:  # graphs of several threads must end in the same node
            found = tensor._accumulator
            node = found() if found is not None else None
            if node is None:
                node = AccumulateGrad(tensor)
                tensor._accumulator = ref(node)
        if state.node_hooks:
            tell_created(node)
    return node


def metadata_of(tensor):
    """Return (shape, dtype) of an output, for a node's metadata; (None, None) for an output that was not computed."""
    return (None, None) if tensor is None else (tensor._array.shape, tensor._array.dtype)


# Attributes of a tensor that belong to its position in a graph.
_HISTORY = (
    "_view",
    "_accumulator",
    "_grad",
    "_tangent",
    "_post_accumulate_grad_hooks",
    "_retains_grad",
    "_detachments",
    "_inference",
    "_backward_hooks",
)


def shallow_copy(tensor: Any) -> Any:
    """Return a tensor of the same class with the same attributes, without history."""
    out = object.__new__(tensor.__class__)
    copy_fields(tensor, out, _HISTORY)
    out._array, out._edge, out._vc = tensor._array, NO_EDGE, tensor._vc
    return out
