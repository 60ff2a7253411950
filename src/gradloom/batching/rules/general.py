"""Rules that serve many operators. See Note [Batching rules]."""

from __future__ import annotations

from importlib import import_module
from typing import Any, NoReturn

from ...core.tangents import tangent_of
from ...core.tensor import Tensor
from ...dispatch import _operators as ops
from ...kernels._common.dims import dim_error
from ...types.public import home_of
from ..call import Call
from ..tensor import refresh
from ._loop import loop, unbatched_write


def padded(physical: Tensor, rank: int, at: int = 1) -> Tensor:
    """Return a view in which each batch element has `rank` dimensions; the new ones have size 1.

    Args:
        at: position of the new dimensions; 1 is directly after the batch.
    """
    missing = rank + 1 - physical._array.ndim
    for _ in range(missing):
        physical = ops.unsqueeze(physical, at)
    return physical


def shifted(dim: Any, rank: int) -> Any:
    """Return the physical dimension, or tuple of dimensions, of dimension `dim` of a batch element.

    Raises IndexError if a batch element has no such dimension.
    """
    if dim is None:
        return None
    if dim.__class__ is tuple or dim.__class__ is list:
        return tuple([shifted(d, rank) for d in dim])
    size = max(rank, 1)
    if not -size <= dim < size:
        raise dim_error(dim, rank)
    return dim % size + 1


def written(call: Call) -> None:
    """Raise RuntimeError for a write of batched values into a tensor that all batch elements share."""
    if call.operator.is_inplace and not call.is_batched(call.first):
        raise RuntimeError(unbatched_write(call.operator.name))


def align(call: Call) -> dict[str, Tensor]:
    """Return the physical tensor arguments, padded so that they broadcast like single batch elements, and converted to
    one dtype if the operator promotes types."""
    call.values.update(call.promoted())
    names = call.tensors
    rank = max([call.rank(n) for n in names])
    return {n: padded(call.bare(n), rank) if call.is_batched(n) else call.values[n] for n in names}


def pointwise(call: Call) -> Any:
    written(call)
    found = call.invoke(align(call))
    return call.values[call.first] if call.operator.is_inplace else call.wrap(found)


def aligned(call: Call) -> Any:
    """Give all operands the same number of dimensions, for operators that broadcast leading dimensions."""
    call.values.update(call.promoted())
    rank = max([call.rank(n) for n in call.tensors])
    return call.wrap(call.invoke({n: padded(call.physical(n), rank) for n in call.tensors}))


def reduction(call: Call) -> Any:
    """Reduce dimensions. The rule's argument names the parameter that has them, with `[]` if it takes several."""
    name = call.arguments[0].removesuffix("[]")
    several = name != call.arguments[0]
    x, rank, dim = call.physical(call.first), call.rank(call.first), call[name]
    if not rank:
        shifted(dim, 0)
        return call.wrap(
            call.invoke(_without_keepdim(call, {call.first: ops.unsqueeze(x, 1), name: (1,) if several else 1}))
        )
    if dim is None or dim == ():
        if several:
            return call.wrap(call.invoke({call.first: x, name: tuple(range(1, rank + 1))}))
        found = call.invoke(_without_keepdim(call, {call.first: ops.flatten(x, 1, -1), name: 1}))
        if call.values.get("keepdim"):
            found = _each(found, lambda t: ops.reshape(t, (call.size, *(1,) * rank)))
        return call.wrap(found)
    return call.wrap(call.invoke({call.first: x, name: shifted(dim, rank)}))


def _without_keepdim(call: Call, changes: dict) -> dict:
    if "keepdim" in call.values:
        changes["keepdim"] = False
    return changes


def _each(found: Any, function: Any) -> Any:
    """Apply a function to each tensor of a result."""
    if isinstance(found, Tensor):
        return function(found)
    if isinstance(found, (tuple, list)):
        cls = found.__class__
        values = [_each(f, function) for f in found]
        return cls(values) if cls is list or cls is tuple else cls(tuple(values))
    return found


def whole(call: Call) -> Any:
    """Reduce all dimensions: flatten them and call the named operator over that dimension, with the input, further
    numbers, the dimension, and keyword arguments."""
    x, rank = call.physical(call.first), call.rank(call.first)
    x = ops.flatten(x, 1, -1) if rank else ops.unsqueeze(x, 1)
    function = getattr(ops, call.arguments[0])
    before = [call[name] for name in call.arguments[2:]]
    keywords = {"dtype": call["dtype"]} if call.values.get("dtype") is not None else {}
    found = function(x, *before, (1,) if call.arguments[1] == "several" else 1, **keywords)
    return call.wrap(found[0] if isinstance(found, tuple) else found)


def evenly(call: Call) -> Any:
    """Select a value from all dimensions by the named operator, whose own gradient over one dimension would be that of
    one element, or NaN for NaN: the gradient is distributed evenly among the elements that equal the value."""
    found: Tensor = whole(call)._physical
    x = call.physical(call.first)
    if found._array.dtype.kind not in "fV" or not (x.requires_grad or tangent_of(x) is not None):
        return call.wrap(found)
    found = ops.detach(found)
    value, x = ops.unsqueeze(found, 1), ops.reshape(x, (call.size, -1))
    equal = ops.logical_or(ops.eq(x, value), ops.logical_and(ops.isnan(x), ops.isnan(value)))
    mean = ops.sum(ops.where(equal, x / ops.sum(equal, (1,), True), 0), (1,))
    rounding = found - ops.detach(mean)  # exact, because both are nearly equal
    return call.wrap(mean + ops.where(ops.isfinite(rounding), rounding, 0))


def dims(call: Call) -> Any:
    return _leading(call, 0, call.rank(call.first))


def inserted(call: Call) -> Any:
    return _leading(call, 1, call.rank(call.first))


def _leading(call: Call, more: int, rank: int) -> Any:
    """Call the operator on physical tensors, with the named dimension arguments shifted. 0-dimensional batch elements
    get a temporary dimension if a dimension is named."""
    written(call)
    call.values.update(call.promoted())
    scalar = not rank + more and bool(call.arguments)
    changes: dict[str, Any] = {}
    for p in call.operator.arguments:
        value = call[p.name]
        if value is None:
            continue
        if p.tensors.endswith("[]"):
            return loop(call)
        if p.tensors:
            physical = call.physical(p.name)
            changes[p.name] = ops.unsqueeze(physical, 1) if scalar and physical._array.ndim == 1 else physical
    for name in call.arguments:
        if name in call.values:
            changes[name] = shifted(call[name], rank + more)
    found = call.invoke(changes)
    if call.operator.is_inplace:
        return refresh(call.values[call.first])
    return call.wrap(_each(found, _without_last) if scalar else found)


def _without_last(result: Tensor) -> Tensor:
    return ops.squeeze_dim(result, 1) if result._array.ndim > 1 else result


def sizes(call: Call) -> Any:
    """Call an operator with sizes. The rule's arguments name the size of a tensor, and its dimensions."""
    name, *rest = call.arguments
    size = tuple(call[name])
    rank = len(size)
    scalar = not rank and bool(rest)
    changes: dict[str, Any] = {name: (call.size, *size, *(1,) * scalar)}
    for n in call.tensors:
        physical = call.physical(n)
        changes[n] = ops.unsqueeze(physical, 1) if scalar else physical
    if scalar and "keepdim" in call.values:
        changes["keepdim"] = True
    for n in rest:
        if n in call.values:
            changes[n] = shifted(call[n], rank)
    found = call.invoke(changes)
    return call.wrap(_each(found, _without_last) if scalar else found)


def fold(call: Call) -> Any:
    """Fold the batch. The rule's argument is the rank of an item; the call has one item, or a batch of items."""
    item = int(call.arguments[0])
    changes, outer = {}, None
    for n in call.tensors:
        physical = call.physical(n)
        if call.rank(n) > item:
            outer = call.rank(n) - item
            if outer > 1:
                call.invoke({m: ops.select_int(call.physical(m), 0, 0) for m in call.tensors})  # raises
                return loop(call)
            count = physical._array.shape[1]
            physical = ops.flatten(physical, 0, 1)
        changes[n] = physical
    found = call.invoke(changes)
    if outer:
        found = _each(found, lambda t: ops.unflatten(t, 0, (call.size, count)))
    return call.wrap(found)


NONE, MEAN, SUM = range(3)


def loss(call: Call) -> Any:
    """Batch an elementwise loss with a parameter `reduction`."""
    call.values.update(call.promoted())
    rank = max([call.rank(n) for n in call.tensors])
    found = call.invoke({**{n: padded(call.physical(n), rank) for n in call.tensors}, "reduction": NONE})
    how = call.values.get("reduction", MEAN)
    if how == NONE or found._array.ndim == 1:
        return call.wrap(found)
    found = ops.flatten(found, 1, -1)
    return call.wrap(
        ops.mean_dim(found, (1,), False, None) if how == MEAN else ops.sum_dim_IntList(found, (1,), False, None)
    )


def loss_backward(call: Call) -> Any:
    """Batch the derivative of an elementwise loss: elementwise, times the gradient of the reduced loss."""
    how = call.values.get("reduction", MEAN)
    shapes = [call.values[n]._array.shape for n in call.tensors[1:]]
    found = call.invoke({**align(call), "reduction": NONE})
    if how == MEAN:
        from ...functional import broadcast_shapes

        count = 1
        for n in broadcast_shapes(*shapes):
            count *= n
        found = found / count if count else found
    return call.wrap(found)


def write(call: Call) -> Any:
    """Batch an in-place operator: copy the result of the named operator into the first argument."""
    written(call)
    function = getattr(import_module(home_of(call.wrapper)), call.arguments[0])
    target = call.values[call.first]
    read = ops.clone(target) if target.requires_grad else target  # a node may save what is written to
    return ops.copy_(target, call.invoke({call.first: read}, function))


def dynamic(call: Call) -> NoReturn:
    raise RuntimeError(
        "vmap: We do not support batching operators that can output dynamic shape. Attempted to vmap "
        f"over {call.operator.name}, whose result would have a different shape for each batch element. "
        "`torch.where` and multiplication by a mask keep the shape."
    )
