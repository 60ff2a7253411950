"""Derivative helpers of convolutions.

A convolution c(x, w) is linear in each of its arguments. Let I(g, w) and W(g, x) be the gradients of x and w that
`convolution_backward` returns. All higher derivatives follow from <g, c(x, w)> = <I(g, w), x> = <W(g, x), w>.
"""

from __future__ import annotations

from ..dispatch import _operators as ops


def _sum(first, second):
    return second if first is None else first if second is None else first + second


def _input_gradient(g, x, w, settings):
    return ops.convolution_backward(g, x, w, None, *settings, (True, False, False))[0]


def _weight_gradient(g, x, w, settings):
    return ops.convolution_backward(g, x, w, None, *settings, (False, True, False))[1]


def _bias_gradient(g):
    return ops.sum_dim_IntList(g, (0, *range(2, g.dim())), False, None)


def convolution_jvp(
    input_p, input_t, weight_p, weight_t, bias_t, stride, padding, dilation, transposed, output_padding, groups
):
    """c(x', w) + c(x, w') + b'."""
    settings = (stride, padding, dilation, transposed, output_padding, groups)
    return ops.convolution(input_t, weight_p, bias_t, *settings) + ops.convolution(input_p, weight_t, None, *settings)


def convolution_double_backward(
    ggi, ggw, ggb, grad_output, input, weight, stride, padding, dilation, transposed, output_padding, groups, mask
):
    """Return the gradients of convolution_backward for cotangents of its three results: c(ggI, w) + c(x, ggW) + ggb for
    g, I(g, ggW) for x, W(g, ggI) for w."""
    settings = (stride, padding, dilation, transposed, output_padding, groups)
    gg = gi = gw = None
    if mask[0]:
        if ggi is not None:
            gg = ops.convolution(ggi, weight, None, *settings)
        if ggw is not None:
            gg = _sum(gg, ops.convolution(input, ggw, None, *settings))
        if ggb is not None:
            bias = ops.expand(ops.reshape(ggb, (-1, *(1,) * (grad_output.dim() - 2))), grad_output.shape)
            gg = _sum(gg, bias)
    if mask[1] and ggw is not None:
        gi = _input_gradient(grad_output, input, ggw, settings)
    if mask[2] and ggi is not None:
        gw = _weight_gradient(grad_output, ggi, weight, settings)
    return gg, gi, gw


def convolution_backward_jvp(
    grad_p,
    grad_t,
    input_p,
    input_t,
    weight_p,
    weight_t,
    stride,
    padding,
    dilation,
    transposed,
    output_padding,
    groups,
    mask,
):
    """Return I(g', w) + I(g, w'), W(g', x) + W(g, x'), and the sum of g' over all dimensions except the channels."""
    settings = (stride, padding, dilation, transposed, output_padding, groups)
    gi = gw = gb = None
    if mask[0]:
        gi = _input_gradient(grad_t, input_p, weight_p, settings) + _input_gradient(grad_p, input_p, weight_t, settings)
    if mask[1]:
        gw = _weight_gradient(grad_t, input_p, weight_p, settings) + _weight_gradient(
            grad_p, input_t, weight_p, settings
        )
    if mask[2]:
        gb = _bias_gradient(grad_t)
    return gi, gw, gb


def conv_tbc_backward(grad, input, weight, bias, pad):
    """Return the gradients of conv_tbc's input, weight and bias from that of its result: those of conv1d with
    the dimensions in another order."""
    grads = ops.convolution_backward(
        ops.permute(grad, (1, 2, 0)),
        ops.permute(input, (1, 2, 0)),
        ops.permute(weight, (2, 1, 0)),
        tuple(bias.shape),
        (1,),
        (pad,),
        (1,),
        False,
        (0,),
        1,
        (True, True, True),
    )
    return (
        ops.contiguous(ops.permute(grads[0], (2, 0, 1))),
        ops.contiguous(ops.permute(grads[1], (2, 1, 0))),
        grads[2],
    )
