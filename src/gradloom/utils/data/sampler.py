"""Samplers: orders of a data set's examples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Generic, TypeVar

import gradloom as gl

_Index = TypeVar("_Index", covariant=True)


class Sampler(Generic[_Index]):
    """Base of samplers: subclasses define `__iter__`, and `__len__` where it is known."""

    def __iter__(self) -> Iterator[_Index]:
        raise NotImplementedError("a Sampler needs __iter__")


class SequentialSampler(Sampler[int]):
    """All indices, in order.

    Args:
        data_source: an object with a length.
    """

    data_source: Any

    def __init__(self, data_source: Any) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


def _check_count(count: Any) -> None:
    if not isinstance(count, int) or isinstance(count, bool) or count <= 0:
        raise ValueError(f"num_samples should be a positive integer value, but got num_samples={count}")


def _check_replacement(replacement: Any) -> None:
    if not isinstance(replacement, bool):
        raise TypeError(f"replacement should be a boolean value, but got replacement={replacement}")


class RandomSampler(Sampler[int]):
    """All indices in random order, or a number of draws.

    Args:
        data_source: an object with a length.
        replacement: draw with replacement.
        num_samples: number of draws, by default the length.
        generator: source of random numbers, by default a new one each time, seeded by the default generator.

    Raises:
        ValueError: if `num_samples` is not positive.
        TypeError: if `replacement` is not a bool.
    """

    data_source: Any
    replacement: bool
    generator: gl.Generator | None

    def __init__(
        self,
        data_source: Any,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: gl.Generator | None = None,
    ) -> None:
        self.data_source, self.replacement, self.generator = data_source, replacement, generator
        self._num_samples = num_samples
        _check_replacement(replacement)
        _check_count(self.num_samples)

    @property
    def num_samples(self) -> int:
        """Number of indices per iteration."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        count, wanted = len(self.data_source), self.num_samples
        generator = self.generator
        if generator is None:
            generator = gl.Generator()
            generator.manual_seed(int(gl.empty((), dtype=gl.int64).random_().item()))
        if self.replacement:
            for first in range(0, wanted, 32):
                size = (min(32, wanted - first),)
                yield from gl.randint(high=count, size=size, dtype=gl.int64, generator=generator).tolist()
            return
        for _ in range(wanted // count):
            yield from gl.randperm(count, generator=generator).tolist()
        # PyTorch draws one permutation more than is needed where `count` divides `wanted`.
        yield from gl.randperm(count, generator=generator).tolist()[: wanted % count]

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[Any]):
    """Some indices in random order.

    Args:
        indices: the indices.
        generator: source of random numbers, by default the default generator.
    """

    indices: Sequence[Any]
    generator: gl.Generator | None

    def __init__(self, indices: Sequence[Any], generator: gl.Generator | None = None) -> None:
        self.indices, self.generator = indices, generator

    def __iter__(self) -> Iterator[Any]:
        for i in gl.randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices drawn with given weights.

    Args:
        weights: one per index, (number of indices,); they need not add up to 1.
        num_samples: number of draws.
        replacement: draw with replacement.
        generator: source of random numbers, by default the default generator.

    Raises:
        ValueError: if `num_samples` is not positive, or `weights` not one-dimensional.
    """

    weights: gl.Tensor
    num_samples: int
    replacement: bool
    generator: gl.Generator | None

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: gl.Generator | None = None,
    ) -> None:
        _check_count(num_samples)
        _check_replacement(replacement)
        self.weights = gl.as_tensor(weights, dtype=gl.float64)
        if self.weights.dim() != 1:
            raise ValueError(
                f"weights should be a 1d sequence but given weights have shape {tuple(self.weights.shape)}"
            )
        self.num_samples, self.replacement, self.generator = num_samples, replacement, generator

    def __iter__(self) -> Iterator[int]:
        drawn = gl.multinomial(self.weights, self.num_samples, self.replacement, generator=self.generator)
        yield from drawn.tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[Any]]):
    """Lists of another sampler's indices, one list per batch.

    Args:
        sampler: the other sampler.
        batch_size: indices per batch.
        drop_last: drop the last batch if it is smaller.

    Raises:
        ValueError: if `batch_size` is not a positive int, or `drop_last` not a bool.
    """

    sampler: Iterable[Any]
    batch_size: int
    drop_last: bool

    def __init__(self, sampler: Iterable[Any], batch_size: int, drop_last: bool) -> None:
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError(f"batch_size should be a positive integer value, but got batch_size={batch_size}")
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self) -> Iterator[list[Any]]:
        indices = iter(self.sampler)
        while batch := list(islice(indices, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        count: int = len(self.sampler)  # type: ignore[arg-type]
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)
