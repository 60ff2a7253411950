"""BatchedTensor: a tensor that stands for one element of a batch. See Note [Batching]."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Self

from ..core.edge import gradient_edge
from ..core.tangents import hold_tangent, tangent_of
from ..core.tensor import Tensor
from ..dispatch import _operators as ops
from ..dispatch.interception import operand_of
from ..dispatch.state import disabled_torch_function
from ..memory.metadata import Metadata
from .levels import Level, running

new = object.__new__

ITEM = (
    "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling .item() on a "
    "Tensor: each batch element has its own value. Please try to rewrite what you're doing with other operations."
)
CONTROL_FLOW = (
    "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. We don't "
    "support that: the batch elements may take different branches, but the function runs once. "
    "`torch.where` computes both branches and selects per element."
)
STORAGE = (
    "Cannot access data pointer of Tensor that doesn't have storage: within vmap, a tensor stands for the "
    "elements of a batch."
)


class _ElementMetadata(Metadata):
    """The metadata of the array of one batch element."""

    __slots__ = ()
    message = ITEM


class BatchedTensor(Tensor):
    """One batch element, standing for all elements of the batch; made by vmap only."""

    __module__ = "gradloom.func"
    __torch_function__ = disabled_torch_function
    _physical: Tensor
    _batch: Level

    @property
    def _operand(self) -> Any:  # type: ignore[override]
        return operand_of(self)

    @property
    def _edge(self) -> Any:  # type: ignore[override]
        return gradient_edge(self._physical)

    @property
    def _vc(self) -> Any:  # type: ignore[override]
        return self._physical._vc

    @_vc.setter
    def _vc(self, counter: Any) -> None:
        self._physical._vc = counter

    @property
    def _inference(self) -> Any:  # type: ignore[override]
        return self._physical._inference

    @property
    def _tangent(self) -> Tensor | None:  # type: ignore[override]
        found = tangent_of(self._physical)
        if found is None:
            return None
        return within(found, [self._batch])  # the tangent may be batched at an inner level that the tensor is not

    @_tangent.setter
    def _tangent(self, tangent: Tensor | None) -> None:
        if tangent is None:
            self._physical._tangent = None
        else:
            hold_tangent(self._physical, physical_at(tangent, self._batch))

    @property
    def requires_grad(self) -> bool:
        """Return whether the physical tensor requires grad."""
        return self._physical.requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self._physical.requires_grad = value

    def requires_grad_(self, requires_grad: bool = True) -> BatchedTensor:
        """Set requires_grad of the physical tensor, a leaf."""
        self._physical.requires_grad_(requires_grad)
        return self

    @property
    def grad_fn(self) -> Any:
        """The node that made the physical tensor; None for leaves."""
        return self._physical.grad_fn

    @property
    def is_leaf(self) -> bool:
        """Return whether the physical tensor is a leaf."""
        return self._physical.is_leaf

    @property
    def output_nr(self) -> int:
        """The physical tensor's output number."""
        return self._physical.output_nr

    @property  # type: ignore[misc]
    def grad(self) -> Tensor | None:
        """The physical tensor's gradient, batched at this level."""
        found = self._physical.grad
        return None if found is None else batched(found, self._batch)

    @property  # type: ignore[misc]
    def data(self) -> NoReturn:  # type: ignore[override]
        """Raise RuntimeError: not available within vmap."""
        raise RuntimeError("accessing `data` under vmap transform is not allowed: use detach() instead")

    def _detached_alias(self) -> Tensor:
        return batched(self._physical._detached_alias(), self._batch)

    def _batched_like(self, physical: Tensor) -> Tensor:
        """Return another tensor's batch elements, at this tensor's level."""
        return batched(physical, self._batch)

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> Any:
        """Call `hook(grad)` with this tensor's gradient, batched like the tensor, when it is computed.

        Args:
            hook: returns None, or a replacement for the gradient.
        """
        size, randomness = self._batch.size, self._batch.randomness

        def on_physical(grad: Tensor) -> Tensor | None:
            with running(Level(size, randomness)) as level:  # the vmap itself has usually returned by then
                found = hook(batched(grad, level))
                return None if found is None else physical_at(found, level)

        return self._physical.register_hook(on_physical)

    def retain_grad(self) -> None:
        """Retain the gradient of the physical tensor."""
        self._physical.retain_grad()

    def item(self) -> NoReturn:
        """Raise RuntimeError: each batch element has its own value."""
        raise RuntimeError(ITEM)

    def __index__(self) -> NoReturn:
        raise RuntimeError(ITEM)

    def __bool__(self) -> NoReturn:
        raise RuntimeError(CONTROL_FLOW)

    def __contains__(self, element: Any) -> NoReturn:
        raise RuntimeError(ITEM)

    def tolist(self) -> NoReturn:
        """Raise RuntimeError: there is no array of one batch element."""
        raise RuntimeError(STORAGE)

    def numpy(self, *, force: bool = False) -> NoReturn:
        """Raise RuntimeError: there is no array of one batch element."""
        raise RuntimeError(STORAGE)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        raise RuntimeError(STORAGE)

    def is_conj(self) -> bool:
        """Return whether the conjugate bit is set."""
        return self._physical.is_conj()

    def is_neg(self) -> bool:
        """Return whether the negative bit is set."""
        return self._physical.is_neg()

    def data_ptr(self) -> NoReturn:
        """Raise RuntimeError: there is no storage of one batch element."""
        raise RuntimeError(STORAGE)

    def untyped_storage(self) -> NoReturn:
        """Raise RuntimeError: there is no storage of one batch element."""
        raise RuntimeError(STORAGE)

    def storage(self) -> NoReturn:
        """Raise RuntimeError: there is no storage of one batch element."""
        raise RuntimeError(STORAGE)

    def storage_offset(self) -> int:
        """Return the physical tensor's storage offset, in elements."""
        return self._physical.storage_offset()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        found: Any = ops.clone(self)
        return found

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise RuntimeError(STORAGE)

    def __repr__(self, *, tensor_contents: str | None = None) -> str:  # type: ignore[override]
        inner = repr(self._physical).replace("\n", "\n    ")
        return f"BatchedTensor(lvl={self._batch.depth}, bdim=0, value=\n    {inner}\n)"


def batched(physical: Tensor, level: Level) -> BatchedTensor:
    """Make a batched tensor: dimension 0 of `physical` is the batch of a level."""
    array = physical._array
    out = new(BatchedTensor)
    out._array = _ElementMetadata(array.shape[1:], array.dtype, array.strides[1:])  # type: ignore[assignment]
    out._physical = physical
    out._batch = level
    return out


def refresh(tensor: BatchedTensor) -> BatchedTensor:
    """Update the metadata after an operator changed the physical tensor's shape in place."""
    array = tensor._physical._array
    tensor._array = _ElementMetadata(array.shape[1:], array.dtype, array.strides[1:])  # type: ignore[assignment]
    if tensor._physical.__class__ is BatchedTensor:
        refresh(tensor._physical)
    return tensor


def is_batched(value: Any, level: Level | None = None) -> bool:
    """Return whether a value is a batched tensor (whose innermost level is `level`)."""
    return value.__class__ is BatchedTensor and (level is None or value._batch is level)


def expanded(tensor: Tensor, level: Level) -> Tensor:
    """Return a view of `tensor`, expanded to a physical tensor of the level."""
    return ops.expand(ops.unsqueeze(tensor, 0), (level.size, *tensor._array.shape))


def physical_at(tensor: Tensor, level: Level) -> Tensor:
    """Return the physical tensor at a level, with the batch as dimension 0; expanded if it is not batched there."""
    if tensor.__class__ is BatchedTensor:
        if tensor._batch is level:
            return tensor._physical
        if level < tensor._batch:
            inner = ops.movedim(physical_at(tensor._physical, level), 1, 0)
            return batched(inner, tensor._batch)
    return expanded(tensor, level)


def batched_at(tensor: Tensor, levels: Sequence[Level]) -> Tensor:
    """Return the tensor batched at each of `levels`, outermost first; it must not be batched at others."""
    if not levels:
        return tensor
    *outer, inner = levels
    if tensor.__class__ is BatchedTensor and tensor._batch is inner:
        found = batched_at(tensor._physical, outer)
        return tensor if found is tensor._physical else batched(found, inner)
    return batched(expanded(batched_at(tensor, outer), inner), inner)


def levels_of(tensor: Any) -> list[Level]:
    """Return the levels at which a tensor is batched, outermost first."""
    found = []
    while tensor.__class__ is BatchedTensor:
        found.append(tensor._batch)
        tensor = tensor._physical
    return found[::-1]


def innermost(values: Any, found: Level | None = None) -> Level | None:
    """Return the innermost of `found` and the levels of the values, also those in lists."""
    for value in values:
        cls = value.__class__
        if cls is BatchedTensor:
            if found is None or found.number < value._batch.number:
                found = value._batch
        elif cls is tuple or cls is list:
            found = innermost(value, found)
    return found


def without(tensor: Tensor, levels: list[Level]) -> Tensor:
    """Return the tensor with its batches at `levels`, all of which it has, as leading dimensions, outermost first; it
    stays batched at other levels."""
    if tensor.__class__ is not BatchedTensor or not levels:
        return tensor
    own, physical = tensor._batch, tensor._physical
    if own in levels:
        return without(physical, [level for level in levels if level is not own])
    inner = without(physical, levels)
    return batched(ops.movedim(inner, len(levels), 0), own)


def within(tensor: Tensor, levels: list[Level]) -> Tensor:
    """Reverse `without`: make the leading dimensions of a tensor its batches at `levels`."""
    if not levels:
        return tensor
    if tensor.__class__ is BatchedTensor and levels[-1] < tensor._batch:
        inner = ops.movedim(tensor._physical, 0, len(levels))
        return batched(within(inner, levels), tensor._batch)
    return batched(within(tensor, levels[:-1]), levels[-1])
