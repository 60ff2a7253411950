"""Custom autograd Functions within vmap: by their own rule, or by a generated one.

Note [Generated rules]
`generate_vmap_rule = True` declares that forward and backward consist of operators that vmap can batch. A second
Function then takes the physical tensors; its forward and backward call the user's on batched tensors. Values that the
user saves on `ctx` are stored as physical tensors. Backward batches them again, at a level of its own, because the vmap
has usually returned by then.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, NoReturn

from ..autograd.function import Function
from ..core.tensor import Tensor
from ..dispatch import _operators as ops
from ..utils._pytree import _broadcast_to_and_flatten, tree_flatten, tree_leaves, tree_map, tree_unflatten
from .levels import Level, below, running
from .tensor import BatchedTensor, batched, innermost, physical_at

_MORE = "For more details, please see https://pytorch.org/docs/main/notes/extending.func.html"


class VmapInfo(NamedTuple):
    """The `info` argument of a `vmap` staticmethod: the size of the batch, and vmap's `randomness`."""

    batch_size: int
    randomness: str


def apply_batched(function: type[Function], args: tuple[Any, ...]) -> Any:
    """Apply a Function to arguments that may be batched; NotImplemented if none is.

    Raises RuntimeError if the Function has no vmap rule.
    """
    level = innermost(tree_leaves(args))
    if level is None:
        return NotImplemented
    own = function.vmap is not Function.vmap
    if function.setup_context is Function.setup_context:
        raise RuntimeError(
            "In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, "
            f"...), it must override the setup_context staticmethod. {_MORE}"
        )
    if own and function.generate_vmap_rule:
        _refuse(
            function,
            "it has both generate_vmap_rule=True and an overridden vmap staticmethod. Please set "
            "generate_vmap_rule=False or delete the overridden vmap staticmethod to avoid ambiguity.",
        )
    if not (own or function.generate_vmap_rule):
        _refuse(
            function,
            "it does not have vmap support. Please override and implement the vmap staticmethod or set "
            "generate_vmap_rule=True.",
        )
    return _by_own_rule(function, args, level) if own else _by_generated_rule(function, args, level)


def _refuse(function: type[Function], why: str) -> NoReturn:
    raise RuntimeError(f"You tried to vmap over {function.__name__}, but {why} {_MORE}")


def _is_at(value: Any, level: Level) -> bool:
    return value.__class__ is BatchedTensor and value._batch is level


def _where(values: tuple[Any, ...], level: Level) -> tuple[Any, ...]:
    """Return, for each value or tree of values, whether it is batched at the level."""
    return tuple([tree_map(lambda v: _is_at(v, level), value) for value in values])


def _unbatched(values: tuple[Any, ...], level: Level) -> tuple[Any, ...]:
    """Replace the values that are batched at the level, also in trees, by their physical tensors."""
    return tuple([tree_map(lambda v: v._physical if _is_at(v, level) else v, value) for value in values])


def _batched(values: Iterable[Any], level: Level, where: tuple[Any, ...]) -> list[Any]:
    """Reverse `_unbatched`, with the result of `_where`; None stays None."""
    found = []
    for value, which in zip(values, where, strict=True):
        if which is True:
            value = batched(value, level) if isinstance(value, Tensor) else value
        elif which is not False and value is not None:
            leaves, spec = tree_flatten(value)
            value = tree_unflatten(_batched(leaves, level, tuple(tree_leaves(which))), spec)
        found.append(value)
    return found


def _by_own_rule(function: type[Function], args: tuple[Any, ...], level: Level) -> Any:
    in_dims = tuple([tree_map(lambda v: 0 if _is_at(v, level) else None, a) for a in args])
    with below(level):
        found = function.vmap(VmapInfo(level.size, level.randomness), in_dims, *_unbatched(args, level))
        if not (isinstance(found, tuple) and len(found) == 2):
            raise RuntimeError(
                "Expected the vmap staticmethod to have two returns, an output and out_dims with pytree "
                f"structure compatible with the output. Got a {type(found)} instead"
            )
        output, out_dims = found
        leaves, spec = tree_flatten(output)
        dims = _broadcast_to_and_flatten(out_dims, spec)
        if dims is None:
            raise RuntimeError(
                "The autograd.Function's vmap staticmethod returned an incompatible (output, out_dims) "
                f"tuple. Expected out_dims={out_dims} to be compatible with the structure of `output`. "
                f"out_dims has structure {tree_flatten(out_dims)[1]} but output has structure {spec}. "
                f"{_MORE}"
            )
        moved = [
            leaf if dim is None else batched(ops.movedim(leaf, dim, 0) if dim else leaf, level)
            for leaf, dim in zip(leaves, dims, strict=True)
        ]
    return tree_unflatten(moved, spec)


def by_rule_of_library(operator: Any, args: tuple[Any, ...], level: Level) -> Any:
    """Run a call by the function that was passed to register_vmap; `args` are in the order of the schema."""
    positional, keywords = operator.arguments(args)

    class rule(Function):
        @staticmethod
        def vmap(info: Any, in_dims: Any, *values: Any) -> Any:
            return operator.vmap_rule(info, in_dims, *values, **keywords)

    return _by_own_rule(rule, positional, level)


class _Physical(NamedTuple):
    """A batched tensor among the values that a context stores."""

    tensor: Tensor


class _Context:
    """The `ctx` that is passed to the user's methods."""

    _outer: Any
    _names: dict[int, Tensor]
    _saved_for_forward: tuple[Any, ...]

    def __init__(self, outer: Any, names: dict[int, Tensor]) -> None:
        self.__dict__.update(_outer=outer, _names=names, needs_input_grad=outer.needs_input_grad)

    def save_for_backward(self, *tensors: Any) -> None:
        """Save tensors for backward."""
        self.__dict__["_saved"] = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Save tensors for jvp."""
        self.__dict__["_saved_for_forward"] = tensors

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The saved tensors."""
        found: tuple[Any, ...] = self.__dict__["_saved"] if "_saved" in self.__dict__ else self._saved_for_forward
        return found

    def mark_dirty(self, *tensors: Any) -> None:
        """Declare inputs that forward modified in place."""
        self._outer.mark_dirty(*[self._names.get(id(t), t) for t in tensors])

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Declare outputs that are not differentiable."""
        self._outer.mark_non_differentiable(*[self._names.get(id(t), t) for t in tensors])

    def set_materialize_grads(self, value: bool) -> None:
        """Set whether undefined gradients are passed to backward as zeros."""
        self._outer.set_materialize_grads(value)


def _kept(values: dict[str, Any], level: Level) -> dict[str, Any]:
    """Return the attributes of a context, with physical tensors in place of batched ones."""
    return {
        name: tree_map(lambda v: _Physical(v._physical) if _is_at(v, level) else v, value)
        for name, value in values.items()
        if name not in ("_outer", "_names")
    }


def _restored(ctx: Any, level: Level) -> _Context:
    """Return the user's context with its tensors batched at another level."""
    found = _Context(ctx, {})
    saved = list(ctx.saved_tensors)
    for name, value in ctx.kept.items():
        found.__dict__[name] = tree_map(
            lambda v: _batched_again(v, saved, level), value, is_leaf=lambda v: isinstance(v, (_Physical, _Saved))
        )
    return found


class _Saved(NamedTuple):
    """A tensor that the outer context saves, by its position there."""

    place: int
    was_batched: bool


def _batched_again(value: Any, saved: list[Any], level: Level) -> Any:
    if isinstance(value, _Physical):
        return batched(value.tensor, level)
    if isinstance(value, _Saved):
        tensor = saved[value.place]
        return batched(tensor, level) if value.was_batched and tensor is not None else tensor
    return value


def _by_generated_rule(function: type[Function], args: tuple[Any, ...], level: Level) -> Any:
    where = _where(args, level)
    structure: dict[str, Any] = {}

    class Vmapped(Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(*values: Any) -> Any:
            with running(Level(level.size, level.randomness)) as inside:
                output = function.forward(*_batched(values, inside, where))
            structure["single"] = not isinstance(output, tuple)
            outputs = output if isinstance(output, tuple) else (output,)
            structure["outputs"] = _where(outputs, inside)
            found = _unbatched(outputs, inside)
            return found[0] if structure["single"] else found

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            outputs = (output,) if structure["single"] else output
            with running(Level(level.size, level.randomness)) as inside:
                seen = _batched(inputs, inside, where)
                made = _batched(outputs, inside, structure["outputs"])
                names = {id(s): o for s, o in zip([*seen, *made], [*inputs, *outputs], strict=True)}
                context = _Context(ctx, names)
                function.setup_context(context, tuple(seen), made[0] if structure["single"] else tuple(made))
            attributes = context.__dict__
            saved: list[Any] = []
            for name in ("_saved", "_saved_for_forward"):
                if name in attributes:
                    places = []
                    for t in attributes[name]:
                        places.append(_Saved(len(saved), _is_at(t, inside)))
                        saved.append(t._physical if _is_at(t, inside) else t)
                    attributes[name] = tuple(places)
            ctx.save_for_backward(*saved)
            ctx.save_for_forward(*saved)
            ctx.kept = _kept(attributes, inside)

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            with running(Level(level.size, level.randomness)) as inside:
                found = function.backward(_restored(ctx, inside), *_batched(grads, inside, structure["outputs"]))
                found = found if isinstance(found, tuple) else (found,)
                return tuple([_gradient(g, inside, b) for g, b in zip(found, where, strict=False)])

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Any:
            with running(Level(level.size, level.randomness)) as inside:
                found = function.jvp(_restored(ctx, inside), *_batched(tangents, inside, where))
                found = found if isinstance(found, tuple) else (found,)
                found = tuple(
                    [
                        None if t is None else physical_at(t, inside) if b is True else t
                        for t, b in zip(found, structure["outputs"], strict=True)
                    ]
                )
            return found[0] if structure["single"] else found

    Vmapped.__name__ = f"Vmapped{function.__name__}"
    Vmapped._backward_cls.__name__ = f"{Vmapped.__name__}Backward"
    with below(level):
        found = Vmapped.apply(*_unbatched(args, level))
    wrapped = tuple(_batched((found,) if structure["single"] else found, level, structure["outputs"]))
    return wrapped[0] if structure["single"] else wrapped


def _gradient(grad: Any, level: Level, was_batched: Any) -> Any:
    """Return the gradient of a physical input; for an input that all batch elements share, the sum over the batch."""
    if grad is None or not isinstance(grad, Tensor):
        return grad
    if was_batched is True:
        return physical_at(grad, level)
    if isinstance(grad, BatchedTensor) and _is_at(grad, level):
        return ops.sum(grad._physical, 0)
    return grad
