"""Mixed precision of DistributedDataParallel: the module computes with copies of its parameters in another dtype."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import gradloom as gl

from ...utils._pytree import tree_map

__all__ = ["_MixedPrecision", "cast_buffers", "run"]


@dataclass
class _MixedPrecision:
    """The dtypes of DistributedDataParallel's mixed precision.

    The parameters themselves, their gradients, and what `state_dict` returns keep their dtype.

    Args:
        param_dtype: dtype of inputs, and of the parameters in forward and backward; None to cast none.
        reduce_dtype: dtype in which gradients are reduced; `param_dtype` by default.
        buffer_dtype: dtype to which floating point buffers are cast, for good.
    """

    param_dtype: gl.dtype | None = None
    reduce_dtype: gl.dtype | None = None
    buffer_dtype: gl.dtype | None = None


def _cast(dtype: gl.dtype, value: Any) -> Any:
    """Return a floating point tensor in another dtype, and anything else as it is."""
    return value.to(dtype) if isinstance(value, gl.Tensor) and value.is_floating_point() else value


def cast_buffers(module: Any, dtype: gl.dtype, ignored: set[str]) -> None:
    """Cast a module's floating point buffers, but for those whose names are ignored."""
    for name, buffer in module.named_buffers():
        if name not in ignored and buffer.is_floating_point():
            buffer.data = buffer.to(dtype)


def run(module: Any, dtype: gl.dtype, ignored: set[str], inputs: Any, kwargs: Any) -> Any:
    """Call a module with its parameters and inputs in a dtype; gradients reach the parameters in theirs.

    Args:
        module: the module.
        dtype: the dtype.
        ignored: names of parameters that are not cast.
        inputs, kwargs: of any structure.
    """
    cast = {name: _cast(dtype, value) for name, value in module.named_parameters() if name not in ignored}
    inputs, kwargs = tree_map(partial(_cast, dtype), (tuple(inputs), kwargs))
    return gl.func.functional_call(module, cast, inputs, kwargs)
