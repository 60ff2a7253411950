"""Composites that give a tensor another shape."""

from __future__ import annotations

from ...dispatch import _operators as ops
from ...kernels._common.dims import infer_size, wrap_dim
from ...memory.metadata import reshape_view
from ...types.device import contiguous_format
from ...types.silence import warn_user


def reshape(self, shape):
    """Return a view where the strides allow it, else a copy."""
    array = self._array
    if array.flags.c_contiguous:
        return ops.exact.view(self, (array.size,) if shape == (-1,) else shape)
    shape = infer_size(shape, array.size)
    try:
        seen = reshape_view(array, shape)
    except ValueError:
        return ops._unsafe_view(ops.clone(self, memory_format=contiguous_format), shape)
    return ops.exact._reshape_alias(self, shape, tuple([s // seen.itemsize for s in seen.strides]))


def reshape_as(self, other):
    """Reshape to the shape of another tensor."""
    return ops.reshape(self, other._array.shape)


def view_as(self, other):
    """Return a view in the shape of another tensor."""
    return ops.exact.view(self, other._array.shape)


def expand_as(self, other):
    """Expand to the shape of another tensor."""
    return ops.exact.expand(self, other._array.shape, False)


def broadcast_to(self, size):
    """Expand to a size."""
    return ops.expand(self, size)


def broadcast_tensors(tensors):
    """Expand all to their common shape."""
    shape = ()
    for t in tensors:
        shape = _broadcast(shape, t._array.shape)
    return tuple([t if t._array.shape == shape else ops.expand(t, shape) for t in tensors])


def _broadcast(a, b):
    longer = max(len(a), len(b))
    a, b = (1,) * (longer - len(a)) + tuple(a), (1,) * (longer - len(b)) + tuple(b)
    for d in range(longer - 1, -1, -1):
        if a[d] != b[d] and a[d] != 1 and b[d] != 1:
            raise RuntimeError(
                f"The size of tensor a ({a[d]}) must match the size of tensor b ({b[d]}) at non-singleton dimension {d}"
            )
    return tuple([m if n == 1 else n for n, m in zip(a, b, strict=True)])


def sum_to_size(self, size):
    """Sum over the dimensions that broadcasting from `size` would expand."""
    shape = self._array.shape
    lead = len(shape) - len(size)
    if lead < 0 or any(n != m and m != 1 for n, m in zip(shape[max(lead, 0) :], size, strict=False)):
        raise RuntimeError(f"size {{{list(size)}}} is not expandable to size {{{list(shape)}}}.")
    if not size:
        return ops.sum(self)
    dims = tuple([d for d in range(len(shape)) if d < lead or (size[d - lead] == 1 and shape[d] != 1)])
    out = ops.sum(self, dims, True) if dims else self
    return ops.view(out, size) if lead else out


def flatten(self, start_dim, end_dim):
    """Merge dimensions start_dim to end_dim, inclusive, into one."""
    array = self._array
    shape = array.shape
    ndim = len(shape)
    if start_dim == 0 and end_dim == -1 and ndim > 1 and array.flags.c_contiguous:
        return ops.exact.view(self, (array.size,))
    start, end = wrap_dim(start_dim, ndim), wrap_dim(end_dim, ndim)
    if start > end:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if not ndim:
        return reshape(self, (1,))
    if start == end:
        return self
    size = 1
    for n in shape[start : end + 1]:
        size *= n
    return reshape(self, (*shape[:start], size, *shape[end + 1 :]))


def ravel(self):
    """Return one dimension, as a view of the contiguous tensor."""
    return ops.view(ops.contiguous(self), (-1,))


def unflatten(self, dim, sizes):
    """Split a dimension into several; one size may be -1."""
    if not sizes:
        raise RuntimeError("unflatten: sizes must be non-empty")
    shape = self._array.shape
    dim = wrap_dim(dim, len(shape))
    if not shape:
        raise RuntimeError(
            f"unflatten got an unexpected error:\nDimension specified as {dim} but tensor has no dimensions"
        )
    try:
        found = infer_size(sizes, shape[dim])
    except RuntimeError as error:
        if "only one" in str(error) or "invalid shape dim" in str(error) or "ambiguous" in str(error):
            raise RuntimeError(f"unflatten got an unexpected error:\n{error}") from None
        raise RuntimeError(
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {dim} "
            f"({shape[dim]}) in the input tensor"
        ) from None
    return ops.view(self, (*shape[:dim], *found, *shape[dim + 1 :]))


def movedim_intlist(self, source, destination):
    """Move the dimensions `source` to the positions `destination`; the others keep their order."""
    ndim = self._array.ndim
    if len(source) != len(destination):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: source ({list(source)} dims) should contain "
            f"the same number of dims as destination ({list(destination)} dims)"
        )
    sources, destinations = [wrap_dim(d, ndim) for d in source], [wrap_dim(d, ndim) for d in destination]
    for name, given, dims in (("source", source, sources), ("destination", destination, destinations)):
        if len(set(dims)) < len(dims):
            raise RuntimeError(f"movedim: repeated dim in `{name}` ({list(given)})")
    if not ndim:
        return ops.alias(self)
    order = [d for d in range(ndim) if d not in sources]
    for place, d in sorted(zip(destinations, sources, strict=True)):
        order.insert(place, d)
    return ops.permute(self, tuple(order))


def movedim_int(self, source, destination):
    """Move one dimension to another position."""
    return movedim_intlist(self, (source,), (destination,))


def swapdims(self, dim0, dim1):
    """Swap two dimensions."""
    return ops.transpose(self, dim0, dim1)


def swapdims_(self, dim0, dim1):
    """Swap two dimensions, in place."""
    return ops.transpose_(self, dim0, dim1)


def numpy_T(self):
    """Reverse the order of all dimensions."""
    ndim = self._array.ndim
    if ndim not in (0, 2):
        _warn(
            "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is deprecated and it will "
            "throw an error in a future release. Consider `x.mT` to transpose batches of matrices or "
            "`x.permute(*torch.arange(x.ndim - 1, -1, -1))` to reverse the dimensions of a tensor."
        )
    return ops.permute(self, tuple(range(ndim - 1, -1, -1)))


def matrix_H(self):
    """Return the conjugate transpose of a matrix."""
    ndim = self._array.ndim
    if not ndim:
        _warn("Tensor.H is deprecated on 0-D tensors. Consider using x.conj().")
        return ops.conj(self)
    if ndim != 2:
        raise RuntimeError(
            f"tensor.H is only supported on matrices (2-D tensors). Got {ndim}-D tensor."
            + (" For batches of matrices, consider using tensor.mH" if ndim > 2 else "")
        )
    return _conjugate_transpose(self)


def mT(self):
    """Swap the last two dimensions."""
    if not _is_matrix(self, "tensor.mT", "Tensor.mT", "This function is the identity in these cases."):
        return self
    return ops.transpose(self, -2, -1)


def mH(self):
    """Swap the last two dimensions and conjugate."""
    if not _is_matrix(self, "tensor.mH", "Tensor.mH", "Consider using x.conj()."):
        return ops.conj(self)
    return _conjugate_transpose(self)


def adjoint(self):
    """Swap the last two dimensions and conjugate."""
    if not _is_matrix(self, "tensor.adjoint()", "adjoint()", "Consider using x.conj()."):
        return ops.conj(self)
    return _conjugate_transpose(self)


def _conjugate_transpose(self):
    swapped = ops.transpose(self, -2, -1)
    return ops.conj(swapped) if self._array.dtype.kind == "c" else swapped


def _is_matrix(tensor, name, short_name, advice):
    ndim = tensor._array.ndim
    if ndim == 1:
        raise RuntimeError(f"{name} is only supported on matrices or batches of matrices. Got 1-D tensor.")
    if not ndim:
        _warn(f"{short_name} is deprecated on 0-D tensors. {advice}")
    return ndim


def _warn(message):
    warn_user(message)


def native_channel_shuffle(self, groups):
    """Interleave the groups of channels, as `channel_shuffle` does."""
    return ops.channel_shuffle(self, groups)
