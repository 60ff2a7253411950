"""NVIDIA GPUs, of which there are none: queries that programs make first are answered, the rest raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from ..compat.absent_device import device_count, empty_cache, is_available, manual_seed
from ..types.device import no_gpu
from . import amp as amp

__all__ = [
    "current_device",
    "device_count",
    "empty_cache",
    "get_device_capability",
    "get_device_name",
    "get_rng_state_all",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "memory_allocated",
    "set_device",
    "synchronize",
]


def _no_class(name: str) -> Any:
    """Make a class of GPU tensors: it has no instances, and calling it raises TypeError."""

    def refuse(cls: Any, *data: Any, **options: Any) -> NoReturn:
        raise TypeError(f"type torch.cuda.{name} not available. {no_gpu()}")

    return type(name, (), {"__new__": refuse, "__doc__": _no_class.__doc__})


def __getattr__(name: str) -> Any:
    if name == "OutOfMemoryError":
        from ..backends.settings import OutOfMemoryError

        return OutOfMemoryError
    if name.endswith(("Tensor", "Storage")) and not name.startswith("_"):
        globals()[name] = _no_class(name)
        return globals()[name]
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def is_initialized() -> bool:
    """Return False: no GPU has been used."""
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Return False; the CPU computes in bfloat16."""
    return False


def get_rng_state_all() -> list[Any]:
    """Return the states of the GPUs' generators: []."""
    return []


def memory_allocated(device: Any = None) -> int:
    """Return the bytes that tensors occupy on a GPU: 0."""
    return 0


def max_memory_allocated(device: Any = None) -> int:
    """Return the peak of `memory_allocated`: 0."""
    return 0


def _refused(name: str) -> Callable[..., NoReturn]:
    """Return a function that raises AssertionError, since it needs a GPU."""

    def refuse(device: Any = None) -> NoReturn:
        raise no_gpu()

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = "Raise AssertionError: there is no GPU."
    return refuse


manual_seed_all = manual_seed
current_device: Callable[[], int] = _refused("current_device")
set_device: Callable[[Any], None] = _refused("set_device")
synchronize: Callable[..., None] = _refused("synchronize")
get_device_name: Callable[..., str] = _refused("get_device_name")
get_device_capability: Callable[..., tuple[int, int]] = _refused("get_device_capability")
