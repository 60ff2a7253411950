"""Threads of machine code (Note [The pool]): every part is computed once, whoever calls, sleeps, or forks."""

import ctypes
import os
import threading
import time

import numpy as np
import pytest

import gradloom
from gradloom.compiler import _llvm
from gradloom.compiler._llvm import divided, pool
from gradloom.kernels._common import blas
from tests.waiting import LIMIT

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


def threads_of(parts, helpers):
    """Return the threads that compute parts, each of which waits for a moment."""
    seen = set()

    def work(part, context):
        seen.add(threading.get_native_id())
        time.sleep(0.002)
        return 0

    run(work, parts, helpers)
    return seen


def test_workers_take_parts():
    """On a busy machine a worker may come too late for some calls."""
    end = time.monotonic() + LIMIT
    while len(threads_of(20, helpers=3)) == 1:
        assert time.monotonic() < end


def test_a_worker_beyond_the_wanted_number_takes_none():
    assert len(threads_of(20, helpers=1)) <= 2


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


def _matrix(rng, batch, rows, columns, dtype):
    """Return a matrix, or several, as BLAS may find them: transposed, or part of a larger array."""
    x = rng.standard_normal((*batch, rows, columns)).astype(dtype)
    if rng.random() < 0.4:
        x = np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)
    elif rng.random() < 0.4:
        wide = np.zeros((*batch, rows, columns + 5), dtype)
        wide[..., 2 : 2 + columns] = x
        x = wide[..., 2 : 2 + columns]
    return x


def test_divided_products_are_products():
    rng = np.random.default_rng(0)
    for _ in range(300):
        m, k, n = (int(x) for x in rng.integers(1, 90, 3))
        batch = tuple(int(x) for x in rng.integers(1, 4, rng.integers(0, 3)))
        dtype = rng.choice([np.float32, np.float64])
        a, b = _matrix(rng, batch, m, k, dtype), _matrix(rng, batch, k, n, dtype)
        if batch and rng.random() < 0.3:
            b = b[:1]
        out = np.full((*batch, m, n + 3), np.nan, dtype)[..., :n]
        assert divided.divide(a, b, out)
        expected = a.astype(np.float64) @ b.astype(np.float64)
        bound = (k + 2) * np.finfo(dtype).eps * (np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64))
        assert (np.abs(out - expected) <= bound).all()


def test_products_that_blas_cannot_take_are_left():
    """Strides of which none is one element, backwards rows, and results in columns."""
    a, b, out = np.ones((8, 8, 2))[..., 0], np.ones((8, 8)), np.empty((8, 8))
    assert not divided.divide(a, b, out)
    assert not divided.divide(b[::-1], b, out)
    assert not divided.divide(b, b, out.T)
    assert not divided.divide(b[:0], b, out[:0])


def test_large_products_are_divided_once_machine_code_is_in_use(monkeypatch):
    seen = []
    monkeypatch.setattr(blas, "divide", None)
    _llvm.divide_products()
    a = np.ones((128, 256), np.float32)
    assert (blas.gemm(a, a.T) == 256).all()
    assert blas.divide is divided.divide
    monkeypatch.setattr(blas, "divide", lambda a, b, out: seen.append(out.shape) or divided.divide(a, b, out))
    assert (blas.gemm(a, a.T) == 256).all() and seen == [(128, 128)]
    assert (blas.gemm(a[:, ::2], a.T[::2]) == 128).all()  # copied by NumPy
    gradloom.set_num_threads(1)
    assert (blas.gemm(a, a.T) == 256).all() and len(seen) <= 2
