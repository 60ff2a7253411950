"""DataLoader: a data set's examples in batches."""

from __future__ import annotations

import multiprocessing
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.context import BaseContext
from typing import Any, TypeVar

import gradloom as gl

from ...multiprocessing.spawn import require_processes
from . import _pipes
from ._iterators import _BaseDataLoaderIter, _DatasetKind, _MultiProcessingDataLoaderIter, _SingleProcessDataLoaderIter
from ._utils.collate import default_collate, default_convert
from ._utils.worker import get_worker_info
from .dataset import IterableDataset
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]
_T = TypeVar("_T")
_collate_fn_t = Callable[[list[_T]], Any]  # packages annotate with it
_worker_init_fn_t = Callable[[int], None]
_FIXED = frozenset(("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"))


class DataLoader:
    """Iterate over a data set in batches.

    With `num_workers=0` the calling thread loads the examples when a batch is requested. Worker processes load them
    ahead of time, and send the tensors of a batch through shared memory; batches come in the same order. A worker has
    its own copy of the data set, and seeds `random`, NumPy's and the default generator by a number that the parent
    draws from `generator`, plus its index.

    Args:
        dataset: a Dataset, anything with `__getitem__` and `__len__`, or an IterableDataset.
        batch_size: examples per batch; None for single examples.
        shuffle: take examples in random order.
        sampler: order, as an iterable of indices.
        batch_sampler: batches, as an iterable of lists of indices.
        num_workers: number of worker processes.
        collate_fn: makes a batch of a list of examples, by default default_collate.
        pin_memory: no effect: there is no accelerator.
        drop_last: drop the last batch if it is smaller.
        timeout: seconds to wait for a batch of a worker; 0 for no limit.
        worker_init_fn: function that each worker calls with its index, after seeding.
        multiprocessing_context: a context of multiprocessing, or the name of a start method.
        generator: source of the random order, by default a new one each time, seeded by the default generator.
        prefetch_factor: batches per worker that are loaded ahead of time; 2 by default.
        persistent_workers: keep the workers for the next iteration.
        pin_memory_device: no effect.
        in_order: yield batches in the order of the sampler; else as they arrive.

    Raises:
        ValueError: for options that contradict each other.
        TypeError: if `multiprocessing_context` is neither a context nor a name.
        RuntimeError: for workers, if this Python cannot start processes.
    """

    dataset: Any
    batch_size: int | None
    drop_last: bool
    sampler: Iterable[Any]
    batch_sampler: Iterable[Any] | None
    num_workers: int
    generator: gl.Generator | None
    pin_memory: bool
    pin_memory_device: str
    in_order: bool
    timeout: float
    worker_init_fn: Callable[[int], None] | None
    prefetch_factor: int | None
    persistent_workers: bool

    __initialized = False  # by this name subclasses replace the sampler: `_DataLoader__initialized`

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: gl.Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        self.dataset, self.num_workers, self.generator = dataset, num_workers, generator
        self.pin_memory, self.pin_memory_device, self.in_order = pin_memory, pin_memory_device, in_order
        self.timeout, self.worker_init_fn = timeout, worker_init_fn
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.multiprocessing_context = multiprocessing_context
        self.persistent_workers = persistent_workers
        iterates = isinstance(dataset, IterableDataset)
        piped = _pipes.kind_of(dataset)
        if piped:
            self.dataset = _pipes.wrapped(dataset, piped)
        self._dataset_kind = _DatasetKind.Iterable if iterates else _DatasetKind.Map
        if iterates:
            if piped:
                _pipes.set_shuffle(dataset, shuffle)
            _check_iterable(None if piped else shuffle, sampler, batch_sampler)
            shuffle = False
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
                )
            batch_size, drop_last = None, False
        elif batch_size is None and drop_last:
            raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
        if sampler is None:
            sampler = (
                _InfiniteConstantSampler()
                if iterates
                else (RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset))
            )
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size, self.drop_last = batch_size, drop_last
        self.sampler, self.batch_sampler = sampler, batch_sampler
        batches = batch_sampler is not None
        self.collate_fn: Callable[[Any], Any] = collate_fn or (default_collate if batches else default_convert)
        self.__initialized = True
        self._IterableDataset_len_called: int | None = None
        self._iterator: _MultiProcessingDataLoaderIter | None = None
        self.check_worker_number_rationality()

    @property
    def multiprocessing_context(self) -> Any:
        """The context that starts the workers, or None for the default one."""
        return self.__multiprocessing_context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        self.__multiprocessing_context = None if context is None else _context(context, self.num_workers)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _FIXED and self.__initialized:
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)

    def __len__(self) -> int:
        if self._dataset_kind == _DatasetKind.Map:
            return len(self._index_sampler)
        count = self._IterableDataset_len_called = len(self.dataset)
        if self.batch_size is None:
            return count
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    def __iter__(self) -> _BaseDataLoaderIter:
        if not self.persistent_workers:
            return self._get_iterator()
        if self._iterator is None or not self._iterator._workers:
            self._iterator = _MultiProcessingDataLoaderIter(self)
        else:
            self._iterator._reset(self)
        return self._iterator

    def _get_iterator(self) -> _BaseDataLoaderIter:
        return _MultiProcessingDataLoaderIter(self) if self.num_workers else _SingleProcessDataLoaderIter(self)

    def check_worker_number_rationality(self) -> None:
        """Warn if there are to be more workers than cores."""
        counted = hasattr(os, "sched_getaffinity")
        cores = len(os.sched_getaffinity(0)) if counted else os.cpu_count()
        if not self.num_workers or cores is not None and self.num_workers <= cores:
            return
        advice = "DataLoader is not able to compute a suggested max number of worker in current system."
        if cores is not None:
            advice = (
                f"Our suggested max number of worker in current system is {cores}"
                f"{'' if counted else ' (`cpuset` is not taken into account)'}, which is smaller than what this "
                "DataLoader is going to create."
            )
        warnings.warn(
            f"This DataLoader will create {self.num_workers} worker processes in total. {advice} Please be aware that "
            "excessive worker creation might get DataLoader running slow or even freeze, lower the worker number to "
            "avoid potential slowness/freeze if necessary.",
            stacklevel=3,
        )


class _InfiniteConstantSampler(Sampler[None]):
    """Sampler of an IterableDataset, which has its own order."""

    def __iter__(self) -> Iterator[None]:
        while True:
            yield None


def _check_workers(count, timeout, prefetch, persistent) -> None:
    if count < 0:
        raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if not count and prefetch is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing.let num_workers > 0 to "
            "enable multiprocessing, otherwise set prefetch_factor to None."
        )
    if count and prefetch is not None and prefetch < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if persistent and not count:
        raise ValueError("persistent_workers option needs num_workers > 0")
    if count:
        require_processes("use num_workers=0, with which the DataLoader loads its examples itself")


def _context(context: Any, count: int) -> BaseContext:
    """Return a context of multiprocessing, from one or the name of its start method."""
    if not count:
        raise ValueError(
            "multiprocessing_context can only be used with multi-process loading (num_workers > 0), but "
            f"got num_workers={count}"
        )
    if isinstance(context, str):
        methods = multiprocessing.get_all_start_methods()
        if context not in methods:
            raise ValueError(
                f"multiprocessing_context option should specify a valid start method in {methods!r}, but got "
                f"multiprocessing_context={context!r}"
            )
        context = multiprocessing.get_context(context)
    if not isinstance(context, BaseContext):
        raise TypeError(
            "multiprocessing_context option should be a valid context object or a string specifying the start method, "
            f"but got multiprocessing_context={context}"
        )
    return context


def _check_iterable(shuffle, sampler, batch_sampler) -> None:
    for name, value, given in (
        ("shuffle", shuffle, bool(shuffle)),
        ("sampler", sampler, sampler is not None),
        ("batch_sampler", batch_sampler, batch_sampler is not None),
    ):
        if given:
            raise ValueError(
                f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}"
            )
