"""Compute operators on distributed tensors: redistribute arguments, compute on the parts, and wrap the results.

An operator without a rule (Note [Sharding rules]), and one whose arguments do not fit it, is computed on whole tensors:
every process gathers the arguments and computes the same. So is one that draws random numbers: if all processes have
the same seed, its result is what one process would get.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gradloom as gl

from ...utils._pytree import tree_flatten, tree_map, tree_unflatten
from ._call import REPLICATE, Leaf
from ._propagation import Plan, Plans, plan_of
from ._redistribute import redistributed
from ._spec import DTensorSpec, TensorMeta

__all__ = ["dispatch", "implicit_replication", "overriding"]

_plans = Plans()
_overriding: list[dict[str, Callable[..., Any]]] = []
_replicating = [0]


def dispatch(make: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """Compute an operator, some of whose arguments are distributed tensors.

    Args:
        make: the class of distributed tensors.
        func: the operator.
        args, kwargs: its arguments.

    Raises:
        RuntimeError: if other tensors with dimensions are among them, or their meshes differ.
    """
    name = func._schema.name.partition("::")[2]
    for table in reversed(_overriding):
        if name in table and (found := table[name](func, args, kwargs)) is not NotImplemented:
            return found
    tags = func._row.tags.split()
    if "inplace_view" in tags:
        raise RuntimeError(
            f"{func}: shape and strides of a DTensor cannot be changed in place: assign the result of a view"
        )
    flat, structure = tree_flatten((tuple(args), dict(kwargs)))
    _check(func, flat)
    if _replicating[0]:
        flat = [_replicated(make, value, flat) for value in flat]
    numbers = [number for number, value in enumerate(flat) if isinstance(value, gl.Tensor) and hasattr(value, "_spec")]
    tensors = [flat[number] for number in numbers]
    specs = [tensor._spec for tensor in tensors]
    targets = _written(func, args, kwargs)
    if any(getattr(target, "_is_copy", False) for target in targets):
        raise RuntimeError(
            f"{func}: this view of a DTensor is a copy, since the processes had to exchange parts to make it: "
            "redistribute the tensor first, so that the dimensions that the view cuts are not sharded"
        )
    written = frozenset(number for number, one in enumerate(tensors) if any(one is target for target in targets))
    leaves = list(flat)
    for number, (place, spec) in enumerate(zip(numbers, specs, strict=True)):
        leaves[place] = Leaf(number, spec)
    key = (func, str(structure), written, *map(_kind, leaves))
    plan = _plans.get(key, lambda: plan_of(func, specs, tree_unflatten(leaves, structure), written))
    if specs[0].mesh.get_coordinate() is None:
        return _outside(make, plan, targets)
    is_drawn = "nondeterministic_seeded" in tags
    parts = [
        _fresh(tensor) if is_drawn and number in written else redistributed(tensor._local_tensor, tensor._spec, wanted)
        for number, (tensor, wanted) in enumerate(zip(tensors, plan.inputs, strict=True))
    ]
    parts = [
        part.clone() if plan.outputs is None and number in written and _is_moved(tensors[number]) else part
        for number, part in enumerate(parts)
    ]
    for place, part in zip(numbers, parts, strict=True):
        flat[place] = part
    result = _computed(func, plan, specs, *tree_unflatten(flat, structure))
    if plan.outputs is None:
        for number in written:
            _store(tensors[number], parts[number])
    if targets and func._schema.returns:
        return targets[0] if len(targets) == 1 else tuple(targets)
    result = _wrapped(make, result, plan, specs[0], tensors[0] if is_drawn else None)
    if _is_view(func):
        _mark_copies(result, tensors[0], parts[0])
    return result


def _kind(value: Any) -> Any:
    """Return what a plan depends on of an argument: of an ordinary tensor, dtype and shape, so that none is kept."""
    if isinstance(value, gl.Tensor):
        return gl.Tensor, value.dtype, tuple(value.shape)
    return type(value), value


def _is_view(func: Any) -> bool:
    return any(one.alias_info is not None and not one.alias_info.is_write for one in func._schema.returns)


def _mark_copies(views: Any, base: Any, part: Any) -> None:
    """Mark views that do not share the memory of their base: nothing may be written to them."""
    is_copy = part is not base._local_tensor or getattr(base, "_is_copy", False)
    for view in views if isinstance(views, (list, tuple)) else (views,):
        if is_copy or view._local_tensor.untyped_storage().data_ptr() != part.untyped_storage().data_ptr():
            view._is_copy = True


def _replicated(make: Any, value: Any, flat: Sequence[Any]) -> Any:
    """Return an ordinary tensor as a distributed one that all processes have."""
    if not isinstance(value, gl.Tensor) or hasattr(value, "_spec"):
        return value
    mesh = next(one._spec.mesh for one in flat if hasattr(one, "_spec"))
    return make(value, DTensorSpec(mesh, (REPLICATE,) * mesh.ndim, TensorMeta.of(value)))


def _check(func: Any, flat: Sequence[Any]) -> None:
    mesh = None
    for value in flat:
        if not isinstance(value, gl.Tensor):
            continue
        if not hasattr(value, "_spec"):
            if value.dim() and not _replicating[0]:
                raise RuntimeError(
                    f"{func} got mixed torch.Tensor and DTensor, need to convert all torch.Tensor to DTensor before "
                    "calling distributed operators!"
                )
        elif mesh is None:
            mesh = value._spec.mesh
        elif value._spec.mesh != mesh:
            raise RuntimeError(f"{func}: all DTensors must be on the same mesh, got {mesh} and {value._spec.mesh}")


def _written(func: Any, args: Any, kwargs: Any) -> list[Any]:
    """Return the tensors that an operator changes in place, in the order of its arguments."""
    found: list[Any] = []
    for number, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[number] if number < len(args) else kwargs.get(argument.name)
            found += value if isinstance(value, (list, tuple)) else [] if value is None else [value]
    return found


def _is_moved(tensor: Any) -> bool:
    return any(one != REPLICATE for one in tensor._spec.placements)


def _fresh(tensor: Any) -> Any:
    """Return memory for a whole tensor that is filled with random numbers; a process's own, if it has the whole."""
    if not _is_moved(tensor):
        return tensor._local_tensor
    return gl.empty(tensor._spec.shape, dtype=tensor.dtype)


def _store(tensor: Any, whole: Any) -> None:
    """Store what an operator has made of a whole tensor in the process's part."""
    if whole.shape != tensor.shape:
        raise RuntimeError("the shape of a DTensor cannot be changed in place")
    if _is_moved(tensor):
        spec = tensor._spec.with_placements((REPLICATE,) * tensor._spec.mesh.ndim)
        tensor._local_tensor.copy_(redistributed(whole, spec, tensor._spec.placements))


def _computed(func: Any, plan: Plan, specs: Sequence[DTensorSpec], args: Any, kwargs: Any) -> Any:
    """Compute on the parts."""
    if plan.local is not None:
        chosen = [spec.with_placements(wanted) for spec, wanted in zip(specs, plan.inputs, strict=True)]
        return plan.local(chosen, plan.outputs, func, args, kwargs)
    return func(*args, **kwargs)


def _wrapped(make: Any, result: Any, plan: Plan, spec: DTensorSpec, drawn_for: Any) -> Any:
    """Make distributed tensors of the parts that an operator returned."""
    outputs = iter(plan.outputs or ())

    def wrapped(part: Any) -> Any:
        if not isinstance(part, gl.Tensor):
            return part
        if plan.outputs is not None:
            out = next(outputs)
            assert tuple(part.shape) == out.local_shape(), f"{tuple(part.shape)} is no part of {out}"
            return make(part, out)
        out = DTensorSpec(spec.mesh, (REPLICATE,) * spec.mesh.ndim, TensorMeta.of(part))
        if drawn_for is not None and part.shape == drawn_for.shape:
            like = [REPLICATE if one.is_partial() else one for one in drawn_for._spec.placements]
            return make(redistributed(part, out, like), out.with_placements(like))
        return make(part, out)

    return tree_map(wrapped, result)


def _outside(make: Any, plan: Plan, targets: Sequence[Any]) -> Any:
    """Return what a process gets that is not in the mesh: empty parts."""
    if targets:
        return targets[0] if len(targets) == 1 else tuple(targets)
    if plan.outputs is None:
        raise RuntimeError("this process is not in the mesh, and the operator must be computed on whole tensors")
    made = [make(gl.empty(0, dtype=out.tensor_meta.dtype), out) for out in plan.outputs]
    return made[0] if len(made) == 1 else tuple(made)


class overriding:
    """Context in which functions handle some operators: by name, `function(func, args, kwargs)`, or NotImplemented."""

    def __init__(self, table: dict[str, Callable[..., Any]]) -> None:
        self._table = table

    def __enter__(self) -> None:
        _overriding.append(self._table)

    def __exit__(self, *error: object) -> None:
        _overriding.remove(self._table)


class implicit_replication:
    """Context in which ordinary tensors beside distributed ones count as replicated."""

    def __enter__(self) -> None:
        _replicating[0] += 1

    def __exit__(self, *error: object) -> None:
        _replicating[0] -= 1
