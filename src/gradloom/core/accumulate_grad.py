"""AccumulateGrad: the end of the graph at a leaf, which adds the gradients that arrive to `.grad`.

The first gradient becomes `.grad` itself, without a copy, if nothing else refers to it. `_calibrate` measures at import
how many references the engine holds. Therefore `_own`, `_references` and the line that calls them must not bind a
gradient to another name.
"""

from __future__ import annotations

from itertools import count, cycle
from sys import getrefcount
from typing import Any

import numpy as np

from ..dispatch import _operators
from ..dispatch.state import FORWARD_AD, GRAD_OFF, INTERCEPT, state
from ..memory.locks import new_lock
from ..memory.metadata import Metadata, NoValuesError
from ..types.silence import silence
from .node import NO_EDGE, Node, bump_version


class _LeafNumber:
    """Sequence number of leaves.

    The engine negates the number of a node whose gradients are complete. Negated, this number is less than those of
    other nodes, so that gradients are accumulated and memory is freed early; it is greater than those of earlier
    leaves.
    """

    __slots__ = ()
    __neg__ = count(-(1 << 62)).__next__


LEAF_NUMBER = _LeafNumber()
# Several threads may run backward passes that end in one leaf. After a fork, locks of leaves could not be found.
_next_lock = cycle([new_lock() for _ in range(64)]).__next__


class AccumulateGrad(Node):
    """Sink of the graph: adds incoming gradients to the leaf's `.grad`."""

    __slots__ = ("variable", "lock")

    def __init__(self, variable: Any) -> None:
        array = variable._array
        self.lock = _next_lock()
        self.variable = variable
        self.next_edges = ()
        self.sequence_nr = LEAF_NUMBER  # type: ignore[assignment]
        grad_dtype = variable._grad_dtype
        self.input_metadata = (array.shape, array.dtype if grad_dtype is None else grad_dtype[0])
        self.hooks = None
        if variable._backward_hooks is not None:
            self.ensure_hooks().tensor_pre[0] = variable._backward_hooks

    def _sequence_nr(self) -> int:
        return (1 << 64) - 1 if self.sequence_nr is LEAF_NUMBER else self.sequence_nr  # type: ignore[comparison-overlap]

    def apply(self, grads: Any, edges: Any) -> Any:
        variable = self.variable
        grad = grads[0]
        if grad is not None and variable._edge is not NO_EDGE:  # detached since, if its edge is NO_EDGE
            with self.lock:
                current = variable._grad
                if current is None:
                    if state.flags & GRAD_OFF:
                        # Reference count of a gradient that nothing else refers to: see `_calibrate`.
                        grads[0] = None
                        variable._grad = _own(grad, variable)
                    elif grad.is_sparse:
                        variable._grad = _operators.clone(grad)
                    else:
                        variable._grad = (
                            _operators.clone(grad)
                            if grad.is_meta
                            else _operators.copy_(_operators.wrap(_laid_out_as(variable, grad._array)), grad)
                        )
                elif not state.flags & GRAD_OFF:
                    variable._grad = _sum(current, grad)
                elif state.flags & FORWARD_AD or state.flags & INTERCEPT and state.dispatch_modes:
                    # either may have a tangent; a mode sees the write
                    _operators.add_(current, grad)
                elif (
                    current._array.flags.c_contiguous
                    and self.input_metadata[1] is not None
                    and current._array.__class__ is np.ndarray
                ):
                    try:
                        np.add(current._array, grad._array, out=current._array)
                    except (ValueError, NoValuesError):  # `data` was set to another shape since; `grad` is sparse
                        _operators.add_(current, grad)
                    else:
                        bump_version(current)
                elif current.is_sparse and not grad.is_sparse:
                    variable._grad = _sum(current, grad)
                else:
                    _operators.add_(current, grad)  # refuses memory that overlaps itself
        hooks = variable._post_accumulate_grad_hooks
        if hooks:
            for hook in list(hooks.values()):
                if hook(variable) is not None:
                    raise RuntimeError("Tensor post accumulate grad hooks should return None.")
        return ()


def _sum(total, grad):
    """Return the sum of two gradients. Only a dense tensor adds one of the other kind."""
    if total.is_sparse and not grad.is_sparse:
        total, grad = grad, total
    return _operators.add(total, grad)


def _references(grad):
    """Return the reference counts of a tensor, its array and the array's owner, as a callee sees them."""
    array = grad._array
    base = array.base
    if base is None:
        return getrefcount(grad), getrefcount(array), 0
    return getrefcount(grad), getrefcount(array), getrefcount(base)


def _own(grad, variable):
    """Return `grad` as a tensor that the variable may keep and write to: itself if nobody else holds it, else a copy. A
    gradient with another memory layout than the variable is copied into the variable's layout."""
    array = grad._array
    if array.__class__ is not np.ndarray:
        if grad.is_sparse:
            return _operators.clone(grad)
        like = variable._array
        if isinstance(array, Metadata) and array.strides != like.strides and array.shape == like.shape:
            strides = tuple([s // like.itemsize for s in like.strides])
            return _operators.copy_(_operators.new_empty_strided(grad, like.shape, strides), grad)
        return _operators.detach(grad)
    base = array.base
    of_tensor, of_array, of_base = _references(grad)
    alone = (
        of_tensor <= _ALONE[0]
        and of_array <= _ALONE[1]
        and of_base <= _ALONE[2]
        and grad.__class__ is _operators.Tensor
        and grad._edge is NO_EDGE
        and grad._view is None
        and (base is None or (base.__class__ is np.ndarray and base.size == array.size))
    )
    if (
        not alone
        and array.nbytes >= _WORTH
        and of_tensor <= _ALONE[0]
        and of_array <= _ALONE[1]
        and _is_view_alone(grad)
    ):
        alone, grad = True, _operators.wrap(array)  # no view any more
    if alone and array.flags.writeable and (array.strides == variable._array.strides or not state.grad_layout):
        return grad
    out = _laid_out_as(variable, array)
    if type(array) is not np.ndarray and array.strides == variable._array.strides:  # keep the bits
        from ..memory.conjugation import with_bits

        out = with_bits(out, array.conj_bit, array.neg_bit)
    out[...] = array
    return _operators.wrap(out)


_WORTH = 1 << 14  # bytes whose copy takes as long as `_is_view_alone`


def _is_view_alone(grad) -> bool:
    """Return whether `grad` is a view of all elements of its base, and nothing else refers to that base.

    The backward formula of a reshape returns such a view. A base with history does not count.
    """
    view = grad._view
    if (
        view is None
        or view.edge is not NO_EDGE
        or view.base._edge is not NO_EDGE
        or grad.__class__ is not _operators.Tensor
    ):
        return False
    if view.base.__class__ is not _operators.Tensor or view.base._array is not grad._array.base:
        return False
    of_tensor, of_array = _view_references(grad)
    return of_tensor <= _ALONE_VIEW[0] and of_array <= _ALONE_VIEW[1] and view.base._array.size == grad._array.size


def _view_references(grad):
    """Return the reference counts of a view's base and the base's array, as a callee sees them."""
    return getrefcount(grad._view.base), getrefcount(grad._array.base)


def _laid_out_as(variable, array):
    """Return memory for a copy of `array` in the variable's layout.

    Raises RuntimeError if `array` does not broadcast to the variable's shape.
    """
    like = variable._array
    if like.flags.c_contiguous and like.shape == array.shape:
        return np.empty(array.shape, array.dtype)
    from ..kernels._common.errors import size_mismatch
    from ..kernels._common.layout import is_dense, new_like
    from .gradient_checks import expandable

    if like.shape != array.shape and not expandable(array.shape, like.shape):  # `data` was set to another shape since
        raise RuntimeError(size_mismatch([like.shape, array.shape]))
    return new_like(like, array.dtype) if is_dense(like) else np.empty(like.shape, array.dtype)


_ALONE, _ALONE_VIEW = (0, 0, 0), (0, 0)


def _calibrate():
    """Measure the reference counts of a gradient that only the engine holds; they differ between Python versions."""
    global _ALONE, _ALONE_VIEW
    seen = []

    class Probe:
        __slots__ = ("_array", "_view", "base")

    def own(grad, variable):
        array = grad._array
        base = array.base
        seen.append(_references(grad))
        return array, base

    def apply(grads):
        grad = grads[0]
        grads[0] = None
        own(grad, None)

    for make in (lambda: np.empty(2), lambda: np.empty((2, 2)).reshape(4)):
        probe = Probe()
        probe._array = make()
        grads = [probe]
        del probe
        apply(grads)
    _ALONE = (seen[0][0], seen[0][1], seen[1][2])
    probe, probe._view, probe._view.base = Probe(), Probe(), Probe()
    probe._view.base._array = np.empty((2, 2))
    probe._array = probe._view.base._array.reshape(4)
    base = probe._array.base  # `_own` has a variable for it, too
    _ALONE_VIEW = _view_references(probe)
    del base


_calibrate()


silence(globals())
