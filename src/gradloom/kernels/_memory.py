"""Memory that one kernel frees is kept for the next.

glibc hands large freed blocks back to the system, by default from some hundred KB on, and asks for them again
at the next allocation, page by page. A training step allocates and frees the same megabytes every time; on a
virtual machine, where a page fault takes microseconds, that was measured to take two thirds of the whole
step.
"""

from __future__ import annotations

import os
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h
_KEPT = 256 << 20  # free memory at the end of a heap, in bytes, from which on it is handed back
_MAPPED = 32 << 20  # the size from which on a block is mapped by itself, the largest that glibc accepts


def keep_freed_memory() -> bool:
    """Tells glibc's malloc to keep up to 256 MB of freed memory; says whether it was told.

    It is not where the C library is another one, and where the user has set malloc's thresholds in the
    environment.
    """
    settings = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_", "GLIBC_TUNABLES")
    if not sys.platform.startswith("linux") or any(name in os.environ for name in settings):
        return False
    import ctypes

    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version"):
        return False
    return bool(library.mallopt(_M_MMAP_THRESHOLD, _MAPPED) and library.mallopt(_M_TRIM_THRESHOLD, _KEPT))
