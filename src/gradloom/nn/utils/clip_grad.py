"""Limiting gradients, in place."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from importlib import import_module

import numpy as np

import gradloom as gl
from gradloom import Tensor
from gradloom.autograd.grad_mode import no_grad

from ...dispatch.state import overrides_operators
from ...kernels._common.threads import single_threaded_blas

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]


def _listed(tensors):
    return [tensors] if isinstance(tensors, gl.Tensor) else list(tensors)


def _norm(array, norm_type):
    """Return the norm of all elements of an array, computed at least in float32."""
    return np.linalg.norm(array.astype(np.float32).ravel() if array.itemsize < 4 else array.ravel(), norm_type)


@no_grad()
def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Return the `norm_type`-norm of all elements of the tensors together, as a 0-dim tensor.

    Args:
        tensors: a tensor or tensors.
        norm_type: order of the norm.
        error_if_nonfinite: raise for a norm that is not finite.

    Raises:
        RuntimeError: with `error_if_nonfinite`, for an infinite norm or NaN.
    """
    tensors = _listed(tensors)
    norm_type = float(norm_type)
    if not tensors:
        return gl.tensor(0.0)
    if any(hasattr(tensor, "_local_tensor") for tensor in tensors):
        total = import_module("gradloom.distributed.tensor._norms").norm_of_all(tensors, norm_type)
    elif any(tensor.is_meta or overrides_operators(type(tensor)) for tensor in tensors):
        norm = gl.linalg.vector_norm
        total = norm(gl.stack([norm(tensor, norm_type) for tensor in tensors]), norm_type)
    else:
        with single_threaded_blas():
            norms = [_norm(np.asarray(tensor._array), norm_type) for tensor in tensors]
        total = gl.tensor(_norm(np.array(norms), norm_type), dtype=tensors[0].dtype.to_real())
    if error_if_nonfinite and not gl.isfinite(total).item():
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it "
            "cannot be clipped. To disable this error and scale the gradients by the non-finite norm "
            "anyway, set `error_if_nonfinite=False`"
        )
    return total


@no_grad()
def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale gradients by max_norm / total_norm where that is below 1.

    Args:
        parameters: a tensor or tensors whose gradients are scaled.
        max_norm: largest norm.
        total_norm: norm of the gradients.
    """
    gradients = [parameter.grad for parameter in _listed(parameters) if parameter.grad is not None]
    if not gradients:
        return
    # Multiplied by 1 if there is nothing to clip, to avoid a branch on a value.
    scale = gl.clamp(float(max_norm) / (total_norm + 1e-6), max=1.0)
    if hasattr(scale, "full_tensor"):
        scale = scale.full_tensor()
    for gradient in gradients:
        getattr(gradient, "_local_tensor", gradient).mul_(scale)


@no_grad()
def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale gradients so that their norm, taken together, is at most `max_norm`.

    Args:
        parameters: a tensor or tensors whose gradients are scaled.
        max_norm: largest norm.
        norm_type: order of the norm.
        error_if_nonfinite: raise for a norm that is not finite.

    Returns:
        The norm before, a 0-dim tensor.

    Raises:
        RuntimeError: with `error_if_nonfinite`, for an infinite norm or NaN.
    """
    parameters = _listed(parameters)
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    total = get_total_norm(gradients, norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(parameters, max_norm, total, foreach)
    return total


@no_grad()
def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None) -> None:
    """Clip every element of the parameters' gradients to [-clip_value, clip_value]."""
    clip_value = float(clip_value)
    for parameter in _listed(parameters):
        if parameter.grad is not None:
            parameter.grad.clamp_(min=-clip_value, max=clip_value)


def clip_grad_norm(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Call `clip_grad_norm_`, of which this is the old name, with a FutureWarning.

    Args:
        parameters, max_norm, norm_type, error_if_nonfinite, foreach: see there.
    """
    warnings.warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of `torch.nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)
