"""The GPUs that are not there: what programs ask before they use one, and clear errors for the rest."""

from __future__ import annotations

from typing import Any, NoReturn

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


def is_available() -> bool:
    """Whether there is a GPU to compute on: False, gradloom computes on the CPU."""
    return False


def _no_class(name: str) -> Any:
    """A class of tensors on GPUs: nothing is an instance, and calling it raises TypeError."""

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
    """Whether one has been used: False."""
    return False


def device_count() -> int:
    """How many there are: none."""
    return 0


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether they compute in bfloat16: False. The CPU does.

    Args:
        including_emulation: whether it counts if it is slow.
    """
    return False


def manual_seed(seed: int) -> None:
    """Seed their generators, of which there are none.

    Args:
        seed: a number.
    """


def manual_seed_all(seed: int) -> None:
    """Seed the generators of all of them.

    Args:
        seed: a number.
    """


def get_rng_state_all() -> list[Any]:
    """The states of their generators: none."""
    return []


def empty_cache() -> None:
    """Give memory back that is held for them: none is."""


def memory_allocated(device: Any = None) -> int:
    """How many bytes tensors take on one: 0.

    Args:
        device: which.
    """
    return 0


def max_memory_allocated(device: Any = None) -> int:
    """How many bytes they took at most: 0.

    Args:
        device: which.
    """
    return 0


def _refuse() -> NoReturn:
    raise no_gpu()


def current_device() -> int:
    """Which one is used.

    Raises:
        AssertionError: there is none.
    """
    _refuse()


def set_device(device: Any) -> None:
    """Use another one.

    Args:
        device: which.

    Raises:
        AssertionError: there is none.
    """
    _refuse()


def synchronize(device: Any = None) -> None:
    """Wait for what it computes.

    Args:
        device: which.

    Raises:
        AssertionError: there is none.
    """
    _refuse()


def get_device_name(device: Any = None) -> str:
    """Its name.

    Args:
        device: which.

    Raises:
        AssertionError: there is none.
    """
    _refuse()


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """What it is able to do.

    Args:
        device: which.

    Raises:
        AssertionError: there is none.
    """
    _refuse()
