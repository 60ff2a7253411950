"""Samples of resampling: sizes that grow, shrink and stay; scales given and derived; aligned corners."""

from __future__ import annotations

from gradloom.tools.verify.samples import tensor

_SIZES = {1: (5,), 2: (3, 5), 3: (2, 3, 4)}
_CALLS = {1: ((7,), (3,), (5,)), 2: ((4, 7), (2, 3), (3, 5)), 3: ((3, 5, 6), (1, 2, 4))}
_SCALES = {1: (1.5,), 2: (1.5, 0.7), 3: (1.5, 1.2, 0.7)}


def _settings(dims, aligns):
    """Yield the sizes of the output and the further arguments."""
    none = (None,) * dims
    for size in _CALLS[dims]:
        yield size, *((False,) if aligns else ()), *none
    scaled = tuple(int(n * scale) for n, scale in zip(_SIZES[dims], _SCALES[dims], strict=True))
    yield scaled, *((False,) if aligns else ()), *_SCALES[dims]
    for d in range(dims):  # the scale of each dimension by itself
        yield scaled, *((False,) if aligns else ()), *(_SCALES[dims][d] if d == e else None for e in range(dims))
    if aligns:
        yield _CALLS[dims][0], True, *none


def upsample(dims, aligns):
    def make():
        for settings in _settings(dims, aligns):
            yield (tensor(2, 1, *_SIZES[dims]), *settings), {}

    return make


def upsample_backward(dims, aligns):
    def make():
        for size, *rest in _settings(dims, aligns):
            yield (tensor(2, 1, *size), size, (2, 1, *_SIZES[dims]), *rest), {}

    return make


def upsample_vec(dims, aligns):
    def make():
        align = (False,) if aligns else ()
        yield (tensor(2, 1, *_SIZES[dims]), _CALLS[dims][0], *align, None), {}
        yield (tensor(2, 1, *_SIZES[dims]), None, *align, _SCALES[dims]), {}
        if aligns:
            yield (tensor(2, 1, *_SIZES[dims]), _CALLS[dims][0], True, None), {}

    return make


_MODES = {
    "upsample_linear1d": (1, True),
    "upsample_bilinear2d": (2, True),
    "_upsample_bilinear2d_aa": (2, True),
    "upsample_trilinear3d": (3, True),
    "upsample_bicubic2d": (2, True),
    "_upsample_bicubic2d_aa": (2, True),
    "_upsample_lanczos2d_aa": (2, True),
    **{f"upsample_nearest{n}d": (n, False) for n in (1, 2, 3)},
    **{f"_upsample_nearest_exact{n}d": (n, False) for n in (1, 2, 3)},
}
SAMPLES = {}
for name, mode in _MODES.items():
    SAMPLES |= {name: upsample(*mode), f"{name}.vec": upsample_vec(*mode), f"{name}_backward": upsample_backward(*mode)}


def pad(dims):
    def make():
        for padding in ((1, 2), (0, 1), (2, 0), (-1, 1), (1, -2)):
            yield (tensor(2, 1, *(3,) * dims), (*padding, *(1, 0) * (dims - 1))), {}
        yield (tensor(1, *(3,) * dims), (1, 0) * (dims - 1) + (0, 2)), {}

    return make


def pad_backward(dims):
    def make():
        for padding in ((1, 2), (-1, 1)):
            whole = (*padding, *(1, 0) * (dims - 1))
            yield (tensor(2, 1, *(4,) * (dims - 1), 3 + sum(padding)), tensor(2, 1, *(3,) * dims), whole), {}

    return make


def pad_circular():
    for padding in ((1, 2), (3, 0), (-1, 1), (1, -2), (1, 0, 2, 1)):
        yield (tensor(2, 3, 3), padding), {}


for n in (1, 2, 3):
    for name in ("reflection", "replication"):
        SAMPLES |= {f"{name}_pad{n}d": pad(n), f"{name}_pad{n}d_backward": pad_backward(n)}
SAMPLES["_pad_circular"] = pad_circular


def _points(dims, reach):
    """Return points that lie between inputs, in and around the image, where sampling is differentiable."""
    return tensor(2, *(1,) * dims, dims, low=-reach, high=reach, seed=dims)


def _grids(dims):
    """Yield the points and the further arguments: modes, paddings and alignments."""
    settings = [(0, 0, True), (0, 1, False), (0, 2, True), (1, 0, False)]
    for setting in settings + [(2, 0, False), (2, 2, True)] * (dims == 2):
        yield _points(dims, 1.43), *setting


def grid_sampler(dims):
    def make():
        for grid, *rest in _grids(dims):
            yield (tensor(2, 1, *(2, 3, 2)[:dims]), grid, *rest), {}

    return make


def grid_sampler_backward(dims):
    def make():
        for grid, *rest in list(_grids(dims))[1::2]:
            grad = tensor(2, 1, *(1,) * dims, low=-1, high=1)
            yield (grad, tensor(2, 1, *(2, 3, 2)[:dims]), grid, *rest, (True, True)), {}

    return make


def grid_sampler_of_both():
    yield from grid_sampler(2)()
    yield next(iter(grid_sampler(3)()))


def affine_grid():
    for align in (False, True):
        yield (tensor(2, 2, 3), (2, 1, 3, 4), align), {}
        yield (tensor(1, 3, 4), (1, 1, 2, 1, 3), align), {}


def affine_grid_backward():
    for align in (False, True):
        yield (tensor(2, 3, 4, 2), (2, 1, 3, 4), align), {}
        yield (tensor(1, 2, 1, 3, 3), (1, 1, 2, 1, 3), align), {}


for n in (2, 3):
    SAMPLES |= {f"grid_sampler_{n}d": grid_sampler(n), f"grid_sampler_{n}d_backward": grid_sampler_backward(n)}
SAMPLES["grid_sampler"] = grid_sampler_of_both
SAMPLES["affine_grid_generator"] = affine_grid
SAMPLES["affine_grid_generator_backward"] = affine_grid_backward

# Exactly one of the two is given.
FIXED = {f"{name}.vec": ("output_size", "scale_factors") for name in _MODES}
