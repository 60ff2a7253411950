"""Complex operators made of others."""

from __future__ import annotations

from .. import _operators as ops


def conj(self):
    """The complex conjugate; a real tensor itself.

    PyTorch's is a view of the same memory that is conjugated when it is read. NumPy has no such arrays: here it is
    computed at once, with the same graph.
    """
    return ops._conj(self) if self._array.dtype.kind == "c" else self


def conj_physical(self):
    """The complex conjugate, computed at once; a real tensor itself."""
    return ops._conj_physical(self) if self._array.dtype.kind == "c" else self


def itself(self):
    """The tensor: conjugation and negation are never pending."""
    return self


def real(self):
    """The real part as a view; a real tensor itself."""
    return ops.select(ops.view_as_real(self), self._array.ndim, 0) if self._array.dtype.kind == "c" else self


def imag(self):
    """The imaginary part as a view.

    Raises:
        RuntimeError: for real tensors.
    """
    if self._array.dtype.kind != "c":
        raise RuntimeError("imag is not implemented for tensors with non-complex dtypes.")
    return ops.select(ops.view_as_real(self), self._array.ndim, 1)
