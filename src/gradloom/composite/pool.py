"""Pooling operators in terms of others: one-dimensional pooling as two-dimensional pooling of height 1."""

from __future__ import annotations

from ..dispatch import _operators as ops
from ..types.dtype import scalar_type_name


def max_pool2d(self, kernel_size, stride, padding, dilation, ceil_mode):
    """Return the largest element of every window."""
    return ops.exact.max_pool2d_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode)[0]


def max_pool3d(self, kernel_size, stride, padding, dilation, ceil_mode):
    """Return the largest element of every window."""
    return ops.exact.max_pool3d_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode)[0]


def _check_rank(self, name):
    if self.dim() not in (2, 3):
        if name == "max_pool1d":
            ranks = "2D or 3D (batch mode) tensor with optional 0 dim batch size"
            raise RuntimeError(f"{name}: Expected {ranks} for input, but got:{list(self.shape)}")
        raise RuntimeError(
            f"Expected 2 to 3 dimensions, but got {self.dim()}-dimensional tensor for argument #1 'self' (while "
            f"checking arguments for {name})"
        )


def max_pool1d_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode):
    """Return the largest element of every window, and its position."""
    _check_rank(self, "max_pool1d")
    stride = stride or kernel_size
    _check_one("max_pool1d", kernel_size=kernel_size, stride=stride, padding=padding, dilation=dilation)
    windows = (1, *kernel_size), (1, *stride), (0, *padding), (1, *dilation)
    values, indices = ops.max_pool2d_with_indices(ops.unsqueeze(self, -2), *windows, ceil_mode)
    return ops.squeeze(values, -2), ops.squeeze(indices, -2)


def max_pool1d(self, kernel_size, stride, padding, dilation, ceil_mode):
    """Return the largest element of every window. Raises NotImplementedError for dtypes that are not floating."""
    if not self.is_floating_point():
        raise NotImplementedError(f"\"max_pool1d_impl\" not implemented for '{scalar_type_name(self.dtype)}'")
    return max_pool1d_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode)[0]


def avg_pool1d(self, kernel_size, stride, padding, ceil_mode, count_include_pad):
    """Return the mean of every window."""
    _check_rank(self, "avg_pool1d")
    stride = stride or kernel_size
    _check_one("avg_pool1d", kernel_size=kernel_size, stride=stride, padding=padding)
    windows = (1, *kernel_size), (1, *stride), (0, *padding)
    found = ops.avg_pool2d(ops.unsqueeze(self, -2), *windows, ceil_mode, count_include_pad, None)
    return ops.squeeze(found, -2)


def _check_one(function, **arguments):
    for name, value in arguments.items():
        if len(value) != 1:
            raise RuntimeError(f"{function}() argument '{name}' should contain one int (got {len(value)})")


def adaptive_avg_pool1d(self, output_size):
    """Return the means of `output_size` windows."""
    _check_rank(self, "adaptive_avg_pool1d")
    _check_one("adaptive_avg_pool1d", output_size=output_size)
    return ops.squeeze(ops.adaptive_avg_pool2d(ops.unsqueeze(self, -2), (1, *output_size)), -2)


def adaptive_max_pool1d(self, output_size):
    """Return the largest elements of `output_size` windows, and their positions."""
    _check_rank(self, "adaptive_max_pool1d")
    _check_one("adaptive_max_pool1d", output_size=output_size)
    values, indices = ops.adaptive_max_pool2d(ops.unsqueeze(self, -2), (1, *output_size))
    return ops.squeeze(values, -2), ops.squeeze(indices, -2)


def _adaptive_avg_pool(dims, self, output_size, general):
    if self.dim() in (dims + 1, dims + 2) and tuple(output_size) == (1,) * dims and self.numel():
        return ops.mean_dim(self, tuple(range(-1, -dims - 1, -1)), True, None)
    return general(self, output_size)


def adaptive_avg_pool2d(self, output_size):
    """Return the means of `output_size` windows."""
    return _adaptive_avg_pool(2, self, output_size, ops._adaptive_avg_pool2d)


def adaptive_avg_pool3d(self, output_size):
    """Return the means of `output_size` windows."""
    return _adaptive_avg_pool(3, self, output_size, ops._adaptive_avg_pool3d)
