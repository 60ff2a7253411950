"""Composites of neighbouring elements: differences, trapezoidal sums, numerical gradients."""

from __future__ import annotations

from ...dispatch import _operators as ops
from ...kernels._common.dims import wrap_dim, wrap_dims


def gradient(self, spacing, dim, edge_order):
    """Return the derivatives of sampled values along dimensions, by second-order differences. Returns a tuple with a
    Tensor of the shape of `self` for each dimension.

    Args:
        spacing: the distance between samples: a number, a number per dimension, or the coordinates, a 1-dim Tensor per
            dimension; None stands for 1.
        dim: int, several, or None for all.
        edge_order: 1 or 2, the order of the differences at the boundaries.
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
    if self._array.dtype == "uint8":
        raise NotImplementedError("torch.gradient does not support uint8 input.")
    return tuple([_gradient_along(self, s, d, edge_order) for s, d in zip(spacing, dims, strict=True)])


def gradient_along(self, dim, edge_order):
    """Return the derivatives of values sampled at distance 1."""
    return gradient(self, None, dim, edge_order)


def _gradient_along(x, spacing, dim, edge_order):
    """Return the derivative along one dimension: inside, at the first point and at the last one. (Nodes are made in
    PyTorch's order, which determines the order in which gradients are added: the last is made first.)"""

    def at(start, length):
        """Return `length` points from `start`, which counts from the end if negative; -2 stands for all but two."""
        return ops.slice(x, dim, start, start + length or None, 1)

    n = x.size(dim)
    first, last = range(edge_order + 1), range(-edge_order - 1, 0)
    if isinstance(spacing, ops.Tensor):
        gaps = ops.diff(spacing)
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
    """Return the derivative at an end from two points at distance 1, or from three, which is exact for a parabola."""
    if len(places) == 2:
        low, high = (at(i, 1) for i in places)
        return high - low
    at_start = places[0] == 0
    factors = (0.5, 2, -1.5) if at_start else (1.5, 2, 0.5)
    high, mid, low = (ops.mul_Scalar(at(i, 1), f) for i, f in zip(places[::-1], factors, strict=True))
    return low + mid - high if at_start else low - mid + high


def _between_points(at, places, gaps, place, length=1):
    """Return the derivative at one of two or three points with these gaps; from three it is exact for a parabola."""
    if len(places) == 2:
        low, high = (at(i, 1) for i in places)
        return (high - low) / gaps[0]
    near, far = gaps
    first, middle, last = (at(i, length) for i in places)
    left, right = (middle - first) / near, (last - middle) / far
    bend = (right - left) / (near + far)  # half of the second derivative
    return left - near * bend if place == 0 else left + near * bend if place == 1 else right + far * bend


def diff(self, n, dim, prepend, append):
    """Return the n-th differences of neighbours along `dim`, after joining `prepend` and `append` to the ends."""
    if not self.dim():
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    for end in (prepend, append):
        if end is not None and end.dim() != self.dim():
            raise RuntimeError("diff expects prepend or append to be the same dimension as input")
        for d, (ours, theirs) in enumerate(zip(self.shape, () if end is None else end.shape, strict=False)):
            if ours != theirs and d != wrap_dim(dim, self.dim()):
                raise RuntimeError(
                    "diff expects the shape of tensor to prepend or append to match that of input except along the "
                    f"differencing dimension; input.size({d}) = {ours}, but got tensor.size({d}) = {theirs}"
                )
    if not n:
        return ops.copy_(ops.zeros_like(self), self)
    parts = [x for x in (prepend, self, append) if x is not None]
    x = ops.cat(parts, dim) if len(parts) > 1 else self
    for _ in range(min(n, x.size(dim))):
        late, early = _neighbours(x, dim)
        x = ops.logical_xor(late, early) if x._array.dtype.kind == "b" else late - early
    return x


def _neighbours(x, dim):
    n = max(x.size(dim) - 1, 0)
    early = ops.narrow(x, dim, 0, n)
    return ops.narrow(x, dim, min(1, x.size(dim)), n), early


def trapezoid_dx(y, dx, dim):
    """Return the integral along a dimension by the trapezoidal rule, for a spacing `dx`."""
    if not y.size(dim):
        return ops.sum(y, dim, dtype=y.dtype)
    _refuse_bools("trapezoid", y)
    last = ops.select(y, dim, -1)
    ends = ops.select(y, dim, 0) + last
    half = ops.mul_Scalar(ends, 0.5)
    return ops.mul_Scalar(ops.sum(y, dim) - half, float(dx))


def trapezoid_x(y, x, dim):
    """Return the integral along a dimension by the trapezoidal rule, at the points `x`."""
    if not y.size(dim):
        return ops.sum(y, dim, dtype=y.dtype)
    _refuse_bools("trapezoid", y, x)
    dim = wrap_dim(dim, y.dim())
    spacing = _spacing(y, x, dim)
    return ops.div_Scalar(ops.sum(_pairs(y, dim) * spacing, dim), 2.0)


def cumulative_trapezoid_dx(y, dx, dim):
    """Return the integral up to each point except the first, for a spacing `dx`."""
    _refuse_bools("cumulative_trapezoid", y)
    if not y.size(dim):
        return y
    return ops.cumsum(ops.mul_Scalar(_pairs(y, dim), dx / 2), dim)


def cumulative_trapezoid_x(y, x, dim):
    """Return the integral up to each point except the first, at the points `x`."""
    _refuse_bools("cumulative_trapezoid", y, x)
    if not y.size(dim):
        return y
    dim = wrap_dim(dim, y.dim())
    spacing = _spacing(y, x, dim)
    return ops.div_Scalar(ops.cumsum(_pairs(y, dim) * spacing, dim), 2.0)


def _refuse_bools(name, y, x=None):
    if "b" in (y._array.dtype.kind, y._array.dtype.kind if x is None else x._array.dtype.kind):
        which = "`y`" if x is None else "`x` or `y`"
        raise NotImplementedError(f"{name}: received a bool input for {which}, but bool is not supported")


def _pairs(y, dim):
    """Return the sums of neighbours."""
    return ops.slice(y, dim, 0, -1, 1) + ops.slice(y, dim, 1, None, 1)


def _spacing(y, x, dim):
    """Return the distances of neighbouring points, which broadcast against those of `y`."""
    if x.dim() == 1:
        if x.size(0) != y.size(dim):
            raise RuntimeError("trapezoid: There must be one `x` value for each sample point")
        shape = [1] * y.dim()
        shape[dim] = x.size(0)
        x = ops.view(x, shape)
    elif x.dim() < y.dim():
        x = ops.view(x, (*(1,) * (y.dim() - x.dim()), *x.shape))
    early = ops.slice(x, dim, 0, -1, 1)
    return ops.slice(x, dim, 1, None, 1) - early
