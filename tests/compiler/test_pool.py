"""Threads of machine code (Note [The pool]): every part is computed once, whoever calls, sleeps, or forks."""

import ctypes
import os
import threading
import time

import numpy as np
import pytest

import gradloom
from gradloom.compiler import _llvm
from gradloom.compiler._llvm import pool

pytestmark = pytest.mark.skipif(not _llvm.available() or not pool.available(), reason="needs llvmlite and Linux")

WORK = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, ctypes.c_void_p)
RUN = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, WORK, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


@pytest.fixture(autouse=True)
def four_threads():
    before = gradloom.get_num_threads()
    gradloom.set_num_threads(4)
    yield
    gradloom.set_num_threads(before)


def run(work, parts, helpers=3):
    found = pool.workers()
    assert found is not None and found.workers >= 3
    return RUN(found.run)(found.state, WORK(work), None, parts, helpers)


@pytest.mark.parametrize("helpers", [0, 1, 3])
@pytest.mark.parametrize("parts", [0, 1, 2, 7, 100])
def test_every_part_is_computed_once(parts, helpers):
    for pause in (0, 0, 0.002):  # after which the workers sleep
        seen = []

        def work(part, context, seen=seen):
            seen.append(part)
            return 0

        assert run(work, parts, helpers) == 0
        assert sorted(seen) == list(range(parts))
        time.sleep(pause)


def test_the_results_of_the_parts_are_joined():
    assert run(lambda part, context: 1 << part, 5) == 0b11111
    assert run(lambda part, context: 0, 5) == 0


def test_workers_take_parts():
    seen = set()

    def work(part, context):
        seen.add(threading.get_native_id())
        time.sleep(0.005)
        return 0

    run(work, 12)
    assert len(seen) > 1


def test_a_worker_beyond_the_wanted_number_takes_none():
    seen = set()

    def work(part, context):
        seen.add(threading.get_native_id())
        time.sleep(0.001)
        return 0

    run(work, 20, helpers=1)
    assert len(seen) <= 2


def test_many_callers_at_once_get_their_own_results():
    """One of them has the workers; the others compute alone."""
    total = []

    def call(seed):
        rng = np.random.default_rng(seed)
        for _ in range(200):
            parts, seen = int(rng.integers(1, 9)), []

            def work(part, context, seen=seen):
                seen.append(part)
                return 1 << part

            if run(work, parts) != (1 << parts) - 1 or sorted(seen) != list(range(parts)):
                total.append((seed, parts, seen))

    threads = [threading.Thread(target=call, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not total


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_has_workers_of_its_own():
    assert run(lambda part, context: 1, 4) == 1
    child = os.fork()
    if child == 0:
        seen = []
        found = run(lambda part, context: seen.append(part) or 2, 6)
        os._exit(0 if found == 2 and sorted(seen) == list(range(6)) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_loops_give_the_same_with_workers_and_with_pythons_threads(monkeypatch):
    x = gradloom.randn(300_000)
    f = gradloom.compile(lambda x: (x.sigmoid() * x.tanh()).exp().sum(), backend="llvm")
    found = [f(x) for _ in range(3)][1:]  # the first call is eager
    monkeypatch.setattr(pool, "_pool", None)
    monkeypatch.setattr(pool, "available", lambda: False)
    assert pool.workers() is None
    assert all(gradloom.equal(y, f(x)) for y in found)
