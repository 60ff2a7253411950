"""Helpers of vmap that packages import from PyTorch's private module of this name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._C._functorch import _add_batch_dim as _add_batch_dim, _remove_batch_dim as _remove_batch_dim
from ..batching.mapping import vmap as vmap
from ..core.tensor import Tensor as Tensor
from ..utils._pytree import (
    TreeSpec as TreeSpec,
    _broadcast_to_and_flatten as _broadcast_to_and_flatten,
    tree_flatten as tree_flatten,
    tree_map_ as tree_map_,
    tree_unflatten as tree_unflatten,
)


def _get_name(func: Callable[..., Any]) -> str:
    """Return a function's name; for a callable without one, such as a partial, its text."""
    return getattr(func, "__name__", None) or repr(func)


def _maybe_remove_batch_dim(name: str, output: Any, vmap_level: int, batch_size: int, out_dim: int | None) -> Any:
    """Return the whole batch of which an output of `name` is an element; the output itself if `out_dim` is None.

    Raises ValueError if the output is no tensor, or `out_dim` is None for one that differs between elements.
    """
    if out_dim is None:
        if isinstance(output, Tensor) and getattr(output, "_batch", None) is not None:
            raise ValueError(
                f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None: its value differs "
                "between the elements of the batch"
            )
        return output
    if not isinstance(output, Tensor):
        raise ValueError(f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(output)}.")
    return _remove_batch_dim(output, vmap_level, batch_size, out_dim)
