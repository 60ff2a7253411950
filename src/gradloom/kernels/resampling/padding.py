"""Padding of the last dimensions by reflection at, or repetition of, the end elements, and its adjoint.

Every dimension is padded by itself. Its output consists of up to three pieces, each a slice of the input: the left
border, the inner part, which negative paddings crop, and the right border. The adjoint adds the pieces where they come
from. Paddings are pairs of numbers, the last dimension's first.
"""

from __future__ import annotations

import numpy as np

from .._common.errors import not_implemented
from .._common.layout import in_format, row_major, suggested_format
from .._common.numbers import is_half, widen


def _reflected(size: int, left: int, right: int) -> list[tuple[slice, slice]]:
    """Return the pieces of a dimension as (slice of the output, slice of the input)."""
    pieces = _inner(size, left, right)
    out = size + left + right
    if left > 0:
        pieces.append((slice(0, left), slice(left, 0, -1)))
    if right > 0:
        last = size - 2 - right
        pieces.append((slice(out - right, out), slice(size - 2, last if last >= 0 else None, -1)))
    return pieces


def _repeated(size: int, left: int, right: int) -> list[tuple[slice, slice]]:
    """Return the pieces of a dimension; a piece of one input stands for all outputs of its slice."""
    pieces = _inner(size, left, right)
    out = size + left + right
    if left > 0:
        pieces.append((slice(0, min(left, out)), slice(0, 1)))
    if right > 0:
        pieces.append((slice(max(0, out - right), out), slice(size - 1, size)))
    return pieces


def _inner(size: int, left: int, right: int) -> list[tuple[slice, slice]]:
    first, last = max(0, -left), size - max(0, -right)
    return [(slice(first + left, last + left), slice(first, last))] if first < last else []


def _kernels(name: str, dims: int, pieces_of):
    """Return a padding over `dims` dimensions, and its adjoint. `name` is the operator's."""
    reflects = name.startswith("reflection")

    def kernel(self, padding):
        size = _check(name, dims, self, padding)
        if self.dtype.kind == "b":
            raise not_implemented(name, self)
        if reflects:
            _check_reflection(self, padding)
        _check_output(reflects, self.shape[-dims:], size)
        out = self
        for d in range(1, dims + 1):
            left, right = padding[2 * d - 2 : 2 * d]
            if not left and not right:
                continue
            given, out = out, np.empty((*out.shape[:-d], size[-d], *out.shape[out.ndim - d + 1 :]), out.dtype)
            for target, source in pieces_of(given.shape[-d], left, right):
                out[_along(d, target)] = given[_along(d, source)]
        return _laid_out(out, self)

    def backward(grad_output, self, padding):
        size = _check(name, dims, self, padding)
        for d, letter in zip(range(1, dims + 1), ("width", "height", "depth"), strict=False):
            if grad_output.ndim != self.ndim or grad_output.shape[-d] != size[-d]:
                gradient = "grad_output" if name in ("reflection_pad1d", "reflection_pad3d") else "gradOutput"
                comma = "" if name == "replication_pad1d" else ","
                found = grad_output.shape[-d] if d <= grad_output.ndim else 0
                raise RuntimeError(f"{gradient} {letter} unexpected. Expected: {size[-d]}{comma} Got: {found}")
        if grad_output.dtype.kind not in "fc" and not is_half(grad_output.dtype):
            raise not_implemented(f"{name}_backward", grad_output)
        grad = widen(grad_output)
        for d in range(dims, 0, -1):
            left, right = padding[2 * d - 2 : 2 * d]
            if not left and not right:
                continue
            given, grad = (
                grad,
                np.zeros((*grad.shape[:-d], self.shape[-d], *grad.shape[grad.ndim - d + 1 :]), grad.dtype),
            )
            for target, source in pieces_of(self.shape[-d], left, right):
                piece = given[_along(d, target)]
                if not reflects and source.stop - source.start == 1:
                    piece = np.add.reduce(piece, -d, keepdims=True)
                grad[_along(d, source)] += piece
        found = _laid_out(grad.astype(grad_output.dtype, copy=False), self)
        return found.copy() if np.may_share_memory(found, grad_output) else found  # where nothing was padded

    return kernel, backward


def _along(d: int, what: slice) -> tuple:
    """Return the index of a slice of dimension -d."""
    return (Ellipsis, what, *(slice(None),) * (d - 1))


def _laid_out(array: np.ndarray, like: np.ndarray) -> np.ndarray:
    """Copy the result to the memory format of the input: channels-last, or row-major."""
    memory_format = suggested_format(like) if like.ndim == array.ndim else None
    if memory_format is not None:
        return in_format(array, memory_format)
    return array.copy() if array is like else row_major(array)


def _check(name: str, dims: int, x: np.ndarray, padding) -> tuple[int, ...]:
    """Return the spatial sizes of the output."""
    if len(padding) != 2 * dims:
        got = f", but got: {len(padding)}" if name.startswith("reflection") else ""
        raise RuntimeError(f"padding size is expected to be {2 * dims}{got}")
    if x.ndim not in (dims + 1, dims + 2) or 0 in x.shape[x.ndim - dims - 1 :]:
        raise RuntimeError(
            f"Expected {dims + 1}D or {dims + 2}D (batch mode) tensor with possibly 0 batch size and other non-zero "
            f"dimensions for input, but got: {list(x.shape)}"
        )
    return tuple(x.shape[-d] + padding[2 * d - 2] + padding[2 * d - 1] for d in range(dims, 0, -1))


def _check_reflection(x: np.ndarray, padding) -> None:
    for d in range(1, len(padding) // 2 + 1):
        left, right = padding[2 * d - 2 : 2 * d]
        if left >= x.shape[-d] or right >= x.shape[-d]:
            raise RuntimeError(
                f"Argument #{2 * d + 2}: Padding size should be less than the corresponding input dimension, but got: "
                f"padding ({left}, {right}) at dimension {x.ndim - d} of input {list(x.shape)}"
            )


def _check_output(reflects: bool, before, after) -> None:
    if min(after) > 0:
        return
    dims = len(after)
    sizes = (f"{letter}: {n}" for letter, n in zip("DHW"[3 - dims :], before, strict=True))
    joined = ("{}", "{}, {}" if reflects else "{}, {} ", "{} {}, {}")[dims - 1].format(*sizes)
    found = " ".join(f"{letter}: {n}" for letter, n in zip("DHW"[3 - dims :], after, strict=True))
    raise RuntimeError(f"input ({joined}) is too small. Calculated output {found}")


reflection_pad1d, reflection_pad1d_backward = _kernels("reflection_pad1d", 1, _reflected)
reflection_pad2d, reflection_pad2d_backward = _kernels("reflection_pad2d", 2, _reflected)
reflection_pad3d, reflection_pad3d_backward = _kernels("reflection_pad3d", 3, _reflected)
replication_pad1d, replication_pad1d_backward = _kernels("replication_pad1d", 1, _repeated)
replication_pad2d, replication_pad2d_backward = _kernels("replication_pad2d", 2, _repeated)
replication_pad3d, replication_pad3d_backward = _kernels("replication_pad3d", 3, _repeated)
