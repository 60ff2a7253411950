"""Convolutions of one, two and three dimensions, in terms of the general one."""

from __future__ import annotations

from functools import partial

from ..dispatch import _operators as ops


def _check_rank(dims, name, input):
    if input.dim() not in (dims + 1, dims + 2):
        raise RuntimeError(
            f"Expected {dims + 1}D (unbatched) or {dims + 2}D (batched) input to {name}, but got input "
            f"of size: {list(input.shape)}"
        )


def _general(dims, name, input, call):
    """Call a convolution; an input without a batch dimension gets one of size 1."""
    _check_rank(dims, name, input)
    if input.dim() == dims + 1:
        return ops.squeeze(call(ops.unsqueeze(input, 0)), 0)
    return call(input)


def _conv(dims, input, weight, bias, stride, padding, dilation, groups):
    if isinstance(padding, str):
        return _conv_padded_by_name(dims, input, weight, bias, stride, padding, dilation, groups)
    return _general(
        dims,
        f"conv{dims}d",
        input,
        lambda x: ops.convolution(x, weight, bias, stride, padding, dilation, False, (0,) * dims, groups),
    )


def _conv_padded_by_name(dims, input, weight, bias, stride, padding, dilation, groups):
    if padding == "valid":
        return _conv(dims, input, weight, bias, stride, (0,) * dims, dilation, groups)
    if padding != "same":
        raise RuntimeError(f"Invalid padding string: '{padding}'")
    if any(s != 1 for s in stride):
        raise RuntimeError("padding='same' is not supported for strided convolutions")
    _check_rank(dims, f"conv{dims}d", input)
    if weight.dim() != dims + 2:
        raise RuntimeError(f"expected a weight of {dims + 2} dimensions, but got {list(weight.shape)}")
    totals = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:], strict=True)]
    left = tuple(t // 2 for t in totals)
    extra = [t - 2 * h for t, h in zip(totals, left, strict=True)]

    def padded(x):
        if any(extra):  # one side gets one element more: pad that side first
            x = ops.constant_pad_nd(x, tuple(n for e in reversed(extra) for n in (0, e)), 0)
        return ops.convolution(x, weight, bias, stride, left, dilation, False, (0,) * dims, groups)

    return _general(dims, f"conv{dims}d", input, padded)


def _conv_transpose(dims, input, weight, bias, stride, padding, output_padding, groups, dilation):
    return _general(
        dims,
        f"conv_transpose{dims}d",
        input,
        lambda x: ops.convolution(x, weight, bias, stride, padding, dilation, True, output_padding, groups),
    )


conv1d, conv2d, conv3d = (partial(_conv, dims) for dims in (1, 2, 3))
conv_transpose1d, conv_transpose2d, conv_transpose3d = (partial(_conv_transpose, dims) for dims in (1, 2, 3))
