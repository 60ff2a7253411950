"""Threads for kernels that spend their time inside NumPy, which releases the GIL in copies, ufuncs and BLAS.

The work is cut into chunks with disjoint results; the calling thread and a few pool threads take chunks until none is
left. BLAS is limited to one thread meanwhile, because its workers would compete for the same cores. The chunks do not
depend on the threads that take them, nor do the results.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import copy_context
from typing import Any

from ...memory import malloc
from ...memory.locks import new_lock

_lock = new_lock()
_pool: Any = None  # a ThreadPoolExecutor of _threads - 1 workers, made at the first use
_threads: int | None = None
_blas: tuple[Callable[[int], Any], Callable[[], int]] | None = None
_blas_sought = False
_blas_users: set[Any] = set()  # contexts that are open
_blas_threads = 1


def get_num_threads() -> int:
    """Return the number of threads a kernel may use, the calling one included (PyTorch's `get_num_threads`). The
    default is OMP_NUM_THREADS or, if that is not set, the number of cores this process may run on."""
    global _threads
    if _threads is None:
        wanted = os.environ.get("OMP_NUM_THREADS", "")
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        _threads = int(wanted) if wanted.isdigit() and int(wanted) > 0 else cores
    return _threads


def set_num_threads(count: int) -> None:
    """Set the number of threads a kernel may use; raise RuntimeError unless it is positive, as PyTorch does."""
    global _threads, _pool
    if count < 1:
        raise RuntimeError("set_num_threads expects a positive integer")
    with _lock:
        _threads, old, _pool = count, _pool, None
    if old is not None:
        old.shutdown(wait=False)


def chunks(total: int, largest: int | None = None) -> list[slice]:
    """Cut range(total) into slices of nearly equal length: one per thread, or the smallest multiple of that for which
    none has more than `largest` items."""
    count = threads = get_num_threads()
    if largest is not None:
        count *= max(1, -(-total // (threads * max(1, largest))))
    count = max(1, min(total, count))
    edges = [total * i // count for i in range(count + 1)]
    return [slice(a, b) for a, b in zip(edges, edges[1:], strict=False)]


def share(work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """Compute [work(item) for item in items] with all threads; raise the first exception after all have ended. The
    caller does not wait for a pool thread that has not begun when the items run out, so a busy machine costs no more
    than the work itself."""
    helpers = min(get_num_threads(), len(items)) - 1
    if helpers < 1:
        with single_threaded_blas():
            return [work(item) for item in items]
    results: list[Any] = [None] * len(items)
    waiting = deque(enumerate(items))

    def run() -> None:
        while True:
            try:
                i, item = waiting.popleft()
            except IndexError:
                return
            try:
                results[i] = work(item)
            except BaseException:
                waiting.clear()  # the others stop at their next item
                raise

    pool, futures = _executor(), []
    with single_threaded_blas():
        try:
            for _ in range(helpers):  # a copied context carries np.errstate into the helper
                futures.append(pool.submit(copy_context().run, run))
        except RuntimeError:  # no thread can be started: the system has none, or the interpreter ends
            _forget(pool)
        try:
            run()
        finally:
            started = [future for future in futures if not future.cancel()]
            errors = [future.exception() for future in started]
    for error in errors:
        if error is not None:
            raise error
    return results


def _executor() -> Any:
    global _pool
    with _lock:
        if _pool is None:
            from concurrent.futures import ThreadPoolExecutor

            _pool = ThreadPoolExecutor(max(1, get_num_threads() - 1), thread_name_prefix="gradloom-kernel")
        return _pool


def _forget(pool: Any) -> None:
    """Make a new pool at the next use, without the work that waits in this one."""
    global _pool
    with _lock:
        if _pool is pool:
            _pool = None


# Not threadpoolctl: entering and leaving takes 5 us with a kept controller (205 us with threadpool_limits), 1 us here.
# It does not count overlapping users in several threads, takes 9 ms to import, and would also limit MKL and BLIS.
class single_threaded_blas:
    """A context in which NumPy's BLAS uses one thread; contexts may nest and overlap between threads."""

    __slots__ = ()

    def __enter__(self) -> None:
        global _blas_threads
        try:
            with _lock:
                _seek_blas()
                if _blas is not None and not _blas_users:
                    set_threads, get_threads = _blas
                    _blas_threads = get_threads()
                    _blas_users.add(self)
                    set_threads(1)
                _blas_users.add(self)
        except BaseException:  # see Note [Interrupts]
            self.__exit__()
            raise

    def __exit__(self, *error: object) -> None:
        try:
            self._leave()
        except BaseException:
            self._leave()
            raise

    def _leave(self) -> None:
        with _lock:
            _blas_users.discard(self)
            if _blas is not None and not _blas_users:
                _blas[0](_blas_threads)


def has_openblas() -> bool:
    """Return whether NumPy's BLAS is OpenBLAS."""
    with _lock:
        _seek_blas()
    return _blas is not None


def _seek_blas() -> None:
    global _blas, _blas_sought
    if not _blas_sought:
        _blas, _blas_sought = _find_blas(), True
        if not malloc.decided:
            malloc.apply_default()


def _find_blas() -> tuple[Callable[[int], Any], Callable[[], int]] | None:
    """Return the functions that set and get the number of threads of NumPy's own OpenBLAS; None for another BLAS."""
    import ctypes

    setter, getter = (find_in_blas(f"openblas_{verb}_num_threads") for verb in ("set", "get"))
    if setter is None or getter is None:
        return None
    return ctypes.CFUNCTYPE(None, ctypes.c_int)(setter), ctypes.CFUNCTYPE(ctypes.c_int)(getter)


def find_in_blas(name: str, bits: int | None = None) -> int | None:
    """Return the address of a function of NumPy's own OpenBLAS; None if it has none of that name, or none whose sizes
    have so many bits. Looking up a symbol in NumPy's extension module also searches its linked libraries."""
    import ctypes

    extension = sys.modules.get("numpy._core._multiarray_umath")
    try:
        library = ctypes.CDLL(extension.__file__ if extension else None)
    except (OSError, TypeError):
        return None
    for prefix, suffix in (("scipy_", "64_"), ("scipy_", ""), ("", "64_"), ("", "")):
        if bits is None or (bits == 64) == bool(suffix):
            with suppress(AttributeError):
                return ctypes.cast(getattr(library, f"{prefix}{name}{suffix}"), ctypes.c_void_p).value
    return None


def _forget_after_fork() -> None:
    """Renew the pool, whose threads do not survive a fork."""
    global _pool
    _pool = None
    if _blas_users and _blas:
        _blas[0](_blas_threads)
    _blas_users.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)
