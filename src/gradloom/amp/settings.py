"""What autocast has been told in this thread: for which devices it is on, with which dtypes, and its cache of casts.

For the CPU, the only device there is, "on" is the bit AUTOCAST of the thread's flags, since wrappers look there. The
other devices that PyTorch knows have settings too, so that programs which mention them run; they change nothing.
"""

from __future__ import annotations

from typing import Any

from ..dispatch.overloads.registry import type_name
from ..dispatch.state import AUTOCAST, state
from ..types.dtype import bfloat16, dtype as DType, float16

# The kinds of device that have a name.
_KINDS = (
    "cpu",
    "cuda",
    "ipu",
    "xpu",
    "mkldnn",
    "opengl",
    "opencl",
    "ideep",
    "hip",
    "ve",
    "fpga",
    "maia",
    "xla",
    "lazy",
    "vulkan",
    "mps",
    "meta",
    "hpu",
    "mtia",
    "privateuseone",
)
# The devices for which there is autocast -> the dtype of a region that names none.
_DEFAULTS: dict[str, DType] = {
    "cpu": bfloat16,
    "cuda": float16,
    "mps": float16,
    "xpu": float16,
    "ipu": float16,
    "mtia": float16,
    "xla": bfloat16,
    "hpu": bfloat16,
    "maia": bfloat16,
}


class Settings:
    """One thread's.

    Attributes:
        dtypes: device type -> the dtype that products are computed in.
        others: the device types besides the CPU for which autocast is on.
        nesting: how many regions surround the thread.
        caches: whether casts of parameters are kept for the rest of the region.
        casts: (id of a parameter, dtype) -> (the parameter, its cast). A cast holds its parameter by its history, and
            both are let go when the outermost region ends.
    """

    def __init__(self) -> None:
        self.dtypes = dict(_DEFAULTS)
        self.others: set[str] = set()
        self.nesting = 0
        self.caches = True
        self.casts: dict[tuple[int, DType], tuple[Any, Any]] = {}


def settings() -> Settings:
    """Those of this thread."""
    found = state.autocast
    if found is None:
        found = state.autocast = Settings()
    return found


def _device(function: str, device_type: object) -> str:
    """The device type that a string names.

    Raises:
        TypeError: if it is no string.
        RuntimeError: if there is no such device, or no autocast for it.
    """
    if not isinstance(device_type, str):
        raise TypeError(
            f"{function}(): argument 'device_type' (position 1) must be str, not {type_name(type(device_type))}"
        )
    name = device_type.partition(":")[0]
    if name not in _KINDS:
        raise RuntimeError(f"Expected one of {', '.join(_KINDS)} device type at start of device string: {name}")
    if name not in _DEFAULTS:
        raise RuntimeError(f"unknown device type for autocast: '{name}'; there is autocast for {', '.join(_DEFAULTS)}")
    return name


def is_autocast_available(device_type: str) -> bool:
    """Whether there is autocast for this kind of device. Only on the CPU does it change anything here.

    Args:
        device_type: "cpu", "cuda" ...

    Raises:
        RuntimeError: if there is no such kind of device.
    """
    try:
        return bool(_device("is_autocast_available", device_type))
    except RuntimeError:
        if device_type.partition(":")[0] in _KINDS:
            return False
        raise


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether operators of this thread cast their arguments now.

    Args:
        device_type: the kind of device; "cuda" if nothing is said, as in PyTorch.

    Raises:
        RuntimeError: if there is no autocast for it.
    """
    name = _device("is_autocast_enabled", device_type)
    return bool(state.flags & AUTOCAST) if name == "cpu" else name in settings().others


def set_autocast_enabled(device_type: str | bool, enabled: bool | None = None) -> None:
    """Switch autocast on or off in this thread. `autocast` is the way to do it for a block of code.

    Args:
        device_type: the kind of device; with a single argument, that is `enabled` and "cuda" is meant.
        enabled: whether to cast.

    Raises:
        TypeError: for another type of argument.
        RuntimeError: if there is no autocast for the device.
    """
    if enabled is None and isinstance(device_type, bool):
        enabled = device_type
        device_type = "cuda"
    name = _device("set_autocast_enabled", device_type)
    if not isinstance(enabled, bool):
        raise TypeError(
            f"set_autocast_enabled(): argument 'enabled' (position 2) must be bool, not {type_name(type(enabled))}"
        )
    if name == "cpu":
        from . import casting as _registers  # noqa: F401

        state.flags = state.flags | AUTOCAST if enabled else state.flags & ~AUTOCAST
    elif enabled:
        settings().others.add(name)
    else:
        settings().others.discard(name)


def get_autocast_dtype(device_type: str) -> DType:
    """The dtype that operators in lower precision compute in, in regions of this thread that name none.

    Args:
        device_type: the kind of device.

    Raises:
        RuntimeError: if there is no autocast for it.
    """
    return settings().dtypes[_device("get_autocast_dtype", device_type)]


def set_autocast_dtype(device_type: str, dtype: DType) -> None:
    """Set the dtype that operators in lower precision compute in, and of regions that name none.

    Args:
        device_type: the kind of device.
        dtype: a floating dtype.

    Raises:
        TypeError: if `dtype` is none.
        RuntimeError: if there is no autocast for the device.
    """
    name = _device("set_autocast_dtype", device_type)
    if not isinstance(dtype, DType):
        raise TypeError(
            f"set_autocast_dtype(): argument 'dtype' (position 2) must be torch.dtype, not {type_name(type(dtype))}"
        )
    settings().dtypes[name] = dtype


def is_autocast_cache_enabled() -> bool:
    """Whether casts of parameters are kept until the outermost region ends."""
    return settings().caches


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Say whether casts of parameters are kept until the outermost region ends.

    Args:
        enabled: whether to keep them.

    Raises:
        TypeError: if it is no bool.
    """
    if not isinstance(enabled, bool):
        raise TypeError(f"enabled must be a bool (got {type_name(type(enabled))})")
    settings().caches = enabled


def clear_autocast_cache() -> None:
    """Forget the casts of parameters that were made in this thread's region."""
    settings().casts.clear()


def autocast_increment_nesting() -> int:
    """Say that a region begins in this thread: how many surround it now."""
    found = settings()
    found.nesting += 1
    return found.nesting


def autocast_decrement_nesting() -> int:
    """Say that a region ends in this thread: how many surround it now."""
    found = settings()
    found.nesting -= 1
    return found.nesting
