"""Gradients of convolutions for their inputs and weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gradloom as gl
from gradloom.core.tensor import Tensor

__all__ = ["conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight"]


def _of(dims: int, weight: bool) -> Callable[..., Tensor]:
    def each(value):
        return tuple(value) if isinstance(value, (tuple, list)) else (value,) * dims

    def gradient(x, w, grad_output, stride, padding, dilation, groups):
        settings = each(stride), each(padding), each(dilation), False, (0,) * dims, groups
        mask = (not weight, weight, False)
        return gl.ops.aten.convolution_backward(grad_output, x, w, None, *settings, mask)[int(weight)]

    if weight:

        def function(
            input: Tensor,
            weight_size: Any,
            grad_output: Tensor,
            stride: Any = 1,
            padding: Any = 0,
            dilation: Any = 1,
            groups: int = 1,
        ) -> Tensor:
            w = grad_output.new_empty(1).expand(weight_size)
            return gradient(input, w, grad_output, stride, padding, dilation, groups)

    else:

        def function(
            input_size: Any,
            weight: Tensor,
            grad_output: Tensor,
            stride: Any = 1,
            padding: Any = 0,
            dilation: Any = 1,
            groups: int = 1,
        ) -> Tensor:
            x = grad_output.new_empty(1).expand(input_size)
            return gradient(x, weight, grad_output, stride, padding, dilation, groups)

    what = "weight" if weight else "input"
    function.__name__ = function.__qualname__ = f"conv{dims}d_{what}"
    sources = ["input: (N, C, *spatial)", "weight_size: shape"] if weight else ["input_size: shape", "weight: weight"]
    function.__doc__ = f"""Return the gradient of `conv{dims}d` for its {what}.

    Args:
        {sources[0]} of the convolution's input.
        {sources[1]} of the convolution.
        grad_output: gradient of the convolution's output.
        stride, padding, dilation, groups: those of the convolution; an int, or one for each spatial dimension.

    Raises RuntimeError for shapes and settings that do not fit together.
    """
    return function


conv1d_input: Callable[..., Tensor] = _of(1, False)
conv1d_weight: Callable[..., Tensor] = _of(1, True)
conv2d_input: Callable[..., Tensor] = _of(2, False)
conv2d_weight: Callable[..., Tensor] = _of(2, True)
conv3d_input: Callable[..., Tensor] = _of(3, False)
conv3d_weight: Callable[..., Tensor] = _of(3, True)
