"""Kernels for sparse tensors that compute entry by entry."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.tensor import wrap
from ...dispatch import _operators as ops
from ...dispatch.promotion import result_type
from ...types.dtype import TYPE_OF, can_cast, scalar_type_name
from ...types.silence import silence
from .. import arrays
from ..differentiable import coalesce
from ..tensor import SparseTensor, components, empty, make
from ..values import coalesced, on_coalesced, on_values, sizes


def mul(self, other):
    """Multiply by a number, by a dense tensor that broadcasts to the sparse one, or entry by entry."""
    if not isinstance(self, SparseTensor):
        return mul(other, self)
    if not isinstance(other, SparseTensor):
        shape = self._array.shape
        if other._array.ndim == 0:
            return on_values(ops.mul, self, other)
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
    return make(indices.take(found, 1), product._array, self._array.shape, source._coalesced)


def div(self, other):
    """Divide the values by a number or a 0-dimensional tensor."""
    _check_divisor(self, other, "Sparse")
    return on_values(ops.div, self, other)


def div_mode(self, other, rounding_mode=None):
    """Divide the coalesced values by a number or a 0-dimensional tensor, and round."""
    _check_divisor(self, other, "Sparse")
    return on_coalesced(ops.div_Tensor_mode, self, other, rounding_mode)


def floor_divide(self, other):
    """Divide the coalesced values by a number or a 0-dimensional tensor, rounding down."""
    _check_divisor(self, other, "Sparse floor")
    return on_coalesced(ops.floor_divide, self, other)


def floor_divide_(self, other):
    """Divide in place, rounding down."""
    found = floor_divide(self, other)
    self._replace(found._index_array, found._value_array.astype(self._array.dtype, copy=False), True)
    return self


def _check_divisor(self, other, what):
    if not isinstance(self, SparseTensor) or isinstance(other, SparseTensor) or other._array.ndim:
        raise RuntimeError(
            f"{what} division requires a scalar or zero-dim dense tensor divisor (got shape "
            f"{list(other._array.shape)} for divisor)"
        )


def add(self, other, alpha=1):
    """Add a sparse tensor to a sparse one of the same size, or to a dense one."""
    if not isinstance(other, SparseTensor):
        raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
    dtype = result_type(self, other).numpy
    if not isinstance(self, SparseTensor):
        out = np.array(self._array, dtype)
        _add_to(out, other, alpha)
        return wrap(out)
    if self._array.shape != other._array.shape:
        raise RuntimeError(f"add: expected sizes of 'self' and 'other' to match, but {sizes(self)} != {sizes(other)}")
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


def _times(values, alpha):
    """Return values times a number; the memory order of PyTorch's sum depends on whether they are contiguous."""
    return values if alpha == 1 else values * values.dtype.type(alpha)


def _add_to(out, other, alpha):
    """Add a sparse tensor to an array of its size."""
    if out.shape != other._array.shape:
        raise RuntimeError(
            f"add: expected 'self' and 'other' to have same size, but self has size {list(out.shape)} while other has "
            f"size {sizes(other)} (FYI: dense-sparse addition does not currently support broadcasting)"
        )
    indices, values, _ = components(other)
    arrays.add_to(out, indices, _times(values.astype(out.dtype, copy=False), alpha), other._coalesced)


def sub(self, other, alpha=1):
    """Subtract a sparse tensor."""
    return add(self, other, -alpha)


def add_(self, other, alpha=1):
    """Add a sparse tensor in place, to a dense tensor too."""
    computed = result_type(self, other)
    if not can_cast(computed, self.dtype):
        raise RuntimeError(
            f"Can't convert result type {scalar_type_name(computed)} to output {scalar_type_name(self.dtype)} in add "
            "operation"
        )
    if isinstance(self, SparseTensor):
        found = add(self, other, alpha)
        self._replace(found._index_array, found._value_array.astype(self._array.dtype, copy=False), found._coalesced)
    else:
        _add_to(self._array, other, alpha)
    return self


def sub_(self, other, alpha=1):
    """Subtract a sparse tensor in place."""
    return add_(self, other, -alpha)


def zero_(self):
    """Remove all entries."""
    found = empty(self._array.shape, self._array.dtype, self._array.ndim - len(self._index_array))
    self._replace(*components(found)[:2], True)
    return self


def threshold_backward(grad, self, threshold):
    """Keep the entries of the gradient at which the input exceeds the threshold."""
    if not isinstance(grad, SparseTensor) or not isinstance(self, SparseTensor):
        raise NotImplementedError("threshold_backward: gradloom needs a gradient and an input that are both sparse")
    indices, values, _ = components(grad)
    of_self = arrays.lookup(indices, *components(self if self._coalesced else coalesce(self.detach())))
    return make(
        indices, np.where(of_self > threshold, values, 0).astype(values.dtype), grad._array.shape, grad._coalesced
    )


def power(self: SparseTensor, exponent: Any) -> SparseTensor:
    """Raise the values of the coalesced tensor to a power other than 0."""
    if exponent == 0:
        raise RuntimeError("pow: cannot raise to zeroth power on sparse tensor; it would make the result tensor dense")
    source = coalesced(self)
    values = ops.pow(wrap(source._value_array), exponent)
    given, wanted = values.dtype, TYPE_OF[self._array.dtype]
    if not can_cast(given, wanted):
        raise RuntimeError(
            f"result type {scalar_type_name(given)} can't be cast to the desired output type {scalar_type_name(wanted)}"
        )
    return make(source._index_array, values._array, self._array.shape, True)


def conj(self):
    """Conjugate the values."""
    return on_values(lambda values: ops.resolve_conj(ops.conj(values)), self)


def equal(self, other):
    """Raise NotImplementedError."""
    raise NotImplementedError("gradloom has no sparse equal yet. Compare to_dense(), or the indices() and values()")


silence(globals())
