"""First-order linear recurrences along a dimension, by differentiable operators.

Derivatives of running products and running logsumexps are recurrences y[k] = term[k] + factor[k] * y[k - 1], which
neither divide by an element that may be zero nor leave the range of floating-point numbers. They are associative, so
doubling the stride solves them in log2(n) steps (Hillis and Steele 1986, "Data parallel algorithms").
"""

from __future__ import annotations

from ..dispatch import _operators as ops


def recurrence(factor, term, dim):
    """y with y[k] = term[k] + factor[k] * y[k - 1] along `dim`; factor[0] is not used.

    Args:
        factor, term: Tensors of one shape.
    """
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


def reversed_recurrence(factor, term, dim):
    """y with y[k] = term[k] + factor[k] * y[k + 1] along `dim`; the last factor is not used."""
    return ops.flip(recurrence(ops.flip(factor, (dim,)), ops.flip(term, (dim,)), dim), (dim,))


def padded(x, dim, value, front):
    """`x` with one more element, the number `value`, in front or at the end of `dim`."""
    edge = ops.full_like(ops.narrow(x, dim, 0, 1), value)
    return ops.cat((edge, x) if front else (x, edge), dim)
