"""Derivative helpers of products of matrices."""

from __future__ import annotations

from .. import _operators as ops
from .elementwise import maybe_multiply


def adjoint_of_matrix(matrix):
    """The conjugate transpose of a matrix."""
    return matrix.t().conj()


def batch_adjoint(batch):
    """The conjugate transposes of the matrices in a batch (b, n, m)."""
    return batch.transpose(1, 2).conj()


def column_times_row(column, row):
    """The matrix of all products column[i] * row[j]."""
    return ops.outer(column, row)


def mm_mat1_backward(grad, mat2, sizes, strides, alpha):
    """The gradient of alpha * (mat1 @ mat2) for mat1: conj(alpha) * grad @ mat2^H.

    It is computed transposed if mat1 is a transposed matrix, so that the gradient has mat1's layout. The gradient of a
    weight that a linear layer transposed gets into the weight's own layout in this way.
    """
    if is_transposed(sizes, strides):
        found = mat2.conj().mm(grad.t()).t()
    else:
        found = grad.mm(mat2.t().conj())
    return maybe_multiply(found, alpha.conjugate())


def mm_mat2_backward(grad, mat1, sizes, strides, alpha):
    """The gradient of alpha * (mat1 @ mat2) for mat2: conj(alpha) * mat1^H @ grad, in mat2's layout."""
    if is_transposed(sizes, strides):
        found = grad.t().mm(mat1.conj()).t()
    else:
        found = mat1.t().conj().mm(grad)
    return maybe_multiply(found, alpha.conjugate())


def is_transposed(sizes, strides) -> bool:
    """Whether a matrix with these sizes and strides is a contiguous one, transposed."""
    return strides[0] == 1 and strides[1] == sizes[0]
