"""DataLoader with worker processes. Tests that take `torch` run with PyTorch, too: batches and numbers are the same."""

import os
import random
import signal
import subprocess
import sys
import time
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from tests.waiting import LIMIT, started

LIBRARIES = [name for name in ("gradloom", "torch") if find_spec(name)]
PROGRAMS = Path(__file__).with_name("loader_programs.py")
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the data sets of this file can only be forked")


@pytest.fixture(params=LIBRARIES)
def torch(request):
    return import_module(request.param)


class Numbers:
    """Examples that are their own index, or what a function makes of it."""

    def __init__(self, count, function=lambda index: index):
        self.count, self.function = count, function

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if not 0 <= index < self.count:
            raise IndexError(index)
        return self.function(index)


def loader(torch, dataset, **options):
    return torch.utils.data.DataLoader(
        dataset, **{"num_workers": 2, "multiprocessing_context": "fork", "timeout": LIMIT, **options}
    )


def batches(torch, *arguments, **options):
    return [batch.tolist() for batch in loader(torch, *arguments, **options)]


def ended(pids):
    """Wait until processes have ended."""
    end = time.monotonic() + LIMIT
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < end, "a worker is left"
        time.sleep(0.05)
    return True


# --- batches ----------------------------------------------------------------------------------------------------------


def test_batches_come_in_order_although_workers_differ_in_speed(torch):
    dataset = Numbers(10, lambda index: (time.sleep(0.05 * (index % 4 == 0)), index)[1])
    assert batches(torch, dataset, batch_size=2) == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]
    assert batches(torch, dataset, batch_size=4, drop_last=True) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert batches(torch, dataset, batch_sampler=[[2, 0], [1], [9]], prefetch_factor=1) == [[2, 0], [1], [9]]
    assert list(loader(torch, Numbers(3), batch_size=None)) == [0, 1, 2]
    assert batches(torch, Numbers(1), num_workers=1) == [[0]]
    found = batches(torch, dataset, batch_size=1, in_order=False)
    assert sorted(found) == [[i] for i in range(10)]


def test_containers_and_dtypes_come_through(torch):
    def example(index):
        return {"x": torch.full((2, 3), index, dtype=torch.bfloat16), "y": (np.float32(index), "text"), "z": [index]}

    (batch,) = loader(torch, Numbers(2, example), batch_size=2)
    assert batch["x"].shape == (2, 2, 3) and batch["x"].dtype == torch.bfloat16 and batch["x"].is_shared()
    assert batch["x"][1].tolist() == [[1] * 3] * 2
    assert batch["y"][0].tolist() == [0, 1] and batch["y"][1] == ("text", "text") and batch["z"][0].tolist() == [0, 1]
    (batch,) = loader(torch, Numbers(2, lambda index: torch.empty(0, 3)), batch_size=2)
    assert batch.shape == (2, 0, 3)


def test_large_requests_and_batches_do_not_block_each_other(torch):
    dataset = Numbers(10**6, lambda index: index)
    indices = list(range(10**5))
    found = list(loader(torch, dataset, batch_sampler=[indices] * 6, collate_fn=lambda batch: batch))
    assert len(found) == 6 and all(batch == indices for batch in found)


class Shards:
    """Mixed into IterableDataset: the worker's share of the numbers up to 7."""

    def __iter__(self):
        info = self.info()
        return iter(range(7) if info is None else range(info.id, 7, info.num_workers))


def shards(torch):
    kind = type("Sharded", (Shards, torch.utils.data.IterableDataset), {})
    kind.info = staticmethod(torch.utils.data.get_worker_info)
    return kind()


def test_iterable_data_sets_are_shared_out(torch):
    assert batches(torch, shards(torch), batch_size=2) == [[0, 2], [1, 3], [4, 6], [5]]
    assert batches(torch, shards(torch), batch_size=2, drop_last=True) == [[0, 2], [1, 3], [4, 6]]
    assert list(loader(torch, shards(torch), batch_size=None)) == [0, 1, 2, 3, 4, 5, 6]
    assert batches(torch, shards(torch), batch_size=3, num_workers=1) == [[0, 1, 2], [3, 4, 5], [6]]


def test_an_iterable_data_set_longer_than_its_length_warns(torch):
    dataset = shards(torch)
    type(dataset).__len__ = lambda self: 2
    for options, text in (({}, "replica at each worker"), ({"num_workers": 0}, "samples have been fetched")):
        found = loader(torch, dataset, batch_size=None, **{"timeout": 0, "multiprocessing_context": None, **options})
        assert len(found) == 2
        with pytest.warns(UserWarning, match=rf"to be 2\(when accessing len\(dataloader\)\), but 3 .*{text}"):
            for number, _ in enumerate(found):
                if number == 2:
                    break


# --- random numbers ---------------------------------------------------------------------------------------------------


def test_workers_draw_the_same_numbers_as_pytorch(torch):
    def draw(index):
        info = torch.utils.data.get_worker_info()
        return info.id, info.seed, random.random(), float(np.random.rand()), torch.rand(()).item()

    torch.manual_seed(7)
    found = list(loader(torch, Numbers(4, draw), batch_size=None, shuffle=True))
    base = 1407639518939636932
    assert [row[:2] for row in found] == [[0, base], [1, base + 1], [0, base], [1, base + 1]]
    assert found[0][2:] == pytest.approx([0.9290632898373887, 0.03541536592796235, 0.11662513017654419])
    assert found[3][2:] == pytest.approx([0.46183154346070987, 0.9137194064224758, 0.28084486722946167])
    assert torch.initial_seed() == 7 and torch.rand(()).item() == pytest.approx(0.23276156187057495)
    assert torch.utils.data.get_worker_info() is None


def test_a_generator_decides_order_and_seed(torch):
    def draw(index):
        return index, torch.utils.data.get_worker_info().seed

    found = []
    for _ in range(2):
        generator = torch.Generator()
        generator.manual_seed(5)
        options = {"shuffle": True, "generator": generator, "batch_size": None}
        found.append(list(loader(torch, Numbers(4, draw), **options)))
        order = list(torch.utils.data.DataLoader(Numbers(4), **{**options, "generator": generator.manual_seed(5)}))
        assert [index for index, _ in found[-1]] == order
    assert found[0] == found[1]


# --- failures ---------------------------------------------------------------------------------------------------------


class TwoArguments(Exception):
    def __init__(self, first, second):
        super().__init__(first, second)


def raising(error):
    def function(index):
        if index == 2:
            raise error
        return index

    return function


@pytest.mark.parametrize(
    "error, kind", [(ValueError("no"), ValueError), (KeyError("no"), KeyError), (TwoArguments(1, 2), RuntimeError)]
)
def test_an_exception_is_raised_in_the_parent(torch, error, kind):
    found = iter(loader(torch, Numbers(4, raising(error))))
    assert next(found).tolist() == [0] and next(found).tolist() == [1]
    with pytest.raises(kind) as caught:
        next(found)
    name = type(error).__name__
    start = f"Caught {name} in DataLoader worker process 0.\nOriginal Traceback (most recent call last):\n"
    assert type(caught.value) is kind and str(caught.value).startswith(start)
    assert "in function\n    raise error" in str(caught.value)
    assert next(found).tolist() == [3], "the other batches follow"
    assert list(found) == []


def test_an_exception_of_the_init_function(torch):
    def fail(worker):
        raise ValueError(f"worker {worker}")

    with pytest.raises(ValueError, match="Caught ValueError in DataLoader worker process 0(.|\n)*worker 0"):
        next(iter(loader(torch, Numbers(4), worker_init_fn=fail)))


def test_the_init_function_sees_its_worker(torch):
    def prepare(worker):
        torch.utils.data.get_worker_info().dataset.count += worker

    assert batches(torch, Numbers(3, lambda index: index), worker_init_fn=prepare) == [[0], [1], [2]]
    info = []
    dataset = Numbers(2, lambda index: info[0] if info else info.append(repr(torch.utils.data.get_worker_info())))
    assert list(loader(torch, dataset, batch_size=None)) == [None, None]


def test_what_cannot_be_pickled_is_an_error():
    import gradloom as torch

    with pytest.raises(Exception, match="in DataLoader worker process 0(.|\n)*pickle"):
        list(loader(torch, Numbers(1, lambda index: lambda: 0), batch_size=None))
    history = Numbers(1, lambda index: torch.ones(1, requires_grad=True) * 2)
    with pytest.raises(RuntimeError, match="Cowardly refusing"):
        list(loader(torch, history, batch_size=None))


@pytest.mark.parametrize("how, text", [("exit", "exited with exit code 7"), ("kill", "killed by signal: Killed")])
def test_a_dead_worker_is_an_error(how, text):
    import gradloom as torch

    def die(index):
        if index == 2:
            os._exit(7) if how == "exit" else os.kill(os.getpid(), signal.SIGKILL)
        return index

    found = iter(loader(torch, Numbers(6, die), timeout=0))
    pids = [worker.pid for worker in found._workers]
    with pytest.raises(RuntimeError) as caught:
        list(found)
    assert str(caught.value).startswith(f"DataLoader worker (pid(s) {pids[0]}) exited unexpectedly")
    assert text in str(caught.value)
    assert list(found) == [] and ended(pids)


def test_a_batch_that_takes_too_long_is_an_error(torch):
    found = iter(loader(torch, Numbers(2, lambda index: time.sleep(index * LIMIT)), batch_size=None, timeout=0.5))
    for worker in found._workers:
        worker.terminate()  # so that the test need not wait for the end of the sleep
        worker.join(LIMIT)
    del found
    slow = iter(loader(torch, Numbers(1, lambda index: time.sleep(3)), batch_size=None, num_workers=1, timeout=0.5))
    with pytest.raises(RuntimeError, match="DataLoader timed out after 0.5 seconds"):
        next(slow)


def test_contexts_are_checked(torch):
    with pytest.raises(ValueError, match="should specify a valid start method in .*multiprocessing_context='teleport'"):
        loader(torch, Numbers(1), multiprocessing_context="teleport")
    with pytest.raises(TypeError, match="should be a valid context object or a string"):
        loader(torch, Numbers(1), multiprocessing_context=3)
    with pytest.raises(ValueError, match="can only be used with multi-process loading"):
        loader(torch, Numbers(1), num_workers=0, timeout=0)
    assert loader(torch, Numbers(1)).multiprocessing_context.get_start_method() == "fork"
    with pytest.warns(UserWarning, match="This DataLoader will create 1000 worker processes in total. Our suggested"):
        loader(torch, Numbers(1), num_workers=1000)


# --- the life of workers ----------------------------------------------------------------------------------------------


def test_workers_end_with_the_iteration(torch):
    found = iter(loader(torch, Numbers(4, lambda index: os.getpid()), batch_size=None))
    pids = set(found)
    assert len(pids) == 2 and ended(pids)


def test_workers_end_when_a_loop_is_left(torch):
    def first():
        for pid in loader(torch, Numbers(100, lambda index: os.getpid()), batch_size=None):
            return {pid}

    assert ended(first())


def test_persistent_workers_serve_all_iterations(torch):
    found = loader(torch, Numbers(4, lambda index: (index, os.getpid())), batch_size=None, persistent_workers=True)
    first, second = list(found), list(found)
    assert first == second and [index for index, _ in first] == [0, 1, 2, 3]
    for index, _ in found:
        if index == 1:
            break
    assert list(found) == first, "nothing of the abandoned iteration is left"
    pids = {pid for _, pid in first}
    del found
    assert ended(pids)


def test_persistent_workers_iterate_again(torch):
    found = loader(torch, shards(torch), batch_size=2, persistent_workers=True)
    for _ in range(2):
        assert [batch.tolist() for batch in found] == [[0, 2], [1, 3], [4, 6], [5]]


def run(*arguments):
    found = subprocess.run([sys.executable, PROGRAMS, *arguments], capture_output=True, text=True, timeout=LIMIT)
    assert found.returncode == 0, found.stderr[-3000:]
    return found


@pytest.mark.parametrize("library", LIBRARIES)
def test_spawned_workers(library):
    lines = run(library, "spawn").stdout.splitlines()
    assert lines == [f"{[float(i) for i in half]} True False" for half in (range(32), range(32, 64))] + ["done"]


def test_abandoned_loaders_let_the_program_end():
    found = run("gradloom", "abandoned")
    assert found.stdout.splitlines()[-1] == "done" and not found.stderr
    assert ended(found.stdout.split()[:-1])


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
@pytest.mark.parametrize("program", ["descriptors", "limited"])
def test_descriptors(program):
    assert run("gradloom", program).stdout == "done\n"


@pytest.mark.parametrize("number, code", [(signal.SIGINT, (-signal.SIGINT, 1, 130)), (signal.SIGKILL, (-9,))])
def test_workers_end_with_a_process_that_is_stopped(tmp_path, number, code):
    log = tmp_path / "log"
    with started([sys.executable, PROGRAMS, "gradloom", "waits"], log) as process:
        process.wait_for("waiting", "end")
        pids = log.read_text().split("waiting")[1].split("end")[0].split()
        assert process.end(number) in code
    assert ended(pids)
