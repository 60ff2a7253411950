"""Kernels that build, split and conjugate complex arrays."""

from __future__ import annotations

import numpy as np

from ..memory.ownership import offset_in_elements
from ._common.errors import not_implemented, type_name
from ._common.layout import check_no_internal_overlap, empty_result, row_major
from .elementwise.dtypes import to_float

_conjugated = None  # gradloom.memory.conjugation.conjugated; imported on first use, since real programs do not need it
_COMPLEX = {"e": np.complex64, "f": np.complex64, "d": np.complex128}


def _pair(first, second):
    """Return the complex dtype for two real arrays of one dtype. Raises RuntimeError for other arrays."""
    one, two = (type_name(a.dtype) for a in (first, second))
    if first.dtype.kind != "f" or second.dtype.kind != "f":
        raise NotImplementedError(f"Expected both inputs to be Half, Float or Double tensors but got {one} and {two}")
    if first.dtype is not second.dtype:
        raise RuntimeError(f"Expected object of scalar type {one} but got scalar type {two} for second argument")
    return _COMPLEX[first.dtype.char]


def complex(real, imag):
    """`real + 1j * imag`."""
    kind = _pair(real, imag)
    found = empty_result(kind, real, imag)
    found.real, found.imag = real, imag
    return found


def polar(abs, angle):
    """`abs * exp(1j * angle)`."""
    kind = _pair(abs, angle)
    if abs.itemsize == 2:
        raise not_implemented("polar_cpu", abs)
    found = empty_result(kind, abs, angle)
    found.real, found.imag = abs * np.cos(angle), abs * np.sin(angle)
    return found


def angle(self):
    """Return the argument of complex numbers; for real ones 0 or pi, and NaN for NaN."""
    if self.dtype.kind == "c":
        return row_major(np.arctan2(self.imag, self.real))
    self = to_float(self)
    found = np.where(self < 0, self.dtype.type(np.pi), self.dtype.type(0))
    return np.where(np.isnan(self), self, found)


def conj(self):
    """Return a view of the conjugates; see Note [Conjugate and negative bits]. Real arrays are returned unchanged."""
    return (_conjugated or _load())(self) if self.dtype.kind == "c" else self[...]


def neg_view(self):
    """Return a view of the negatives."""
    if self.dtype.kind == "b":
        raise NotImplementedError("\"neg_cpu\" not implemented for 'Bool'")
    from ..memory.conjugation import negated

    return negated(self)


def _load():
    global _conjugated
    from ..memory.conjugation import conjugated

    _conjugated = conjugated
    return conjugated


def conj_physical(self):
    """Return the complex conjugate, a copy."""
    return np.conjugate(self) if self.dtype.kind == "c" else self.copy()


def conj_physical_(self):
    """`conj_physical` in place; real arrays are not written, and may share memory with themselves."""
    if self.dtype.kind == "c":
        check_no_internal_overlap(self)
        np.conjugate(self, out=self)
    return self


def view_as_real(self):
    """Reinterpret complex numbers as pairs of real ones: one more dimension, of size 2."""
    if self.dtype.kind != "c":
        raise TypeError("view_as_real is only supported for complex tensors")
    if type(self) is np.ndarray:
        return self[..., None].view(self.real.dtype)
    if self.conj_bit:
        raise RuntimeError(
            "view_as_real doesn't work on unresolved conjugated tensors: the memory holds their "
            "conjugates. Use self.resolve_conj(), which makes a copy, or view_as_real(self.conj())."
        )
    return self.through(view_as_real)


def view_as_complex(self):
    """Reinterpret pairs of real numbers (the last dimension) as complex ones."""
    if self.dtype.char == "e":
        raise RuntimeError("view_as_complex of float16 numbers would be complex32, which NumPy lacks: use self.float()")
    if self.dtype.kind == "c":
        raise TypeError("view_as_complex is not supported for complex tensors")
    if self.dtype.char not in "fd":
        raise NotImplementedError(
            "view_as_complex is only supported for half, float and double tensors, but got a tensor of "
            f"scalar type: {type_name(self.dtype)}"
        )
    if self.ndim == 0:
        raise RuntimeError("Input tensor must have one or more dimensions")
    if self.shape[-1] != 2:
        raise RuntimeError("Tensor must have a last dimension of size 2")
    item = self.itemsize
    if not self.size:
        return np.ndarray(self.shape[:-1], _COMPLEX[self.dtype.char])
    if self.strides[-1] != item:
        raise RuntimeError("Tensor must have a last dimension with stride 1")
    if any(s % (2 * item) for s in self.strides[:-1]):
        raise RuntimeError("Tensor must have a stride divisible by 2 for all but last dimension")
    if offset_in_elements(self) % 2:
        raise RuntimeError("Tensor must have a storage_offset divisible by 2")
    if type(self) is not np.ndarray:
        return self.through(view_as_complex)
    return self.view(_COMPLEX[self.dtype.char])[..., 0]
