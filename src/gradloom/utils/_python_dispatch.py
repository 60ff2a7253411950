"""Dispatch modes, and helpers for wrapper subclasses; see Note [Torch dispatch]."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..dispatch import _operators
from ..dispatch.interception import attend
from ..dispatch.state import Whole, state, whole_context
from ..python_dispatch.torch_dispatch import push_mode, restore_modes


class TorchDispatchMode(Whole):
    """Base of modes: within `with mode:` its `__torch_dispatch__` computes every operator, below autograd.

    Modes nest; the innermost is called first. A mode does not see the operators that it calls itself; outer modes do.
    `func(*args, **kwargs)` computes the operator without the mode.
    """

    supports_higher_order_operators = False

    def __init__(self, _dispatch_key: Any = None) -> None:
        pass

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Compute an operator.

        Args:
            func: operator object, such as gradloom.ops.aten.add.Tensor.
            types: classes among the arguments that define `__torch_dispatch__`.
            args, kwargs: the operator's arguments.
        """
        raise NotImplementedError(f"{type(self).__name__} must define __torch_dispatch__")

    def _change(self) -> Any:
        self._keep(state.dispatch_modes)
        push_mode(self)
        return self

    def _restore(self, before: tuple[Any, ...]) -> None:
        restore_modes(before)

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Any:
        """Return a new mode to enter: `with Mode.push() as mode`."""
        return cls(*args, **kwargs)

    @classmethod
    def is_infra_mode(cls) -> bool:
        """Return False: gradloom has no internal modes to hide from others."""
        return False


class BaseTorchDispatchMode(TorchDispatchMode):
    """A mode that passes every call on unchanged."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def is_in_torch_dispatch_mode(include_infra_modes: bool = True) -> bool:
    """Return whether the thread is within a dispatch mode."""
    return bool(state.dispatch_modes)


def is_in_any_mode_without_ignore_compile_internals() -> bool:
    """Return whether the thread is within a dispatch mode."""
    return bool(state.dispatch_modes)


def _get_current_dispatch_mode() -> Any:
    return state.dispatch_modes[-1] if state.dispatch_modes else None


def _get_current_dispatch_mode_stack() -> list[Any]:
    return list(state.dispatch_modes)


def _len_torch_dispatch_stack() -> int:
    return len(state.dispatch_modes)


@whole_context
def _disable_current_modes() -> Iterator[list[Any]]:
    """Leave all dispatch modes for a block."""
    modes = state.dispatch_modes
    try:
        state.dispatch_modes = ()
        attend()
        yield list(modes)
    finally:
        state.dispatch_modes = modes
        try:
            attend()
        except BaseException:
            attend()
            raise


def is_traceable_wrapper_subclass(t: object) -> bool:
    """Return whether a tensor exposes the tensors it wraps by `__tensor_flatten__` and `__tensor_unflatten__`."""
    return (
        isinstance(t, _operators.Tensor)
        and type(t) is not _operators.Tensor
        and is_traceable_wrapper_subclass_type(type(t))
    )


def is_traceable_wrapper_subclass_type(t: type) -> bool:
    """Return whether tensors of a class have `__tensor_flatten__` and `__tensor_unflatten__`."""
    return (
        issubclass(t, _operators.Tensor)
        and t is not _operators.Tensor
        and all(hasattr(t, name) for name in ("__tensor_flatten__", "__tensor_unflatten__"))
    )


def transform_subclass(
    t: Any, callback: Callable[[str, Any], Any], outer_size: Any = None, outer_stride: Any = None
) -> Any:
    """Return a new wrapper around the results of a function of the wrapped tensors.

    Args:
        t: tensor with `__tensor_flatten__` and `__tensor_unflatten__`.
        callback: takes the name of an attribute and the tensor there.
        outer_size, outer_stride: shape and strides of the result, by default those of `t`.

    Raises:
        RuntimeError: if the result has another shape.
    """
    outer_size = t.size() if outer_size is None else outer_size
    outer_stride = t.stride() if outer_stride is None else outer_stride
    names, context = t.__tensor_flatten__()
    inner = {name: callback(name, getattr(t, name)) for name in names}
    found = type(t).__tensor_unflatten__(inner, context, outer_size, outer_stride)
    if tuple(found.shape) != tuple(outer_size):
        raise RuntimeError(
            f"{type(t).__name__}.__tensor_unflatten__ made a tensor of shape {list(found.shape)}, where "
            f"{list(outer_size)} is due"
        )
    return found


def return_and_correct_aliasing(func: Any, args: Any, kwargs: Any, out: Any) -> Any:
    """Return the result of a wrapper subclass's `__torch_dispatch__` with the aliases that the schema declares.

    An operator that writes to an argument returns that argument, not a new wrapper.

    Args:
        func: operator object.
        args, kwargs: its arguments.
        out: its result.

    Returns:
        `out`, with written arguments in place of the results that alias them.

    Raises:
        AssertionError: if func is not an operator object.
    """
    schema = getattr(func, "_schema", None)
    if schema is None:
        raise AssertionError(f"expected an OpOverload, got {type(func)}")
    given = dict(zip((a.name for a in schema.arguments), args, strict=False)) | dict(kwargs or {})
    written: dict[str, Any] = {}
    for argument in schema.arguments:
        if argument.is_write and argument.name in given:
            written.update(dict.fromkeys(argument.alias_info.before_set, given[argument.name]))

    def corrected(expected: Any, value: Any) -> Any:
        if not expected.is_write:
            return value
        return next((written[name] for name in expected.alias_info.before_set if name in written), value)

    if len(schema.returns) == 1:
        return corrected(schema.returns[0], out)
    if isinstance(out, (tuple, list)):
        return (
            type(out)([corrected(r, v) for r, v in zip(schema.returns, out, strict=True)])
            if type(out) in (tuple, list)
            else out
        )
    return out
