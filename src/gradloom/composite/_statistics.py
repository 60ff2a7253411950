"""Covariances and numerical gradients, made of other operators."""

from __future__ import annotations

import warnings

from .. import _operators as ops
from ..dtype import default, scalar_type_name
from ..kernels._dims import wrap_dim, wrap_dims


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
        raise RuntimeError("cov(): expected input to have two or fewer dimensions but got an input with "
                           f"{self.dim()} dimensions")
    if self._array.dtype.kind == "b":
        raise RuntimeError("cov(): bool dtype is not supported for input")
    x = self if self.dim() == 2 else ops.reshape(self, (1, -1))
    if x._array.dtype.kind in "iu":
        x = x.to(default.float)
    n = x.size(1)
    _check_weights("fweights", fweights, n, "iu", "integral")
    _check_weights("aweights", aweights, n, "fV", "floating point")
    weights = fweights if aweights is None else aweights if fweights is None else fweights * aweights
    if weights is None:
        spread = x - ops.mean(x, 1, True)
        free, left = n - correction, spread
    else:
        whole = weights.sum()
        if float(whole.detach()) == 0:
            raise ZeroDivisionError("cov(): weights sum to zero, can't be normalized")
        spread = x - ops.sum(x * weights, 1, True) / whole
        free = whole - correction
        if aweights is not None and correction:
            free = whole - correction * (weights * aweights).sum() / whole
        left = spread * weights
    found = ops.matmul(left, spread.mH) / _positive(free)
    return found if self.dim() == 2 and x.size(0) != 1 else ops.squeeze(found)


def _check_weights(name, weights, n, kinds, what):
    if weights is None:
        return
    if weights.dim() > 1:
        raise RuntimeError(f"cov(): expected {name} to have one or fewer dimensions but got {name} with "
                           f"{weights.dim()} dimensions")
    if weights._array.dtype.kind not in kinds:
        raise RuntimeError(f"cov(): expected {name} to have {what} dtype but got {name} with "
                           f"{scalar_type_name(weights.dtype)} dtype")
    if weights.numel() != n:
        raise RuntimeError(f"cov(): expected {name} to have the same numel as there are observations in the input but "
                           f"got {weights.numel()} != {n}")
    if n and weights._array.min() < 0:
        raise RuntimeError(f"cov(): {name} cannot be negative")


def _positive(free):
    if free <= 0:
        warnings.warn("cov(): degrees of freedom is <= 0. Correction should be strictly less than the number of "
                      "observations.", UserWarning, stacklevel=5)
        return ops.clamp_min(free, 0) if isinstance(free, ops.Tensor) else 0
    return free


def corrcoef(self):
    """The correlation coefficients of variables: covariances divided by both standard deviations.

    Args:
        self: (variables, observations), or the observations of one variable.
    """
    if self.dim() > 2:
        raise RuntimeError("corrcoef(): expected input to have two or fewer dimensions but got an input with "
                           f"{self.dim()} dimensions")
    found = cov(self, 1, None, None)
    if not found.dim():
        return found / found
    variances = ops.diagonal(found)
    deviations = ops.sqrt(ops.real(variances) if found.is_complex() else variances)
    found = found / ops.unsqueeze(deviations, 1) / ops.unsqueeze(deviations, 0)
    if found.is_complex():
        return ops.complex(ops.clamp(ops.real(found), -1, 1), ops.clamp(ops.imag(found), -1, 1))
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
            raise RuntimeError("torch.gradient expected spacing to be unspecified, a scalar, or a list of length equal "
                               f"to {what} = {len(dims)}'{why}, but got a list of length {len(spacing)}")
    else:
        spacing = (1 if spacing is None else spacing,) * len(dims)
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    if any(self.size(d) < edge_order + 1 for d in dims):
        raise RuntimeError("torch.gradient expected each dimension size to be at least edge_order+1")
    for s in spacing:
        if isinstance(s, ops.Tensor) and s.dim() != 1:
            raise RuntimeError("torch.gradient expected each element of spacing to have one dimension, but got an "
                               f"element with {s.dim()} dimensions!")
    x = self if self._array.dtype.kind in "fcV" else self.to(default.float)
    return tuple([_gradient_along(x, s, d, edge_order) for s, d in zip(spacing, dims, strict=True)])


def gradient_along(self, dim, edge_order):
    """The derivatives of values sampled at distance 1."""
    return gradient(self, None, dim, edge_order)


def _gradient_along(x, spacing, dim, edge_order):
    n = x.size(dim)

    def at(start, length=1):
        return ops.narrow(x, dim, start, length)

    if isinstance(spacing, ops.Tensor):
        h = ops.diff(spacing)
        if h.dtype is not x.dtype and h._array.dtype.kind in "iub":
            h = h.to(x.dtype)
    else:
        h = None
    parts = [_edge(at(0), at(1), at(2) if edge_order == 2 else None, h, 0, 1, spacing)]
    if n > 2:
        low, mid, high = at(0, n - 2), at(1, n - 2), at(2, n - 2)
        if h is None:
            parts.append((high - low) / (2 * spacing))
        else:
            shape = [1] * x.dim()
            shape[dim] = n - 2
            before, after = (ops.reshape(ops.narrow(h, 0, i, n - 2), shape) for i in (0, 1))
            parts.append(_three_points(low, mid, high, before, after))
    last = _edge(at(n - 1), at(n - 2), at(n - 3) if edge_order == 2 else None, h, -1, -2, spacing)
    return ops.cat((*parts, -last), dim)


def _three_points(low, mid, high, before, after):
    """The derivative at the middle of three points at distances `before` and `after`, exact for a parabola."""
    both = before + after
    return (high * (before / (after * both)) - low * (after / (before * both))
            + mid * ((after - before) / (before * after)))


def _edge(end, second, third, h, first_gap, second_gap, spacing):
    """The derivative at an end, into the inside, from two points or (exact for a parabola) three."""
    near = spacing if h is None else ops.select(h, 0, first_gap)
    if third is None:
        return (second - end) / near
    far = spacing if h is None else ops.select(h, 0, second_gap)
    both = near + far
    return (second * (both / (near * far)) - third * (near / (far * both)) - end * ((both + near) / (near * both)))
