"""Padding, sliding windows and resampling: arguments completed, then the operator for the dimension."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from gradloom import Tensor
from gradloom.dispatch.overloads import overloaded_function, overrides
from gradloom.nn._functional import operators as ops
from gradloom.types import IntList


def pad(input: Tensor, pad: IntList, mode: str = "constant", value: float | None = None) -> Tensor:
    """Pad the last dimensions.

    Args:
        input: (*).
        pad: pairs of paddings, the last dimension's first; negative numbers crop.
        mode: "constant", "reflect", "replicate" or "circular".
        value: number to pad with in mode "constant", by default 0.

    Shape:
        output: (*); a size grows by its two paddings.

    Raises:
        RuntimeError: for an odd number of paddings, too many, or a value in another mode.
        NotImplementedError: for another mode, or a number of dimensions that the mode does not support.
    """
    try:
        return _pad(input, pad, mode, value)
    except (AttributeError, TypeError, RuntimeError):  # an argument of a wrong type comes first
        if not overrides(type(input)):
            _check_pad(input, pad, mode, value)
        raise


# Raises TypeError unless the arguments have the types that `pad` takes.
_check_pad = overloaded_function(
    "pad", (((("input", "Tensor"), ("pad", "int[]"), ("mode", "str"), ("value", "float?")), lambda *arguments: None),)
)


def _pad(input, pad, mode, value):
    dims, count = input.dim(), len(pad)
    if mode not in ("constant", "reflect", "replicate", "circular"):
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if count % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if count > 2 * dims:
        raise RuntimeError(
            "Padding length should be less than or equal to two times the input dimension but got padding "
            f"length {count} and input of dimension {dims}"
        )
    if mode == "constant":
        if value.__class__ in (int, bool, complex):
            value = float(value)  # TypeError for a complex one
        return ops.constant_pad_nd(input, pad, 0 if value is None else value)
    if value is not None and value != 0:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    spatial = count // 2
    if spatial not in (1, 2, 3) or dims not in (spatial + 1, spatial + 2):
        raise NotImplementedError(
            f"Padding size {count} is not supported for {dims}D input tensor.\n"
            "Supported combinations for non-constant padding:\n"
            "  - 2D or 3D input: padding size = 2 (pads last dimension)\n"
            "  - 3D or 4D input: padding size = 4 (pads last 2 dimensions)\n"
            "  - 4D or 5D input: padding size = 6 (pads last 3 dimensions)"
        )
    if mode == "circular":
        return ops._pad_circular(input, pad)
    return getattr(ops, f"{'reflection' if mode == 'reflect' else 'replication'}_pad{spatial}d")(input, pad)


def _pairs(operator, **values):
    """Return a pair for each of an operator's arguments, from its second on; a single int stands for both."""
    found = []
    for position, (name, value) in enumerate(values.items(), 2):
        if not isinstance(value, (tuple, list)):
            if not hasattr(value, "__index__"):
                raise TypeError(
                    f"{operator}(): argument '{name}' (position {position}) must be tuple of ints, "
                    f"but found element of type {type(value).__name__} at pos 0"
                )
            value = (value, value)
        if len(value) != 2:
            raise RuntimeError(f"It is expected {name} equals to 2, but got size {len(value)}")
        found.append(tuple(value))
    return found


def unfold(
    input: Tensor,
    kernel_size: int | IntList,
    dilation: int | IntList = 1,
    padding: int | IntList = 0,
    stride: int | IntList = 1,
) -> Tensor:
    """Copy sliding blocks into columns.

    Args:
        input: (N, C, H, W) or (C, H, W), floating.
        kernel_size: size of the blocks, an int or (height, width).
        dilation: spacing of a block's elements, likewise.
        padding: zeros added at both ends of each spatial dimension, likewise.
        stride: step of the blocks, likewise.

    Shape:
        output: (N, C * product of kernel_size, blocks) or without N.
    """
    pairs = _pairs("im2col", kernel_size=kernel_size, dilation=dilation, padding=padding, stride=stride)
    return ops.im2col(input, *pairs)


def fold(
    input: Tensor,
    output_size: int | IntList,
    kernel_size: int | IntList,
    dilation: int | IntList = 1,
    padding: int | IntList = 0,
    stride: int | IntList = 1,
) -> Tensor:
    """Sum sliding blocks, given as columns, at their positions; the adjoint of `unfold`.

    Args:
        input: (N, C * product of kernel_size, blocks) or without N; floating.
        output_size: spatial size of the output, an int or (H, W).
        kernel_size: size of the blocks, an int or (height, width).
        dilation: spacing of a block's elements, likewise.
        padding: padding of the output, likewise.
        stride: step of the blocks, likewise.

    Shape:
        output: (N, C, H, W) or (C, H, W).
    """
    pairs = _pairs(
        "col2im", output_size=output_size, kernel_size=kernel_size, dilation=dilation, padding=padding, stride=stride
    )
    return ops.col2im(input, *pairs)


_MODES_BY_DIM = {
    3: {"nearest": "upsample_nearest1d", "nearest-exact": "_upsample_nearest_exact1d", "linear": "upsample_linear1d"},
    4: {
        "nearest": "upsample_nearest2d",
        "nearest-exact": "_upsample_nearest_exact2d",
        "bilinear": "upsample_bilinear2d",
        "bicubic": "upsample_bicubic2d",
        "lanczos": "upsample_lanczos2d",
    },
    5: {
        "nearest": "upsample_nearest3d",
        "nearest-exact": "_upsample_nearest_exact3d",
        "trilinear": "upsample_trilinear3d",
    },
}
_RANKS = {"linear": 3, "bilinear": 4, "trilinear": 5}


def interpolate(
    input: Tensor,
    size: int | IntList | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Resample to `size`, or by `scale_factor`.

    Args:
        input: (N, C, L), (N, C, H, W) or (N, C, D, H, W).
        size: spatial sizes of the output, an int or one per dimension; this or `scale_factor`.
        scale_factor: factor of the spatial sizes, a number or one per dimension.
        mode: "nearest", "nearest-exact", "linear" (3-d input), "bilinear", "bicubic", "lanczos" (4-d),
            "trilinear" (5-d) or "area".
        align_corners: for the linear and cubic modes: keep the centres of the corner elements in place.
        recompute_scale_factor: use the factor that the rounded output size implies.
        antialias: smooth before reducing; for "bilinear" and "bicubic", and necessary for "lanczos".

    Shape:
        output: (N, C, *size), or with each spatial size S as floor(S * scale_factor).

    Raises:
        ValueError: unless one of size and scale_factor is given, for as many dimensions as the input's, and for options
            that the mode does not have.
        NotImplementedError: for a mode that does not match the input's dimensions.
    """
    spatial = input.dim() - 2
    if mode in ("nearest", "area", "nearest-exact"):
        if align_corners is not None:
            raise ValueError(
                "align_corners option can only be set with the interpolating modes: linear | bilinear | "
                "bicubic | trilinear"
            )
    elif align_corners is None:
        align_corners = False
    if (size is None) == (scale_factor is None):
        both = "only one of size or scale_factor should be defined"
        raise ValueError(both if size is not None else "either size or scale_factor should be defined")
    size, scales = _per_dimension(input, size, scale_factor, spatial)
    if recompute_scale_factor and scales is None:
        raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
    if scales is not None and (recompute_scale_factor or mode == "area"):
        size, scales = [int(n * scale) for n, scale in zip(input.shape[2:], scales, strict=True)], None
    if antialias and (mode not in ("bilinear", "bicubic", "lanczos") or input.dim() != 4):
        raise ValueError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires a 4-D tensor as input"
        )
    if mode == "area" and spatial in (1, 2, 3):
        return getattr(ops, f"adaptive_avg_pool{spatial}d")(input, size)
    name = _operator(input.dim(), mode, align_corners, antialias)
    options = (scales,) if align_corners is None else (align_corners, scales)
    return getattr(ops, name)(input, size, *options)


def _operator(dims, mode, align_corners, antialias):
    """Return the name of the operator for an input of `dims` dimensions."""
    name = _MODES_BY_DIM.get(dims, {}).get(mode)
    if mode == "lanczos" and name:
        if align_corners:
            raise ValueError("Lanczos mode does not support align_corners=True")
        if not antialias:
            raise ValueError("Lanczos mode requires antialias=True")
    if name is None:
        if mode in _RANKS and dims in (3, 4, 5):
            raise NotImplementedError(f"Got {dims}D input, but {mode} mode needs {_RANKS[mode]}D input")
        raise NotImplementedError(
            f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {dims}D) for the modes: "
            f"nearest | linear | bilinear | bicubic | trilinear | lanczos | area | nearest-exact (got {mode})"
        )
    return f"_{name}_aa" if antialias else name


def _per_dimension(input, size, scale_factor, spatial):
    """Return the spatial sizes of the output, and the scales, each as a sequence; one of them is None."""
    given, name = (size, "output") if scale_factor is None else (scale_factor, "scale_factor")
    if not isinstance(given, (tuple, list)):
        given = [given] * spatial
    elif len(given) != spatial:
        of, format, letters = ("size of", "output size", "o") if name == "output" else ("of shape", name, "s")
        raise ValueError(
            f"Input and {name} must have the same number of spatial dimensions, but got input with spatial dimensions "
            f"of {list(input.shape[2:])} and {name} {of} {given}. Please provide input tensor in (N, C, d1, d2, "
            f"...,dK) format and {format} in ({letters}1, {letters}2, ...,{letters}K) format."
        )
    elif name == "output" and not all(hasattr(n, "__index__") for n in given):
        raise TypeError(
            "expected size to be one of int or Tuple[int] or Tuple[int, int] or Tuple[int, int, int], but got size "
            f"with types {[type(n) for n in given]}"
        )
    return (given, None) if name == "output" else (None, given)


def upsample(
    input: Tensor,
    size: int | IntList | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """Deprecated name of `interpolate`.

    Args:
        input, size, scale_factor, mode, align_corners: as for `interpolate`.

    Shape:
        output: as for `interpolate`.
    """
    warnings.warn("`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2)
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(
    input: Tensor, size: int | IntList | None = None, scale_factor: float | Sequence[float] | None = None
) -> Tensor:
    """Deprecated: `interpolate` with mode "nearest".

    Args:
        input, size, scale_factor: as for `interpolate`.

    Shape:
        output: as for `interpolate`.
    """
    warnings.warn(
        "`nn.functional.upsample_nearest` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2
    )
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(
    input: Tensor, size: int | IntList | None = None, scale_factor: float | Sequence[float] | None = None
) -> Tensor:
    """Deprecated: `interpolate` with mode "bilinear" and aligned corners.

    Args:
        input, size, scale_factor: as for `interpolate`.

    Shape:
        output: as for `interpolate`.
    """
    warnings.warn(
        "`nn.functional.upsample_bilinear` is deprecated. Use `nn.functional.interpolate` instead.", stacklevel=2
    )
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


_SAMPLING = {"bilinear": 0, "nearest": 1, "bicubic": 2}
_BORDERS = {"zeros": 0, "border": 1, "reflection": 2}


def grid_sample(
    input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Tensor:
    """Sample the input at the positions of a grid (Jaderberg et al. 2015).

    Args:
        input: (N, C, H, W) or (N, C, D, H, W), floating.
        grid: (N, H_out, W_out, 2) or (N, D_out, H_out, W_out, 3): positions x, y[, z] in [-1, 1].
        mode: "bilinear", "nearest" or "bicubic".
        padding_mode: values outside: "zeros", "border" or "reflection".
        align_corners: let -1 and 1 be the centres of the corner elements, not their outer edges.

    Shape:
        output: (N, C, H_out, W_out) or (N, C, D_out, H_out, W_out).

    Raises:
        ValueError: for an unknown mode or padding_mode.
    """
    if mode not in _SAMPLING:
        raise ValueError(
            f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'"
        )
    if padding_mode not in _BORDERS:
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', "
            f"but got: '{padding_mode}'"
        )
    if align_corners is None:
        warnings.warn(
            "Default grid_sample and affine_grid behavior has changed to align_corners=False. "
            "Please specify align_corners=True if the old behavior is desired.",
            stacklevel=2,
        )
    return ops.grid_sampler(input, grid, _SAMPLING[mode], _BORDERS[padding_mode], bool(align_corners))


def affine_grid(theta: Tensor, size: IntList, align_corners: bool | None = None) -> Tensor:
    """Return the sampling grid of affine maps, for `grid_sample`.

    Args:
        theta: (N, 2, 3) or (N, 3, 4), floating.
        size: (N, C, H, W) or (N, C, D, H, W), sizes of the output image.
        align_corners: as for `grid_sample`.

    Shape:
        output: (N, H, W, 2) or (N, D, H, W, 3).

    Raises:
        ValueError: for a theta of another dtype or shape, or an empty size.
        NotImplementedError: for other numbers of dimensions.
    """
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    spatial = len(size) - 2
    if spatial not in (2, 3):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. Got "
            f"size {size}."
        )
    if theta.dim() != 3 or theta.shape[-2:] != (spatial, spatial + 1):
        raise ValueError(
            f"Expected a batch of {spatial}D affine matrices of shape Nx{spatial}x{spatial + 1} for size "
            f"{size}. Got {theta.shape}."
        )
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    if align_corners is None:
        warnings.warn(
            "Default grid_sample and affine_grid behavior has changed to align_corners=False. "
            "Please specify align_corners=True if the old behavior is desired.",
            stacklevel=2,
        )
    return ops.affine_grid_generator(theta, size, bool(align_corners))
