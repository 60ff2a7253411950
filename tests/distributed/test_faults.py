"""Ranks that are late, are killed, or call something else: what the others say, and that nothing remains.

`python -m tests.distributed.test_faults 100` kills a rank at 100 random moments.
"""

from __future__ import annotations

import os
import random
import re
import signal
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

import pytest

import gradloom as gl
import gradloom.distributed as dist
from tests.distributed.ranks import ended, run
from tests.distributed.test_collectives import default_group
from tests.waiting import LIMIT

pytestmark = pytest.mark.skipif(os.name != "posix", reason="ranks are forks")


def error_of(call):
    try:
        call()
    except dist.DistBackendError as error:
        return str(error)
    return "no error"


def hurried(seconds):
    """Return a new group whose calls have little time, once it is connected."""
    group = dist.new_group(timeout=timedelta(seconds=LIMIT))
    dist.barrier(group)
    group.set_timeout(timedelta(seconds=seconds))
    return group


def late(rank, size, store, folder, backend):
    """Rank 1 does not come; it stays until the others have given up."""
    dist.init_process_group(backend, f"file://{folder}/rendezvous", timedelta(seconds=LIMIT), size, rank)
    group = hurried(0.5)
    found = ""
    if rank != 1:
        found = error_of(lambda: dist.all_reduce(gl.ones(10), group=group))
        store.set(f"done/{rank}", b"1")
    for other in (0, 2):
        store.get(f"done/{other}")
    return found


@pytest.mark.parametrize("backend", ["shm", "sockets"])
def test_a_timeout_names_the_call_and_the_ranks_that_are_missing(tmp_path, backend):
    first, _, last = run(3, late, tmp_path, tmp_path, backend)
    for rank, text in ((0, first), (2, last)):
        assert re.match(rf"\[Rank {rank}\] all_reduce \(call 2 of group '1'\) ", text), text
        assert "rank 1 did not arrive" in text, text  # what this rank found, or another reports


def stops(rank, size, store, folder, backend, call):
    """Rank 1 is stopped, and does not take what the other sends, until the other has given up."""
    dist.init_process_group(backend, f"file://{folder}/rendezvous", timedelta(seconds=LIMIT), size, rank)
    group = hurried(0.5)
    if rank == 1:
        store.set("pid", str(os.getpid()))
        os.kill(os.getpid(), signal.SIGSTOP)
        return ""
    pid, end = int(store.get("pid")), time.monotonic() + LIMIT
    while sys.platform == "linux" and Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        assert time.monotonic() < end
        time.sleep(0.002)
    try:
        return error_of(lambda: call(gl.ones(10_000_000), group))
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("backend", ["shm", "sockets"])
@pytest.mark.parametrize("name", ["all_reduce", "send"])
def test_a_stopped_rank_does_not_hold_up_a_call_beyond_its_timeout(tmp_path, backend, name):
    calls = {
        "all_reduce": lambda tensor, group: dist.all_reduce(tensor, group=group),
        "send": lambda tensor, group: dist.send(tensor, 1, group),
    }
    text, _ = run(2, stops, tmp_path, tmp_path, backend, calls[name])
    assert text.startswith(f"[Rank 0] {name} (call ") and "rank 1 did not arrive" in text, text


def detail(rank, size, store, folder, what):
    os.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"
    dist.set_debug_level_from_env()
    with default_group(rank, size, folder):
        dist.all_reduce(gl.ones(3))
        group = hurried(1)
        if what == "shape":
            return error_of(lambda: dist.all_reduce(gl.ones(3 + rank), group=group))
        if what == "dtype":
            return error_of(lambda: dist.broadcast(gl.ones(3, dtype=[gl.float32, gl.int64][rank]), 0, group))
        if what == "order":
            return error_of(
                (lambda: dist.barrier(group)) if rank else (lambda: dist.all_reduce(gl.ones(3), group=group))
            )
        if what == "root":
            return error_of(lambda: dist.broadcast(gl.ones(3), rank, group))
        if rank == 0:
            found = error_of(lambda: dist.all_reduce(gl.ones(3), group=group))
            store.set("done", b"1")
            return found
        store.get("done")
        return ""


@pytest.mark.parametrize(
    ("what", "calls"),
    [
        ("shape", ["all_reduce(float32[3]) with sum", "all_reduce(float32[4]) with sum"]),
        ("dtype", ["broadcast(float32[3]) with root 0", "broadcast(int64[3]) with root 0"]),
        ("order", ["all_reduce(float32[3]) with sum", "barrier()"]),
        ("root", ["broadcast(float32[3]) with root 0", "broadcast(float32[3]) with root 1"]),
    ],
)
def test_debug_mode_shows_the_calls_that_differ_and_their_lines(tmp_path, what, calls):
    for text in run(2, detail, tmp_path, tmp_path, what):
        assert text.startswith("Detected mismatch between collectives on ranks"), text
        for rank, call in enumerate(calls):
            assert re.search(rf"Rank {rank} is running {re.escape(call)}, call 2, at .*test_faults\.py:\d+", text), text


def test_debug_mode_says_where_the_missing_rank_is(tmp_path):
    text, _ = run(2, detail, tmp_path, tmp_path, "missing")
    assert re.search(
        r"all_reduce\(float32\[3\]\) with sum, call 2, at .*, Timed out waiting: rank 1 did not arrive", text
    )
    assert "Rank 1 came last to barrier(), call 1, at" in text


def detail_of_messages(rank, size, store, folder, backend, what):
    os.environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"
    dist.set_debug_level_from_env()
    dist.init_process_group(backend, f"file://{folder}/rendezvous", timedelta(seconds=LIMIT), size, rank)
    group = dist.new_group(timeout=timedelta(seconds=LIMIT))
    if what == "all_to_all":
        ins = [gl.ones(2 + rank), gl.ones(2)]
        return error_of(lambda: dist.all_to_all([gl.empty(2), gl.empty(2)], ins, group))
    found = ""
    if rank == 0:
        for tag in (0, 3):
            dist.send(gl.ones(2, 3), 1, group, tag)  # received in another shape, which is allowed
        if what != "order":
            dist.send(gl.ones(4) if what == "size" else gl.ones(3, dtype=gl.int32), 1, group)
    else:
        dist.recv(gl.empty(6), group=group)
        dist.recv(gl.empty(6), 0, group, 3)
        if what == "order":
            group.set_timeout(timedelta(seconds=0.5))
        found = error_of(lambda: dist.recv(gl.empty(3), *(() if what == "dtype" else (0,)), group=group))
    store.set(f"done/{rank}", b"1")
    store.get(f"done/{1 - rank}")
    return found


@pytest.mark.parametrize("backend", ["shm", "sockets"])
@pytest.mark.parametrize(
    ("what", "lines"),
    [
        ("size", ["send(float32[4]) to rank 1, at ", "recv(float32[3]) from rank 0, at "]),
        ("dtype", ["send(int32[3]) to rank 1, at ", "recv(float32[3]) from any rank, at "]),
        (
            "order",
            ["Timed out waiting: rank 0 did not arrive", "Rank 0 came last to send(float32[2, 3]) to rank 1 with"],
        ),
        ("all_to_all", ["Rank 1 gives float32[3] to rank 0, which takes float32[2]"]),
    ],
)
def test_debug_mode_compares_messages(tmp_path, backend, what, lines):
    found = run(2, detail_of_messages, tmp_path, tmp_path, backend, what)
    for text in found if what == "all_to_all" else found[1:]:
        assert all(line in text for line in lines), text
        assert "test_faults.py:" in text


def monitored(rank, size, store, folder):
    with default_group(rank, size, folder):
        found = ""
        if rank == 0:
            store.get("1 is there")
        elif rank == 1:
            store.set("1 is there", b"1")
        if rank != 2:
            limit = timedelta(seconds=2 if rank == 0 else LIMIT)
            found = error_of(lambda: dist.monitored_barrier(timeout=limit))
        dist.barrier()  # the group still works
        return found


def test_monitored_barrier_names_the_rank_that_fails(tmp_path):
    root, other, _ = run(3, monitored, tmp_path, tmp_path)
    assert root == "[Rank 0]: Rank 2 failed to pass monitoredBarrier in 2000 ms"
    assert "Please check rank 0 logs" in other and root in other


def collectives_until_killed(rank, size, store, folder, backend, victim, seconds):
    dist.init_process_group(backend, f"file://{folder}/rendezvous", timedelta(seconds=LIMIT), size, rank)
    dist.barrier()
    if rank == victim:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds)  # SIGALRM's default kills without any cleaning up
    started = time.monotonic()
    outs, wide = [gl.empty(7) for _ in range(size)], gl.ones(70_000)

    def train():
        while True:
            dist.all_reduce(wide.fill_(1))
            work = dist.all_reduce(gl.ones(200), async_op=True)
            dist.all_gather(outs, gl.ones(7))
            work.wait()
            dist.barrier()

    return error_of(train), time.monotonic() - started


def shared_memory() -> set[str]:
    return {name for name in os.listdir("/dev/shm") if "gradloom" in name} if os.path.isdir("/dev/shm") else set()


def kill_one(seed: int, folder: Path, backend: str) -> None:
    """Kill one of three ranks at a random moment, and check how the others end."""
    chance = random.Random(seed)
    victim, seconds, before = chance.randrange(3), chance.uniform(0.001, 0.1), shared_memory()
    found = ended(3, collectives_until_killed, folder, folder, backend, victim, seconds)
    assert found[victim].killed_by == signal.SIGALRM, found[victim].error
    for rank, one in enumerate(found):
        if rank != victim:
            assert one.error is None and one.killed_by is None, one.error
            text, took = one.result
            assert f"rank {victim} was lost" in text or "was lost" in text, (seed, text)
            assert took < LIMIT / 2, (seed, took)  # long before the timeout
    assert shared_memory() <= before, seed


@pytest.mark.parametrize("backend", ["shm", "sockets"])
def test_when_a_rank_is_killed_the_others_say_so_and_nothing_remains(tmp_path, backend):
    for seed in range(3):
        kill_one(seed, tmp_path / str(seed), backend)


if __name__ == "__main__":
    for number in range(int(sys.argv[1])):
        with tempfile.TemporaryDirectory() as name:
            kill_one(number, Path(name) / "ranks", ["shm", "sockets"][number % 2])
        print(f"\r{number + 1} ranks killed", end="", flush=True)
    print()
