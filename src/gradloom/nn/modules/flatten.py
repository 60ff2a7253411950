"""Modules that change shapes."""

from __future__ import annotations

from gradloom import Tensor
from gradloom.nn.modules.module import Module
from gradloom.types import IntList

__all__ = ["Flatten", "Unflatten"]


class Flatten(Module):
    """Join the dimensions from `start_dim` to `end_dim`, inclusive, into one.

    Args:
        start_dim: first dimension to join.
        end_dim: last dimension to join.

    Shape:
        input: (*, S_start, ..., S_end, *).
        output: (*, S_start * ... * S_end, *).
    """

    __constants__: list[str] = ["start_dim", "end_dim"]

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Split a dimension into several.

    Args:
        dim: dimension to split.
        unflattened_size: sizes of the new dimensions; one may be -1.

    Shape:
        input: (*, S_dim, *).
        output: (*, *unflattened_size, *), with S_dim the product of the sizes.

    Raises:
        TypeError: unless `dim` is an int and `unflattened_size` a tuple or list of ints.
    """

    __constants__: list[str] = ["dim", "unflattened_size"]

    def __init__(self, dim: int, unflattened_size: IntList) -> None:
        super().__init__()
        if not isinstance(dim, int):
            raise TypeError(f"Unflatten takes the index of a dimension, got {type(dim).__name__}")
        if not isinstance(unflattened_size, (tuple, list)):
            raise TypeError(
                f"unflattened_size must be a tuple of ints, but found type {type(unflattened_size).__name__}"
            )
        for position, size in enumerate(unflattened_size):
            if not isinstance(size, int):
                raise TypeError(
                    "unflattened_size must be tuple of ints, but found element of type "
                    f"{type(size).__name__} at pos {position}"
                )
        self.dim = dim
        self.unflattened_size = unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
