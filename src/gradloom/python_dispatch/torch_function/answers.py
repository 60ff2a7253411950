"""Who answers a call of a public function, and what is said if nobody does; see Note [Torch functions]."""

from __future__ import annotations

from typing import Any

from ...dispatch import _operators
from ...dispatch.state import ALL_ANSWER, NOBODY_ANSWERS, disabled_torch_function, state

# Classes whose instances never answer. Sequences are not among them: what is in them may answer.
_NEVER: tuple = (int, float, bool, complex, str, type(None), type(Ellipsis), slice)
plain: set[type] = set()  # with those that were seen since; emptied when it reaches 1,000


def reset_plain() -> None:
    """Forget which classes were seen to have no `__torch_function__`."""
    plain.clear()
    plain.update((*_NEVER, _operators.Tensor))


def overrides(cls: type) -> bool:
    """Whether instances of a class answer: by a `__torch_function__` that is not disabled. Tensor itself does not."""
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


def overriding_arguments(args, kwargs) -> list:
    """Arguments whose classes answer, also those in lists: one of each class, in the order in which they are asked."""
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
    """One value of each class with a `__torch_function__`, of Tensor too, in the order in which they are asked."""
    found: list = []
    for value in values:
        function = getattr(value.__class__, "__torch_function__", None)
        if function is not None and function is not disabled_torch_function:
            _insert(found, value)
    return found


def _insert(found: list, value) -> None:
    """Put a value behind the others, but before those whose classes its own class derives from."""
    cls = value.__class__
    at = len(found)
    for place, other in enumerate(found):
        if cls is other.__class__:
            return
        if at == len(found) and issubclass(cls, other.__class__):
            at = place
    found.insert(at, value)


def answer(function, overriding: list, args, kwargs, failure=None) -> Any:
    """What the innermost mode, or the first class that does not pass on, makes of a call.

    Args:
        function: the public function.
        overriding: arguments whose classes answer, in the order in which they are asked.
        failure: (name, mode, classes) -> what is said if nobody answers; for gradloom's functions by default.

    Raises:
        TypeError: if all of them return NotImplemented.
    """
    types = tuple([value.__class__ for value in overriding])
    mode = None
    if state.function_modes and state.function_overrides != NOBODY_ANSWERS:
        modes = state.function_modes
        mode = modes[-1]
        state.function_modes = modes[:-1]
        try:
            found = _answer_of_mode(mode)(function, types, args, kwargs)
        finally:
            state.function_modes = modes
        if found is not NotImplemented:
            return found
    for value in overriding:
        found = _answer_of(value)(function, types, args, kwargs)
        if found is not NotImplemented:
            return found
    from .public import name_of

    name = name_of(function) or f"{getattr(function, '__module__', '')}.{getattr(function, '__name__', function)}"
    raise TypeError((failure or _of_ours)(name, mode, types))


def _of_ours(name: str, mode: Any, types) -> str:
    asked = [] if mode is None else [f"  - mode object {mode!r}"]
    asked += [f"  - tensor subclass {cls!r}" for cls in types]
    return "\n".join(
        [f"Multiple dispatch failed for '{name}'; all __torch_function__ handlers returned NotImplemented:\n", *asked]
    )


def of_ones_own(name: str, mode: Any, types) -> str:
    """What is said of a function of the user's that nobody answers."""
    asked = "" if mode is None else f" nor in the mode {mode!r}"
    return f"no implementation found for '{name}' on types that implement __torch_function__: {list(types)}{asked}"


def _answer_of_mode(mode):
    found = mode.__torch_function__
    if getattr(found, "__self__", None) is type(mode):
        raise RuntimeError(
            "Defining your mode's `__torch_function__` as a classmethod is not supported, please make it a plain method"
        )
    return found


def _answer_of(value):
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
    """Whether classes answer functions in this thread."""
    return state.function_overrides == ALL_ANSWER


class DisableTorchFunctionSubclass:
    """A context in which classes do not answer functions, in this thread; modes still do.

    Subclasses of Tensor are tensors then, and what is no tensor is refused.
    """

    _level = 1

    def __enter__(self) -> None:
        self._before = state.function_overrides
        state.function_overrides = max(self._before, self._level)

    def __exit__(self, *exception: object) -> None:
        state.function_overrides = self._before


class DisableTorchFunction(DisableTorchFunctionSubclass):
    """A context in which neither classes nor modes answer functions, in this thread."""

    _level = NOBODY_ANSWERS
