"""Random tensors for tests."""

from __future__ import annotations

from typing import Any

import gradloom as gl


def make_tensor(
    *shape: Any,
    dtype: gl.dtype,
    device: Any = "cpu",
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> gl.Tensor:
    """Return a tensor of uniform random numbers from the default generator.

    Args:
        shape: sizes, as ints or as one list.
        dtype: dtype of the elements.
        device: the CPU.
        low, high: half-open range; by default [-9, 9), [-9, 10) for signed and [0, 10) for unsigned integers.
        requires_grad: whether the tensor requires grad.
        noncontiguous: leave gaps between the elements in memory, if there are several.
        exclude_zero: replace zeros by the smallest positive number of the dtype.
        memory_format: memory format; not together with `noncontiguous`.

    Raises:
        ValueError: if `low` is not below `high`, or for options that exclude each other.
    """
    sizes = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
    if noncontiguous and memory_format is not None:
        raise ValueError("`noncontiguous` and `memory_format` are exclusive: give one of them")
    if requires_grad and not (dtype.is_floating_point or dtype.is_complex):
        raise ValueError(f"`requires_grad` must be False for a boolean or integral dtype, but got {dtype}")
    if dtype is gl.bool:
        lowest, highest = 0.0, 2.0
    elif dtype.is_floating_point or dtype.is_complex:
        lowest, highest = -9.0, 9.0
    else:
        lowest, highest = (-9.0 if dtype.is_signed else 0.0), 10.0
    lowest, highest = lowest if low is None else low, highest if high is None else high
    if not lowest < highest:
        raise ValueError(f"`low` must be less than `high`, but got {lowest} >= {highest}")
    drawn = (*sizes[:-1], 2 * sizes[-1]) if noncontiguous and sizes and gl.Size(sizes).numel() > 1 else sizes
    out = _drawn(drawn, dtype, device, lowest, highest)
    if drawn is not sizes:
        out = out[..., 1::2]
    elif memory_format is not None:
        out = out.clone(memory_format=memory_format)
    if exclude_zero:
        out[out == 0] = gl.finfo(dtype).tiny if dtype.is_floating_point or dtype.is_complex else 1
    return out.requires_grad_(requires_grad) if requires_grad else out


def _drawn(sizes, dtype, device, low, high) -> gl.Tensor:
    if dtype.is_complex:
        return gl.view_as_complex(_drawn((*sizes, 2), dtype.to_real(), device, low, high))
    if dtype.is_floating_point:
        return gl.empty(sizes, dtype=dtype, device=device).uniform_(low, high)
    return gl.randint(int(low), int(high), sizes, dtype=dtype, device=device)
