"""What programs set for a whole process, and what warns only once.

Most of these switches choose between implementations that gradloom does not have two of: they keep what they were told,
so that code which sets and asks works, and say in their documentation whether anything depends on them.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from ..types.device import CPU, check_device, device as device_class

if TYPE_CHECKING:
    pass


class OutOfMemoryError(RuntimeError):
    """What an accelerator raises that has no memory left; a name for `except`. Here, NumPy raises MemoryError."""

    __module__ = "gradloom"


class _Settings:
    deterministic = False
    warn_only = False
    warn_always = False
    matmul_precision = "highest"
    interop_threads: int | None = None
    device = CPU


_settings = _Settings()
_given: set[str] = set()  # keys of warnings that were given; bounded by the calls of warn_once in this library


def warn_once(key: str, message: str, stacklevel: int = 2) -> None:
    """Warn, but only the first time, unless set_warn_always(True) was called.

    Args:
        key: what the warning is about.
        message: the text.
        stacklevel: whose line it points at, counted from the caller of this function.
    """
    if key not in _given or _settings.warn_always:
        _given.add(key)
        warnings.warn(message, UserWarning, stacklevel=stacklevel + 1)


def set_warn_always(b: bool) -> None:
    """Whether warnings that are given only once are given each time.

    Args:
        b: True or False; False at first.
    """
    if not isinstance(b, bool):
        raise RuntimeError(f"set_warn_always expects a bool, but got {type(b).__name__}")
    _settings.warn_always = b


def is_warn_always_enabled() -> bool:
    """What set_warn_always was told."""
    return _settings.warn_always


def _check_bool(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"{name}(): argument must be bool, not {type(value).__name__}")


# --- determinism ----------------------------------------------------------------------------------------------------


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Ask that operators give the same results each time, which gradloom's always do: nothing depends on it.

    Args:
        mode: True or False.
        warn_only: whether an operator that cannot would warn instead of raising.
    """
    _check_bool("use_deterministic_algorithms", mode)
    _settings.deterministic, _settings.warn_only = mode, mode and warn_only


def are_deterministic_algorithms_enabled() -> bool:
    """What use_deterministic_algorithms was told."""
    return _settings.deterministic


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether use_deterministic_algorithms was told to warn only."""
    return _settings.warn_only


_MODES = ("default", "warn", "error")


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """As use_deterministic_algorithms, as one number or word.

    Args:
        debug_mode: "default" or 0, "warn" or 1, "error" or 2.

    Raises:
        RuntimeError: for anything else.
    """
    if not isinstance(debug_mode, (int, str)):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    wanted = _MODES.index(debug_mode) if debug_mode in _MODES else debug_mode
    if wanted not in (0, 1, 2):
        raise RuntimeError(
            f"invalid value of debug_mode, expected 'default', 'warn', 'error', 0, 1 or 2, but got {debug_mode}"
        )
    use_deterministic_algorithms(wanted != 0, warn_only=wanted == 1)


def get_deterministic_debug_mode() -> int:
    """0 for "default", 1 for "warn", 2 for "error"."""
    return (1 if _settings.warn_only else 2) if _settings.deterministic else 0


# --- precision, denormal numbers, threads ---------------------------------------------------------------------------


def set_float32_matmul_precision(precision: str) -> None:
    """How exact products of float32 matrices have to be. They are computed in float32: nothing depends on it.

    Args:
        precision: "highest", "high" or "medium"; another word changes nothing, with a warning.
    """
    if precision not in ("highest", "high", "medium"):
        warnings.warn(
            f"{precision} is not one of 'highest', 'high', or 'medium'; the setting stays "
            f"'{_settings.matmul_precision}'",
            UserWarning,
            stacklevel=2,
        )
        return
    _settings.matmul_precision = precision


def get_float32_matmul_precision() -> str:
    """What set_float32_matmul_precision was told; "highest" at first."""
    return _settings.matmul_precision


def set_flush_denormal(mode: bool) -> bool:
    """Whether the processor takes denormal numbers for zero, which NumPy does not let one choose.

    Args:
        mode: True or False.

    Returns:
        False: it was not done.
    """
    _check_bool("set_flush_denormal", mode)
    return False


def set_num_threads(int: int) -> None:
    """How many threads one operator may use.

    Args:
        int: a positive number.

    Raises:
        RuntimeError: if it is not positive.
    """
    from ..kernels._common.threads import set_num_threads

    if not hasattr(int, "__index__"):
        raise RuntimeError(f"set_num_threads expects an int, but got {type(int).__name__}")
    set_num_threads(int.__index__())


def get_num_threads() -> int:
    """How many threads one operator may use."""
    from ..kernels._common.threads import get_num_threads

    return get_num_threads()


def set_num_interop_threads(int: int) -> None:
    """How many operators may run at once. Each runs in the thread that calls it: nothing depends on it.

    Args:
        int: a positive number.

    Raises:
        RuntimeError: if it is not positive.
    """
    if int < 1:
        raise RuntimeError("set_num_interop_threads expects a positive integer")
    _settings.interop_threads = int


def get_num_interop_threads() -> int:
    """What set_num_interop_threads was told; as many as get_num_threads() at first."""
    return _settings.interop_threads or get_num_threads()


# --- devices --------------------------------------------------------------------------------------------------------


def set_default_device(device: Any) -> None:
    """Where tensors are made that are not told where.

    Args:
        device: the CPU, or None for it.

    Raises:
        RuntimeError: for any other device: gradloom computes on the CPU.
    """
    check_device(device)
    _settings.device = device_class(device) if device is not None else CPU


def get_default_device() -> device_class:
    """What set_default_device was told; the CPU at first."""
    return _settings.device


def compiled_with_cxx11_abi() -> bool:
    """False: nothing is compiled."""
    return False


# --- names ----------------------------------------------------------------------------------------------------------


def typename(obj: Any, /) -> str:
    """The name of an object's type, with its module; of a tensor, PyTorch's old name, such as torch.FloatTensor.

    Args:
        obj: anything; of a class or a function, its own name.
    """
    from ..core.tensor import Tensor

    if isinstance(obj, Tensor):
        return str(obj.type())
    named = obj if hasattr(obj, "__qualname__") else type(obj)
    module = getattr(named, "__module__", "") or ""
    if module in ("", "builtins"):
        return named.__qualname__
    return f"{module}.{named.__qualname__}"


__all__ = [
    name
    for name, value in list(globals().items())
    if callable(value) and getattr(value, "__module__", "") == __name__ and not name.startswith("_")
]
