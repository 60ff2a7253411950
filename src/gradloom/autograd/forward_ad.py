"""Forward-mode differentiation: dual levels, and tensors that carry a tangent."""

from __future__ import annotations

from .. import _operators
from ..dispatch import FORWARD_AD, state
from .saved_variable import saved_outputs

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]

_level = [-1]
_open: list = []  # what has a tangent of the open level, to take it away when the level closes


class UnpackedDualTensor(tuple):
    """The pair (primal, tangent) that `unpack_dual` returns."""

    __slots__ = ()
    primal = property(lambda self: self[0])
    tangent = property(lambda self: self[1])

    def __repr__(self):
        return f"UnpackedDualTensor(primal={self[0]!r}, tangent={self[1]!r})"


def enter_dual_level() -> int:
    """Open a forward-mode level.

    Raises:
        RuntimeError: if one is open: nested levels do not exist, as in PyTorch.
    """
    if _level[0] >= 0:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    _level[0] += 1
    state.flags |= FORWARD_AD
    return _level[0]


def exit_dual_level(*, level=None) -> None:
    """Close the level: all tangents are dropped."""
    if level is None:
        level = _level[0]
    if level != _level[0] or level < 0:
        raise RuntimeError("Trying to exit a forward AD level that was not the last one that was created. This is not "
                           "supported.")
    _level[0] -= 1
    state.flags &= ~FORWARD_AD
    for reference in _open:
        found = reference()
        if found is not None:
            found._tangent = None
    _open.clear()


class dual_level:
    """A `with` block in which tensors may be dual."""

    def __enter__(self):
        return enter_dual_level()

    def __exit__(self, kind, error, traceback):
        if error is not None:
            from .error_notes import explain_forward
            explain_forward(error)
        exit_dual_level()


def make_dual(tensor, tangent, *, level=None):
    """`tensor` with `tangent` attached: a view of it, differentiable by both modes.

    Args:
        tensor: floating or complex.
        tangent: same shape and dtype.

    Raises:
        RuntimeError: outside of a level.
        ValueError: if the dtypes cannot carry a derivative.
    """
    if _level[0] < 0:
        raise RuntimeError("Trying to create a dual Tensor for forward AD but no level exists, make sure to "
                           "enter_dual_level() first.")
    if not (tensor.is_floating_point() or tensor.is_complex()):
        raise ValueError(f"Expected primal to be floating point or complex, but got: {tensor.dtype}")
    if not (tangent.is_floating_point() or tangent.is_complex()):
        raise ValueError(f"Expected tangent to be floating point or complex, but got: {tangent.dtype}")
    if tensor._array.shape != tangent._array.shape:
        raise RuntimeError(f"Expected primal and tangent to have the same shape, but got {list(tensor.shape)} and "
                           f"{list(tangent.shape)}")
    state.flags &= ~FORWARD_AD
    try:
        dual = _operators.view_as(tensor, tensor)
    finally:
        state.flags |= FORWARD_AD
    set_tangent(dual, tangent)
    return dual


def unpack_dual(tensor, *, level=None) -> UnpackedDualTensor:
    """The primal and the tangent (None if it has none) of a tensor."""
    if _level[0] < 0:
        return UnpackedDualTensor((tensor, None))
    tangent = tensor._tangent
    if tangent is None:
        return UnpackedDualTensor((tensor, None))
    flags = state.flags
    state.flags = flags & ~FORWARD_AD
    try:
        return UnpackedDualTensor((_operators.view_as(tensor, tensor), tangent))
    finally:
        state.flags = flags


def set_tangent(tensor, tangent) -> None:
    """Give a result its tangent; a written tensor's old tangent is written in place, so that its views see it."""
    if tangent is None:
        return
    if tangent._array.shape != tensor._array.shape:
        tangent = _operators.expand(tangent, tensor._array.shape)
    if tangent._array.dtype != tensor._array.dtype:
        tangent = tangent.to(tensor.dtype)
    if tangent._array.strides != tensor._array.strides:
        tangent = _laid_out_like(tangent, tensor._array.strides)
    hold_tangent(tensor, tangent)
    edge = tensor._edge
    if edge is not None and edge[0] is not None:
        for saved in saved_outputs(*edge):  # saved before it had a tangent
            hold_tangent(saved, tangent)


def _laid_out_like(tangent, strides):
    """The tangent with its dimensions in the order that its tensor's have in memory, so that a view of the tensor is
    one
    of the tangent, too."""
    order = sorted(range(len(strides)), key=lambda d: -strides[d])
    inverse = sorted(range(len(strides)), key=order.__getitem__)
    return tangent.permute(order).contiguous().permute(inverse)


def hold_tangent(holder, tangent) -> None:
    """Set the tangent of a Tensor or of a SavedVariable until the level closes."""
    from weakref import ref

    if holder._tangent is None:
        _open.append(ref(holder))
    holder._tangent = tangent


def zeros_for(tensor):
    """The tangent of a tensor that has none."""
    import numpy as np
    return _operators.wrap(np.zeros(tensor._array.shape, tensor._array.dtype))


def tangent_or_zeros(tensor):
    """A tensor's tangent, zeros where it has none, None for an undefined tensor."""
    if tensor is None:
        return None
    found = tensor._tangent
    return zeros_for(tensor) if found is None else found


def update_tangent(tensor, tangent) -> None:
    """The new tangent of a tensor that was written in place."""
    if tangent is None:
        return
    held = tensor._tangent
    if held is None and tensor._view is not None:
        held = _tangent_through_base(tensor)
    if held is None or held is tangent or held.requires_grad and held.is_leaf:
        set_tangent(tensor, tangent)
    elif held._array.shape == tangent._array.shape and held._array.flags.writeable:
        _operators.copy_(held, tangent)
    else:
        set_tangent(tensor, tangent)


def _tangent_through_base(tensor):
    """The tangent of a view whose base gets a tangent, too: the same view of the base's tangent, which begins as zeros.
    """
    import numpy as np

    from ..storage import offset_in_elements
    base, array = tensor._view.base, tensor._array
    whole = base._tangent
    if whole is None:
        whole = _operators.wrap(np.zeros_like(base._array))
        hold_tangent(base, whole)
    if whole._array.strides != base._array.strides:
        return None
    if tensor._view.replay is not None:
        part = tensor._view.replay(whole)
    else:
        offset = offset_in_elements(array) - offset_in_elements(base._array) + offset_in_elements(whole._array)
        part = _operators.as_strided(whole, array.shape, [s // array.itemsize for s in array.strides], offset)
    hold_tangent(tensor, part)
    return part
