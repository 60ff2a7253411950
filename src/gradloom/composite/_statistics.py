"""Covariances and numerical gradients, made of other operators."""

from __future__ import annotations

import warnings

from ..dispatch import _operators as ops
from ..kernels._dims import wrap_dim, wrap_dims
from ..types.dtype import default, int64, scalar_type_name


def cov(self, correction, fweights, aweights):
    """The covariances of variables: a matrix, or a number for a single variable.

    Args:
        self: (variables, observations), or the observations of one variable.
        correction: subtracted from the number of observations.
        fweights: (observations,) integers: how often each was made.
        aweights: (observations,) floating: how much each counts.

    Raises:
        RuntimeError: for bools, more dimensions, or weights that do not fit or are negative.
    """
    if self.dim() > 2:
        raise RuntimeError(
            f"cov(): expected input to have two or fewer dimensions but got an input with {self.dim()} dimensions"
        )
    if self._array.dtype.kind == "b":
        raise RuntimeError("cov(): bool dtype is not supported for input")
    x = self if self.dim() == 2 else ops.view(self, (1, -1))
    if x._array.dtype.kind in "iu":
        x = x.to(default.float)
    n = x.size(1)
    _check_weights("fweights", fweights, n, "iu", "integral")
    _check_weights("aweights", aweights, n, "fV", "floating point")
    weights = fweights if aweights is None else aweights if fweights is None else fweights * aweights
    whole = ops.scalar_tensor(n, dtype=int64) if weights is None else ops.sum(weights)
    if weights is not None and float(whole.detach()) == 0:
        raise ZeroDivisionError("cov(): weights sum to zero, can't be normalized")
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
    if n and weights._array.min() < 0:
        raise RuntimeError(f"cov(): {name} cannot be negative")


def _positive(free):
    if free <= 0:
        warnings.warn(
            "cov(): degrees of freedom is <= 0. Correction should be strictly less than the number of observations.",
            UserWarning,
            stacklevel=5,
        )
        return ops.clamp_min(free, 0)
    return free


def corrcoef(self):
    """The correlation coefficients of variables: covariances divided by both standard deviations.

    Args:
        self: (variables, observations), or the observations of one variable.
    """
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


def gradient(self, spacing, dim, edge_order):
    """The derivatives of sampled values along dimensions, by second-order differences.

    Args:
        spacing: the distance of two samples: a number, or one for each dimension, or their coordinates, a 1-dim
            Tensor for each; None is 1.
        dim: int, several, or None for all.
        edge_order: 1 or 2, the order of the differences at the boundaries.

    Returns:
        A tuple with a Tensor of the shape of `self` for each dimension.

    Raises:
        RuntimeError: if the number of spacings differs from that of the dimensions, or a dimension is too short.
    """
    ndim = self.dim()
    told = dim is not None
    dims = tuple(range(ndim)) if not told else (wrap_dim(dim, ndim),) if isinstance(dim, int) else wrap_dims(dim, ndim)
    if isinstance(spacing, (tuple, list)):
        if len(spacing) != len(dims):
            what = "'dim'" if told else "'self.dim()"
            why = "" if told else ", since dim argument was not given"
            raise RuntimeError(
                "torch.gradient expected spacing to be unspecified, a scalar, or a list of length equal "
                f"to {what} = {len(dims)}'{why}, but got a list of length {len(spacing)}"
            )
    else:
        spacing = (1.0 if spacing is None else spacing,) * len(dims)
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    if any(self.size(d) < edge_order + 1 for d in dims):
        raise RuntimeError("torch.gradient expected each dimension size to be at least edge_order+1")
    for s in spacing:
        if isinstance(s, ops.Tensor) and s.dim() != 1:
            raise RuntimeError(
                "torch.gradient expected each element of spacing to have one dimension, but got an "
                f"element with {s.dim()} dimensions!"
            )
    x = self if self._array.dtype.kind in "fcV" else self.to(default.float)
    return tuple([_gradient_along(x, s, d, edge_order) for s, d in zip(spacing, dims, strict=True)])


def gradient_along(self, dim, edge_order):
    """The derivatives of values sampled at distance 1."""
    return gradient(self, None, dim, edge_order)


def _gradient_along(x, spacing, dim, edge_order):
    """The derivative along one dimension: inside, at the first point and at the last one. (Nodes are made in PyTorch's
    order, which decides in which order gradients are added up: what stands last is made first.)"""

    def at(start, length):
        """`length` points from a start on, which counts from the end if it is negative; -2: all but two."""
        return ops.slice(x, dim, start, start + length or None, 1)

    n = x.size(dim)
    first, last = range(edge_order + 1), range(-edge_order - 1, 0)
    if isinstance(spacing, ops.Tensor):
        gaps = ops.diff(spacing)
        if gaps._array.dtype.kind in "iub":
            gaps = gaps.to(x.dtype)
        shape = [1] * x.dim()
        shape[dim] = n - 2
        before, after = (ops.reshape(ops.narrow(gaps, 0, i, n - 2), shape) for i in (0, 1))
        middle = _between_points(at, range(3), (before, after), 1, -2)
        start = _between_points(at, first, [gaps[i] for i in range(edge_order)], 0)
        end = _between_points(at, last, [gaps[i] for i in range(-edge_order, 0)], 2)
    else:
        low, high = at(0, -2), at(2, -2)
        middle = ops.div_Scalar(high - low, spacing)
        start, end = (ops.div_Scalar(_difference(at, places), spacing) for places in (first, last))
        middle = ops.div_Scalar(middle, 2)
    return ops.cat((start, middle, end), dim)


def _difference(at, places):
    """The derivative at an end of two points at distance 1, or of three, exact for a parabola."""
    if len(places) == 2:
        low, high = (at(i, 1) for i in places)
        return high - low
    at_start = places[0] == 0
    factors = (0.5, 2, -1.5) if at_start else (1.5, 2, 0.5)
    high, mid, low = (ops.mul_Scalar(at(i, 1), f) for i, f in zip(places[::-1], factors, strict=True))
    return low + mid - high if at_start else low - mid + high


def _between_points(at, places, gaps, place, length=1):
    """The derivative at one of two or three points, with the gaps between them; of three, exact for a parabola."""
    if len(places) == 2:
        low, high = (at(i, 1) for i in places)
        return (high - low) / gaps[0]
    near, far = gaps
    both = near + far
    if place == 0:
        factors = -(near + both) / (near * both), both / (near * far), -near / (far * both)
    elif place == 1:
        factors = -far / (near * both), (far - near) / (near * far), near / (far * both)
    else:
        factors = far / (near * both), -both / (near * far), (far + both) / (far * both)
    high, mid, low = [f * at(i, length) for f, i in zip(factors[::-1], places[::-1], strict=True)]
    return low + mid + high
