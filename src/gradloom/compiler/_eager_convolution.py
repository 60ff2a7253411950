"""Convolutions of images and sequences in eager mode by machine code. See `_llvm.convolution`.

They are of one group and not transposed, of contiguous arrays; a gradient that products of matrices compute faster is
left to the original kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..kernels.conv.convolution import _format, geometry
from ..types.silence import silence
from ._llvm import convolution as code
from ._llvm.fits import MisfitError

ndarray, empty = np.ndarray, np.empty
_DTYPES = {"f": "float32", "d": "float64"}


def _taken(arrays: tuple[Any, ...], transposed: bool, groups: int) -> bool:
    """Return whether arrays, of which the last are the input and the weight, have a layout that is computed."""
    dtype = arrays[0].dtype
    return (
        groups == 1 and not transposed and dtype.char in _DTYPES and 3 <= arrays[0].ndim <= 4
        and arrays[-1].ndim == arrays[0].ndim
        and all(type(x) is ndarray and x.dtype is dtype and x.flags.c_contiguous and x.size for x in arrays)
        and _format(*arrays[-2:]) is None
    )  # fmt: skip


def convolution(kernels: dict[Any, Any], compiled: Any) -> Callable[[Any], Any]:
    def make(original: Any) -> Any:
        def convolution(
            input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
            output_padding: Any, groups: int,
        ) -> Any:  # fmt: skip
            if _taken((input, weight), transposed, groups) and (
                bias is None
                or (type(bias) is ndarray and bias.dtype is input.dtype and bias.shape == weight.shape[:1]
                    and bias.flags.c_contiguous)
            ):  # fmt: skip
                windows = geometry(input, weight, stride, padding, dilation, False, output_padding, 1)
                (images, channels), out_channels, char = input.shape[:2], len(weight), input.dtype.char
                key = "convolution", images, channels, out_channels, windows, char, bias is None
                compute = kernels.get(key)
                if compute is None:
                    dtype, sizes = _DTYPES[char], (channels, out_channels, windows)
                    compute = compiled(key, None)  # which leaves room for a key
                    if code.for_forward(dtype, *sizes):
                        compute = kernels[key] = code.forward(dtype, images, *sizes, bias is not None)
                if compute:
                    out = empty((images, out_channels, *windows.output[4 - input.ndim :]), input.dtype)
                    arrays = (input, weight) if bias is None else (input, weight, bias)
                    try:
                        compute(*arrays, out)
                        return out
                    except MisfitError:
                        pass
            return original(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)

        return convolution

    return make


def convolution_backward(kernels: dict[Any, Any], compiled: Any) -> Callable[[Any], Any]:
    def make(original: Any) -> Any:
        def convolution_backward(
            grad_output: Any, input: Any, weight: Any, bias_sizes: Any, stride: Any, padding: Any, dilation: Any,
            transposed: bool, output_padding: Any, groups: int, output_mask: Any,
        ) -> Any:  # fmt: skip
            settings = stride, padding, dilation, transposed, output_padding, groups
            found: list[Any] = [None, None, None]
            if type(grad_output) is ndarray:
                grad_output = np.ascontiguousarray(grad_output)
            if _taken((grad_output, input, weight), transposed, groups):
                windows = geometry(input, weight, *settings)
                (images, channels), out_channels, dtype = input.shape[:2], len(weight), input.dtype
                if grad_output.shape == (images, out_channels, *windows.output[4 - input.ndim :]):
                    sizes = images, channels, out_channels, windows
                    if output_mask[0]:
                        compute = _gradient(kernels, compiled, "input_gradient", dtype.char, sizes)
                        if compute:
                            found[0] = _computed(compute, grad_output, weight, empty(input.shape, dtype))
                    if output_mask[1]:
                        compute = _gradient(kernels, compiled, "weight_gradient", dtype.char, sizes)
                        if compute:
                            found[1] = _computed(compute, grad_output, input, empty(weight.shape, dtype))
            mask = [bool(wanted) and x is None for wanted, x in zip(output_mask, found, strict=True)]
            if any(mask) or not any(output_mask):
                rest = original(grad_output, input, weight, bias_sizes, *settings, mask)
                if found[0] is found[1] is None:
                    return rest
                found = [x if x is not None else y for x, y in zip(found, rest, strict=True)]
            return tuple(found)

        return convolution_backward

    return make


def _computed(compute: Any, a: Any, b: Any, out: Any) -> Any:
    """Return the result; None if the arrays are not those that machine code takes."""
    try:
        compute(a, b, out)
    except MisfitError:
        return None
    return out


def _gradient(kernels: dict[Any, Any], compiled: Any, name: str, char: str, sizes: tuple[Any, ...]) -> Any:
    """Return the function of the arrays, or False."""
    key = name, *sizes, char
    compute = kernels.get(key)
    if compute is None:
        dtype = _DTYPES[char]
        compute = compiled(key, None)
        if getattr(code, f"for_{name}")(dtype, *sizes[1:]):
            compute = kernels[key] = getattr(code, name)(dtype, *sizes)
    return compute


silence(globals())
