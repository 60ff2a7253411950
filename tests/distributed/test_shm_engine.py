"""The engine that connects processes by shared memory, against NumPy, and when ranks fail."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

import numpy as np
import pytest

from gradloom.distributed._engines import Aborted, CallTimeout, Mismatch, PeerLost
from gradloom.distributed._engines.shm import SharedMemoryEngine
from tests.distributed import engine_checks
from tests.distributed.ranks import ended, run
from tests.waiting import LIMIT

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the engine needs a Unix system")


def engine(rank, size, store, name="group"):
    return SharedMemoryEngine(store, rank, size, name, engine_checks.deadline())


def checked(rank, size, store):
    made = engine(rank, size, store)
    checks = engine_checks.CHECKS if size > 1 else engine_checks.CHECKS[:2]
    wrong = [line for check in checks for line in check(made)]
    made.close()
    return wrong


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_every_call_gives_what_numpy_gives(size, tmp_path):
    assert run(size, checked, tmp_path) == [[]] * size


def different_bits(rank, size, store):
    """Sums that depend on the order of addition must be the same bits everywhere."""
    made = engine(rank, size, store)
    found = []
    for count in (100, 200_001):
        array = np.random.default_rng(rank).standard_normal(count).astype(np.float32)
        made.allreduce(array, "sum", engine_checks.deadline())
        found.append(array.tobytes())
    return found


def test_all_ranks_get_the_same_bits(tmp_path):
    first, *others = run(3, different_bits, tmp_path)
    assert all(other == first for other in others)


def mapped_memory() -> list[str]:
    """Return the names of shared memory that the system knows."""
    return [name for name in os.listdir("/dev/shm") if "gradloom-group" in name]


def dies(rank, size, store, call):
    made = engine(rank, size, store)
    array = np.ones(3_000_000, np.float32)
    for _ in range(3):
        made.allreduce(array, "sum", engine_checks.deadline())
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        with pytest.raises(PeerLost, match=r"rank 1 \(process \d+\) has ended") as caught:
            for _ in range(3):  # a rank that only gives notices it in the next call
                call(made, array)
        assert caught.value.rank == 1
    except PeerLost as error:
        raise AssertionError from error
    with pytest.raises(PeerLost):  # the engine is broken
        made.barrier()
    return True


CALLS = {
    "all_reduce": lambda made, array: made.allreduce(array, "sum", engine_checks.deadline()),
    "broadcast": lambda made, array: made.broadcast(array, 0, engine_checks.deadline()),
    "recv": lambda made, array: made.recv(array, 1, 0, engine_checks.deadline()),
    "barrier": lambda made, array: made.barrier(engine_checks.deadline()),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_killed_rank_ends_the_calls_of_the_others(name, tmp_path):
    begun = time.monotonic()
    found = ended(2, dies, tmp_path, CALLS[name])
    assert found[1].killed_by == signal.SIGKILL
    assert found[0].result, found[0].error
    assert time.monotonic() - begun < LIMIT, "it did not wait for the deadline"
    if sys.platform == "linux":
        assert mapped_memory() == []


def late(rank, size, store):
    made = engine(rank, size, store)
    if rank in (1, 3):
        store.get("over")
        return True
    with pytest.raises(CallTimeout, match="all_reduce timed out .* did not arrive: 1, 3") as caught:
        made.allreduce(np.ones(5), "sum", time.monotonic() + 0.3)
    assert caught.value.missing == (1, 3)
    store.set(f"{rank}", "done")
    store.get("0"), store.get("2")
    store.set("over", "")
    return True


def test_a_timeout_names_the_ranks_that_are_missing(tmp_path):
    assert run(4, late, tmp_path) == [True] * 4


def never_comes(rank, size, store):
    if rank == 1:
        return True
    with pytest.raises(CallTimeout, match="did not arrive: 1"):
        SharedMemoryEngine(store, rank, size, "group", time.monotonic() + 0.2)
    return True


def test_a_rank_that_never_comes_is_named_when_the_group_is_made(tmp_path):
    assert run(2, never_comes, tmp_path) == [True] * 2


def disagrees(rank, size, store):
    found = []
    made = engine(rank, size, store, "first")
    try:
        if rank == 0:
            made.allreduce(np.ones(5), "sum", engine_checks.deadline())
        else:
            made.broadcast(np.ones(5), 0, engine_checks.deadline())
    except (Mismatch, PeerLost) as error:
        found.append(str(error))
    made = engine(rank, size, store, "second")
    try:
        made.allreduce(np.ones(5 + rank, np.float32), "sum", engine_checks.deadline())
    except (Mismatch, PeerLost) as error:
        found.append(str(error))
    return found


def test_ranks_that_call_different_things_are_told(tmp_path):
    found = run(2, disagrees, tmp_path)
    text = " ".join(found[0] + found[1])
    assert "all_reduce of 40 bytes" in text and "broadcast of 40 bytes" in text
    assert "all_reduce of 20 bytes" in text and "all_reduce of 24 bytes" in text


def aborts(rank, size, store):
    made = engine(rank, size, store)
    if rank == 0:
        threading.Timer(0.1, made.abort).start()
        with pytest.raises(Aborted):
            made.barrier(engine_checks.deadline())
        store.set("aborted", "")
    store.get("aborted")
    if rank == 1:
        made.barrier(engine_checks.deadline())  # rank 0 had come to this one
        with pytest.raises(PeerLost, match="rank 0 closed its process group"):
            made.barrier(engine_checks.deadline())
    return True


def test_abort_ends_a_waiting_call(tmp_path):
    assert run(2, aborts, tmp_path) == [True] * 2


def outlasts(rank, size, store):
    """A message that timed out leaves the array alone, and the next one arrives whole."""
    made = engine(rank, size, store)
    array = np.zeros(500_000, np.float32)
    if rank == 0:
        with pytest.raises(CallTimeout, match="recv timed out .* did not arrive: 1"):
            made.recv(array, 1, 5, time.monotonic() + 0.1)
        store.set("timed out", "")
        made.recv(array, 1, 5, engine_checks.deadline())
        assert (array == 7).all()
    else:
        store.get("timed out")
        made.send(array + 7, 0, 5, engine_checks.deadline())
    made.barrier(engine_checks.deadline())
    return True


def test_a_message_may_be_asked_for_again(tmp_path):
    assert run(2, outlasts, tmp_path) == [True] * 2


def counts_past_the_end(rank, size, store):
    """Counters have 32 bits: put them just below the end."""
    made = engine(rank, size, store)
    made._step = 0xFFFFFFFD
    made._words[rank * 16] = 0xFFFFFFFD
    store.set(f"set {rank}", "")
    store.get(f"set {1 - rank}")
    return engine_checks.reductions(made, (7, 70_001))


def test_counters_may_overflow(tmp_path):
    assert run(2, counts_past_the_end, tmp_path) == [[]] * 2
