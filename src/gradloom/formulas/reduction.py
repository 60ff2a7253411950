"""Derivative helpers of reductions.

Where a result is a real function of a slice of the input, its tangent is the product of its gradient and the input's
tangent: d result = sum Re(conj(gradient) * tangent); the *_jvp helpers use this.

Note [Recurrences]
Derivatives of running products and running logsumexps are recurrences y[k] = term[k] + factor[k] * y[k - 1], which
neither divide by an element that may be zero nor leave the range of floating-point numbers. They are associative, so
doubling the stride solves them in log2(n) steps (Hillis and Steele 1986, "Data parallel algorithms").
"""

from __future__ import annotations

from math import inf

from ..dispatch import _operators as ops
from ..dispatch.state import GRAD_OFF, state


def _wrapped(dim, ndim):
    """The reduced dimensions counted from the front, in rising order: all for None and ()."""
    if dim is None or dim == ():
        return list(range(ndim))
    if dim.__class__ is int:
        dim = (dim,)
    return sorted([d % ndim for d in dim])


def _restored(reduced, dim, keepdim, ndim):
    """A result with its reduced dimensions back, of size one; as it is, if all were reduced: it broadcasts."""
    if keepdim or not ndim or dim is None or dim == ():
        return reduced
    for d in _wrapped(dim, ndim):
        reduced = ops.unsqueeze(reduced, d)
    return reduced


def _count(sizes, dim):
    """The number of elements that are reduced to one."""
    found = 1
    if sizes:
        for d in _wrapped(dim, len(sizes)):
            found *= sizes[d]
    return found


def _real(tensor):
    return ops.real(tensor) if tensor.is_complex() else tensor


def _dot(gradient, tangent, dim, keepdim):
    """sum Re(conj(gradient) * tangent) over the reduced dimensions."""
    product = _real(gradient.conj() * tangent)
    return ops.sum(product, dim, keepdim) if product.dim() else product


def _recurrence(factor, term, dim):
    """y with y[k] = term[k] + factor[k] * y[k - 1] along `dim`, for tensors of one shape; factor[0] is not used."""
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
    """y with y[k] = term[k] + factor[k] * y[k + 1] along `dim`; the last factor is not used."""
    return ops.flip(_recurrence(ops.flip(factor, (dim,)), ops.flip(term, (dim,)), dim), (dim,))


def _padded(x, dim, value, front):
    """`x` with one more element, the number `value`, in front or at the end of `dim`."""
    edge = ops.full_like(ops.narrow(x, dim, 0, 1), value)
    return ops.cat((edge, x) if front else (x, edge), dim)


def sum_backward(grad, sizes, dim, keepdim):
    """The gradient of a sum: itself, expanded over the summed dimensions without being copied."""
    ndim = len(sizes)
    if not keepdim and ndim and _wrapped(dim, ndim) != list(range(ndim - grad.dim())):
        grad = _restored(grad, dim, keepdim, ndim)
    return ops.expand(grad, sizes)


def mean_backward(grad, sizes, dim, numel, keepdim):
    """The gradient of a mean: that of the sum, divided by the number of elements, in memory of its own."""
    number = numel if dim is None or dim == () else _count(sizes, dim)
    return ops.div_Scalar(sum_backward(grad, sizes, dim, keepdim), number)


def nansum_backward(grad, self, dim, keepdim):
    """The gradient of a sum, and zero where the input is NaN."""
    return sum_backward(grad, self.shape, dim, keepdim) * ops.logical_not(self.isnan())


def trace_backward(grad, sizes):
    """The gradient of a trace: a diagonal matrix."""
    return ops.eye(sizes[0], sizes[1], dtype=grad.dtype) * grad


def prod_backward(grad, self, result, dim=None, keepdim=False):
    """d(prod x)/dx_k = prod over j != k of x_j. That is result / x_k while nothing is zero; else it is made of the
    products before and after k, which stays right in higher derivatives."""
    if not self.dim():
        return grad
    grad = _restored(grad, dim, keepdim, self.dim())
    if (result == 0).any():
        return grad * _products_of_others(self, dim).conj()
    return grad * (_restored(result, dim, keepdim, self.dim()) / self).conj()


def prod_jvp(self, self_t, result, dim=None, keepdim=False):
    """d(prod x) = sum over k of dx_k * prod over j != k of x_j."""
    if not self.dim():
        return self_t
    if (result == 0).any():
        others = _products_of_others(self, dim)
    else:
        others = _restored(result, dim, keepdim, self.dim()) / self
    return ops.sum(others * self_t, dim, keepdim)


def _products_of_others(x, dim):
    if dim is None:
        flat = ops.reshape(x, (-1,))
        return ops.reshape(_products_of_others(flat, 0), x.shape)
    after = ops.flip(_products_before(ops.flip(x, (dim,)), dim), (dim,))
    return _products_before(x, dim) * after


def _products_before(x, dim):
    """For each k the product of the elements before it: 1 for the first."""
    n = x.size(dim)
    if n < 2:
        return ops.ones_like(x)
    return _padded(ops.cumprod(ops.narrow(x, dim, 0, n - 1), dim), dim, 1, front=True)


def var_backward(grad, self, dim, correction, keepdim):
    """d var/dx = 2 (x - mean) / (n - correction)."""
    free = _count(self.shape, dim) - (1 if correction is None else correction)
    grad = _restored(grad, dim, keepdim, self.dim())
    spread = self - _mean(self, dim)
    if free <= 0:
        return grad * ops.where(spread == 0, float("nan"), inf)
    return ops.mul_Scalar(grad, 2.0 / free) * spread


def _mean(x, dim):
    if not x.dim():
        return x
    return ops.mean(x) if dim is None or dim == () else ops.mean(x, dim, True)


def var_jvp(self, self_t, dim, correction, keepdim):
    """d var = sum of 2 Re(conj(x - mean) dx) / (n - correction)."""
    one = ops.ones((), dtype=_real(self).dtype)
    return _dot(var_backward(one, self, dim, correction, True), self_t, dim, keepdim)


def std_backward(result, grad, self, dim, correction, keepdim):
    """d std = d var / (2 std), and zero where the deviation is."""
    return var_backward(_of_root(grad, result), self, dim, correction, keepdim)


def std_jvp(self, self_t, result, dim, correction, keepdim):
    """d std = d var / (2 std), and zero where the deviation is."""
    return _of_root(var_jvp(self, self_t, dim, correction, keepdim), result)


def _of_root(change, root):
    """The change of a square root for a change of its square: change / (2 root), zero where the root is."""
    return ops.masked_fill(change / ops.mul_Scalar(root, 2), root == 0, 0)


def var_mean_backward(grad_var, grad_mean, self, dim, correction, keepdim):
    """The gradient of the variance and that of the mean, where they are defined."""
    return _added(
        None if grad_var is None else var_backward(grad_var, self, dim, correction, keepdim),
        None if grad_mean is None else mean_backward(grad_mean, self.shape, dim, self.numel(), keepdim),
    )


def std_mean_backward(grad_std, grad_mean, self, std, dim, correction, keepdim):
    """The gradient of the standard deviation and that of the mean, where they are defined."""
    return var_mean_backward(
        None if grad_std is None else _of_root(grad_std, std), grad_mean, self, dim, correction, keepdim
    )


def _added(first, second):
    return second if first is None else first if second is None else first + second


def amaxmin_backward(grad, self, result, dim, keepdim):
    """The gradient, distributed evenly among all elements that equal the extremum."""
    grad, result = (_restored(x, dim, keepdim, self.dim()) for x in (grad, result))
    mask = self == result
    return grad / (ops.sum(mask, dim, True) if mask.dim() else mask) * mask


def amaxmin_jvp(self, self_t, result, dim, keepdim):
    """The mean of the tangents of all elements that equal the extremum."""
    shares = _shares(self, _restored(result, dim, keepdim, self.dim()), dim)
    product = shares * self_t
    return ops.sum(product, dim, keepdim) if product.dim() else product


def _shares(self, extremum, dim):
    """1 / n for each of the n elements of a slice that equal its extremum, 0 for the others."""
    mask = self == extremum
    n = ops.sum(mask, dim, True) if mask.dim() else mask
    return mask.to(self.dtype) / n


def aminmax_backward(self, dim, keepdim, grad_min, grad_max, min, max):
    """The gradients of both extrema, where they are defined."""
    return _added(
        None if grad_min is None else amaxmin_backward(grad_min, self, min, dim, keepdim),
        None if grad_max is None else amaxmin_backward(grad_max, self, max, dim, keepdim),
    )


def selected_backward(grad, dim, indices, sizes, keepdim):
    """The gradient of elements chosen along a dimension, put where they came from; scattered if that is recorded."""
    if state.flags & GRAD_OFF:
        return ops.value_selecting_reduction_backward(grad, dim, indices, sizes, keepdim)
    if not keepdim and sizes:
        grad, indices = ops.unsqueeze(grad, dim), ops.unsqueeze(indices, dim)
    return ops.scatter_(ops.new_zeros(grad, sizes), dim, indices, grad)


def evenly_distribute_backward(grad, self, value):
    """The gradient of a value chosen from all elements, distributed evenly among those that equal it (or are NaN)."""
    mask = _equal_or_nan(self, value)
    return ops.masked_fill_(ops.zeros_like(mask, dtype=grad.dtype), mask, grad / mask.sum())


def evenly_read_jvp(self_t, self, value):
    """The mean of the tangents of all elements that equal the value chosen from them."""
    mask = _equal_or_nan(self, value)
    return ops.where(mask, self_t, 0).sum() / mask.sum()


def _equal_or_nan(self, value):
    return self.isnan() if value.isnan().item() else self == value


def gather_with_keepdimed_indices(self, dim, indices, keepdim):
    """The elements that a selection along a dimension took, in the shape of its result."""
    if keepdim or not self.dim():
        return ops.gather(self, dim, indices)
    return ops.squeeze(ops.gather(self, dim, ops.unsqueeze(indices, dim)), dim)


def norm_backward(grad, self, p, norm, dim=None, keepdim=False):
    """d |x|_p/dx_k = sign(x_k) (|x_k| / |x|_p) ** (p - 1), for complex numbers with sign(x) = x / |x|.

    None for p = 0: that norm is constant almost everywhere. The subgradient 0 is taken where the norm is zero, and the
    even distribution among the elements of greatest (least) magnitude for p = inf (-inf).
    """
    if p is None:
        p = 2
    if p == 0:
        return None
    grad, norm = (_restored(x, dim, keepdim, self.dim()) for x in (grad, norm))
    if p == 1:
        return self.sgn() * grad
    if p == 2:
        return grad * ops.masked_fill(self / norm, norm == 0, 0)
    if p in (inf, -inf):
        size = self.abs()
        mask = ops.logical_or(size == norm, size.isnan())
        n = ops.sum(mask, dim, True) if mask.dim() else mask
        return self.sgn() * (grad / n * mask)
    size = self.abs()
    if p < 2:
        # |x| ** (p - 2) would be infinite at zero. There the sign is zero, and stays zero in higher derivatives.
        zero = self == 0
        power = ops.where(zero, 0, ops.where(zero, 1, size) ** (p - 1))
        none, size = norm == 0, ops.where(norm == 0, 1, norm)
        if p < 1:
            return self.sgn() * power * grad * ops.where(none, 0, size ** (1 - p))
        return self.sgn() * power * ops.where(none, 0, grad / size ** (p - 1))
    return self * size ** (p - 2) * ops.masked_fill(grad / norm ** (p - 1), norm == 0, 0)


def norm_jvp(self, self_t, p, norm, dim=None, keepdim=False):
    """d |x|_p = sum Re(conj(d |x|_p/dx_k) dx_k)."""
    if p == 0:
        return ops.zeros_like(norm)
    return _dot(norm_backward(ops.ones_like(norm), self, p, norm, dim, keepdim), self_t, dim, keepdim)


def renorm_backward(grad, self, p, dim, maxnorm):
    """y = s(|x|) x with s(n) = maxnorm / n above maxnorm, else 1: dx = s g + s'(|x|) <x, g> d|x|/dx."""
    others, norm, scale, slope = _renorm_parts(self, p, dim, maxnorm)
    along = ops.sum(_real(grad * self.conj()), others, True)
    return grad * scale + norm_backward(along * slope, self, p, norm, others, True)


def renorm_jvp(self, self_t, p, dim, maxnorm):
    """dy = s dx + s'(|x|) d|x| x."""
    others, norm, scale, slope = _renorm_parts(self, p, dim, maxnorm)
    return self_t * scale + self * (slope * norm_jvp(self, self_t, p, norm, others, True))


def _renorm_parts(self, p, dim, maxnorm):
    """(the other dimensions, the norms over them, s, s')."""
    others = tuple([d for d in range(self.dim()) if d != dim % self.dim()])
    norm = ops.linalg_vector_norm(self, p, others, True)
    inverse = 1 / (norm + 1e-7)
    over = norm > maxnorm
    return others, norm, ops.where(over, maxnorm * inverse, 1), ops.where(over, -maxnorm * inverse * inverse, 0)


def cdist_backward(grad, x1, x2, p, result):
    """The gradient of the distances between rows with respect to `x1`: that of the norm of the differences."""
    if p == 0:
        return ops.zeros_like(x1)
    if p == 2 and max(grad.size(-1), grad.size(-2)) > 25:
        return euclidean_dist_backward(grad, x1, x2, result)
    difference = ops.unsqueeze(x1, -2) - ops.unsqueeze(x2, -3)
    return ops.sum(norm_backward(grad, difference, p, result, (-1,), False), -2)


def euclidean_dist_backward(grad, x1, x2, result):
    """sum_j w_ij (a_i - b_j) with w = grad / result, as a_i sum_j w_ij - (w b)_i: without making all differences."""
    weight = ops.where(result == 0, 0, grad / result)
    return x1 * ops.sum(weight, -1, True) - ops.matmul(weight, x2)


def cdist_jvp(x1, x1_t, x2, x2_t, p, result):
    """The tangent of the norm of all differences."""
    difference = ops.unsqueeze(x1, -2) - ops.unsqueeze(x2, -3)
    tangent = ops.unsqueeze(x1_t, -2) - ops.unsqueeze(x2_t, -3)
    return norm_jvp(difference, tangent, p, result, (-1,), False)


def logsumexp_backward(grad, self, result, dim, keepdim):
    """d logsumexp/dx_k = exp(x_k - result)."""
    grad, result = (_restored(x, dim, keepdim, self.dim()) for x in (grad, result))
    return grad * (self - result).exp().conj()


def logsumexp_jvp(self, self_t, result, dim, keepdim):
    """d logsumexp = sum of exp(x_k - result) dx_k."""
    product = (self - _restored(result, dim, keepdim, self.dim())).exp() * self_t
    return ops.sum(product, dim, keepdim) if product.dim() else product


def cumsum_backward(grad, dim):
    """The sums of the gradients from each element on."""
    if not grad.dim() or grad.size(dim) < 2:
        return grad
    return ops.flip(ops.cumsum(ops.flip(grad, (dim,)), dim), (dim,))


def cumprod_backward(grad, self, dim, result):
    """dx_k = sum over i >= k of g_i * prod over j <= i, j != k of x_j.

    While nothing is zero that is the sum of g_i result_i from k on, divided by x_k. Else it is the product of the
    elements before k times r_k, where r_k = g_k + x_(k+1) r_(k+1).
    """
    if _is_single(self, dim):
        return grad
    x = self.conj()
    if not (self == 0).any():
        return cumsum_backward(grad * result.conj(), dim) / x
    later = ops.narrow(x, dim, 1, x.size(dim) - 1)
    return _products_before(x, dim) * _reversed_recurrence(_padded(later, dim, 0, front=False), grad, dim)


def _is_single(x, dim):
    """Return whether a running result is its input."""
    return not x.dim() or not x.numel() or x.size(dim) == 1


def cumprod_jvp(self_t, self, dim, result):
    """dy_k = x_k dy_(k-1) + y_(k-1) dx_k."""
    if _is_single(self, dim):
        return self_t
    before = _padded(ops.narrow(result, dim, 0, result.size(dim) - 1), dim, 1, front=True)
    return _recurrence(self, before * self_t, dim)


def cummaxmin_backward(grad, self, indices, dim):
    """The gradients, added up at the elements that the results were taken from."""
    if not self.numel():
        return ops.zeros_like(self)
    return ops.scatter_add(ops.zeros_like(self), dim, indices, grad)


def logcumsumexp_backward(grad, self, result, dim):
    """dx_k = sum over i >= k of g_i exp(x_k - y_i) = exp(x_k - y_k) s_k, where s_k = g_k + exp(y_k - y_(k+1)) s_(k+1).
    Every exponent is negative, since y rises."""
    if _is_single(self, dim):
        return grad
    decay = _padded(_decay(result, dim), dim, 0, front=False).conj()
    return _exp_of_difference(self, result).conj() * _reversed_recurrence(decay, grad, dim)


def logcumsumexp_jvp(self, self_t, result, dim):
    """dy_k = exp(x_k - y_k) dx_k + exp(y_(k-1) - y_k) dy_(k-1)."""
    if _is_single(self, dim):
        return self_t
    decay = _padded(_decay(result, dim), dim, 0, front=True)
    return _recurrence(decay, _exp_of_difference(self, result) * self_t, dim)


def _decay(result, dim):
    """exp(y_k - y_(k+1)), one less than there are elements."""
    n = result.size(dim) - 1
    return _exp_of_difference(ops.narrow(result, dim, 0, n), ops.narrow(result, dim, 1, n))


def _exp_of_difference(a, b):
    """exp(a - b), and 1 where both are the same infinity."""
    same = ops.logical_and(a == b, ops.isinf(a))
    return ops.where(same, 0, a - b).exp()
