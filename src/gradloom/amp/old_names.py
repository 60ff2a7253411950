"""The names from when each device had its own: of autocast's settings, and the warning of `<device>.amp`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ..types.dtype import dtype
from . import settings


def is_old(device: str, name: str, instead: str) -> None:
    """Warn where a name of `<device>.amp` is used.

    Args:
        device: which one.
        name: the name, which `gradloom.amp` has, too.
        instead: the arguments that it takes there.
    """
    warnings.warn(
        f"`torch.{device}.amp.{name}(args...)` is deprecated. Please use `torch.amp.{name}({instead})` instead.",
        FutureWarning,
        stacklevel=3,
    )


def _old(name: str, device: str, new: Callable[..., Any], value: str = "") -> Callable[..., Any]:
    """A function of that name, which calls the one for all devices."""
    arguments = ", ".join(filter(None, (repr(device), value)))

    def old(*args: Any) -> Any:
        warnings.warn(
            f"torch.{name}({value}) is deprecated. Please use torch.{new.__name__}({arguments}) instead.",
            DeprecationWarning,
            stacklevel=2,
        )
        return new(device, *args)

    old.__name__ = old.__qualname__ = name
    old.__doc__ = f"Deprecated: `{new.__name__}({arguments})`."
    return old


get_autocast_cpu_dtype: Callable[[], dtype] = _old("get_autocast_cpu_dtype", "cpu", settings.get_autocast_dtype)
set_autocast_cpu_dtype: Callable[[dtype], None] = _old(
    "set_autocast_cpu_dtype", "cpu", settings.set_autocast_dtype, "dtype"
)
is_autocast_cpu_enabled: Callable[[], bool] = _old("is_autocast_cpu_enabled", "cpu", settings.is_autocast_enabled)
set_autocast_cpu_enabled: Callable[[bool], None] = _old(
    "set_autocast_cpu_enabled", "cpu", settings.set_autocast_enabled, "enabled"
)
get_autocast_gpu_dtype: Callable[[], dtype] = _old("get_autocast_gpu_dtype", "cuda", settings.get_autocast_dtype)
set_autocast_gpu_dtype: Callable[[dtype], None] = _old(
    "set_autocast_gpu_dtype", "cuda", settings.set_autocast_dtype, "dtype"
)
get_autocast_ipu_dtype: Callable[[], dtype] = _old("get_autocast_ipu_dtype", "ipu", settings.get_autocast_dtype)
set_autocast_ipu_dtype: Callable[[dtype], None] = _old(
    "set_autocast_ipu_dtype", "ipu", settings.set_autocast_dtype, "dtype"
)
is_autocast_ipu_enabled: Callable[[], bool] = _old("is_autocast_ipu_enabled", "ipu", settings.is_autocast_enabled)
set_autocast_ipu_enabled: Callable[[bool], None] = _old(
    "set_autocast_ipu_enabled", "ipu", settings.set_autocast_enabled, "enabled"
)
get_autocast_xla_dtype: Callable[[], dtype] = _old("get_autocast_xla_dtype", "xla", settings.get_autocast_dtype)
set_autocast_xla_dtype: Callable[[dtype], None] = _old(
    "set_autocast_xla_dtype", "xla", settings.set_autocast_dtype, "dtype"
)
is_autocast_xla_enabled: Callable[[], bool] = _old("is_autocast_xla_enabled", "xla", settings.is_autocast_enabled)
set_autocast_xla_enabled: Callable[[bool], None] = _old(
    "set_autocast_xla_enabled", "xla", settings.set_autocast_enabled, "enabled"
)
