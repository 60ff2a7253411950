"""Overrides of functions by classes and modes: PyTorch's torch.overrides.

A class with a classmethod `__torch_function__(cls, func, types, args=(), kwargs=None)` handles calls of public
functions with an argument of the class; a TorchFunctionMode handles all calls made while it is entered. See Note [Torch
functions] in `gradloom.python_dispatch.torch_function`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, wraps
from typing import Any, Self, TypeVar

from .core.tensor import Tensor
from .dispatch.state import ALL_DISABLED, ENABLED, INTERCEPT, Whole, state, whole_context
from .python_dispatch.torch_function import checks, handlers, public

_Function = TypeVar("_Function", bound=Callable[..., Any])

__all__ = [
    "BaseTorchFunctionMode",
    "TorchFunctionMode",
    "enable_reentrant_dispatch",
    "get_default_nowrap_functions",
    "get_ignored_functions",
    "get_overridable_functions",
    "get_testing_overrides",
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "resolve_name",
    "wrap_torch_function",
]


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Return whether a mode is entered, or the class of an argument overrides functions; False without arguments.

    Args:
        relevant_args: the arguments that may override the function. Elements of lists among them are not considered.
    """
    if state.function_overrides == ALL_DISABLED:
        return False
    if state.function_modes:
        return any(True for _ in relevant_args)
    if state.function_overrides == ENABLED:
        for value in relevant_args:
            if handlers.overrides(value.__class__):
                checks.check_for(value.__class__)
                return True
    return False


def has_torch_function_unary(argument: Any) -> bool:
    """Return `has_torch_function` for one argument."""
    return has_torch_function((argument,))


def has_torch_function_variadic(*relevant_args: Any) -> bool:
    """Return `has_torch_function` for arguments that are passed separately."""
    return has_torch_function(relevant_args)


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """Return the result of the first handler that does not return NotImplemented: the innermost mode's, then the
    arguments'.

    Args:
        public_api: the function that was called; handlers receive it as `func`.
        relevant_args: the arguments that may override the function.
        args, kwargs: all arguments of the call.

    Raises:
        TypeError: if all handlers return NotImplemented, or there is none.
    """
    overloaded = handlers.in_order(relevant_args)
    return handlers.call_handlers(public_api, overloaded, args, kwargs, handlers.no_handler_of_user_function)


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[[_Function], _Function]:
    """Return a decorator for functions that classes and modes may override.

    Args:
        dispatcher: has the signature of the function, and returns the arguments that may override it.
    """

    def decorator(function):
        @wraps(function)
        def wrapped(*args, **kwargs):
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return wrapped

    return decorator


def is_tensor_like(inp: Any) -> bool:
    """Return whether an object is a Tensor, or its class has a `__torch_function__`."""
    return type(inp) is Tensor or hasattr(inp, "__torch_function__")


class TorchFunctionMode(Whole):
    """Handles every call of a public function in a `with` block, in this thread, by its `__torch_function__`.

    The mode is left while its `__torch_function__` runs, so that it may call functions. Modes nest: a call goes to the
    innermost, and calls from its handler go to the one around it.
    """

    def __init__(self) -> None:
        pass

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Return the result of a call; NotImplemented passes it on to the classes of the arguments.

        Args:
            func: the public function that was called.
            types: the classes of its overloaded arguments.
            args, kwargs: its arguments.
        """
        raise NotImplementedError(
            f"{type(self).__name__} must define __torch_function__(self, func, types, args=(), kwargs=None)"
        )

    def _change(self) -> Self:
        self._keep((state.function_modes, checks.entered()))
        _push_mode(self)
        return self

    def _restore(self, before: tuple[tuple[TorchFunctionMode, ...], int]) -> None:
        state.function_modes = before[0]
        checks.set_entered(before[1])

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Self:
        """Return `cls(*args, **kwargs)`; PyTorch's former spelling."""
        import warnings

        warnings.warn(
            f"`{cls.__name__}.push()` is no longer necessary: write `with {cls.__name__}():`",
            FutureWarning,
            stacklevel=2,
        )
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that calls every function unchanged."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Return the function's own result.

        Args:
            func: the public function that was called.
            types: the classes of its overloaded arguments.
            args, kwargs: its arguments.
        """
        return func(*args, **(kwargs or {}))


def _push_mode(mode: TorchFunctionMode) -> None:
    checks.set_entered(checks.entered() + 1)
    state.function_modes = (*state.function_modes, mode)


def _pop_mode() -> TorchFunctionMode:
    *rest, mode = state.function_modes
    state.function_modes = tuple(rest)
    checks.set_entered(checks.entered() - 1)
    return mode


@whole_context
def _pop_mode_temporarily() -> Iterator[TorchFunctionMode]:
    before = state.function_modes
    try:
        state.function_modes = before[:-1]
        yield before[-1]
    finally:
        state.function_modes = before


def _get_current_function_mode() -> TorchFunctionMode | None:
    return state.function_modes[-1] if state.function_modes else None


def _get_current_function_mode_stack() -> list[TorchFunctionMode]:
    return list(state.function_modes)


def _get_overloaded_args(relevant_args: Iterable[Any]) -> list[Any]:
    return handlers.in_order(relevant_args)


@whole_context
def enable_reentrant_dispatch() -> Iterator[None]:
    """Record history within a `__torch_dispatch__`, as outside the call that it handles.

    Raises:
        RuntimeError: outside of a `__torch_dispatch__`.
    """
    outside, flags = state.flags_outside, state.flags
    if outside is None:
        raise RuntimeError(
            "Accessing torch dispatch state outside of '__torch_dispatch__' is not allowed: "
            "call enable_reentrant_dispatch() inside of one"
        )
    state.flags = (outside & ~INTERCEPT) | (flags & INTERCEPT)
    try:
        yield
    finally:
        state.flags = flags


def resolve_name(f: Callable[..., Any]) -> str | None:
    """Return the name of a public function, such as "torch.add" or "torch.Tensor.shape.__get__"; None for another.

    If the function is also a method of tensors, the function's name is returned.
    """
    return public.name_of(f)


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Return whether a function that a `__torch_function__` receives is a method of Tensor, or reads a property of it.

    Methods that are also functions of the top-level namespace count as methods.
    """
    return func in _methods() or getattr(func, "__name__", "") == "__get__"


@lru_cache(1)
def _methods() -> frozenset[Any]:
    return frozenset(value for value in public.members(Tensor).values() if callable(value))


def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """Return all functions that classes can override, as {module, Tensor or property: [function, ...]}."""
    from importlib import import_module

    found: dict[Any, list[Callable[..., Any]]] = {}
    top = import_module(__package__)
    for item in public.names():
        if item.dispatches_on != public.ALL or item.reported is None:
            continue
        place: Any = top
        *path, name = item.name.split(".")[1:]
        for part in path:
            place = getattr(place, part, place)
        function = item.reported if name in ("__get__", "__set__", "__delete__") else item.function
        found.setdefault(place, []).append(function)
    return found


def get_testing_overrides() -> dict[Callable[..., Any], Callable[..., Any]]:
    """Return a dict from each overridable function to one with the same arguments that returns -1."""
    from inspect import signature

    def made(function):
        def override(*args, **kwargs):
            return -1

        try:
            override.__signature__ = signature(function)  # type: ignore[attr-defined]
        except (TypeError, ValueError):
            pass
        return override

    return {
        item.reported: made(item.function)
        for item in public.public_functions()
        if item.dispatches_on == public.ALL and item.reported is not None
    }


def get_ignored_functions() -> set[Callable[..., Any]]:
    """Return public functions that no class can override, since they do not concern a tensor's values or shape."""
    from importlib import import_module
    from types import FunctionType

    top = import_module(__package__)
    overridable = {
        item.function
        for item in public.public_functions()
        if item.dispatches_on == public.ALL and item.reported is not None
    }
    found = {
        value
        for name, value in vars(top).items()
        if isinstance(value, FunctionType) and not name.startswith("_") and value not in overridable
    }
    members = (public.members(Tensor).get(name) for name in public.IGNORED_MEMBERS)
    return found | {getattr(member, "__func__", member) for member in members if member is not None}


def get_default_nowrap_functions() -> set[Callable[..., Any]]:
    """Return functions whose results, existing tensors, Tensor's own `__torch_function__` leaves unchanged."""
    return {Tensor._base.__get__, Tensor.grad.__get__}  # type: ignore[attr-defined]
