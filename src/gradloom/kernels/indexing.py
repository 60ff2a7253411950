"""Indexing kernels: reading and writing at places that arrays of indices, or masks, point to.

A kernel whose name ends in `_` writes to its first argument; all others return memory of their own.
"""

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
)
from ._embedding import embedding, embedding_dense_backward, embedding_renorm_, one_hot
from ._embedding_bag import embedding_bag
from ._index_vector import (
    index_add,
    index_add_,
    index_copy,
    index_copy_,
    index_fill,
    index_fill_,
    index_reduce,
    index_reduce_,
    index_select,
)
from ._indexed import index, index_put, index_put_, masked_index, masked_index_put_accumulate
from ._masks import (
    masked_fill,
    masked_fill_,
    masked_scatter,
    masked_scatter_,
    masked_scatter_backward,
    masked_select,
    nonzero,
    nonzero_static,
)
from ._search import bucketize, isin, searchsorted
from ._taken import put, put_, take

__all__ = [
    "bucketize",
    "embedding",
    "embedding_bag",
    "embedding_dense_backward",
    "embedding_renorm_",
    "gather",
    "index",
    "index_add",
    "index_add_",
    "index_copy",
    "index_copy_",
    "index_fill",
    "index_fill_",
    "index_put",
    "index_put_",
    "index_reduce",
    "index_reduce_",
    "index_select",
    "isin",
    "masked_fill",
    "masked_fill_",
    "masked_index",
    "masked_index_put_accumulate",
    "masked_scatter",
    "masked_scatter_",
    "masked_scatter_backward",
    "masked_select",
    "nonzero",
    "nonzero_static",
    "one_hot",
    "put",
    "put_",
    "scatter",
    "scatter_",
    "scatter_add",
    "scatter_add_",
    "scatter_operation",
    "scatter_operation_",
    "scatter_reduce",
    "scatter_reduce_",
    "scatter_value",
    "scatter_value_",
    "searchsorted",
    "take",
]
