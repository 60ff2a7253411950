"""Wait for words of shared memory to change, and for processes to end.

Note [Waiting for shared memory]
A word of shared memory has one writer, so a plain store changes it. On Linux a waiter sleeps in the kernel by a futex
on the word, and costs nothing until the writer wakes it. The kernel compares the word again before it puts the waiter
to sleep, so that no wake is lost. ctypes releases the interpreter lock meanwhile: other threads of the process run.
Elsewhere a waiter sleeps between looks, for longer the longer it waits.

A write of data must be visible before the write of the word that announces it. x86 keeps the order of stores. On other
processors `fence` orders them: taking and releasing a lock twice contains a release followed by an acquire, over which
neither stores nor loads move.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import select
import sys
import threading
import time

__all__ = ["fence", "has_ended", "sleep_on", "wake"]

_NUMBERS = {"x86_64": 202, "amd64": 202, "aarch64": 98, "riscv64": 98, "loongarch64": 98, "ppc64le": 221, "s390x": 238}
_NUMBER = _NUMBERS.get(platform.machine().lower()) if sys.platform == "linux" and sys.maxsize > 2**32 else None
_ORDERED = platform.machine().lower() in ("x86_64", "amd64")
_WAIT, _WAKE, _EVERYBODY = 0, 1, 0x7FFFFFFF
_lock = threading.Lock()


def fence() -> None:
    """Order all stores and loads before with all after, as other processes see them."""
    if not _ORDERED:
        with _lock:
            pass
        with _lock:
            pass


if _NUMBER is not None:

    class _Timespec(ctypes.Structure):
        _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]

    _syscall = ctypes.CDLL(None, use_errno=True).syscall
    _syscall.restype = ctypes.c_long
    _syscall.argtypes = (
        ctypes.c_long,
        ctypes.c_void_p,
        ctypes.c_int,
        ctypes.c_uint32,
        ctypes.POINTER(_Timespec),
        ctypes.c_void_p,
        ctypes.c_uint32,
    )

    def sleep_on(address: int, value: int, seconds: float, waited: float) -> None:
        """Sleep while the word at an address has a value; return early for any other reason.

        Args:
            address: of a word of 4 bytes in shared memory.
            value: the word as it was last read.
            seconds: to sleep at most.
            waited: seconds that the caller has waited already; sleeps that need polling are in proportion to it.
        """
        whole = int(seconds)
        limit = _Timespec(whole, int((seconds - whole) * 1e9))
        _syscall(_NUMBER, address, _WAIT, value, ctypes.byref(limit), None, 0)

    def wake(address: int) -> None:
        """Wake all who sleep on the word at an address."""
        _syscall(_NUMBER, address, _WAKE, _EVERYBODY, None, None, 0)

else:

    def sleep_on(address: int, value: int, seconds: float, waited: float) -> None:
        """Sleep for a while; see the variant for Linux."""
        time.sleep(min(seconds, max(waited / 16, 2e-5), 5e-3))

    def wake(address: int) -> None:
        """Do nothing: who waits looks again by itself."""


def has_ended(pid: int) -> bool:
    """Return whether a process has ended, also while its parent has not asked for its exit code."""
    if hasattr(os, "pidfd_open"):
        try:
            descriptor = os.pidfd_open(pid)
        except OSError as error:
            if error.errno == errno.ESRCH:
                return True
        else:
            try:
                poll = select.poll()
                poll.register(descriptor, select.POLLIN)
                return bool(poll.poll(0))
            finally:
                os.close(descriptor)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False
