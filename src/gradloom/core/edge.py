"""Edges: where a tensor's gradient goes.

Note [Edges]
An edge is the pair `(node, input_nr)`: gradient number `input_nr` of `node`. Every tensor holds its edge in `_edge`:

    NO_EDGE      the tensor does not require grad
    (node, nr)   it is output `nr` of the operator whose backward is `node`
    None         ask `gradient_edge(tensor)`: a leaf that requires grad, whose AccumulateGrad is held only weakly
                 (it holds the leaf, and a graph must be freed without help from the cycle collector), or a view,
                 whose history may have been replaced by a write to its base

so that a wrapper collects an input's edge, and learns whether it requires grad, by
`edge = tensor._edge or gradient_edge(tensor)`.
"""

from __future__ import annotations

from _thread import RLock
from typing import TYPE_CHECKING
from weakref import ref

from .accumulate_grad import AccumulateGrad
from .node import NO_EDGE

if TYPE_CHECKING:
    from typing import Any

# The edge of a tensor that requires grad without leading anywhere; an object of its own, unlike any constant.
DEAD_EDGE = tuple([None, 0])  # noqa: C409  (a literal would be the same object as NO_EDGE)
_making_accumulator = RLock()


def gradient_edge(tensor):
    """The edge that a gradient of `tensor` flows along; NO_EDGE if it does not require grad."""
    edge = tensor._edge
    if edge is not None:
        return edge
    view = tensor._view
    if view is not None:
        return view.current_edge(tensor)
    return leaf_edge(tensor)


def leaf_edge(tensor):
    """The edge of a leaf that requires grad: its AccumulateGrad, made if it does not exist."""
    found = tensor._accumulator
    node = found() if found is not None else None
    if node is None:
        with _making_accumulator:  # graphs of several threads must end in the same node
            found = tensor._accumulator
            node = found() if found is not None else None
            if node is None:
                node = AccumulateGrad(tensor)
                tensor._accumulator = ref(node)
    return (node, 0)


def metadata_of(tensor):
    """(shape, dtype) of an output, as nodes keep it; (None, None) for one that was not asked for."""
    return (None, None) if tensor is None else (tensor._array.shape, tensor._array.dtype)


def collect_next_edges(*tensors: Any):
    """The edges of several inputs; None stands for an undefined tensor."""
    return tuple([NO_EDGE if t is None else t._edge or gradient_edge(t) for t in tensors])


def set_history(tensor, node) -> None:
    """Make `tensor` the next output of `node` (which then knows its shape and dtype).

    Args:
        tensor: a fresh result, or None for an undefined output.
        node: the backward node of the operator that computed it.
    """
    metadata = node.input_metadata
    output_nr = len(metadata) // 2
    if tensor is None:
        node.input_metadata = (*metadata, None, None)
        return
    array = tensor._array
    node.input_metadata = (*metadata, array.shape, array.dtype)
    tensor._edge = (node, output_nr)


# The class attributes of Tensor in which an instance holds its place in a graph, and what it remembers of it.
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
    """A tensor of the same class that stands for the same values, without history; it shares what the other holds."""
    out = object.__new__(tensor.__class__)
    out.__dict__.update({name: value for name, value in tensor.__dict__.items() if name not in _HISTORY})
    out._array, out._edge, out._vc = tensor._array, NO_EDGE, tensor._vc
    return out
