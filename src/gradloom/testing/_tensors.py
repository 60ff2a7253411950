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
    """A tensor of uniformly drawn numbers, of the default generator.

    Args:
        shape: the sizes, as ints or as one list.
        dtype: of the elements.
        device: the CPU.
        low, high: the range, without its end. By default -9 and 9, for integers 10; 0 and 10 for unsigned ones.
        requires_grad: whether the tensor requires grad.
        noncontiguous: whether there are gaps between the elements in memory, where there is more than one.
        exclude_zero: take a tiny number, or 1, for zeros.
        memory_format: a layout of the memory; not together with `noncontiguous`.

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
