"""Rules of operators that move elements: shapes, indexing, joins, and constants."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import gradloom as gl

from ...fx.node import Node
from .._builder import Builder, Unsupported

_END = 2**63 - 1


def view(b: Builder, node: Node, x: Node, sizes: Sequence[Any], *strides: Any) -> str:
    """Return the elements in another shape."""
    if not isinstance(sizes, (list, tuple)):
        raise Unsupported("a view of another dtype")
    return b.reshape(x, sizes)


def expand(b: Builder, node: Node, x: Node, sizes: Sequence[Any], **options: Any) -> Any:
    """Repeat along dimensions of size 1."""
    return b.op("Expand", x, b.sizes([1 if size == -1 else size for size in sizes]))


def permute(b: Builder, node: Node, x: Node, dims: Sequence[int]) -> Any:
    """Reorder dimensions."""
    return b.op("Transpose", x, perm=[b.dim(x, dim) for dim in dims])


def transpose(b: Builder, node: Node, x: Node, dim0: int = 0, dim1: int = 1) -> Any:
    """Swap two dimensions; the first two by default."""
    order = list(range(len(b.shape(x))))
    if len(order) > 1:
        left, right = b.dim(x, dim0), b.dim(x, dim1)
        order[left], order[right] = order[right], order[left]
    return b.op("Transpose", x, perm=order)


def unsqueeze(b: Builder, node: Node, x: Node, dim: int) -> Any:
    """Insert a dimension of size 1."""
    return b.op("Unsqueeze", x, b.constant([dim]))


def squeeze(b: Builder, node: Node, x: Node, dims: Any = None) -> Any:
    """Remove dimensions of size 1."""
    shape = b.shape(x)
    wanted = range(len(shape)) if dims is None else [dims] if isinstance(dims, int) else dims
    ones = sorted({b.dim(x, dim) for dim in wanted if shape and shape[dim] == 1})
    return b.op("Squeeze", x, b.constant(ones)) if ones else b.op("Identity", x)


def cat(b: Builder, node: Node, tensors: Sequence[Node], dim: int = 0) -> Any:
    """Join along a dimension; empty tensors of one dimension are left out."""
    given = [x for x in tensors if b.shape(x) != (0,)] or list(tensors[:1])
    return b.op("Concat", *b.operands(b.dtype(node), *given), axis=dim)


def stack(b: Builder, node: Node, tensors: Sequence[Node], dim: int = 0) -> Any:
    """Join along a new dimension."""
    place = b.constant([dim])
    parts = [b.op("Unsqueeze", b.cast(x, b.dtype(node)), place) for x in tensors]
    return b.op("Concat", *parts, axis=dim)


def unbind(b: Builder, node: Node, x: Node, dim: int = 0) -> list[str]:
    """Return the parts at each index of a dimension."""
    return [b.op("Squeeze", part, b.constant([dim])) for part in split(b, node, x, 1, dim)]


def split(b: Builder, node: Node, x: Node, size: Any, dim: int = 0) -> list[str]:
    """Return parts of a size, or of several."""
    length = b.fixed(x, (dim,))[dim]
    if isinstance(size, int):
        size = [min(size, length - start) for start in range(0, max(length, 1), size)]
    sizes = [int(part) for part in size]
    if len(sizes) == 1:
        return [b.op("Identity", x)]
    return list(b.op("Split", x, b.constant(sizes), outputs=len(sizes), axis=dim))


def select(b: Builder, node: Node, x: Node, dim: int, index: int) -> Any:
    """Return the part at an index of a dimension."""
    return b.op("Gather", x, b.constant(index), axis=dim)


def slice(b: Builder, node: Node, x: Node, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    """Return a range of a dimension."""
    bounds = [b.sizes([start or 0]), b.sizes([_END if end is None else end])]
    return b.op("Slice", x, *bounds, b.constant([dim]), b.constant([step]))


def flip(b: Builder, node: Node, x: Node, dims: Sequence[int]) -> Any:
    """Reverse dimensions."""
    count = len(dims)
    bounds = [b.constant([-1] * count), b.constant([-_END] * count)]
    return b.op("Slice", x, *bounds, b.constant(list(dims)), b.constant([-1] * count))


def roll(b: Builder, node: Node, x: Node, shifts: Sequence[int], dims: Sequence[int] = ()) -> str:
    """Move elements along dimensions, around the ends."""
    found = b.name(x) if dims else b.reshape(x, [-1])
    for shift, dim in zip(shifts, dims or (0,), strict=True):
        length = b.fixed(x, (dim,))[dim] if dims else math.prod(b.fixed(x))
        cut, axis = b.constant([-(shift % length) if length else 0]), b.constant([dim])
        if length and shift % length:
            tail = b.op("Slice", found, cut, b.constant([_END]), axis)
            found = b.op("Concat", tail, b.op("Slice", found, b.constant([0]), cut, axis), axis=dim)
    return found if dims else str(b.op("Reshape", found, b.op("Shape", x)))


def repeat(b: Builder, node: Node, x: Node, repeats: Sequence[Any]) -> Any:
    """Repeat the whole tensor."""
    added = len(repeats) - len(b.shape(x))
    found = b.op("Unsqueeze", x, b.constant(list(range(added)))) if added else b.name(x)
    return b.op("Tile", found, b.sizes(repeats))


def triangle(upper: int, b: Builder, node: Node, x: Node, diagonal: int = 0) -> str:
    """Zero the elements below a diagonal (1) or above it (0)."""
    is_bool = b.dtype(x) == gl.bool
    found = b.op("Trilu", b.cast(x, gl.int64) if is_bool else x, b.constant(diagonal), upper=upper)
    return b.cast(found, gl.bool, gl.int64) if is_bool else str(found)


def pad(
    mode: Literal["constant", "reflect", "edge"], b: Builder, node: Node, x: Node, pad: Sequence[int], value: float = 0
) -> Any:
    """Pad the last dimensions."""
    dims = len(b.shape(x))
    before, after = [0] * dims, [0] * dims
    for number in range(len(pad) // 2):
        before[dims - 1 - number], after[dims - 1 - number] = pad[2 * number], pad[2 * number + 1]
    filler = b.constant(value, b.dtype(x)) if mode == "constant" else None
    return b.op("Pad", x, b.constant([*before, *after]), filler, mode=mode)


def pixel_shuffle(b: Builder, node: Node, x: Node, factor: int) -> Any:
    """Move channels into space."""
    if len(b.shape(x)) != 4:
        raise Unsupported("other than four dimensions")
    return b.op("DepthToSpace", x, blocksize=factor, mode="CRD")


def pixel_unshuffle(b: Builder, node: Node, x: Node, factor: int) -> str:
    """Move space into channels."""
    if len(b.shape(x)) != 4:
        raise Unsupported("other than four dimensions")
    _, channels, height, width = b.fixed(x, (1, 2, 3))
    split = b.reshape(x, [-1, channels, height // factor, factor, width // factor, factor])
    moved = b.op("Transpose", split, perm=[0, 1, 3, 5, 2, 4])
    return b.reshape(moved, [-1, channels * factor**2, height // factor, width // factor])


# --- indexing ---


def gather(b: Builder, node: Node, x: Node, dim: int, index: Node, **options: Any) -> Any:
    """Return the elements at the indices of a dimension."""
    return b.op("GatherElements", x, index, axis=dim)


def index_select(b: Builder, node: Node, x: Node, dim: int, index: Node) -> Any:
    """Return the parts at the indices of a dimension."""
    return b.op("Gather", x, index, axis=dim)


def embedding(b: Builder, node: Node, weight: Node, index: Node, *options: Any) -> Any:
    """Return rows of a table."""
    return b.op("Gather", weight, index, axis=0)


def scatter(b: Builder, node: Node, x: Node, dim: int, index: Node, value: Any) -> Any:
    """Overwrite the elements at the indices of a dimension."""
    return b.op("ScatterElements", x, index, _scattered(b, x, index, value), axis=dim)


def scatter_add(b: Builder, node: Node, x: Node, dim: int, index: Node, value: Node) -> Any:
    """Add to the elements at the indices of a dimension."""
    return b.op("ScatterElements", x, index, _scattered(b, x, index, value), axis=dim, reduction="add")


def _scattered(b: Builder, x: Node, index: Node, value: Any) -> Any:
    """Return the values in the shape of the index."""
    sizes = b.op("Shape", index)
    if isinstance(value, Node):  # PyTorch takes the first elements of a larger one
        dims = list(range(len(b.shape(value))))
        return b.op("Slice", value, b.constant([0] * len(dims)), sizes, b.constant(dims)) if dims else value
    return b.op("Expand", b.constant(value, b.dtype(x)), sizes)


def index(b: Builder, node: Node, x: Node, indices: Sequence[Node | None]) -> Any:
    """Return the elements at the indices of several dimensions, or where a mask is true."""
    used = [(dim, index) for dim, index in enumerate(indices) if index is not None]
    dims = [dim for dim, _ in used]
    if len(used) == 1 and b.dtype(used[0][1]) != gl.bool:
        return b.op("Gather", x, b.cast(used[0][1], gl.int64), axis=dims[0])
    if dims != list(range(len(dims))):
        raise Unsupported("several index tensors that are not in the first dimensions, or a mask that is not")
    if len(used) == 1:
        return b.op("GatherND", x, b.op("Transpose", b.op("NonZero", used[0][1]), perm=[1, 0]))
    if any(b.dtype(index) in (gl.bool, gl.uint8) for _, index in used):
        raise Unsupported("a mask among several index tensors")
    shape = b.constant(list(gl.broadcast_shapes(*[b.fixed(index) for _, index in used])))
    last = b.constant([-1])
    parts = [b.op("Unsqueeze", b.op("Expand", b.cast(index, gl.int64), shape), last) for _, index in used]
    return b.op("GatherND", x, b.op("Concat", *parts, axis=-1))


def one_hot(b: Builder, node: Node, x: Node, classes: int = -1) -> Any:
    """Return a row of zeros with a one at each index."""
    if classes == -1:
        raise Unsupported("a number of classes that depends on the values")
    return b.op("OneHot", x, b.constant(classes), b.constant([0, 1]), axis=-1)


# --- constants ---


def constant(value: int, b: Builder, node: Node, size: Sequence[Any], **options: Any) -> Any:
    """Return a tensor of one number."""
    return full(b, node, size, value)


def constant_like(value: int, b: Builder, node: Node, x: Node, **options: Any) -> Any:
    """Return a tensor of one number in the shape of another."""
    return full_like(b, node, x, value)


def full(b: Builder, node: Node, size: Sequence[Any], value: Any, **options: Any) -> Any:
    """Return a tensor of a given number."""
    return b.op("Expand", b.constant(value, b.dtype(node)), b.sizes(size))


def full_like(b: Builder, node: Node, x: Node, value: Any, **options: Any) -> Any:
    """Return a tensor of a given number in the shape of another."""
    return b.op("Expand", b.constant(value, b.dtype(node)), b.op("Shape", x))


def new_zeros(b: Builder, node: Node, x: Node, size: Sequence[Any], **options: Any) -> Any:
    """Return a tensor of zeros."""
    return full(b, node, size, 0)


def new_full(b: Builder, node: Node, x: Node, size: Sequence[Any], value: Any, **options: Any) -> Any:
    """Return a tensor of a given number."""
    return full(b, node, size, value)


def arange(b: Builder, node: Node, *args: Any, **options: Any) -> Any:
    """Return a range of numbers."""
    start, end, step = (0, args[0], 1) if len(args) == 1 else (args[0], args[1], args[2] if len(args) > 2 else 1)
    dtype = b.dtype(node)

    def scalar(value: Any) -> str:
        if type(value) in (int, float):
            return b.constant(value, dtype)
        return b.cast(b.op("Squeeze", b.sizes([value])), dtype, gl.int64)

    return b.op("Range", scalar(start), scalar(end), scalar(step))


def scalar_tensor(b: Builder, node: Node, value: Any, **options: Any) -> str:
    """Return a number as a tensor."""
    return b.constant(value, b.dtype(node))


# --- copies -----------------------------------------------------------------------------------------------------------


def copy(b: Builder, node: Node, x: Node, **options: Any) -> Any:
    """Return a tensor, perhaps in another dtype."""
    dtype = b.dtype(node)
    return b.op("Identity", x) if dtype == b.dtype(x) else b.cast(x, dtype)


def overwritten(b: Builder, node: Node, x: Node, value: Any, *rest: Any) -> Any:
    """Return values in the shape and dtype of a tensor."""
    return b.op("Expand", b.cast(value, b.dtype(x)), b.op("Shape", x))
