"""The old name of `gradloom.func.functional_call`."""

from __future__ import annotations

import warnings
from typing import Any

import gradloom as gl
from gradloom.nn.modules.module import Module

__all__ = ["functional_call"]


def functional_call(
    module: Module,
    parameters_and_buffers: dict[str, gl.Tensor],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with other parameters and buffers: the old name of `gradloom.func.functional_call`.

    Args:
        module: is unchanged after the call.
        parameters_and_buffers: {name: tensor}.
        args, kwargs: of the call.
        tie_weights: whether a tensor that has several names is replaced under all of them.
        strict: whether every name has to be given, and no other.
    """
    warnings.warn(
        "This API is deprecated as of PyTorch 2.0 and will be removed in a future version of PyTorch. Please use "
        "torch.func.functional_call instead which is a drop-in replacement.",
        FutureWarning,
        stacklevel=2,
    )
    return gl.func.functional_call(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)
