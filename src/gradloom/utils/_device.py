"""The device of new tensors: `with torch.device(...)` and `torch.set_default_device`.

Both enter a `DeviceContext`, a function mode (Note [Torch functions]) that adds `device=` to calls of factories. While
neither is used, factories do no extra work.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import gradloom as gl
from gradloom.dispatch.state import state
from gradloom.overrides import TorchFunctionMode
from gradloom.types.device import CPU, device as _Device, names_meta

from ..types.public import found_in as _found_in

_FACTORIES = """empty empty_permuted empty_strided ones zeros full eye arange range linspace logspace rand randn randint
    randperm normal tensor as_tensor asarray scalar_tensor tril_indices triu_indices bartlett_window blackman_window
    hamming_window hann_window kaiser_window fft.fftfreq fft.rfftfreq"""


@cache
def _constructors() -> frozenset[Callable[..., Any]]:
    found = set()
    for name in _FACTORIES.split():
        holder: Any = gl
        for part in name.split("."):
            holder = getattr(holder, part, None)
        if holder is not None:
            found.add(holder)
    return frozenset(found)


class DeviceContext(TorchFunctionMode):
    """Give factories that are called without a device this one, within a `with` block.

    Args:
        device: a device, or its name.
    """

    def __init__(self, device: Any) -> None:
        self.device = _Device(device)

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Return the result of a call, on the device if the function is a factory."""
        kwargs = kwargs or {}
        if kwargs.get("device") is None and func in _constructors():
            kwargs["device"] = self.device
        return func(*args, **kwargs)


class _Contexts(threading.local):
    """The contexts of a thread: those of `with` blocks, innermost last, and that of set_default_device."""

    def __init__(self) -> None:
        self.entered: list[DeviceContext] = []
        self.default: list[DeviceContext] = []
        self.device = CPU  # that of set_default_device, where it needs no context


_contexts = _Contexts()


def context(device: Any) -> Any:
    """Return the context to enter for a device; for None, the one to leave."""
    if device is None:
        return _contexts.entered.pop()
    _contexts.entered.append(DeviceContext(device))
    return _contexts.entered[-1]


def set_default_device(device: Any = None) -> None:
    """Set the device of new tensors.

    Args:
        device: "cpu", "meta", or a device; None means the CPU.

    Raises:
        RuntimeError: for any other device: gradloom computes on the CPU.
    """
    meta = names_meta(device)
    default, _contexts.device = _contexts.default, CPU if device is None else _Device(device)
    if default:
        default.pop().__exit__()
    if device is not None and (meta or state.function_modes):
        default.append(DeviceContext(device))
        default[-1].__enter__()


def get_default_device() -> _Device:
    """Return the device of new tensors: that of the innermost `with torch.device(...)`, or of set_default_device."""
    return next((m.device for m in reversed(state.function_modes) if isinstance(m, DeviceContext)), _contexts.device)


_found_in("gradloom", get_default_device, set_default_device)
