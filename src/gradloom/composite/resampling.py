"""Resampling by an output size or by scales."""

from __future__ import annotations

from functools import partial

from ..dispatch import _operators as ops


def _upsample(name, dims, input, output_size, *options):
    """Call the upsampling operator with the output's sizes and the scale of each dimension."""
    *align, scales = options
    if (output_size is None) == (scales is None):
        raise RuntimeError("Must specify exactly one of output_size and scale_factors")
    upsample = getattr(ops.exact, name)
    if scales is None:
        return upsample(input, tuple(output_size), *align, *(None,) * dims)
    if len(scales) != dims or input.dim() != dims + 2:
        output_size = (1,) * len(scales)  # the operator says which number is wrong
    else:
        output_size = tuple(int(n * scale) for n, scale in zip(input.shape[2:], scales, strict=True))
    return upsample(input, output_size, *align, *scales[:dims], *(None,) * (dims - len(scales)))


upsample_nearest1d = partial(_upsample, "upsample_nearest1d", 1)
upsample_nearest2d = partial(_upsample, "upsample_nearest2d", 2)
upsample_nearest3d = partial(_upsample, "upsample_nearest3d", 3)
upsample_nearest_exact1d = partial(_upsample, "_upsample_nearest_exact1d", 1)
upsample_nearest_exact2d = partial(_upsample, "_upsample_nearest_exact2d", 2)
upsample_nearest_exact3d = partial(_upsample, "_upsample_nearest_exact3d", 3)
upsample_linear1d = partial(_upsample, "upsample_linear1d", 1)
upsample_bilinear2d = partial(_upsample, "upsample_bilinear2d", 2)
upsample_trilinear3d = partial(_upsample, "upsample_trilinear3d", 3)
upsample_bicubic2d = partial(_upsample, "upsample_bicubic2d", 2)
upsample_bilinear2d_aa = partial(_upsample, "_upsample_bilinear2d_aa", 2)
upsample_bicubic2d_aa = partial(_upsample, "_upsample_bicubic2d_aa", 2)
upsample_lanczos2d_aa = partial(_upsample, "_upsample_lanczos2d_aa", 2)


def pad_circular(self, pad):
    """Pad the last dimensions with the elements of the opposite end; negative numbers crop."""
    dims = len(pad) // 2
    lead = self.dim() - dims
    pairs = [tuple(pad[2 * d : 2 * d + 2]) for d in reversed(range(dims))]  # of the first dimension first
    size = list(self.shape)
    for d, (left, right) in enumerate(pairs, lead):
        size[d] += left + right
        if left > self.shape[d] or right > self.shape[d]:
            raise RuntimeError("Padding value causes wrapping around more than once.")
        if size[d] < 0:
            raise RuntimeError("Negative padding value is resulting in an empty dimension")
    out = ops.new_empty(self, tuple(size))
    inner, source = out, self
    for d, (left, right) in enumerate(pairs, lead):
        first, last = max(left, 0), size[d] - max(right, 0)
        inner = ops.slice(inner, d, first, last)
        source = ops.slice(source, d, max(-left, 0), self.shape[d] - max(-right, 0))
    ops.copy_(inner, source)
    for d, (left, right) in enumerate(pairs, lead):
        if left > 0:
            end = size[d] - max(right, 0)
            ops.copy_(ops.slice(out, d, 0, left), ops.slice(out, d, end - left, end))
        if right > 0:
            begin = max(left, 0)
            ops.copy_(ops.slice(out, d, size[d] - right, size[d]), ops.slice(out, d, begin, begin + right))
    return out


def grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners):
    """Sample images or volumes at the points of a grid."""
    sample = ops.grid_sampler_2d if input.dim() == 4 else ops.grid_sampler_3d
    return sample(input, grid, interpolation_mode, padding_mode, align_corners)


def affine_grid_generator_backward(grad, size, align_corners):
    """Return the gradient of theta: the points before the map, times the gradient of those after it."""
    dims = len(size) - 2
    identity = ops.unsqueeze(
        ops.eye(dims, dims + 1, dtype=grad.dtype, device=grad.device), 0
    )  # maps every point to itself
    points = ops.affine_grid_generator(identity, (1, 1, *size[2:]), align_corners)
    points = ops.constant_pad_nd(ops.reshape(points, (1, -1, dims)), (0, 1), 1)
    flat = ops.reshape(grad, (grad.shape[0], points.shape[1], dims))
    total = ops.bmm(ops.transpose(ops.expand(points, (grad.shape[0], -1, -1)), 1, 2), flat)
    return ops.transpose(total, 1, 2)
