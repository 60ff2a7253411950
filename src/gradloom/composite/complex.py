"""Complex operators made of others."""

from __future__ import annotations

from ..dispatch import _operators as ops


def conj(self):
    """Return a view of the complex conjugates; a real tensor is returned itself."""
    return ops._conj(self) if self._array.dtype.kind == "c" else self


def conj_physical(self):
    """Return the complex conjugate, computed immediately; a real tensor is returned itself."""
    return ops._conj_physical(self) if self._array.dtype.kind == "c" else self


def resolve_conj(self):
    """Return the tensor, or a copy of its values if conjugation is pending."""
    return ops.clone(self) if self.is_conj() else self


def resolve_neg(self):
    """Return the tensor, or a copy of its values if negation is pending."""
    return ops.clone(self) if self.is_neg() else self


def real(self):
    """Return the real part as a view; a real tensor is returned itself."""
    if self._array.dtype.kind != "c":
        return self
    pairs = ops.view_as_real(ops._conj(self) if self.is_conj() else self)
    return ops.select(pairs, self._array.ndim, 0)


def imag(self):
    """Return the imaginary part as a view. Raises RuntimeError for real tensors."""
    if self._array.dtype.kind != "c":
        raise TypeError("imag is not implemented for tensors with non-complex dtypes.")
    pairs = ops._neg_view(ops.view_as_real(ops._conj(self))) if self.is_conj() else ops.view_as_real(self)
    return ops.select(pairs, self._array.ndim, 1)
