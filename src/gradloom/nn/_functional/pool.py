"""Pooling: sizes with their defaults, and results with or without the indices of the maxima."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, overload

import gradloom as gl
from gradloom.nn._functional import operators as ops

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
    "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool2d_with_indices",
    "max_pool3d",
    "max_pool3d_with_indices",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
]


@overload
def max_pool1d(
    input: Tensor, kernel_size: int | IntList, stride: int | IntList | None = None, padding: int | IntList = 0,
    dilation: int | IntList = 1, ceil_mode: bool = False, return_indices: Literal[False] = False
) -> Tensor: ...


@overload
def max_pool1d(
    input: Tensor, kernel_size: int | IntList, stride: int | IntList | None = None, padding: int | IntList = 0,
    dilation: int | IntList = 1, ceil_mode: bool = False, *, return_indices: Literal[True]
) -> tuple[Tensor, Tensor]: ...


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


@overload
def max_pool2d(
    input: Tensor, kernel_size: int | IntList, stride: int | IntList | None = None, padding: int | IntList = 0,
    dilation: int | IntList = 1, ceil_mode: bool = False, return_indices: Literal[False] = False
) -> Tensor: ...


@overload
def max_pool2d(
    input: Tensor, kernel_size: int | IntList, stride: int | IntList | None = None, padding: int | IntList = 0,
    dilation: int | IntList = 1, ceil_mode: bool = False, *, return_indices: Literal[True]
) -> tuple[Tensor, Tensor]: ...


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


@overload
def max_pool3d(
    input: Tensor, kernel_size: int | IntList, stride: int | IntList | None = None, padding: int | IntList = 0,
    dilation: int | IntList = 1, ceil_mode: bool = False, return_indices: Literal[False] = False
) -> Tensor: ...


@overload
def max_pool3d(
    input: Tensor, kernel_size: int | IntList, stride: int | IntList | None = None, padding: int | IntList = 0,
    dilation: int | IntList = 1, ceil_mode: bool = False, *, return_indices: Literal[True]
) -> tuple[Tensor, Tensor]: ...


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


def _tuple(value, count):
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * count


def _output_size(input, output_size, count):
    """The sizes asked for, with None filled in by the input's own.

    A single number stands for all dimensions.
    """
    wanted = _tuple(output_size, count)
    if isinstance(output_size, (tuple, list)) and input.dim() <= len(wanted):
        raise ValueError(f"Input dimension should be at least {len(wanted) + 1}")
    if None not in wanted:
        return output_size
    return tuple(
        size if want is None else want for want, size in zip(wanted, input.shape[-len(wanted) :], strict=True)
    )


@overload
def adaptive_max_pool1d(
    input: Tensor, output_size: int | None | Sequence[int | None], return_indices: Literal[False] = False
) -> Tensor: ...


@overload
def adaptive_max_pool1d(
    input: Tensor, output_size: int | None | Sequence[int | None], *, return_indices: Literal[True]
) -> tuple[Tensor, Tensor]: ...


def adaptive_max_pool1d(input: Tensor, output_size: int | None | Sequence[int | None],
                        return_indices: bool = False) -> Tensor | tuple[Tensor, Tensor]:
    """Maxima over as many windows as `output_size` says; with `return_indices` also where they are.

    Args:
        input: (N, C, L) or (C, L), floating.
    """
    both = ops.adaptive_max_pool1d(input, output_size)
    return both if return_indices else both[0]


@overload
def adaptive_max_pool2d(
    input: Tensor, output_size: int | None | Sequence[int | None], return_indices: Literal[False] = False
) -> Tensor: ...


@overload
def adaptive_max_pool2d(
    input: Tensor, output_size: int | None | Sequence[int | None], *, return_indices: Literal[True]
) -> tuple[Tensor, Tensor]: ...


def adaptive_max_pool2d(input: Tensor, output_size: int | None | Sequence[int | None],
                        return_indices: bool = False) -> Tensor | tuple[Tensor, Tensor]:
    """Maxima over as many windows as `output_size` says (None keeps a size).

    Optionally with their indices.

    Args:
        input: (N, C, H, W) or (C, H, W), floating.
        return_indices: also return where the maxima are.
    """
    both = ops.adaptive_max_pool2d(input, _output_size(input, output_size, 2))
    return both if return_indices else both[0]


@overload
def adaptive_max_pool3d(
    input: Tensor, output_size: int | None | Sequence[int | None], return_indices: Literal[False] = False
) -> Tensor: ...


@overload
def adaptive_max_pool3d(
    input: Tensor, output_size: int | None | Sequence[int | None], *, return_indices: Literal[True]
) -> tuple[Tensor, Tensor]: ...


def adaptive_max_pool3d(input: Tensor, output_size: int | None | Sequence[int | None],
                        return_indices: bool = False) -> Tensor | tuple[Tensor, Tensor]:
    """Maxima over as many windows as `output_size` says (None keeps a size).

    Optionally with their indices.

    Args:
        input: (N, C, D, H, W) or (C, D, H, W), floating.
        return_indices: also return where the maxima are.
    """
    both = ops.adaptive_max_pool3d(input, _output_size(input, output_size, 3))
    return both if return_indices else both[0]


def adaptive_max_pool1d_with_indices(input: Tensor, output_size: int | None | Sequence[int | None],
                                     return_indices: bool = False) -> tuple[Tensor, Tensor]:
    """`adaptive_max_pool1d` with the indices.

    Args:
        output_size: int, or one per dimension; None keeps that of the input.
        return_indices: has no effect: the indices are returned in any case.
    """
    return adaptive_max_pool1d(input, output_size, True)


def adaptive_max_pool2d_with_indices(input: Tensor, output_size: int | None | Sequence[int | None],
                                     return_indices: bool = False) -> tuple[Tensor, Tensor]:
    """`adaptive_max_pool2d` with the indices.

    Args:
        output_size: int, or one per dimension; None keeps that of the input.
        return_indices: has no effect: the indices are returned in any case.
    """
    return adaptive_max_pool2d(input, output_size, True)


def adaptive_max_pool3d_with_indices(input: Tensor, output_size: int | None | Sequence[int | None],
                                     return_indices: bool = False) -> tuple[Tensor, Tensor]:
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
    kernel = _tuple(kernel_size, dims)
    count = 1
    for size in kernel:
        count *= size
    stride = kernel if stride is None else _tuple(stride, dims)
    mean = average(input.pow(norm_type), kernel, stride, 0, ceil_mode)
    # relu passes nothing back where a window's sum is 0, where the root has no derivative.
    return (mean.sign() * mean.abs().relu()).mul(count).pow(1.0 / norm_type)


def lp_pool1d(input: Tensor, norm_type: float, kernel_size: int | IntList, stride: int | IntList | None = None,
              ceil_mode: bool = False) -> Tensor:
    """(sum of x ** norm_type over each window) ** (1 / norm_type).

    Args:
        input: (N, C, L) or (C, L), floating.
        kernel_size: extent of the windows: int, or one per dimension.
        stride: distance between windows, by default the kernel_size.
        ceil_mode: round the number of windows up, so that the last may reach beyond the end.
    """
    return _lp_pool(input, norm_type, kernel_size, stride, ceil_mode, 1, ops.avg_pool1d)


def lp_pool2d(input: Tensor, norm_type: float, kernel_size: int | IntList, stride: int | IntList | None = None,
              ceil_mode: bool = False) -> Tensor:
    """(sum of x ** norm_type over each window) ** (1 / norm_type).

    Args:
        input: (N, C, H, W) or (C, H, W), floating.
        kernel_size: extent of the windows: int, or one per dimension.
        stride: distance between windows, by default the kernel_size.
        ceil_mode: round the number of windows up, so that the last may reach beyond the end.
    """
    return _lp_pool(input, norm_type, kernel_size, stride, ceil_mode, 2, ops.avg_pool2d)


def lp_pool3d(input: Tensor, norm_type: float, kernel_size: int | IntList, stride: int | IntList | None = None,
              ceil_mode: bool = False) -> Tensor:
    """(sum of x ** norm_type over each window) ** (1 / norm_type).

    Args:
        input: (N, C, D, H, W) or (C, D, H, W), floating.
        kernel_size: extent of the windows: int, or one per dimension.
        stride: distance between windows, by default the kernel_size.
        ceil_mode: round the number of windows up, so that the last may reach beyond the end.
    """
    return _lp_pool(input, norm_type, kernel_size, stride, ceil_mode, 3, ops.avg_pool3d)


def _fractional(input, kernel_size, output_size, output_ratio, samples, dims, pool):
    if output_size is None and output_ratio is None:
        raise ValueError(
            f"fractional_max_pool{dims}d requires specifying either an output_size or an output_ratio"
        )
    if output_size is None:
        sizes = zip(input.shape[-dims:], _tuple(output_ratio, dims), strict=True)
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
    return _fractional(
        input, kernel_size, output_size, output_ratio, _random_samples, 2, ops.fractional_max_pool2d
    )


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
    return _fractional(
        input, kernel_size, output_size, output_ratio, _random_samples, 3, ops.fractional_max_pool3d
    )


@overload
def fractional_max_pool2d(
    input: Tensor, kernel_size: int | IntList, output_size: int | IntList | None = None,
    output_ratio: float | Sequence[float] | None = None, return_indices: Literal[False] = False,
    _random_samples: Tensor | None = None
) -> Tensor: ...


@overload
def fractional_max_pool2d(
    input: Tensor, kernel_size: int | IntList, output_size: int | IntList | None = None,
    output_ratio: float | Sequence[float] | None = None, *, return_indices: Literal[True],
    _random_samples: Tensor | None = None
) -> tuple[Tensor, Tensor]: ...


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
    both = fractional_max_pool2d_with_indices(
        input, kernel_size, output_size, output_ratio, True, _random_samples
    )
    return both if return_indices else both[0]


@overload
def fractional_max_pool3d(
    input: Tensor, kernel_size: int | IntList, output_size: int | IntList | None = None,
    output_ratio: float | Sequence[float] | None = None, return_indices: Literal[False] = False,
    _random_samples: Tensor | None = None
) -> Tensor: ...


@overload
def fractional_max_pool3d(
    input: Tensor, kernel_size: int | IntList, output_size: int | IntList | None = None,
    output_ratio: float | Sequence[float] | None = None, *, return_indices: Literal[True],
    _random_samples: Tensor | None = None
) -> tuple[Tensor, Tensor]: ...


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
    both = fractional_max_pool3d_with_indices(
        input, kernel_size, output_size, output_ratio, True, _random_samples
    )
    return both if return_indices else both[0]


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
                f"invalid output_size {list(output_size)} (dim {dim} must be between {usual - step} and "
                f"{usual + step})"
            )
    return list(output_size)


def max_unpool1d(input: Tensor, indices: Tensor, kernel_size: int | IntList, stride: int | IntList | None = None,
                 padding: int | IntList = 0, output_size: IntList | None = None) -> Tensor:
    """The inverse of `max_pool1d` where the maxima were, zero elsewhere.

    Args:
        indices: int64, of the shape of `input`: where the maxima were, as max pooling returns them.
        kernel_size: extent of the windows: int, or one per dimension.
        stride: distance between windows, by default the kernel_size.
        padding: what is added to both ends before windows are taken: int, or one per dimension.
        output_size: the size of what was pooled, where windows do not determine it.
    """
    kernel = _tuple(kernel_size, 1)
    stride = kernel if stride is None else _tuple(stride, 1)
    size = _unpool_size(input, kernel, stride, _tuple(padding, 1), output_size)
    flat = ops.max_unpool2d(input.unsqueeze(-1), indices.unsqueeze(-1), [*size, 1])
    return flat.squeeze(-1)


def max_unpool2d(input: Tensor, indices: Tensor, kernel_size: int | IntList, stride: int | IntList | None = None,
                 padding: int | IntList = 0, output_size: IntList | None = None) -> Tensor:
    """The inverse of `max_pool2d` where the maxima were, zero elsewhere.

    Args:
        indices: int64, of the shape of `input`: where the maxima were, as max pooling returns them.
        kernel_size: extent of the windows: int, or one per dimension.
        stride: distance between windows, by default the kernel_size.
        padding: what is added to both ends before windows are taken: int, or one per dimension.
        output_size: the size of what was pooled, where windows do not determine it.
    """
    kernel = _tuple(kernel_size, 2)
    stride = kernel if stride is None else _tuple(stride, 2)
    return ops.max_unpool2d(
        input, indices, _unpool_size(input, kernel, stride, _tuple(padding, 2), output_size)
    )


def max_unpool3d(input: Tensor, indices: Tensor, kernel_size: int | IntList, stride: int | IntList | None = None,
                 padding: int | IntList = 0, output_size: IntList | None = None) -> Tensor:
    """The inverse of `max_pool3d` where the maxima were, zero elsewhere.

    Args:
        indices: int64, of the shape of `input`: where the maxima were, as max pooling returns them.
        kernel_size: extent of the windows: int, or one per dimension.
        stride: distance between windows, by default the kernel_size.
        padding: what is added to both ends before windows are taken: int, or one per dimension.
        output_size: the size of what was pooled, where windows do not determine it.
    """
    kernel, padding = _tuple(kernel_size, 3), _tuple(padding, 3)
    stride = kernel if stride is None else _tuple(stride, 3)
    size = _unpool_size(input, kernel, stride, padding, output_size)
    return ops.max_unpool3d(input, indices, size, stride, padding)
