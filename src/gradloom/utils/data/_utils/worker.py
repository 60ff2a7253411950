"""Worker processes of a DataLoader, and how examples are fetched there and in the calling process."""

from __future__ import annotations

import os
import queue
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from threading import Thread
from typing import Any
from weakref import WeakSet

import numpy as np

import gradloom as gl

from ....kernels._common.threads import set_num_threads, single_threaded_blas
from ....multiprocessing.channel import Channel
from ..._exceptions import ExceptionWrapper
from .. import _pipes

_LOOKS = 2  # seconds after which a worker looks whether its parent lives


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """A worker process of a DataLoader.

    Attributes:
        id: index of the worker, 0 <= id < num_workers.
        num_workers: number of workers.
        seed: seed of `random` and of the default generator in this worker.
        dataset: the copy of the data set in this process.
        rng: None.
        worker_method: "multiprocessing".
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any
    rng: Any = None
    worker_method: str | None = "multiprocessing"


_worker_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """Return what describes this worker process of a DataLoader; None in any other process."""
    return _worker_info


def _generate_state(base_seed: int, worker_id: int) -> list[int]:
    """Return four numbers of 32 bits that seed NumPy's generator in a worker, drawn as NumPy's SeedSequence draws."""
    entropy = [worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
    return [int(word) for word in np.random.SeedSequence(entropy).generate_state(4)]


class Fetcher:
    """Makes batches of a data set's examples.

    Args:
        dataset: the data set.
        iterates: whether it is an IterableDataset, whose indices only count examples.
        batches: whether an index is a list, for a batch.
        collate: makes a batch of a list of examples, or converts a single one.
        drop_last: drop an incomplete batch at the end of an IterableDataset.
    """

    def __init__(self, dataset: Any, iterates: bool, batches: bool, collate: Callable[[Any], Any], drop_last: bool):
        self._dataset, self._batches, self._collate, self._drop_last = dataset, batches, collate, drop_last
        self._examples = iter(dataset) if iterates else None
        self._ended = False

    def fetch(self, index: Any) -> Any:
        """Return the batch, or the example, for an index. Raises StopIteration at the end of an IterableDataset."""
        if self._examples is None:
            return self._collate(self._looked_up(index))
        if self._ended:
            raise StopIteration
        if not self._batches:
            return self._collate(next(self._examples))
        found = list(islice(self._examples, len(index)))
        self._ended = len(found) < len(index)
        if not found or self._ended and self._drop_last:
            raise StopIteration
        return self._collate(found)

    def _looked_up(self, index: Any) -> Any:
        if not self._batches:
            return self._dataset[index]
        whole = getattr(self._dataset, "__getitems__", None)
        return whole(index) if whole else [self._dataset[i] for i in index]


@dataclass(frozen=True)
class Ended:
    """A worker's IterableDataset has no more examples."""


@dataclass(frozen=True)
class Restart:
    """A new iteration over the data set begins.

    Attributes:
        pipe_seed: seed of its IterDataPipes, if it is one.
    """

    pipe_seed: int | None


@dataclass(frozen=True)
class Job:
    """What a worker does.

    Attributes:
        fetching: the arguments of Fetcher.
        base_seed: seed of the first worker.
        init: `worker_init_fn`.
        id: index of the worker.
        count: number of workers.
        pipe_seed: seed of the data set's IterDataPipes, the same in all workers; None if it is not one.
    """

    fetching: tuple[Any, ...]
    base_seed: int
    init: Callable[[int], None] | None
    id: int
    count: int
    pipe_seed: int | None


parents_ends: WeakSet[Channel] = WeakSet()  # of this process; a forked worker closes its copies


def run(job: Job, channel: Channel) -> None:
    """Fetch what the parent asks for, until it says None or ends.

    Args:
        job: what to do.
        channel: receives (index of a task, indices) and sends (index of the task, batch).
    """
    parent = os.getppid()
    for end in list(parents_ends):  # else neither side would notice the end of the other
        end.close()
    parents_ends.clear()
    try:
        _work(job, channel, _requests(channel, parent))
    except (KeyboardInterrupt, BrokenPipeError, ConnectionResetError):  # the parent is interrupted, too, or has ended
        pass


def _requests(channel: Channel, parent: int) -> queue.SimpleQueue[Any]:
    """Return a queue of the parent's requests, which ends with None.

    A thread reads them at once, so that the parent never waits for a worker that waits for the parent to read a large
    batch. It also ends this process when the parent has ended without a word, whatever the data set is doing.
    """
    found: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def read() -> None:
        request: Any = 0
        try:
            while request is not None:
                if channel.connection.poll(_LOOKS):
                    request = channel.receive()
                    found.put(request)
                elif sys.platform != "win32" and os.getppid() != parent:
                    os._exit(1)
        except (EOFError, OSError):
            os._exit(1)

    Thread(target=read, name="gradloom-requests", daemon=True).start()
    return found


def _work(job: Job, channel: Channel, requests: queue.SimpleQueue[Any]) -> None:
    fetcher: Fetcher | None = None
    failure: ExceptionWrapper | None = None
    where = f"in DataLoader worker process {job.id}"
    try:
        _prepare(job)
        fetcher = Fetcher(*job.fetching)
    except Exception:
        failure = ExceptionWrapper(where=where)
    ended = False
    while (request := requests.get()) is not None:
        if isinstance(request, Restart):
            ended = False
            try:
                _seed_pipes(job, request.pipe_seed)
                fetcher = Fetcher(*job.fetching)
            except Exception:
                failure = ExceptionWrapper(where=where)
            continue
        if ended:
            continue
        epoch, task, index = request
        found: Any
        if failure is not None:
            found, failure = failure, None
        else:
            try:
                assert fetcher is not None, "the worker could not start"
                found = fetcher.fetch(index)
            except StopIteration:
                ended = bool(job.fetching[1])
                found = Ended() if ended else ExceptionWrapper(where=where)
            except Exception:
                found = ExceptionWrapper(where=where)
        _answer(channel, (epoch, task), found, where)
        del found, request, index


def _answer(channel: Channel, task: tuple[int, int], found: Any, where: str) -> None:
    try:
        channel.send((*task, found))
    except (BrokenPipeError, ConnectionResetError):
        raise
    except Exception:  # it cannot be pickled, or there is no shared memory left
        channel.send((*task, ExceptionWrapper(where=where)))


def _prepare(job: Job) -> None:
    """Seed the generators, limit threads, and run the user's function."""
    global _worker_info
    seed = job.base_seed + job.id
    set_num_threads(1)
    single_threaded_blas().__enter__()  # for the life of this process
    random.seed(seed)
    gl.manual_seed(seed)
    entropy = [job.id, job.base_seed & 0xFFFFFFFF, job.base_seed >> 32, 0]
    np.random.seed(np.random.SeedSequence(entropy).generate_state(4))
    _seed_pipes(job, job.pipe_seed)
    _worker_info = WorkerInfo(job.id, job.count, seed, job.fetching[0])
    if job.init is not None:
        job.init(job.id)


def _seed_pipes(job: Job, seed: int | None) -> None:
    if seed is not None:
        _pipes.seed(job.fetching[0], seed)
