"""Indexing kernels: reading and writing at places that arrays of indices, or masks, point to."""

from __future__ import annotations

from ._along_dim import (
    gather,
    scatter,
    scatter_,
    scatter_add,
    scatter_add_,
    scatter_operation,
    scatter_operation_,
    scatter_reduce,
    scatter_reduce_,
    scatter_value,
    scatter_value_,
    take_along_dim,
)
from ._index_vector import index_add, index_add_, index_select
from ._indexed import index, index_put, index_put_
from ._masks import masked_fill, masked_fill_, nonzero

__all__ = ["gather", "index", "index_add", "index_add_", "index_put", "index_put_", "index_select", "masked_fill", "masked_fill_", "nonzero",
           "scatter", "scatter_", "scatter_add", "scatter_add_", "scatter_operation", "scatter_operation_",
           "scatter_reduce", "scatter_reduce_", "scatter_value", "scatter_value_", "take_along_dim"]
