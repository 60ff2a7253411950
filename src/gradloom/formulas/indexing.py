"""Derivative helpers of indexing operators."""

from __future__ import annotations

from ..core.tangents import is_differentiated
from ..dispatch import _operators as ops
from ..types.dtype import bool as bool_


def index_backward(grad, sizes, indices):
    """Return the gradient of `index`: each gradient added at the element that was read."""
    return ops._index_put_impl_(ops.new_zeros(grad, sizes), indices, grad, True)


def index_put_self_backward(grad, indices, accumulate):
    """Return the gradient of `index_put` for `self`: zero at the positions written to, unless values accumulate."""
    return grad if accumulate else ops.index_put(grad, indices, ops.new_zeros(grad, ()))


def index_select_backward(grad, sizes, dim, index):
    """Return the gradient of `index_select`: each gradient added at the part that was read."""
    return ops.index_add_(ops.new_zeros(grad, sizes), dim, index, grad)


def gather_backward(grad, self, dim, index, sparse_grad):
    """Return the gradient of `gather`: each gradient added at the element that was read; always dense."""
    return ops.scatter_add_(ops.new_zeros(grad, self.shape), dim, index, grad)


def scatter_source_backward(grad, dim, index, sizes):
    """Return the gradient of a source of `scatter` and `scatter_add`: the gradient where the index sends an element of
    the source, zero for the elements beyond the index."""
    return _whole(ops.gather(grad, dim, index), sizes)


def index_add_source_backward(grad, dim, index, source, alpha):
    """Return the gradient of the `index_add` source: the parts of the gradient at the indices, times alpha."""
    parts = ops.index_select(grad, dim, index)
    if not source.dim() and parts.dim():
        parts = ops.squeeze(parts, 0)
    return parts if alpha == 1 else ops.mul_Scalar(parts, alpha)


def vector_source_backward(grad, dim, index, source):
    """Return the gradient of the `index_copy` source: the parts of the gradient at the indices."""
    parts = ops.index_select(grad, dim, index)
    return parts if source.dim() or not parts.dim() else ops.squeeze(parts, 0)


def index_fill_value_backward(grad, dim, index):
    """Return the gradient of the value of `index_fill`: the sum over the filled parts, each counted once."""
    n = grad.size(dim) if grad.dim() else 1
    places = ops._unique(ops.remainder(index, n), False)[0]
    return ops.sum(ops.index_select(grad, dim, places))


def masked_select_backward(grad, self, mask):
    """Return the gradient of `masked_select`: the gradients at the selected elements, zeros elsewhere."""
    from ..functional import broadcast_shapes

    return ops.masked_scatter_(ops.new_zeros(grad, broadcast_shapes(self.shape, mask.shape)), mask, grad)


def take_backward(grad, self, index):
    """Return the gradient of `take`: each gradient added at the element that was read."""
    return ops.put_(ops.new_zeros(grad, self.shape), index, grad, True)


def put_self_backward(grad, index, source, accumulate):
    """Return the gradient of `put` for `self`: zero at the positions written to, unless values accumulate."""
    return grad if accumulate else ops.put(grad, index, ops.zeros_like(source))


def embedding_dense_double_backward(grad, indices, padding_idx):
    """Return the adjoint of the row sums of `embedding_dense_backward`: a look-up without the row padding_idx."""
    out = ops.index_select(grad, 0, ops.reshape(indices, (-1,)))
    out = ops.reshape(out, (*indices.shape, grad.shape[1]))
    if padding_idx >= 0:
        out = ops.masked_fill(out, ops.unsqueeze(ops.eq(indices, padding_idx), -1), 0)
    return out


def scatter_reduce_backward(grad, self, dim, index, src, reduce, include_self, result):
    """Return the gradients of `scatter_reduce` for `self` and `src`.

    Let s be the elements of `src` that are reduced into an element x of `self`, and y the result there:
        sum    dy/dx = dy/ds = 1
        mean   1 / (number of elements reduced)
        prod   the product of all others: y / s, or the product without s where s is the only zero
        amax, amin   1 / (number of elements equal to y) for these elements, 0 for others
    Where `include_self` excludes `self`, its gradient is zero, as is that of elements of `src` beyond the index.
    """
    sizes, src = src.shape, _part(src, index)
    if reduce == "sum":
        of_self, of_src = grad, ops.gather(grad, dim, index)
    elif reduce == "mean":
        count = ops.ones_like(grad) if include_self else ops.zeros_like(grad)
        count = ops.scatter_add(count, dim, index, ops.ones_like(src))
        of_self = ops.div(grad, ops.masked_fill(count, ops.eq(count, 0), 1))
        of_src = ops.gather(of_self, dim, index)
    elif reduce == "prod":
        backward = _recorded_product_backward if is_differentiated(src, self) else _product_backward
        of_self, of_src = backward(grad, self, dim, index, src, include_self, result)
    else:
        self_is, src_is = ops.eq(self, result), ops.eq(src, ops.gather(result, dim, index))
        self_is, src_is = ops.type_as(self_is, grad), ops.type_as(src_is, grad)
        count = ops.scatter_add(self_is, dim, index, src_is)  # of `self` also where it takes no part, as in PyTorch
        share = ops.div(grad, count)  # of NaN, which equals nothing, a number over 0
        of_self, of_src = ops.mul(share, self_is), ops.mul(src_is, ops.gather(share, dim, index))
    if not include_self:  # and where nothing is reduced, the result is `self`
        of_self = ops.scatter(grad, dim, index, 0)
    return of_self, _whole(of_src, sizes)


def _product_backward(grad, self, dim, index, src, include_self, result):
    without_zero = ops.masked_fill(self, ops.eq(self, 0), 1)
    others = ops.scatter_reduce(without_zero, dim, index, src, "prod", include_self=include_self)
    of_self = ops.mul(grad, ops.conj(ops.div(others, without_zero)))
    is_zero = ops.eq(src, 0)
    zeros = ops.scatter_add(ops.zeros_like(self), dim, index, ops.type_as(is_zero, self))
    single = ops.logical_and(is_zero, ops.eq(ops.gather(zeros, dim, index), 1))
    rest = ops.scatter_reduce(self, dim, index, ops.masked_fill(src, single, 1), "prod", include_self=include_self)
    of_single = ops.gather(ops.mul(grad, ops.conj(rest)), dim, index)
    of_others = ops.gather(ops.mul(grad, ops.conj(result)), dim, index)
    of_others = ops.div(of_others, ops.conj(ops.masked_fill(src, is_zero, 1)))
    return of_self, ops.where(single, of_single, of_others)


def _recorded_product_backward(grad, self, dim, index, src, include_self, result):
    """Return the same, by products of the others, which have the right derivatives."""
    targets = ops.reshape(ops.arange(self.numel()), self.shape)
    places, factors = ops.gather(targets, dim, index), src
    places, factors = ops.reshape(places, (-1,)), ops.reshape(factors, (-1,))
    if not include_self:
        self = ops.masked_fill(self, ops.ones_like(self, dtype=bool_), 1)
    places = ops.cat((ops.reshape(targets, (-1,)), places))
    factors = ops.cat((ops.reshape(self, (-1,)), factors))
    others = _products_of_others(factors, places)
    of_self, others = ops.narrow(others, 0, 0, self.numel()), ops.narrow(others, 0, self.numel(), src.numel())
    of_self = ops.mul(grad, ops.conj(ops.reshape(of_self, self.shape)))
    return of_self, ops.mul(ops.gather(grad, dim, index), ops.conj(ops.reshape(others, src.shape)))


def _products_of_others(factors, places):
    """Return for each element of a vector the product of the others that are in the same place."""
    order = ops.argsort(places, stable=True)
    places, factors = ops.index_select(places, 0, order), ops.index_select(factors, 0, order)
    before = _products_before(factors, places)
    after = ops.flip(_products_before(ops.flip(factors, (0,)), ops.flip(places, (0,))), (0,))
    return ops.index_select(before * after, 0, ops.argsort(order))


def _products_before(factors, places):
    """Return for each element the product of those before it that are in the same place, which are neighbors: by the
    steps of Note [Recurrences]. A factor of another place is 1 in them, so that none multiplies an infinity by zero."""
    n, step = factors.size(0), 1
    if n == 0:
        return factors
    starts = ops.cat((ops.ones_like(ops.narrow(places, 0, 0, 1), dtype=bool_),
                      ops.ne(ops.narrow(places, 0, 1, n - 1), ops.narrow(places, 0, 0, n - 1))))  # fmt: skip
    shifted = ops.cat((ops.narrow(factors, 0, 0, 1), ops.narrow(factors, 0, 0, n - 1)))
    found = ops.masked_fill(shifted, starts, 1)
    while step < n:
        late, rest = ops.narrow(starts, 0, step, n - step), ops.narrow(found, 0, 0, n - step)
        moved = ops.narrow(found, 0, step, n - step) * ops.masked_fill(rest, late, 1)
        found = ops.cat((ops.narrow(found, 0, 0, step), moved))
        starts = ops.cat((ops.narrow(starts, 0, 0, step), ops.logical_or(late, ops.narrow(starts, 0, 0, n - step))))
        step *= 2
    return found


def scatter_reduce_jvp(self_p, self_t, dim, index, src_p, src_t, reduce, include_self, result):
    """Return the tangent of `scatter_reduce`: the sum of each tangent times its partial derivative.

    An element of self that is left out takes no share of a minimum or maximum that it equals; in reverse mode it does,
    as in PyTorch.
    """
    src_p, src_t, ones = _part(src_p, index), _part(src_t, index), ops.ones_like(result)
    if not include_self and reduce in ("amin", "amax"):
        self_p = ops.scatter_value(self_p, dim, index, float("nan"))
    of_self, of_src = scatter_reduce_backward(ones, self_p, dim, index, src_p, reduce, include_self, result)
    out = ops.mul(self_t, ops.conj(of_self))
    return ops.scatter_add(out, dim, index, ops.mul(src_t, ops.conj(of_src)))


def _part(source, index):
    """Return the part of a source that an index reaches."""
    if source.dim() != index.dim():  # one has no dimensions, the other one
        return ops.reshape(ops.narrow(ops.reshape(source, (-1,)), 0, 0, index.numel()), index.shape)
    for dim, n in enumerate(index.shape):
        if source.size(dim) != n:
            source = ops.narrow(source, dim, 0, n)
    return source


def _whole(part, sizes):
    """Return the gradient of a source of these sizes from that of the part that an index reaches: zeros beyond it."""
    if tuple(part.shape) == tuple(sizes):
        return part
    part = ops.reshape(part, (-1,)) if part.dim() != len(sizes) else part
    beyond = [n for whole, some in zip(sizes, part.shape, strict=False) for n in (whole - some, 0)]
    return ops.reshape(ops.constant_pad_nd(part, beyond[::-1]), sizes)


def index_reduce_backward(grad, self, dim, index, source, reduce, include_self, result):
    """Return the gradients of `index_reduce`: those of `scatter_reduce` with the index of the source's shape."""
    return scatter_reduce_backward(grad, self, dim, _spread(index, dim, source), source, reduce, include_self, result)


def index_reduce_jvp(self_p, self_t, dim, index, source_p, source_t, reduce, include_self, result):
    """Return the tangent of `index_reduce`: see `scatter_reduce_jvp`."""
    return scatter_reduce_jvp(
        self_p, self_t, dim, _spread(index, dim, source_p), source_p, source_t, reduce, include_self, result
    )


def _spread(index, dim, source):
    """Expand a vector of indices to the shape of `source`."""
    if not source.dim():
        return ops.reshape(index, ())
    shape = [1] * source.dim()
    shape[dim] = -1
    return ops.expand(ops.reshape(index, shape), source.shape)


_SUM, _MEAN, _MAX = range(3)


def embedding_bag_backward(
    grad,
    indices,
    offsets,
    bag_of,
    sizes,
    places,
    rows,
    scale_grad_by_freq,
    mode,
    sparse,
    per_sample_weights,
    padding_idx,
):
    """Return the gradient of the table of `_embedding_bag`. Each row gets the gradient of its bag, divided by the bag's
    size for means and times its factor; for maxima, only the row that each maximum comes from."""
    if mode == _MAX:
        grad = ops.masked_fill(grad, ops.unsqueeze(ops.eq(sizes, 0), -1), 0)
        return ops.scatter_add(ops.new_zeros(grad, (rows, grad.size(1))), 0, places, grad)
    if mode == _MEAN:
        grad = ops.div(grad, ops.unsqueeze(ops.clamp_min(sizes, 1), -1))
    each = ops.index_select(grad, 0, bag_of)
    indices = _in_bags(indices, bag_of)
    if per_sample_weights is not None:
        each = ops.mul(each, ops.unsqueeze(_in_bags(per_sample_weights, bag_of), -1))
    return ops.embedding_backward(each, indices, rows, padding_idx, scale_grad_by_freq, sparse)


def _in_bags(values, bag_of):
    """Return the values up to the end of the last bag, which the last offset may set."""
    return values if values.size(0) == bag_of.size(0) else ops.narrow(values, 0, 0, bag_of.size(0))


def embedding_bag_sample_weights_backward(grad, weight, indices, bag_of, mode, padding_idx):
    """Return the gradients of the factors: the inner products of the rows and the gradients of their bags."""
    each = ops.mul(ops.index_select(grad, 0, bag_of), ops.index_select(weight, 0, _in_bags(indices, bag_of)))
    out = ops.constant_pad_nd(ops.sum(each, 1), (0, indices.size(0) - bag_of.size(0)))
    return out if padding_idx < 0 else ops.masked_fill(out, ops.eq(indices, padding_idx), 0)


def embedding_bag_jvp(
    weight_t, factors_t, weight, factors, indices, offsets, mode, include_last_offset, padding_idx, sizes, places
):
    """Return the tangent of `_embedding_bag`, which is linear in the table and in the factors; for maxima, the tangents
    of the elements that attain them."""
    if mode == _MAX:
        return ops.masked_fill(ops.gather(weight_t, 0, places), ops.unsqueeze(ops.eq(sizes, 0), -1), 0)
    rest = include_last_offset, padding_idx
    out = ops._embedding_bag(weight_t, indices, offsets, False, mode, False, factors, *rest)[0]
    if factors_t is None:
        return out
    return out + ops._embedding_bag(weight, indices, offsets, False, mode, False, factors_t, *rest)[0]
