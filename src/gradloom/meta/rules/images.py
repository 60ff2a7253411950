"""Rules of operators on images: the last dimensions are those over which windows move."""

from __future__ import annotations

from typing import Any

from ...dispatch import _operators as ops
from ...kernels._common.layout import suggested_format
from ...types.dtype import int64
from ..runs import Run


def in_format(shape: Any, dtype: Any, order: Any) -> Any:
    """Return a tensor in a memory format, or a row of images of height 1 in it."""
    if order is None:
        return ops.empty(shape, dtype=dtype, device="meta")
    if len(shape) == 3:
        return ops.select(in_format((*shape[:2], 1, shape[2]), dtype, order), 2, 0)
    return ops.empty(shape, dtype=dtype, device="meta", memory_format=order)


def image_like(run: Run, spatial: Any, channels: int | None = None, dtype: Any = None) -> Any:
    """Return a tensor like the first one, with other spatial sizes, in its memory format."""
    first = run.call.args[0]._array
    lead = first.shape[: first.ndim - len(spatial)]
    if channels is not None:
        lead = (*lead[:-1], channels)
    return in_format((*lead, *spatial), dtype or run.call.args[0].dtype, suggested_format(first))


def like(run: Run, values: dict[str, Any], argument: str) -> Any:
    """Return a gradient of the shape of an argument, laid out as an image."""
    array = values[argument]._array
    return in_format(array.shape, values[argument].dtype, suggested_format(array))


def windows(values: dict[str, Any], size: Any, ceil_mode: bool = False) -> list[int]:
    """Return how many windows fit into the sizes of an image."""

    def each(name: str, default: int) -> list[int]:
        value = values.get(name, default)
        value = [value] if value.__class__ is int else list(value)
        return value * len(size) if len(value) == 1 else value

    kernel, padding, dilation = each("kernel_size", 1), each("padding", 0), each("dilation", 1)
    stride = each("stride", 1) or kernel
    found = []
    for n, k, s, p, d in zip(size, kernel, stride, padding, dilation, strict=True):
        count = (n + 2 * p - d * (k - 1) - 1 + (s - 1 if ceil_mode else 0)) // s + 1
        found.append(count - (ceil_mode and (count - 1) * s >= n + p))
    return found


def of_size(run: Run, spatial: Any, results: int = 1) -> Any:
    """Return an image of spatial sizes like the first tensor, and indices into that if there are two results."""
    ndim = run.call.args[0]._array.ndim
    if min(spatial) < 0 or ndim not in (len(spatial) + 1, len(spatial) + 2):
        return run.refused()
    found = image_like(run, spatial)
    return found if results == 1 else (found, image_like(run, spatial, dtype=int64))


def output_size(values: dict[str, Any], dims: int) -> list[int]:
    """Return the argument `output_size`, one number for each spatial dimension."""
    size = values["output_size"]
    size = [size] * dims if size.__class__ is int else list(size)
    return size * dims if len(size) == 1 else size


def _few(run: Run, dims: int) -> Any:
    """Run the kernel on few images of true size; NotImplemented if it raises for them."""
    try:
        return run.computing({}, dims)
    except Exception:
        return NotImplemented


# --- rules ------------------------------------------------------------------------------------------------------------


def pool(run: Run, values: dict[str, Any], dims: int, results: int) -> Any:
    if not run.is_large():
        return _few(run, dims)
    run.check(dims)
    return of_size(run, windows(values, run.call.args[0]._array.shape[-dims:], values["ceil_mode"]), results)


def resized(run: Run, values: dict[str, Any], dims: int, results: int = 1) -> Any:
    """Images of a given `output_size`."""
    if not run.is_large():
        return _few(run, dims)
    run.check(dims)
    return of_size(run, output_size(values, dims), results)


def padded(run: Run, values: dict[str, Any], dims: int) -> Any:
    if not run.is_large():
        return _few(run, dims)
    run.check(dims)
    pad, size = values["padding"], run.call.args[0]._array.shape[-dims:]
    if len(pad) != 2 * dims:
        return run.refused()
    return of_size(run, [n + pad[-2 * d - 2] + pad[-2 * d - 1] for d, n in enumerate(size)])


def reflected(run: Run, values: dict[str, Any], dims: int) -> Any:
    """Images that are padded with less than their size."""
    pad, size = values["padding"], run.call.args[0]._array.shape[-dims:]
    if run.is_large() and len(pad) == 2 * dims and max(pad) >= min(size):
        run.check(dims)
        return run.refused()
    return padded(run, values, dims)


def gradient(run: Run, values: dict[str, Any], dims: int) -> Any:
    """The gradient of images, the argument `self`."""
    return like(run, values, "self") if run.is_large() else _few(run, dims)


def upsample_backward(run: Run, values: dict[str, Any]) -> Any:
    grad = run.call.args[0]
    return in_format(values["input_size"], grad.dtype, suggested_format(grad._array))


_SETTINGS = ("stride", "padding", "dilation", "transposed", "output_padding", "groups")


def convolution(run: Run, values: dict[str, Any]) -> Any:
    from ...kernels.conv.convolution import result_layout

    x, weight, bias = (values[n] for n in ("input", "weight", "bias"))
    if x.dtype is not weight.dtype or x._array.dtype.kind == "b":
        return NotImplemented
    arrays = (x._array, weight._array, None if bias is None else bias._array)
    shape, order = result_layout(*arrays, *[values[n] for n in _SETTINGS])
    return in_format(shape, x.dtype, order)


def convolution_backward(run: Run, values: dict[str, Any]) -> Any:
    from ...kernels.conv.convolution import result_layout

    grad, x, weight = run.call.args[:3]
    shape, order = result_layout(x._array, weight._array, None, *[values[n] for n in _SETTINGS])
    if grad._array.shape != shape:
        return NotImplemented
    order = None if x._array.dtype.kind == "c" else order
    shapes = (tuple(x.shape), tuple(weight.shape), shape[1:2])
    return tuple(
        [
            in_format(s, t.dtype, order if len(s) > 1 else None) if wanted else None
            for s, t, wanted in zip(shapes, (x, weight, grad), values["output_mask"], strict=True)
        ]
    )
