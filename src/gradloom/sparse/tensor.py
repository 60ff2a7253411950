"""SparseTensor: a tensor in the COO format.

Note [Sparse tensors]
A SparseTensor has no array, and derives from Tensor as other tensors without values do: `_array` is metadata,
`_operand` raises, and wrappers hand its operators to `intercept` (Note [Interception]), where operators.py answers
them. Operators on dense tensors pay nothing. The components are NumPy arrays:

    _index_array   int64 (sparse dimensions, nnz); see arrays.py
    _value_array   (nnz, *dense dimensions)
    _coalesced     whether the places are known to be in lexicographic order without repetitions

An operator that has a dense form (mm, mul, t) is recorded by its generated wrapper, with the formulas of
derivatives.yaml, which call operators and so work for both kinds. Operators that exist for sparse tensors only
(coalesce, values, to_dense, sparse_mask) have their nodes in differentiable.py: kernels of the YAML language map arrays
to arrays, and these take or return what is no array.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from ..core.edge import NO_EDGE, shallow_copy
from ..core.tensor import Tensor
from ..dispatch.interception import operand_of
from ..dispatch.state import disabled_torch_function
from ..memory.metadata import Metadata
from ..types.device import sparse_coo
from ..types.size import Size

new = object.__new__


class SparseMetadata(Metadata):
    """The shape and dtype of a sparse tensor."""

    __slots__ = ()
    message = (
        "This function reads the elements of an array, which a sparse tensor does not have. Use its to_dense(), or its "
        "indices() and values()."
    )


class SparseTensor(Tensor):
    """A tensor in the COO format; see Note [Sparse tensors]. `gradloom.sparse_coo_tensor` makes one."""

    __module__ = "gradloom.sparse"
    __torch_function__ = disabled_torch_function  # type: ignore[assignment]
    layout = sparse_coo
    is_sparse = True
    _index_array: Any = None
    _value_array: Any = None
    _coalesced: bool = False

    @property
    def _operand(self) -> Any:  # type: ignore[override]
        return operand_of(self)

    def _detached_alias(self) -> SparseTensor:
        if self._vc is None:
            self._vc = [0]
        return shallow_copy(self)  # type: ignore[no-any-return]

    def _replace(self, indices: np.ndarray, values: np.ndarray, coalesced: bool) -> None:
        """Set the components, which an in-place operator computed."""
        self._index_array, self._value_array, self._coalesced = indices, values, coalesced

    @property
    def _sparse_shape(self) -> tuple[int, ...]:
        """The extents of the sparse dimensions."""
        return self._array.shape[: len(self._index_array)]

    def stride(self, dim: int | None = None) -> Any:
        """Return zeros: there are no strides."""
        strides = (0,) * self.dim()
        return strides if dim is None else strides[dim]

    def is_contiguous(self, *, memory_format: Any = None) -> bool:
        """Return False."""
        return False

    def storage_offset(self) -> int:
        """Return 0."""
        return 0

    def data_ptr(self) -> NoReturn:
        """Raise RuntimeError: there is no storage."""
        raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")

    def untyped_storage(self) -> NoReturn:
        """Raise NotImplementedError: there is no storage."""
        raise NotImplementedError("Cannot access storage of SparseTensorImpl")

    storage = _typed_storage = untyped_storage  # type: ignore[assignment]

    def numpy(self, *, force: bool = False) -> NoReturn:
        """Raise TypeError: use to_dense()."""
        raise TypeError("can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first.")

    def tolist(self) -> NoReturn:
        """Raise RuntimeError: there is no storage."""
        raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """Return the legacy type name, or a copy converted to `dtype`."""
        found = super().type(dtype, non_blocking)
        return found.replace("torch.", "torch.sparse.") if isinstance(found, str) else found

    def _reduced(self) -> tuple[Any, ...]:
        components = self._index_array, self._value_array
        extra = {n: v for n, v in self.__dict__.items() if not hasattr(SparseTensor, n)}
        return _rebuild, (*components, self._array.shape, self._coalesced, self.requires_grad, extra)


def make(indices: np.ndarray, values: np.ndarray, shape: tuple[int, ...], coalesced: bool = False) -> SparseTensor:
    """Return a sparse tensor on arrays, without a check and without history.

    Args:
        indices: int64 (sparse dimensions, nnz).
        values: (nnz, *dense dimensions).
        shape: the extents of all dimensions.
        coalesced: whether the indices are known to be in lexicographic order without repetitions; fewer than two are.
    """
    out = new(SparseTensor)
    out._array = SparseMetadata(tuple(shape), values.dtype)  # type: ignore[assignment]
    out._edge, out._vc = NO_EDGE, None
    out._index_array, out._value_array, out._coalesced = indices, values, coalesced or len(values) < 2
    return out


def empty(shape: tuple[int, ...], dtype: np.dtype, dense_dims: int = 0) -> SparseTensor:
    """Return a sparse tensor of zeros, which has no entries."""
    split = len(shape) - dense_dims
    return make(np.empty((split, 0), np.int64), np.empty((0, *shape[split:]), dtype), shape, True)


def components(tensor: SparseTensor) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    """Return the indices, the values and the extents of the sparse dimensions."""
    return tensor._index_array, tensor._value_array, tensor._sparse_shape


def _rebuild(indices, values, shape, coalesced, requires_grad, extra):
    out = make(indices, values, Size(shape), coalesced)
    if requires_grad:
        out.requires_grad = True
    out.__dict__.update(extra)
    return out
