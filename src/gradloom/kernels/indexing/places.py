"""Index checks with PyTorch's errors, and sums (products, extrema) at places that occur repeatedly.

Note [Repeated places]
`ufunc.at` handles repeated places, but is fast only for one dimension and one dtype, so arrays are flattened for it.
Many rows are added ten times faster by a product with a sparse matrix with a single one in each column. Either way
values are added in the order of the index.

Note [Private indices]
Another thread, or another process on shared memory, may write to an index at any time. NumPy's assignments, `ufunc.at`,
`bincount` and `repeat`, and SciPy's products check all indices, or count a mask, and read them again when they use
them: what was written between is used unchecked. A kernel that passes an index or mask to one of these passes a copy:
all of them compare what they load from it, so that nothing outside of an array is read or written. Checks that give
PyTorch's errors may read the index itself. `take` needs no copy, since it compares what it loads, nor do the results of
index arithmetic (`private_places`). Copies in parts that stay in the cache are not faster.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ...types.silence import warn_user
from .._common.dims import wrap_dim
from .._common.layout import check_apart, check_no_internal_overlap
from .._common.tables import flat_places

_ndarray = np.ndarray
_UNSIGNED = {char: np.dtype(char.upper()) for char in "ilq"}  # char of a dtype -> its unsigned one


def private(index):
    """Return a copy of an index or mask that nobody else can write to. See Note [Private indices]."""
    return index.copy(order="K")  # the layout of the result follows it


def private_places(index, axis: int, shape: tuple):
    """Return the places of an index along an axis, as `flat_places` does, in memory that nobody else can write to."""
    found = flat_places(index, axis, shape)
    return private(found) if found is index else found


_FEW = 4096  # elements, up to which argmax is faster than a reduction


def is_in_range(index, n: int) -> bool:
    """Return whether 0 <= index < n everywhere."""
    if not index.size:
        return True
    numbers = index.view(_UNSIGNED.get(index.dtype.char, index.dtype))  # a negative number becomes larger than any size
    return (numbers.item(numbers.argmax()) if index.size <= _FEW else np.maximum.reduce(numbers, None)) < n


def check_range(index, n: int, axis: int, error=RuntimeError) -> None:
    """Raise `error` unless 0 <= index < n everywhere."""
    if not is_in_range(index, n):
        first = index[(index < 0) | (index >= n)][0]
        raise error(f"index {first} is out of bounds for dimension {axis} with size {n}")


_INT64 = np.dtype(np.int64)


def _is_alike(src, self, index) -> bool:
    """Return whether the values of a scatter, if given, have the array's dtype and the shape of the index."""
    return src is None or src.dtype is self.dtype and src.shape == index.shape


def along(name: str, self, dim: int, index, src=None):
    """Check the arguments of gather and the scatters. Raises RuntimeError and IndexError in PyTorch's words.

    Args:
        name: gather or scatter.
        self: the array that is read from or written to.
        index: integers, with as many dimensions as `self`; not larger than it outside `dim`, nor than `src` in any
            dimension.
        src: the values of a scatter.

    Returns:
        `self`, `index` and `src` with at least one dimension, `src` cut to the size of the index; and the axis. The
        index is not copied: see Note [Private indices].
    """
    axis = wrap_dim(dim, self.ndim)
    if (
        index.dtype is _INT64
        and index.ndim == self.ndim
        and index.size
        and (src is None or _is_alike(src, self, index))
    ):
        for d, n in enumerate(index.shape):
            if n > self.shape[d] and d != axis:
                break
        else:
            if self.ndim:  # the common case
                check_range(index, self.shape[axis], axis)
                return self, index, src, axis
    if index.size and index.dtype not in (np.int64, np.int32):
        raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index")
    if src is not None and src.dtype is not self.dtype:
        raise RuntimeError("scatter(): Expected self.dtype to be equal to src.dtype")
    if index.size:
        _check_shapes(name, self, axis, index, src)
    flat, places, values = (x if x is None or x.ndim else x.reshape(1) for x in (self, index, src))
    if index.size:
        check_range(places, flat.shape[axis], axis)
    if values is not None and values.shape != places.shape and not index.size:
        values = np.empty(places.shape, values.dtype)
    elif values is not None and values.shape != places.shape:
        values = values[tuple(map(slice, places.shape))]
    return flat, places, values, axis


def _check_shapes(name, self, axis, index, src):
    ndim = max(self.ndim, 1)
    if max(index.ndim, 1) != ndim:
        whose = "input" if name == "gather" else "self"
        raise RuntimeError(f"Index tensor must have the same number of dimensions as {whose} tensor")
    if src is not None and max(src.ndim, 1) != ndim:
        raise RuntimeError("Index tensor must have the same number of dimensions as src tensor")
    ours, shape = self.shape or (1,), index.shape or (1,)
    too_large = any(n > m for i, (n, m) in enumerate(zip(shape, ours, strict=True)) if i != axis)
    if name == "gather":
        if too_large:
            i = next(i for i, (n, m) in enumerate(zip(shape, ours, strict=True)) if i != axis and n > m)
            raise RuntimeError(
                f"Size does not match at dimension {i} expected index {list(shape)} to be no larger "
                f"than self {list(ours)} apart from dimension {axis}"
            )
    elif too_large or src is not None and any(n > m for n, m in zip(shape, src.shape or (1,), strict=True)):
        beyond = "" if src is None else f" and to be no larger size than src {list(src.shape)}"
        raise RuntimeError(
            f"Expected index {list(shape)} to be no larger than self {list(ours)} apart from dimension {axis}{beyond}"
        )


def on_a_copy(kernel):
    """Return the out-of-place form of an in-place kernel, which works on a row-major copy of `self`."""

    def functional(self, *arguments):
        return kernel(self.copy(), *arguments)

    return functional


def writable(self, *read):
    """Return the array; raise RuntimeError if its elements share memory with each other or with arrays to read."""
    if 0 in self.strides:
        check_no_internal_overlap(self)
    owns = self.base is None
    for other in read:
        base = other.base
        if owns and other is not self and (base is None or base.__class__ is _ndarray and base is not self):
            if base is None or base.base is None:  # the memory of another array
                continue
        check_apart(self, other)
    return self


def still_writable(self, name: str, *read):
    """Check like `writable`, but only warn if an array is expanded and PyTorch still allows the write."""
    if 0 in self.strides and self.size and any(not s and n > 1 for n, s in zip(self.shape, self.strides, strict=True)):
        warn_user(
            f"Use of {name} on expanded tensors is deprecated. Please clone() the tensor before performing "
            "this operation: elements that share memory end with the value that was written last."
        )
        return self
    return writable(self, *read)


_MANY = 1 << 15  # elements, from which on a sparse product pays


def update(ufunc, self, places, values) -> None:
    """Set `self[place] = ufunc(self[place], value)` for each of the flat places, which are private, in turn."""
    work = workspace(self)
    if type(values) is not _ndarray or values.dtype is not work.dtype:
        values = values.astype(work.dtype, copy=False)
    ufunc.at(work.reshape(-1), places.reshape(-1), values.reshape(-1))
    if work is not self:
        self[...] = work


def workspace(self):
    """Return the array if it is contiguous and NumPy adds its dtype fast; else such a copy (halves in float32)."""
    if self.dtype.kind == "V" or self.dtype.char == "e":
        return self.astype(np.float32, order="C")
    return self if self.flags.c_contiguous else np.array(self, order="C")


def add_rows(rows, index, values) -> None:
    """Add `rows[i] += value` for each i in `index`, in place.

    Args:
        rows: contiguous (n, m), of a dtype that NumPy can add.
        index: (k,), within the range, and private.
        values: (k, m), of the same dtype.
    """
    count, width = rows.shape
    if not index.size or not width:
        return
    many = values.size >= _MANY and rows.dtype.kind != "b"
    csc_array = _sparse_matrix() if many else None
    if csc_array is None:
        places = index if width == 1 else (index[:, None] * np.int64(width) + np.arange(width)).reshape(-1)
        np.add.at(rows.reshape(-1), places, values.reshape(-1))
        return
    kept = np.zeros(count, bool)
    kept[index] = True
    used = np.flatnonzero(kept)
    few = used.size * 3 <= count  # then only these rows are summed and read, under numbers of their own
    if few:
        numbers = np.empty(count, index.dtype)
        numbers[used] = np.arange(used.size)
        index, count = numbers.take(index), used.size
    one_each = np.ones(index.size, rows.dtype), index, np.arange(index.size + 1, dtype=index.dtype)
    sums = csc_array(one_each, shape=(count, index.size)) @ values
    if few:
        rows[used] += sums
    else:
        rows += sums


@cache
def _sparse_matrix():
    """Return SciPy's class of sparse matrices by columns; None if SciPy is not installed."""
    try:
        from scipy.sparse import csc_array
    except ImportError:
        return None
    return csc_array
