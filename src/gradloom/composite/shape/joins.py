"""Composites that join or repeat tensors."""

from __future__ import annotations

from ...dispatch import _operators as ops
from ...kernels._common.dims import dim_error, wrap_dim
from ...types.device import contiguous_format
from ...types.silence import warn_user


def atleast_1d(self):
    """Return a view with at least one dimension."""
    return self if self._array.ndim else ops.reshape(self, (1,))


def atleast_2d(self):
    """Return a view with at least two dimensions; a vector becomes a row."""
    ndim = self._array.ndim
    if ndim >= 2:
        return self
    return ops.unsqueeze(self, 0) if ndim else ops.reshape(self, (1, 1))


def atleast_3d(self):
    """Return a view with at least three dimensions; a vector becomes (1, n, 1), a matrix (n, m, 1)."""
    ndim = self._array.ndim
    if ndim >= 3:
        return self
    if ndim == 2:
        return ops.unsqueeze(self, -1)
    return ops.unsqueeze(ops.unsqueeze(self, 0), -1) if ndim else ops.reshape(self, (1, 1, 1))


def atleast_1d_sequence(tensors):
    """Return each with at least one dimension."""
    return tuple([atleast_1d(t) for t in tensors])


def atleast_2d_sequence(tensors):
    """Return each with at least two dimensions."""
    return tuple([atleast_2d(t) for t in tensors])


def atleast_3d_sequence(tensors):
    """Return each with at least three dimensions."""
    return tuple([atleast_3d(t) for t in tensors])


def concat(tensors, dim):
    """`cat` under another name."""
    return ops.cat(tensors, dim)


def hstack(tensors):
    """Concatenate along the second dimension, vectors along their only one."""
    _check(tensors, "hstack")
    tensors = atleast_1d_sequence(tensors)
    return ops.cat(tensors, 0 if tensors[0]._array.ndim == 1 else 1)


def vstack(tensors):
    """Concatenate along the first dimension, vectors as rows."""
    _check(tensors, "vstack")
    return ops.cat(atleast_2d_sequence(tensors), 0)


def dstack(tensors):
    """Concatenate along the third dimension."""
    _check(tensors, "dstack")
    return ops.cat(atleast_3d_sequence(tensors), 2)


def column_stack(tensors):
    """Concatenate along the second dimension, vectors as columns."""
    _check(tensors, "column_stack")
    return hstack([t if t._array.ndim > 1 else ops.reshape(t, (t._array.size, 1)) for t in tensors])


def _check(tensors, name):
    if not tensors:
        raise RuntimeError(f"{name} expects a non-empty TensorList")


def tile(self, dims):
    """Repeat along each dimension; missing counts are 1."""
    return ops.repeat(self, (1,) * (self._array.ndim - len(dims)) + tuple(dims))


def repeat_interleave_int(self, repeats, dim, output_size):
    """Repeat each index of a dimension (of the flat tensor by default) `repeats` times."""
    source = ops.flatten(self) if dim is None else self
    if repeats < 0:
        raise RuntimeError("Repeats must be non-negative")
    shape = source._array.shape
    dim = wrap_dim(dim or 0, len(shape))
    if not shape:
        raise dim_error(1, 0)
    wide = ops.expand(ops.unsqueeze(source, dim + 1), (*shape[: dim + 1], repeats, *shape[dim + 1 :]))
    return ops.flatten(ops.clone(wide, memory_format=contiguous_format), dim, dim + 1)


def repeat_interleave_tensor(self, repeats, dim, output_size):
    """Repeat each index i of a dimension (of the flat tensor by default) repeats[i] times."""
    source = ops.flatten(self) if dim is None else self
    shape = source._array.shape
    given, dim = dim or 0, wrap_dim(dim or 0, max(len(shape), 1))
    if not shape:
        raise IndexError(f"Dimension specified as {given} but tensor has no dimensions")
    counts = repeats._array
    if counts.ndim > 1:
        raise RuntimeError("repeats must be 0-dim or 1-dim tensor")
    if counts.size == 1:
        repeats = ops.expand(ops.reshape(repeats, (1,)), (shape[dim],))
    elif counts.size != shape[dim]:
        raise RuntimeError(
            f"repeats must have the same size as input along dim, but got repeats.size(0) = "
            f"{counts.size} and input.size({given}) = {shape[dim]}"
        )
    return ops.index_select(source, dim, ops.repeat_interleave(repeats, output_size=output_size))


def meshgrid(tensors):
    """Return the coordinates of the grid that vectors span, `indexing="ij"`."""
    warn_user("torch.meshgrid: in an upcoming release, it will be required to pass the indexing argument.")
    return meshgrid_indexing(tensors, "ij")


def meshgrid_indexing(tensors, indexing):
    """Return the coordinates of the grid that vectors span; "xy" swaps the first two dimensions."""
    if not tensors:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    for t in tensors:
        if t.dtype is not tensors[0].dtype:
            raise RuntimeError("meshgrid expects all tensors to have the same dtype")
        if t.is_meta != tensors[0].is_meta:
            raise RuntimeError("meshgrid expects all tensors to have the same device")
    if indexing not in ("xy", "ij"):
        raise RuntimeError(f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    order = list(range(len(tensors)))
    if indexing == "xy" and len(order) > 1:
        order[:2] = 1, 0
    for i in order:
        if tensors[i]._array.ndim > 1:
            raise RuntimeError(f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {tensors[i]}")
    shape = [tensors[i]._array.size for i in order]
    grids = []
    for place, i in enumerate(order):
        own = [1] * len(shape)
        own[place] = -1
        grids.append(ops.expand(ops.view(tensors[i], tuple(own)), tuple(shape)))
    return tuple([grids[i] for i in order])


def cartesian_prod(tensors):
    """Return all combinations of one element of each vector, as rows."""
    for t in tensors:
        if t._array.ndim != 1:
            raise RuntimeError(f"Expect a 1D vector, but got shape {list(t._array.shape)}")
    if len(tensors) == 1:
        return tensors[0]
    return ops.stack([ops.flatten(g) for g in meshgrid_indexing(tensors, "ij")], 1)


def combinations(self, r, with_replacement):
    """Return all sets of `r` elements of a vector, as rows in the order of their positions."""
    if self._array.ndim != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(self._array.shape)}")
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if not r:
        return ops.new_empty(self, (0,))
    import numpy as np

    count = self._array.size
    places = np.indices((count,) * r, sparse=True)
    mask = np.ones((count,) * r, np.bool_)
    for a, b in zip(places, places[1:], strict=False):
        mask &= a <= b if with_replacement else a < b
    return ops.index(self, [ops.wrap(np.ascontiguousarray(np.argwhere(mask)))])


def diag(self, diagonal):
    """Return the matrix with a vector on a diagonal, or a copy of the diagonal of a matrix."""
    ndim = self._array.ndim
    if ndim == 1:
        return ops.diag_embed(self, diagonal)
    if ndim != 2:
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {ndim}D")
    return ops.diagonal_copy(self, diagonal)


def diagflat(self, offset):
    """Return the matrix with all elements on a diagonal."""
    return ops.diag(ops.view(ops.contiguous(self), (-1,)), offset)


def fill_diagonal_(self, fill_value, wrap):
    """Write a number to the main diagonal; with `wrap`, that of a tall matrix starts again after one more row."""
    array = self._array
    if array.ndim < 2:
        raise RuntimeError("dimensions must larger than 1")
    if array.ndim > 2 and len(set(array.shape)) > 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    height, width = array.shape[:2]
    step, length = sum(self.stride()), min(height, width)
    ops.fill__Scalar(ops.as_strided(self, (length,), (step,), None), fill_value)
    if wrap and array.ndim == 2 and height > width + 1:
        rest = (array.size + width) // (width + 1) - length
        offset = self.storage_offset() + self.stride(0) * (width + 1)
        ops.fill__Scalar(ops.as_strided(self, (rest,), (step,), offset), fill_value)
    return self


def linalg_diagonal(A, offset, dim1, dim2):
    """Return a diagonal of the last two dimensions by default."""
    return ops.diagonal(A, offset, dim1, dim2)


def fliplr(self):
    """Reverse the second dimension."""
    if self._array.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return ops.flip(self, (1,))


def flipud(self):
    """Reverse the first dimension."""
    if self._array.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return ops.flip(self, (0,))


def flatten_dense_tensors(tensors):
    """Return the elements of tensors, one tensor after the other: (sum of their sizes,)."""
    parts = [ops.reshape(tensor, (-1,)) for tensor in tensors]
    return parts[0] if len(parts) == 1 else ops.cat(parts)


def unflatten_dense_tensors(flat, tensors):
    """Return views of a flat tensor, with the sizes of the tensors that it was made of; a new tensor for an empty one,
    which has no place in it."""
    found, start = [], 0
    for tensor in tensors:
        count = tensor.numel()
        found.append(ops.view(ops.narrow(flat, 0, start, count), tensor.shape) if count else ops.empty_like(tensor))
        start += count
    return tuple(found)
