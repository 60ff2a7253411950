"""Kernels for reductions of sparse tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.tensor import Tensor, wrap
from ...dispatch import _operators as ops
from ...kernels._common.dims import require_dim, wrap_dim, wrap_dims
from ...types.silence import silence
from ..differentiable import summed
from ..tensor import SparseTensor
from ..values import coalesced
from .shape import to_copy


def sum_all(self, dtype=None):
    """Return the sum of all values."""
    return ops.sum(wrap(self._value_array), dtype=dtype)


def sum_dims(self, dim=None, keepdim=False, dtype=None):
    """Return the sum over some dimensions, sparse if a sparse one is left."""
    source = self if dtype is None else to_copy(self, dtype)
    rank = self._array.ndim
    if dim:
        for d in dim:
            require_dim(d, rank)
    dims = tuple(sorted(wrap_dims(dim, rank))) if dim else tuple(range(rank))
    return summed(source, dims, keepdim)


def any_value(self):
    """Return whether one of the values is true."""
    return ops.any(wrap(self._value_array))


def norm(self: SparseTensor, p: Any = 2, dim: Any = (), keepdim: bool = False, dtype: Any = None) -> Tensor:
    """Return the norm of the values of the coalesced tensor, over all dimensions."""
    rank = self._array.ndim
    if dim and sorted(wrap_dim(d, rank) for d in dim) != list(range(rank)):
        raise RuntimeError(
            "norm_sparse currently only supports full reductions, so 'dim' must either be empty or contain all "
            "dimensions of the input"
        )
    if keepdim:
        raise RuntimeError("norm_sparse currently does not support keepdim=True")
    if dtype is not None:
        raise RuntimeError("norm_sparse currently does not support 'dtype' argument")
    values = wrap(np.ascontiguousarray(coalesced(self)._value_array))
    return ops.linalg_vector_norm(values, 2 if p is None else p)


def norm_in_dtype(self: SparseTensor, p: Any, dtype: Any) -> Tensor:
    """Raise RuntimeError: norms have the dtype of the values."""
    return norm(self, p, dtype=dtype)


silence(globals())
