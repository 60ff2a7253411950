"""Switches of a thread's state under `torch._C`'s names, and small tools of PyTorch's core."""

from __future__ import annotations

import threading
import weakref
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..autograd import grad_mode
from ..core.tensor import Tensor
from ..dispatch.state import state
from ..types.device import device

if TYPE_CHECKING:
    from typing import NoReturn

_TensorMeta = type(Tensor)


def _get_accelerator(check: bool = False) -> Any:
    """Return the device of the accelerator, or of the CPU if there is none: device(type="cpu")."""
    return device("cpu")


def _get_default_device() -> str:
    """Return the type of the device of tensors that are made without one: "cpu"; `set_default_device` does not
    change it."""
    return "cpu"


def _set_grad_enabled(enabled: bool) -> None:
    """Set whether this thread records history.

    Raises TypeError if `enabled` is not a bool.
    """
    grad_mode.set_grad_enabled(enabled)


def _set_multithreading_enabled(enabled: bool) -> None:
    """Set whether backward may use several threads; see autograd.set_multithreading_enabled.

    Raises TypeError if `enabled` is not a bool.
    """
    grad_mode.set_multithreading_enabled(enabled)


def _are_functorch_transforms_active() -> bool:
    """Return whether this thread is inside `vmap`."""
    from ._functorch import maybe_current_level

    return maybe_current_level() is not None


def _jit_set_profiling_mode(enabled: bool) -> bool:
    """Return True, the mode of PyTorch's TorchScript; it has no effect."""
    return True


_jit_set_profiling_executor = _jit_set_profiling_mode


def _jit_override_can_fuse_on_gpu(enabled: bool) -> None:
    """Do nothing: there is no TorchScript."""


_jit_override_can_fuse_on_cpu = _jit_set_texpr_fuser_enabled = _jit_override_can_fuse_on_gpu


def _is_fwd_grad_enabled() -> bool:
    """Return whether forward-mode AD is enabled in this thread."""
    return state.forward_grad


def _set_fwd_grad_enabled(enabled: bool) -> None:
    """Set whether forward-mode AD is enabled in this thread."""
    from ..autograd.forward_ad import set_forward_grad

    set_forward_grad(_checked(enabled, "_set_fwd_grad_enabled"))


def _is_view_replay_enabled() -> bool:
    """Return the setting of `_set_view_replay_enabled`."""
    return state.view_replay


def _set_view_replay_enabled(enabled: bool) -> None:
    """Set whether views that this thread makes are recreated by their operators; see
    autograd.grad_mode._force_original_view_tracking."""
    grad_mode.set_view_replay(_checked(enabled, "set_view_replay_enabled"))


def _is_grad_layout_enforcement_enabled() -> bool:
    """Return whether a leaf's first gradient is copied to the leaf's strides."""
    return state.grad_layout


def _set_grad_layout_enforcement_enabled(enabled: bool) -> None:
    """Set whether a leaf's first gradient is copied to the leaf's strides; see
    autograd.grad_mode.enforce_grad_layout_policy."""
    state.grad_layout = _checked(enabled, "_set_grad_layout_enforcement_enabled")


def _checked(enabled: Any, function: str) -> bool:
    if not isinstance(enabled, bool):
        raise TypeError(f"{function}(): argument 'enabled' (position 1) must be bool, not {type(enabled).__name__}")
    return enabled


def _any_requires_grad(*args: Any, **kwargs: Any) -> bool:
    """Return whether a tensor among the arguments, or in a list or tuple of them, requires grad."""
    return any(_requires_grad(value) for value in (*args, *kwargs.values()))


def _requires_grad(value: Any) -> bool:
    if isinstance(value, Tensor):
        return value.requires_grad
    return isinstance(value, (tuple, list)) and any(isinstance(v, Tensor) and v.requires_grad for v in value)


class _WeakTensorRef:
    """A weak reference to a tensor.

    Raises:
        TypeError: for anything but a Tensor.
    """

    __slots__ = ("_reference",)

    def __init__(self, tensor: Tensor) -> None:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"_WeakTensorRef takes a Tensor, but got {type(tensor).__name__}")
        self._reference = weakref.ref(tensor)

    def expired(self) -> bool:
        """Return whether the tensor has been freed."""
        return self._reference() is None


_objects = threading.local()


def _stash_obj_in_tls(key: str, value: Any) -> None:
    """Store an object in this thread's local storage."""
    setattr(_objects, key, value)


def _get_obj_in_tls(key: str) -> Any:
    """Return the object that this thread stores under a key.

    Raises RuntimeError if there is none.
    """
    if not hasattr(_objects, key):
        _refuse_key(key)
    return getattr(_objects, key)


def _is_key_in_tls(key: str) -> bool:
    """Return whether this thread stores an object under a key."""
    return hasattr(_objects, key)


def _remove_obj_from_tls(key: str) -> None:
    """Remove the object that this thread stores under a key.

    Raises RuntimeError if there is none.
    """
    if not hasattr(_objects, key):
        _refuse_key(key)
    delattr(_objects, key)


def _refuse_key(key: str) -> NoReturn:
    raise RuntimeError(f"Expected an object under {key!r}, but this thread stores none: _stash_obj_in_tls() stores one")


def _add_docstr(function: Any, text: str) -> Any:
    """Set a function's docstring and return the function.

    Raises RuntimeError if it has a docstring.
    """
    if function.__doc__:
        raise RuntimeError(f"function '{getattr(function, '__name__', function)}' already has a docstring")
    function.__doc__ = text
    return function


def _has_storage(tensor: Tensor) -> bool:
    """Return whether a tensor has storage."""
    return hasattr(tensor, "_operand")


def _get_tracing_state() -> None:
    """Return None: there is no tracer."""


def _log_api_usage_once(event: str) -> None:
    """Do nothing: usage is not logged."""


def _get_privateuse1_backend_name() -> str:
    """Return PyTorch's name for a device of a third party; there is none here."""
    return "privateuseone"


class _Names(ModuleType):
    """A namespace of functions by the names of their operators, such as `torch._C._nn`."""

    def __init__(self, name: str, module: str | None) -> None:
        super().__init__(name)
        self._module = module

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
_VariableFunctionsClass = _VariableFunctions  # pickles of PyTorch look its functions up by this name
_VF = _Names("gradloom._VF", None)
_fft = _Names("gradloom._C._fft", "fft")
_linalg = _Names("gradloom._C._linalg", "linalg")
_special = _Names("gradloom._C._special", "special")


class _NN(_Names):
    def _parse_to(self, *args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
        """Parse the arguments of `Module.to` into device, dtype, non_blocking and memory format."""
        from ..nn.modules._traversal import _parse_to

        return (
            *_parse_to(args, {k: v for k, v in kwargs.items() if k != "memory_format"}),
            kwargs.get("memory_format"),
        )


_nn = _NN("gradloom._C._nn", "nn")
