"""torch.futures and the functions of torch.jit that make futures."""

from __future__ import annotations

import pickle
import threading
from importlib import import_module

import pytest

from tests.waiting import in_threads


@pytest.fixture
def futures(torch):
    return import_module(f"{torch.__name__}.futures")


def test_a_result_is_set_once(futures):
    future = futures.Future()
    assert not future.done()
    with pytest.raises(RuntimeError, match="complete"):
        future.value()
    future.set_result(3)
    assert future.done() and future.value() == future.wait() == 3
    for again in (lambda: future.set_result(4), lambda: future.set_exception(ValueError())):
        with pytest.raises(RuntimeError, match="Attempting to mark a completed Future as complete again. Note that"):
            again()


def test_an_exception_is_raised_by_wait_and_value(futures):
    future = futures.Future()
    with pytest.raises(AssertionError, match="3 is of type <class 'int'>, not an Exception."):
        future.set_exception(3)
    future.set_exception(ValueError("foo"))
    assert future.done()
    for get in (future.wait, future.value):
        with pytest.raises(ValueError, match="foo"):
            get()


def test_callbacks_run_when_it_is_done(futures):
    future, seen = futures.Future(), []
    future.add_done_callback(lambda done: seen.append(done.value()))
    next_one = future.then(lambda done: done.wait() + 1).then(lambda done: done.value() * 10)
    assert not seen and not next_one.done()
    future.set_result(5)
    future.add_done_callback(lambda done: seen.append(done is future))
    assert seen == [5, True] and next_one.wait() == 60
    assert future.then(lambda done: done).wait() is future


def test_an_error_in_a_callback_goes_to_its_future(futures):
    future = futures.Future()
    first = future.then(lambda done: 1 / 0)
    second = first.then(lambda done: done.value())
    future.set_result(1)
    with pytest.raises(RuntimeError, match="^Got the following error when running the callback: ZeroDivisionError: "):
        first.wait()
    with pytest.raises(RuntimeError, match="callback: RuntimeError: Got the following error .* ZeroDivisionError"):
        second.wait()
    future.add_done_callback(lambda done: 1 / 0)  # is logged
    with pytest.raises(TypeError, match="then()"):
        future.then(3)


def test_a_future_connects_threads(futures):
    future = futures.Future()
    ready = threading.Barrier(3)

    def waits():
        ready.wait(60)
        return future.then(lambda done: done.value() + 1).wait()

    def sets():
        ready.wait(60)
        future.set_result(7)

    assert in_threads(waits, waits, sets) == [8, 8, None]


def test_futures_are_collected(futures):
    first, second = futures.Future(), futures.Future()
    both = futures.collect_all([first, second])
    second.set_result(2)
    assert not both.done()
    first.set_result(1)
    assert both.done() and [future.value() for future in both.wait()] == [1, 2]
    assert futures.wait_all([first, second]) == [1, 2]
    assert futures.wait_all([]) == futures.collect_all([]).wait() == []
    third = futures.Future()
    third.set_exception(ValueError("third"))
    for fails in (lambda: futures.collect_all([first, third]).wait(), lambda: futures.wait_all([first, third])):
        with pytest.raises(ValueError, match="third"):
            fails()
    with pytest.raises(TypeError):
        futures.collect_all([3])


@pytest.mark.build_of_cpus
def test_futures_have_no_devices_that_are_not_there(futures):
    with pytest.raises(RuntimeError):
        futures.Future(devices=["cuda:0"])


def test_futures_have_no_devices_and_are_not_pickled(futures):
    with pytest.raises(ValueError, match="Expected devices to have indices, got cpu"):
        futures.Future(devices=["cpu"])
    future = futures.Future()
    future.set_result(1)
    with pytest.raises(RuntimeError, match="Can not pickle torch.futures.Future"):
        pickle.dumps(future)


@pytest.mark.since("2.15")
def test_jit_fork_calls_at_once(torch):
    with pytest.warns(FutureWarning, match=r"`torch.jit.fork` is deprecated. Please use `torch.compile` instead."):
        future = torch.jit.fork(lambda x, y=1: x + y, torch.ones(2), y=3)
    with pytest.warns(FutureWarning, match=r"`torch.jit.wait` is deprecated. Please use `torch.compile` instead."):
        assert torch.jit.wait(future).tolist() == [4, 4]
    assert torch.wait(torch.fork(lambda: 4)) == 4
    with pytest.raises(ZeroDivisionError):
        torch.fork(lambda: 1 / 0)
    with pytest.raises(TypeError, match="wait()"):
        torch.wait(3)
