"""Second derivatives and tangents of sampling at the points of a grid."""

from __future__ import annotations

from itertools import product
from math import prod

from ..dispatch import _operators as ops

_BICUBIC, _NEAREST = 2, 1
_ZEROS, _REFLECTION = 0, 2
_CUBIC = -0.75


def _bounded(position, size, padding, align):
    """Return the positions that the padding moves into the input, and the sign of that: 0 where they do not move."""
    sign = ops.ones_like(position)
    if padding == _ZEROS:
        return position, sign
    if padding == _REFLECTION:
        low, span = (0.0, size - 1.0) if align else (-0.5, float(size))
        if not span:
            return position * 0, sign * 0
        away = ops.abs(position - low)
        extra = ops.fmod(away, span)
        odd = ops.remainder(ops.floor(away / span), 2) == 1
        sign = ops.where(odd, -sign, sign) * ops.where(position < low, -sign, sign)
        position = ops.where(odd, span - extra, extra) + low
    inside = (position > 0) & (position < size - 1)
    return ops.clamp(position, 0, size - 1), ops.where(inside, sign, 0)


def _taps(coordinate, size, mode, padding, align):
    """Return (index, weight, first and second derivative of the weight by the coordinate) of each tap; the index is
    -1 outside of the input."""
    scale = (size - 1) / 2 if align else size / 2
    position = (coordinate + 1) * scale if align else ((coordinate + 1) * size - 1) / 2

    def index(at):
        return ops.to(ops.where((at >= 0) & (at < size), at, -1), dtype=_int64())

    if mode == _BICUBIC:
        low = ops.floor(position)
        part = position - low
        rest = 1 - part
        a = _CUBIC

        def near(x):
            return ((a + 2) * x - (a + 3)) * x * x + 1, (3 * (a + 2) * x - 2 * (a + 3)) * x, 6 * (a + 2) * x - 2 * a - 6

        def far(x):
            return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a, (3 * a * x - 10 * a) * x + 8 * a, 6 * a * x - 10 * a

        found = []
        for k, sign, (w, first, second) in zip(
            (-1, 0, 1, 2), (1, 1, -1, -1), (far(part + 1), near(part), near(rest), far(rest + 1)), strict=True
        ):
            at = _bounded(low + k, size, padding, align)[0]
            found.append((index(at), w, sign * scale * first, scale * scale * second))
        return found
    position, sign = _bounded(position, size, padding, align)
    none = ops.zeros_like(position)
    if mode == _NEAREST:
        return [(index(ops.round(position)), none + 1, none, none)]
    low = ops.floor(position)
    part = position - low
    slope = sign * scale
    return [(index(low), 1 - part, -slope, none), (index(low + 1), part, slope, none)]


def _int64():
    from ..types.dtype import int64

    return int64


def _along(direction, grad_output, input, grid, mode, padding, align):
    """Differentiate sampling in the direction u of the grid, D(x) = sum_d u_d dS(x)/dgrid_d.

    Returns:
        D(input); the adjoint of D applied to grad_output; and the gradient of <grad_output, D(input)> by the grid. With
        taps k of weight W_k(grid) at inputs x_k, and w_k = sum_d u_d dW_k/dgrid_d, they are sum_k w_k x_k, the sum of
        w_k grad_output at x_k, and sum_k <grad_output, x_k> dw_k/dgrid. The last two are None without grad_output.
    """
    size = input.shape[2:]
    dims, count, channels = len(size), input.shape[0], input.shape[1]
    total = prod(size)
    points = ops.reshape(grid, (count, prod(grid.shape[1:-1]), dims))
    u = ops.reshape(direction, points.shape)
    flat = ops.constant_pad_nd(ops.reshape(input, (count, channels, total)), (0, 1), 0)
    g = None if grad_output is None else ops.reshape(grad_output, (count, channels, points.shape[1]))
    taps = [_taps(points[:, :, d], size[dims - 1 - d], mode, padding, align) for d in range(dims)]
    along, scattered, curvature = 0, ops.zeros_like(flat), [0] * dims
    for chosen in product(*taps):
        index, valid, step = 0, True, 1
        for d, tap in enumerate(chosen):
            index, valid = index + tap[0] * step, (tap[0] >= 0) & valid
            step *= size[dims - 1 - d]
        index = ops.expand(ops.unsqueeze(ops.where(valid, index, total), 1), (count, channels, points.shape[1]))

        def derivative(*by, chosen=chosen):
            """Differentiate the weight of this combination by the given dimensions."""
            return prod([tap[1 + by.count(d)] for d, tap in enumerate(chosen)])

        w = ops.unsqueeze(sum(u[:, :, d] * derivative(d) for d in range(dims)), 1)
        x = ops.gather(flat, -1, index)
        along = along + w * x
        if g is not None:
            scattered = ops.scatter_add(scattered, -1, index, w * g)
            inner = ops.sum(g * x, 1)
            for d in range(dims):
                curvature[d] = curvature[d] + inner * sum(u[:, :, e] * derivative(d, e) for e in range(dims))
    along = ops.reshape(along, (count, channels, *grid.shape[1:-1]))
    if g is None:
        return along, None, None
    scattered = ops.reshape(ops.narrow(scattered, -1, 0, total), input.shape)
    return along, scattered, ops.reshape(ops.stack(curvature, -1), grid.shape)


def _operators(input):
    if input.dim() == 4:
        return ops.grid_sampler_2d, ops.grid_sampler_2d_backward
    return ops.grid_sampler_3d, ops.grid_sampler_3d_backward


def grid_sampler_jvp(input_p, input_t, grid_p, grid_t, interpolation_mode, padding_mode, align_corners):
    """Return S(input_t, grid) + sum_d grid_t[d] dS(input, grid)/dgrid_d."""
    settings = interpolation_mode, padding_mode, align_corners
    found = None
    if input_t is not None:
        found = _operators(input_p)[0](input_t, grid_p, *settings)
    if grid_t is not None:
        along = _along(grid_t, None, input_p, grid_p, *settings)[0]
        found = along if found is None else found + along
    return found


def grid_sampler_double_backward(
    grad_input, grad_grid, grad_output, input, grid, interpolation_mode, padding_mode, align_corners, mask
):
    """Return the gradients of <v, gi> + <u, gg>, with v = grad_input and u = grad_grid, for the results gi and gg of
    the backward pass: since gi is the adjoint of S, <v, gi> = <grad_output, S(v, grid)>; and <u, gg> =
    <grad_output, D(input)>, with D as in `_along`."""
    settings = interpolation_mode, padding_mode, align_corners
    sample, backward = _operators(input)
    found = [None, None, None]
    if grad_input is not None:
        if mask[0]:
            found[0] = sample(grad_input, grid, *settings)
        if mask[2]:
            found[2] = backward(grad_output, grad_input, grid, *settings, (False, True))[1]
    if grad_grid is not None:
        more = _along(grad_grid, grad_output, input, grid, *settings)
        found = [new if old is None else old + new for old, new in zip(found, more, strict=True)]
    return tuple([value if wanted else None for value, wanted in zip(found, mask, strict=True)])


def grid_sampler_backward_jvp(
    grad_output_p,
    grad_output_t,
    input_p,
    input_t,
    grid_p,
    grid_t,
    interpolation_mode,
    padding_mode,
    align_corners,
    mask,
):
    """Differentiate both results of the backward pass: they are bilinear in grad_output and the input (the first does
    not depend on the input), and `_along` has their derivatives by the grid."""
    settings = interpolation_mode, padding_mode, align_corners
    backward = _operators(input_p)[1]
    first, second = ops.zeros_like(input_p), ops.zeros_like(grid_p)
    if grad_output_t is not None:
        a, b = backward(grad_output_t, input_p, grid_p, *settings, (True, True))
        first, second = first + a, second + b
    if input_t is not None:
        second = second + backward(grad_output_p, input_t, grid_p, *settings, (False, True))[1]
    if grid_t is not None:
        _, a, b = _along(grid_t, grad_output_p, input_p, grid_p, *settings)
        first, second = first + a, second + b
    return first if mask[0] else None, second
