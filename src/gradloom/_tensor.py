"""Tensor, and what pickles of subclasses call, in PyTorch's private module of this name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .core.tensor import Tensor
from .serialization import _rebuilding

__all__ = ["Tensor"]


def _rebuild_from_type_v2(func: Callable[..., Any], new_type: type, args: tuple[Any, ...], state: Any) -> Any:
    """Return a tensor of a subclass, or with attributes: what `func` returns, with a class and a state."""
    return _rebuilding.rebuild_from_type(func, new_type, args, state)


def _rebuild_from_type(func: Callable[..., Any], type: type, args: tuple[Any, ...], dict: Any) -> Any:
    """Return what `_rebuild_from_type_v2` returns; files of early versions name this function."""
    return _rebuilding.rebuild_from_type(func, type, args, dict)
