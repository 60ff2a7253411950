"""Composites of statistics: variances, norms, distances, quantiles, covariances, histograms."""

from __future__ import annotations

from math import prod

from numpy import broadcast_shapes

from ...core.tangents import is_differentiated
from ...dispatch import _operators as ops
from ...kernels._common.dims import wrap_dim
from ...kernels._common.errors import refusal
from ...kernels.reduction.counting import histogramdd as counts_in_grid, histogramdd_edges
from ...return_types import result_class
from ...types.dtype import bool as bool_, default, int64, scalar_type_name
from ...types.silence import warn_user


def var(self, unbiased):
    """Return the variance of all elements."""
    return ops.var_correction(self, None, int(unbiased), False)


def var_dim(self, dim, unbiased, keepdim):
    """Return the variance over dimensions."""
    return ops.var_correction(self, dim, int(unbiased), keepdim)


def std(self, unbiased):
    """Return the standard deviation of all elements."""
    return ops.std_correction(self, None, int(unbiased), False)


def std_dim(self, dim, unbiased, keepdim):
    """Return the standard deviation over dimensions."""
    return ops.std_correction(self, dim, int(unbiased), keepdim)


def var_mean(self, unbiased):
    """Return the variance and the mean of all elements."""
    return ops.var_mean_correction(self, None, int(unbiased), False)


def var_mean_dim(self, dim, unbiased, keepdim):
    """Return the variance and the mean over dimensions."""
    return ops.var_mean_correction(self, dim, int(unbiased), keepdim)


def std_mean(self, unbiased):
    """Return the standard deviation and the mean of all elements."""
    return ops.std_mean_correction(self, None, int(unbiased), False)


def std_mean_dim(self, dim, unbiased, keepdim):
    """Return the standard deviation and the mean over dimensions."""
    return ops.std_mean_correction(self, dim, int(unbiased), keepdim)


def nanmean(self, dim, keepdim, dtype):
    """Return the mean of the elements that are not NaN."""
    if not self.is_floating_point():
        if self.is_complex():
            raise NotImplementedError("nansum on CPU does not support complex inputs")
        raise NotImplementedError(
            f"nanmean(): expected input to have floating point or complex dtype but got {scalar_type_name(self.dtype)}"
        )
    count = ops.sum(ops.logical_not(ops.isnan(self.detach())), dim, keepdim)
    return ops.nansum(self, dim, keepdim, dtype=dtype) / count


def frobenius_norm(self, dim, keepdim):
    """Return the 2-norm over one or two dimensions, all for ()."""
    if len(dim) > 2:
        raise RuntimeError(f"Expected at most 2 dimensions, but got {len(dim)} dimensions instead.")
    return ops.linalg_vector_norm(self, 2, dim, keepdim)


def special_logsumexp(self, dim, keepdim):
    """Compute `logsumexp`; its name in the special namespace."""
    return ops.logsumexp(self, dim, keepdim)


def cdist(x1, x2, p, compute_mode):
    """Return the p-norm distance of each row of `x1` to each row of `x2`, for each matrix of two batches that
    broadcast. Returns (..., P, R).

    Args:
        x1, x2: (..., P, M) and (..., R, M), floating.
        compute_mode: 0 or None: PyTorch's choice; 1: by a matrix product if p is 2; 2: never.
    """
    for number, x in enumerate((x1, x2), 1):
        if x.dim() < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, X{number} got: {x.dim()}D")
    if x1.size(-1) != x2.size(-1):
        raise RuntimeError(f"X1 and X2 must have the same number of columns. X1: {x1.size(-1)} X2: {x2.size(-1)}")
    for number, x in enumerate((x1, x2), 1):
        if not x.is_floating_point():
            raise RuntimeError(f"cdist only supports floating-point dtypes, X{number} got: {scalar_type_name(x.dtype)}")
    if p < 0:
        raise RuntimeError("cdist only supports non-negative p values")
    if compute_mode not in (None, 0, 1, 2):
        raise RuntimeError(f"possible modes: 0, 1, 2, but was: {compute_mode}")
    rows, columns = x1.size(-2), x2.size(-2)
    many = compute_mode == 1 or compute_mode != 2 and max(rows, columns) > _PRODUCT_FROM
    if p == 2 and many and x1.numel() and x2.numel():
        return _euclidean(x1, x2)
    return ops._cdist_forward(x1, x2, p, compute_mode)


def pdist(self, p):
    """Return the p-norm distances of all pairs of rows i < j of a matrix: (0, 1), (0, 2), ..., (1, 2), ..."""
    if self.dim() != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {self.dim()}D")
    if not self.is_floating_point():
        raise RuntimeError("pdist only supports floating-point dtypes")
    if not p >= 0:
        raise RuntimeError("pdist only supports non-negative p values")
    return ops._pdist_forward(self, p)


_PRODUCT_FROM = 25  # rows; PyTorch's bound


def _euclidean(x1, x2):
    """Return the distances of the rows of two batches that broadcast, by a matrix product."""
    batch = broadcast_shapes(x1._array.shape[:-2], x2._array.shape[:-2])
    shape = (*batch, x1.size(-2), x2.size(-2))
    if prod(batch) > 1:
        x1, x2 = [
            ops.view(ops.contiguous(ops.expand(x, (*batch, *x._array.shape[-2:]))), (-1, *x._array.shape[-2:]))
            for x in (x1, x2)
        ]
    return ops.view(ops._euclidean_dist(x1, x2), shape)


_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def quantile(self, q, dim, keepdim, interpolation):
    """Return the q-quantiles of all elements or along a dimension; NaN if an element is NaN.

    Args:
        q: float, or a Tensor of 0 or 1 dimensions, whose size becomes the first dimension of the result.
        interpolation: linear, lower, higher, midpoint or nearest, for a quantile that lies between two elements.
    """
    return _quantile(self, q, dim, keepdim, interpolation, False)


def nanquantile(self, q, dim, keepdim, interpolation):
    """Return the q-quantiles of the elements that are not NaN."""
    return _quantile(self, q, dim, keepdim, interpolation, True)


def _quantile(self, q, dim, keepdim, interpolation, ignore_nan):
    is_tensor = isinstance(q, ops.Tensor)
    _check_quantile(self, q, interpolation, is_tensor)
    points = q if is_tensor else ops.full((), q, dtype=self.dtype, device=self.device)
    ndim, shape = self.dim(), list(self.shape)
    if dim is None:
        rows, kept = ops.flatten(self), [1] * ndim if keepdim else []
    else:
        dim = wrap_dim(dim, ndim)
        rows = self if dim == ndim - 1 else ops.transpose(ops.unsqueeze(self, -1), dim, -1)
        kept = shape[:dim] + [1] * keepdim + shape[dim + 1 :] if ndim else []
    rows = ops.sort(rows, -1)[0]
    rows = ops.view(rows, (*kept, rows.size(-1)))
    found = _between(rows, _ranks(rows.detach(), points, ignore_nan), interpolation)
    if points.dim():
        found = ops.transpose_(ops.unsqueeze_(found, 0), 0, -1)
    return ops.squeeze_(found, -1)


def _ranks(rows, points, ignore_nan):
    """Return the positions of the quantiles among the sorted elements of each row; they need not be integers."""
    nan = ops.isnan(rows)
    if ignore_nan:
        ranks = points * ops.sub_Scalar(ops.sum(ops.logical_not(nan), -1, True), 1, 1)
        return ops.masked_fill_(ranks, ranks.detach() < 0, 0)
    last = rows.size(-1) - 1
    ranks, has_nan = ops.broadcast_tensors((ops.mul_Scalar(points, last), ops.any(nan, -1, True)))
    return ops.masked_fill(ranks, has_nan, last)


def _between(rows, rank, interpolation):
    """Return the elements of sorted rows at ranks that need not be integers, by interpolation."""
    if interpolation == "lower":
        rank = ops.floor_(rank)
    elif interpolation == "higher":
        rank = ops.ceil_(rank)
    elif interpolation == "nearest":
        rank = ops.round_(rank)
    below = rank.detach().to(int64)
    low = ops.gather(rows, -1, below)
    if interpolation not in ("linear", "midpoint"):
        return low
    weight = ops.full_like(rank, 0.5) if interpolation == "midpoint" else rank - below
    high = ops.gather(rows, -1, ops.ceil(rank.detach()).to(int64))
    return ops.lerp_(low, high, weight)


def _check_quantile(self, q, interpolation, is_tensor):
    if not self.numel():
        raise RuntimeError("quantile() input tensor must be non-empty")
    if self._array.dtype.char not in "fd":
        raise RuntimeError("quantile() input tensor must be either float or double dtype")
    if is_tensor:
        if q.dim() > 1:
            raise RuntimeError("quantile() q must be a scalar or 1D tensor")
        if q.dtype is not self.dtype:
            raise RuntimeError("quantile() q tensor must be same dtype as the input tensor")
        if not q.is_meta and not ((q._array >= 0) & (q._array <= 1)).all():
            raise RuntimeError("quantile() q values must be in the range [0, 1]")
    elif not 0 <= q <= 1:
        raise RuntimeError(f"quantile() q must be in the range [0, 1] but got {q:g}")
    if interpolation not in _INTERPOLATIONS:
        raise RuntimeError(
            "quantile() interpolation must be one of linear, lower, higher, midpoint or nearest, but "
            f"got {interpolation}"
        )


_HISTOGRAMDD = result_class("histogramdd", ("hist", "bin_edges"))


def histogramdd(self, bins, range, weight, density):
    """Return the weights of the rows of a tensor in each cell of a grid, and the edges of its bins.

    Args:
        self: (..., columns), floating.
        bins: the number of bins: for each column, or one for all.
        range: the least and the greatest edge for each column in turn.
        weight: the shape of `self` without its last dimension.
        density: divide by the sum of the weights and by the volume of the cell.

    Returns:
        hist: a dimension for each column; bin_edges: a tuple with a 1-dim Tensor for each column.
    """
    _check_data(self)
    try:
        edges = histogramdd_edges(self._array, (bins,) * self.size(-1) if isinstance(bins, int) else bins, range)
    except MemoryError as error:
        raise refusal(error, "histogramdd") from None
    return _histogram_over(self, edges, weight, density)


def histogramdd_of_bins(self, bins, range, weight, density):
    """Compute `histogramdd` with the edges of the bins of each column."""
    _check_data(self)
    return _histogram_over(self, [b._array for b in bins], weight, density, tuple(bins))


def _check_data(self):
    if self.is_meta:
        raise NotImplementedError(
            "aten::_histogramdd_bin_edges: attempted to run this operator with Meta tensors, but there was no fake "
            "impl or Meta kernel registered. Its result depends on values, and a meta tensor has none."
        )


def _histogram_over(self, edges, weight, density, given=None):
    try:
        found = counts_in_grid(self._array, edges, None if weight is None else weight._array, density)
    except MemoryError as error:
        raise refusal(error, "histogramdd") from None
    return _HISTOGRAMDD((ops.wrap(found), given or tuple([ops.wrap(e) for e in edges])))


def cov(self, correction, fweights, aweights):
    """Return the covariances of variables: a matrix, or a number for a single variable.

    Args:
        self: (variables, observations), or the observations of one variable.
        correction: subtracted from the number of observations.
        fweights: (observations,) integers: the frequency of each.
        aweights: (observations,) floating: the weight of each.
    """
    if self.dim() > 2:
        raise RuntimeError(
            f"cov(): expected input to have two or fewer dimensions but got an input with {self.dim()} dimensions"
        )
    if self._array.dtype.kind == "b":
        raise NotImplementedError("cov(): bool dtype is not supported for input")
    x = self if self.dim() == 2 else ops.view(self, (1, -1))
    if x._array.dtype.kind in "iu":
        x = x.to(default.float)
    n = x.size(1)
    _check_weights("fweights", fweights, n, "iu", "integral")
    _check_weights("aweights", aweights, n, "fV", "floating point")
    weights = fweights if aweights is None else aweights if fweights is None else fweights * aweights
    whole = ops.scalar_tensor(n, dtype=int64) if weights is None else ops.sum(weights)
    if weights is not None and float(whole.detach()) == 0:
        raise RuntimeError("cov(): weights sum to zero, can't be normalized")
    mean = ops.sum(x if weights is None else x * weights, 1) / whole
    if not correction:
        free = whole
    elif aweights is None:
        free = ops.sub_Scalar(whole, correction, 1)
    else:
        free = whole - ops.mul_Scalar(ops.sum(weights * aweights), correction) / whole
    spread = x - ops.unsqueeze(mean, 1)
    found = ops.mm(spread, ops.conj(ops.t(spread if weights is None else spread * weights)))
    if found.is_complex() and x.size(0) == 1:  # a variance is real
        variance = ops.real(found)
        found = ops.complex(variance, ops.zeros_like(variance))
    return ops.squeeze(found / _positive(free))


def _check_weights(name, weights, n, kinds, what):
    if weights is None:
        return
    if weights.dim() > 1:
        raise RuntimeError(
            f"cov(): expected {name} to have one or fewer dimensions but got {name} with {weights.dim()} dimensions"
        )
    if weights._array.dtype.kind not in kinds:
        raise RuntimeError(
            f"cov(): expected {name} to have {what} dtype but got {name} with {scalar_type_name(weights.dtype)} dtype"
        )
    if weights.numel() != n:
        raise RuntimeError(
            f"cov(): expected {name} to have the same numel as there are observations in the input but "
            f"got {weights.numel()} != {n}"
        )
    if n and not weights.is_meta and not weights._array.min() >= 0:
        raise RuntimeError(f"cov(): {name} cannot be negative")


def _positive(free):
    if free <= 0:
        warn_user(
            "cov(): degrees of freedom is <= 0. Correction should be strictly less than the number of observations."
        )
        return ops.clamp_min(free, 0)
    return free


def corrcoef(self):
    """Return the correlation coefficients of variables: covariances divided by both standard deviations. `self` is
    (variables, observations), or the observations of one variable."""
    if self.dim() > 2:
        raise RuntimeError(
            f"corrcoef(): expected input to have two or fewer dimensions but got an input with {self.dim()} dimensions"
        )
    found = cov(self, 1, None, None)
    if not found.dim():
        return found / found
    variances = ops.diagonal(found)
    deviations = ops.sqrt(ops.real(variances) if found.is_complex() else variances)
    found = found / ops.view(deviations, (-1, 1)) / ops.view(deviations, (1, -1))
    if found.is_complex():
        imaginary = ops.clamp(ops.imag(found), -1, 1)
        return ops.complex(ops.clamp(ops.real(found), -1, 1), imaginary)
    return ops.clamp(found, -1, 1)


def powsum(self, ord, dim, keepdim, dtype):
    """Return the sum of |x|**ord over dimensions, all for None: a norm, before its root is taken."""
    x = self if dtype is None else self.to(dtype)
    if not (x.is_floating_point() or x.is_complex()):
        raise NotImplementedError(f"\"powsum_cpu\" not implemented for '{scalar_type_name(x.dtype)}'")
    if 0 < ord < 2 and is_differentiated(x):  # derivatives are 0 at 0, as those of the norms
        zero = x == 0
        powers = ops.masked_fill(ops.pow(ops.abs(ops.masked_fill(x, zero, 1)), ord), zero, 0)
    else:
        powers = ops.pow(ops.abs(x), ord)
    return powers.sum(dim, keepdim)


def is_all_true(self):
    """Return whether all elements of a bool tensor are True."""
    return ops.all(_of_bool(self))


def is_any_true(self):
    """Return whether an element of a bool tensor is True."""
    return ops.any(_of_bool(self))


def _of_bool(tensor):
    if tensor.dtype is not bool_:
        raise RuntimeError(f"expected a tensor of bool, got {scalar_type_name(tensor.dtype)}")
    return tensor


def cummaxmin_backward(grad, input, indices, dim):
    """Add each gradient at the element that its result was taken from."""
    if not input.numel():
        return ops.zeros_like(input)
    return ops.scatter_add(ops.zeros_like(input), dim, indices, grad)
