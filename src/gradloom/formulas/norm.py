"""Derivatives of normalisations.

Note [Standardising]
A set of elements x is standardised to n = (x - mean) r with r = 1 / sqrt(variance + eps), then scaled: y = w n + b.
With M the mean over the set, the derivative of n is the linear map P(h) = r (h - M(h) - n M(h n)), which is its own
transpose, and that of r is dr = -r^2 M(n dx). So, for g the gradient of y and h = w g,

    backward:  gx = P(h),  gw = sum g n,  gb = sum g.

For cotangents a, b, c of these, S = sum a gx + sum b gw + sum c gb has the gradients

    for g:  w P(a) + b n + c
    for w:  sum g P(a)
    for x:  P(N) - r n M(a gx)  with  N = b g - r (a M(h n) + h M(a n))

where N is the gradient for n at fixed r, and the last term is the contribution through r. With given statistics (batch
normalisation in evaluation) P(h) = r h, and r is constant. `Sets` holds the shapes, so that this is written once for
batches, layers and groups.
"""

from __future__ import annotations

from ..core.tangents import is_differentiated
from ..dispatch import _operators as ops


class Sets:
    """Layout of tensors in which the sets lie along `dims`.

    Attributes:
        shape, statistics, affine: the shapes of inputs and gradients, of mean and r, and of w and b; the latter
            broadcast to the first.
        parameter: the shape of w and b as arguments.
        dims, others: the dimensions of a set, and those over which the gradients of w and b are summed.
        fixed: whether the statistics are given.
    """

    __slots__ = ("shape", "statistics", "affine", "parameter", "dims", "others", "fixed")

    def __init__(self, shape, dims, affine, parameter, fixed=False):
        self.shape, self.dims, self.affine, self.fixed = tuple(shape), list(dims), tuple(affine), fixed
        self.parameter = parameter
        self.statistics = tuple([1 if d in self.dims else n for d, n in enumerate(self.shape)])
        self.others = [d for d, n in enumerate(self.affine) if n == 1 and self.shape[d] != 1]

    def lay(self, *tensors):
        """Reshape tensors of the input's size to `shape`; None stays None."""
        return [None if t is None else ops.reshape(t, self.shape) for t in tensors]

    def scale(self, weight):
        """Reshape a parameter to `affine`; None stays None."""
        return None if weight is None else ops.reshape(weight, self.affine)

    def mean(self, t):
        """Return M(t)."""
        return ops.mean(t, self.dims, True)

    def total(self, t, like):
        """Sum `t` over the elements that share one element of a parameter; the result has the parameter's shape."""
        return ops.reshape(ops.sum(t, self.others) if self.others else t, like)

    def project(self, h, n, r):
        """Return P(h) of Note [Standardising]."""
        if self.fixed:
            return r * h
        return r * (h - self.mean(h) - n * self.mean(h * n))


def _times(t, scale):
    return t if scale is None else t * scale


def _plus(*terms):
    found = None
    for t in terms:
        if t is not None:
            found = t if found is None else found + t
    return found


def _standardized(sets, x, mean, rstd):
    """Return n and r. Where these are differentiated again, the saved statistics, which have no history, are recomputed
    as functions of x, with eps = 1 / r^2 - variance as a constant."""
    mean, r = ops.reshape(mean, sets.statistics), ops.reshape(rstd, sets.statistics)
    if not sets.fixed and is_differentiated(x):
        mean, r = mean.detach(), r.detach()
        centred = x - mean
        centred = centred - (sets.mean(centred) - sets.mean(centred).detach())
        variance = sets.mean(centred * centred)
        r = ops.rsqrt(variance - variance.detach() + 1 / (r * r))
        return centred * r, r
    return (x - mean) * r, r


def _forward_jvp(sets, x, x_t, weight, weight_t, bias_t, mean, rstd):
    """Return the tangent of y: w P(x') + w' n + b'."""
    shape = x.shape
    x, x_t = sets.lay(x, x_t)
    n, r = _standardized(sets, x, mean, rstd)
    tangent = None if x_t is None else _times(sets.project(x_t, n, r), sets.scale(weight))
    tangent = _plus(tangent, None if weight_t is None else n * sets.scale(weight_t), sets.scale(bias_t))
    return ops.reshape(ops.expand(tangent, sets.shape), shape)


def _double_backward(sets, grad, x, weight, cotangents, mean, rstd, mask):
    """Return the gradients of the backward for g, x and w: see Note [Standardising]."""
    shape = x.shape
    grad, x, a = sets.lay(grad, x, cotangents[0])
    w, b, c = sets.scale(weight), sets.scale(cotangents[1]), sets.scale(cotangents[2])
    n, r = _standardized(sets, x, mean, rstd)
    projected = None if a is None else sets.project(a, n, r)
    for_grad = for_x = for_weight = None
    if mask[0]:
        for_grad = _plus(None if a is None else _times(projected, w), None if b is None else b * n, c)
        for_grad = None if for_grad is None else ops.reshape(ops.expand(for_grad, sets.shape), shape)
    if mask[1]:
        for_x = _input_gradient(sets, grad, a, b, _times(grad, w), n, r)
        for_x = None if for_x is None else ops.reshape(for_x, shape)
    if mask[2] and a is not None and weight is not None:
        for_weight = sets.total(grad * projected, weight.shape)
    return for_grad, for_x, for_weight


def _input_gradient(sets, grad, a, b, h, n, r):
    inner = None if b is None else b * grad
    if a is None or sets.fixed:
        return None if inner is None else sets.project(inner, n, r)
    inner = _plus(-r * (a * sets.mean(h * n) + h * sets.mean(a * n)), inner)
    return sets.project(inner, n, r) - r * n * sets.mean(a * sets.project(h, n, r))


def _backward_jvp(sets, grad, grad_t, x, x_t, weight, weight_t, mean, rstd, mask):
    """Return the tangents of gx, gw and gb: derivatives of the backward in Note [Standardising] for g, x and w."""
    shape = x.shape
    grad, grad_t, x, x_t = sets.lay(grad, grad_t, x, x_t)
    w, w_t = sets.scale(weight), sets.scale(weight_t)
    n, r = _standardized(sets, x, mean, rstd)
    n_t = None if x_t is None else sets.project(x_t, n, r)
    of_x = of_weight = of_bias = None
    if mask[0]:
        h = _times(grad, w)
        h_t = _plus(None if grad_t is None else _times(grad_t, w), None if w_t is None else grad * w_t)
        of_x = None if h_t is None else sets.project(h_t, n, r)
        if n_t is not None and not sets.fixed:
            of_x = _plus(
                of_x,
                -r * sets.mean(n * x_t) * sets.project(h, n, r),
                -r * (n_t * sets.mean(h * n) + n * sets.mean(h * n_t)),
            )
        of_x = ops.reshape(ops.zeros_like(x) if of_x is None else of_x, shape)
    like = sets.parameter if weight is None else weight.shape
    if mask[1]:
        of_weight = _plus(None if grad_t is None else grad_t * n, None if n_t is None else grad * n_t)
        of_weight = sets.total(ops.zeros_like(x) if of_weight is None else of_weight, like)
    if mask[2]:
        of_bias = sets.total(ops.zeros_like(x) if grad_t is None else grad_t, like)
    return of_x, of_weight, of_bias


def _channels(input, training):
    channels = input.shape[1]
    dims = [d for d in range(input.dim()) if d != 1]
    return Sets(input.shape, dims, (1, channels, *(1,) * (input.dim() - 2)), (channels,), not training)


def _statistics(training, eps, running_mean, running_var, mean, rstd):
    """Return the mean and r that the forward pass used."""
    return (mean, rstd) if training else (running_mean, ops.rsqrt(running_var + eps))


def batch_norm_reserve_backward(
    grad, input, weight, running_mean, running_var, save_mean, save_var, update, eps, mask, reserve
):
    """Return the gradients of a batch norm, by the operator whose schema fits: `batch_norm_backward` needs a weight."""
    saved = (running_mean, running_var, save_mean, save_var, update, eps, mask)
    if weight is None:
        return ops.native_batch_norm_backward(grad, input, weight, *saved)
    return ops.batch_norm_backward(grad, input, weight, *saved, reserve)


def batch_norm_jvp(x, x_t, weight, weight_t, bias_t, running_mean, running_var, mean, rstd, training, eps):
    """Return the tangent of native_batch_norm."""
    used = _statistics(training, eps, running_mean, running_var, mean, rstd)
    return _forward_jvp(_channels(x, training), x, x_t, weight, weight_t, bias_t, *used)


def batch_norm_double_backward(grads, grad_out, x, weight, running_mean, running_var, mean, rstd, training, eps, mask):
    """Return the gradients of native_batch_norm_backward for grad_out, input and weight."""
    used = _statistics(training, eps, running_mean, running_var, mean, rstd)
    return _double_backward(_channels(x, training), grad_out, x, weight, grads, *used, mask)


def batch_norm_backward_jvp(
    grad, grad_t, x, x_t, weight, weight_t, running_mean, running_var, mean, rstd, training, eps, mask
):
    """Return the tangents of native_batch_norm_backward."""
    used = _statistics(training, eps, running_mean, running_var, mean, rstd)
    return _backward_jvp(_channels(x, training), grad, grad_t, x, x_t, weight, weight_t, *used, mask)


def _last(input, normalized_shape):
    outer = input.dim() - len(normalized_shape)
    return Sets(input.shape, range(outer, input.dim()), (*(1,) * outer, *normalized_shape), normalized_shape)


def layer_norm_jvp(x, x_t, weight, weight_t, bias_t, mean, rstd, normalized_shape):
    """Return the tangent of native_layer_norm."""
    return _forward_jvp(_last(x, normalized_shape), x, x_t, weight, weight_t, bias_t, mean, rstd)


def layer_norm_double_backward(grads, grad_out, x, weight, mean, rstd, normalized_shape, mask):
    """Return the gradients of native_layer_norm_backward for grad_out, input and weight."""
    return _double_backward(_last(x, normalized_shape), grad_out, x, weight, grads, mean, rstd, mask)


def layer_norm_backward_jvp(grad, grad_t, x, x_t, weight, weight_t, mean, rstd, normalized_shape, mask):
    """Return the tangents of native_layer_norm_backward."""
    return _backward_jvp(_last(x, normalized_shape), grad, grad_t, x, x_t, weight, weight_t, mean, rstd, mask)


def _groups(N, C, HxW, group):
    return Sets((N, group, C // group, HxW), (2, 3), (1, group, C // group, 1), (C,))


def group_norm_backward(grads, input, mean, rstd, weight, N, C, HxW, group, mask):
    """Return the gradients of native_group_norm for gradients of its result, its means and its inverse deviations.

    Only direct callers of the operator see the means and deviations. Their gradients are 1 / count for the mean and
    -r^2 n / count for r. The derivatives of the backward treat the statistics as functions of the input (Note
    [Standardising]), so it gets them without history.
    """
    found = [None, None, None]
    if grads[0] is not None:
        saved = input, mean.detach(), rstd.detach(), weight
        found = list(ops.native_group_norm_backward(grads[0], *saved, N, C, HxW, group, mask))
    if mask[0] and (grads[1] is not None or grads[2] is not None):
        sets = _groups(N, C, HxW, group)
        n, r = _standardized(sets, ops.reshape(input, sets.shape), mean, rstd)
        of_mean, of_r = [None if g is None else ops.reshape(g, sets.statistics) for g in grads[1:]]
        term = _plus(of_mean, None if of_r is None else -r * r * n * of_r) / (C // group * HxW)
        found[0] = _plus(found[0], ops.reshape(ops.expand(term, sets.shape), input.shape))
    return tuple(found)


def group_norm_jvp(x, x_t, weight, weight_t, bias_t, mean, rstd, group):
    """Return the tangent of native_group_norm's result."""
    return _forward_jvp(_groups_of(x, group), x, x_t, weight, weight_t, bias_t, mean, rstd)


def _groups_of(x, group):
    positions = 1
    for n in x.shape[2:]:
        positions *= n
    return _groups(x.shape[0], x.shape[1], positions, group)


def group_norm_mean_jvp(x_t, group):
    """Return the tangent of the means: M(x')."""
    sets = _groups_of(x_t, group)
    return ops.reshape(sets.mean(ops.reshape(x_t, sets.shape)), sets.statistics[:2])


def group_norm_deviation_jvp(x, x_t, mean, rstd, group):
    """Return the tangent of the inverse deviations: -r^2 M(n x')."""
    sets = _groups_of(x, group)
    n, r = _standardized(sets, ops.reshape(x, sets.shape), mean, rstd)
    return ops.reshape(-r * r * sets.mean(n * ops.reshape(x_t, sets.shape)), sets.statistics[:2])


def group_norm_double_backward(grads, grad_out, x, weight, mean, rstd, N, C, HxW, group, mask):
    """Return the gradients of native_group_norm_backward for grad_out, input and weight."""
    return _double_backward(_groups(N, C, HxW, group), grad_out, x, weight, grads, mean, rstd, mask)


def group_norm_backward_jvp(grad, grad_t, x, x_t, weight, weight_t, mean, rstd, N, C, HxW, group, mask):
    """Return the tangents of native_group_norm_backward."""
    return _backward_jvp(_groups(N, C, HxW, group), grad, grad_t, x, x_t, weight, weight_t, mean, rstd, mask)


def _directions(v, norms, dim):
    """Return v / |v|, |v| over all dimensions but `dim`, and those dimensions; as functions of v where they are
    differentiated again, since the saved norms have no history."""
    others = tuple([d for d in range(v.dim()) if d != dim % v.dim()])
    norms = ops.linalg_vector_norm(v, 2, others, True) if is_differentiated(v) else norms
    return v / norms, norms, others


def weight_norm_backward(grad, grad_norms, v, g, norms, dim):
    """Return the gradients of w = g u with u = v / n and n = |v|: with s = sum(grad u) over all dimensions but `dim`,
    (g / n) (grad - u s) + grad_norms u for v, and s for g."""
    u, norms, others = _directions(v, norms, dim)
    of_norms = 0 if grad_norms is None else grad_norms * u
    if grad is None:
        return of_norms, None
    s = ops.sum(grad * u, others, True)
    return g / norms * (grad - u * s) + of_norms, s


def weight_norm_jvp(v, v_t, g, g_t, norms, dim):
    """Return the tangents of w = g u with u = v / n and n = |v|: g (v' - u n') / n + g' u, and n' = sum(u v')."""
    u, norms, others = _directions(v, norms, dim)
    of_norms = ops.sum(u * v_t, others, True)
    return g * ((v_t - u * of_norms) / norms) + g_t * u, of_norms
