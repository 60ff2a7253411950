"""Views and in-place writes: which tensors share memory, and how a write changes their history.

Note [Views and in-place writes]
Every differentiable view has a reference to the tensor at the root of its chain of views (its base) and shares its
version counter. Writing in place bumps the counter and gives a new history:

- to a tensor that is not a view: its edge becomes output 0 of the writing node (`rebase_history`);
- to a view: the *base* gets a CopySlices node, whose backward passes the writing node the gradient of the written
  region only. All other views of the base become stale: their version no longer matches, and when their edge is next
  needed, it is remade as an as_strided view of the base's new history.

as_strided cannot replay a view of another dtype or of the real part of complex memory; such a view has a `replay`
function.

A view without history of its own (made in no_grad mode, or of a tensor that did not require grad then) requires grad as
soon as its base does, as in PyTorch: operators on it are recorded, but no gradient flows along its edge.
"""

from __future__ import annotations

import numpy as np

from ..dispatch import _operators
from ..dispatch.state import GRAD_OFF, INFERENCE, state
from ..memory.ownership import offset_in_elements, strided_view
from .edge import DEAD_EDGE, NO_EDGE, gradient_edge, leaf_edge
from .node import Node, as_pair, next_sequence_nr, operator_name
from .saved_variable import FREED_MESSAGE

new = object.__new__
# Creation metadata of a view; any but DEFAULT restricts writes in grad mode. TRANSFORM_INPUT marks an argument of a
# transformed function.
DEFAULT, MULTI_OUTPUT, NO_GRAD, CUSTOM_FUNCTION, INFERENCE_VIEW, TRANSFORM_INPUT = range(6)


class ViewMeta:
    """A view's base, its edge, and the way to make it again. `make_view` sets all of it: a call of a class that has an
    `__init__` takes twice as long.

    Attributes:
        base: the tensor whose memory it shows, which is no view.
        edge: the view's edge as of `version`.
        version: the version of the memory then.
        creation: one of the constants above.
        replay: function from base to view, if as_strided cannot replay it.
        is_own_leaf: whether requires_grad_() was called on a view without history.
    """

    __slots__ = ("base", "edge", "version", "creation", "replay", "is_own_leaf")
    carries_tangents = True  # whether it is also a view in forward mode

    @property
    def requires_grad(self) -> bool:
        """Return whether the view requires grad: by its history, as a leaf, or through its base."""
        return self.edge is not NO_EDGE or self.is_own_leaf or self.base.requires_grad

    def history(self, tensor):
        """Return the edge of the view operator, remade if the base was written to since; NO_EDGE without history.

        Raises RuntimeError if the base was written to, and a view with this creation metadata must not be replayed.
        """
        edge, version = self.edge, tensor._vc[0]
        if version == self.version:
            return edge
        base = self.base
        if not base.requires_grad:
            if edge is NO_EDGE:
                return edge
            base = base._detached_alias()  # the base was detached since: gradients end at the view
            base._edge = DEAD_EDGE
        if self.creation != DEFAULT:
            raise RuntimeError(
                forbidden_view_message(self, "its base or another view of its base has been modified inplace")
            )
        self.edge, self.version = self._replayed_edge(tensor, base), version
        if tensor._retains_grad:
            move_retained_gradient(edge, self.edge)
        return self.edge

    def current_edge(self, tensor):
        """Return the edge that a gradient of the view flows along."""
        edge = self.edge
        if edge is NO_EDGE or tensor._vc[0] != self.version:
            edge = self.history(tensor)
            if edge is NO_EDGE:
                if self.is_own_leaf:
                    return leaf_edge(tensor)
                return DEAD_EDGE if self.base.requires_grad else NO_EDGE
        return edge

    def _replayed_edge(self, tensor, base):
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


class PrimalView(ViewMeta):
    """Metadata of a primal that `unpack_dual` returns: it has no tangent, although its base may have one."""

    __slots__ = ()
    carries_tangents = False


def make_view(result, source, edge, flags, creation=DEFAULT, replay=None):
    """Register a new result as a view of the tensor whose memory it shares.

    Args:
        result: the new Tensor.
        source: the input it is a view of.
        edge: the edge to the view operator's node, or NO_EDGE.
        flags: the thread's dispatch flags when the operator was called.
        creation: one of the constants above.
        replay: function that makes the view from `source`, if as_strided cannot.
    """
    counter = source._vc
    if counter is None:
        counter = source._vc = [0]
    result._vc = counter
    view = source._view
    if not flags and view is None and replay is None and not source._inference:
        result._edge = None
        result._view = view = ViewMeta()
        view.base = source
        view.edge = edge
        view.version = counter[0]
        view.creation = creation
        view.replay = None
        view.is_own_leaf = False
        return result
    base = source
    if source._inference:
        result._inference = True
        return result
    if flags & (INFERENCE | GRAD_OFF) and creation != CUSTOM_FUNCTION:
        creation = INFERENCE_VIEW if flags & INFERENCE else NO_GRAD
    if view is not None:
        base = view.base
        if view.replay is not None:
            replay = _through(view.replay, result._array) if replay is None else _chained(view.replay, replay)
        elif replay is not None:
            replay = _chained(_restriding(source._array), replay)
        if creation == DEFAULT or view.creation == INFERENCE_VIEW:
            creation = view.creation
    result._edge = None
    result._view = meta = ViewMeta()
    meta.base, meta.edge, meta.version = base, edge, counter[0]
    meta.creation, meta.replay, meta.is_own_leaf = creation, replay, False
    return result


def make_views(results, source, edge, flags):
    """Register the outputs of an operator as views of one tensor, with the effect of `make_view` on each.

    Args:
        results: new Tensors.
        source: the input they are views of.
        edge: the operator's node, whose output number i is results[i]; or NO_EDGE.
        flags: the thread's dispatch flags when the operator was called.
    """
    if flags or source._view is not None or source._inference:
        for nr, result in enumerate(results):
            make_view(result, source, edge if edge is NO_EDGE else (edge, nr), flags, MULTI_OUTPUT)
        return
    counter = source._vc
    if counter is None:
        counter = source._vc = [0]
    version = counter[0]
    nr = 0
    for result in results:
        result._vc = counter
        result._edge = None
        result._view = view = ViewMeta()
        view.base = source
        view.edge = edge if edge is NO_EDGE else (edge, nr)
        view.version = version
        view.creation = MULTI_OUTPUT
        view.replay = None
        view.is_own_leaf = False
        nr += 1


def replay_by_operator(result, call) -> None:
    """Let a view be recreated by the operators that made it.

    Args:
        result: the view.
        call: the call that returned it; its first argument is the tensor viewed.
    """
    source, *others = call.args
    if result is source:
        return
    view = source._view
    before = None if view is None else view.replay or _restriding(source._array)

    def replay(root):
        return call.with_args((root if before is None else before(root), *others)).below(-1)

    result._view.replay = replay


def _chained(outer, inner):
    return lambda root: inner(outer(root))


def _through(replay, array):
    return _chained(replay, _restriding(array))


def _restriding(array):
    """Return a function that makes the view `array` of a tensor with the same memory and dtype."""
    shape, item, offset = array.shape, array.itemsize, offset_in_elements(array)
    strides = tuple([s // item for s in array.strides])
    return lambda root: _operators.as_strided(root, shape, strides, offset)


def check_inplace(tensor, others=()) -> None:
    """Refuse a write that would break the graph; called in grad mode, for a leaf that requires grad or a view.

    Args:
        tensor: the tensor to be written.
        others: the operator's other differentiable inputs: Tensors, None, lists of them.

    Raises RuntimeError for a leaf that requires grad, a view of one, and views that must not be written.
    """
    view = tensor._view
    if view is not None and view.creation == DEFAULT and view.edge is not NO_EDGE and tensor._vc[0] == view.version:
        edge = view.base._edge
        if edge is not None and as_pair(edge)[0] is not None:  # neither a leaf nor a view of one
            return
    requires_grad = tensor.requires_grad
    if not requires_grad and not _any_requires_grad(others):
        return
    if view is not None:
        if view.creation != DEFAULT:
            raise RuntimeError(forbidden_view_message(view, "is being modified inplace"))
        if requires_grad and view.base.is_leaf:
            raise RuntimeError("a view of a leaf Variable that requires grad is being used in an in-place operation.")
    if requires_grad and tensor.is_leaf:
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")


def _any_requires_grad(tensors) -> bool:
    return any(
        _any_requires_grad(t) if isinstance(t, (tuple, list)) else t is not None and t.requires_grad for t in tensors
    )


def forbidden_view_message(view, modified: str) -> str:
    """Return the message for a view that must not be written, or replayed, while its history is recorded.

    Args:
        modified: the words that follow "A view ... and".
    """
    node, nr = as_pair(view.edge)
    if view.creation == TRANSFORM_INPUT:
        return (
            "a leaf Variable that requires grad is being used in an in-place operation: the Tensor "
            f"{modified}, and it is an argument of a function that gradloom.func differentiates, or a view of "
            "one. Write to a clone of it."
        )
    if view.creation in (NO_GRAD, INFERENCE_VIEW):
        mode, other = (
            ("no_grad", "with grad mode enabled") if view.creation == NO_GRAD else ("inference", "in normal mode")
        )
        block = "no_grad" if view.creation == NO_GRAD else "inference_mode"
        what = (
            f"A view was created in {mode} mode"
            if node is None
            else f"Output {nr} of {operator_name(node)} is a view of a view which was created in {mode} mode"
        )
        return (
            f"{what} and {modified} {other}. Given that this use case is ambiguous and error-prone, it is "
            "forbidden. You can clarify your code by moving both the view and the inplace either both inside the "
            f"{block} block (if you don't want the inplace to be tracked) or both outside (if you want the inplace "
            "to be tracked)."
        )
    made = (
        f"A view was created in no_grad mode and {modified} with grad mode enabled."
        if node is None
        else f"Output {nr} of {operator_name(node)} is a view and {modified}."
    )
    if view.creation == MULTI_OUTPUT:
        return (
            f"{made} This view is the output of a function that returns multiple views. Such functions do not "
            "allow the output views to be modified inplace. You should replace the inplace operation by an "
            "out-of-place one."
        )
    return (
        f"{made} This view was created inside a custom Function (or because an input was returned as-is) and the "
        "autograd logic to handle view+inplace would override the custom backward associated with the custom "
        "Function, leading to incorrect gradients. This behavior is forbidden. You can fix this by cloning the "
        "output of the custom Function."
    )


def move_retained_gradient(old, new) -> None:
    """Move the hook of `retain_grad` from a tensor's old edge to its new one."""
    (node, nr), (new_node, new_nr) = as_pair(old), as_pair(new)
    if node is not None and node.hooks is not None and nr in node.hooks.retain_grad and new_node is not None:
        new_node.ensure_hooks().retain_grad[new_nr] = node.hooks.retain_grad.pop(nr)


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
        old = tensor._edge
        tensor._edge = node
        if tensor._retains_grad:
            move_retained_gradient(old, tensor._edge)
        return
    base = view.base
    base_edge = base._edge or gradient_edge(base)
    base._edge = CopySlices(base, tensor, base_edge, node, view.replay)
    if base._retains_grad:
        move_retained_gradient(base_edge, base._edge)
    if tensor._retains_grad or tensor._backward_hooks:
        view.history(tensor)  # else the view's edge is remade when it is needed: mostly the view is not used again


def replace_history(tensor, node) -> None:
    """Make `node` the history of a tensor whose shape, not memory, an operator changed in place.

    Args:
        tensor: the Tensor, its version already bumped.
        node: the node of the operator; its edge is the tensor's former history.
    """
    array = tensor._array
    node.input_metadata = (array.shape, array.dtype)
    view = tensor._view
    if view is None:
        tensor._edge = node
    else:
        view.edge, view.version = node, tensor._vc[0]


def share_version(result, source) -> None:
    """Share the source's version counter with a result on its memory that is not a differentiable view."""
    counter = source._vc
    if counter is None:
        counter = source._vc = [0]
    result._vc = counter
    if source._inference or state.flags & INFERENCE:
        result._inference = True


class CopySlices(Node):
    """Backward of a write into a view, for the base: the region's gradient goes through the writing node."""

    __slots__ = ("fn", "geometry", "base_layout", "replay")

    def __init__(self, base, view, base_edge, fn, replay):
        array, shown = base._array, view._array
        item = shown.itemsize
        start = offset_in_elements(array)
        self.fn = fn
        self.geometry = (shown.shape, tuple([s // item for s in shown.strides]), offset_in_elements(shown) - start)
        self.base_layout = (tuple([s // array.itemsize for s in array.strides]), 0 if replay is None else start)
        self.replay = replay
        self.next_edges = (base_edge, *fn.next_edges[1:])
        self.sequence_nr = next_sequence_nr()
        self.input_metadata = (array.shape, array.dtype)
        self.hooks = None

    def apply(self, grads, edges):
        grad = grads[0]
        if grad is None:
            return (None,) * len(edges)
        if self.geometry is None:
            raise RuntimeError(FREED_MESSAGE)
        shape, strides, offset = self.geometry
        out = _like_base(grad, *self.base_layout)
        region = self.replay(out) if self.replay is not None else _operators.as_strided(out, shape, strides, offset)
        base_edge = edges[0]
        needs_base = as_pair(base_edge)[0] is not None
        inner = self.fn.apply(
            [_operators.clone(region)], (NO_EDGE if base_edge is NO_EDGE else self.fn.next_edges[0], *edges[1:])
        )
        first = inner[0] if needs_base else None
        if first is not None:
            if first._array.shape != shape or first._array.dtype != region._array.dtype:
                from .gradient_checks import validate_gradient

                first = validate_gradient(first, shape, region._array.dtype, self.fn, 0)
            _operators.copy_(region, first)
        else:
            _operators.zero_(region)
        return (out if needs_base else None, *inner[1:])

    def release_variables(self):
        self.geometry = None  # marks that a pass without retain_graph has run
        if self.fn.release_variables is not None:
            self.fn.release_variables()


def _like_base(grad, strides, start):
    """Return a differentiable copy of `grad` in the base's memory layout, to which the view's geometry applies."""
    array = grad._array
    if hasattr(grad, "_physical"):  # batched: each batch element has such memory, one after the other
        last = sum([(n - 1) * s for n, s in zip(array.shape, strides, strict=True)]) if array.size else 0
        return grad._batched_like(_like_base(grad._physical, (start + 1 + last, *strides), start))
    if array.__class__ is not np.ndarray:  # a wrapper subclass, whose views are replayed
        return _operators.copy_(_operators.new_empty_strided(grad, array.shape, strides), grad)
    span = start + 1 + sum([(n - 1) * s for n, s in zip(array.shape, strides, strict=True)]) if array.size else 0
    memory = np.zeros(span, array.dtype)
    return _operators.copy_(_operators.wrap(strided_view(memory, array.shape, strides, start)), grad)
