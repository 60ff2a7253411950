"""Overloaded arguments and their `__torch_function__` handlers; see Note [Torch functions]."""

from __future__ import annotations

from typing import Any

from ...dispatch import _operators
from ...dispatch.state import ALL_DISABLED, ENABLED, SUBCLASSES_DISABLED, disabled_torch_function, state
from ...types.public import found_in as _found_in

# Classes that override nothing. Sequences are not among them, since their elements may override.
_ALWAYS_PLAIN: tuple = (int, float, bool, complex, str, type(None), type(Ellipsis), slice)
plain: set[type] = set()  # these and other classes without `__torch_function__`; emptied when it reaches 1,000


def reset_plain() -> None:
    """Forget which classes have no `__torch_function__`."""
    plain.clear()
    plain.update((*_ALWAYS_PLAIN, _operators.Tensor))


def overrides(cls: type) -> bool:
    """Return whether a class other than Tensor has a `__torch_function__` that is not disabled."""
    if cls in plain:
        return False
    function = getattr(cls, "__torch_function__", None)
    if function is not None and function is not disabled_torch_function and cls is not _operators.Tensor:
        return True
    if not issubclass(cls, (tuple, list)):
        if len(plain) >= 1000:
            reset_plain()
        plain.add(cls)
    return False


def overloaded_arguments(args, kwargs) -> list:
    """Return arguments whose classes override functions, also from lists: one per class, in the order of handlers."""
    found: list = []
    for value in (*args, *kwargs.values()) if kwargs else args:
        cls = value.__class__
        if cls in plain:
            continue
        if issubclass(cls, (tuple, list)) and not hasattr(cls, "__torch_function__"):
            for element in value:
                if element.__class__ not in plain and overrides(element.__class__):
                    _insert(found, element)
        elif overrides(cls):
            _insert(found, value)
    return found


def in_order(values) -> list:
    """Return one value of each class with a `__torch_function__`, Tensor included, in the order of handlers."""
    found: list = []
    for value in values:
        function = getattr(value.__class__, "__torch_function__", None)
        if function is not None and function is not disabled_torch_function:
            _insert(found, value)
    return found


def _insert(found: list, value) -> None:
    """Insert a value after the others, but before those whose classes are bases of its class."""
    cls = value.__class__
    at = len(found)
    for place, other in enumerate(found):
        if cls is other.__class__:
            return
        if at == len(found) and issubclass(cls, other.__class__):
            at = place
    found.insert(at, value)


def call_handlers(function, overloaded: list, args, kwargs, failure=None) -> Any:
    """Return the result of the first handler that does not return NotImplemented: the innermost mode's, then the
    arguments'.

    Args:
        function: the public function.
        overloaded: arguments whose classes override it, in the order of their handlers.
        failure: (name, mode, classes) -> the message if all handlers return NotImplemented; PyTorch's by default.

    Raises TypeError if all of them return NotImplemented.
    """
    types = tuple([value.__class__ for value in overloaded])
    mode = None
    if state.function_modes and state.function_overrides != ALL_DISABLED:
        modes = state.function_modes
        mode = modes[-1]
        state.function_modes = modes[:-1]
        try:
            found = _handler_of_mode(mode)(function, types, args, kwargs)
        finally:
            state.function_modes = modes
        if found is not NotImplemented:
            return found
    for value in overloaded:
        found = _handler_of(value)(function, types, args, kwargs)
        if found is not NotImplemented:
            return found
    from .public import name_of

    name = name_of(function) or f"{getattr(function, '__module__', '')}.{getattr(function, '__name__', function)}"
    raise TypeError((failure or _no_handler)(name, mode, types))


def _no_handler(name: str, mode: Any, types) -> str:
    tried = [] if mode is None else [f"  - mode object {mode!r}"]
    tried += [f"  - tensor subclass {cls!r}" for cls in types]
    return "\n".join(
        [f"Multiple dispatch failed for '{name}'; all __torch_function__ handlers returned NotImplemented:\n", *tried]
    )


def no_handler_of_user_function(name: str, mode: Any, types) -> str:
    """Return the message for a user's function that no handler implements."""
    tried = "" if mode is None else f" nor in the mode {mode!r}"
    return f"no implementation found for '{name}' on types that implement __torch_function__: {list(types)}{tried}"


def _handler_of_mode(mode):
    found = mode.__torch_function__
    if getattr(found, "__self__", None) is type(mode):
        raise RuntimeError(
            "Defining your mode's `__torch_function__` as a classmethod is not supported, please make it a plain method"
        )
    return found


def _handler_of(value):
    cls = value.__class__
    found = value.__torch_function__
    if getattr(found, "__self__", None) is value and not isinstance(value, type):
        import warnings

        warnings.warn(
            "Defining your `__torch_function__` as a plain method is deprecated and will be an error in "
            f"future, please define it as a classmethod. That of {cls!r} is a method.",
            UserWarning,
            stacklevel=5,
        )
    return found


def is_enabled() -> bool:
    """Return whether classes override functions in this thread."""
    return state.function_overrides == ENABLED


class DisableTorchFunctionSubclass:
    """A context in which classes do not override functions, in this thread; modes still do.

    Subclasses of Tensor are treated as tensors; other classes are refused.
    """

    _level = SUBCLASSES_DISABLED

    def __enter__(self) -> None:
        self._before = state.function_overrides
        state.function_overrides = max(self._before, self._level)

    def __exit__(self, *exception: object) -> None:
        state.function_overrides = self._before


class DisableTorchFunction(DisableTorchFunctionSubclass):
    """A context in which neither classes nor modes override functions, in this thread."""

    _level = ALL_DISABLED


def preserve_class(cls: type, function: Any, types: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Call a function as Tensor's own `__torch_function__` does: results get class `cls`, except those of `grad` and
    `_base`.

    Args:
        cls: the subclass of Tensor whose handler this is.
        function: the public function.
        types: the classes of the overloaded arguments.
        args, kwargs: the arguments.

    Returns:
        The result; NotImplemented if `cls` is not a subclass of each of `types`.
    """
    for other in types:
        if not issubclass(cls, other):
            return NotImplemented
    before = state.function_overrides
    state.function_overrides = max(before, SUBCLASSES_DISABLED)
    try:
        found = function(*args, **kwargs)
        return found if cls is _operators.Tensor or _returns_existing_tensor(function) else _as(found, cls)
    finally:
        state.function_overrides = before


def _returns_existing_tensor(function) -> bool:
    """Return whether a function returns an existing tensor: `x.grad`, `x._base`."""
    return getattr(function, "__self__", None) in (_operators.Tensor.grad, _operators.Tensor._base)


def _as(found, cls):
    if isinstance(found, _operators.Tensor):
        batched = hasattr(found, "_physical")  # stands for tensors of the class already, or for plain ones
        return found if batched or isinstance(found, cls) else found.as_subclass(cls)
    if isinstance(found, (tuple, list)):
        converted = [_as(value, cls) for value in found]
        if any(new is not old for new, old in zip(converted, found, strict=True)):
            make = getattr(type(found), "_make", type(found))  # namedtuples are made by `_make`
            return make(converted)
    return found


_found_in("gradloom._C", DisableTorchFunction, DisableTorchFunctionSubclass)
