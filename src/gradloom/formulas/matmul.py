"""Derivative helpers of matrix products."""

from __future__ import annotations

from ..dispatch import _operators as ops
from .elementwise import maybe_multiply


def addbmm_batch1_backward(grad, count, rows, batch2, columns, alpha):
    """Return the gradient of alpha * sum(batch1[i] @ batch2[i]) for batch1: conj(alpha) * grad @ batch2[i]^H."""
    return maybe_multiply(_over_batch(grad, count, rows, columns).bmm(batch2.transpose(1, 2).conj()), alpha.conjugate())


def addbmm_batch2_backward(grad, count, rows, batch1, columns, alpha):
    """Return the gradient of the same for batch2: conj(alpha) * batch1[i]^H @ grad."""
    return maybe_multiply(batch1.transpose(1, 2).conj().bmm(_over_batch(grad, count, rows, columns)), alpha.conjugate())


def _over_batch(matrix, count, rows, columns):
    """Expand a matrix to a batch."""
    return matrix.unsqueeze(0).expand((count, rows, columns))


def mm_mat1_backward(grad, mat2, sizes, strides, alpha):
    """Return the gradient of alpha * (mat1 @ mat2) for mat1: conj(alpha) * grad @ mat2^H.

    It is computed transposed if mat1 is a transposed matrix, so that the gradient has mat1's layout. A linear layer
    transposes its weight; this gives the gradient the layout of the weight itself.
    """
    if is_transposed(sizes, strides):
        found = mat2.conj().mm(grad.t()).t()
    else:
        found = grad.mm(mat2.t().conj())
    return maybe_multiply(found, alpha.conjugate())


def mm_mat2_backward(grad, mat1, sizes, strides, alpha):
    """Return the gradient of alpha * (mat1 @ mat2) for mat2: conj(alpha) * mat1^H @ grad, in mat2's layout."""
    if is_transposed(sizes, strides):
        found = grad.t().mm(mat1.conj()).t()
    else:
        found = mat1.t().conj().mm(grad)
    return maybe_multiply(found, alpha.conjugate())


def is_transposed(sizes, strides) -> bool:
    """Return whether a matrix with these sizes and strides is a contiguous one, transposed."""
    return strides[0] == 1 and strides[1] == sizes[0]


def trilinear_backward(grad, i1, i2, i3, expand1, expand2, expand3, sumdim, mask):
    """Return the gradients of sum(i1 * i2 * i3) over `sumdim`.

    That of i1 is sum(grad * i2 * i3) over the dimensions that i1 lacks (expand1), where grad lacks `sumdim`; the others
    follow by symmetry, with conjugates of complex inputs. An input may be None if only its own gradient is requested.
    """
    i1, i2, i3 = (None if i is None else i.conj() for i in (i1, i2, i3))
    first = ops._trilinear(grad, i2, i3, sumdim, expand2, expand3, expand1) if mask[0] else None
    second = ops._trilinear(i1, grad, i3, expand1, sumdim, expand3, expand2) if mask[1] else None
    third = ops._trilinear(i1, i2, grad, expand1, expand2, sumdim, expand3) if mask[2] else None
    return first, second, third
