"""Work shared out among threads gives what one thread gives and leaves BLAS as it was; memory is kept."""

from __future__ import annotations

import os
import threading
import warnings
from contextlib import ExitStack

import numpy as np
import pytest

from gradloom.kernels._common import blas
from gradloom.kernels._common.threads import (
    _find_blas,
    chunks,
    get_num_threads,
    set_num_threads,
    share,
    single_threaded_blas,
)
from tests.rounding import assert_sums_agree
from tests.waiting import LIMIT, Running, forked, in_threads


@pytest.fixture(params=[1, 2, 3])
def threads(request, monkeypatch):
    before = get_num_threads()
    set_num_threads(request.param)
    yield request.param
    set_num_threads(before)


def test_results_come_in_the_order_of_the_items(threads):
    assert share(lambda item: item + 1, range(20)) == list(range(1, 21))
    assert share(lambda item: item, []) == []


def test_chunks_cover_everything_once(threads):
    for total in (0, 1, 2, 7, 64, 1000):
        for largest in (None, 1, 5, 5000):
            parts = chunks(total, largest)
            assert [i for part in parts for i in range(total)[part]] == list(range(total))
            assert largest is None or all(part.stop - part.start <= largest for part in parts)


def test_an_exception_in_a_thread_reaches_the_caller(threads):
    def work(item):
        if item == 5:
            raise ValueError("five")

    with pytest.raises(ValueError, match="five"):
        share(work, range(8))


def test_shares_within_shares(threads):
    def outer(i):
        return sum(share(lambda j: i * j, range(5)))

    assert share(outer, range(6)) == [10 * i for i in range(6)]


def test_callers_in_several_threads(threads):
    calls = [lambda i=i: share(lambda j: i * j, range(50)) for i in range(5)]
    assert in_threads(*calls) == [[i * j for j in range(50)] for i in range(5)]


def test_errstate_reaches_the_helpers(threads):
    barrier = threading.Barrier(threads)

    def work(item):
        barrier.wait(LIMIT)  # one item for each thread
        return np.float64(1) / np.zeros(3)

    with warnings.catch_warnings(), np.errstate(divide="ignore"):
        warnings.simplefilter("error")
        share(work, range(threads))


def test_blas_has_its_threads_again():
    found = _find_blas()
    if found is None:
        pytest.skip("NumPy does not use OpenBLAS")
    set_threads, get_threads = found
    before = get_threads()
    try:
        set_threads(2)
        with single_threaded_blas():
            with single_threaded_blas():
                assert get_threads() == 1
            assert get_threads() == 1
        assert get_threads() == 2
        with pytest.raises(ZeroDivisionError), single_threaded_blas():
            raise ZeroDivisionError
        assert get_threads() == 2
    finally:
        set_threads(before)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_makes_its_own_threads(threads):
    share(lambda item: item, range(8))
    assert forked(lambda: share(lambda item: item, range(8)) != list(range(8))) == 0


@pytest.mark.parametrize("count", [0, -1])
def test_set_num_threads_refuses(count):
    with pytest.raises(RuntimeError, match="positive"):
        set_num_threads(count)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128", "int64"])
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((300, 200), (200, 300)),
        ((64, 800), (800, 500)),
        ((8, 64, 128), (8, 128, 100)),
        ((32, 32, 4), (4, 300)),
        ((2, 1, 200, 60), (5, 60, 100)),
        ((3, 2, 300, 30), (30,)),
        ((300,), (300, 3)),
        ((4, 300), (2, 300, 200)),
        ((0, 300), (300, 300)),
        ((1, 90, 90), (7, 90, 90)),
        ((7, 1, 90, 60), (1, 3, 60, 50)),
        ((300, 0), (0, 300)),
    ],
)
def test_matmul(threads, left, right, dtype, monkeypatch):
    monkeypatch.setattr(blas, "FEW", 1 << 6)
    monkeypatch.setattr(blas, "SMALL", 1 << 8)
    monkeypatch.setattr(blas, "_LARGE", 1 << 12)
    random = np.random.default_rng(0)
    a, b = ((random.standard_normal(shape) * 4).astype(dtype) for shape in (left, right))
    with single_threaded_blas():  # many small products by several threads stall on a busy machine
        expected = np.matmul(a, b)
        magnitude = np.matmul(np.abs(a), np.abs(b))
    assert_sums_agree(blas.gemm(a, b), expected, magnitude, a.shape[-1])
    out = np.empty_like(expected)
    assert blas.gemm(a, b, out) is out
    assert_sums_agree(out, expected, magnitude, a.shape[-1])


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="os.fork")
def test_a_forked_child_finds_no_lock_held():
    import gradloom as torch
    from gradloom.memory import locks

    def use():
        torch.rand(3)
        x = torch.ones(2, requires_grad=True)
        x.register_hook(lambda grad: grad)
        torch.autograd.graph.register_multi_grad_hook([x, leaf], lambda grads: None)
        with torch.autograd.detect_anomaly(check_nan=False), torch.autograd.forward_ad.dual_level():
            (x * leaf).sum().backward()
        return 0 if leaf.grad is not None else 1

    def hold():
        with ExitStack() as held:
            for lock in [kept() for kept in locks._locks]:
                held.enter_context(lock)
            started.set()
            done.wait(LIMIT)

    leaf = torch.ones(2, requires_grad=True)
    assert use() == 0
    started, done = threading.Event(), threading.Event()
    holder = Running(hold)
    assert started.wait(LIMIT)
    try:
        assert forked(use) == 0
    finally:
        done.set()
        holder.result()
