"""Threads of machine code, which compute the parts of one call.

Note [The pool]
Waking a Python thread takes 40 us, and waking its caller again as long: each sleeps, and then waits for the GIL. The
workers here are threads of the operating system that run nothing but machine code. A worker that has nothing to do
looks for work for some 100 us before it sleeps; the next loop of a program usually comes sooner.

    int work(int64 part, void *context)                         what a program gives
    int run(pool, work, context, int64 parts, int64 helpers)    returns the `or` of the results

`run` publishes a job, takes parts itself until none is left, and waits for those that workers have begun. It never
waits for a worker that has not, so a busy machine costs no more than the work. Calls that come from other threads
meanwhile run without workers.

A part is taken by counting up the ticket, (number of the job, next part) in one word, by compare and exchange; between
two jobs its low half is full, and no part is there to take. A worker that comes late, and has read what belongs to
another job, fails to change the ticket. A worker counts itself among the sleepers before it looks for a new job a last
time, and `run` announces a job before it looks for sleepers; so one of them sees the other.

A system may wake a worker on the processor of its caller although another is free; such a worker moves to the others.

They sleep by Linux's futex. Elsewhere, Python's threads share the loops.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from ...kernels._common.threads import get_num_threads, share
from ...memory.locks import new_lock
from .code import load_code

# The state: a line of the cache for each word that different threads change.
TICKET, JOB, LEFT, RESULT, SLEEPERS, CALLER_SLEEPS, BUSY, STARTED = 0, 64, 128, 132, 192, 196, 256, 260
WORK, CONTEXT, PARTS, HELPERS, CPU, SYSCALL, GETCPU, SETAFFINITY = 320, 328, 336, 344, 352, 360, 368, 376
MASK = 384  # the processors that this process may use, a bit for each
_CPUS = 1024  # that a mask has
SIZE = MASK + _CPUS // 8
_SPINS = 8000  # looks before sleeping: 100 to 300 us
_FUTEX = {"x86_64": 202, "amd64": 202, "aarch64": 98}
_PAUSE = {"x86_64": "x86.sse2.pause()", "amd64": "x86.sse2.pause()", "aarch64": "aarch64.hint(i32 1)"}
_lock = new_lock()
_pool: Pool | None = None


class Pool:
    """Workers in this process: `state` and `run` are addresses of what Note [The pool] describes."""

    def __init__(self) -> None:
        worker, self.run = _functions()
        self._worker = ctypes.c_void_p(worker)
        self._memory = (ctypes.c_char * (SIZE + 64))()
        self.state = -(-ctypes.addressof(self._memory) // 64) * 64
        ctypes.c_uint64.from_address(self.state + TICKET).value = 0xFFFFFFFF
        ctypes.c_uint64.from_address(self.state + SYSCALL).value = _address("syscall")
        ctypes.c_uint64.from_address(self.state + GETCPU).value = _address("sched_getcpu")
        ctypes.c_uint64.from_address(self.state + SETAFFINITY).value = _address("sched_setaffinity")
        mask = sum(1 << cpu for cpu in os.sched_getaffinity(0) if cpu < _CPUS)
        ctypes.memmove(self.state + MASK, mask.to_bytes(_CPUS // 8, "little"), _CPUS // 8)
        self.workers = 0

    def grow(self, workers: int) -> None:
        """Start threads until there are so many. Signals are left to Python's own threads."""
        import _signal as signal  # type: ignore[import-not-found]  # without its enumerations, which take 0.5 ms

        create = ctypes.CDLL(None).pthread_create
        create.argtypes = [ctypes.c_void_p] * 4
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            while self.workers < workers:
                thread = ctypes.c_uint64()
                if create(ctypes.addressof(thread), None, self._worker, self.state):
                    return  # the system gives no more threads
                ctypes.CDLL(None).pthread_detach(thread)
                self.workers += 1
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def workers() -> Pool | None:
    """Return the pool with a worker for each thread but the calling one; None where there is none."""
    global _pool
    wanted = get_num_threads() - 1
    if _pool is None or _pool.workers < wanted:
        if not available():
            return None
        with _lock:
            if _pool is None:
                _pool = Pool()
            _pool.grow(wanted)
    return _pool


def in_threads(shared: Any, one: Callable[..., int], items: np.ndarray, *arguments: Any) -> bool:
    """Compute items by all threads; return whether a result was not 0.

    Args:
        shared: the function of a program that `write_parallel` wrote.
        one: computes an item of a number for Python's threads, where there is no pool.
        items: a row of integers for each.
        arguments: what `shared` gets beside them.
    """
    found = workers()
    if found is None:
        return any(share(lambda i: one(i, *items[i].tolist()), range(len(items))))
    job = found.state, found.run, items.ctypes.data, len(items), get_num_threads() - 1
    return bool(shared(*job, *arguments))


@cache
def available() -> bool:
    """Return whether machine code can have threads here."""
    return sys.platform == "linux" and platform.machine().lower() in _FUTEX


# What takes longer than this on one thread, in nanoseconds, is shared; waking a thread takes about half as long.
SHARED_FROM = 40_000.0 if available() else 100_000.0


def _address(name: str) -> int:
    return ctypes.cast(getattr(ctypes.CDLL(None), name), ctypes.c_void_p).value or 0


_kept: list[Any] = []  # the memory of the code


@cache
def _functions() -> tuple[int, int]:
    machine = platform.machine().lower()
    loaded = load_code(("pool", machine), ("worker", "run"), lambda: _text(machine))
    _kept.append(loaded)
    return loaded.addresses[0], loaded.addresses[1]


def _forget_after_fork() -> None:
    """Threads do not survive a fork, and what they were doing is not known."""
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)


def _text(machine: str) -> str:
    places = ("TICKET", "JOB", "LEFT", "RESULT", "SLEEPERS", "CALLER_SLEEPS", "BUSY", "STARTED", "WORK", "CONTEXT")
    found = _IR.replace("<SPINS>", str(_SPINS)).replace("<PAUSE>", _PAUSE[machine])
    for word in (*places, "PARTS", "HELPERS", "CPU", "SYSCALL", "GETCPU", "SETAFFINITY", "MASK"):
        found = found.replace(f"<{word}>", f"getelementptr i8, ptr %pool, i64 {globals()[word]}")
    # futex(address, FUTEX_WAIT_PRIVATE or FUTEX_WAKE_PRIVATE, expected word or number of threads, no timeout ...)
    for word, number in (("FUTEX", _FUTEX[machine]), ("SLEEP", 128), ("WAKE", 129)):
        found = found.replace(f"<{word}>", str(number))
    return f"{found}\ndeclare void @llvm.{_PAUSE[machine].replace(' 1', '')}\n"


_IR = """
; Look at a word until it is the value, or is another one, as wanted; return false when the looks are used up.
define internal i1 @look(ptr %word, i32 %value, i1 %equal) nounwind {
entry:
  br label %spin
spin:
  %count = phi i32 [ 0, %entry ], [ %more, %pause ]
  %seen = load atomic i32, ptr %word acquire, align 4
  %same = icmp eq i32 %seen, %value
  %wanted = icmp eq i1 %same, %equal
  br i1 %wanted, label %done, label %pause
pause:
  call void @llvm.<PAUSE>
  %more = add i32 %count, 1
  %again = icmp ult i32 %more, <SPINS>
  br i1 %again, label %spin, label %done
done:
  ret i1 %wanted
}

define internal void @take(ptr %pool) nounwind {
entry:
  %ticket = <TICKET>
  %parts.at = <PARTS>
  %work.at = <WORK>
  %context.at = <CONTEXT>
  br label %look
look:
  %seen = load atomic i64, ptr %ticket acquire, align 8
  %part = and i64 %seen, 4294967295
  %parts = load atomic i64, ptr %parts.at monotonic, align 8
  %work = load atomic ptr, ptr %work.at monotonic, align 8
  %context = load atomic ptr, ptr %context.at monotonic, align 8
  %open = icmp ult i64 %part, %parts
  br i1 %open, label %try, label %none
try:
  %next = add i64 %seen, 1
  %exchange = cmpxchg ptr %ticket, i64 %seen, i64 %next acq_rel monotonic, align 8
  %mine = extractvalue { i64, i1 } %exchange, 1
  br i1 %mine, label %compute, label %look
compute:
  %result = call i32 %work(i64 %part, ptr %context)
  %result.at = <RESULT>
  %ignored = atomicrmw or ptr %result.at, i32 %result monotonic, align 4
  %left.at = <LEFT>
  %left = atomicrmw sub ptr %left.at, i32 1 seq_cst, align 4
  %last = icmp eq i32 %left, 1
  br i1 %last, label %finished, label %look
finished:
  %caller.at = <CALLER_SLEEPS>
  %caller = load atomic i32, ptr %caller.at seq_cst, align 4
  %sleeps = icmp ne i32 %caller, 0
  br i1 %sleeps, label %wake, label %none
wake:
  %syscall.at = <SYSCALL>
  %syscall = load ptr, ptr %syscall.at, align 8
  %woken = call i64 (i64, ...) %syscall(i64 <FUTEX>, ptr %left.at, i64 <WAKE>, i64 1, ptr null, ptr null, i64 0)
  br label %none
none:
  ret void
}

define ptr @worker(ptr %pool) nounwind {
entry:
  %started = <STARTED>
  %number = atomicrmw add ptr %started, i32 1 monotonic, align 4
  %number.wide = zext i32 %number to i64
  %job.at = <JOB>
  %sleepers = <SLEEPERS>
  %helpers.at = <HELPERS>
  %syscall.at = <SYSCALL>
  %getcpu.at = <GETCPU>
  %getcpu = load ptr, ptr %getcpu.at, align 8
  %cpu.at = <CPU>
  %setaffinity.at = <SETAFFINITY>
  %mask.at = <MASK>
  %mask = alloca <16 x i64>, align 64
  br label %idle
idle:
  %done = phi i32 [ 0, %entry ], [ %done, %awake ], [ %job, %next ]
  %new = call i1 @look(ptr %job.at, i32 %done, i1 false)
  br i1 %new, label %found, label %tired
tired:
  %before = atomicrmw add ptr %sleepers, i32 1 seq_cst, align 4
  %last.look = load atomic i32, ptr %job.at seq_cst, align 4
  %changed = icmp ne i32 %last.look, %done
  br i1 %changed, label %awake, label %sleep
sleep:
  %syscall = load ptr, ptr %syscall.at, align 8
  %expected = zext i32 %done to i64
  %slept = call i64 (i64, ...) %syscall(i64 <FUTEX>, ptr %job.at, i64 <SLEEP>, i64 %expected, ptr null, ptr null, i64 0)
  br label %awake
awake:
  %fewer = atomicrmw sub ptr %sleepers, i32 1 seq_cst, align 4
  br label %idle
found:
  %job = load atomic i32, ptr %job.at acquire, align 4
  %helpers = load atomic i64, ptr %helpers.at monotonic, align 8
  %wanted = icmp ult i64 %number.wide, %helpers
  br i1 %wanted, label %help, label %next
help:
  %here = call i32 %getcpu()
  %there = load atomic i32, ptr %cpu.at monotonic, align 4
  %same = icmp eq i32 %here, %there
  %small = icmp ult i32 %here, 1024
  %moves = and i1 %same, %small
  br i1 %moves, label %move, label %take
move:
  %allowed = load <16 x i64>, ptr %mask.at, align 8
  store <16 x i64> %allowed, ptr %mask, align 8
  %word = lshr i32 %here, 6
  %bit = and i32 %here, 63
  %bit.wide = zext i32 %bit to i64
  %one = shl i64 1, %bit.wide
  %others = xor i64 %one, -1
  %word.at = getelementptr i64, ptr %mask, i32 %word
  %old.word = load i64, ptr %word.at, align 8
  %new.word = and i64 %old.word, %others
  store i64 %new.word, ptr %word.at, align 8
  %setaffinity = load ptr, ptr %setaffinity.at, align 8
  %moved = call i32 %setaffinity(i32 0, i64 128, ptr %mask)
  br label %take
take:
  call void @take(ptr %pool)
  br label %next
next:
  br label %idle
}

define i32 @run(ptr %pool, ptr %work, ptr %context, i64 %parts, i64 %helpers) nounwind {
entry:
  %busy = <BUSY>
  %got = cmpxchg ptr %busy, i32 0, i32 1 acquire monotonic, align 4
  %free = extractvalue { i32, i1 } %got, 1
  br i1 %free, label %publish, label %alone
alone:
  %i = phi i64 [ 0, %entry ], [ %i.next, %compute ]
  %total = phi i32 [ 0, %entry ], [ %total.next, %compute ]
  %some = icmp ult i64 %i, %parts
  br i1 %some, label %compute, label %computed
compute:
  %one = call i32 %work(i64 %i, ptr %context)
  %total.next = or i32 %total, %one
  %i.next = add i64 %i, 1
  br label %alone
computed:
  ret i32 %total
publish:
  %work.at = <WORK>
  store atomic ptr %work, ptr %work.at monotonic, align 8
  %context.at = <CONTEXT>
  store atomic ptr %context, ptr %context.at monotonic, align 8
  %parts.at = <PARTS>
  store atomic i64 %parts, ptr %parts.at monotonic, align 8
  %helpers.at = <HELPERS>
  store atomic i64 %helpers, ptr %helpers.at monotonic, align 8
  %getcpu.at = <GETCPU>
  %getcpu = load ptr, ptr %getcpu.at, align 8
  %here = call i32 %getcpu()
  %cpu.at = <CPU>
  store atomic i32 %here, ptr %cpu.at monotonic, align 4
  %result.at = <RESULT>
  store atomic i32 0, ptr %result.at monotonic, align 4
  %left.at = <LEFT>
  %parts.narrow = trunc i64 %parts to i32
  store atomic i32 %parts.narrow, ptr %left.at monotonic, align 4
  %ticket = <TICKET>
  %old = load atomic i64, ptr %ticket monotonic, align 8
  %opened = add i64 %old, 1
  store atomic i64 %opened, ptr %ticket release, align 8
  %job.at = <JOB>
  %job = atomicrmw add ptr %job.at, i32 1 seq_cst, align 4
  %sleepers.at = <SLEEPERS>
  %sleepers = load atomic i32, ptr %sleepers.at seq_cst, align 4
  %syscall.at = <SYSCALL>
  %syscall = load ptr, ptr %syscall.at, align 8
  %asleep = icmp ne i32 %sleepers, 0
  br i1 %asleep, label %wake, label %share
wake:
  %woken = call i64 (i64, ...) %syscall(i64 <FUTEX>, ptr %job.at, i64 <WAKE>, i64 %helpers, ptr null, ptr null, i64 0)
  br label %share
share:
  call void @take(ptr %pool)
  %caller.at = <CALLER_SLEEPS>
  %ready = call i1 @look(ptr %left.at, i32 0, i1 true)
  br i1 %ready, label %close, label %tired
tired:
  store atomic i32 1, ptr %caller.at seq_cst, align 4
  br label %sleep
sleep:
  %still = load atomic i32, ptr %left.at seq_cst, align 4
  %over = icmp eq i32 %still, 0
  br i1 %over, label %awake, label %doze
doze:
  %seen = zext i32 %still to i64
  %slept = call i64 (i64, ...) %syscall(i64 <FUTEX>, ptr %left.at, i64 <SLEEP>, i64 %seen, ptr null, ptr null, i64 0)
  br label %sleep
awake:
  store atomic i32 0, ptr %caller.at seq_cst, align 4
  br label %close
close:
  %result = load atomic i32, ptr %result.at monotonic, align 4
  %now = load atomic i64, ptr %ticket monotonic, align 8
  %closed = or i64 %now, 4294967295
  store atomic i64 %closed, ptr %ticket seq_cst, align 8
  store atomic i32 0, ptr %busy release, align 4
  ret i32 %result
}
"""
