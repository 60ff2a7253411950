"""The amount of freed memory that glibc's malloc keeps.

Note [Freed memory]
Every training step allocates and frees the same megabytes. glibc returns freed blocks of that size to the system, and
the next step gets them again page by page. On a virtual machine, where a page fault takes microseconds, these faults
can take most of a step. So the first backward pass of a process, or the first kernel that uses several threads, tells
malloc to keep 256 MB. Importing gradloom does not. docs/core.md has the measured effect.

Users change this by the environment variable GRADLOOM_KEEP_FREED_MEMORY (bytes; 0 leaves malloc alone), with glibc's
own variables, or by calling `gradloom.backends.cpu.keep_freed_memory`.
"""

from __future__ import annotations

import os
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h
_DEFAULT = 256 << 20
_LARGEST_MAPPED = 32 << 20  # glibc's maximum for M_MMAP_THRESHOLD
_OF_GLIBC = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_", "GLIBC_TUNABLES")

decided = False  # whether the default was applied, or the user has set it


def keep_freed_memory(nbytes: int) -> bool:
    """Tell malloc how much freed memory to keep for the next allocations, in this process.

    Args:
        nbytes: free bytes at the end of a heap above which malloc returns memory to the system.

    Returns:
        Whether the C library accepted the setting: False unless it is glibc.

    Raises ValueError if the number is negative.
    """
    global decided
    if nbytes < 0:
        raise ValueError(f"keep_freed_memory(): expected a non-negative number of bytes, but got {nbytes}")
    decided = True
    if not sys.platform.startswith("linux"):
        return False
    import ctypes

    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version"):
        return False
    mapped = min(max(nbytes, 128 << 10), _LARGEST_MAPPED)
    return bool(
        library.mallopt(_M_MMAP_THRESHOLD, mapped) and library.mallopt(_M_TRIM_THRESHOLD, min(nbytes, 2**31 - 1))
    )


def apply_default() -> None:
    """Apply the environment's setting, or the default unless malloc's own settings are in the environment."""
    global decided
    decided = True
    given = os.environ.get("GRADLOOM_KEEP_FREED_MEMORY", "")
    if given.isdigit():
        if int(given):
            keep_freed_memory(int(given))
    elif not any(name in os.environ for name in _OF_GLIBC):
        keep_freed_memory(_DEFAULT)
