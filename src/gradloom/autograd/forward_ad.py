"""Forward-mode differentiation: dual levels, and tensors that carry a tangent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..core.node import Node
from ..core.saved_variable import saved_outputs
from ..core.views import PrimalView
from ..dispatch import _operators
from ..dispatch.state import FORWARD_AD, GRAD_OFF, each_thread, state

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..core.tensor import Tensor

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]


_level = [-1]
_open: list = []  # what has a tangent of the open level, to take it away when the level closes


class UnpackedDualTensor(tuple["Tensor", "Tensor | None"]):
    """The pair (primal, tangent) that `unpack_dual` returns."""

    __slots__ = ()
    _fields = ("primal", "tangent")

    def __new__(cls, primal: Tensor, tangent: Tensor | None) -> UnpackedDualTensor:
        return tuple.__new__(cls, (primal, tangent))

    @classmethod
    def _make(cls, pair: Iterable[Tensor | None]) -> UnpackedDualTensor:
        """From an iterable of the two, as named tuples are."""
        return tuple.__new__(cls, tuple(pair))

    def _asdict(self) -> dict[str, Tensor | None]:
        return dict(zip(self._fields, self, strict=True))

    def _replace(self, **changes: Tensor | None) -> UnpackedDualTensor:
        return self._make({**self._asdict(), **changes}.values())

    def __getnewargs__(self) -> tuple[Tensor, Tensor | None]:
        return self[0], self[1]

    @property
    def primal(self) -> Tensor:
        """The value, a view of the dual tensor without its tangent."""
        return self[0]

    @property
    def tangent(self) -> Tensor | None:
        """The tangent, of the primal's shape; None if there is none."""
        return self[1]

    def __repr__(self) -> str:
        return f"UnpackedDualTensor(primal={self[0]!r}, tangent={self[1]!r})"


def enter_dual_level() -> int:
    """Open a forward-mode level.

    Raises:
        RuntimeError: if one is open: nested levels do not exist, as in PyTorch.
    """
    if _level[0] >= 0:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    _level[0] += 1
    each_thread(FORWARD_AD, True)
    if not state.forward_grad:
        state.flags &= ~FORWARD_AD
    return _level[0]


def exit_dual_level(*, level: int | None = None) -> None:
    """Close the level: all tangents are dropped."""
    if level is None:
        level = _level[0]
    if level < 0:
        raise RuntimeError("Dual level must be a positive number: no level is open, so that none can be left.")
    if level != _level[0]:
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. This is not supported."
        )
    _level[0] -= 1
    each_thread(FORWARD_AD, False)
    for reference in _open:
        found = reference()
        if found is not None:
            found._tangent = None
    _open.clear()


class dual_level:
    """A `with` block in which tensors may be dual."""

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: object) -> None:
        exit_dual_level()
        if error is not None:
            from ..core.error_notes import explain_forward

            explain_forward(error)


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """`tensor` with `tangent` attached: a view of it, differentiable by both modes.

    Args:
        tensor: floating or complex.
        tangent: of the same shape; of another dtype, too, which the tangents of results then have as it follows.

    Raises:
        RuntimeError: outside of a level.
        ValueError: if the dtypes cannot carry a derivative.
    """
    if _level[0] < 0:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
        )
    _check_level(level)
    check_dual(tensor, tangent)
    if tangent_of(tensor) is not None:
        raise RuntimeError(
            "Making a dual Tensor based on a Tensor that already has a forward gradient at the same "
            f"level {_level[0]} is not supported."
        )
    dual = _primal_view(tensor)
    set_tangent(dual, tangent, as_given=True)
    return dual


def is_level_open() -> bool:
    """Whether a forward-mode level is open."""
    return _level[0] >= 0


def check_dual(tensor: Tensor, tangent: Tensor) -> None:
    """Refuse a pair of primal and tangent that do not fit each other; raises as `make_dual`."""
    if not (tensor.is_floating_point() or tensor.is_complex()):
        raise ValueError(f"Expected primal to be floating point or complex, but got: {tensor.dtype}")
    if not (tangent.is_floating_point() or tangent.is_complex()):
        raise ValueError(f"Expected tangent to be floating point or complex, but got: {tangent.dtype}")
    if tensor._array.shape != tangent._array.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original "
            f"Tensor, this is not supported. Tensor is of size {list(tensor.shape)} while the given "
            f"forward gradient is of size {list(tangent.shape)}."
        )


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """The primal and the tangent (None if it has none) of a tensor.

    Args:
        level: the level to read; by default the innermost.
    """
    if not isinstance(tensor, _operators.Tensor):
        raise TypeError(f"unpack_dual(): argument 'tensor' must be Tensor, not {type(tensor).__name__}")
    if _level[0] < 0 or not state.forward_grad:
        return UnpackedDualTensor(tensor, None)
    _check_level(level)
    tangent = tangent_of(tensor)
    if tangent is None:
        return UnpackedDualTensor(tensor, None)
    primal = _primal_view(tensor)
    name_identity(primal)
    return UnpackedDualTensor(primal, tangent)


class Identity(Node):
    """The node of a tensor that stands for another: a primal that `unpack_dual` gave out, an input of a transform."""

    __slots__ = ()

    def apply(self, grads, edges):
        return tuple(grads)


def name_identity(seen) -> None:
    """Let the node of what `view_as` gave be an Identity, as in PyTorch, which hands gradients on as they are."""
    view = seen._view
    if view is not None and view.edge[0] is not None:
        made, node = view.edge[0], object.__new__(Identity)
        node.next_edges, node.sequence_nr = made.next_edges, made.sequence_nr
        node.input_metadata, node.hooks = made.input_metadata, made.hooks
        view.edge = (node, 0)


def _check_level(level) -> None:
    if level is not None and level != _level[0]:
        raise RuntimeError(f"Invalid level {level}: the level that is open is {_level[0]}, and there is only one.")


def _primal_view(tensor):
    """A view for reverse mode, whose tangent is its own affair."""
    view = without_tangents(_operators.view_as, tensor, tensor)
    memory = view
    while hasattr(memory, "_physical"):  # a batched tensor
        memory = memory._physical
    if memory._view is not None:
        memory._view.__class__ = PrimalView
    return view


def __getattr__(name: str) -> int:
    if name == "_current_level":  # PyTorch's name for the level that is open; -1 for none
        return _level[0]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class _set_fwd_grad_enabled:
    """A `with` block in which this thread's operators make no tangents (or make them again)."""

    def __init__(self, mode: bool) -> None:
        self.mode = mode

    def __enter__(self) -> None:
        self.before = state.flags & FORWARD_AD, state.forward_grad
        set_forward_grad(self.mode)

    def __exit__(self, kind, error, traceback) -> None:
        flag, state.forward_grad = self.before
        state.flags = state.flags & ~FORWARD_AD | (flag if _level[0] >= 0 else 0)


def set_forward_grad(mode: bool) -> None:
    """Say whether this thread's operators make tangents within a level."""
    state.forward_grad = mode
    state.flags = state.flags | FORWARD_AD if mode and _level[0] >= 0 else state.flags & ~FORWARD_AD


def _is_fwd_grad_enabled() -> bool:
    """Whether this thread's operators make tangents within a level."""
    return state.forward_grad


def tangent_of(tensor):
    """The tangent of a tensor, None if it has none: its own, or for a view its part of the base's."""
    found = tensor._tangent
    if found is None:
        view = tensor._view
        if view is not None and view.carries_tangents and view.base._tangent is not None:
            return _tangent_through_base(tensor)
    return found


def tangent_to_write(tensor):
    """The tangent of a tensor that is about to be written, its tangent with it: a copy where a formula that reads it
    may be recorded."""
    found = tangent_of(tensor)
    return found if found is None or state.flags & GRAD_OFF else without_tangents(_operators.clone, found)


def without_tangents(function, *args):
    """`function(*args)` with results that have no tangents."""
    flags = state.flags
    state.flags = flags & ~FORWARD_AD
    try:
        return function(*args)
    finally:
        state.flags = flags


def set_tangent(tensor, tangent, as_given: bool = False) -> None:
    """Give a result its tangent, of the dtype that it has; but of a complex one a real result gets the real part."""
    if tangent is None or tensor._array.dtype.kind in "iub":
        return
    if tangent._is_zerotensor():
        from .zero_tangent import dense

        tangent = dense(tangent)
    if tangent._array.shape != tensor._array.shape:
        tangent = _operators.expand(tangent, tensor._array.shape)
    if tangent._array.dtype.kind == "c" and tensor._array.dtype.kind != "c" and not as_given:
        tangent = tangent.to(tensor.dtype)
    if _steps(tangent._array) != _steps(tensor._array):
        tangent = _laid_out_like(tangent, tensor._array.strides)
    hold_tangent(tensor, tangent)
    edge = tensor._edge
    if edge is not None and edge[0] is not None:
        for saved in saved_outputs(*edge):  # saved before it had a tangent
            hold_tangent(saved, tangent)


def _steps(array):
    """Strides in elements, since a tangent may have another dtype than its primal."""
    size = array.itemsize
    return [s // size for s in array.strides]


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
    """What a formula gets for the tangent of a tensor that has none; see Note [Zero tangents]."""
    from .zero_tangent import zero_tensor

    return zero_tensor(tensor._array.shape, tensor._array.dtype)


def update_tangent(tensor, tangent) -> None:
    """The new tangent of a tensor that was written in place."""
    if tangent is None:
        return
    held = tangent_of(tensor)
    if held is None and tensor._view is not None:
        held = _tangent_through_base(tensor, tangent)
    elif held is not None and hasattr(tangent, "_physical"):
        held = _with_batches(tensor, held, tangent)
    if held is None or held is tangent or held.requires_grad and held.is_leaf:
        set_tangent(tensor, tangent)
    elif held._array.shape == tangent._array.shape and held._array.flags.writeable:
        _operators.copy_(held, tangent)
        if tensor._edge is not None and tensor._edge[0] is not None:
            for saved in saved_outputs(*tensor._edge):
                hold_tangent(saved, held)
    else:
        set_tangent(tensor, tangent)


def _with_batches(tensor, held, tangent):
    """The tangent that a tensor or its base has, batched wherever the one that is written to it is."""
    from ..batching.tensor import batched_at, levels_of

    levels = levels_of(held)
    if set(levels_of(tangent)) <= set(levels):
        return held
    base = tensor if tensor._view is None else tensor._view.base
    whole = batched_at(held if base is tensor else tangent_of(base), sorted({*levels, *levels_of(tangent)}))
    hold_tangent(base, _laid_out_like(_operators.clone(whole), base._array.strides))
    if base is tensor:
        return base._tangent
    tensor._tangent = None
    return _tangent_through_base(tensor)


def _tangent_through_base(tensor, written=None):
    """The tangent of a view whose base gets a tangent, too: the same view of the base's tangent, which begins as zeros;
    batched, if the tangent that is about to be written to the view is.
    """
    from ..memory.ownership import offset_in_elements

    base, array = tensor._view.base, tensor._array
    whole = base._tangent
    if whole is None:
        whole = _operators.wrap(np.zeros_like(base._array))
        hold_tangent(base, whole)
    if written is not None and hasattr(written, "_physical"):
        return _with_batches(tensor, whole, written)
    if _steps(whole._array) != _steps(base._array):
        return None
    if tensor._view.replay is not None:
        part = tensor._view.replay(whole)
    else:
        offset = offset_in_elements(array) - offset_in_elements(base._array) + whole.storage_offset()
        part = _operators.as_strided(whole, array.shape, [s // array.itemsize for s in array.strides], offset)
    hold_tangent(tensor, part)
    return part
