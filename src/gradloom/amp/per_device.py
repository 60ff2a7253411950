"""Deprecated names with the device in them: `get_autocast_cpu_dtype`, and the bases of `<device>.amp`'s classes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ..types.dtype import dtype as DType
from ..types.public import found_in as _found_in
from . import settings
from .autocast_mode import autocast
from .grad_scaler import GradScaler


def warn_deprecated(device: str, name: str, arguments: str) -> None:
    """Warn, at the line two calls up, that `<device>.amp.<name>` is deprecated for `gradloom.amp.<name>(arguments)`."""
    warnings.warn(
        f"`torch.{device}.amp.{name}(args...)` is deprecated. Please use `torch.amp.{name}({arguments})` instead.",
        FutureWarning,
        stacklevel=3,
    )


class DeviceAutocast(autocast):
    """Base of the deprecated `<device>.amp.autocast`.

    Args:
        enabled, dtype, cache_enabled: see `gradloom.amp.autocast`.
    """

    _type: str

    def __init__(self, enabled: bool = True, dtype: DType | None = None, cache_enabled: bool = True) -> None:
        warn_deprecated(self._type, "autocast", f"'{self._type}', args...")
        super().__init__(self._type, dtype or settings.DEFAULT_DTYPES[self._type], enabled, cache_enabled)


class DeviceGradScaler(GradScaler):
    """Base of the deprecated `<device>.amp.GradScaler`.

    Args:
        init_scale, growth_factor, backoff_factor, growth_interval, enabled: see `gradloom.amp.GradScaler`.
    """

    _type: str

    def __init__(
        self,
        init_scale: float = 65536.0,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        warn_deprecated(self._type, "GradScaler", f"'{self._type}', args...")
        super().__init__(self._type, init_scale, growth_factor, backoff_factor, growth_interval, enabled)


def _per_device(name: str, device: str, new: Callable[..., Any], value: str = "") -> Callable[..., Any]:
    """Make a function `name` that warns and calls `new` for a device."""
    arguments = ", ".join(filter(None, (repr(device), value)))

    def deprecated(*args: Any) -> Any:
        warnings.warn(
            f"torch.{name}({value}) is deprecated. Please use torch.{new.__name__}({arguments}) instead.",
            DeprecationWarning,
            stacklevel=2,
        )
        return new(device, *args)

    deprecated.__name__ = deprecated.__qualname__ = name
    deprecated.__doc__ = f"Deprecated: `{new.__name__}({arguments})`."
    return deprecated


_get, _set = settings.get_autocast_dtype, settings.set_autocast_dtype
_is, _enable = settings.is_autocast_enabled, settings.set_autocast_enabled
get_autocast_cpu_dtype: Callable[[], DType] = _per_device("get_autocast_cpu_dtype", "cpu", _get)
set_autocast_cpu_dtype: Callable[[DType], None] = _per_device("set_autocast_cpu_dtype", "cpu", _set, "dtype")
is_autocast_cpu_enabled: Callable[[], bool] = _per_device("is_autocast_cpu_enabled", "cpu", _is)
set_autocast_cpu_enabled: Callable[[bool], None] = _per_device("set_autocast_cpu_enabled", "cpu", _enable, "enabled")
get_autocast_gpu_dtype: Callable[[], DType] = _per_device("get_autocast_gpu_dtype", "cuda", _get)
set_autocast_gpu_dtype: Callable[[DType], None] = _per_device("set_autocast_gpu_dtype", "cuda", _set, "dtype")

_found_in(
    "gradloom",
    get_autocast_cpu_dtype,
    get_autocast_gpu_dtype,
    is_autocast_cpu_enabled,
    set_autocast_cpu_dtype,
    set_autocast_cpu_enabled,
    set_autocast_gpu_dtype,
)
