"""Derivative helpers of reductions.

If a result is a real function of a slice of the input, its tangent is the inner product of its gradient and the input's
tangent: d result = sum Re(conj(gradient) * tangent). The *_jvp helpers use this.

Note [Recurrences]
Derivatives of running products and running logsumexps are recurrences y[k] = term[k] + factor[k] * y[k - 1], which
neither divide by an element that may be zero nor leave the range of floating-point numbers. They are associative, so
doubling the stride solves them in log2(n) steps (Hillis and Steele 1986, "Data parallel algorithms").
"""

from __future__ import annotations

from math import inf, prod

from ..core.tangents import is_differentiated
from ..dispatch import _operators as ops
from ..dispatch.state import GRAD_OFF, state
from ..memory.metadata import is_readable
from ..types.dtype import bool as bool_
from .elementwise import quotient_or_zero


def _wrapped(dim, ndim):
    """Return the reduced dimensions, counted from the front and sorted: all for None and ()."""
    if dim is None or dim == ():
        return list(range(ndim))
    if dim.__class__ is int:
        dim = (dim,)
    return sorted([d % ndim for d in dim])


def _restored(reduced, dim, keepdim, ndim):
    """Restore the reduced dimensions of a result with size 1, unless all were reduced and it broadcasts."""
    if keepdim or not ndim or dim is None or dim == ():
        return reduced
    for d in _wrapped(dim, ndim):
        reduced = ops.unsqueeze(reduced, d)
    return reduced


def _count(sizes, dim):
    """Return the number of elements in one reduction."""
    found = 1
    if sizes:
        for d in _wrapped(dim, len(sizes)):
            found *= sizes[d]
    return found


def _real(tensor):
    return ops.real(tensor) if tensor.is_complex() else tensor


def _dot(gradient, tangent, dim, keepdim):
    """Return sum Re(conj(gradient) * tangent) over the reduced dimensions."""
    product = _real(gradient.conj() * tangent)
    return ops.sum(product, dim, keepdim) if product.dim() else product


def _recurrence(factor, term, dim):
    """Return y with y[k] = term[k] + factor[k] * y[k - 1] along `dim`, for equal shapes; factor[0] is not used."""
    n, step = term.size(dim), 1
    while step < n:
        rest = n - step
        late = ops.narrow(factor, dim, step, rest)
        moved = ops.narrow(term, dim, step, rest) + late * ops.narrow(term, dim, 0, rest)
        term = ops.cat((ops.narrow(term, dim, 0, step), moved), dim)
        if 2 * step < n:
            factor = ops.cat((ops.narrow(factor, dim, 0, step), late * ops.narrow(factor, dim, 0, rest)), dim)
        step *= 2
    return term


def _reversed_recurrence(factor, term, dim):
    """Return y with y[k] = term[k] + factor[k] * y[k + 1] along `dim`; the last factor is not used."""
    return ops.flip(_recurrence(ops.flip(factor, (dim,)), ops.flip(term, (dim,)), dim), (dim,))


def _padded(x, dim, value, front):
    """Pad `x` by one element, the number `value`, at the front or the end of `dim`."""
    edge = ops.full_like(ops.narrow(x, dim, 0, 1), value)
    return ops.cat((edge, x) if front else (x, edge), dim)


def sum_backward(grad, sizes, dim, keepdim):
    """Return the gradient of a sum: `grad` expanded over the summed dimensions, as a view."""
    ndim = len(sizes)
    if not keepdim and ndim and _wrapped(dim, ndim) != list(range(ndim - grad.dim())):
        grad = _restored(grad, dim, keepdim, ndim)
    return ops.expand(grad, sizes)


def mean_backward(grad, sizes, dim, numel, keepdim):
    """Return the gradient of a mean: that of the sum divided by the number of elements, in new memory."""
    number = numel if dim is None or dim == () else _count(sizes, dim)
    return ops.div_Scalar(sum_backward(grad, sizes, dim, keepdim), number)


def nansum_backward(grad, self, dim, keepdim):
    """Return the gradient of a sum, zero where the input is NaN."""
    return sum_backward(grad, self.shape, dim, keepdim) * ops.logical_not(self.isnan())


def trace_backward(grad, sizes):
    """Return the gradient of a trace: a diagonal matrix."""
    return ops.where(ops.eye(sizes[0], sizes[1], dtype=grad.dtype, device=grad.device) != 0, grad, 0)


def prod_backward(grad, self, result, dim=None, keepdim=False):
    """d(prod x)/dx_k = prod over j != k of x_j. Without zeros in x this is result / x_k. With zeros it is the product
    of the elements before k and those after k; so it is where it is differentiated, as a quotient's derivatives leave
    the range of floating-point numbers, and lose their digits."""
    if not self.dim():
        return grad
    grad = _restored(grad, dim, keepdim, self.dim())
    if _are_quotients(self, result):
        return grad * (_restored(result, dim, keepdim, self.dim()) / self).conj()
    if not self.is_meta and dim is None and (self == 0).sum() > 1 and not self.isfinite().all():
        return ops.zeros_like(self)  # also where a zero meets an infinity
    return grad * _products_of_others(self, dim).conj()


def prod_jvp(self, self_t, result, dim=None, keepdim=False):
    """d(prod x) = sum over k of dx_k * prod over j != k of x_j."""
    if not self.dim():
        return self_t
    if _are_quotients(self, result):
        others = _restored(result, dim, keepdim, self.dim()) / self
    else:
        others = _products_of_others(self, dim)
    return ops.sum(others * self_t, dim, keepdim)


def _are_quotients(x, result):
    """Return whether products of the others are quotients of a product and its factors: no factor is zero, no product
    too small for its dtype, and no derivative of the quotients is asked for."""
    if is_differentiated(x):
        return False
    return x.is_meta or not ((result == 0).any() or (x == 0).any())  # zero times an infinity is no zero


def _products_of_others(x, dim):
    if dim is None:
        flat = ops.reshape(x, (-1,))
        return ops.reshape(_products_of_others(flat, 0), x.shape)
    after = ops.flip(_products_before(ops.flip(x, (dim,)), dim), (dim,))
    return _products_before(x, dim) * after


def _products_before(x, dim):
    """Return for each k the product of the elements before it: 1 for the first."""
    n = x.size(dim)
    if n < 2:
        return ops.ones_like(x)
    return _padded(ops.cumprod(ops.narrow(x, dim, 0, n - 1), dim), dim, 1, front=True)


def var_backward(grad, self, dim, correction, keepdim):
    """d var/dx = 2 (x - mean) / (n - correction)."""
    free = _count(self.shape, dim) - (1 if correction is None else correction)
    grad = _restored(grad, dim, keepdim, self.dim())
    mean = _mean(self, dim)
    if free <= 0:
        nan = ops.full((), float("nan"), dtype=_real(self).dtype)
        return grad * ops.where(self == mean, nan, inf)
    return ops.mul_Scalar(grad, 2.0 / free) * (self - mean)


def _mean(x, dim):
    if not x.dim():
        return x
    return ops.mean(x) if dim is None or dim == () else ops.mean(x, dim, True)


def var_jvp(self, self_t, dim, correction, keepdim):
    """d var = sum of 2 Re(conj(x - mean) dx) / (n - correction)."""
    one = ops.ones((), dtype=_real(self).dtype)
    return _dot(var_backward(one, self, dim, correction, True), self_t, dim, keepdim)


def std_backward(result, grad, self, dim, correction, keepdim):
    """d std = d var / (2 std); zero where std is zero."""
    return var_backward(_of_root(grad, result), self, dim, correction, keepdim)


def std_jvp(self, self_t, result, dim, correction, keepdim):
    """d std = d var / (2 std); zero where std is zero."""
    return _of_root(var_jvp(self, self_t, dim, correction, keepdim), result)


def _of_root(change, root):
    """Return the differential of a square root from that of its square: change / (2 root), zero at zero."""
    return quotient_or_zero(change, ops.mul_Scalar(root, 2), root == 0)


def var_mean_backward(grad_var, grad_mean, self, dim, correction, keepdim):
    """Return the sum of the gradients of the variance and of the mean, for those that are defined."""
    return _added(
        None if grad_var is None else var_backward(grad_var, self, dim, correction, keepdim),
        None if grad_mean is None else mean_backward(grad_mean, self.shape, dim, self.numel(), keepdim),
    )


def std_mean_backward(grad_std, grad_mean, self, std, dim, correction, keepdim):
    """Return the sum of the gradients of the standard deviation and of the mean, for those that are defined."""
    return var_mean_backward(
        None if grad_std is None else _of_root(grad_std, std), grad_mean, self, dim, correction, keepdim
    )


def _added(first, second):
    return second if first is None else first if second is None else first + second


def amaxmin_backward(grad, self, result, dim, keepdim):
    """Distribute the gradient evenly among all elements that equal the extremum."""
    grad, result = (_restored(x, dim, keepdim, self.dim()) for x in (grad, result))
    mask = self == result
    return grad / (ops.sum(mask, dim, True) if mask.dim() else mask) * mask


def amaxmin_jvp(self, self_t, result, dim, keepdim):
    """Return the mean of the tangents of all elements that equal the extremum."""
    shares = _shares(self, _restored(result, dim, keepdim, self.dim()), dim)
    product = shares * self_t
    return ops.sum(product, dim, keepdim) if product.dim() else product


def _shares(self, extremum, dim):
    """Return 1 / n for each of the n elements of a slice that equal its extremum, 0 for the others."""
    mask = self == extremum
    n = ops.sum(mask, dim, True) if mask.dim() else mask
    return mask.to(self.dtype) / n


def aminmax_backward(self, dim, keepdim, grad_min, grad_max, min, max):
    """Return the sum of the gradients of both extrema, for those that are defined."""
    return _added(
        None if grad_min is None else amaxmin_backward(grad_min, self, min, dim, keepdim),
        None if grad_max is None else amaxmin_backward(grad_max, self, max, dim, keepdim),
    )


def selected_backward(grad, dim, indices, sizes, keepdim):
    """Return the gradient of elements selected along a dimension, at their positions; by `scatter` if recorded."""
    if state.flags & GRAD_OFF:
        return ops.value_selecting_reduction_backward(grad, dim, indices, sizes, keepdim)
    if not keepdim and sizes:
        grad, indices = ops.unsqueeze(grad, dim), ops.unsqueeze(indices, dim)
    return ops.scatter_(ops.new_zeros(grad, sizes), dim, indices, grad)


def evenly_distribute_backward(grad, self, value):
    """Distribute the gradient of a value selected from all elements evenly among those that equal it (or are NaN)."""
    mask = _equal_or_nan(self, value)
    return ops.where(mask, grad / mask.sum(), 0)


def evenly_read_jvp(self_t, self, value):
    """Return the mean of the tangents of all elements that equal the selected value."""
    mask = _equal_or_nan(self, value)
    return ops.where(mask, self_t, 0).sum() / mask.sum()


def _equal_or_nan(self, value):
    if not is_readable(value._array):
        return ops.where(value.isnan(), self.isnan(), self == value)
    return self.isnan() if value.isnan().item() else self == value


def gather_with_keepdimed_indices(self, dim, indices, keepdim):
    """Return the elements at a selection's indices along a dimension, in the shape of its result."""
    if keepdim or not self.dim():
        return ops.gather(self, dim, indices)
    return ops.squeeze(ops.gather(self, dim, ops.unsqueeze(indices, dim)), dim)


def norm_backward(grad, self, p, norm, dim=None, keepdim=False):
    """d |x|_p/dx_k = sign(x_k) (|x_k| / |x|_p) ** (p - 1), with sign(x) = x / |x| for complex numbers. Returns None for
    p = 0, whose norm is constant almost everywhere. The subgradient is 0 where the norm is zero; for p = inf (-inf) the
    gradient is distributed evenly among the elements of greatest (least) magnitude.
    """
    if p is None:
        p = 2
    if p == 0:
        return None
    grad, norm = (_restored(x, dim, keepdim, self.dim()) for x in (grad, norm))
    if p == 1:
        return self.sgn() * grad
    if p == 2:
        return grad * quotient_or_zero(self, norm)
    if p in (inf, -inf):
        size = self.abs()
        mask = ops.logical_or(size == norm, size.isnan())
        n = ops.sum(mask, dim, True) if mask.dim() else mask
        return self.sgn() * (grad / n * mask)
    # Derivatives are 0 where there is none, or an infinite one: where the norm is zero, and for p < 3 at elements of 0.
    # Powers of |x| or the norm alone would overflow, in half precision from 257 ** 2 on.
    zero = norm == 0
    x, norm = ops.masked_fill(self, zero, 0), ops.masked_fill(norm, zero, 1)
    if p >= 3:
        return grad * (x / norm * (x.abs() / norm) ** (p - 2))
    size = ops.masked_fill(x, x == 0, 1).abs()
    return grad * (x.sgn() * (size / norm) ** (p - 1))


def norm_jvp(self, self_t, p, norm, dim=None, keepdim=False):
    """d |x|_p = sum Re(conj(d |x|_p/dx_k) dx_k)."""
    if p == 0:
        return ops.zeros_like(norm)
    return _dot(norm_backward(ops.ones_like(norm), self, p, norm, dim, keepdim), self_t, dim, keepdim)


def renorm_backward(grad, self, p, dim, maxnorm):
    """With y = s(|x|) x and s(n) = maxnorm / n for n > maxnorm, else 1: dx = s g + s'(|x|) <x, g> d|x|/dx."""
    others, norm, scale, slope = _renorm_parts(self, p, dim, maxnorm)
    along = ops.sum(_real(grad * self.conj()), others, True)
    scaled = grad * scale + norm_backward(along * slope, self, p, norm, others, True)
    return ops.where(norm > maxnorm, scaled, grad)


def renorm_jvp(self, self_t, p, dim, maxnorm):
    """dy = s dx + s'(|x|) d|x| x."""
    others, norm, scale, slope = _renorm_parts(self, p, dim, maxnorm)
    return self_t * scale + self * (slope * norm_jvp(self, self_t, p, norm, others, True))


def _renorm_parts(self, p, dim, maxnorm):
    """Return (the other dimensions, the norms over them, s, s')."""
    others = tuple([d for d in range(self.dim()) if d != dim % self.dim()])
    norm = ops.linalg_vector_norm(self, p, others, True)
    inverse = 1 / (norm + 1e-7)
    over = norm > maxnorm
    return others, norm, ops.where(over, maxnorm * inverse, 1), ops.where(over, -maxnorm * inverse * inverse, 0)


def _distance_backward(grad, difference, p, distance):
    """Return the gradient of |difference|_p over the last dimension. As in PyTorch, each of several largest elements
    gets all of the gradient of the maximum norm, whereas `norm_backward` divides it among them."""
    if p == 1:
        return ops.unsqueeze(grad, -1) * (difference.sgn() + _nan_of_nan(difference))
    if p != inf:
        return norm_backward(grad, difference, p, distance, (-1,), False)
    grad, distance = ops.unsqueeze(grad, -1), ops.unsqueeze(distance, -1)
    # zero at the largest elements, which makes it a constant; NaN where one of both is NaN, or both are infinite
    gap = (difference.abs() - distance).detach()
    return ops.where(gap.abs() > 0, 0, grad * (difference.sgn() + gap + _nan_of_nan(difference)))


def _nan_of_nan(x):
    """Return NaN, whose derivatives are NaN, where x is NaN, else 0. (The sign of NaN is 0.)"""
    found = ops.where(x.isnan(), x, 0)
    return found * found


def _distance_jvp(difference, tangent, p, distance):
    return _dot(_distance_backward(ops.ones_like(distance), difference, p, distance), tangent, (-1,), False)


def _constant_zero(x):
    """Return zeros with a derivative, which is 0, so that a second backward pass finds `x`."""
    return ops.masked_fill(x, ops.ones_like(x, dtype=bool_), 0)


def cdist_backward(grad, x1, x2, p, result):
    """Return the gradient of the distances between rows for `x1`: that of the norm of the differences."""
    if p == 0:
        return _constant_zero(x1)
    if p == 2 and max(grad.size(-1), grad.size(-2)) > 25:
        return euclidean_dist_backward(grad, x1, x2, result)
    difference = ops.unsqueeze(x1, -2) - ops.unsqueeze(x2, -3)
    return ops.sum(_distance_backward(grad, difference, p, result), -2)


def euclidean_dist_backward(grad, x1, x2, result):
    """sum_j w_ij (a_i - b_j) with w = grad / result, as a_i sum_j w_ij - (w b)_i, without all the differences."""
    weight = quotient_or_zero(grad, result)
    return x1 * ops.sum(weight, -1, True) - ops.matmul(weight, x2)


def cdist_jvp(x1, x1_t, x2, x2_t, p, result):
    """Return the tangent of the norm of all differences."""
    if p == 0:
        return ops.zeros_like(result)
    difference = ops.unsqueeze(x1, -2) - ops.unsqueeze(x2, -3)
    tangent = ops.unsqueeze(x1_t, -2) - ops.unsqueeze(x2_t, -3)
    return _distance_jvp(difference, tangent, p, result)


def _pair_differences(self):
    """Return the indices i and j of all pairs of rows i < j, and the differences of the rows."""
    first, second = ops.unbind(ops.triu_indices(self.size(0), self.size(0), 1), 0)
    return first, second, ops.index_select(self, 0, first) - ops.index_select(self, 0, second)


def pdist_backward(grad, self, p, result):
    """Return the gradient of the distances of all pairs of rows: that of the norm of x_i - x_j, added to row i and
    subtracted from row j."""
    if p == 0:
        return _constant_zero(self)
    first, second, difference = _pair_differences(self)
    each = _distance_backward(grad, difference, p, result)
    return ops.index_add(ops.index_add(ops.zeros_like(self), 0, first, each), 0, second, -each)


def pdist_jvp(self, self_t, p, result):
    """Return the tangent of the norm of all differences x_i - x_j."""
    if p == 0:
        return ops.zeros_like(result)
    return _distance_jvp(_pair_differences(self)[2], _pair_differences(self_t)[2], p, result)


def logsumexp_backward(grad, self, result, dim, keepdim):
    """d logsumexp/dx_k = exp(x_k - result)."""
    grad, result = (_restored(x, dim, keepdim, self.dim()) for x in (grad, result))
    return grad * (self - result).exp().conj()


def logsumexp_jvp(self, self_t, dim, keepdim):
    """d logsumexp = sum of exp(x_k - m) dx_k / sum of exp(x_k - m), with the greatest real part m.

    The result in place of m would need no second sum, but has lost multiples of 2 pi i, or digits of large numbers.
    """
    real = ops.real(self) if self.is_complex() else self
    top = ops.amax(real, dim, True) if real.numel() else ops.zeros((), dtype=real.dtype)
    weights = (self - ops.where(ops.isinf(top), 0, top)).exp()
    if not self.dim():
        return weights * self_t / weights
    return ops.sum(weights * self_t, dim, keepdim) / ops.sum(weights, dim, keepdim)


def cumsum_backward(grad, dim):
    """Return the sums of the gradients from each element on."""
    if not grad.dim() or grad.size(dim) < 2:
        return grad
    return ops.flip(ops.cumsum(ops.flip(grad, (dim,)), dim), (dim,))


def cumprod_backward(grad, self, dim, result):
    """dx_k = sum over i >= k of g_i * prod over j <= i, j != k of x_j.

    Without zeros in x this is the sum of g_i result_i from k on, divided by x_k. With zeros, and where it is
    differentiated, it is the product of the elements before k times r_k, where r_k = g_k + x_(k+1) r_(k+1).
    """
    if _is_single(self, dim):
        return grad
    x = self.conj()
    if _are_quotients(self, result):
        return cumsum_backward(grad * result.conj(), dim) / x
    later = ops.narrow(x, dim, 1, x.size(dim) - 1)
    return _products_before(x, dim) * _reversed_recurrence(_padded(later, dim, 0, front=False), grad, dim)


def _is_single(x, dim):
    """Return whether a running result equals its input."""
    return not x.dim() or not x.numel() or x.size(dim) == 1


def cumprod_jvp(self_t, self, dim, result):
    """dy_k = x_k dy_(k-1) + y_(k-1) dx_k."""
    if _is_single(self, dim):
        return self_t
    before = _padded(ops.narrow(result, dim, 0, result.size(dim) - 1), dim, 1, front=True)
    return _recurrence(self, before * self_t, dim)


def logcumsumexp_backward(grad, self, result, dim):
    """dx_k = sum over i >= k of g_i exp(x_k - y_i) = exp(x_k - y_k) s_k: s_k = g_k + exp(y_k - y_(k+1)) s_(k+1)."""
    if _is_single(self, dim):
        return grad
    share, decay = _cumulative_shares(self, result, dim)
    decay = _padded(decay, dim, 0, front=False).conj()
    return share.conj() * _reversed_recurrence(decay, grad, dim)


def logcumsumexp_jvp(self, self_t, result, dim):
    """dy_k = exp(x_k - y_k) dx_k + exp(y_(k-1) - y_k) dy_(k-1)."""
    if _is_single(self, dim):
        return self_t
    share, decay = _cumulative_shares(self, result, dim)
    return _recurrence(_padded(decay, dim, 0, front=True), share * self_t, dim)


def _cumulative_shares(self, result, dim):
    """Return exp(x_k - y_k) and exp(y_(k-1) - y_k), the latter from k = 1 on, for y = logcumsumexp(x).

    They are the shares of the last term and of the terms before it in the sum over i <= k of exp(x_i - m_k), with the
    maximum m_k of x_0 to x_k. Differences of y would lose the digits that it has before the point. They decide where
    the maximum is infinite.
    """
    n = self.size(dim) - 1
    top = ops.cummax(_real(self.detach()), dim)[0]
    moved = _exp_of_difference(ops.narrow(top, dim, 0, n), ops.narrow(top, dim, 1, n))
    term = _exp_of_difference(self, top)
    total = _recurrence(_padded(moved, dim, 0, front=True), term, dim)
    before, after = ops.narrow(result, dim, 0, n), ops.narrow(result, dim, 1, n)
    decay = moved * ops.narrow(total, dim, 0, n) / ops.narrow(total, dim, 1, n)
    infinite = ops.isinf(top)
    return (
        ops.where(infinite, _exp_of_difference(self, result), term / total),
        ops.where(ops.narrow(infinite, dim, 1, n), _exp_of_difference(before, after), decay),
    )


def _exp_of_difference(a, b):
    """Return exp(a - b), and 1 where both are the same infinity."""
    same = ops.logical_and(a == b, ops.isinf(a))
    return ops.where(same, 0, a - b).exp()


def segment_reduce_backward(grad, data, reduce, lengths, offsets, axis, initial, result):
    """Return the gradient of `segment_reduce`: each element's partial derivative times its segment's gradient."""
    rows, segments, width = _segment_rows(data, lengths, offsets, axis)
    flat = _as_rows(data, width)
    partials = _segment_partials(flat, reduce, rows, segments, initial, _as_rows(result, width))
    of_rows = ops.mul(ops.index_select(_as_rows(grad, width), 0, segments), partials)
    return ops.reshape(ops.index_add(ops.zeros_like(flat), 0, rows, of_rows), data.shape)


def segment_reduce_jvp(data, data_t, reduce, lengths, offsets, axis, initial, result):
    """Return the tangent of `segment_reduce`: the sum over each segment of partial derivatives times tangents."""
    rows, segments, width = _segment_rows(data, lengths, offsets, axis)
    of_segments = _as_rows(result, width)
    partials = _segment_partials(_as_rows(data, width), reduce, rows, segments, initial, of_segments)
    change = ops.mul(ops.index_select(_as_rows(data_t, width), 0, rows), partials)
    return ops.reshape(ops.index_add(ops.zeros_like(of_segments), 0, segments, change), result.shape)


def _as_rows(tensor, width):
    return ops.reshape(tensor, (tensor.numel() // width if width else 0, width))


def _segment_rows(data, lengths, offsets, axis):
    """Return the elements of all segments in order as row numbers of the matrix (positions, rest), the number of each
    one's segment, and the matrix's width."""
    dims = axis % data.dim()
    n, width = data.size(dims), prod(data.shape[dims + 1 :])
    if offsets is not None:
        starts, counts = ops.narrow(offsets, -1, 0, offsets.size(-1) - 1), ops.diff(offsets)
    else:
        starts, counts = ops.sub(ops.cumsum(lengths, -1), lengths), lengths
    if not width:
        counts = ops.zeros_like(counts)
    rows = ops.mul(ops.arange(prod(data.shape[:dims])), n)
    starts = ops.reshape(ops.add(starts, ops.reshape(rows, (*data.shape[:dims], 1))), (-1,))
    counts = ops.reshape(counts, (-1,))
    segments = ops.repeat_interleave(counts)
    shift = ops.sub(starts, ops.sub(ops.cumsum(counts, 0), counts))
    return ops.add(ops.arange(segments.size(0)), ops.index_select(shift, 0, segments)), segments, width


def _segment_partials(flat, reduce, rows, segments, initial, result):
    """Return the derivative of each segment's result for its elements, (elements, width).

    sum 1; mean 1 / count; max, min 1 / (number of elements equal to the result) for these and NaN, 0 for others;
    prod the product of the others: result / x where no element is zero or NaN.
    """
    elements = ops.index_select(flat, 0, rows)
    if reduce == "sum":
        return ops.ones_like(elements)

    def totals(values):
        return ops.index_select(ops.index_add(ops.zeros_like(result), 0, segments, values), 0, segments)

    if reduce == "mean":
        return ops.reciprocal(totals(ops.ones_like(elements)))
    of_segment = ops.index_select(result, 0, segments)
    if reduce != "prod":
        chosen = ops.logical_or(ops.eq(elements, of_segment), ops.isnan(elements))
        chosen = ops.type_as(chosen, elements)
        return ops.div(chosen, ops.clamp_min(totals(chosen), 1))
    if not is_differentiated(flat) and not (elements == 0).any().item() and not elements.isnan().any().item():
        return ops.div(of_segment, elements)
    if not elements.numel():
        return elements
    places = ops.sub(ops.arange(segments.size(0)), ops.searchsorted(segments, segments))
    longest = int(places.max().item()) + 1
    places = ops.add(ops.mul(segments, longest), places)
    padded = ops.new_ones(elements, (result.size(0) * longest, elements.size(1)))
    padded = ops.reshape(ops.index_copy(padded, 0, places, elements), (result.size(0), longest, elements.size(1)))
    others = ops.reshape(_products_of_others(padded, 1), (-1, elements.size(1)))
    return ops.mul(ops.index_select(others, 0, places), 1 if initial is None else initial)
