"""Pooling and unpooling: sizes with their defaults, results with or without the indices of the maxima."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, Protocol, overload

import gradloom as gl
from gradloom import Tensor
from gradloom.nn._functional import operators as ops
from gradloom.types import IntList
from gradloom.utils._documentation import spatial


def _repeated(value, count):
    """Return one value per dimension for one number or a sequence."""
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * count


_MAX_POOL = """{n}d max pooling: the maximum of each window.

    Args:
        input: (N, C, {in}) or (C, {in}), floating.
        kernel_size: size of the windows, an int or one per spatial dimension.
        stride: step of the windows, likewise; by default kernel_size.
        padding: elements of -inf added at both ends of each spatial dimension, likewise; at most half of kernel_size.
        dilation: spacing of a window's elements, likewise.
        ceil_mode: use ceil instead of floor for the output's sizes.
        return_indices: also return the indices of the maxima, for `MaxUnpool{n}d`.

    Shape:
        output: (N, C, {out}) or (C, {out}), with indices a pair of them; a size S becomes
            floor((S + 2 * padding - dilation * (kernel_size - 1) - 1) / stride) + 1.
    """
_WITH_INDICES = """Return `{name}` with the indices of the maxima.

    Args and shapes are those of `{name}`; `return_indices` has no effect.
    """


class _MaxPool(Protocol):
    """Type of max_pool1d, 2d and 3d: `return_indices=True` returns a pair."""

    @overload
    def __call__(
        self,
        input: Tensor,
        kernel_size: int | IntList,
        stride: int | IntList | None = None,
        padding: int | IntList = 0,
        dilation: int | IntList = 1,
        ceil_mode: bool = False,
        return_indices: Literal[False] = False,
    ) -> Tensor: ...

    @overload
    def __call__(
        self,
        input: Tensor,
        kernel_size: int | IntList,
        stride: int | IntList | None = None,
        padding: int | IntList = 0,
        dilation: int | IntList = 1,
        ceil_mode: bool = False,
        *,
        return_indices: Literal[True],
    ) -> tuple[Tensor, Tensor]: ...

    @overload
    def __call__(
        self,
        input: Tensor,
        kernel_size: int | IntList,
        stride: int | IntList | None,
        padding: int | IntList,
        dilation: int | IntList,
        ceil_mode: bool,
        return_indices: Literal[True],
    ) -> tuple[Tensor, Tensor]: ...


class _MaxPoolWithIndices(Protocol):
    """Type of max_pool1d_with_indices, 2d and 3d."""

    def __call__(
        self,
        input: Tensor,
        kernel_size: int | IntList,
        stride: int | IntList | None = None,
        padding: int | IntList = 0,
        dilation: int | IntList = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> tuple[Tensor, Tensor]: ...


class _AdaptiveMaxPool(Protocol):
    """Type of adaptive_max_pool1d, 2d and 3d."""

    @overload
    def __call__(
        self, input: Tensor, output_size: int | None | Sequence[int | None], return_indices: Literal[False] = False
    ) -> Tensor: ...

    @overload
    def __call__(
        self, input: Tensor, output_size: int | None | Sequence[int | None], return_indices: Literal[True]
    ) -> tuple[Tensor, Tensor]: ...


class _AdaptiveMaxPoolWithIndices(Protocol):
    """Type of adaptive_max_pool1d_with_indices, 2d and 3d."""

    def __call__(
        self, input: Tensor, output_size: int | None | Sequence[int | None], return_indices: bool = False
    ) -> tuple[Tensor, Tensor]: ...


class _FractionalMaxPool(Protocol):
    """Type of fractional_max_pool2d and 3d."""

    @overload
    def __call__(
        self,
        input: Tensor,
        kernel_size: int | IntList,
        output_size: int | IntList | None = None,
        output_ratio: float | Sequence[float] | None = None,
        return_indices: Literal[False] = False,
        _random_samples: Tensor | None = None,
    ) -> Tensor: ...

    @overload
    def __call__(
        self,
        input: Tensor,
        kernel_size: int | IntList,
        output_size: int | IntList | None = None,
        output_ratio: float | Sequence[float] | None = None,
        *,
        return_indices: Literal[True],
        _random_samples: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]: ...


def _documented(template, dims, name):
    """Return a decorator for a function made for `dims` spatial dimensions: it gets its name and docstring."""

    def decorate(function):
        function.__name__ = function.__qualname__ = name
        return spatial(dims, template)(function)

    return decorate


def _max_pool(dims):
    plain, both = f"max_pool{dims}d", f"max_pool{dims}d_with_indices"

    @_documented(_MAX_POOL, dims, plain)
    def max_pool(
        input: Tensor,
        kernel_size: int | IntList,
        stride: int | IntList | None = None,
        padding: int | IntList = 0,
        dilation: int | IntList = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        pool = getattr(ops, both if return_indices else plain)
        return pool(input, kernel_size, () if stride is None else stride, padding, dilation, ceil_mode)

    return max_pool


def _max_pool_with_indices(dims, pool):
    @_documented(_WITH_INDICES, dims, f"{pool.__name__}_with_indices")
    def max_pool_with_indices(
        input: Tensor,
        kernel_size: int | IntList,
        stride: int | IntList | None = None,
        padding: int | IntList = 0,
        dilation: int | IntList = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> tuple[Tensor, Tensor]:
        return pool(input, kernel_size, stride, padding, dilation, ceil_mode, True)

    return max_pool_with_indices


max_pool1d: _MaxPool = _max_pool(1)
max_pool2d: _MaxPool = _max_pool(2)
max_pool3d: _MaxPool = _max_pool(3)
max_pool1d_with_indices: _MaxPoolWithIndices = _max_pool_with_indices(1, max_pool1d)
max_pool2d_with_indices: _MaxPoolWithIndices = _max_pool_with_indices(2, max_pool2d)
max_pool3d_with_indices: _MaxPoolWithIndices = _max_pool_with_indices(3, max_pool3d)


_ADAPTIVE = """

    Args:
        input: (N, C, {in}) or (C, {in}), floating.
        output_size: spatial sizes of the output, an int or one per spatial dimension,
            each of which may be None to keep the input's size.
"""
_ADAPTIVE_MAX = f"""{{n}}d adaptive max pooling: the maxima of windows that divide the input evenly.{_ADAPTIVE}\
        return_indices: also return the indices of the maxima, for `MaxUnpool{{n}}d`.

    Shape:
        output: (N, C, *output_size) or (C, *output_size), with indices a pair of them.
    """
_ADAPTIVE_AVG = f"""{{n}}d adaptive average pooling: the means of windows that divide the input evenly.{_ADAPTIVE}
    Shape:
        output: (N, C, *output_size) or (C, *output_size).

    Raises:
        ValueError: for an input of {{n}} or fewer dimensions.
    """


def _output_size(name, input, output_size, count):
    """Replace None in `output_size` by the input's sizes; a single number stands for all dimensions."""
    wanted = _repeated(output_size, count)
    if isinstance(output_size, (tuple, list)) and input.dim() <= len(wanted):
        raise ValueError(f"Input dimension should be at least {len(wanted) + 1}")
    if output_size is None:
        raise TypeError(f"{name}(): argument 'output_size' (position 2) must be tuple of ints, not NoneType")
    if len(wanted) != count:
        raise RuntimeError(f"{name}: output_size must be {count}")
    if None not in wanted:
        return output_size
    return tuple(size if want is None else want for want, size in zip(wanted, input.shape[-len(wanted) :], strict=True))


def _adaptive_max_pool(dims):
    name = f"adaptive_max_pool{dims}d"

    @_documented(_ADAPTIVE_MAX, dims, name)
    def adaptive_max_pool(
        input: Tensor, output_size: int | None | Sequence[int | None], return_indices: bool = False
    ) -> Tensor | tuple[Tensor, Tensor]:
        both = getattr(ops, name)(input, output_size if dims == 1 else _output_size(name, input, output_size, dims))
        return both if return_indices else both[0]

    return adaptive_max_pool


def _adaptive_max_pool_with_indices(dims, pool):
    @_documented(_WITH_INDICES, dims, f"{pool.__name__}_with_indices")
    def adaptive_max_pool_with_indices(
        input: Tensor, output_size: int | None | Sequence[int | None], return_indices: bool = False
    ) -> tuple[Tensor, Tensor]:
        return pool(input, output_size, True)

    return adaptive_max_pool_with_indices


adaptive_max_pool1d: _AdaptiveMaxPool = _adaptive_max_pool(1)
adaptive_max_pool2d: _AdaptiveMaxPool = _adaptive_max_pool(2)
adaptive_max_pool3d: _AdaptiveMaxPool = _adaptive_max_pool(3)
adaptive_max_pool1d_with_indices: _AdaptiveMaxPoolWithIndices = _adaptive_max_pool_with_indices(1, adaptive_max_pool1d)
adaptive_max_pool2d_with_indices: _AdaptiveMaxPoolWithIndices = _adaptive_max_pool_with_indices(2, adaptive_max_pool2d)
adaptive_max_pool3d_with_indices: _AdaptiveMaxPoolWithIndices = _adaptive_max_pool_with_indices(3, adaptive_max_pool3d)


@spatial(2, _ADAPTIVE_AVG)
def adaptive_avg_pool2d(input: Tensor, output_size: int | None | Sequence[int | None]) -> Tensor:
    return ops.adaptive_avg_pool2d(input, _output_size("adaptive_avg_pool2d", input, output_size, 2))


@spatial(3, _ADAPTIVE_AVG)
def adaptive_avg_pool3d(input: Tensor, output_size: int | None | Sequence[int | None]) -> Tensor:
    return ops.adaptive_avg_pool3d(input, _output_size("adaptive_avg_pool3d", input, output_size, 3))


_LP_POOL = """{n}d power-average pooling: (sum of x ** norm_type over each window) ** (1 / norm_type).

    Args:
        input: (N, C, {in}) or (C, {in}), floating.
        norm_type: exponent; 1 gives sums, larger ones approach maxima.
        kernel_size: size of the windows, an int or one per spatial dimension.
        stride: step of the windows, likewise; by default kernel_size.
        ceil_mode: use ceil instead of floor for the output's sizes.

    Shape:
        output: (N, C, {out}) or (C, {out}); a size S of the input becomes
            floor((S - kernel_size) / stride) + 1.
    """


def _lp_pool(input, norm_type, kernel_size, stride, ceil_mode, dims, average):
    kernel = _repeated(kernel_size, dims)
    stride = kernel if stride is None else _repeated(stride, dims)
    mean = average(input.pow(norm_type), kernel, stride, 0, ceil_mode)
    # relu stops the gradient where a window's sum is 0, where the root has no derivative.
    return (mean.sign() * mean.abs().relu()).mul(math.prod(kernel)).pow(1.0 / norm_type)


@spatial(1, _LP_POOL)
def lp_pool1d(
    input: Tensor,
    norm_type: float,
    kernel_size: int | IntList,
    stride: int | IntList | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    return _lp_pool(input, norm_type, kernel_size, stride, ceil_mode, 1, ops.avg_pool1d)


@spatial(2, _LP_POOL)
def lp_pool2d(
    input: Tensor,
    norm_type: float,
    kernel_size: int | IntList,
    stride: int | IntList | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    return _lp_pool(input, norm_type, kernel_size, stride, ceil_mode, 2, ops.avg_pool2d)


@spatial(3, _LP_POOL)
def lp_pool3d(
    input: Tensor,
    norm_type: float,
    kernel_size: int | IntList,
    stride: int | IntList | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    return _lp_pool(input, norm_type, kernel_size, stride, ceil_mode, 3, ops.avg_pool3d)


_FRACTIONAL = """{n}d fractional max pooling (Graham 2014): the maximum of each window, with windows placed at random.

    Args:
        input: (N, C, {in}) or (C, {in}), floating.
        kernel_size: size of the windows, an int or one per spatial dimension.
        output_size: spatial sizes of the output, likewise; this or `output_ratio`.
        output_ratio: output size / input size, in (0, 1), a number or one per spatial dimension.
        return_indices: also return the indices of the maxima, for `MaxUnpool{n}d`.

    Shape:
        output: (N, C, *output_size) or (C, *output_size), with indices a pair of them; output_ratio makes a size S
            of the input floor(S * output_ratio).

    Raises:
        ValueError: without both output_size and output_ratio.
    """


def _fractional(input, kernel_size, output_size, output_ratio, samples, dims, pool):
    if output_size is None and output_ratio is None:
        raise ValueError(f"fractional_max_pool{dims}d requires specifying either an output_size or an output_ratio")
    if output_size is None:
        sizes = zip(input.shape[-dims:], _repeated(output_ratio, dims), strict=True)
        output_size = tuple(int(size * ratio) for size, ratio in sizes)
    if samples is None:
        batch = 1 if input.dim() == dims + 1 else input.shape[0]
        samples = gl.rand(batch, input.shape[-dims - 1], dims, dtype=input.dtype, device=input.device)
    return pool(input, kernel_size, output_size, samples)


@spatial(2, _WITH_INDICES)
def fractional_max_pool2d_with_indices(
    input: Tensor,
    kernel_size: int | IntList,
    output_size: int | IntList | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    return _fractional(input, kernel_size, output_size, output_ratio, _random_samples, 2, ops.fractional_max_pool2d)


def _fractional_max_pool(dims, pool):
    @_documented(_FRACTIONAL, dims, f"fractional_max_pool{dims}d")
    def fractional_max_pool(
        input: Tensor,
        kernel_size: int | IntList,
        output_size: int | IntList | None = None,
        output_ratio: float | Sequence[float] | None = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        both = pool(input, kernel_size, output_size, output_ratio, True, _random_samples)
        return both if return_indices else both[0]

    return fractional_max_pool


@spatial(3, _WITH_INDICES)
def fractional_max_pool3d_with_indices(
    input: Tensor,
    kernel_size: int | IntList,
    output_size: int | IntList | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    return _fractional(input, kernel_size, output_size, output_ratio, _random_samples, 3, ops.fractional_max_pool3d)


fractional_max_pool2d: _FractionalMaxPool = _fractional_max_pool(2, fractional_max_pool2d_with_indices)
fractional_max_pool3d: _FractionalMaxPool = _fractional_max_pool(3, fractional_max_pool3d_with_indices)


_UNPOOL = """Partial inverse of {n}d max pooling: put the maxima back in place, zeros elsewhere.

    Args:
        input: (N, C, {in}) or (C, {in}), floating.
        indices: int64, of the shape of `input`: indices of the maxima, as max pooling returns them.
        kernel_size: size of the pooling's windows, an int or one per spatial dimension.
        stride: step of the windows, likewise; by default kernel_size.
        padding: padding of the pooling, likewise.
        output_size: spatial sizes of what was pooled, where the windows do not determine them.

    Shape:
        output: (N, C, {out}) or (C, {out}); a size S of the input becomes
            (S - 1) * stride - 2 * padding + kernel_size.

    Raises:
        ValueError: for an output_size that differs from that by stride or more.
    """


def _unpool_size(input, kernel, stride, padding, output_size):
    """Return the spatial sizes of an unpooled result: the smallest that fit, or the given ones if possible."""
    dims, shape = len(kernel), input.shape
    default = [(shape[d - dims] - 1) * stride[d] + kernel[d] - 2 * padding[d] for d in range(dims)]
    if output_size is None:
        return default
    if len(output_size) == dims + 2:
        output_size = output_size[2:]
    if len(output_size) != dims:
        raise ValueError(
            f"output_size should be a sequence containing {dims} or {dims + 2} elements, but it has a "
            f"length of '{len(output_size)}'"
        )
    for dim, (asked, usual, step) in enumerate(zip(output_size, default, stride, strict=False)):
        if not usual - step < asked < usual + step:
            raise ValueError(
                f'invalid output_size "{output_size}" (dim {dim} must be between {usual - step} and {usual + step})'
            )
    return list(output_size)


@spatial(1, _UNPOOL)
def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: int | IntList,
    stride: int | IntList | None = None,
    padding: int | IntList = 0,
    output_size: IntList | None = None,
) -> Tensor:
    kernel = _repeated(kernel_size, 1)
    stride = kernel if stride is None else _repeated(stride, 1)
    size = _unpool_size(input, kernel, stride, _repeated(padding, 1), output_size)
    return ops.max_unpool2d(input.unsqueeze(-1), indices.unsqueeze(-1), [*size, 1]).squeeze(-1)


@spatial(2, _UNPOOL)
def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: int | IntList,
    stride: int | IntList | None = None,
    padding: int | IntList = 0,
    output_size: IntList | None = None,
) -> Tensor:
    kernel = _repeated(kernel_size, 2)
    stride = kernel if stride is None else _repeated(stride, 2)
    return ops.max_unpool2d(input, indices, _unpool_size(input, kernel, stride, _repeated(padding, 2), output_size))


@spatial(3, _UNPOOL)
def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: int | IntList,
    stride: int | IntList | None = None,
    padding: int | IntList = 0,
    output_size: IntList | None = None,
) -> Tensor:
    kernel, padding = _repeated(kernel_size, 3), _repeated(padding, 3)
    stride = kernel if stride is None else _repeated(stride, 3)
    size = _unpool_size(input, kernel, stride, padding, output_size)
    return ops.max_unpool3d(input, indices, size, stride, padding)
