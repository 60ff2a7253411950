"""Pooling: sizes with their defaults, and results with or without the indices of the maxima."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradloom.nn._functional import operators as ops
from gradloom.nn._functional._pool_types import typed_adaptive_max_pool, typed_max_pool

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gradloom import Tensor
    from gradloom.types import IntList

__all__ = [
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d",
    "adaptive_max_pool3d_with_indices",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool2d_with_indices",
    "max_pool3d",
    "max_pool3d_with_indices",
]


@typed_max_pool
def max_pool1d(
    input: Tensor,
    kernel_size: int | IntList,
    stride: int | IntList | None = None,
    padding: int | IntList = 0,
    dilation: int | IntList = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Maxima over windows of (batch, channels, length); with `return_indices` also where they are.

    Args:
        input: (N, C, L) or (C, L), floating.
        kernel_size: extent of the windows: int, or one per dimension.
        stride: distance between windows, by default the kernel_size.
        padding: what is added to both ends before windows are taken: int, or one per dimension.
        dilation: distance between the elements of a window.
        ceil_mode: round the number of windows up, so that the last may reach beyond the end.
    """
    stride = () if stride is None else stride
    pool = ops.max_pool1d_with_indices if return_indices else ops.max_pool1d
    return pool(input, kernel_size, stride, padding, dilation, ceil_mode)


@typed_max_pool
def max_pool2d(
    input: Tensor,
    kernel_size: int | IntList,
    stride: int | IntList | None = None,
    padding: int | IntList = 0,
    dilation: int | IntList = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Maxima over windows of (batch, channels, height, width); with `return_indices` also where they are.

    Args:
        input: (N, C, H, W) or (C, H, W), floating.
        kernel_size: extent of the windows: int, or one per dimension.
        stride: distance between windows, by default the kernel_size.
        padding: what is added to both ends before windows are taken: int, or one per dimension.
        dilation: distance between the elements of a window.
        ceil_mode: round the number of windows up, so that the last may reach beyond the end.
    """
    stride = () if stride is None else stride
    pool = ops.max_pool2d_with_indices if return_indices else ops.max_pool2d
    return pool(input, kernel_size, stride, padding, dilation, ceil_mode)


@typed_max_pool
def max_pool3d(
    input: Tensor,
    kernel_size: int | IntList,
    stride: int | IntList | None = None,
    padding: int | IntList = 0,
    dilation: int | IntList = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Maxima over windows of (batch, channels, depth, height, width).

    With `return_indices` also where they are.

    Args:
        input: (N, C, D, H, W) or (C, D, H, W), floating.
        kernel_size: extent of the windows: int, or one per dimension.
        stride: distance between windows, by default the kernel_size.
        padding: what is added to both ends before windows are taken: int, or one per dimension.
        dilation: distance between the elements of a window.
        ceil_mode: round the number of windows up, so that the last may reach beyond the end.
    """
    stride = () if stride is None else stride
    pool = ops.max_pool3d_with_indices if return_indices else ops.max_pool3d
    return pool(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool1d_with_indices(
    input: Tensor,
    kernel_size: int | IntList,
    stride: int | IntList | None = None,
    padding: int | IntList = 0,
    dilation: int | IntList = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[Tensor, Tensor]:
    """`max_pool1d` with the indices, whatever `return_indices` says.

    Args:
        input: (N, C, L) or (C, L), floating.
        kernel_size: extent of the windows: int, or one per dimension.
        stride: distance between windows, by default the kernel_size.
        padding: what is added to both ends before windows are taken: int, or one per dimension.
        dilation: distance between the elements of a window.
        ceil_mode: round the number of windows up, so that the last may reach beyond the end.
    """
    return max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode, True)


def max_pool2d_with_indices(
    input: Tensor,
    kernel_size: int | IntList,
    stride: int | IntList | None = None,
    padding: int | IntList = 0,
    dilation: int | IntList = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[Tensor, Tensor]:
    """`max_pool2d` with the indices, whatever `return_indices` says.

    Args:
        input: (N, C, H, W) or (C, H, W), floating.
        kernel_size: extent of the windows: int, or one per dimension.
        stride: distance between windows, by default the kernel_size.
        padding: what is added to both ends before windows are taken: int, or one per dimension.
        dilation: distance between the elements of a window.
        ceil_mode: round the number of windows up, so that the last may reach beyond the end.
    """
    return max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode, True)


def max_pool3d_with_indices(
    input: Tensor,
    kernel_size: int | IntList,
    stride: int | IntList | None = None,
    padding: int | IntList = 0,
    dilation: int | IntList = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[Tensor, Tensor]:
    """`max_pool3d` with the indices, whatever `return_indices` says.

    Args:
        input: (N, C, D, H, W) or (C, D, H, W), floating.
        kernel_size: extent of the windows: int, or one per dimension.
        stride: distance between windows, by default the kernel_size.
        padding: what is added to both ends before windows are taken: int, or one per dimension.
        dilation: distance between the elements of a window.
        ceil_mode: round the number of windows up, so that the last may reach beyond the end.
    """
    return max_pool3d(input, kernel_size, stride, padding, dilation, ceil_mode, True)


def repeated(value, count):
    """One value per dimension.

    Args:
        value: a number for all dimensions, or a sequence with one for each.
        count: how many dimensions there are.
    """
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * count


def _output_size(input, output_size, count):
    """The sizes asked for, with None filled in by the input's own.

    A single number stands for all dimensions.
    """
    wanted = repeated(output_size, count)
    if isinstance(output_size, (tuple, list)) and input.dim() <= len(wanted):
        raise ValueError(f"Input dimension should be at least {len(wanted) + 1}")
    if None not in wanted:
        return output_size
    return tuple(size if want is None else want for want, size in zip(wanted, input.shape[-len(wanted) :], strict=True))


@typed_adaptive_max_pool
def adaptive_max_pool1d(
    input: Tensor, output_size: int | None | Sequence[int | None], return_indices: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """Maxima over as many windows as `output_size` says; with `return_indices` also where they are.

    Args:
        input: (N, C, L) or (C, L), floating.
    """
    both = ops.adaptive_max_pool1d(input, output_size)
    return both if return_indices else both[0]


@typed_adaptive_max_pool
def adaptive_max_pool2d(
    input: Tensor, output_size: int | None | Sequence[int | None], return_indices: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """Maxima over as many windows as `output_size` says (None keeps a size).

    Optionally with their indices.

    Args:
        input: (N, C, H, W) or (C, H, W), floating.
        return_indices: also return where the maxima are.
    """
    both = ops.adaptive_max_pool2d(input, _output_size(input, output_size, 2))
    return both if return_indices else both[0]


@typed_adaptive_max_pool
def adaptive_max_pool3d(
    input: Tensor, output_size: int | None | Sequence[int | None], return_indices: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """Maxima over as many windows as `output_size` says (None keeps a size).

    Optionally with their indices.

    Args:
        input: (N, C, D, H, W) or (C, D, H, W), floating.
        return_indices: also return where the maxima are.
    """
    both = ops.adaptive_max_pool3d(input, _output_size(input, output_size, 3))
    return both if return_indices else both[0]


def adaptive_max_pool1d_with_indices(
    input: Tensor, output_size: int | None | Sequence[int | None], return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """`adaptive_max_pool1d` with the indices.

    Args:
        output_size: int, or one per dimension; None keeps that of the input.
        return_indices: has no effect: the indices are returned in any case.
    """
    return adaptive_max_pool1d(input, output_size, True)


def adaptive_max_pool2d_with_indices(
    input: Tensor, output_size: int | None | Sequence[int | None], return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """`adaptive_max_pool2d` with the indices.

    Args:
        output_size: int, or one per dimension; None keeps that of the input.
        return_indices: has no effect: the indices are returned in any case.
    """
    return adaptive_max_pool2d(input, output_size, True)


def adaptive_max_pool3d_with_indices(
    input: Tensor, output_size: int | None | Sequence[int | None], return_indices: bool = False
) -> tuple[Tensor, Tensor]:
    """`adaptive_max_pool3d` with the indices.

    Args:
        output_size: int, or one per dimension; None keeps that of the input.
        return_indices: has no effect: the indices are returned in any case.
    """
    return adaptive_max_pool3d(input, output_size, True)


def adaptive_avg_pool2d(input: Tensor, output_size: int | None | Sequence[int | None]) -> Tensor:
    """Means over as many windows as `output_size` says; None keeps that dimension's size.

    Args:
        input: (N, C, H, W) or (C, H, W), floating.
    """
    return ops.adaptive_avg_pool2d(input, _output_size(input, output_size, 2))


def adaptive_avg_pool3d(input: Tensor, output_size: int | None | Sequence[int | None]) -> Tensor:
    """Means over as many windows as `output_size` says; None keeps that dimension's size.

    Args:
        input: (N, C, D, H, W) or (C, D, H, W), floating.
    """
    return ops.adaptive_avg_pool3d(input, _output_size(input, output_size, 3))


def _lp_pool(input, norm_type, kernel_size, stride, ceil_mode, dims, average):
    kernel = repeated(kernel_size, dims)
    count = 1
    for size in kernel:
        count *= size
    stride = kernel if stride is None else repeated(stride, dims)
    mean = average(input.pow(norm_type), kernel, stride, 0, ceil_mode)
    # relu passes nothing back where a window's sum is 0, where the root has no derivative.
    return (mean.sign() * mean.abs().relu()).mul(count).pow(1.0 / norm_type)


def lp_pool1d(
    input: Tensor,
    norm_type: float,
    kernel_size: int | IntList,
    stride: int | IntList | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """(sum of x ** norm_type over each window) ** (1 / norm_type).

    Args:
        input: (N, C, L) or (C, L), floating.
        kernel_size: extent of the windows: int, or one per dimension.
        stride: distance between windows, by default the kernel_size.
        ceil_mode: round the number of windows up, so that the last may reach beyond the end.
    """
    return _lp_pool(input, norm_type, kernel_size, stride, ceil_mode, 1, ops.avg_pool1d)


def lp_pool2d(
    input: Tensor,
    norm_type: float,
    kernel_size: int | IntList,
    stride: int | IntList | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """(sum of x ** norm_type over each window) ** (1 / norm_type).

    Args:
        input: (N, C, H, W) or (C, H, W), floating.
        kernel_size: extent of the windows: int, or one per dimension.
        stride: distance between windows, by default the kernel_size.
        ceil_mode: round the number of windows up, so that the last may reach beyond the end.
    """
    return _lp_pool(input, norm_type, kernel_size, stride, ceil_mode, 2, ops.avg_pool2d)


def lp_pool3d(
    input: Tensor,
    norm_type: float,
    kernel_size: int | IntList,
    stride: int | IntList | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """(sum of x ** norm_type over each window) ** (1 / norm_type).

    Args:
        input: (N, C, D, H, W) or (C, D, H, W), floating.
        kernel_size: extent of the windows: int, or one per dimension.
        stride: distance between windows, by default the kernel_size.
        ceil_mode: round the number of windows up, so that the last may reach beyond the end.
    """
    return _lp_pool(input, norm_type, kernel_size, stride, ceil_mode, 3, ops.avg_pool3d)
