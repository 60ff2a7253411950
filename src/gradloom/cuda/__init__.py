"""NVIDIA GPUs, of which there are none: queries that programs make first are answered, the rest raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from ..compat.absent_device import (
    device_count,
    empty_cache,
    is_available,
    manual_seed,
    names as _names,
    own_functions as _own_functions,
)
from ..types.device import no_gpu
from . import amp as amp

__all__ = [
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_count",
    "device_of",
    "empty_cache",
    "get_arch_list",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_rng_state",
    "get_rng_state_all",
    "init",
    "ipc_collect",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "set_device",
    "set_rng_state",
    "set_rng_state_all",
    "stream",
    "synchronize",
]
_CLASSES = ("CUDAGraph", "Event", "ExternalStream", "MemPool", "Stream", "graph")


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
    if name in _CLASSES:
        from ..utils._refused import refused

        globals()[name] = refused(f"torch.cuda.{name}", f"{no_gpu()}", is_class=True)
        return globals()[name]
    if name in _SUBMODULES:
        from importlib import import_module

        return import_module(f"{__name__}.{name}")
    return _others(name)


_SUBMODULES = ("memory", "nvtx")
default_generators: tuple[Any, ...] = ()
has_half: bool = True
has_magma: bool = False
_others = _names(
    __name__,
    {
        "get_gencode_flags": str,
        "host_memory_stats": dict,
        "is_tf32_supported": bool,
        "list_gpu_processes": str,
        "max_memory_cached": int,
        "memory_cached": int,
        "memory_summary": str,
        "seed": lambda: None,
        "seed_all": lambda: None,
    },
    """
    can_device_access_peer change_current_allocator clock_rate cudart current_blas_handle current_solver_handle
    get_allocator_backend get_per_process_memory_fraction get_stream_from_external get_sync_debug_mode
    graph_pool_handle initial_seed make_graphed_callables memory_snapshot memory_usage power_draw
    reset_accumulated_memory_stats reset_max_memory_allocated reset_max_memory_cached reset_peak_memory_stats
    set_per_process_memory_fraction set_stream set_sync_debug_mode temperature utilization
    """,
    no_gpu,
)


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


max_memory_reserved = memory_reserved = memory_allocated


def memory_stats(device: Any = None) -> dict[str, Any]:
    """Return statistics of a GPU's memory: {}."""
    return {}


def get_arch_list() -> list[str]:
    """Return the kinds of GPU that the library was compiled for: []."""
    return []


def set_rng_state_all(new_states: Any) -> None:
    """Set the states of the GPUs' generators, of which there are none.

    Raises AssertionError for a state: it needs a GPU.
    """
    if len(list(new_states)):
        raise no_gpu()


def is_current_stream_capturing() -> bool:
    """Return False: no stream records a graph."""
    return False


def _is_in_bad_fork() -> bool:
    """Return False: no GPU was used before a fork."""
    return False


class device:
    """Context in which a GPU is the current one; it has no effect for None and negative numbers.

    Raises AssertionError when it is entered for another GPU.
    """

    def __init__(self, device: Any) -> None:
        self.idx: int = -1 if device is None else device if isinstance(device, int) else 0

    def __enter__(self) -> None:
        if self.idx >= 0:
            raise no_gpu()

    def __exit__(self, *error: Any) -> None:
        """Do nothing."""


class device_of(device):
    """Context in which the GPU of a tensor is the current one; it has no effect for tensors of the CPU."""

    def __init__(self, obj: Any) -> None:
        super().__init__(None)


class StreamContext(device):
    """Context in which a stream is the current one; it has no effect for None, the only stream there is."""

    def __init__(self, stream: Any) -> None:
        super().__init__(stream)


def stream(stream: Any) -> StreamContext:
    """Return the context `StreamContext` of a stream; None has no effect."""
    return StreamContext(stream)


def _refused(name: str) -> Callable[..., NoReturn]:
    """Return a function that raises AssertionError, since it needs a GPU."""

    def refuse(*arguments: Any, **options: Any) -> NoReturn:
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
get_device_properties: Callable[..., Any] = _refused("get_device_properties")
current_stream: Callable[..., Any] = _refused("current_stream")
default_stream: Callable[..., Any] = _refused("default_stream")
get_rng_state: Callable[..., Any] = _refused("get_rng_state")
set_rng_state: Callable[..., None] = _refused("set_rng_state")
mem_get_info: Callable[..., tuple[int, int]] = _refused("mem_get_info")
ipc_collect: Callable[[], None] = _refused("ipc_collect")
init: Callable[[], None] = _refused("init")

_own_functions(__name__)
