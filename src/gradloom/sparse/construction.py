"""`gradloom.sparse_coo_tensor`, and whether sparse tensors are checked when they are made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..core.tensor import Tensor, wrap
from ..dispatch import _operators as ops
from ..kernels._common.errors import negative_size
from ..tensors.python_data import array_of
from ..types.device import check_device
from ..types.dtype import dtype as _dtype, get_default_dtype
from ..types.public import found_in as _found_in
from . import arrays
from .differentiable import from_components
from .tensor import empty

_checks = [False]


class check_sparse_tensor_invariants:
    """Check the indices of sparse tensors when they are made: a context manager and decorator, off by default."""

    def __init__(self, enable: bool = True) -> None:
        self._enable = enable
        self._before: list[bool] = []

    @staticmethod
    def is_enabled() -> bool:
        """Return whether indices are checked."""
        return _checks[0]

    @staticmethod
    def enable() -> None:
        """Check indices from now on."""
        _checks[0] = True

    @staticmethod
    def disable() -> None:
        """Check indices no longer."""
        _checks[0] = False

    def __enter__(self) -> None:
        self._before.append(_checks[0])
        _checks[0] = self._enable

    def __exit__(self, *_: object) -> None:
        _checks[0] = self._before.pop()

    def __call__(self, function: Any) -> Any:
        @contextmanager
        def checked() -> Iterator[None]:
            with self:
                yield

        return checked()(function)


def sparse_coo_tensor(
    indices: Any = None,
    values: Any = None,
    size: Sequence[int] | None = None,
    *,
    dtype: _dtype | None = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> Tensor:
    """Return a sparse tensor in the COO format.

    Without `requires_grad`, the result is differentiable with respect to `values`, if they are a Tensor.

    Args:
        indices: integers (sparse dimensions, nnz): a column is the place of an entry. A sequence of ints alone is the
            size of a tensor without entries.
        values: (nnz, *dense dimensions), or one number; values at one place are summed.
        size: the extents of the sparse and the dense dimensions; by default the smallest that have all places.
        dtype: that of `values` by default.
        device: the CPU.
        pin_memory: has no effect.
        requires_grad: whether the result is a leaf that requires grad.
        check_invariants: whether to check the indices against `size`; as `check_sparse_tensor_invariants` says by
            default.
        is_coalesced: True if the places are in lexicographic order without repetitions.

    Raises RuntimeError if the shapes do not fit each other, or a checked condition does not hold.
    """
    if device is not None:
        check_device(device)
    if values is None:
        size = indices if size is None else size
        if size is None:
            raise TypeError("sparse_coo_tensor(): expected indices and values, or a size")
        shape = _checked_size(size)
        return empty(shape, (dtype or get_default_dtype()).numpy).requires_grad_(requires_grad)
    places = _indices(indices)
    source = values if isinstance(values, Tensor) else wrap(np.array(array_of(values, dtype)))
    if dtype is not None:
        source = source.to(dtype)
    if requires_grad:
        source = source.detach()
    if not source.dim():
        source = ops.expand(ops.unsqueeze(source, 0), (1,))
    shape = _size(places, source) if size is None else _checked_size(size)
    _check_shapes(places, source._array.shape, shape)
    if _checks[0] if check_invariants is None else check_invariants:
        extents = shape[: len(places)]
        arrays.check_bounds(places, extents)
        if is_coalesced and not arrays.is_coalesced(places, extents):
            raise RuntimeError("cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor")
    out = from_components(places, source, shape, bool(is_coalesced))
    if is_coalesced is False:
        out._coalesced = False  # type: ignore[attr-defined]
    if requires_grad:
        out.requires_grad = True
    return out


def _indices(indices) -> np.ndarray:
    found = indices._array if isinstance(indices, Tensor) else array_of(indices, None)
    if found.dtype.kind not in "iufb":
        raise TypeError(f"indices must be integers, but got {found.dtype}")
    return np.asarray(found).astype(np.int64, copy=False)


def _checked_size(size) -> tuple[int, ...]:
    shape = tuple([int(n) for n in size])
    if min(shape, default=0) < 0:
        raise negative_size(shape)
    return shape


def _size(places, values) -> tuple[int, ...]:
    """Return the smallest size that has all places."""
    _check_rank(places)
    if places.shape[1]:
        for dim, low in enumerate(places.min(axis=1).tolist()):
            if low < 0:
                raise RuntimeError(f"found negative index {low} for dim {dim}")
        return (*(places.max(axis=1) + 1).tolist(), *values._array.shape[1:])
    return (0,) * len(places) + tuple(values._array.shape[1:])


def _check_rank(places) -> None:
    if places.ndim != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(places.shape)}")


def _check_shapes(places, of_values, shape) -> None:
    sparse, dense = len(places), len(of_values) - 1
    if len(shape) != sparse + dense:
        raise RuntimeError(
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(shape)}, sparse_dim = {sparse}, "
            f"dense_dim = {dense}"
        )
    _check_rank(places)
    if places.shape[1] != of_values[0]:
        raise RuntimeError(
            f"indices and values must have same nnz, but got nnz from indices: {places.shape[1]}, nnz from values: "
            f"{of_values[0]}"
        )
    if tuple(of_values[1:]) != shape[sparse:]:
        raise RuntimeError(
            f"values has incorrect size, expected {[of_values[0], *shape[sparse:]]}, got {list(of_values)}"
        )


_found_in("gradloom", sparse_coo_tensor)


def spdiags(diagonals: Tensor, offsets: Tensor, shape: Sequence[int], layout: Any = None) -> Tensor:
    """Return a sparse matrix with the rows of a matrix along its diagonals: column j of a row stands in column j.

    Args:
        diagonals: (number of diagonals, length), or (length,) for one.
        offsets: int64 (number of diagonals,) or (): how many columns each begins to the right of the main diagonal.
        shape: sizes of the matrix.
        layout: `torch.sparse_coo` or None.

    Raises RuntimeError for shapes that do not fit, repeated offsets, and offsets beyond the matrix.

    Example:
        >>> gradloom.sparse.spdiags(gradloom.ones(3), gradloom.tensor(1), (3, 3)).to_dense()
    """
    rows, starts = diagonals.unsqueeze(0) if diagonals.dim() < 2 else diagonals, offsets.reshape(-1)
    for is_wrong, problem in (
        (diagonals.dim() > 2, "Diagonals must be vector or matrix"),
        (len(shape) != 2, "Output shape must be 2d"),
        (offsets.dim() > 1, "Offsets must be scalar or vector"),
        (
            len(rows) != len(starts),
            f"Number of diagonals ({len(rows)}) does not match the number of offsets ({len(starts)})",
        ),
        (str(offsets.dtype) != "torch.int64", "Offset Tensor must have dtype Long"),
        (len(set(starts.tolist())) != len(starts), "Offset tensor contains duplicate values"),
        (layout is not None and str(layout) != "torch.sparse_coo", "Only output layouts () are supported: sparse_coo"),
    ):
        if is_wrong:
            raise RuntimeError(f"spdiags(): {problem}")
    height, width = shape
    columns = [np.arange(max(0, k), min(rows.shape[1], width, height + k)) for k in starts.tolist()]
    if any(not -height < k < width for k in starts.tolist()):
        raise RuntimeError(f"spdiags(): an offset is beyond the matrix of {height} rows and {width} columns")
    which = np.repeat(np.arange(len(rows)), [len(part) for part in columns])
    j = np.concatenate([*columns, np.zeros(0, np.int64)]).astype(np.int64)
    i = j - starts.numpy()[which]
    indices = wrap(np.stack([i, j]))
    return sparse_coo_tensor(indices, rows[wrap(which), wrap(j)], (height, width))
