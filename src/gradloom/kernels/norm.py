"""Normalization: of channels over the batch, of the last dimensions, of groups of channels.

Statistics are PyTorch's: the mean and 1 / sqrt(variance + eps) of each set of elements, in the dtype of the parameters
where these are wider than the input, else in the input's. Sets are laid out as rows, or as channels. Sums are products
with ones (Note [Sums]); float16 and bfloat16 are computed in float32. A set whose mean is much larger than its spread
is centred once more: its first number is subtracted before the mean is taken (Note [Variances]).
"""

from __future__ import annotations

from math import prod

import numpy as np

from ._common.blas import dot
from ._common.errors import dim_error, refuse, type_name
from ._common.layout import in_format, suggested_format
from ._common.numbers import is_half
from ._common.tables import number
from .reduction.sums import along, row_sums


def _stored(input, *parameters):
    """Return the dtype of statistics."""
    for p in parameters:
        if p is not None:
            return p.dtype
    return input.dtype


def _check_batch_norm(input, training, **parameters):
    channels = input.shape[1] if input.ndim > 1 else 0
    for name, value in parameters.items():
        if value is not None:
            if value.size != channels:
                raise RuntimeError(f"{name} should contain {channels} elements not {value.size}")
        elif not training and name.startswith("running"):
            raise RuntimeError(f"{name} must be defined in evaluation mode")
    if input.ndim < 2:
        raise dim_error(1, input.ndim)


def native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps):
    """Standardize each channel of (batch, channels, *), by its own statistics in training and else by the running ones.
    In training the running statistics are updated in place, with weight `momentum`. Raises RuntimeError for statistics
    or parameters that are not (channels,), or are missing.

    Returns:
        The result; mean and inverse standard deviation, (channels,) in training and else empty.
    """
    if (running_mean is None) != (running_var is None):
        raise ValueError("running_mean and running_var must either both be None or neither be None")
    _check_batch_norm(input, training, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    work = work_dtype(input, "batch_norm")
    _check_mixed(input, weight, bias, running_mean, running_var)
    last = is_channels_last(input)
    values = to_channels(cast(input, work), last)
    stored = _stored(input, weight, bias, running_mean)
    weight, bias = cast(weight, work), cast(bias, work)
    if training:
        result, mean, deviation = _by_batch(values, running_mean, running_var, momentum, eps)
    else:
        mean, deviation = cast(running_mean, work), inverse_deviation(cast(running_var, work), eps)
        result = values - per_channel(mean, values)
    scale = deviation if weight is None else deviation * weight
    np.multiply(result, per_channel(scale, result), result)
    if bias is not None:
        np.add(result, per_channel(bias, result), result)
    result = from_channels(result.astype(input.dtype, copy=False), input.shape, last)
    if not training:
        return result, np.empty(0, stored), np.empty(0, stored)
    return result, mean.astype(stored, copy=False), deviation.astype(stored, copy=False)


def batch_norm_with_reserve(training, input, weight, bias, running_mean, running_var, momentum, eps):
    """Return the results of `native_batch_norm` and what a GPU's kernel keeps for the derivative: an empty array."""
    found = native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)
    return (*found, np.empty(0, np.uint8))


def _by_batch(values, running_mean, running_var, momentum, eps):
    count = channel_count(values)
    mean = channel_sum(values)
    size = number(count, mean.dtype)
    np.divide(mean, size, mean)
    if values.size <= _FEW:
        centred = np.empty(values.shape, values.dtype)
        centred[...] = per_channel(mean, values)  # Note [Broadcast operands]
        np.subtract(values, centred, centred)
    else:
        centred = values - per_channel(mean, values)
    squares = channel_dot(centred, centred)
    if is_far(mean, squares, count):
        first = values[:1] if values.ndim == 2 else values[:1, :, :1]
        np.subtract(values, first, out=centred)
        mean = channel_sum(centred) / count
        centred -= per_channel(mean, values)
        mean += first.reshape(-1)
        squares = channel_dot(centred, centred)
    if running_mean is not None:
        running_mean[...] = momentum * mean + (1 - momentum) * cast(running_mean, mean.dtype)
    if running_var is not None:
        running_var[...] = momentum * (squares / max(count - 1, 0)) + (1 - momentum) * cast(running_var, mean.dtype)
    return centred, mean, inverse_deviation(squares, eps, count)


def native_batch_norm_backward(
    grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps, output_mask
):
    """Return gradients of `native_batch_norm` for input, weight and bias; None where `output_mask` is False."""
    work = work_dtype(input, "batch_norm_backward")
    last = is_channels_last(input)
    values, grad = to_channels(cast(input, work), last), to_channels(cast(grad_out, work), last)
    if train:
        mean, deviation = cast(save_mean, work), cast(save_invstd, work)
    else:
        mean, deviation = cast(running_mean, work), inverse_deviation(cast(running_var, work), eps)
    scale = deviation if weight is None else deviation * cast(weight, work)
    grad_input = grad_weight = None
    grad_sum = channel_sum(grad) if train or output_mask[2] else None
    if train or output_mask[1]:
        standardized = values - per_channel(mean, values)
        standardized *= per_channel(deviation, values)
        grad_weight = channel_dot(grad, standardized)
    if output_mask[0]:
        if train:
            count = channel_count(values)
            grad_input = standardized
            grad_input *= per_channel(grad_weight / -count, values)
            grad_input += grad
            grad_input -= per_channel(grad_sum / count, values)
            grad_input *= per_channel(scale, values)
        else:
            grad_input = grad * per_channel(scale, values)
        grad_input = from_channels(grad_input.astype(input.dtype, copy=False), input.shape, last)
    stored = _stored(input, weight)
    return (
        grad_input,
        cast(grad_weight, stored) if output_mask[1] else None,
        cast(grad_sum, stored) if output_mask[2] else None,
    )


def _check_layer_norm(input, normalized_shape, weight, bias):
    shape = tuple(normalized_shape)
    if (
        shape
        and input.shape[-len(shape) :] == shape
        and (weight is None or weight.shape == shape)
        and (bias is None or bias.shape == shape)
    ):
        return
    shape = list(shape)
    if not shape:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one "
            f"element, but got normalized_shape = {shape}"
        )
    for name, value in (("weight", weight), ("bias", bias)):
        if value is not None and list(value.shape) != shape:
            raise RuntimeError(
                f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape "
                f"{list(value.shape)} and normalized_shape = {shape}"
            )
    if list(input.shape[-len(shape) :]) != shape:
        inner = "".join(f", {n}" for n in shape)
        raise RuntimeError(
            f"Given normalized_shape={shape}, expected input with shape [*{inner}], but got input of "
            f"size{list(input.shape)}"
        )


def _rows(array, normalized_shape, work):
    """Return `array` as a contiguous matrix with one row per normalised set."""
    if array.ndim == 2 and len(normalized_shape) == 1:
        return np.ascontiguousarray(cast(array, work))
    count = prod(normalized_shape)
    outer = prod(array.shape[: array.ndim - len(normalized_shape)])
    return np.ascontiguousarray(cast(array, work)).reshape(outer, count)


def _flat(parameter, work):
    return None if parameter is None else np.ascontiguousarray(cast(parameter, work)).reshape(-1)


def native_layer_norm(input, normalized_shape, weight, bias, eps):
    """Standardize over the last dimensions, whose sizes are `normalized_shape`. Raises RuntimeError if the sizes do not
    fit the input or the parameters.

    Returns:
        The result; mean and inverse standard deviation, of the input's shape with these dimensions 1.
    """
    _check_layer_norm(input, normalized_shape, weight, bias)
    if input.ndim == 2 and len(normalized_shape) == 1 and _are_alike(input, weight, bias):
        result, mean, deviation, blocks = standardize_rows(np.ascontiguousarray(input), eps)
        _affine(blocks, weight, bias)
        return result, mean, deviation
    _check_mixed(input, weight, bias)
    work = work_dtype(input, "LayerNormKernelImpl")
    stored = _stored(input, weight, bias)
    result, mean, deviation, blocks = standardize_rows(_rows(input, normalized_shape, work), eps)
    _affine(blocks, _flat(weight, work), _flat(bias, work))
    outer = (*input.shape[: input.ndim - len(normalized_shape)], *(1,) * len(normalized_shape))
    return (
        result.reshape(input.shape).astype(input.dtype, copy=False),
        cast(mean, stored).reshape(outer),
        cast(deviation, stored).reshape(outer),
    )


def _affine(blocks, weight, bias):
    """Multiply the rows of each block by `weight` and add `bias`, in place."""
    for _, block in blocks:
        work = np.empty(block.shape, block.dtype) if block.size <= _FEW else None
        if weight is not None:
            _in_place(np.multiply, block, weight, work)
        if bias is not None:
            _in_place(np.add, block, bias, work)


def native_layer_norm_backward(grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask):
    """Return gradients of `native_layer_norm` for input, weight and bias; None where `output_mask` is False."""
    work = work_dtype(input, "LayerNormBackwardKernelImpl")
    grad, rows = _rows(grad_out, normalized_shape, work), _rows(input, normalized_shape, work)
    mean, deviation = _flat(mean, work), _flat(rstd, work)
    stored = _stored(input, weight)
    flat = _flat(weight, work)
    grad_input = np.empty_like(rows)
    grad_weight = np.zeros(rows.shape[1], work)
    for part in row_blocks(*rows.shape):
        block, g = grad_input[part], grad[part]
        np.subtract(rows[part], mean[part, None], out=block)
        block *= deviation[part, None]
        if output_mask[1]:
            grad_weight += column_dot(g, block)
        if output_mask[0]:
            project(g if weight is None else g * flat, block, deviation[part])
    grad_bias = cast(column_sum(grad), stored).reshape(normalized_shape) if output_mask[2] else None
    return (
        grad_input.reshape(input.shape).astype(input.dtype, copy=False) if output_mask[0] else None,
        cast(grad_weight, stored).reshape(normalized_shape) if output_mask[1] else None,
        grad_bias,
    )


def _check_group_norm(input, weight, bias, N, C, HxW, group):
    if group <= 0:
        raise RuntimeError(f"Expected num groups to be greater than 0, got {group}")
    if not C:
        raise RuntimeError(f"Expected number of channels to be greater than 0, got {C}")
    if HxW <= 0:
        raise RuntimeError(f"Expected HxW to be greater than 0, got {HxW}")
    if C < 0 or C % group:
        raise RuntimeError(
            f"Expected number of channels in input to be divisible by num_groups, but got input of shape "
            f"{list(input.shape)} and num_groups={group}"
        )
    for name, found in (("weight", weight), ("bias", bias)):
        if found is not None and found.shape != (C,):
            raise RuntimeError(
                f"Expected {name} to be a vector of size equal to the number of channels in input, but got {name} of "
                f"shape {list(found.shape)} and input of shape {list(input.shape)}"
            )
    if input.size != N * C * HxW or N < 0:
        raise RuntimeError(f"Expected {N} * {C} * {HxW} elements, but got input of shape {list(input.shape)}")


def native_group_norm(input, weight, bias, N, C, HxW, group, eps):
    """Standardize each of `group` groups of the C channels of (N, C, *), with HxW positions.

    Returns:
        The result; mean and inverse standard deviation, (N, group).
    """
    _check_mixed(input, weight, bias)
    _check_group_norm(input, weight, bias, N, C, HxW, group)
    work = work_dtype(input, "GroupNormKernelImpl")
    rows = np.ascontiguousarray(cast(input, work)).reshape(N * group, C // group * HxW)
    stored = _stored(input, weight, bias)
    # The parameters of each row, that is, of one group of one sample.
    weight, bias = (
        None if p is None else np.tile(cast(p, work).reshape(group, C // group, 1), (N, 1, 1)) for p in (weight, bias)
    )
    result, mean, deviation, blocks = standardize_rows(rows, eps)
    for part, block in blocks:
        by_channel = block.reshape(len(block), C // group, HxW)
        if weight is not None:
            by_channel *= weight[part]
        if bias is not None:
            by_channel += bias[part]
    result = in_format(result.reshape(input.shape).astype(input.dtype, copy=False), suggested_format(input))
    return result, cast(mean, stored).reshape(N, group), cast(deviation, stored).reshape(N, group)


def native_group_norm_backward(grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask):
    """Return gradients of `native_group_norm` for input, weight and bias; None where `output_mask` is False."""
    work = work_dtype(input, "GroupNormBackwardKernelImpl")
    shape, channels = (N * group, C // group * HxW), (C // group, HxW)
    rows = np.ascontiguousarray(cast(input, work)).reshape(shape)
    grad = np.ascontiguousarray(cast(grad_out, work)).reshape(shape)
    mean, deviation = _flat(mean, work), _flat(rstd, work)
    stored = _stored(input, weight)
    scale = None if weight is None else np.tile(cast(weight, work).reshape(group, C // group, 1), (N, 1, 1))
    grad_input, inner = np.empty_like(rows), np.empty((N * group, C // group), work)
    for part in row_blocks(*shape):
        block, g = grad_input[part], grad[part]
        np.subtract(rows[part], mean[part, None], out=block)
        block *= deviation[part, None]
        count = len(block)
        if output_mask[1]:
            flat = (count * channels[0], HxW)
            inner[part] = row_dot(g.reshape(flat), block.reshape(flat)).reshape(count, channels[0])
        if output_mask[0]:
            weighted = g if scale is None else (g.reshape(count, *channels) * scale[part]).reshape(g.shape)
            project(weighted, block, deviation[part])
    if output_mask[0]:
        grad_input = in_format(grad_input.reshape(input.shape).astype(input.dtype, copy=False), suggested_format(input))
    return (
        grad_input if output_mask[0] else None,
        cast(np.add.reduce(inner.reshape(N, C)), stored) if output_mask[1] else None,
        cast(channel_sum(grad.reshape(N, C, HxW)), stored) if output_mask[2] else None,
    )


_WHOLE = slice(None)
_BLOCK = 1 << 16  # elements worked on at a time, so that temporaries stay in cache
_SUM, _COLUMN = 512, 256  # elements of a row, or a column, whose products are added in one loop
_SHORT = 64  # elements of rows, from which on BLAS pays
_FEW = 1 << 14  # elements, up to which one call for products and one for their sums are faster than np.einsum


def _are_alike(input, weight, bias):
    """Return whether the input is float32 or float64, and the parameters have the same dtype."""
    dtype = input.dtype
    return dtype.char in "fd" and (weight is None or weight.dtype is dtype) and (bias is None or bias.dtype is dtype)


def _check_mixed(input, *parameters):
    """Raise RuntimeError for parameters of another dtype, except those of float32 of an input of half precision."""
    dtype = input.dtype
    for p in parameters:
        if p is not None and p.dtype is not dtype:
            break
    else:
        return
    others = [p.dtype for p in parameters if p is not None]
    if any(dtype.char != "f" for dtype in others):
        raise RuntimeError("mixed dtype (CPU): expect parameter to have scalar type of Float")
    if input.dtype.char != "e" and input.dtype.name != "bfloat16":
        raise RuntimeError("mixed dtype (CPU): all inputs must share same datatype.")


def work_dtype(array, name):
    """Return the compute dtype. Raises NotImplementedError for other than floating dtypes."""
    dtype = array.dtype
    if dtype.char in "fd":
        return dtype
    if dtype.char == "e" or dtype.kind == "V" or dtype.name == "bfloat16":
        return np.dtype(np.float32)
    raise NotImplementedError(f"\"{name}\" not implemented for '{type_name(dtype)}'")


def cast(array, dtype):
    """Convert an array to `dtype`, without a copy if it has it; None stays None."""
    return array if array is None or array.dtype is dtype else array.astype(dtype, copy=False)


def column_sum(rows):
    """Sum the columns of a matrix."""
    return along(rows, 0, False)


def row_dot(a, b):
    """Return the inner products of the rows of two contiguous matrices."""
    m, n = a.shape
    if 0 < a.size <= _FEW and n <= _SUM:
        return row_sums(a * b)
    if n < _SHORT:
        return np.einsum("rl,rl->r", a, b)
    blocks = n // _SUM
    if blocks < 2:
        return np.vecdot(a, b)
    whole = blocks * _SUM
    found = row_sums(np.vecdot(a[:, :whole].reshape(m, blocks, _SUM), b[:, :whole].reshape(m, blocks, _SUM)))
    return found if whole == n else found + np.vecdot(a[:, whole:], b[:, whole:])


def column_dot(a, b):
    """Return the inner products of the columns of two matrices."""
    n = len(a)
    if 0 < a.size <= _FEW:
        return column_sum(a * b)
    blocks = n // _COLUMN
    if blocks < 2:
        return np.einsum("rl,rl->l", a, b)
    shape = (blocks, _COLUMN, a.shape[1])
    parts = [x[: blocks * _COLUMN].reshape(shape) for x in (a, b)]
    found = along(np.einsum("krl,krl->kl", *parts), 0, False)
    if blocks * _COLUMN < n:
        found += np.einsum("rl,rl->l", a[blocks * _COLUMN :], b[blocks * _COLUMN :])
    return found


def row_blocks(count, size, multiple=1):
    """Return slices of rows of `size` elements that fit in cache, `count` rows in all, in multiples of `multiple`."""
    if count * size <= _BLOCK:
        return [_WHOLE] if count else []
    step = max(_BLOCK // max(size * multiple, 1), 1) * multiple
    return [slice(start, min(start + step, count)) for start in range(0, count, step)]


def _in_place(ufunc, array, operand, work):
    """Compute ufunc(array, operand) in place, for an operand that is broadcast; see Note [Broadcast operands].

    Args:
        work: an array of the same shape and dtype that may be overwritten; None if `array` is large.
    """
    if work is not None:
        work[...] = operand
        operand = work
    return ufunc(array, operand, array)


def standardize(rows, out, eps):
    """Standardize the rows of a matrix that fits in cache into `out`; return columns of the means and of
    1 / sqrt(variance + eps)."""
    count = rows.shape[1]
    size = number(count, rows.dtype)
    mean = row_sums(rows)
    np.divide(mean, size, mean)
    means = mean.reshape(-1, 1)
    out[...] = means  # Note [Broadcast operands]
    np.subtract(rows, out, out)
    work = None
    if rows.size <= _FEW and count <= _SUM:  # as `row_dot` computes it
        work = out * out
        squares = row_sums(work)
    else:
        squares = row_dot(out, out)
    if is_far(mean, squares, count):
        first = rows[:, :1]
        np.subtract(rows, first, out)
        shift = row_sums(out) / count
        out -= shift[:, None]
        np.add(shift, first[:, 0], mean)
        squares = row_dot(out, out)
    deviations = inverse_deviation(squares, eps, count).reshape(-1, 1)
    _in_place(np.multiply, out, deviations, work)
    return means, deviations


def standardize_rows(rows, eps):
    """Standardize the rows of a matrix, block by block.

    Returns:
        A new matrix, columns of the means and of 1 / sqrt(variance + eps), and (slice, block of standardised rows) for
        each block. Of several blocks this is an iterator, which fills all three; a caller may compute on each block
        while it is in cache.
    """
    result = np.empty(rows.shape, rows.dtype)
    if 0 < rows.size <= _BLOCK:
        mean, deviation = standardize(rows, result, eps)
        return result, mean, deviation, [(_WHOLE, result)]
    count = rows.shape[0], 1
    mean, deviation = np.empty(count, rows.dtype), np.empty(count, rows.dtype)

    def blocks():
        for part in row_blocks(*rows.shape):
            mean[part], deviation[part] = standardize(rows[part], result[part], eps)
            yield part, result[part]

    return result, mean, deviation, blocks()


_FAR = 1e4  # the square of a mean's ratio to the standard deviation, above which rounding the mean costs digits


def is_far(mean, squares, count):
    """Return whether a mean is so much larger than the deviation that it is too inexact to be subtracted. `squares` are
    the sums of squared distances from the means of `count` elements."""
    if mean.size and dot(mean, mean) * count <= _FAR * squares.item(squares.argmin()):  # then none is; false for NaN
        return False
    return (mean * mean * count > _FAR * squares).any()


def inverse_deviation(squares, eps, count=1):
    """1 / sqrt(squares / count + eps)."""
    found = squares + number(eps * count, squares.dtype)
    np.divide(number(count, squares.dtype), found, found)
    return np.sqrt(found, found)


def project(h, standardized, scale):
    """Return scale * (h - M(h) - n M(h n)) row by row, with M the mean of a row and n the standardised rows: the
    derivative of standardising, which is symmetric. Overwrites `standardized`."""
    count = h.shape[1]
    inner = row_dot(h, standardized)
    inner /= number(-count, h.dtype)
    mean = row_sums(h)
    mean /= number(count, h.dtype)
    standardized *= inner[:, None]
    standardized += h
    standardized -= mean[:, None]
    standardized *= scale[:, None]
    return standardized


def is_channels_last(array):
    """Return whether the channels of images or volumes (dimension 1) lie innermost in memory."""
    return suggested_format(array) is not None


def to_channels(array, last):
    """Reshape (batch, channels, *) to a contiguous (batch, channels, positions); with the channels innermost to (batch
    * positions, channels). A view where possible."""
    if array.ndim == 2:
        return np.ascontiguousarray(array)
    shape = array.shape
    if last:
        moved = np.ascontiguousarray(np.moveaxis(array, 1, -1))
        return moved.reshape(prod(shape) // max(shape[1], 1), shape[1])
    return np.ascontiguousarray(array).reshape(shape[0], shape[1], prod(shape[2:]))


def from_channels(values, shape, last):
    """Invert `to_channels`."""
    if last:
        return np.moveaxis(values.reshape(shape[0], *shape[2:], shape[1]), -1, 1)
    return values.reshape(shape)


def per_channel(vector, values):
    """Return a vector, (channels,), as an operand that fits what `to_channels` returned."""
    return vector if values.ndim == 2 else vector[:, None]


def channel_count(values):
    """Return the number of elements of a channel."""
    return values.shape[0] if values.ndim == 2 else values.shape[0] * values.shape[2]


def channel_sum(values):
    """Sum the channels of (batch, channels) or (batch, channels, positions)."""
    if values.ndim == 2:
        return column_sum(values)
    batch, channels, positions = values.shape
    return column_sum(row_sums(values.reshape(batch * channels, positions)).reshape(batch, channels))


def channel_dot(a, b):
    """Return the inner products of the channels of two arrays (batch, channels) or (batch, channels, positions)."""
    if a.ndim == 2:
        return column_dot(a, b)
    batch, channels, positions = a.shape
    rows = (batch * channels, positions)
    return column_sum(row_dot(a.reshape(rows), b.reshape(rows)).reshape(batch, channels))


def weight_norm_interface(v, g, dim=0):
    """Return g v / |v| and |v|, the norm over all dimensions but `dim`, the first or the last, with the shape of g.

    For float16 and bfloat16, |v| is float32.
    """
    refuse("weight_norm_kernel", v, "biuc")
    if dim not in (0, v.ndim - 1):
        raise RuntimeError(f"_weight_norm_interface: dim must be the first or the last of {v.ndim}, but is {dim}")
    axes = tuple([d for d in range(v.ndim) if d != dim])
    wide = v.astype(np.float32) if is_half(v.dtype) else v
    norms = np.sqrt(np.add.reduce(np.square(wide), axes, keepdims=True))
    return (wide * (g / norms)).astype(v.dtype, copy=False), norms.reshape(g.shape)
