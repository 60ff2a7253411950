"""Kernels for products with sparse matrices."""

from __future__ import annotations

import numpy as np

from ...core.tensor import Tensor, wrap
from ...dispatch import _operators as ops
from ...types.dtype import TYPE_OF, scalar_type_name
from ...types.silence import silence
from .. import arrays
from ..tensor import SparseTensor, components, make
from ..values import coalesced


def mm(self, mat2):
    """Return the product of two matrices, of which one or both are sparse; sparse if both are."""
    return _product(self, mat2)


def mv(self, vec):
    """Return the product of a sparse matrix and a vector."""
    return _product(self, vec, 1)


def addmm(self, mat1, mat2, beta=1, alpha=1):
    """Add the product of two matrices, one of them sparse, to a dense tensor."""
    if isinstance(self, SparseTensor):
        raise NotImplementedError("addmm: gradloom adds products to a dense tensor only")
    product = ops.mul(_product(mat1, mat2), alpha)
    if self._array.ndim > 2 or any(
        n not in (1, wanted) for n, wanted in zip(self._array.shape[::-1], product._array.shape[::-1], strict=False)
    ):
        raise RuntimeError(
            f"The expanded size of the tensor {list(product._array.shape)} does not match the existing size "
            f"{list(self._array.shape)}"
        )
    if self._array.dtype != product._array.dtype:
        raise RuntimeError(f"expected scalar type {_scalar_name(product._array)} but found {_scalar_name(self._array)}")
    return product if beta == 0 else ops.add(product, ops.mul(wrap(self._array), beta))


def bmm(self: Tensor, mat2: Tensor) -> Tensor:
    """Return the products of a batch of sparse matrices and a batch of dense ones, dense."""
    if not isinstance(self, SparseTensor) or isinstance(mat2, SparseTensor):
        raise RuntimeError("bmm_sparse: Tensor 'mat2' must be dense")
    indices, values, shape = components(coalesced(self))
    first, second = self._array, mat2._array
    if len(indices) != 3 or first.ndim != 3:
        raise RuntimeError(f"bmm_sparse: Tensor 'self' must have 3 sparse dims, but has {len(indices)}")
    if second.ndim != 3:
        raise RuntimeError(f"bmm_sparse: Tensor 'mat2' must have 3 dims, but has {second.ndim}")
    for a, b in ((0, 0), (2, 1)):
        if first.shape[a] != second.shape[b]:
            raise RuntimeError(f"bmm_sparse: 'self.size({a})' and 'mat2.size({b})' must match")
    if first.dtype != second.dtype:
        names = [scalar_type_name(TYPE_OF[a.dtype]) for a in (first, second)]
        raise RuntimeError(f"expected scalar type {names[0]} but found {names[1]}")
    batch, rows, columns = shape  # the batch is one matrix of blocks along the diagonal
    places = np.stack([indices[0] * rows + indices[1], indices[0] * columns + indices[2]])
    right = arrays.widened(np.ascontiguousarray(second)).reshape(batch * columns, second.shape[2])
    found = arrays.matrix(places, values, (batch * rows, batch * columns)) @ right
    return wrap(np.asarray(found).reshape(batch, rows, second.shape[2]).astype(first.dtype, copy=False))


def _product(self, mat2, rank=2):
    """Return the product of a matrix and a tensor of `rank` dimensions, of which one or both are sparse."""
    first, second = self._array, mat2._array
    if first.dtype != second.dtype:
        raise RuntimeError(f"expected scalar type {_scalar_name(first)} but found {_scalar_name(second)}")
    if first.dtype.kind == "b":
        raise NotImplementedError("\"addmm_sparse_dense\" not implemented for 'Bool'")
    for array, expected in ((first, 2), (second, rank)):
        if array.ndim != expected:
            kind = "matrices" if expected == 2 else "a vector"
            raise RuntimeError(f"addmm: {kind} expected, got {array.ndim}D tensor")
    if first.shape[1] != second.shape[0]:
        if rank == 1:
            raise RuntimeError("mv: expected self.size(-1) == vec.size(-1)")
        raise RuntimeError(f"addmm: Argument #3 (dense): Expected dim 0 size {first.shape[1]}, got {second.shape[0]}")
    for t in (self, mat2):
        if isinstance(t, SparseTensor) and len(t._index_array) != 2:
            raise RuntimeError("addmm: expected a sparse matrix with two sparse dimensions, without dense ones")
    left, right = (
        arrays.matrix(*components(t)) if isinstance(t, SparseTensor) else arrays.widened(np.asarray(t._array))
        for t in (self, mat2)
    )
    found = left @ right
    if isinstance(self, SparseTensor) and isinstance(mat2, SparseTensor):
        found.sort_indices()
        coo = found.tocoo()
        indices = np.array([coo.row, coo.col], np.int64)
        return make(indices, coo.data.astype(first.dtype, copy=False), found.shape, True)
    return wrap(np.asarray(found).astype(first.dtype, copy=False))


def _scalar_name(array) -> str:
    return scalar_type_name(TYPE_OF[array.dtype])


silence(globals())
