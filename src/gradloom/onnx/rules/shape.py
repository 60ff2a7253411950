"""Rules of operators that move elements: shapes, indexing, joins, and constants."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import gradloom as gl

from ..fx.node import Node
from ._builder import Builder, Unsupported, rule
from ._rules_elementwise import node_name

_END = 2**63 - 1


@rule("view", "_unsafe_view", "reshape", "_reshape_alias")
def _view(b: Builder, node: Node, x: Node, sizes: Sequence[Any], *strides: Any) -> str:
    if not isinstance(sizes, (list, tuple)):
        raise Unsupported("a view of another dtype")
    return b.reshape(x, sizes)


@rule("expand")
def _expand(b: Builder, node: Node, x: Node, sizes: Sequence[Any], **options: Any) -> str:
    return str(b.op("Expand", x, b.sizes([1 if size == -1 else size for size in sizes])))


@rule("t", "transpose", "permute")
def _permute(b: Builder, node: Node, x: Node, *dims: Any) -> str:
    order = list(range(len(b.shape(x))))
    if node_name(node) == "permute":
        order = [b.dim(x, dim) for dim in dims[0]]
    elif len(order) > 1:
        left, right = (b.dim(x, dim) for dim in dims or (0, 1))
        order[left], order[right] = order[right], order[left]
    return str(b.op("Transpose", x, perm=order))


@rule("unsqueeze")
def _unsqueeze(b: Builder, node: Node, x: Node, dim: int) -> str:
    return str(b.op("Unsqueeze", x, b.constant([dim])))


@rule("squeeze")
def _squeeze(b: Builder, node: Node, x: Node, dims: Any = None) -> str:
    shape = b.shape(x)
    wanted = range(len(shape)) if dims is None else [dims] if isinstance(dims, int) else dims
    ones = sorted({b.dim(x, dim) for dim in wanted if shape and shape[dim] == 1})
    return str(b.op("Squeeze", x, b.constant(ones)) if ones else b.op("Identity", x))


@rule("cat")
def _cat(b: Builder, node: Node, tensors: Sequence[Node], dim: int = 0) -> str:
    given = [x for x in tensors if b.shape(x) != (0,)] or list(tensors[:1])
    return str(b.op("Concat", *b.operands(b.dtype(node), *given), axis=dim))


@rule("stack")
def _stack(b: Builder, node: Node, tensors: Sequence[Node], dim: int = 0) -> str:
    place = b.constant([dim])
    parts = [b.op("Unsqueeze", b.cast(x, b.dtype(node)), place) for x in tensors]
    return str(b.op("Concat", *parts, axis=dim))


@rule("split", "unsafe_split", "split_with_sizes", "unbind")
def _split(b: Builder, node: Node, x: Node, size: Any = None, dim: int = 0) -> list[str]:
    if node_name(node) == "unbind":
        dim, size = (size or 0), 1
    length = b.fixed(x, (dim,))[dim]
    if isinstance(size, int):
        size = [min(size, length - start) for start in range(0, max(length, 1), size)]
    sizes = [int(part) for part in size]
    if len(sizes) == 1:
        found = [b.op("Identity", x)]
    else:
        found = b.op("Split", x, b.constant(sizes), outputs=len(sizes), axis=dim)
    if node_name(node) == "unbind":
        found = [b.op("Squeeze", part, b.constant([dim])) for part in found]
    return list(found)


@rule("select")
def _select(b: Builder, node: Node, x: Node, dim: int, index: int) -> str:
    return str(b.op("Gather", x, b.constant(index), axis=dim))


@rule("slice")
def _slice(b: Builder, node: Node, x: Node, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> str:
    bounds = [b.sizes([start or 0]), b.sizes([_END if end is None else end])]
    return str(b.op("Slice", x, *bounds, b.constant([dim]), b.constant([step])))


@rule("flip")
def _flip(b: Builder, node: Node, x: Node, dims: Sequence[int]) -> str:
    count = len(dims)
    bounds = [b.constant([-1] * count), b.constant([-_END] * count)]
    return str(b.op("Slice", x, *bounds, b.constant(list(dims)), b.constant([-1] * count)))


@rule("roll")
def _roll(b: Builder, node: Node, x: Node, shifts: Sequence[int], dims: Sequence[int] = ()) -> str:
    found = b.name(x) if dims else b.reshape(x, [-1])
    for shift, dim in zip(shifts, dims or (0,), strict=True):
        length = b.fixed(x, (dim,))[dim] if dims else math.prod(b.fixed(x))
        cut, axis = b.constant([-(shift % length) if length else 0]), b.constant([dim])
        if length and shift % length:
            tail = b.op("Slice", found, cut, b.constant([_END]), axis)
            found = b.op("Concat", tail, b.op("Slice", found, b.constant([0]), cut, axis), axis=dim)
    return found if dims else str(b.op("Reshape", found, b.op("Shape", x)))


@rule("repeat")
def _repeat(b: Builder, node: Node, x: Node, repeats: Sequence[Any]) -> str:
    added = len(repeats) - len(b.shape(x))
    found = b.op("Unsqueeze", x, b.constant(list(range(added)))) if added else b.name(x)
    return str(b.op("Tile", found, b.sizes(repeats)))


@rule("triu", "tril")
def _triangle(b: Builder, node: Node, x: Node, diagonal: int = 0) -> str:
    is_bool = b.dtype(x) == gl.bool
    found = b.op(
        "Trilu", b.cast(x, gl.int64) if is_bool else x, b.constant(diagonal), upper=int(node_name(node) == "triu")
    )
    return b.cast(found, gl.bool, gl.int64) if is_bool else str(found)


@rule("constant_pad_nd", "reflection_pad", "replication_pad")
def _pad(b: Builder, node: Node, x: Node, pad: Sequence[int], value: float = 0) -> str:
    dims = len(b.shape(x))
    before, after = [0] * dims, [0] * dims
    for number in range(len(pad) // 2):
        before[dims - 1 - number], after[dims - 1 - number] = pad[2 * number], pad[2 * number + 1]
    mode = {"constant": "constant", "reflecti": "reflect", "replicat": "edge"}[node_name(node)[:8]]
    filler = b.constant(value, b.dtype(x)) if mode == "constant" else None
    return str(b.op("Pad", x, b.constant([*before, *after]), filler, mode=mode))


@rule("pixel_shuffle", "pixel_unshuffle")
def _pixel_shuffle(b: Builder, node: Node, x: Node, factor: int) -> str:
    if len(b.shape(x)) != 4:
        raise Unsupported("other than four dimensions")
    if node_name(node) == "pixel_shuffle":
        return str(b.op("DepthToSpace", x, blocksize=factor, mode="CRD"))
    _, channels, height, width = b.fixed(x, (1, 2, 3))
    split = b.reshape(x, [-1, channels, height // factor, factor, width // factor, factor])
    moved = b.op("Transpose", split, perm=[0, 1, 3, 5, 2, 4])
    return b.reshape(moved, [-1, channels * factor**2, height // factor, width // factor])


# --- indexing ---


@rule("gather")
def _gather(b: Builder, node: Node, x: Node, dim: int, index: Node, **options: Any) -> str:
    return str(b.op("GatherElements", x, index, axis=dim))


@rule("index_select")
def _index_select(b: Builder, node: Node, x: Node, dim: int, index: Node) -> str:
    return str(b.op("Gather", x, index, axis=dim))


@rule("embedding")
def _embedding(b: Builder, node: Node, weight: Node, index: Node, *options: Any) -> str:
    return str(b.op("Gather", weight, index, axis=0))


@rule("scatter", "scatter_add")
def _scatter(b: Builder, node: Node, x: Node, dim: int, index: Node, value: Any, *, reduce: Any = None) -> str:
    if reduce is not None:
        raise Unsupported("reduce")
    sizes = b.op("Shape", index)
    if isinstance(value, Node):  # PyTorch takes the first elements of a larger one
        dims = list(range(len(b.shape(value))))
        value = b.op("Slice", value, b.constant([0] * len(dims)), sizes, b.constant(dims)) if dims else value
    else:
        value = b.op("Expand", b.constant(value, b.dtype(x)), sizes)
    reduction = "add" if node_name(node) == "scatter_add" else None
    return str(b.op("ScatterElements", x, index, value, axis=dim, reduction=reduction))


@rule("index")
def _index(b: Builder, node: Node, x: Node, indices: Sequence[Node | None]) -> str:
    used = [(dim, index) for dim, index in enumerate(indices) if index is not None]
    dims = [dim for dim, _ in used]
    if len(used) == 1 and b.dtype(used[0][1]) != gl.bool:
        return str(b.op("Gather", x, b.cast(used[0][1], gl.int64), axis=dims[0]))
    if dims != list(range(len(dims))):
        raise Unsupported("several index tensors that are not in the first dimensions, or a mask that is not")
    if len(used) == 1:
        return str(b.op("GatherND", x, b.op("Transpose", b.op("NonZero", used[0][1]), perm=[1, 0])))
    if any(b.dtype(index) in (gl.bool, gl.uint8) for _, index in used):
        raise Unsupported("a mask among several index tensors")
    shape = b.constant(list(gl.broadcast_shapes(*[b.fixed(index) for _, index in used])))
    last = b.constant([-1])
    parts = [b.op("Unsqueeze", b.op("Expand", b.cast(index, gl.int64), shape), last) for _, index in used]
    return str(b.op("GatherND", x, b.op("Concat", *parts, axis=-1)))


@rule("one_hot")
def _one_hot(b: Builder, node: Node, x: Node, classes: int = -1) -> str:
    if classes == -1:
        raise Unsupported("a number of classes that depends on the values")
    return str(b.op("OneHot", x, b.constant(classes), b.constant([0, 1]), axis=-1))


# --- constants ---


@rule("zeros", "ones", "full", "empty", "zeros_like", "ones_like", "full_like", "empty_like", "new_zeros", "new_full")
def _full(b: Builder, node: Node, *args: Any, **options: Any) -> str:
    name = node_name(node)
    is_like = name.endswith("_like")
    sizes = args[1] if name.startswith("new_") else args[0]
    value = 1 if name.startswith("ones") else args[-1] if "full" in name else 0
    shape = b.op("Shape", args[0]) if is_like else b.sizes(sizes)
    return str(b.op("Expand", b.constant(value, b.dtype(node)), shape))


@rule("arange")
def _arange(b: Builder, node: Node, *args: Any, **options: Any) -> str:
    start, end, step = (0, args[0], 1) if len(args) == 1 else (args[0], args[1], args[2] if len(args) > 2 else 1)
    dtype = b.dtype(node)

    def scalar(value: Any) -> str:
        if type(value) in (int, float):
            return b.constant(value, dtype)
        return b.cast(b.op("Squeeze", b.sizes([value])), dtype, gl.int64)

    return str(b.op("Range", scalar(start), scalar(end), scalar(step)))


@rule("scalar_tensor")
def _scalar_tensor(b: Builder, node: Node, value: Any, **options: Any) -> str:
    return b.constant(value, b.dtype(node))
