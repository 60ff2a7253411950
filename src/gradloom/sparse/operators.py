"""What operators do with sparse tensors: a kernel for each that has a dense form. See Note [Sparse tensors].

A kernel gets the arguments of the overload, below autograd, and returns the result; the generated wrapper records its
history. An operator without a kernel is refused, and a composite one runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.tensor import Tensor, wrap
from ..core.views import replay_by_operator
from ..dispatch import _operators as ops
from ..dispatch.interception import SPARSE, Call, record, register
from ..dispatch.promotion import result_type
from ..dispatch.records import name_of
from ..kernels._common.dims import require_dim, wrap_dim, wrap_dims
from ..types.dtype import TYPE_OF, can_cast, scalar_type_name
from ..types.silence import silence
from . import arrays, structure
from .differentiable import coalesce, summed
from .tensor import SparseTensor, components, empty, make


def handle(call: Call) -> Any:
    """Answer an intercepted call with a sparse tensor among its arguments.

    Raises NotImplementedError if the operator has no kernel for sparse tensors.
    """
    if not any(isinstance(t, SparseTensor) for t in call.tensors()):
        return NotImplemented
    name = call.wrapper.__name__
    kernel = KERNELS.get(name) if call.out is None else None
    if call.composite is not None and call.out is None:
        whole = WHOLE.get(name)
        return NotImplemented if whole is None else whole(*call.args)
    if kernel is None:
        raise refusal(call)
    found = record(call.wrapper, lambda: kernel(*call.args), call.args)
    if getattr(found, "_view", None) is not None and isinstance(found, SparseTensor):
        replay_by_operator(found, call)
    return found


def refusal(call: Call) -> NotImplementedError:
    """Return the error for an operator without a kernel for sparse tensors."""
    full_name = name_of(call.wrapper).removeprefix("aten::")
    name = full_name.partition(".")[0]
    detail = "with out= " if call.out is not None else ""
    return NotImplementedError(
        f"Could not run 'aten::{full_name}' with arguments from the 'SparseCPU' backend: gradloom has no sparse {name} "
        f"{detail}yet. Call it on to_dense(), or on the values() of a coalesced tensor."
    )


# --- element by element ---------------------------------------------------------------------------------------------


def _plain(value: Any) -> Any:
    """Return a dense tensor without its history; anything else as it is."""
    if not isinstance(value, Tensor) or value._wrapped_number is not None:
        return value
    return wrap(value._array)


def _on_values(operator: Callable[..., Any], self: SparseTensor, *args: Any) -> SparseTensor:
    indices, values, _ = components(self)
    found = operator(wrap(values), *[_plain(a) for a in args])
    return make(indices, found._array, self._array.shape, self._coalesced)


def _unary(name: str) -> Callable[..., SparseTensor]:
    """Return the kernel of an operator that leaves zero at zero: it acts on the values of the coalesced tensor."""

    def kernel(self, *args):
        return _on_values(getattr(ops, name), self if self._coalesced else coalesce(self.detach()), *args)

    return kernel


def _neg(self):
    return _on_values(ops.neg, self)


def _mul(self, other):
    if not isinstance(self, SparseTensor):
        return _mul(other, self)
    if not isinstance(other, SparseTensor):
        shape = self._array.shape
        if other._array.ndim == 0:
            return _on_values(ops.mul, self, other)
        try:
            dense = np.broadcast_to(np.asarray(other._array), shape)
        except ValueError:
            raise NotImplementedError(
                f"mul of a sparse tensor of size {list(shape)} and a dense one of size {list(other._array.shape)}: "
                "gradloom needs a dense tensor that broadcasts to the sparse one's size"
            ) from None
        indices, values, extents = components(self)
        arrays.check_bounds(indices, extents)
        found = ops.mul(wrap(values), wrap(dense[tuple(indices.copy())] if len(indices) else dense[None]))
        return make(indices, found._array, shape, self._coalesced)
    if self._array.shape != other._array.shape:
        raise RuntimeError(
            f"mul(): expected sparse tensors of one size, but got {list(self._array.shape)} and "
            f"{list(other._array.shape)}"
        )
    return _mul_sparse(self, other)


def _mul_sparse(self, other):
    """Multiply at common places. The result has the order of the factor that is not coalesced, or has fewer entries."""
    if self._coalesced != other._coalesced:
        swap = not self._coalesced
    else:
        swap = self._value_array.shape[0] < other._value_array.shape[0]
    searched, source = (other, self) if swap else (self, other)
    indices, values, extents = components(source)
    places, factors, _ = components(searched if searched._coalesced else coalesce(searched.detach()))
    found, at = arrays.matches(arrays.keys(indices, extents), arrays.keys(places, extents))
    product = ops.mul(wrap(values[found]), wrap(factors[at]))
    return make(indices[:, found], product._array, self._array.shape, source._coalesced)


def _div(self, other):
    if not isinstance(self, SparseTensor) or isinstance(other, SparseTensor) or other._array.ndim:
        raise RuntimeError(
            "Sparse division requires a scalar or zero-dim dense tensor divisor (got shape "
            f"{list(other._array.shape)} for divisor)"
        )
    return _on_values(ops.div, self, other)


def _add(self, other, alpha=1):
    if not isinstance(other, SparseTensor):
        raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
    dtype = result_type(self, other).numpy
    if not isinstance(self, SparseTensor):
        out = np.array(self._array, dtype)
        _add_to(out, other, alpha)
        return wrap(out)
    if self._array.shape != other._array.shape:
        raise RuntimeError(f"add: expected sizes of 'self' and 'other' to match, but {_sizes(self)} != {_sizes(other)}")
    first, second = _with_sparse_dims_of(self, other)
    pairs = (
        (first._index_array, first._value_array.astype(dtype, copy=False)),
        (second._index_array, _times(second._value_array.astype(dtype, copy=False), alpha)),
    )
    indices, values = arrays.added(*pairs, first._sparse_shape)
    return make(indices, values, self._array.shape, self._coalesced and other._coalesced)


def _with_sparse_dims_of(self, other):
    if len(self._index_array) == len(other._index_array):
        return self, other
    raise RuntimeError(
        "add: expected 'self' and 'other' to have same density, but 'self' has "
        f"{len(self._index_array)} sparse dimensions while 'other' has {len(other._index_array)} sparse dimensions"
    )


def _sizes(tensor) -> str:
    return str(list(tensor._array.shape))


def _times(values, alpha):
    """Return values times a number; the memory order of PyTorch's sum depends on whether they are contiguous."""
    return values if alpha == 1 else values * values.dtype.type(alpha)


def _add_to(out, other, alpha):
    """Add a sparse tensor to an array of its size."""
    if out.shape != other._array.shape:
        raise RuntimeError(
            f"add: expected 'self' and 'other' to have same size, but self has size {list(out.shape)} while other has "
            f"size {_sizes(other)} (FYI: dense-sparse addition does not currently support broadcasting)"
        )
    indices, values, _ = components(other)
    arrays.add_to(out, indices, _times(values.astype(out.dtype, copy=False), alpha), other._coalesced)


def _sub(self, other, alpha=1):
    return _add(self, other, -alpha)


def _threshold_backward(grad, self, threshold):
    if not isinstance(grad, SparseTensor) or not isinstance(self, SparseTensor):
        raise NotImplementedError("threshold_backward: gradloom needs a gradient and an input that are both sparse")
    indices, values, _ = components(grad)
    of_self = arrays.lookup(indices, *components(self if self._coalesced else coalesce(self.detach())))
    return make(
        indices, np.where(of_self > threshold, values, 0).astype(values.dtype), grad._array.shape, grad._coalesced
    )


# --- in place -------------------------------------------------------------------------------------------------------


def _inplace(kernel: Callable[..., SparseTensor]) -> Callable[..., Tensor]:
    """Return the in-place form of a kernel. It replaces the components, so that aliases keep theirs, as in PyTorch."""

    def write(self, *args):
        if not isinstance(self, SparseTensor):
            raise NotImplementedError("gradloom has no in-place product of a dense tensor with a sparse one yet")
        found = kernel(self, *args)
        if not can_cast(found.dtype, self.dtype):
            raise RuntimeError(
                f"result type {scalar_type_name(found.dtype)} can't be cast to the desired output type "
                f"{scalar_type_name(self.dtype)}"
            )
        self._replace(found._index_array, found._value_array.astype(self._array.dtype, copy=False), found._coalesced)
        return self

    return write


def _add_(self, other, alpha=1):
    computed = result_type(self, other)
    if not can_cast(computed, self.dtype):
        raise RuntimeError(
            f"Can't convert result type {scalar_type_name(computed)} to output {scalar_type_name(self.dtype)} in add "
            "operation"
        )
    if isinstance(self, SparseTensor):
        found = _add(self, other, alpha)
        self._replace(found._index_array, found._value_array.astype(self._array.dtype, copy=False), found._coalesced)
    else:
        _add_to(self._array, other, alpha)
    return self


def _sub_(self, other, alpha=1):
    return _add_(self, other, -alpha)


def _zero_(self):
    found = empty(self._array.shape, self._array.dtype, self._array.ndim - len(self._index_array))
    self._replace(*components(found)[:2], True)
    return self


def _copy_(self, src, non_blocking=False):
    if not isinstance(self, SparseTensor) or not isinstance(src, SparseTensor):
        names = [t.type() for t in (self, src)]
        raise RuntimeError(
            "copy_() between dense and sparse Tensors is not implemented! Found self type = "
            f"{names[0]} and src type = {names[1]}"
        )
    if self._array.shape != src._array.shape:
        raise RuntimeError(f"copy_(): the sizes differ: {_sizes(self)} and {_sizes(src)}")
    self._replace(src._index_array.copy(), src._value_array.astype(self._array.dtype), src._coalesced)
    return self


# --- copies and conversions -------------------------------------------------------------------------------------------


def _clone(self, memory_format=None):
    return make(self._index_array.copy(), self._value_array.copy(), self._array.shape, self._coalesced)


def _to_copy(self, dtype=None, *_):
    numpy_type = self._array.dtype if dtype is None else dtype.numpy
    values = ops.to_dtype(wrap(self._value_array), TYPE_OF[numpy_type], False, True, None)._array
    return make(self._index_array.copy(), values, self._array.shape, self._coalesced)


def _empty_like(self, dtype=None, *_):
    numpy_type = self._array.dtype if dtype is None else dtype.numpy
    return empty(self._array.shape, numpy_type, self._array.ndim - len(self._index_array))


def _detach(self):
    return self._detached_alias()


def _contiguous(self, *_):
    raise RuntimeError("unsupported memory format option Contiguous: a sparse tensor has none")


def _equal(self, other):
    raise NotImplementedError("gradloom has no sparse equal yet. Compare to_dense(), or the indices() and values()")


def _expand(self, *_):
    raise RuntimeError("expand is unsupported for Sparse tensors")


# --- shape ------------------------------------------------------------------------------------------------------------


def _transpose(self, dim0, dim1):
    count, rank = len(self._index_array), self._array.ndim
    for dim in (dim0, dim1):
        require_dim(dim, rank)
    order = list(range(rank))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    if (dim0 % rank < count) != (dim1 % rank < count):
        raise RuntimeError(
            f"sparse transpose: transposed dimensions must be sparse Got sparse_dim: {count}, d0: {dim0}, d1: {dim1}"
        )
    return _permuted(self, order)


def _permuted(self, order):
    indices, values, _ = components(self)
    count = len(indices)
    shape = tuple([self._array.shape[d] for d in order])
    values = values.transpose(0, *[d - count + 1 for d in order[count:]])
    return make(indices[order[:count]], values, shape, list(order) == sorted(order) and self._coalesced)


def _permute(self, dims):
    rank, count = self._array.ndim, len(self._index_array)
    if len(dims) != rank:
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired "
            f"ordering of dimensions i.e. input.dim() = {rank} is not equal to len(dims) = {len(dims)}"
        )
    order = [wrap_dim(d, rank) for d in dims]
    if len(set(order)) != rank:
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    if sorted(order[:count]) != list(range(count)):
        raise RuntimeError(
            "permute(sparse_coo): transpositions between sparse and dense dimensions are not allowed."
            f"Got sparse_dim = {count}"
        )
    return _permuted(self, order)


def _t(self):
    rank = self._array.ndim
    if rank > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {rank}D")
    return _transpose(self, 0, 1) if rank == 2 else _detach(self)


# --- sums and products ------------------------------------------------------------------------------------------------


def _sum(self, dtype=None):
    return ops.sum(wrap(self._value_array), dtype=dtype)


def _sum_dims(self, dim=None, keepdim=False, dtype=None):
    source = self if dtype is None else _to_copy(self, dtype)
    rank = self._array.ndim
    if dim:
        for d in dim:
            require_dim(d, rank)
    dims = tuple(sorted(wrap_dims(dim, rank))) if dim else tuple(range(rank))
    return summed(source, dims, keepdim)


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


def _mv(self, vec):
    return _product(self, vec, 1)


def _addmm(self, mat1, mat2, beta=1, alpha=1):
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


# Operators that leave zero at zero.
_UNARY = (
    "abs asin asinh atan atanh ceil deg2rad erf erfinv expm1 floor isinf isnan log1p rad2deg relu round sgn sign sin "
    "sinh sqrt tan tanh trunc"
)
KERNELS: dict[str, Callable[..., Any]] = {name: _unary(name) for name in _UNARY.split()}
KERNELS |= structure.KERNELS
KERNELS |= {
    "neg": _neg,
    "mul": _mul,
    "mul_Scalar": lambda self, other: _on_values(ops.mul, self, other),
    "div_Tensor": _div,
    "div_Scalar": lambda self, other: _on_values(ops.div, self, other),
    "_conj": lambda self: _on_values(lambda values: ops.resolve_conj(ops.conj(values)), self),
    "add": _add,
    "sub": _sub,
    "threshold_backward": _threshold_backward,
    "neg_": _inplace(_neg),
    "mul_": _inplace(_mul),
    "div__Tensor": _inplace(_div),
    "add_": _add_,
    "sub_": _sub_,
    "zero_": _zero_,
    "copy_": _copy_,
    "clone": _clone,
    "_to_copy": _to_copy,
    "empty_like": _empty_like,
    "zeros_like": _empty_like,
    "alias": _detach,
    "t": _t,
    "transpose": _transpose,
    "permute": _permute,
    "expand": _expand,
    "sum": _sum,
    "sum_dim_IntList": _sum_dims,
    "mm": _product,
    "mv": _mv,
    "addmm": _addmm,
}
# Composite operators that read the array of their argument.
WHOLE: dict[str, Callable[..., Any]] = {"detach": _detach, "contiguous": _contiguous, "equal": _equal}
register(SPARSE, handle)


silence(globals())
