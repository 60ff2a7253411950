"""Tangents of forward mode: reading, setting, updating. autograd/forward_ad.py opens and closes levels."""

from __future__ import annotations

from weakref import ref

import numpy as np

from ..dispatch import _operators
from ..dispatch.state import FORWARD_AD, GRAD_OFF, state
from ..memory.conjugation import with_bits
from ..memory.locks import new_lock
from ..memory.metadata import Metadata
from ..memory.ownership import extent, offset_in_elements, owner, strided_view
from . import late
from .node import NO_EDGE, as_pair
from .saved_variable import saved_outputs

_holders: list = []  # weak references to tensors and saved variables with a tangent of the open level
_tidying = new_lock()
_tidied = [1024]  # the length of `_holders` at which those that are gone are dropped: twice as many as were alive


def tangent_of(tensor):
    """Return the tangent of a tensor: its own, or, for a view, its part of the base's; None if there is none."""
    found = tensor._tangent
    if found is None:
        view = tensor._view
        if view is not None and view.carries_tangents and view.base._tangent is not None:
            return tangent_through_base(tensor)
    return found


def is_differentiated(*tensors):
    """Whether a derivative of what is computed from the tensors may be asked for: a graph is recorded, or there are
    tangents. A formula that is not may call an operator that has no derivative."""
    flags = state.flags
    for tensor in tensors:
        if not flags & GRAD_OFF and tensor.requires_grad or flags & FORWARD_AD and tangent_of(tensor) is not None:
            return True
    return False


def tangent_to_write(tensor):
    """Return the tangent of a tensor that is about to be written; a copy if a formula that reads it may be recorded."""
    found = tangent_of(tensor)
    return found if found is None or state.flags & GRAD_OFF else without_tangents(_operators.clone, found)


def without_tangents(function, *args):
    """Call `function(*args)` without computing tangents of its results."""
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
    if not _same_strides(tangent._array, tensor._array):
        tangent = laid_out_like(tangent, tensor._array.strides)
    hold_tangent(tensor, tangent)
    node, nr = as_pair(tensor._edge or NO_EDGE)
    if node is not None:
        for saved in saved_outputs(node, nr):  # saved before it had a tangent
            hold_tangent(saved, tangent)


def _element_strides(array):
    """Return strides in elements: a tangent may have another dtype than its primal."""
    size = array.itemsize
    return [s // size for s in array.strides]


def _same_strides(one, other) -> bool:
    """Return whether arrays of one shape have the same strides in elements, where those matter."""
    mine, its = _element_strides(one), _element_strides(other)
    return mine == its or all(n == 1 or a == b for n, a, b in zip(one.shape, mine, its, strict=True))


def laid_out_like(tangent, strides):
    """Return the tangent in the memory layout of its tensor, so that views of the tensor are views of it, too."""
    order = sorted(range(len(strides)), key=lambda d: -strides[d])
    inverse = sorted(range(len(strides)), key=order.__getitem__)
    return tangent.permute(order).contiguous().permute(inverse)


def with_layout_of(tensor, tangent):
    """Return a tangent as the tensor is laid out in its storage, so that each view of the tensor is one of the tangent.

    Returns:
        `tangent` itself if strides, offset, the storage's number of elements and both bits are equal; else a copy.
    """
    array, given = tensor._array, tangent._array
    if Metadata in (array.__class__, given.__class__) or hasattr(tensor, "_physical") or hasattr(tangent, "_physical"):
        return tangent
    bits = tensor.is_conj() and tangent.is_complex(), tensor.is_neg()
    numel, offset = _storage_numel(array), offset_in_elements(array)
    if (
        (tangent.is_conj(), tangent.is_neg()) == bits
        and offset_in_elements(given) == offset
        and _storage_numel(given) == numel
        and _same_strides(given, array)
    ):
        return tangent
    memory = strided_view(np.zeros(numel, given.dtype), array.shape, _element_strides(array), offset)
    return _operators.copy_(_operators.wrap(with_bits(memory, *bits)), tangent)


def _storage_numel(array):
    start, end = extent(owner(array))
    return (end - start) // array.itemsize


def hold_tangent(holder, tangent) -> None:
    """Set the tangent of a Tensor or of a SavedVariable until the level closes."""
    if holder._tangent is None:
        _holders.append(ref(holder))
        if len(_holders) > _tidied[0]:
            _forget_dead_holders()
    holder._tangent = tangent


def _forget_dead_holders() -> None:
    """Shorten the list of holders, which other threads may meanwhile append to."""
    if _tidying.acquire(blocking=False):
        try:
            count = len(_holders)
            alive = [reference for reference in _holders[:count] if reference() is not None]
            _holders[:count] = alive
            _tidied[0] = max(1024, 2 * len(alive))
        finally:
            _tidying.release()


def drop_tangents() -> None:
    """Remove all tangents when the level closes."""
    for reference in _holders:
        found = reference()
        if found is not None:
            found._tangent = None
    _holders.clear()
    _tidied[0] = 1024


def zeros_for(tensor):
    """Return zeros as a formula's tangent for a tensor that has none; see Note [Zero tangents]."""
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
        node, nr = as_pair(tensor._edge or NO_EDGE)
        if node is not None:
            for saved in saved_outputs(node, nr):
                hold_tangent(saved, current)
    else:
        set_tangent(tensor, tangent)


def tangent_through_base(tensor, written=None):
    """Return a view's part of its base's tangent, which is initialised with zeros.

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
