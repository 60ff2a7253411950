"""The parts of gradloom._C that set and tell a thread's state, and small tools of PyTorch's core."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any

from ..autograd import grad_mode
from ..core.tensor import Tensor
from ..dispatch.state import state

if TYPE_CHECKING:
    from typing import NoReturn


def _set_grad_enabled(enabled: bool) -> None:
    """Say whether operators of this thread record history.

    Args:
        enabled: whether they do.

    Raises:
        TypeError: if it is no bool.
    """
    grad_mode.set_grad_enabled(enabled)


def _set_multithreading_enabled(enabled: bool) -> None:
    """Say whether backward may use several threads; see autograd.set_multithreading_enabled.

    Args:
        enabled: whether it may.

    Raises:
        TypeError: if it is no bool.
    """
    grad_mode.set_multithreading_enabled(enabled)


def _is_fwd_grad_enabled() -> bool:
    """Whether operators of this thread make tangents within a dual level."""
    return state.forward_grad


def _set_fwd_grad_enabled(enabled: bool) -> None:
    """Say whether operators of this thread make tangents within a dual level.

    Args:
        enabled: whether they do.
    """
    from ..autograd.forward_ad import set_forward_grad

    set_forward_grad(_checked(enabled, "_set_fwd_grad_enabled"))


def _is_view_replay_enabled() -> bool:
    """What _set_view_replay_enabled was told."""
    return state.view_replay


def _set_view_replay_enabled(enabled: bool) -> None:
    """Kept for programs written for PyTorch, and told by _is_view_replay_enabled.

    A view whose base was written to is made anew by its strides, or by what made it where strides do not say it.

    Args:
        enabled: a bool.
    """
    state.view_replay = _checked(enabled, "set_view_replay_enabled")


def _is_grad_layout_enforcement_enabled() -> bool:
    """Whether a leaf's first gradient is copied if it is laid out in another way than the leaf."""
    return state.grad_layout


def _set_grad_layout_enforcement_enabled(enabled: bool) -> None:
    """See autograd.grad_mode.enforce_grad_layout_policy.

    Args:
        enabled: whether it is copied.
    """
    state.grad_layout = _checked(enabled, "_set_grad_layout_enforcement_enabled")


def _checked(enabled: Any, function: str) -> bool:
    if not isinstance(enabled, bool):
        raise TypeError(f"{function}(): argument 'enabled' (position 1) must be bool, not {type(enabled).__name__}")
    return enabled


def _any_requires_grad(*args: Any, **kwargs: Any) -> bool:
    """Whether a tensor among the arguments, or in a list or tuple of them, requires grad.

    Args:
        args, kwargs: anything.
    """
    return any(_requires_grad(value) for value in (*args, *kwargs.values()))


def _requires_grad(value: Any) -> bool:
    if isinstance(value, Tensor):
        return value.requires_grad
    return isinstance(value, (tuple, list)) and any(isinstance(v, Tensor) and v.requires_grad for v in value)


class _WeakTensorRef:
    """A reference that does not keep a tensor.

    Args:
        tensor: a Tensor.

    Raises:
        TypeError: for anything else.
    """

    __slots__ = ("_reference",)

    def __init__(self, tensor: Tensor) -> None:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"_WeakTensorRef takes a Tensor, but got {type(tensor).__name__}")
        self._reference = weakref.ref(tensor)

    def expired(self) -> bool:
        """Whether the tensor is gone."""
        return self._reference() is None


_objects = threading.local()


def _stash_obj_in_tls(key: str, value: Any) -> None:
    """Keep an object for this thread.

    Args:
        key, value: its name, and the object.
    """
    setattr(_objects, key, value)


def _get_obj_in_tls(key: str) -> Any:
    """The object that this thread keeps.

    Args:
        key: its name.

    Raises:
        RuntimeError: if there is none.
    """
    if not hasattr(_objects, key):
        _refuse_key(key)
    return getattr(_objects, key)


def _is_key_in_tls(key: str) -> bool:
    """Whether this thread keeps an object.

    Args:
        key: its name.
    """
    return hasattr(_objects, key)


def _remove_obj_from_tls(key: str) -> None:
    """Keep an object no longer.

    Args:
        key: its name.

    Raises:
        RuntimeError: if there is none.
    """
    if not hasattr(_objects, key):
        _refuse_key(key)
    delattr(_objects, key)


def _refuse_key(key: str) -> NoReturn:
    raise RuntimeError(f"Expected an object under {key!r}, but this thread keeps none: _stash_obj_in_tls() keeps one")


def _add_docstr(function: Any, text: str) -> Any:
    """Give a function its docstring.

    Args:
        function: a function.
        text: its docstring.

    Returns:
        The function.

    Raises:
        RuntimeError: if it has one.
    """
    if function.__doc__:
        raise RuntimeError(f"function '{getattr(function, '__name__', function)}' already has a docstring")
    function.__doc__ = text
    return function


def _has_storage(tensor: Tensor) -> bool:
    """Whether a tensor has memory.

    Args:
        tensor: a Tensor.
    """
    return hasattr(tensor, "_operand")


def _get_tracing_state() -> None:
    """None: nothing is traced here."""


def _log_api_usage_once(event: str) -> None:
    """Nothing is logged.

    Args:
        event: what happened.
    """


def _get_privateuse1_backend_name() -> str:
    """PyTorch's name for a device that others add; there is none here."""
    return "privateuseone"


class _Names:
    """Functions of gradloom under the names of their operators, as `torch._C._nn` has them."""

    def __init__(self, name: str, module: str | None) -> None:
        self.__name__, self._module = name, module

    def __getattr__(self, name: str) -> Any:
        from ..dispatch import _operators
        from ..generated import namespaces

        known = namespaces.FUNCTIONS if self._module is None else namespaces.MODULES.get(self._module, {}).values()
        if name not in known:
            raise AttributeError(f"'{self.__name__}' has no attribute '{name}': there is no such operator here")
        return getattr(_operators, name)

    def __repr__(self) -> str:
        return f"<functions of {self.__name__}>"


_VariableFunctions = _Names("gradloom._C._VariableFunctions", None)
_linalg = _Names("gradloom._C._linalg", "linalg")
_special = _Names("gradloom._C._special", "special")


class _NN(_Names):
    def _parse_to(self, *args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
        """What `Module.to(...)` was asked for: device, dtype, non_blocking, memory format.

        Args:
            args, kwargs: those of `to`.
        """
        from ..nn.modules._traversal import _parse_to

        return (
            *_parse_to(args, {k: v for k, v in kwargs.items() if k != "memory_format"}),
            kwargs.get("memory_format"),
        )


_nn = _NN("gradloom._C._nn", "nn")
