"""Index arithmetic of COO tensors, on NumPy arrays.

A COO tensor is `indices` (sparse dimensions, nnz), int64, and `values` (nnz, *dense dimensions). Each column of
`indices` is the place of one value; values at one place are summed. It is coalesced if the places are in lexicographic
order without repetitions.
"""

from __future__ import annotations

from math import prod

import numpy as np

from ..types.silence import silence


def keys(indices: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return one int64 per column of `indices`, in the lexicographic order of the columns.

    Raises RuntimeError for an index outside `shape`, the extents of the sparse dimensions.
    """
    check_bounds(indices, shape)
    found = np.zeros(indices.shape[1], np.int64)
    for row, extent in zip(indices, shape, strict=True):
        found *= extent
        found += row
    return found


def check_bounds(indices: np.ndarray, shape: tuple[int, ...]) -> None:
    """Raise RuntimeError for an index that is negative or not less than its extent."""
    if not indices.shape[1]:
        return
    for dim, (row, extent) in enumerate(zip(indices, shape, strict=True)):
        low, high = int(row.min()), int(row.max())
        if low < 0:
            raise RuntimeError(f"found negative index {low} for dim {dim}")
        if high >= extent:
            raise RuntimeError(
                f"size is inconsistent with indices: for dim {dim}, size is {extent} but found index {high}"
            )


def is_coalesced(indices: np.ndarray, shape: tuple[int, ...]) -> bool:
    """Return whether the places are in lexicographic order without repetitions."""
    found = keys(indices, shape)
    return bool((found[1:] > found[:-1]).all())


def coalesce(indices: np.ndarray, values: np.ndarray, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices and values in lexicographic order, with the values of each place summed (bool: or)."""
    found = keys(indices, shape)
    if (found[1:] > found[:-1]).all():
        return indices.copy(), values.copy()
    found, order = _sorted(found, shape)
    starts = np.flatnonzero(np.concatenate([[True], found[1:] != found[:-1]]))
    return indices.take(order[starts], 1), sums(values[order], starts)


def _sorted(found: np.ndarray, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return keys in increasing order, and the stable permutation that sorts them."""
    bits = found.size.bit_length()
    if prod(shape).bit_length() + bits < 64:  # one sort of key and position together takes a fifth of the time
        both = np.sort(found << bits | np.arange(found.size))
        return both >> bits, both & (1 << bits) - 1
    order = np.argsort(found, kind="stable")
    return found[order], order


def sums(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return the sum of each run of values; the runs begin at `starts`."""
    if len(starts) == len(values):
        return values
    return (np.logical_or if values.dtype.kind == "b" else np.add).reduceat(values, starts, axis=0)


def to_dense(indices: np.ndarray, values: np.ndarray, shape: tuple[int, ...], is_coalesced: bool) -> np.ndarray:
    """Return an array of `shape`: the values in their places, zeros elsewhere."""
    out = np.zeros(shape, values.dtype)
    add_to(out, indices, values, is_coalesced)
    return out


def add_to(out: np.ndarray, indices: np.ndarray, values: np.ndarray, is_coalesced: bool) -> None:
    """Add the values to `out` in place."""
    extents = out.shape[: len(indices)]
    if is_coalesced:
        indices = indices.copy()  # Note [Private indices]
        check_bounds(indices, extents)
    else:
        indices, values = coalesce(indices, values, extents)
    if len(indices):
        at = tuple(indices)
        out[at] = out[at] | values if out.dtype.kind == "b" else out[at] + values
    elif len(values):
        out[...] = out | values[0] if out.dtype.kind == "b" else out + values[0]


def lookup(wanted: np.ndarray, indices: np.ndarray, values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return the values of a coalesced tensor at the places `wanted`, zeros where it has none."""
    found, at = matches(keys(wanted, shape), keys(indices, shape))
    out = np.zeros((wanted.shape[1], *values.shape[1:]), values.dtype)
    out[found] = values[at]
    return out


def matches(wanted: np.ndarray, increasing: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the positions of the keys that are in `increasing`, and their positions there."""
    if wanted.shape == increasing.shape and (wanted == increasing).all():
        at = np.arange(wanted.size)
        return at, at
    at = np.searchsorted(increasing, wanted)
    at[at == len(increasing)] = 0
    found = np.flatnonzero(increasing[at] == wanted) if len(increasing) else at[:0]
    return found, at[found]


def added(first, second, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return the sum of two COO tensors, given as pairs (indices, values) of one dtype.

    As in PyTorch, the entries of both are merged in their order, and two that meet at one place become one. Values that
    are not contiguous are only joined.
    """
    (i, v), (j, w) = first, second
    if not (v.flags.c_contiguous and w.flags.c_contiguous):
        return np.concatenate([i, j], 1), np.concatenate([v, w])
    if i.shape == j.shape and (i == j).all():
        return i, v + w
    of_first, of_second = _merge(keys(i, shape), keys(j, shape))
    indices = np.empty((len(i), of_first.size), np.int64)
    values = np.zeros((of_first.size, *v.shape[1:]), v.dtype)
    has = of_first >= 0
    indices[:, has] = i[:, of_first[has]]
    values[has] = v[of_first[has]]
    has = of_second >= 0
    indices[:, has] = j[:, of_second[has]]
    values[has] += w[of_second[has]]
    return indices, values


def _merge(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the position of each merged entry in the first list and in the second, -1 if it is not there."""
    if (first[1:] > first[:-1]).all() and (second[1:] > second[:-1]).all():
        union = np.union1d(first, second)
        found = np.full((2, union.size), -1)
        for row, part in zip(found, (first, second), strict=True):
            row[np.searchsorted(union, part)] = np.arange(part.size)
        return found[0], found[1]
    pairs, a, b = [], first.tolist(), second.tolist()
    m = n = 0
    while m < len(a) and n < len(b):
        if a[m] == b[n]:
            pairs.append((m, n))
            m, n = m + 1, n + 1
        elif a[m] < b[n]:
            pairs.append((m, -1))
            m += 1
        else:
            pairs.append((-1, n))
            n += 1
    pairs += [(k, -1) for k in range(m, len(a))] + [(-1, k) for k in range(n, len(b))]
    both = np.array(pairs, np.int64).reshape(-1, 2)
    return both[:, 0], both[:, 1]


def matrix(indices: np.ndarray, values: np.ndarray, shape: tuple[int, ...]):
    """Return a COO matrix as SciPy's csr_array, in float32 for 16-bit types, which SciPy does not have.

    Raises ImportError without SciPy.
    """
    from scipy.sparse import csr_array

    indices = indices.copy()  # Note [Private indices]
    check_bounds(indices, shape)
    return csr_array((widened(values), (indices[0], indices[1])), shape)


def widened(values: np.ndarray) -> np.ndarray:
    """Return 16-bit floating values as float32."""
    return values.astype(np.float32) if values.dtype.kind == "V" or values.dtype == np.float16 else values


silence(globals())
