"""Forward-mode differentiation: dual levels, and tensors that carry a tangent."""

from __future__ import annotations

from collections.abc import Iterable

from ..core.node import Node, as_pair
from ..core.tangents import drop_tangents, set_tangent, tangent_of, with_layout_of, without_tangents
from ..core.tensor import Tensor
from ..core.views import PrimalView
from ..dispatch import _operators
from ..dispatch.state import FORWARD_AD, Whole, each_thread, state
from ._decorators import _DecoratorContextManager

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]


_level = [-1]


class UnpackedDualTensor(tuple["Tensor", "Tensor | None"]):
    """The pair (primal, tangent) that `unpack_dual` returns."""

    __slots__ = ()
    _fields = ("primal", "tangent")

    def __new__(cls, primal: Tensor, tangent: Tensor | None) -> UnpackedDualTensor:
        return tuple.__new__(cls, (primal, tangent))

    @classmethod
    def _make(cls, pair: Iterable[Tensor | None]) -> UnpackedDualTensor:
        """Return a pair made from an iterable, as named tuples do."""
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
    try:
        _open()
    except BaseException:
        _close()
        raise
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Close the level and drop all tangents."""
    if level is None:
        level = _level[0]
    if level < 0:
        raise RuntimeError("Dual level must be a positive number.")
    if level != _level[0]:
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. This is not supported."
        )
    try:
        _close()
    except BaseException:
        _close()
        raise


def _open() -> None:
    _level[0] = 0
    each_thread(FORWARD_AD, True)
    if not state.forward_grad:
        state.flags &= ~FORWARD_AD


def _close() -> None:
    each_thread(FORWARD_AD, False)
    drop_tangents()
    _level[0] = -1


class dual_level(Whole, _DecoratorContextManager):
    """A `with` block in which tensors may be dual."""

    def _change(self) -> int:
        if _level[0] >= 0:
            return enter_dual_level()  # raises
        self._keep(progress := [False])
        _open()
        progress[0] = True
        return 0

    def _restore(self, progress: list[bool]) -> None:
        if _level[0] < 0 and progress[0]:
            exit_dual_level()  # raises
        progress[0] = False
        _close()

    def __del__(self) -> None:
        if self._kept:  # an interrupt came before the first step of `__exit__`
            self._leave(())

    def _left_by(self, error: BaseException) -> None:
        from ..diagnostics.error_notes import explain_forward

        explain_forward(error)


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """Return a view of `tensor` with `tangent` attached, differentiable by both modes.

    Args:
        tensor: floating or complex.
        tangent: a Tensor of the same shape. Its dtype may differ; the tangents of results then follow from it.

    Raises:
        RuntimeError: outside of a level, or if either has a tangent already.
        ValueError: if the dtypes cannot carry a derivative.
    """
    if _level[0] < 0 or level is not None and level < 0:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
        )
    check_dual(tensor, tangent)
    if level is not None and level != _level[0]:
        raise RuntimeError("Invalid level given to _make_dual")
    if tangent_of(tensor) is not None:
        raise RuntimeError(
            "Making a dual Tensor based on a Tensor that already has a forward gradient at the same "
            f"level {_level[0]} is not supported."
        )
    if tangent_of(tangent) is not None:
        raise RuntimeError(
            f"Setting a forward grad that itself has a forward gradient at the same level{_level[0]} is not supported."
        )
    dual = _primal_view(tensor)
    set_tangent(dual, with_layout_of(tensor, tangent), as_given=True)
    return dual


def is_level_open() -> bool:
    """Return whether a forward-mode level is open."""
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
    """Return the primal and the tangent (None if it has none) of a tensor.

    Args:
        level: the level to read; by default the innermost.
    """
    if _level[0] < 0 or not state.forward_grad or level is not None and level < 0:
        return UnpackedDualTensor(tensor, None)
    if not isinstance(tensor, _operators.Tensor):
        raise TypeError(f"unpack_dual(): argument 'tensor' must be Tensor, not {type(tensor).__name__}")
    if level is not None and level != _level[0]:
        return UnpackedDualTensor(tensor, None)
    tangent = tangent_of(tensor)
    if tangent is None:
        return UnpackedDualTensor(tensor, None)
    primal = _primal_view(tensor)
    name_identity(primal)
    return UnpackedDualTensor(primal, tangent)


class Identity(Node):
    """Node of a primal that `unpack_dual` returned, or of an input of a transform; passes gradients on."""

    __slots__ = ()

    def apply(self, grads, edges):
        return tuple(grads)


def name_identity(seen) -> None:
    """Make the node of a result of `view_as` an Identity, as in PyTorch; it passes gradients on unchanged."""
    view = seen._view
    made = None if view is None else as_pair(view.edge)[0]
    if made is not None:
        node = object.__new__(Identity)
        node.next_edges, node.sequence_nr = made.next_edges, made.sequence_nr
        node.input_metadata, node.hooks = made.input_metadata, made.hooks
        view.edge = node


def _primal_view(tensor):
    """Return a view in reverse mode, which does not share the tensor's tangent."""
    view = without_tangents(_operators.view_as, tensor, tensor)
    memory = view
    while hasattr(memory, "_physical"):  # a batched tensor
        memory = memory._physical
    if memory._view is not None:
        memory._view.__class__ = PrimalView
    return view


def __getattr__(name: str) -> int:
    if name == "_current_level":  # PyTorch's name for the open level; -1 for none
        return _level[0]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class _set_fwd_grad_enabled(Whole):
    """A `with` block in which this thread's operators make no tangents (or make them again)."""

    def __init__(self, mode: bool) -> None:
        self.mode = mode

    def _change(self) -> None:
        self._keep((state.flags & FORWARD_AD, state.forward_grad))
        set_forward_grad(self.mode)

    def _restore(self, before) -> None:
        flag, state.forward_grad = before
        state.flags = state.flags & ~FORWARD_AD | (flag if _level[0] >= 0 else 0)


def set_forward_grad(mode: bool) -> None:
    """Set whether this thread's operators make tangents within a level."""
    state.forward_grad = mode
    state.flags = state.flags | FORWARD_AD if mode and _level[0] >= 0 else state.flags & ~FORWARD_AD


def _is_fwd_grad_enabled() -> bool:
    """Return whether this thread's operators make tangents within a level."""
    return state.forward_grad
