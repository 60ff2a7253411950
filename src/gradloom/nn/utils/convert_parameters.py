"""Conversion of parameters to one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

import gradloom as gl
from gradloom import Tensor

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Flatten and join `parameters` into one vector, (total number of elements,); differentiable."""
    return gl.cat([parameter.reshape(-1) for parameter in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Let each of `parameters` take its part of the vector, in order, sharing memory with it.

    Args:
        vec: (total number of elements,).
        parameters: tensors to fill.

    Raises:
        TypeError: if `vec` is not a tensor.
    """
    if not isinstance(vec, gl.Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {type(vec).__name__}")
    start = 0
    for parameter in parameters:
        stop = start + parameter.numel()
        parameter.data = vec[start:stop].view_as(parameter).data
        start = stop
