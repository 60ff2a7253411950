"""Sampling of images and volumes at the points of a grid, its gradients, and the grids of affine maps.

A point has a coordinate for each dimension, the last dimension's first; -1 and 1 are the centres of the first and last
elements if corners are aligned, and their outer edges otherwise. In every dimension the point takes one input
(nearest), two (bilinear) or four (bicubic), the taps. An element of zero stands after the flattened input for taps
outside of it. In three dimensions, as in PyTorch, taps outside have no weight either, unless they are cubic: a point
that is NaN gives zeros.
"""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import numpy as np

from .._common import threads
from .._common.blas import gemm
from .._common.errors import not_implemented, type_name
from .._common.numbers import is_half, widen
from .tables import cubic_weights

BILINEAR, NEAREST, BICUBIC = range(3)
ZEROS, BORDER, REFLECTION = range(3)


class _Tap(NamedTuple):
    """One tap of one dimension at all points: indices, -1 for those outside; weights; their derivatives."""

    index: np.ndarray
    weight: np.ndarray
    slope: np.ndarray


def grid_sampler_2d(input, grid, interpolation_mode, padding_mode, align_corners):
    return _sample(2, input, grid, interpolation_mode, padding_mode, align_corners)


def grid_sampler_3d(input, grid, interpolation_mode, padding_mode, align_corners):
    return _sample(3, input, grid, interpolation_mode, padding_mode, align_corners)


def grid_sampler_2d_backward(
    grad_output, input, grid, interpolation_mode, padding_mode, align_corners, output_mask
) -> tuple[np.ndarray | None, np.ndarray]:
    return _sample_backward(2, grad_output, input, grid, interpolation_mode, padding_mode, align_corners, output_mask)


def grid_sampler_3d_backward(
    grad_output, input, grid, interpolation_mode, padding_mode, align_corners, output_mask
) -> tuple[np.ndarray | None, np.ndarray]:
    return _sample_backward(3, grad_output, input, grid, interpolation_mode, padding_mode, align_corners, output_mask)


@np.errstate(all="ignore")
def _sample(dims, x, grid, mode, padding, align):
    """Return the input at each point, (N, C, *sizes of the grid)."""
    _check(dims, x, grid)
    _check_dtype(dims, x, grid)
    flat, points = _flattened(dims, x, grid)
    out = np.empty((*x.shape[:2], points.shape[1]), flat.dtype)

    def work(n: int) -> None:
        total = out[n]
        total.fill(0)
        for index, taps in _combinations(points[n], x.shape[2:], mode, padding, align):
            values = flat[n].take(index, 1, mode="clip")
            values *= _product([tap.weight for tap in taps])
            total += values

    threads.share(work, range(len(x)))
    return out.reshape(*x.shape[:2], *grid.shape[1:-1]).astype(x.dtype, copy=False)


@np.errstate(all="ignore")
def _sample_backward(dims, grad_output, x, grid, mode, padding, align, mask):
    """Return the gradients of the input (None unless the mask asks for it) and of the grid."""
    _check(dims, x, grid)
    _check_dtype(dims, x, grid)
    if grad_output.shape != (*x.shape[:2], *grid.shape[1:-1]):
        expected = [*x.shape[:2], *grid.shape[1:-1]]
        raise RuntimeError(f"expected grad_output of shape {expected}, but got {list(grad_output.shape)}")
    flat, points = _flattened(dims, x, grid)
    count, channels = x.shape[:2]
    grad = widen(np.ascontiguousarray(grad_output)).reshape(count, channels, points.shape[1])
    grad_points = np.zeros_like(points)
    grad_flat = np.zeros_like(flat) if mask[0] else None

    def work(n: int) -> None:
        places, shares = [], []
        for index, taps in _combinations(points[n], x.shape[2:], mode, padding, align):
            if grad_flat is not None:
                places.append(index)
                shares.append(_product([tap.weight for tap in taps]))
            if mode != NEAREST and channels:
                inner = np.einsum("cp,cp->p", flat[n].take(index, 1, mode="clip"), grad[n])
                for d in range(dims):
                    parts = [tap.slope if e == d else tap.weight for e, tap in enumerate(taps)]
                    grad_points[n, :, d] += inner * _product(parts)
        if grad_flat is not None:
            where, share = np.concatenate(places), np.stack(shares)
            for c in range(channels):
                weights = (share * grad[n, c]).reshape(-1)
                grad_flat[n, c] = np.bincount(where, weights, flat.shape[2])

    threads.share(work, range(count))
    grad_input = None
    if grad_flat is not None:
        grad_input = np.ascontiguousarray(grad_flat[:, :, :-1]).reshape(x.shape).astype(x.dtype, copy=False)
    return grad_input, grad_points.reshape(grid.shape).astype(grid.dtype, copy=False)


def _flattened(dims, x, grid):
    """Return the input as (N, C, elements and a zero), and the grid as (N, points, dims)."""
    x, grid = widen(x), widen(grid)
    size = int(np.prod(x.shape[2:]))
    flat = np.zeros((*x.shape[:2], size + 1), x.dtype)
    flat[:, :, :size] = x.reshape(*x.shape[:2], size)
    return flat, np.ascontiguousarray(grid).reshape(len(grid), int(np.prod(grid.shape[1:-1])), dims)


def _combinations(points, size, mode, padding, align):
    """Yield the flat indices, and the taps of the dimensions of `points`, for each combination of taps."""
    dims = len(size)
    taps = [_taps(points[:, d], size[dims - 1 - d], mode, padding, align) for d in range(dims)]
    if dims == 3 and mode != BICUBIC:
        taps = [list(map(_inside, of_dim)) for of_dim in taps]
    outside = int(np.prod(size))
    for chosen in product(*taps):
        index, valid, step = 0, True, 1
        for d, tap in enumerate(chosen):
            index = index + tap.index * step
            valid = valid & (tap.index >= 0)
            step *= size[dims - 1 - d]
        yield np.where(valid, index, outside), chosen


def _inside(tap) -> _Tap:
    """Return the tap without weight outside of the input."""
    outside = tap.index < 0
    return tap._replace(weight=np.where(outside, 0, tap.weight), slope=np.where(outside, 0, tap.slope))


def _taps(coordinate, size, mode, padding, align) -> list[_Tap]:
    real = coordinate.dtype.type
    scale = real((size - 1) / 2 if align else size / 2)
    position = (coordinate + 1) * scale if align else ((coordinate + 1) * size - 1) / 2
    if mode == BICUBIC:
        low = np.floor(position)
        part = position - low
        weights, slopes = cubic_weights(part, -0.75), _cubic_slopes(part, -0.75)
        return [
            _Tap(_index(_bounded(low + k, size, padding, align)[0], size), weight, slope * scale)
            for k, weight, slope in zip((-1, 0, 1, 2), weights, slopes, strict=True)
        ]
    position, factor = _bounded(position, size, padding, align)
    slope = factor * scale
    if mode == NEAREST:
        return [_Tap(_index(np.rint(position), size), np.ones_like(position), np.zeros_like(position))]
    low = np.floor(position)
    part = position - low
    return [_Tap(_index(low, size), 1 - part, -slope), _Tap(_index(low + 1, size), part, slope)]


def _index(position, size):
    inside = (position >= 0) & (position < size)
    return np.where(inside, position, -1).astype(np.intp)


def _bounded(position, size, padding, align):
    """Return the positions as the padding moves them into the input, and the derivative of that."""
    factor = np.ones_like(position)
    if padding == ZEROS:
        return position, factor
    if padding == REFLECTION:
        low, span = (0.0, size - 1.0) if align else (-0.5, float(size))
        if not span:
            return np.zeros_like(position), np.zeros_like(position)
        away = np.abs(position - position.dtype.type(low))
        extra, flips = np.fmod(away, span), np.floor(away / span)
        odd = flips % 2 == 1
        factor = np.where(odd, -factor, factor) * np.where(position < low, -1, 1).astype(position.dtype)
        position = np.where(odd, span - extra, extra) + position.dtype.type(low)
    factor = np.where((position > 0) & (position < size - 1), factor, 0)
    return np.fmin(np.fmax(position, 0), size - 1), factor


def _cubic_slopes(part, slope):
    """Return the derivatives of `cubic_weights`."""
    rest = 1 - part

    def near(x):
        return (3 * (slope + 2) * x - 2 * (slope + 3)) * x

    def far(x):
        return (3 * slope * x - 10 * slope) * x + 8 * slope

    return far(part + 1), near(part), -near(rest), -far(rest + 1)


def _product(factors):
    total = factors[0]
    for factor in factors[1:]:
        total = total * factor
    return total


def _check(dims, x, grid) -> None:
    shapes = f"input with sizes {list(x.shape)} and grid with sizes {list(grid.shape)}"
    if x.shape[:1] != grid.shape[:1]:
        raise RuntimeError(f"grid_sampler(): expected grid and input to have same batch size, but got {shapes}")
    if grid.shape[-1] != x.ndim - 2:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {x.ndim - 2} in last dimension, but got grid with sizes "
            f"{list(grid.shape)}"
        )
    for d, n in enumerate(x.shape[2:], 2):
        if not n:
            raise RuntimeError(
                f"grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes "
                f"{list(x.shape)} with dimension {d} being empty"
            )
    if x.ndim != dims + 2 or grid.ndim != x.ndim:
        raise RuntimeError(
            f"grid_sampler(): expected {dims + 2}D input and grid with same number of dimensions, but got {shapes}"
        )


def _check_dtype(dims, x, grid) -> None:
    if x.dtype.kind != "f" and not is_half(x.dtype):
        raise not_implemented("grid_sampler_2d_cpu_kernel_impl" if dims == 2 else "grid_sampler3d_cpu", x)
    if x.dtype != grid.dtype:
        raise RuntimeError(f"expected scalar type {type_name(x.dtype)} but found {type_name(grid.dtype)}")


def affine_grid_generator(theta, size, align_corners):
    """Return the points of an output of `size`, (N, C, *spatial), under the maps theta: (N, dims, dims + 1)."""
    if len(size) not in (4, 5):
        raise RuntimeError("AffineGridGenerator needs 4d (spatial) or 5d (volumetric) inputs.")
    spatial = tuple(size[2:])
    dims = len(spatial)
    if theta.ndim != 3:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-theta.ndim}, {theta.ndim - 1}], but got 2)"
        )
    if theta.shape[0] != size[0] or theta.shape[2] != dims + 1:
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{size[0]}, {dims + 1}] but got: "
            f"[{theta.shape[0]}, {theta.shape[2]}]."
        )
    if theta.shape[1] != dims:
        sizes, total = [*size[:1], *spatial, dims], theta.shape[0] * int(np.prod(spatial)) * theta.shape[1]
        raise RuntimeError(f"shape '{sizes}' is invalid for input of size {total}")
    dtype = theta.dtype if theta.dtype.kind in "fc" and not is_half(theta.dtype) else np.dtype(np.float32)
    base = np.ones((*spatial, dims + 1), dtype)
    for d, n in enumerate(reversed(spatial)):
        steps = np.linspace(-1, 1, n, dtype=dtype) if n > 1 else np.zeros(n, dtype)
        if not align_corners and n:
            steps = steps * (n - 1) / n
        base[..., d] = steps.reshape(-1, *(1,) * d)
    points = gemm(base.reshape(-1, dims + 1), theta.astype(dtype, copy=False).transpose(0, 2, 1))
    return np.ascontiguousarray(points).reshape(len(theta), *spatial, theta.shape[1]).astype(theta.dtype, copy=False)
