"""What iterates over a DataLoader: in the calling process, or by worker processes."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from itertools import cycle
from signal import Signals, strsignal
from typing import TYPE_CHECKING, Any, NoReturn, Self
from weakref import finalize

import gradloom as gl

from ...core.user_stack import warn_once
from .._exceptions import ExceptionWrapper
from . import _pipes
from ._utils.worker import Fetcher

if TYPE_CHECKING:
    from .dataloader import DataLoader

_GRACE = 5  # seconds that a worker may take to end before it is terminated, and again before it is killed


class _DatasetKind:
    """The two kinds of data sets."""

    Map, Iterable = 0, 1


class _BaseDataLoaderIter:
    """Base of the iterators: takes indices from the sampler and counts what it yields."""

    def __init__(self, loader: DataLoader) -> None:
        self._dataset, self._dataset_kind = loader.dataset, loader._dataset_kind
        self._piped = _pipes.kind_of(loader.dataset)
        self._shared_seed = self._seed_pipes(loader)
        self._num_workers, self._timeout = loader.num_workers, loader.timeout
        self._persistent_workers, self._index_sampler = loader.persistent_workers, loader._index_sampler
        self._fetching = (
            *(loader.dataset, loader._dataset_kind == _DatasetKind.Iterable, loader._auto_collation),
            *(loader.collate_fn, loader.drop_last),
        )
        if loader.pin_memory:
            warn_once(
                "pin_memory",
                "'pin_memory' argument is set as true but no accelerator is found, then device "
                "pinned memory won't be used.",
            )
        self._sampler_iter: Iterator[Any] = iter(self._index_sampler)
        drawn = gl.empty((), dtype=gl.int64).random_(generator=loader.generator)
        self._base_seed = int(drawn.item())
        self._num_yielded, self._length = 0, loader._IterableDataset_len_called

    def __iter__(self) -> Self:
        return self

    def _seed_pipes(self, loader: DataLoader) -> int | None:
        """Seed the IterDataPipes of the data set; return the seed, which the workers use, too."""
        if self._piped != "iter":
            return None
        drawn = _pipes.shared_seed(loader.generator)
        _pipes.seed(self._dataset, drawn)
        return drawn

    def _reset(self, loader: DataLoader) -> None:
        self._sampler_iter = iter(self._index_sampler)
        self._num_yielded, self._length = 0, loader._IterableDataset_len_called
        self._shared_seed = self._seed_pipes(loader)

    def _next_index(self) -> Any:
        return next(self._sampler_iter)

    def _next_data(self) -> Any:
        raise NotImplementedError

    def __next__(self) -> Any:
        data = self._next_data()
        self._num_yielded += 1
        if (
            self._dataset_kind == _DatasetKind.Iterable
            and self._length is not None
            and self._num_yielded > self._length
        ):
            self._warn_of_length()
        return data

    def _warn_of_length(self) -> None:
        text = (
            f"Length of IterableDataset {self._dataset} was reported to be {self._length}"
            f"(when accessing len(dataloader)), but {self._num_yielded} samples have been fetched. "
        )
        if self._num_workers:
            text += (
                "For multiprocessing data-loading, this could be caused by not properly configuring the "
                "IterableDataset replica at each worker. Please see "
                "https://pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset for examples."
            )
        warnings.warn(text, stacklevel=3)

    def __len__(self) -> int:
        return len(self._index_sampler)

    def __getstate__(self) -> NoReturn:
        raise NotImplementedError("{} cannot be pickled", type(self).__name__)


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """Loads examples in the calling process, when they are asked for."""

    def __init__(self, loader: DataLoader) -> None:
        super().__init__(loader)
        if self._piped:
            _pipes.share(self._dataset)
        self._fetcher = Fetcher(*self._fetching)

    def _next_data(self) -> Any:
        return self._fetcher.fetch(self._next_index())


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """Loads examples in worker processes, ahead of time.

    Note [Workers]
    Each worker has a channel of its own, and at most `prefetch_factor` tasks on average. Tasks are numbered; batches
    that arrive early wait in `_arrived` until it is their turn. The parent waits for the channels and for the ends of
    the workers at once, so a worker that dies is noticed without delay. No lock is shared between processes: one that
    is killed blocks none of the others.

    The workers end when the iterator is exhausted (unless they are persistent), collected, or when Python exits.
    """

    def __init__(self, loader: DataLoader) -> None:
        from ... import multiprocessing
        from ._utils.worker import Job

        super().__init__(loader)
        assert loader.prefetch_factor is not None
        self._in_order, self._limit = loader.in_order, loader.prefetch_factor * self._num_workers
        self._context: Any = loader.multiprocessing_context or multiprocessing.get_context()
        self._workers: list[Any] = []
        self._channels: list[Any] = []
        self._finalizer = finalize(self, _end, self._workers, self._channels, os.getpid())
        self._epoch = 0
        init = _pipes.worker_init_fn(loader.worker_init_fn) if self._piped else loader.worker_init_fn
        for i in range(self._num_workers):
            self._start(Job(self._fetching, self._base_seed, init, i, self._num_workers, self._shared_seed))
        self._shared_seed = self._seed_pipes(loader)  # as in PyTorch, which resets a new iterator; workers have theirs
        self._begin()

    def _start(self, job: Any) -> None:
        from ...multiprocessing.channel import channels
        from ._utils.worker import parents_ends, run

        ours, theirs = channels(self._context)
        parents_ends.add(ours)
        worker = self._context.Process(target=run, args=(job, theirs), daemon=True)
        try:
            worker.start()
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self._workers.append(worker)
        self._channels.append(ours)

    def _reset(self, loader: DataLoader) -> None:
        from ._utils.worker import Restart

        super()._reset(loader)
        self._epoch += 1  # what is on its way belongs to the last one
        for channel in self._channels:
            channel.send(Restart(self._shared_seed))
        self._begin()

    def _begin(self) -> None:
        self._sent = self._next = 0  # numbers of the next task to send, and of the next to yield
        self._worker_of: dict[int, int] = {}
        self._arrived: dict[int, Any] = {}
        self._active = [True] * self._num_workers  # those whose IterableDataset has not ended
        self._tasks = [0] * self._num_workers
        self._turns = cycle(range(self._num_workers))
        for _ in range(self._limit):
            self._request()

    def _request(self) -> None:
        """Send the next indices to the worker whose turn it is."""
        try:
            index = self._next_index()
        except StopIteration:
            return
        share = self._limit // max(1, sum(self._active))
        for _ in range(self._num_workers):
            worker = next(self._turns)
            if self._active[worker] and (self._in_order or self._tasks[worker] < share):
                break
        else:
            return
        try:
            self._channels[worker].send((self._epoch, self._sent, index))
        except (BrokenPipeError, ConnectionResetError):
            self._raise_dead()
        self._worker_of[self._sent] = worker
        self._tasks[worker] += 1
        self._sent += 1

    def _next_data(self) -> Any:
        from ._utils.worker import Ended

        while self._find_next():
            if self._next in self._arrived:
                return self._deliver(self._next)
            task, data = self._receive()
            if isinstance(data, Ended):
                self._active[self._worker_of[task]] = False
                self._request()
                continue
            self._arrived[task] = data
            if not self._in_order:
                return self._deliver(task)
        if not self._persistent_workers:
            self._shutdown_workers()
        raise StopIteration

    def _find_next(self) -> bool:
        """Skip tasks of workers that have ended; return whether a task is left."""
        while self._next < self._sent:
            worker = self._worker_of.get(self._next)
            if worker is not None and (self._next in self._arrived or self._active[worker]):
                return True
            self._worker_of.pop(self._next, None)
            self._next += 1
        return False

    def _deliver(self, task: int) -> Any:
        data, worker = self._arrived.pop(task), self._worker_of.pop(task)
        if task == self._next:
            self._next += 1
        self._tasks[worker] -= 1
        self._request()
        if isinstance(data, ExceptionWrapper):
            data.reraise()
        return data

    def _receive(self) -> tuple[int, Any]:
        """Wait for a batch of this epoch; return its task and the batch."""
        from multiprocessing.connection import wait  # absent where Python has no processes

        end = time.monotonic() + self._timeout if self._timeout else None
        while True:
            rest = None if end is None else max(0.0, end - time.monotonic())
            ready = wait([c.connection for c in self._channels] + [w.sentinel for w in self._workers], rest)
            if not ready:
                raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds")
            for channel in self._channels:
                if channel.connection in ready:
                    break
            else:
                self._raise_dead()
            try:
                epoch, task, data = channel.receive()
            except (EOFError, ConnectionResetError):
                self._raise_dead()
            if epoch == self._epoch:
                return task, data

    def _raise_dead(self) -> NoReturn:
        """Raise the error for workers that have ended by themselves."""
        from multiprocessing.connection import wait

        ready = wait([worker.sentinel for worker in self._workers], _GRACE)
        dead = [worker for worker in self._workers if worker.sentinel in ready]
        for worker in dead:
            worker.join(_GRACE)
        pids = ", ".join(str(worker.pid) for worker in dead)
        details = "; ".join(f"worker (pid {worker.pid}) {_ending(worker.exitcode)}" for worker in dead)
        self._shutdown_workers()
        raise RuntimeError(
            f"DataLoader worker (pid(s) {pids}) exited unexpectedly: {details}. Details are lost due to "
            "multiprocessing. Rerunning with num_workers=0 may give better error trace."
        )

    def _shutdown_workers(self) -> None:
        """End the workers, and the iteration."""
        self._finalizer()
        self._active, self._arrived = [False] * self._num_workers, {}


def _ending(code: int) -> str:
    if code >= 0:
        return f"exited with exit code {code}"
    with suppress(ValueError):
        return f"is killed by signal: {strsignal(Signals(-code))}"
    return f"is killed by signal {-code}"


def _end(workers: list[Any], channels: list[Any], process: int) -> None:
    """End workers: by a message, else by SIGTERM, else by SIGKILL. In a fork of the process that started them, do
    nothing."""
    if os.getpid() != process:
        return
    for channel in channels:
        with suppress(OSError):
            channel.send(None)
        channel.close()  # a worker that is sending a batch gets an error
    for ask in ("terminate", "kill", None):
        end = time.monotonic() + _GRACE
        for worker in workers:
            worker.join(max(0.0, end - time.monotonic()))
            if worker.is_alive() and ask is not None:
                getattr(worker, ask)()
    workers.clear()
    channels.clear()
