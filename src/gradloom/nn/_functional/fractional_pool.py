"""Fractional max pooling, over windows of random sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import gradloom as gl
from gradloom.nn._functional import operators as ops
from gradloom.nn._functional._pool_types import typed_fractional_max_pool
from gradloom.nn._functional.pool import repeated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gradloom import Tensor
    from gradloom.types import IntList

__all__ = [
    "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
]


def _fractional(input, kernel_size, output_size, output_ratio, samples, dims, pool):
    if output_size is None and output_ratio is None:
        raise ValueError(f"fractional_max_pool{dims}d requires specifying either an output_size or an output_ratio")
    if output_size is None:
        sizes = zip(input.shape[-dims:], repeated(output_ratio, dims), strict=True)
        output_size = tuple(int(size * ratio) for size, ratio in sizes)
    if samples is None:
        batch = 1 if input.dim() == dims + 1 else input.shape[0]
        samples = gl.rand(batch, input.shape[-dims - 1], dims, dtype=input.dtype, device=input.device)
    return pool(input, kernel_size, output_size, samples)


def fractional_max_pool2d_with_indices(
    input: Tensor,
    kernel_size: int | IntList,
    output_size: int | IntList | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Fractional max pooling (Graham 2014) to a size or a ratio of it, and the indices of the maxima.

    Args:
        kernel_size: extent of the windows: int, or one per dimension.
        output_size: the size of the result; this or `output_ratio`.
        output_ratio: the size of the result as a share of the input, between 0 and 1.
        return_indices: has no effect: the indices are returned in any case.
    """
    return _fractional(input, kernel_size, output_size, output_ratio, _random_samples, 2, ops.fractional_max_pool2d)


def fractional_max_pool3d_with_indices(
    input: Tensor,
    kernel_size: int | IntList,
    output_size: int | IntList | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Fractional max pooling (Graham 2014) to a size or a ratio of it, and the indices of the maxima.

    Args:
        kernel_size: extent of the windows: int, or one per dimension.
        output_size: the size of the result; this or `output_ratio`.
        output_ratio: the size of the result as a share of the input, between 0 and 1.
        return_indices: has no effect: the indices are returned in any case.
    """
    return _fractional(input, kernel_size, output_size, output_ratio, _random_samples, 3, ops.fractional_max_pool3d)


@typed_fractional_max_pool
def fractional_max_pool2d(
    input: Tensor,
    kernel_size: int | IntList,
    output_size: int | IntList | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """Fractional max pooling (Graham 2014); with `return_indices` also where the maxima are.

    Args:
        kernel_size: extent of the windows: int, or one per dimension.
        output_size: the size of the result; this or `output_ratio`.
        output_ratio: the size of the result as a share of the input, between 0 and 1.
    """
    both = fractional_max_pool2d_with_indices(input, kernel_size, output_size, output_ratio, True, _random_samples)
    return both if return_indices else both[0]


@typed_fractional_max_pool
def fractional_max_pool3d(
    input: Tensor,
    kernel_size: int | IntList,
    output_size: int | IntList | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """Fractional max pooling (Graham 2014); with `return_indices` also where the maxima are.

    Args:
        kernel_size: extent of the windows: int, or one per dimension.
        output_size: the size of the result; this or `output_ratio`.
        output_ratio: the size of the result as a share of the input, between 0 and 1.
    """
    both = fractional_max_pool3d_with_indices(input, kernel_size, output_size, output_ratio, True, _random_samples)
    return both if return_indices else both[0]
