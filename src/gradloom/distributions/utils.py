"""Broadcasting of parameters, conversion between probabilities and logits, and properties computed once."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import update_wrapper
from numbers import Number
from typing import Any

import gradloom as gl
from gradloom import Tensor

__all__ = [
    "broadcast_all",
    "clamp_probs",
    "euler_constant",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]

euler_constant = 0.57721566490153286060


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Return all values as tensors of one shape. Numbers become tensors of the dtype of the first tensor among them, or
    of the default dtype. Raises ValueError for what is neither a number nor a tensor."""
    if not all(gl.overrides.is_tensor_like(v) or isinstance(v, Number) for v in values):
        raise ValueError(
            "Input arguments must all be instances of Number, torch.Tensor or objects implementing __torch_function__."
        )
    options: dict[str, Any] = {"dtype": gl.get_default_dtype()}
    for value in values:
        if isinstance(value, Tensor):
            options = {"dtype": value.dtype, "device": value.device}
            break
    return gl.broadcast_tensors(*[v if gl.overrides.is_tensor_like(v) else gl.tensor(v, **options) for v in values])


def _standard_normal(shape: Any, dtype: Any, device: Any) -> Tensor:
    """Draw standard normal numbers."""
    return gl.empty(shape, dtype=dtype, device=device).normal_()


def _sum_rightmost(value: Any, dim: int) -> Any:
    """Sum a tensor over its last `dim` dimensions; a number is returned unchanged."""
    if dim <= 0 or not isinstance(value, Tensor):
        return value
    return value.reshape(value.shape[:-dim] + (-1,)).sum(-1)


def clamp_probs(probs: Tensor) -> Tensor:
    """Clamp probabilities to [eps, 1 - eps], with the machine epsilon of their dtype."""
    eps = gl.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Return the probabilities of logits: their sigmoid if `is_binary`, else the softmax over the last dimension."""
    return gl.sigmoid(logits) if is_binary else gl.softmax(logits, dim=-1)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Return the logits of probabilities, clamped away from 0 and 1: log(p / (1 - p)) if `is_binary`, else log(p)."""
    inside = clamp_probs(probs)
    return inside.log() - (-inside).log1p() if is_binary else inside.log()


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """Return the elements on and below diagonal `diag` of matrices (..., n, n), row by row."""
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    rows, columns = gl.tril_indices(n, n, diag)
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Return matrices (..., n, n) with the elements of `vec` on and below diagonal `diag`, and zeros above; the inverse
    of `tril_matrix_to_vec`. Raises ValueError if no n fits the length."""
    # count = n (n + 1) / 2 for diag = 0; a diagonal further up or down adds or removes `diag` elements a row.
    length = vec.shape[-1]
    shift = 1 + 2 * diag
    n = (math.sqrt(shift * shift + 8 * length + 4 * abs(diag) * (diag + 1)) - shift) / 2
    if abs(n - round(n)) > gl.finfo(vec.dtype).eps:
        raise ValueError(
            f"The size of last dimension is {length} which cannot be expressed as the lower triangular part of a "
            "square D x D matrix."
        )
    size = round(n)
    rows, columns = gl.tril_indices(size, size, diag)
    mat = vec.new_zeros(vec.shape[:-1] + (size, size))
    mat[..., rows, columns] = vec
    return mat


class lazy_property:
    """A property that is computed on first use, with gradients enabled, and then kept in the instance."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        update_wrapper(self, wrapped)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        with gl.enable_grad():
            value = self.wrapped(instance)
        instance.__dict__[self.wrapped.__name__] = value
        return value
