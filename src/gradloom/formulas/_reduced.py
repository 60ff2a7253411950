"""What derivatives of reductions do with the reduced dimensions."""

from __future__ import annotations

from ..dispatch import _operators as ops


def wrapped(dim, ndim):
    """The reduced dimensions counted from the front, in rising order: all for None and ()."""
    if dim is None or dim == ():
        return list(range(ndim))
    if dim.__class__ is int:
        dim = (dim,)
    return sorted([d % ndim for d in dim])


def restored(reduced, dim, keepdim, ndim):
    """A result with its reduced dimensions back, of size one; as it is, if all were reduced: it broadcasts."""
    if keepdim or not ndim or dim is None or dim == ():
        return reduced
    for d in wrapped(dim, ndim):
        reduced = ops.unsqueeze(reduced, d)
    return reduced


def count(sizes, dim):
    """How many elements go into one result."""
    found = 1
    if sizes:
        for d in wrapped(dim, len(sizes)):
            found *= sizes[d]
    return found


def real(tensor):
    return ops.real(tensor) if tensor.is_complex() else tensor


def dot(gradient, tangent, dim, keepdim):
    """sum Re(conj(gradient) * tangent) over the reduced dimensions."""
    product = real(gradient.conj() * tangent)
    return ops.sum(product, dim, keepdim) if product.dim() else product
