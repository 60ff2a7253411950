"""Copies of arrays: in another order of memory, in another dtype, into an array that exists."""

from __future__ import annotations

from ..types.device import preserve_format
from ._layout import new_array, new_like
from ._overlap import check_no_internal_overlap, check_no_partial_overlap


def clone(self, memory_format=None):
    """A copy; in the same order of strides unless a memory format is given."""
    if memory_format is None or memory_format is preserve_format:
        if 0 not in self.strides and (1 not in self.shape or _is_plain(self)):
            return self.copy("K")
        out = new_like(self)
    else:
        out = new_array(self.shape, self.dtype, memory_format)
    out[...] = self
    return out


def convertible(array, dtype):
    """The part of an array that `dtype` can hold: of complex numbers that become real the real part, with a warning."""
    if array.dtype.kind == "c" and dtype.kind not in "cb":
        import warnings

        warnings.warn("Casting complex values to real discards the imaginary part", UserWarning, stacklevel=5)
        return array.real
    return array


def to_copy(self, dtype=None, memory_format=None):
    """A copy in another dtype."""
    if dtype is not None and dtype is not self.dtype:
        self = convertible(self, dtype)
    if memory_format is None or memory_format is preserve_format:
        if 0 not in self.strides and (1 not in self.shape or _is_plain(self)):
            return self.astype(self.dtype if dtype is None else dtype, order="K", copy=True)
        out = new_like(self, dtype)
    else:
        out = new_array(self.shape, self.dtype if dtype is None else dtype, memory_format)
    out[...] = self
    return out


def _is_plain(array):
    """Whether the strides are those of a new array, also of dimensions of size 1, which NumPy's copies pass over."""
    step = array.itemsize
    for n, stride in zip(reversed(array.shape), reversed(array.strides), strict=True):
        if stride != step:
            return False
        step *= n
    return True


def copy_(self, src):
    """Write `src`, broadcast and converted, into `self`.

    Raises:
        RuntimeError: if the shapes do not fit.
    """
    if src is self:
        return
    if 0 in self.strides:
        check_no_internal_overlap(self)
    if src.base is not None or self.base is not None:
        check_no_partial_overlap(self, src)
    if src.shape != self.shape:
        _check_shape(self.shape, src.shape)
    if src.dtype is not self.dtype:
        src = convertible(src, self.dtype)
    self[...] = src


def _check_shape(shape, source):
    ndim = max(len(shape), len(source))
    ours, theirs = (1,) * (ndim - len(shape)) + shape, (1,) * (ndim - len(source)) + source
    for d in range(ndim - 1, -1, -1):
        if ours[d] != theirs[d] and ours[d] != 1 and theirs[d] != 1:
            raise RuntimeError(
                f"The size of tensor a ({ours[d]}) must match the size of tensor b ({theirs[d]}) at "
                f"non-singleton dimension {d}"
            )
    broadcast = tuple([m if n == 1 else n for n, m in zip(ours, theirs, strict=True)])
    if broadcast != shape:
        raise RuntimeError(f"output with shape {list(shape)} doesn't match the broadcast shape {list(broadcast)}")
