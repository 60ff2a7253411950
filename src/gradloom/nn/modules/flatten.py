"""Modules that change shapes."""

from __future__ import annotations

from gradloom import Tensor
from gradloom.nn.modules._fields import fields
from gradloom.nn.modules.module import Module
from gradloom.types import IntList

__all__ = ["Flatten", "Unflatten"]


@fields()
class Flatten(Module):
    """Join the dimensions from `start_dim` to `end_dim`, inclusive, into one.

    Args:
        start_dim: first dimension to join.
        end_dim: last dimension to join.

    Shape:
        input: (*, S_start, ..., S_end, *).
        output: (*, S_start * ... * S_end, *).
    """

    start_dim: int = 1
    end_dim: int = -1

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)


@fields()
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

    dim: int
    unflattened_size: IntList

    def _check_fields(self) -> None:
        if not isinstance(self.dim, int):
            raise TypeError(f"Unflatten takes the index of a dimension, got {type(self.dim).__name__}")
        if not isinstance(self.unflattened_size, (tuple, list)):
            raise TypeError(
                f"unflattened_size must be a tuple of ints, but found type {type(self.unflattened_size).__name__}"
            )
        for position, size in enumerate(self.unflattened_size):
            if not isinstance(size, int):
                raise TypeError(
                    "unflattened_size must be tuple of ints, but found element of type "
                    f"{type(size).__name__} at pos {position}"
                )

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)
