"""Parameters as one vector, and back."""

from __future__ import annotations

import gradloom as gl

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters):
    """All parameters of the iterable, flattened and joined into one vector; differentiable."""
    return gl.cat([parameter.reshape(-1) for parameter in parameters])


def vector_to_parameters(vec, parameters) -> None:
    """Let each parameter of the iterable take its part of the vector, in order.

    The values are shared with it.

    Raises TypeError when `vec` is not a tensor.
    """
    if not isinstance(vec, gl.Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {type(vec).__name__}")
    start = 0
    for parameter in parameters:
        stop = start + parameter.numel()
        parameter.data = vec[start:stop].view_as(parameter).data
        start = stop
