"""Discrete Fourier transforms of arrays, with PyTorch's strides.

SciPy's transforms use SIMD and threads: two to four times as fast as NumPy's, which take their place where SciPy is not
installed. Both compute float32 in float32.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ..types.dtype import default
from ._common.dims import wrap_dim
from ._common.errors import type_name
from ._common.threads import get_num_threads
from .creation import arange

_FORWARD = ("backward", "ortho", "forward")  # what the codes 0, 1, 2 of `normalization` are for NumPy and SciPy
_INVERSE = _FORWARD[::-1]
_REAL, _COMPLEX = "fd", "FD"
_SHARED = 1 << 15  # elements from which several threads pay


@cache
def _library():
    """Return scipy.fft or, without SciPy, numpy.fft."""
    try:
        import scipy.fft
    except ImportError:
        return np.fft
    return scipy.fft


def _transform(name, x, axes, norm, **sizes):
    library = _library()
    if library is not np.fft and x.size >= _SHARED:
        sizes["workers"] = get_num_threads()
    if name == "irfft":
        return library.irfft(x, axis=axes[0], norm=norm, **sizes)
    return getattr(library, name)(x, axes=axes, norm=norm, **sizes)


def _laid(x, dim, ordered):
    """Return `x` with the dimensions `dim` at the end and the others before them by decreasing strides, and the order
    of its dimensions. PyTorch computes results in this layout. `ordered` says how many of `dim`, from the first, are
    sorted by strides as well."""
    dim = [wrap_dim(d, x.ndim) for d in dim]
    strides = x.strides

    def stride(d):
        return -strides[d]

    others = [d for d in range(x.ndim) if d not in dim]
    order = [*sorted(others, key=stride), *sorted(dim[:ordered], key=stride), *dim[ordered:]]
    return x.transpose(order), order


def _restored(x, order):
    """Return `x`, whose dimensions have the given order, in the original one."""
    back = [0] * len(order)
    for i, d in enumerate(order):
        back[d] = i
    return np.ascontiguousarray(x).transpose(back)


def _checked(x, kinds):
    """Return the array; raise RuntimeError unless it has one of two types."""
    if x.dtype.char not in kinds:
        right = x.dtype.kind == "c" if kinds == _COMPLEX else x.dtype.kind in "fV"
        if right:
            raise RuntimeError(f"MKL FFT doesn't support tensors of type: {type_name(x.dtype)}")
        wanted = "complex" if kinds == _COMPLEX else "floating-point"
        raise RuntimeError(f"Only supports {wanted} dtypes, but found: {type_name(x.dtype)}")
    return x


def c2c(self, dim, normalization, forward):
    """Return the complex transform, or the inverse one, of a complex array.

    Args:
        dim: the transformed dimensions.
        normalization: 0 leaves the sums as they are, 1 divides them by the root of their length, 2 by the length.
    """
    if not dim:
        return self.copy()
    x, order = _laid(_checked(self, _COMPLEX), dim, len(dim))
    if not x.size:
        return np.empty(self.shape, self.dtype)
    names = _FORWARD if forward else _INVERSE
    axes = tuple(range(x.ndim - len(dim), x.ndim))
    found = _transform("fftn" if forward else "ifftn", x, axes, names[normalization])
    return _restored(found, order)


def r2c(self, dim, normalization, onesided):
    """Return the complex transform of a real array. `onesided` leaves out the second half of the last of `dim`, the
    conjugates of the first."""
    x, order = _laid(_checked(self, _REAL), dim, len(dim) - 1)
    if not x.size:
        shape = list(self.shape)
        shape[dim[-1]] = shape[dim[-1]] // 2 + 1 if onesided else shape[dim[-1]]
        return np.empty(shape, np.result_type(self.dtype, np.complex64))
    axes = tuple(range(x.ndim - len(dim), x.ndim))
    found = _transform("rfftn" if onesided else "fftn", x, axes, _FORWARD[normalization])
    return _restored(found, order)


def c2r(self, dim, normalization, last_dim_size):
    """Return the real inverse transform of the first half of a Hermitian array. `last_dim_size` is the size of the last
    of `dim` in the result."""
    if len(dim) > 1:
        self = c2c(self, dim[:-1], normalization, False)
    x, order = _laid(_checked(self, _COMPLEX), dim[-1:], 0)
    if not x.size:
        shape = list(self.shape)
        shape[dim[-1]] = last_dim_size
        return np.empty(shape, np.dtype(self.dtype.char.lower()))
    found = _transform("irfft", x, (-1,), _INVERSE[normalization], n=last_dim_size)
    return _restored(found, order)


def fftfreq(n, d, dtype=None):
    """Return the frequencies of a transform of `n` samples at distance `d`: 0, 1, ..., then the negative ones, over
    n * d."""
    found = _numbered("fftfreq", n, dtype)
    found[(n + 1) // 2 :] -= n
    return _over(found, n, d)


def rfftfreq(n, d, dtype=None):
    """Return the frequencies that are not negative of a transform of `n` samples at distance `d`."""
    return _over(_numbered("rfftfreq", int(n / 2) + 1, dtype), n, d)


def _numbered(name, count, dtype):
    dtype = default.numpy_float if dtype is None else dtype
    if dtype.kind in "biu":
        raise RuntimeError(f"{name} requires a floating point or complex dtype")
    if count < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {count}: [{count}]")
    return arange(count, dtype)


def _over(numbers, n, d):
    with np.errstate(all="ignore"):
        return numbers * numbers.dtype.type(np.divide(1.0, n * d))
