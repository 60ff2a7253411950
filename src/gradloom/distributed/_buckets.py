"""Buckets of gradients: contiguous memory that one collective reduces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.tensor import wrap

__all__ = ["Bucket", "GradBucket", "assigned"]


def assigned(sizes: Sequence[int], kinds: Sequence[Any], limits: Sequence[int]) -> list[list[int]]:
    """Distribute parameters to buckets.

    Args:
        sizes: bytes of each parameter.
        kinds: what parameters of one bucket have in common: their dtype.
        limits: bytes after which a bucket is full: of the first bucket of a kind, the second, and so on; the last
            limit holds for all further ones.

    Returns:
        numbers of the parameters by bucket, in the order of each bucket's first parameter.
    """
    done: list[list[int]] = []
    filling: dict[Any, tuple[list[int], int]] = {}
    opened: dict[Any, int] = {}
    for number, (size, kind) in enumerate(zip(sizes, kinds, strict=True)):
        numbers, total = filling.get(kind, ([], 0))
        numbers.append(number)
        if total + size >= limits[min(opened.get(kind, 0), len(limits) - 1)]:
            done.append(numbers)
            filling.pop(kind, None)
            opened[kind] = opened.get(kind, 0) + 1
        else:
            filling[kind] = numbers, total + size
    done += [numbers for numbers, _ in filling.values()]
    return sorted(done, key=lambda numbers: numbers[0])


class Bucket:
    """Gradients of some parameters, one behind the other.

    Args:
        index: number of the bucket.
        numbers: of the parameters.
        parameters: all of the module's.

    Attributes:
        array: the gradients, 1-D; `tensor` is on the same memory.
        views: a part of it for each parameter, in its shape.
        pending: number of gradients that have not arrived.
        work: what reduces it, and has a method `wait`.
    """

    __slots__ = ("array", "index", "numbers", "parameters", "pending", "tensor", "views", "work")

    def __init__(self, index: int, numbers: Sequence[int], parameters: Sequence[Any]) -> None:
        self.index, self.numbers = index, tuple(numbers)
        self.parameters = [parameters[number] for number in numbers]
        self.array = np.zeros(sum(p.numel() for p in self.parameters), self.parameters[0]._array.dtype)
        self.tensor = wrap(self.array)
        self.views: list[np.ndarray] = []
        start = 0
        for parameter in self.parameters:
            end = start + parameter.numel()
            self.views.append(self.array[start:end].reshape(tuple(parameter.shape)))
            start = end
        self.pending, self.work = len(numbers), None


class GradBucket:
    """A bucket as communication hooks see it.

    Args:
        bucket: what it shows.
        count: number of buckets.
    """

    def __init__(self, bucket: Bucket, count: int) -> None:
        self._bucket, self._count = bucket, count
        self._tensor = bucket.tensor

    def index(self) -> int:
        """Return the number of the bucket; buckets are reduced in this order."""
        return self._bucket.index

    def is_last(self) -> bool:
        """Return whether this bucket is the last of a backward pass."""
        return self._bucket.index == self._count - 1

    def buffer(self) -> Any:
        """Return all gradients of the bucket, one behind the other, shape (n,)."""
        return self._tensor

    def set_buffer(self, buffer: Any) -> None:
        """Make `buffer`, of the same shape, the result of `buffer()`."""
        self._tensor = buffer

    def gradients(self) -> list[Any]:
        """Return the gradients in the shapes of their parameters: views of `buffer()`."""
        sizes = [parameter.numel() for parameter in self._bucket.parameters]
        parts = self._tensor.split(sizes)
        return [part.view(p.shape) for part, p in zip(parts, self._bucket.parameters, strict=True)]

    def parameters(self) -> list[Any]:
        """Return the parameters, in the order of their gradients."""
        return list(self._bucket.parameters)
