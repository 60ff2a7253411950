"""Settings of the whole process, and warnings that are given once.

Most of these settings choose between implementations of which gradloom has one. They keep their values, so that code
which sets and reads them works; each docstring says whether the setting has an effect.
"""

from __future__ import annotations

import warnings
from typing import Any

from ..core.user_stack import is_warn_always_enabled as is_warn_always_enabled, set_warn_always as set_warn_always
from ..types.public import found_in as _found_in


class OutOfMemoryError(RuntimeError):
    """Raised by accelerators that are out of memory; a name for `except`. Here, NumPy raises MemoryError."""

    __module__ = "gradloom"


class _Settings:
    deterministic = False
    warn_only = False
    matmul_precision = "highest"
    interop_threads: int | None = None


_settings = _Settings()


def _check_bool(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"{name}(): argument must be bool, not {type(value).__name__}")


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Ask for deterministic operators. gradloom's always are: no effect.

    Args:
        mode: whether to ask for it.
        warn_only: whether a nondeterministic operator would warn instead of raising.
    """
    _check_bool("use_deterministic_algorithms", mode)
    _settings.deterministic, _settings.warn_only = mode, mode and warn_only


def are_deterministic_algorithms_enabled() -> bool:
    """Return the `mode` of use_deterministic_algorithms."""
    return _settings.deterministic


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Return the `warn_only` of use_deterministic_algorithms."""
    return _settings.warn_only


_MODES = ("default", "warn", "error")


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Set both arguments of use_deterministic_algorithms at once.

    Args:
        debug_mode: "default" or 0, "warn" or 1, "error" or 2.

    Raises:
        TypeError: if it is neither an int nor a str.
        RuntimeError: for another value.
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
    """Return 0 for "default", 1 for "warn", 2 for "error"."""
    return (1 if _settings.warn_only else 2) if _settings.deterministic else 0


def set_float32_matmul_precision(precision: str) -> None:
    """Set the precision of float32 matrix products. They are always computed in float32: no effect.

    Args:
        precision: "highest", "high" or "medium"; anything else warns and changes nothing.
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
    """Return the value of set_float32_matmul_precision; "highest" initially."""
    return _settings.matmul_precision


def set_flush_denormal(mode: bool) -> bool:
    """Ask the processor to flush denormal numbers to zero, which NumPy cannot.

    Args:
        mode: whether to flush.

    Returns:
        False: the mode was not changed.
    """
    _check_bool("set_flush_denormal", mode)
    return False


def set_num_threads(int: int) -> None:
    """Set the number of threads that one operator may use.

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
    """Return the number of threads that one operator may use."""
    from ..kernels._common.threads import get_num_threads

    return get_num_threads()


def set_num_interop_threads(int: int) -> None:
    """Set how many operators may run at once. Each runs in the thread that calls it: no effect.

    Args:
        int: a positive number.

    Raises:
        RuntimeError: if it is not positive.
    """
    if int < 1:
        raise RuntimeError("set_num_interop_threads expects a positive integer")
    _settings.interop_threads = int


def get_num_interop_threads() -> int:
    """Return the value of set_num_interop_threads; get_num_threads() initially."""
    return _settings.interop_threads or get_num_threads()


def compiled_with_cxx11_abi() -> bool:
    """Return False: nothing is compiled."""
    return False


__all__ = [
    name
    for name, value in list(globals().items())
    if callable(value) and getattr(value, "__module__", "") == __name__ and not name.startswith("_")
]

_found_in("gradloom", *(globals()[name] for name in __all__))
