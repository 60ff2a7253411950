"""Data sets: examples by index, or one after the other."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from math import isclose
from typing import Any, Generic, TypeVar

import gradloom as gl

_Example = TypeVar("_Example", covariant=True)


class Dataset(Generic[_Example]):
    """Base of examples by index: subclasses define `__getitem__`, and `__len__` where it is known.

    A method `__getitems__(indices)` that returns a list of examples is used for whole batches.
    """

    def __getitem__(self, index: Any) -> _Example:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset[_Example]) -> ConcatDataset[_Example]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[_Example], Iterable[_Example]):
    """Base of examples one after the other: subclasses define `__iter__`, the abstract method of `Iterable`."""

    def __add__(self, other: Dataset[_Example]) -> ChainDataset:  # type: ignore[override]
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[gl.Tensor, ...]]):
    """Rows of tensors: example i has row i of each.

    Args:
        tensors: tensors of the same size in the first dimension.

    Raises:
        AssertionError: if their sizes differ.
    """

    tensors: tuple[gl.Tensor, ...]

    def __init__(self, *tensors: gl.Tensor) -> None:
        if any(len(t) != len(tensors[0]) for t in tensors):
            raise AssertionError(f"Size mismatch between tensors: {[len(t) for t in tensors]}")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[gl.Tensor, ...]:
        return tuple([tensor[index] for tensor in self.tensors])

    def __len__(self) -> int:
        return len(self.tensors[0])


class StackDataset(Dataset[Any]):
    """Several data sets side by side: example i is a tuple of their examples i, or a dict if they are named.

    Args:
        args, kwargs: data sets of the same length, by position or by name.

    Raises:
        ValueError: for none, for both forms, or for different lengths.
    """

    datasets: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if bool(args) == bool(kwargs):
            raise ValueError("StackDataset takes data sets either in a row, to give tuples, or by name, to give dicts")
        self.datasets = args or kwargs
        parts = args or tuple(kwargs.values())
        if any(len(part) != len(parts[0]) for part in parts):
            raise ValueError(f"Size mismatch between datasets: {[len(part) for part in parts]}")
        self._length = len(parts[0])

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: part[index] for name, part in self.datasets.items()}
        return tuple([part[index] for part in self.datasets])

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[_Example]):
    """Data sets one after the other.

    Args:
        datasets: one or more with a length.

    Raises:
        AssertionError: for none, or an IterableDataset.
    """

    datasets: list[Any]
    cumulative_sizes: list[int]

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(part, IterableDataset) for part in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset: use ChainDataset")
        self.cumulative_sizes = list(accumulate([len(part) for part in self.datasets]))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: Any) -> _Example:
        if index < 0:
            if -index > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            index += len(self)
        which = bisect_right(self.cumulative_sizes, index)
        return self.datasets[which][index - (self.cumulative_sizes[which - 1] if which else 0)]


class ChainDataset(IterableDataset[Any]):
    """IterableDatasets one after the other.

    Args:
        datasets: the IterableDatasets.
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = datasets

    def __iter__(self) -> Iterator[Any]:
        for part in self.datasets:
            if not isinstance(part, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield from part

    def __len__(self) -> int:
        return sum([len(part) for part in self.datasets])  # type: ignore[arg-type]


class Subset(Dataset[_Example]):
    """Some examples of another data set.

    Args:
        dataset: the other data set.
        indices: indices of its examples, in order.
    """

    dataset: Any
    indices: Sequence[int]

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index: Any) -> _Example:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> list[Any]:
        """Return the examples of a batch.

        Args:
            indices: indices within this subset.
        """
        chosen = [self.indices[i] for i in indices]
        whole = getattr(self.dataset, "__getitems__", None)
        return whole(chosen) if callable(whole) else [self.dataset[i] for i in chosen]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Any, lengths: Sequence[int | float], generator: gl.Generator | None = None
) -> list[Subset[Any]]:
    """Split a data set at random.

    Args:
        dataset: a data set with a length.
        lengths: sizes of the parts, or fractions that add up to 1; the remainder after rounding down goes to the parts
            in turn.
        generator: source of random numbers, by default the default generator.

    Raises:
        ValueError: if the lengths do not add up, or a fraction is not between 0 and 1.
    """
    total = len(dataset)
    if isclose(sum(lengths), 1) and sum(lengths) <= 1:
        for i, fraction in enumerate(lengths):
            if not 0 <= fraction <= 1:
                raise ValueError(f"Fraction at index {i} is not between 0 and 1")
        counts = [int(total * fraction) for fraction in lengths]
        for i in range(total - sum(counts)):
            counts[i % len(counts)] += 1
        for i, count in enumerate(counts):
            if not count:
                import warnings

                warnings.warn(
                    f"Length of split at index {i} is 0. This might result in an empty dataset.", stacklevel=2
                )
    else:
        counts = list(lengths)  # type: ignore[arg-type]
    if sum(counts) != total:
        raise ValueError("Sum of input lengths does not equal the length of the input dataset!")
    order = gl.randperm(total, generator=generator).tolist()
    return [Subset(dataset, order[end - count : end]) for count, end in zip(counts, accumulate(counts), strict=True)]
