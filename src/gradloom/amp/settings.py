"""Public functions that read and set autocast's settings of this thread.

The CPU is the only device. Settings of the other device types that PyTorch knows are kept, so that programs which name
them run; they have no effect.
"""

from __future__ import annotations

from ..dispatch.overloads.registry import type_name
from ..dispatch.state import AUTOCAST, state
from ..types.device import TYPES
from ..types.dtype import dtype as DType
from ..types.public import found_in as _found_in
from .casting import DEFAULT_DTYPES, settings


def _device(function: str, device_type: object) -> str:
    """Return the device type that a string names.

    Raises:
        TypeError: if it is not a string.
        RuntimeError: if there is no such device type, or no autocast for it.
    """
    if not isinstance(device_type, str):
        raise TypeError(
            f"{function}(): argument 'device_type' (position 1) must be str, not {type_name(type(device_type))}"
        )
    name = device_type.partition(":")[0]
    if name not in TYPES:
        raise RuntimeError(f"Expected one of {', '.join(TYPES)} device type at start of device string: {name}")
    if name not in DEFAULT_DTYPES:
        raise RuntimeError(
            f"unknown device type for autocast: '{name}'; autocast exists for {', '.join(DEFAULT_DTYPES)}"
        )
    return name


def is_autocast_available(device_type: str) -> bool:
    """Return whether a device type has autocast. Only the CPU's has an effect.

    Args:
        device_type: "cpu", "cuda" ...

    Raises:
        RuntimeError: if there is no such device type.
    """
    try:
        return bool(_device("is_autocast_available", device_type))
    except RuntimeError:
        if device_type.partition(":")[0] in TYPES:
            return False
        raise


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Return whether autocast is enabled in this thread.

    Args:
        device_type: the device type; "cuda" by default, as in PyTorch.

    Raises:
        RuntimeError: if the device type has no autocast.
    """
    name = _device("is_autocast_enabled", device_type)
    return bool(state.flags & AUTOCAST) if name == "cpu" else name in settings().others


def set_autocast_enabled(device_type: str | bool, enabled: bool | None = None) -> None:
    """Enable or disable autocast in this thread. Use `autocast` to do so for a block of code.

    Args:
        device_type: the device type. A single bool argument is `enabled` for "cuda".
        enabled: whether operators cast their arguments.

    Raises:
        TypeError: for another type of argument.
        RuntimeError: if the device type has no autocast.
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
        state.flags = state.flags | AUTOCAST if enabled else state.flags & ~AUTOCAST
    elif enabled:
        settings().others.add(name)
    else:
        settings().others.discard(name)


def get_autocast_dtype(device_type: str) -> DType:
    """Return the dtype of lower precision of this thread, the default of a region.

    Args:
        device_type: the device type.

    Raises:
        RuntimeError: if the device type has no autocast.
    """
    return settings().dtypes[_device("get_autocast_dtype", device_type)]


def set_autocast_dtype(device_type: str, dtype: DType) -> None:
    """Set the dtype of lower precision of this thread, the default of a region.

    Args:
        device_type: the device type.
        dtype: a floating dtype.

    Raises:
        TypeError: if `dtype` is not a dtype.
        RuntimeError: if the device type has no autocast.
    """
    name = _device("set_autocast_dtype", device_type)
    if not isinstance(dtype, DType):
        raise TypeError(
            f"set_autocast_dtype(): argument 'dtype' (position 2) must be torch.dtype, not {type_name(type(dtype))}"
        )
    settings().dtypes[name] = dtype


def is_autocast_cache_enabled() -> bool:
    """Return whether casts of parameters are kept until the outermost region ends."""
    return settings().caches


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Set whether casts of parameters are kept until the outermost region ends.

    Args:
        enabled: whether to keep them.

    Raises:
        TypeError: if it is not a bool.
    """
    if not isinstance(enabled, bool):
        raise TypeError(f"enabled must be a bool (got {type_name(type(enabled))})")
    settings().caches = enabled


def clear_autocast_cache() -> None:
    """Drop the casts of parameters that this thread keeps."""
    settings().casts.clear()


def autocast_increment_nesting() -> int:
    """Enter a region: return the number of open regions of this thread, this one included."""
    found = settings()
    found.nesting += 1
    return found.nesting


def autocast_decrement_nesting() -> int:
    """Leave a region: return the number of regions of this thread that are still open."""
    found = settings()
    found.nesting -= 1
    return found.nesting


_found_in(
    "gradloom",
    autocast_decrement_nesting,
    autocast_increment_nesting,
    clear_autocast_cache,
    get_autocast_dtype,
    is_autocast_cache_enabled,
    is_autocast_enabled,
    set_autocast_cache_enabled,
    set_autocast_dtype,
    set_autocast_enabled,
)
_found_in("gradloom.amp.autocast_mode", is_autocast_available)
