"""Which machine code computes a convolution of images, or one of its gradients.

Note [Two kinds of vectors]
convolution_rows.py has vectors along the rows of an image, and computes in vain where rows do not fill them;
convolution_channels.py has vectors of channels, and does so where there are few. The latter also copies weights and
transposes what it stores, which counts if sums are short. Sizes decide, by factors that were measured with AVX-512;
where both would be idle half of the time, or the kernel is a single element, products of matrices are faster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from types import ModuleType
from typing import Any

from ...kernels._common.windows import Windows
from . import convolution_channels, convolution_rows
from .fits import Walk, contiguous
from .layouts import Layouts

MOST_TAPS = 16  # elements of a kernel's row, which are written out
STEPS = (1, 2)  # between windows, of which a gradient of the input is computed
_SLOWER = 1.05  # what a product along rows takes, where they fill vectors, for one of channels
_STORED = 4  # sums whose time a sum of channels takes to be stored
_MOST = 2.1  # times the time of vectors that are never idle, from which on products of matrices are faster


@lru_cache(1024)
def _chosen(dtype: str, depth: int, channels: int, windows: Windows, along: bool) -> ModuleType | None:
    """Return the code for sums of `depth` products and for so many channels in vectors, `along` rows only if allowed.
    None if products of matrices are faster."""
    if windows.kernel == (1, 1) or windows.kernel[1] > MOST_TAPS or min(windows.output) < 1 or min(windows.size) < 1:
        return None
    across = convolution_channels.idle(dtype, channels) * (1 + _STORED / depth)
    rows = convolution_rows.idle(dtype, windows.output[1]) * _SLOWER if along else _MOST
    if min(across, rows) >= _MOST:
        return None
    return convolution_channels if across <= rows else convolution_rows


def for_forward(dtype: str, channels: int, out_channels: int, windows: Windows) -> ModuleType | None:
    """Return the module whose `forward` is the fastest, for one group."""
    depth = channels * windows.kernel[0] * windows.kernel[1]
    return _chosen(dtype, depth, out_channels, windows, windows.stride[1] in convolution_rows.STEPS)


def for_input_gradient(dtype: str, channels: int, out_channels: int, windows: Windows) -> ModuleType | None:
    """Return the module whose `input_gradient` is the fastest."""
    axes = list(zip(windows.stride, windows.padding, windows.dilation, windows.kernel, strict=True))
    if any(s not in STEPS or (s > 1 and d > 1) for s, _, d, _ in axes):
        return None
    along = windows.stride == (1, 1) and all(p <= d * (k - 1) for _, p, d, k in axes)
    depth = out_channels * windows.kernel[0] * windows.kernel[1]
    return _chosen(dtype, depth, channels, windows._replace(output=windows.size, size=windows.output), along)


def for_weight_gradient(dtype: str, channels: int, out_channels: int, windows: Windows) -> ModuleType | None:
    """Return the module whose `weight_gradient` is the fastest."""
    return for_forward(dtype, channels, out_channels, windows)


def forward(dtype: str, images: int, channels: int, out_channels: int, windows: Windows,
            biased: bool) -> Callable[..., None]:  # fmt: skip
    """Return the function of (input, weight, bias if `biased`, output): a convolution that has a module."""
    module = for_forward(dtype, channels, out_channels, windows)
    assert module is not None
    of_x, of_w, of_y = _shapes(images, channels, out_channels, windows)
    walks = [contiguous(dtype, *of_x), contiguous(dtype, *of_w), *[contiguous(dtype, out_channels)] * biased]
    compute = module.forward(dtype, images, channels, out_channels, windows, biased)
    return _fitting([*walks, contiguous(dtype, *of_y, is_written=True)], compute)


def input_gradient(dtype: str, images: int, channels: int, out_channels: int,
                   windows: Windows) -> Callable[..., None]:  # fmt: skip
    """Return the function of (gradient, weight, gradient of the input)."""
    module = for_input_gradient(dtype, channels, out_channels, windows)
    assert module is not None
    of_x, of_w, of_y = _shapes(images, channels, out_channels, windows)
    walks = contiguous(dtype, *of_y), contiguous(dtype, *of_w), contiguous(dtype, *of_x, is_written=True)
    return _fitting(walks, module.input_gradient(dtype, images, channels, out_channels, windows))


def weight_gradient(dtype: str, images: int, channels: int, out_channels: int,
                    windows: Windows) -> Callable[..., None]:  # fmt: skip
    """Return the function of (gradient, input, gradient of the weight)."""
    module = for_weight_gradient(dtype, channels, out_channels, windows)
    assert module is not None
    of_x, of_w, of_y = _shapes(images, channels, out_channels, windows)
    walks = contiguous(dtype, *of_y), contiguous(dtype, *of_x), contiguous(dtype, *of_w, is_written=True)
    return _fitting(walks, module.weight_gradient(dtype, images, channels, out_channels, windows))


def _shapes(images: int, channels: int, out_channels: int, windows: Windows) -> tuple[tuple[int, ...], ...]:
    """Return the sizes of the input, the weight and the result."""
    of_w = out_channels, channels, *windows.kernel
    return (images, channels, *windows.size), of_w, (images, out_channels, *windows.output)


def _fitting(walks: Sequence[Walk], compute: Callable[..., None]) -> Callable[..., None]:
    """Return a function of arrays that raises MisfitError for others than `compute` walks over."""
    layouts = Layouts(walks)

    def call(*arrays: Any) -> None:
        layouts.require(arrays)
        compute(*arrays)

    return call
