"""Small tools of custom functions that broadcast or reshape."""

from __future__ import annotations

from typing import Any

from ...core.gradient_checks import sum_to
from ...core.tensor import Tensor


def maybe_view(tensor: Tensor, size: Any, check_same_size: bool = True) -> Tensor:
    """Return the tensor in another shape; the tensor itself if it has that and `check_same_size`."""
    return tensor if check_same_size and tensor.shape == size else tensor.contiguous().view(size)


def maybe_unexpand(tensor: Tensor, old_size: Any, check_same_size: bool = True) -> Tensor:
    """Sum a tensor over the dimensions along which one of shape `old_size` was broadcast to it."""
    if check_same_size and tensor.shape == old_size:
        return tensor
    found: Tensor = sum_to(tensor, tuple(old_size))
    return found
