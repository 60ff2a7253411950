"""Masks in the input's shape, values that do not change a result, and the input with such values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import gradloom
from gradloom import Tensor
from gradloom.kernels._common.dims import wrap_dim
from gradloom.types import IntList

_REDUCTIONS = "sum prod amax amin argmax argmin mean median norm var std logsumexp".split()
_NORMALIZATIONS = "softmax log_softmax softmin normalize cumsum cumprod".split()


def _canonical_dim(dim: int | IntList | None, ndim: int) -> tuple[int, ...]:
    """Return dimensions counted from the front, in order; None and () stand for all. Raises IndexError for one out of
    range, RuntimeError for one given twice."""
    if dim is None or dim == ():
        return tuple(range(ndim))
    given = (dim,) if isinstance(dim, int) else tuple(dim)
    for i, d in enumerate(given):
        wrap_dim(d, max(ndim, 1))
        if d in given[:i]:
            raise RuntimeError(f"dim={d} appears multiple times in the list of dims")
    return tuple(sorted(wrap_dim(d, ndim) for d in given))


def _reduction_identity(op_name: str, input: Tensor, *args: Any) -> Tensor | None:
    """Return the value, a 0-dim tensor of the input's dtype, that does not change the result of a reduction; None for
    one that has no such value, as a mean.

    Args:
        op_name: the name of the function.
        input: the tensor to reduce.
        args: for `norm`, its order.

    Raises:
        NotImplementedError: if the dtype has no such value.
    """
    dtype, name = input.dtype, op_name.rpartition(".")[2]
    is_float = input.is_floating_point()
    value: complex
    if name in ("mean", "var", "std"):
        return None
    if name in ("sum", "cumsum"):
        value = 0
    elif name in ("prod", "cumprod"):
        value = 1
    elif name == "norm":
        value = math.inf if args and args[0] == -math.inf else 0
    elif name == "median":  # nanmedian skips nan
        return gradloom.tensor(math.nan, dtype=dtype if is_float else gradloom.float, device=input.device)
    elif name == "logsumexp" and input.is_complex():
        value = complex(-math.inf, 0)
    elif name in ("amax", "argmax", "logaddexp", "logsumexp") and not _without_order(dtype):
        value = -math.inf if is_float else gradloom.iinfo(dtype).min
    elif name in ("amin", "argmin") and not _without_order(dtype):
        value = math.inf if is_float else gradloom.iinfo(dtype).max
    else:
        raise NotImplementedError(f"identity of {name} on {dtype} input")
    return gradloom.tensor(value, dtype=dtype, device=input.device)


def _without_order(dtype: gradloom.dtype) -> bool:
    """Return whether no least and greatest number is known: of complex numbers, bools, and unsigned ones of 16 bits and
    more."""
    return dtype.is_complex or not (dtype.is_signed or dtype is gradloom.uint8)


def _input_mask(input: Tensor, *args: Any, mask: Tensor | None = None, **kwargs: Any) -> Tensor:
    """Return the mask as bools in the input's shape.

    Raises:
        ValueError: without a mask.
        IndexError: if the mask has more dimensions than the input.
    """
    if mask is None:
        raise ValueError("_input_mask requires explicit mask")
    if mask.shape != input.shape:
        if mask.ndim > input.ndim:
            raise IndexError(
                "_input_mask expected broadcastable mask (got mask dimensionality higher than of the input)"
            )
        mask = gradloom.broadcast_to(mask.clone(), input.shape)
    return mask.to(dtype=gradloom.bool)


def _output_mask(op: Callable[..., Tensor], input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Return the mask of a function's result: True where at least one element counted.

    Args:
        op: a function of `gradloom.masked`.
        input, args, kwargs: its arguments.
    """
    if not callable(op):
        raise ValueError(f"_output_mask expected masked operation (got {type(op).__name__} object)")
    name = op.__name__
    if name not in _REDUCTIONS and name not in _NORMALIZATIONS:
        raise ValueError(f"_output_mask expected masked operation (got callable {op.__module__}.{name})")
    mask = _input_mask(input, mask=kwargs.get("mask"))
    if name in _REDUCTIONS:
        positional = args[1:] if name == "norm" else args
        dim = positional[0] if positional else kwargs.get("dim")
        for d in reversed(_canonical_dim(dim, input.ndim)):
            mask = mask.any(dim=d, keepdim=bool(kwargs.get("keepdim", False)))
    return mask


def filled(name: str, input: Tensor, mask: Tensor | None, *args: Any) -> Tensor:
    """Return the input with the elements that do not count replaced by the identity of the reduction `name`."""
    if mask is None:
        return input
    whole = _input_mask(input, mask=mask)
    identity = _reduction_identity(name, input, *args)
    assert identity is not None
    return gradloom.where(whole, input, identity)
