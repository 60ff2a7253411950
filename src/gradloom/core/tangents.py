"""Tangents of forward mode, read, set and updated. Levels are opened and closed in autograd/forward_ad.py."""

from __future__ import annotations

from weakref import ref

import numpy as np

from ..dispatch import _operators
from ..dispatch.state import FORWARD_AD, GRAD_OFF, state
from ..memory.ownership import offset_in_elements
from . import late
from .saved_variable import saved_outputs

_holders: list = []  # weak references to tensors and saved variables with a tangent of the open level


def tangent_of(tensor):
    """Return the tangent of a tensor: its own, or, for a view, its part of the base's; None if there is none."""
    found = tensor._tangent
    if found is None:
        view = tensor._view
        if view is not None and view.carries_tangents and view.base._tangent is not None:
            return tangent_through_base(tensor)
    return found


def tangent_to_write(tensor):
    """Return the tangent of a tensor whose values and tangent are about to be written. It is a copy if a formula that
    reads it may be recorded."""
    found = tangent_of(tensor)
    return found if found is None or state.flags & GRAD_OFF else without_tangents(_operators.clone, found)


def without_tangents(function, *args):
    """Call `function(*args)` so that its results have no tangents."""
    flags = state.flags
    state.flags = flags & ~FORWARD_AD
    try:
        return function(*args)
    finally:
        state.flags = flags


def set_tangent(tensor, tangent, as_given: bool = False) -> None:
    """Give a result its tangent. A real result gets the real part of a complex one, unless `as_given`."""
    if tangent is None or tensor._array.dtype.kind in "iub":
        return
    if tangent._is_zerotensor():
        tangent = tangent._dense()
    if tangent._array.shape != tensor._array.shape:
        tangent = _operators.expand(tangent, tensor._array.shape)
    if tangent._array.dtype.kind == "c" and tensor._array.dtype.kind != "c" and not as_given:
        tangent = tangent.to(tensor.dtype)
    if _element_strides(tangent._array) != _element_strides(tensor._array):
        tangent = laid_out_like(tangent, tensor._array.strides)
    hold_tangent(tensor, tangent)
    edge = tensor._edge
    if edge is not None and edge[0] is not None:
        for saved in saved_outputs(*edge):  # saved before it had a tangent
            hold_tangent(saved, tangent)


def _element_strides(array):
    """Return strides in elements: a tangent may have another dtype than its primal."""
    size = array.itemsize
    return [s // size for s in array.strides]


def laid_out_like(tangent, strides):
    """Order a tangent's memory as its tensor's is, so that a view of the tensor is one of the tangent."""
    order = sorted(range(len(strides)), key=lambda d: -strides[d])
    inverse = sorted(range(len(strides)), key=order.__getitem__)
    return tangent.permute(order).contiguous().permute(inverse)


def hold_tangent(holder, tangent) -> None:
    """Set the tangent of a Tensor or of a SavedVariable until the level closes."""
    if holder._tangent is None:
        _holders.append(ref(holder))
    holder._tangent = tangent


def drop_tangents() -> None:
    """Remove all tangents, as the level closes."""
    for reference in _holders:
        found = reference()
        if found is not None:
            found._tangent = None
    _holders.clear()


def zeros_for(tensor):
    """Return the zeros that a formula gets for a tensor without a tangent; see Note [Zero tangents]."""
    return late.zero_tensor(tensor._array.shape, tensor._array.dtype)


def update_tangent(tensor, tangent) -> None:
    """Set the new tangent of a tensor that was written in place."""
    if tangent is None:
        return
    current = tangent_of(tensor)
    if current is None and tensor._view is not None:
        current = tangent_through_base(tensor, tangent)
    elif current is not None and hasattr(tangent, "_physical"):
        current = late.batched_tangent(tensor, current, tangent)
    if current is None or current is tangent or current.requires_grad and current.is_leaf:
        set_tangent(tensor, tangent)
    elif current._array.shape == tangent._array.shape and current._array.flags.writeable:
        _operators.copy_(current, tangent)
        if tensor._edge is not None and tensor._edge[0] is not None:
            for saved in saved_outputs(*tensor._edge):
                hold_tangent(saved, current)
    else:
        set_tangent(tensor, tangent)


def tangent_through_base(tensor, written=None):
    """Return a view's part of its base's tangent, which begins as zeros.

    Args:
        written: the tangent that is about to be written to the view; if it is batched, the base's becomes batched, too.
    """
    base, array = tensor._view.base, tensor._array
    whole = base._tangent
    if whole is None:
        whole = _operators.wrap(np.zeros_like(base._array))
        hold_tangent(base, whole)
    if written is not None and hasattr(written, "_physical"):
        return late.batched_tangent(tensor, whole, written)
    if _element_strides(whole._array) != _element_strides(base._array):
        return None
    if tensor._view.replay is not None:
        part = tensor._view.replay(whole)
    else:
        offset = offset_in_elements(array) - offset_in_elements(base._array) + whole.storage_offset()
        part = _operators.as_strided(whole, array.shape, [s // array.itemsize for s in array.strides], offset)
    hold_tangent(tensor, part)
    return part
