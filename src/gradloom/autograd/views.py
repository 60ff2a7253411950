"""Views and writes in place: who shares memory with whom, and how a write changes their history.

Note [Views and in-place writes]
Every differentiable view remembers the tensor at the root of its chain of views (its base) and shares its version
counter. Writing in place bumps the counter and gives a new history:

- to a tensor that is no view: its edge becomes output 0 of the writing node (`rebase_history`);
- to a view: the *base* gets a CopySlices node, which in backward lets the writing node see only the gradient of the
  region that was written. All other views of the base become stale: their version no longer matches, and the next time
  their edge is asked for, it is made anew as an as_strided view of the base's new history.

A view that shows another dtype or the real part of complex memory cannot be replayed by as_strided on its base; it
carries a `replay` function instead.
"""

from __future__ import annotations

import numpy as np

from .. import _operators
from ..dispatch import GRAD_OFF, INFERENCE, state
from ..storage import offset_in_elements, strided_view
from .edge import NO_EDGE, gradient_edge
from .node import Node, next_sequence_nr

# How a view came to be; anything but DEFAULT restricts writes to it while grad mode is on.
DEFAULT, MULTI_OUTPUT, NO_GRAD, CUSTOM_FUNCTION, INFERENCE_VIEW = range(5)


class ViewMeta:
    """What a view knows of its base."""

    __slots__ = ("base", "edge", "version", "creation", "replay")

    def __init__(self, base, edge, version, creation=DEFAULT, replay=None):
        self.base = base
        self.edge = edge          # the view's edge as of `version`
        self.version = version
        self.creation = creation
        self.replay = replay      # function base -> view, where as_strided cannot do it

    def current_edge(self, tensor):
        """The view's edge, made anew if its base was written to since."""
        version = tensor._vc[0]
        if version != self.version:
            base = self.base
            base_edge = base._edge or gradient_edge(base)
            if base_edge is not NO_EDGE:
                self.edge = self._replayed_edge(tensor, base, base_edge)
            self.version = version
        return self.edge

    def _replayed_edge(self, tensor, base, base_edge):
        flags = state.flags
        state.flags = flags & ~(GRAD_OFF | INFERENCE)
        try:
            if self.replay is not None:
                return self.replay(base)._view.edge
            array = tensor._array
            item = array.itemsize
            strides = tuple([s // item for s in array.strides])
            return _operators.as_strided(base, array.shape, strides, offset_in_elements(array))._view.edge
        finally:
            state.flags = flags


def make_view(result, source, edge, flags, creation=DEFAULT, replay=None):
    """Tie a fresh result to the tensor whose memory it shows.

    Args:
        result: the new Tensor.
        source: the input it is a view of.
        edge: `(node, output_nr)` of the view operator, or NO_EDGE.
        flags: the thread's dispatch flags when the operator was called.
        creation: one of the constants above.
        replay: how to make the view again from the base, where as_strided cannot.
    """
    counter = source._vc
    if counter is None:
        counter = source._vc = [0]
    result._vc = counter
    if flags & INFERENCE:
        return result
    view = source._view
    base = source
    if view is not None:
        base = view.base
        if view.replay is not None and replay is None:
            replay = _through(view.replay, result._array)
        elif view.replay is not None:
            outer, inner = view.replay, replay
            replay = lambda root: inner(outer(root))  # noqa: E731
        if creation == DEFAULT:
            creation = view.creation
    if flags & GRAD_OFF and creation == DEFAULT:
        creation = NO_GRAD
    result._edge = None
    result._view = ViewMeta(base, edge, counter[0], creation, replay)
    return result


def _through(replay, array):
    shape, item, offset = array.shape, array.itemsize, offset_in_elements(array)
    strides = tuple([s // item for s in array.strides])
    return lambda root: _operators.as_strided(replay(root), shape, strides, offset)


def check_inplace(tensor, requires_grad: bool) -> None:
    """Refuse a write that would break the graph.

    Args:
        tensor: what is about to be written.
        requires_grad: whether the write will be recorded (any input requires grad and grad mode is on).

    Raises:
        RuntimeError: for a leaf that requires grad, a view of one, and views that must not be written.
    """
    view = tensor._view
    if view is None:
        if tensor._edge is None and not state.flags & GRAD_OFF:
            raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
        return
    if state.flags & GRAD_OFF:
        return
    base = view.base
    if base._edge is None and base._view is None and requires_grad:
        raise RuntimeError("a view of a leaf Variable that requires grad is being used in an in-place operation.")
    if view.creation != DEFAULT and requires_grad:
        raise RuntimeError(forbidden_view_message(tensor, view))


def forbidden_view_message(tensor, view) -> str:
    """Why a view must not be written while its history is recorded."""
    node = view.edge[0]
    made = (f"Output {view.edge[1]} of {node.name()} is a view and is being modified inplace." if node is not None
            else "A view was created in no_grad mode and is being modified inplace with grad mode enabled.")
    if view.creation == MULTI_OUTPUT:
        made = made.replace(f" of {node.name()} ", f" of {node.name().split('Backward')[0]} ")
        return (f"{made} This view is the output of a function that returns multiple views. Such functions do not "
                "allow the output views to be modified inplace. You should replace the inplace operation by an "
                "out-of-place one.")
    if view.creation == NO_GRAD:
        return ("A view was created in no_grad mode and is being modified inplace with grad mode enabled. Given that "
                "this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both "
                "the view and the inplace either both inside the no_grad block (if you don't want the inplace to be "
                "tracked) or both outside (if you want the inplace to be tracked).")
    if view.creation == INFERENCE_VIEW:
        return ("A view was created in inference mode and is being modified inplace in normal mode. Move both inside "
                "or both outside of inference mode.")
    return (f"{made} This view was created inside a custom Function (or because an input was returned as-is) and the "
            "autograd logic to handle view+inplace would override the custom backward associated with the custom "
            "Function, leading to incorrect gradients. This behavior is forbidden. You can fix this by cloning the "
            "output of the custom Function.")


def rebase_history(tensor, node) -> None:
    """Make `node` the history of a tensor that was just written in place.

    Args:
        tensor: the written Tensor, its version already bumped.
        node: the node of the in-place operator; its first edge is the tensor's former history.
    """
    view = tensor._view
    array = tensor._array
    node.input_metadata = (array.shape, array.dtype)
    if view is None:
        tensor._edge = (node, 0)
        return
    base = view.base
    base_edge = base._edge or gradient_edge(base)
    base._edge = (CopySlices(base, tensor, base_edge, node, view.replay), 0)
    view.current_edge(tensor)


def replace_history(tensor, node) -> None:
    """Make `node` the history of a tensor of which an operator changed the shape in place, not the memory.

    Args:
        tensor: the Tensor, its version already bumped.
        node: the node of the operator; its edge is the tensor's former history.
    """
    array = tensor._array
    node.input_metadata = (array.shape, array.dtype)
    view = tensor._view
    if view is None:
        tensor._edge = (node, 0)
    else:
        view.edge, view.version = (node, 0), tensor._vc[0]


def share_version(result, source) -> None:
    """Tie a result to the memory of its source where autograd sees no view, as for one of another dtype."""
    counter = source._vc
    if counter is None:
        counter = source._vc = [0]
    result._vc = counter


class CopySlices(Node):
    """Backward of a write into a view, seen from the base: the region's gradient goes through the writing node."""

    __slots__ = ("fn", "geometry", "replay")

    def __init__(self, base, view, base_edge, fn, replay):
        array, shown = base._array, view._array
        item = shown.itemsize
        self.fn = fn
        self.geometry = (shown.shape, tuple([s // item for s in shown.strides]),
                         offset_in_elements(shown) - (offset_in_elements(array) if replay is None else 0),
                         tuple([s // array.itemsize for s in array.strides]))
        self.replay = replay
        self.next_edges = (base_edge, *fn.next_edges[1:])
        self.sequence_nr = next_sequence_nr()
        self.input_metadata = (array.shape, array.dtype)
        self.hooks = None

    def apply(self, grads):
        grad = grads[0]
        if grad is None:
            return (None,) * len(self.next_edges)
        shape, strides, offset, base_strides = self.geometry
        out = _like_base(grad, base_strides)
        region = self.replay(out) if self.replay is not None else _operators.as_strided(out, shape, strides, offset)
        inner = self.fn.apply([_operators.clone(region)])
        first = inner[0] if self.next_edges[0][0] is not None else None
        if first is not None:
            if first._array.shape != shape or first._array.dtype != region._array.dtype:
                from .validate import validate_gradient
                first = validate_gradient(first, shape, region._array.dtype, self.fn, 0)
            _operators.copy_(region, first)
        else:
            _operators.zero_(region)
        return (out if self.next_edges[0][0] is not None else None, *inner[1:])

    def release_variables(self):
        self.fn.release_variables()

    def name(self):
        return "CopySlices"


def _like_base(grad, strides):
    """A differentiable copy of `grad` laid out as the base is, so that the view's geometry fits it."""
    array = grad._array
    span = 1 + sum([(n - 1) * s for n, s in zip(array.shape, strides, strict=True)]) if array.size else 0
    memory = np.zeros(span, array.dtype)
    return _operators.copy_(_operators.wrap(strided_view(memory, array.shape, strides, 0)), grad)
