"""Functions that classes and modes answer in their stead: PyTorch's torch.overrides.

A class with a classmethod `__torch_function__(cls, func, types, args=(), kwargs=None)` sees the calls of public
functions that it is an argument of; a TorchFunctionMode sees all calls made while it is entered. See Note [Torch
functions] in `gradloom.python_dispatch.torch_function`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any

from .core.tensor import Tensor
from .dispatch.state import ALL_ANSWER, INTERCEPT, NOBODY_ANSWERS, state
from .python_dispatch.torch_function import answers, asking, public

if TYPE_CHECKING:
    from typing import Self, TypeVar

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


# --- for functions of one's own ---------------------------------------------------------------------------------------


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether a mode is entered, or the class of an argument answers functions, so that it has to be asked; False
    without arguments.

    Args:
        relevant_args: the arguments that may answer. Lists among them are not looked into.
    """
    if state.function_overrides == NOBODY_ANSWERS:
        return False
    if state.function_modes:
        return any(True for _ in relevant_args)
    if state.function_overrides == ALL_ANSWER:
        for value in relevant_args:
            if answers.overrides(value.__class__):
                asking.ask_for(value.__class__)
                return True
    return False


def has_torch_function_unary(argument: Any) -> bool:
    """`has_torch_function` for one argument."""
    return has_torch_function((argument,))


def has_torch_function_variadic(*relevant_args: Any) -> bool:
    """`has_torch_function` for arguments that are passed one by one."""
    return has_torch_function(relevant_args)


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """The answer of the innermost mode, or of the first class among the arguments that gives one.

    Args:
        public_api: the function that was called; it is passed on as `func`.
        relevant_args: the arguments that may answer.
        args, kwargs: all arguments of the call.

    Raises:
        TypeError: if all that are asked return NotImplemented, or nobody can be asked.
    """
    asked = answers.in_order(relevant_args)
    return answers.answer(public_api, asked, args, kwargs, answers.of_ones_own)


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[[_Function], _Function]:
    """A decorator for functions that classes and modes may answer.

    Args:
        dispatcher: has the signature of the function, and returns those of its arguments that may answer.
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
    """Whether an object is a Tensor, or its class has a `__torch_function__`."""
    return type(inp) is Tensor or hasattr(inp, "__torch_function__")


# --- modes ------------------------------------------------------------------------------------------------------------


class TorchFunctionMode:
    """Sees every call of a public function in a `with` block, in this thread; subclasses define what it makes of them.

    While its `__torch_function__` runs, the mode is left, so that functions may be called there. Modes nest: a call
    goes to the innermost; what that calls goes to the one around it.
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
        """The result of a call; NotImplemented lets the classes of the arguments answer.

        Args:
            func: the public function that was called.
            types: the classes among its arguments that answer functions.
            args, kwargs: its arguments.
        """
        raise NotImplementedError(
            f"{type(self).__name__} must define __torch_function__(self, func, types, args=(), kwargs=None)"
        )

    def __enter__(self) -> Self:
        _push_mode(self)
        return self

    def __exit__(self, *exception: object) -> None:
        _pop_mode()

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Self:
        """PyTorch's old spelling of `cls(*args, **kwargs)`."""
        import warnings

        warnings.warn(
            f"`{cls.__name__}.push()` is no longer necessary: write `with {cls.__name__}():`",
            FutureWarning,
            stacklevel=2,
        )
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that changes nothing; what its subclasses do not answer goes on as usual."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """The function's own result.

        Args:
            func: the public function that was called.
            types: the classes among its arguments that answer functions.
            args, kwargs: its arguments.
        """
        return func(*args, **(kwargs or {}))


def _push_mode(mode: TorchFunctionMode) -> None:
    asking.mode_entered()
    state.function_modes = (*state.function_modes, mode)


def _pop_mode() -> TorchFunctionMode:
    *rest, mode = state.function_modes
    state.function_modes = tuple(rest)
    asking.mode_left()
    return mode


@contextmanager
def _pop_mode_temporarily() -> Iterator[TorchFunctionMode]:
    mode = _pop_mode()
    try:
        yield mode
    finally:
        _push_mode(mode)


def _get_current_function_mode() -> TorchFunctionMode | None:
    return state.function_modes[-1] if state.function_modes else None


def _get_current_function_mode_stack() -> list[TorchFunctionMode]:
    return list(state.function_modes)


def _get_overloaded_args(relevant_args: Iterable[Any]) -> list[Any]:
    return answers.in_order(relevant_args)


@contextmanager
def enable_reentrant_dispatch() -> Iterator[None]:
    """Within a `__torch_dispatch__`: record history again, as where the operator was called that is being answered.

    Raises:
        RuntimeError: outside of a `__torch_dispatch__`.
    """
    outside, flags = state.flags_outside, state.flags
    if outside is None:
        raise RuntimeError(
            "Accessing torch dispatch state outside of '__torch_dispatch__' is not allowed: "
            "enable_reentrant_dispatch() is for its inside, where nothing is recorded"
        )
    state.flags = (outside & ~INTERCEPT) | (flags & INTERCEPT)
    try:
        yield
    finally:
        state.flags = flags


# --- which functions there are ----------------------------------------------------------------------------------------


def resolve_name(f: Callable[..., Any]) -> str | None:
    """The name of a public function, such as "torch.add" or "torch.Tensor.shape.__get__"; None for another.

    A function that is a method of tensors, too, has the function's name.
    """
    return public.name_of(f)


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Whether a function that a `__torch_function__` receives is a method of Tensor, or reads a property of it.

    Methods that are functions of the top-level namespace at the same time are methods.
    """
    return func in _methods() or getattr(func, "__name__", "") == "__get__"


@lru_cache(1)
def _methods() -> frozenset[Any]:
    return frozenset(value for value in public.members(Tensor).values() if callable(value))


def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """All functions that can be answered, as {module, Tensor or property: [function, ...]}."""
    from importlib import import_module

    found: dict[Any, list[Callable[..., Any]]] = {}
    top = import_module(__package__)
    for item in public.names():
        if item.asked != public.ALL or item.reported is None:
            continue
        place: Any = top
        *path, name = item.name.split(".")[1:]
        for part in path:
            place = getattr(place, part, place)
        function = item.reported if name in ("__get__", "__set__", "__delete__") else item.function
        found.setdefault(place, []).append(function)
    return found


def get_testing_overrides() -> dict[Callable[..., Any], Callable[..., Any]]:
    """For each function that can be answered, another that takes the same arguments and returns -1."""
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
        if item.asked == public.ALL and item.reported is not None
    }


def get_ignored_functions() -> set[Callable[..., Any]]:
    """Public functions that no class can answer, because they are not about the values or the shape of a tensor."""
    from importlib import import_module
    from types import FunctionType

    top = import_module(__package__)
    asked = {
        item.function for item in public.public_functions() if item.asked == public.ALL and item.reported is not None
    }
    found = {
        value
        for name, value in vars(top).items()
        if isinstance(value, FunctionType) and not name.startswith("_") and value not in asked
    }
    members = (public.members(Tensor).get(name) for name in public.IGNORED_MEMBERS)
    return found | {getattr(member, "__func__", member) for member in members if member is not None}


def get_default_nowrap_functions() -> set[Callable[..., Any]]:
    """Functions whose results Tensor's own `__torch_function__` leaves as they are: tensors that were there before."""
    return {Tensor._base.__get__, Tensor.grad.__get__}  # type: ignore[attr-defined]
