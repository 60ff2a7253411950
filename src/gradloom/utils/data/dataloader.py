"""DataLoader: a data set's examples in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import gradloom as gl

from ...core.user_stack import warn_once
from .._refused import refused
from ._collate import default_collate, default_convert
from .dataset import IterableDataset
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]
_FIXED = frozenset(("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"))


def get_worker_info() -> None:
    """Return None: there are no worker processes."""
    return None


class DataLoader:
    """Iterate over a data set in batches.

    The calling thread loads the examples when a batch is requested, whatever `num_workers` is.

    Args:
        dataset: a Dataset, anything with `__getitem__` and `__len__`, or an IterableDataset.
        batch_size: examples per batch; None for single examples.
        shuffle: take examples in random order.
        sampler: order, as an iterable of indices.
        batch_sampler: batches, as an iterable of lists of indices.
        num_workers: number of processes that PyTorch would load with; no effect.
        collate_fn: makes a batch of a list of examples, by default default_collate.
        pin_memory: no effect: there is no accelerator.
        drop_last: drop the last batch if it is smaller.
        timeout, worker_init_fn, multiprocessing_context, prefetch_factor, persistent_workers, pin_memory_device,
            in_order: options of processes; checked, without effect.
        generator: source of the random order, by default a new one each time, seeded by the default generator.

    Raises:
        ValueError: for options that contradict each other.
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
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers, multiprocessing_context)
        self.dataset, self.num_workers, self.generator = dataset, num_workers, generator
        self.pin_memory, self.pin_memory_device, self.in_order = pin_memory, pin_memory_device, in_order
        self.timeout, self.worker_init_fn = timeout, worker_init_fn
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.multiprocessing_context: Any = multiprocessing_context
        self.persistent_workers = persistent_workers
        self._iterates = isinstance(dataset, IterableDataset)
        if self._iterates:
            _check_iterable(shuffle, sampler, batch_sampler)
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
                _Endless()
                if self._iterates
                else (RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset))
            )
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size, self.drop_last = batch_size, drop_last
        self.sampler, self.batch_sampler = sampler, batch_sampler
        batches = batch_sampler is not None
        self.collate_fn: Callable[[Any], Any] = collate_fn or (default_collate if batches else default_convert)
        self._initialized = True

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _FIXED and getattr(self, "_initialized", False):
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)

    def __len__(self) -> int:
        if not self._iterates:
            return len(self._indices)
        count = len(self.dataset)
        if self.batch_size is None:
            return count
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)

    @property
    def _indices(self) -> Any:
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    def __iter__(self) -> Iterator[Any]:
        if self.num_workers:
            warn_once(
                "num_workers",
                "DataLoader: examples are loaded by the process that asks for them; num_workers has no effect",
                2,
            )
        if self.pin_memory:
            warn_once(
                "pin_memory",
                "'pin_memory' argument is set as true but no accelerator is found, then device "
                "pinned memory won't be used.",
                2,
            )
        # PyTorch's loaders draw a seed for their workers at each iteration, even without workers.
        gl.empty((), dtype=gl.int64).random_(generator=self.generator)
        return self._iterated() if self._iterates else self._looked_up()

    def _looked_up(self) -> Iterator[Any]:
        if self.batch_sampler is None:
            for index in self.sampler:
                yield self.collate_fn(self.dataset[index])
            return
        whole = getattr(self.dataset, "__getitems__", None)
        for batch in self.batch_sampler:
            yield self.collate_fn(whole(batch) if whole else [self.dataset[index] for index in batch])

    def _iterated(self) -> Iterator[Any]:
        examples = iter(self.dataset)
        if self.batch_sampler is None:
            yield from map(self.collate_fn, examples)
            return
        assert self.batch_size is not None
        while batch := list(islice(examples, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield self.collate_fn(batch)


# Programs ask whether an iterator is one of these; iterators are generators here.
_BaseDataLoaderIter: Any = refused("torch.utils.data.dataloader._BaseDataLoaderIter", "call iter() of a DataLoader")
_MultiProcessingDataLoaderIter: Any = refused(
    "torch.utils.data.dataloader._MultiProcessingDataLoaderIter", "call iter() of a DataLoader"
)


class _Endless(Sampler[None]):
    """Sampler of an IterableDataset, which has its own order."""

    def __iter__(self) -> Iterator[None]:
        while True:
            yield None


def _check_workers(count, timeout, prefetch, persistent, context) -> None:
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
    if context is not None and not count:
        raise ValueError(
            "multiprocessing_context can only be used with multi-process loading (num_workers > 0), but "
            f"got num_workers={count}"
        )


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
