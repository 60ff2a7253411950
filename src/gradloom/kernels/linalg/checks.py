"""PyTorch's checks of matrices, the layout of its results, and LAPACK's routines for one matrix."""

from __future__ import annotations

import numpy as np

from .._common.errors import not_implemented, type_name
from .._common.numbers import is_half


def require_matrices(name, array, argument="A"):
    """Raise RuntimeError unless an array has two dimensions or more."""
    if array.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor {argument} must have at least 2 dimensions.")


def require_square(name, array, argument="A"):
    """Raise RuntimeError unless an array is a batch of square matrices."""
    require_matrices(name, array, argument)
    rows, columns = array.shape[-2:]
    if rows != columns:
        raise RuntimeError(
            f"{name}: {argument} must be batches of square matrices, but they are {rows} by {columns} matrices"
        )


def require_floating(name, array):
    """Raise RuntimeError for integers and bools."""
    if array.dtype.kind not in "fcV":
        raise NotImplementedError(
            f"{name}: Expected a floating point or complex tensor as input. Got {type_name(array.dtype)}"
        )


def require_precise(name, array):
    """Raise RuntimeError for integers, bools and 16-bit floats."""
    require_floating(name, array)
    if is_half(array.dtype):
        raise NotImplementedError(f"{name}: Low precision dtypes not supported. Got {type_name(array.dtype)}")


def require_lapack(name, array):
    """Raise NotImplementedError for a dtype that LAPACK lacks; `name` is that of PyTorch's kernel."""
    if array.dtype.kind not in "fc" or is_half(array.dtype):
        raise not_implemented(name, array)


def columns(array):
    """Return a batch of matrices with each stored column after column, as LAPACK does; a copy unless it is already."""
    return np.swapaxes(np.ascontiguousarray(np.swapaxes(array, -1, -2)), -1, -2)


def failed_element(bad):
    """Return the first matrix of a batch with a bad value, as words that start a message; "" without a batch."""
    if bad.ndim == 2:
        return ""
    return f"(Batch element {int(bad.any((-2, -1)).reshape(-1).argmax())}): "


def adjoint_of(A):
    """Return the conjugate transposes of a batch of matrices."""
    return np.swapaxes(A, -1, -2).conj()


def matrices_of(array, core=2):
    """Return a batch of matrices, or of vectors for core = 1, as one list."""
    return array.reshape(int(np.prod(array.shape[: array.ndim - core])), *array.shape[array.ndim - core :])


def lapack(name, *arrays):
    """Return SciPy's function for a routine of LAPACK in the dtype of the arrays."""
    from scipy.linalg import lapack as routines

    return routines.get_lapack_funcs(name, arrays)
