"""Unpooling: maxima go back to where they were."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradloom.nn._functional import operators as ops
from gradloom.nn._functional.pool import repeated

if TYPE_CHECKING:
    from gradloom import Tensor
    from gradloom.types import IntList

__all__ = ["max_unpool1d", "max_unpool2d", "max_unpool3d"]


def _unpool_size(input, kernel, stride, padding, output_size):
    """Spatial sizes of an unpooled result: the smallest that fit, or the given ones if possible."""
    dims = len(kernel)
    default = [
        (size - 1) * step + window - 2 * pad
        for size, step, window, pad in zip(input.shape[-dims:], stride, kernel, padding, strict=True)
    ]
    if output_size is None:
        return default
    if len(output_size) == dims + 2:
        output_size = output_size[2:]
    if len(output_size) != dims:
        raise ValueError(
            f"output_size should be a sequence containing {dims} or {dims + 2} elements, but it has a "
            f"length of '{len(output_size)}'"
        )
    for dim, (asked, usual, step) in enumerate(zip(output_size, default, stride, strict=True)):
        if not usual - step < asked < usual + step:
            raise ValueError(
                f"invalid output_size {list(output_size)} (dim {dim} must be between {usual - step} and {usual + step})"
            )
    return list(output_size)


def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: int | IntList,
    stride: int | IntList | None = None,
    padding: int | IntList = 0,
    output_size: IntList | None = None,
) -> Tensor:
    """The inverse of `max_pool1d` where the maxima were, zero elsewhere.

    Args:
        indices: int64, of the shape of `input`: where the maxima were, as max pooling returns them.
        kernel_size: extent of the windows: int, or one per dimension.
        stride: distance between windows, by default the kernel_size.
        padding: what is added to both ends before windows are taken: int, or one per dimension.
        output_size: the size of what was pooled, where windows do not determine it.
    """
    kernel = repeated(kernel_size, 1)
    stride = kernel if stride is None else repeated(stride, 1)
    size = _unpool_size(input, kernel, stride, repeated(padding, 1), output_size)
    flat = ops.max_unpool2d(input.unsqueeze(-1), indices.unsqueeze(-1), [*size, 1])
    return flat.squeeze(-1)


def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: int | IntList,
    stride: int | IntList | None = None,
    padding: int | IntList = 0,
    output_size: IntList | None = None,
) -> Tensor:
    """The inverse of `max_pool2d` where the maxima were, zero elsewhere.

    Args:
        indices: int64, of the shape of `input`: where the maxima were, as max pooling returns them.
        kernel_size: extent of the windows: int, or one per dimension.
        stride: distance between windows, by default the kernel_size.
        padding: what is added to both ends before windows are taken: int, or one per dimension.
        output_size: the size of what was pooled, where windows do not determine it.
    """
    kernel = repeated(kernel_size, 2)
    stride = kernel if stride is None else repeated(stride, 2)
    return ops.max_unpool2d(input, indices, _unpool_size(input, kernel, stride, repeated(padding, 2), output_size))


def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: int | IntList,
    stride: int | IntList | None = None,
    padding: int | IntList = 0,
    output_size: IntList | None = None,
) -> Tensor:
    """The inverse of `max_pool3d` where the maxima were, zero elsewhere.

    Args:
        indices: int64, of the shape of `input`: where the maxima were, as max pooling returns them.
        kernel_size: extent of the windows: int, or one per dimension.
        stride: distance between windows, by default the kernel_size.
        padding: what is added to both ends before windows are taken: int, or one per dimension.
        output_size: the size of what was pooled, where windows do not determine it.
    """
    kernel, padding = repeated(kernel_size, 3), repeated(padding, 3)
    stride = kernel if stride is None else repeated(stride, 3)
    size = _unpool_size(input, kernel, stride, padding, output_size)
    return ops.max_unpool3d(input, indices, size, stride, padding)
