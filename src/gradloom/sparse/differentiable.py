"""The operators that only sparse tensors have, and their nodes.

A node has the name of PyTorch's, and one formula for each input. Formulas call differentiable operators only, so that
derivatives of all orders work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.anomaly import remember
from ..core.edge import NO_EDGE, gradient_edge
from ..core.node import Node, as_pair, next_sequence_nr
from ..core.saved_variable import RELEASED, save, unpack
from ..core.tensor import Tensor, wrap
from ..core.variants import mark_inference, refuse_tangents
from ..dispatch import _operators as ops
from ..dispatch.state import ANOMALY, FORWARD_AD, GRAD_OFF, INFERENCE, state
from ..formulas.elementwise import maybe_multiply
from ..types.silence import silence
from . import arrays
from .tensor import SparseTensor, components, make

new = object.__new__


class SparseNode(Node):
    """A node whose class has the formulas: `formulas[i](grad, *saved, *options)` is the gradient of input i."""

    __slots__ = ("saved", "options")
    saved: tuple[Any, ...]
    options: tuple[Any, ...]
    formulas: tuple[Callable[..., Tensor], ...] = ()

    def apply(self, grads: Any, edges: Any) -> Any:
        grad = grads[0]
        if grad is None:
            return (None,) * len(edges)
        saved = [unpack(s, self) for s in self.saved]
        return tuple(
            [
                None if as_pair(edge)[0] is None else formula(grad, *saved, *self.options)
                for edge, formula in zip(edges, self.formulas, strict=True)
            ]
        )

    def release_variables(self) -> None:  # type: ignore[override]
        self.saved = (RELEASED,) * len(self.saved)


def record(
    kind: type[SparseNode], result: Tensor, inputs: tuple[Tensor, ...], saved: tuple[Tensor, ...], *options: Any
) -> Tensor:
    """Record the history of a result.

    Args:
        kind: the class of the node.
        inputs: the tensors to differentiate, one for each of the node's formulas.
        saved, options: the further arguments of the formulas, of which `saved` are tensors.

    Raises NotImplementedError if an input has a tangent.
    """
    flags = state.flags
    if flags & FORWARD_AD:
        refuse_tangents(kind.__name__.partition("Backward")[0], inputs)
    if flags & INFERENCE:
        mark_inference((result,))
    if flags & GRAD_OFF:
        return result
    edges = tuple([t._edge or gradient_edge(t) for t in inputs])
    if all(edge is NO_EDGE for edge in edges):
        return result
    node = new(kind)
    node.next_edges, node.sequence_nr, node.hooks = edges, next_sequence_nr(), None
    node.saved, node.options = tuple([save(t) for t in saved]), options
    if flags & ANOMALY:
        remember(node)
    node.input_metadata = (result._array.shape, result._array.dtype)
    result._edge = node
    return result


def require_tensors(name: str, **arguments: Any) -> None:
    """Raise TypeError if one of the arguments, given in the order of their positions, is no tensor."""
    for position, (argument, value) in enumerate(arguments.items(), 1):
        if not isinstance(value, Tensor):
            raise TypeError(
                f"{name}(): argument '{argument}' (position {position}) must be Tensor, not {type(value).__name__}"
            )


def sparse_or_raise(tensor: Any, name: str) -> SparseTensor:
    """Return the tensor if it is sparse. Raises RuntimeError for a dense one, TypeError for what is no tensor."""
    if isinstance(tensor, SparseTensor):
        return tensor
    require_tensors(name, input=tensor)
    raise RuntimeError(f"{name} expected sparse coordinate tensor layout but got Strided")


# --- construction and components ------------------------------------------------------------------------------------


class SparseCooTensorWithDimsAndTensorsBackward0(SparseNode):
    __slots__ = ()
    formulas = (lambda grad, places: taken(grad, places),)


class CoalesceBackward0(SparseNode):
    __slots__ = ()
    formulas = (lambda grad: grad,)


class ValuesBackward0(SparseNode):
    __slots__ = ()
    formulas = (lambda grad, self: from_components(self._index_array, grad, self._array.shape, self._coalesced),)


class SparseTakeBackward0(SparseNode):
    __slots__ = ()
    formulas = (lambda grad, places, is_sparse: _taken_backward(grad, places, is_sparse),)


def _taken_backward(grad, places, is_sparse):
    found = from_components(places._index_array, grad, places._array.shape, places._coalesced)
    return found if is_sparse else to_dense(found)


def from_components(indices: np.ndarray, values: Tensor, shape: tuple[int, ...], coalesced: bool = False) -> Tensor:
    """Return a sparse tensor on the memory of `values`, differentiable with respect to them. Nothing is checked."""
    out = make(indices, values._array, shape, coalesced)
    return record(SparseCooTensorWithDimsAndTensorsBackward0, out, (values,), (out._detached_alias(),))


def coalesce(self: Any) -> Any:
    """Return the tensor with its places in lexicographic order, and the values of each place summed."""
    if self._coalesced:
        return self
    indices, values, extents = components(self)
    out = make(*arrays.coalesce(indices, values, extents), self._array.shape, True)
    return record(CoalesceBackward0, out, (self,), ())


def entries(self: SparseTensor) -> Tensor:
    """Return the values, one for each entry; they share memory."""
    return record(ValuesBackward0, wrap(self._value_array), (self,), (self._detached_alias(),))


def taken(self: Tensor, places: SparseTensor) -> Tensor:
    """Return the element of `self`, dense or sparse, at the place of each entry of `places`; as dense values."""
    found = wrap(sparse_mask(self.detach(), places)._value_array)
    return record(SparseTakeBackward0, found, (self,), (places._detached_alias(),), self.is_sparse)


def embedding_backward(grad, indices, num_weights, padding_idx, scale_grad_by_freq):
    """Return the gradient of an embedding table (num_weights, features): an entry for each row that was read, in order.

    Args:
        grad: of the embedding, (..., features).
        indices: the rows that were read, (...).
        padding_idx: row excluded from the gradient; negative for none.

    Raises RuntimeError if the gradient is to be scaled by frequency.
    """
    if scale_grad_by_freq:
        raise RuntimeError("embedding_backward: scale_grad_by_freq not supported with sparse gradients")
    width = grad.size(-1)
    places, each = np.asarray(indices._array).reshape(1, -1), ops.reshape(grad, (-1, width))
    if padding_idx >= 0:
        kept = np.flatnonzero(places[0] != padding_idx)
        places, each = places[:, kept], ops.index_select(each, 0, wrap(kept))
    return from_components(places.astype(np.int64), each, (num_weights, width))


# --- dense and sparse ---------------------------------------------------------------------------------------------


def _to_dense_backward(grad, self, masked):
    return sparse_mask(grad, coalesce(self)) if masked else to_sparse(grad, len(self._index_array))


class ToDenseBackward0(SparseNode):
    __slots__ = ()
    formulas = (_to_dense_backward,)


class ToSparseBackward0(SparseNode):
    __slots__ = ()
    formulas = (lambda grad: to_dense(grad),)


class ToSparseBackward1(SparseNode):
    __slots__ = ()
    formulas = ToSparseBackward0.formulas


class SparseMaskBackward0(SparseNode):
    __slots__ = ()
    formulas = (lambda grad, mask, is_sparse: _sparse_mask_backward(grad, mask, is_sparse),)


def to_dense(self: Tensor, masked: bool = True) -> Tensor:
    """Return a dense tensor with the same elements.

    Args:
        masked: whether elements without an entry get no gradient.
    """
    if not isinstance(self, SparseTensor):
        return self
    indices, values, _ = components(self)
    out = wrap(arrays.to_dense(indices, values, self._array.shape, self._coalesced))
    return record(ToDenseBackward0, out, (self,), (self._detached_alias(),), masked)


def to_sparse(self: Tensor, sparse_dims: int | None = None) -> Tensor:
    """Return a sparse tensor with an entry for each nonzero element, or for each nonzero block.

    Args:
        sparse_dims: the number of leading dimensions that are sparse; all by default.
    """
    array = np.asarray(self.detach()._array)
    count = array.ndim if sparse_dims is None else sparse_dims
    blocks = array != 0
    if count < array.ndim:
        blocks = blocks.any(axis=tuple(range(count, array.ndim)))
    indices = np.array(np.nonzero(blocks), np.int64) if count else np.empty((0, int(blocks)), np.int64)
    values = np.ascontiguousarray(array[tuple(indices)] if count else array[None][: int(blocks)])
    out = make(indices, values, array.shape, True)
    return record(ToSparseBackward1 if sparse_dims is None else ToSparseBackward0, out, (self,), ())


def sparse_mask(self: Tensor, mask: SparseTensor) -> Any:
    """Return the elements of `self`, dense or sparse, at the places of `mask`."""
    indices, _, extents = components(mask)
    if isinstance(self, SparseTensor):
        of_self = components(self) if self._coalesced else components(coalesce(self.detach()))
        values = arrays.lookup(indices, *of_self)
    else:
        private = indices.copy()  # Note [Private indices]
        arrays.check_bounds(private, extents)
        array = np.asarray(self._array)
        values = array[tuple(private)] if len(indices) else np.repeat(array[None], indices.shape[1], 0)
    out = make(indices, values, self._array.shape, mask._coalesced)
    return record(SparseMaskBackward0, out, (self,), (mask._detached_alias(),), self.is_sparse)


def _sparse_mask_backward(grad, mask, is_sparse):
    found = sparse_mask(grad, mask)
    return found if is_sparse else to_dense(found)


# --- products -----------------------------------------------------------------------------------------------------


def _matrix1_backward(grad, mat1, mat2, beta, alpha):
    """Return the gradient of mat1, at its places if it is sparse: inner products of rows of `grad` and of `mat2`."""
    if not mat1.is_sparse:
        return maybe_multiply(ops.mm(grad, ops.t(mat2).conj()), _conj(alpha))
    mat1 = coalesce(mat1.detach())
    if grad.is_sparse or mat2.is_sparse:
        return sparse_mask(maybe_multiply(ops.mm(grad, ops.t(mat2).conj()), _conj(alpha)), mat1)
    rows, columns = mat1._index_array
    products = ops.index_select(grad, 0, wrap(rows)) * ops.index_select(mat2.conj(), 0, wrap(columns))
    each = maybe_multiply(ops.sum_dim_IntList(products, (1,), False, None), _conj(alpha))
    return from_components(mat1._index_array, each, mat1._array.shape, True)


def _matrix2_backward(grad, mat1, mat2, beta, alpha):
    return maybe_multiply(ops.mm(ops.t(mat1).conj(), grad), _conj(alpha))


def _conj(number):
    return number.conjugate()


class SparseAddmmBackward0(SparseNode):
    __slots__ = ()
    formulas = (
        lambda grad, mat1, mat2, beta, alpha: maybe_multiply(grad, _conj(beta)),
        _matrix1_backward,
        _matrix2_backward,
    )


class SparseSparseMatmulBackward0(SparseNode):
    __slots__ = ()
    formulas = (
        lambda grad, self, other: sparse_mask(ops.mm(grad, ops.t(other).conj()), coalesce(self)),
        lambda grad, self, other: sparse_mask(ops.mm(ops.t(self).conj(), grad), coalesce(other)),
    )


def sparse_addmm(self: Tensor, mat1: Tensor, mat2: Tensor, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """Return beta * self + alpha * mat1 @ mat2; the gradient of a sparse `mat1` has its places."""
    out = ops.addmm(self.detach(), mat1.detach(), mat2.detach(), beta=beta, alpha=alpha)
    return record(SparseAddmmBackward0, out, (self, mat1, mat2), (mat1, mat2), beta, alpha)


def sparse_sparse_matmul(self: SparseTensor, other: SparseTensor) -> Tensor:
    """Return the product of two sparse matrices, a sparse one; the gradients have the places of the factors."""
    out = ops.mm(self.detach(), other.detach())
    return record(SparseSparseMatmulBackward0, out, (self, other), (self, other))


# --- reductions ---------------------------------------------------------------------------------------------------


def _sparse_sum_backward(grad, self, dims):
    """Return the gradient of the sum over `dims`: at each entry of `self`, that of the element it was added to."""
    self = coalesce(self)
    indices, values, _ = components(self)
    kept = [d for d in range(len(indices)) if d not in dims]
    if kept:
        rest = indices[kept]
        shape = tuple([n for d, n in enumerate(self._array.shape) if d not in dims])
        each = taken(grad, make(rest, values, shape))
    else:
        each = ops.expand(ops.unsqueeze(grad, 0), (values.shape[0], *grad.shape))
    for d in dims:  # in increasing order
        if d >= len(indices):
            each = ops.unsqueeze(each, d - len(indices) + 1)
    each = ops.expand(each, values.shape).contiguous()
    return from_components(indices, each, self._array.shape, True)


class SparseSumBackward0(SparseNode):
    __slots__ = ()
    formulas = (_sparse_sum_backward,)


def sparse_sum(self: SparseTensor, dims: tuple[int, ...]) -> Tensor:
    """Return the sum over some dimensions; dense if no sparse one is left.

    Args:
        dims: dimensions, in increasing order, not negative.
    """
    out = summed(self, dims)
    return record(SparseSumBackward0, out, (self,), (self,), dims)


def summed(self: SparseTensor, dims: tuple[int, ...], keepdim: bool = False) -> Tensor:
    """Compute `sparse_sum`, below autograd. With `keepdim`, the dimensions stay, with extent 1."""
    indices, values, _ = components(self)
    count, shape = len(indices), self._array.shape
    of_values = tuple([d - count + 1 for d in dims if d >= count])
    if of_values:
        values = values.sum(axis=of_values, keepdims=keepdim, dtype=values.dtype)
    if all(d in dims for d in range(count)):
        total = values.sum(axis=0, dtype=values.dtype)
        return wrap(np.asarray(total.reshape((1,) * count + total.shape) if keepdim else total))
    if keepdim:
        indices = np.array([np.zeros_like(row) if d in dims else row for d, row in enumerate(indices)])
        left = tuple([1 if d in dims else n for d, n in enumerate(shape)])
    else:
        indices = indices[[d for d in range(count) if d not in dims]]
        left = tuple([n for d, n in enumerate(shape) if d not in dims])
    return make(*arrays.coalesce(indices, values, left[: len(indices)]), left, True)


# --- softmax ------------------------------------------------------------------------------------------------------


def _softmax_backward(grad, self, dim):
    out = softmax(self, dim)
    y, g = entries(out), taken(grad, out)
    return from_components(out._index_array, y * (g - _total(out, g * y, dim)), out._array.shape, True)


def _log_softmax_backward(grad, self, dim):
    out = softmax(self, dim)
    y, g = entries(out), taken(grad, out)
    return from_components(out._index_array, g - y * _total(out, g, dim), out._array.shape, True)


class SparseSoftmaxBackward0(SparseNode):
    __slots__ = ()
    formulas = (_softmax_backward,)


class SparseLogSoftmaxBackward0(SparseNode):
    __slots__ = ()
    formulas = (_log_softmax_backward,)


def softmax(self: SparseTensor, dim: int) -> Any:
    """Return the softmax over the entries along `dim`, coalesced; elements without an entry count as minus infinity."""
    out = _softmax(coalesce(self.detach()), dim, False)
    return record(SparseSoftmaxBackward0, out, (self,), (self,), dim)


def log_softmax(self: SparseTensor, dim: int) -> Any:
    """Return the logarithm of `softmax`."""
    out = _softmax(coalesce(self.detach()), dim, True)
    return record(SparseLogSoftmaxBackward0, out, (self,), (self,), dim)


def _softmax(self, dim, logarithm):
    indices, values, _ = components(self)
    if dim >= len(indices):
        operator = ops.log_softmax if logarithm else ops.softmax
        out = operator(wrap(values), dim - len(indices) + 1)._array
    else:
        group, count = _groups(self, dim)
        order = np.argsort(group, kind="stable")
        starts = np.searchsorted(group[order], np.arange(count))
        shifted = values - np.maximum.reduceat(values[order], starts, axis=0)[group] if count else values
        powers = np.exp(shifted)
        totals = np.add.reduceat(powers[order], starts, axis=0)[group] if count else powers
        out = shifted - np.log(totals) if logarithm else powers / totals
    return make(indices, out, self._array.shape, True)


def _groups(self, dim):
    """Return, for each entry, the number of its group of entries along the sparse dimension `dim`, and their number."""
    indices, _, extents = components(self)
    others = [d for d in range(len(indices)) if d != dim]
    found, group = np.unique(arrays.keys(indices[others], tuple([extents[d] for d in others])), return_inverse=True)
    return group, len(found)


def _total(out, values, dim):
    """Return, for each entry, the sum of `values` along `dim`, differentiably."""
    count = len(out._index_array)
    if dim >= count:
        return ops.sum_dim_IntList(values, (dim - count + 1,), True, None)
    group, number = _groups(out, dim)
    index = wrap(group)
    zeros = ops.new_zeros(values, (number, *values.shape[1:]))
    return ops.index_select(ops.index_add(zeros, 0, index, values), 0, index)


silence(globals())
