"""Rules of operators for which ONNX has one, whose name the entry gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gradloom as gl

from ...fx.node import Node
from .._builder import Builder


def unary(kind: str, b: Builder, node: Node, x: Node) -> Any:
    """Apply ONNX's operator to a tensor in the dtype of the result."""
    return b.op(kind, b.cast(x, b.dtype(node)))


def rounding(kind: str, b: Builder, node: Node, x: Node) -> Any:
    """Round; integers are round."""
    return b.op(kind, x) if b.dtype(x).is_floating_point else b.name(x)


def test(kind: str, b: Builder, node: Node, x: Node) -> Any:
    """Test for special values, of which integers have none."""
    return b.op(kind, x) if b.dtype(x).is_floating_point else b.op("Not", b.op("Equal", x, x))


def binary(kind: str, b: Builder, node: Node, x: Any, y: Any) -> Any:
    """Apply ONNX's operator to two operands in the dtype of the result."""
    return b.op(kind, *b.operands(b.dtype(node), x, y))


def compare(kind: str, b: Builder, node: Node, x: Any, y: Any) -> Any:
    """Compare two operands in their common dtype; ONNX does not order booleans."""
    dtype = b.common(x, y)
    return b.op(kind, *b.operands(gl.int32 if dtype == gl.bool and kind != "Equal" else dtype, x, y))


def logical(kind: str, b: Builder, node: Node, x: Node, y: Node) -> Any:
    """Apply ONNX's operator to two truth values."""
    return b.op(kind, *b.operands(gl.bool, x, y))


def bitwise(kind: str, b: Builder, node: Node, x: Any, y: Any) -> Any:
    """Apply ONNX's operator to two booleans, or its form for integers."""
    dtype = b.dtype(node)
    return b.op(kind if dtype == gl.bool else f"Bitwise{kind}", *b.operands(dtype, x, y))


def reduce(kind: str, b: Builder, node: Node, x: Node, dims: Any = None, keepdim: bool = False, **options: Any) -> Any:
    """Reduce dimensions, or all of them."""
    return b.reduce(kind, b.cast(x, b.dtype(node)), dims_of(dims), keepdim)


def dims_of(dims: Any) -> list[int] | None:
    """Return the dimensions of a reduction as a list; None for all."""
    return None if dims is None else [dims] if isinstance(dims, int) else list(dims)


def extremum(kind: str, b: Builder, node: Node, x: Node, dim: Any = None, keepdim: bool = False) -> Any:
    """Return the larger or smaller of two tensors, of all elements, or along a dimension with its index."""
    if isinstance(dim, Node):
        return b.op(kind, *b.operands(b.dtype(node), x, dim))
    if dim is None:
        return b.reduce(f"Reduce{kind}", x, None, False)
    index = b.op(f"Arg{kind}", x, axis=dim, keepdims=int(keepdim))
    return [b.reduce(f"Reduce{kind}", x, [dim], keepdim), index]


def arg_extremum(kind: str, b: Builder, node: Node, x: Node, dim: int | None = None, keepdim: bool = False) -> Any:
    """Return the index of the largest or smallest element, of all elements or along a dimension."""
    if dim is None:
        return b.op(kind, b.reshape(x, [-1]), axis=0, keepdims=0)
    return b.op(kind, x, axis=dim, keepdims=int(keepdim))


def softmax(kind: str, b: Builder, node: Node, x: Node, dim: int, *options: Any, **named: Any) -> Any:
    """Normalize exponentials along a dimension."""
    return b.op(kind, b.cast(x, b.dtype(node)), axis=dim)


def upsample(
    mode: str, b: Builder, node: Node, x: Node, size: Sequence[int], align: bool = False, *scales: float | None
) -> Any:
    """Resample images; `align` aligns the corners."""
    place = "align_corners" if align else "half_pixel"
    return resized(b, x, size, () if align else scales, mode, place, cubic_coeff_a=-0.75 if mode == "cubic" else None)


def upsample_nearest(b: Builder, node: Node, x: Node, size: Sequence[int], *scales: float | None) -> Any:
    """Resample images by the nearest element below."""
    return resized(b, x, size, scales, "nearest", "asymmetric", nearest_mode="floor")


def resized(b: Builder, x: Node, size: Any, scales: Sequence[float | None], mode: str, place: str, **more: Any) -> Any:
    """Return images of a size, or by factors if all are given."""
    attributes: dict[str, Any] = dict(mode=mode, coordinate_transformation_mode=place, **more)
    if scales and all(scale is not None for scale in scales):
        return b.op("Resize", x, None, b.constant([1.0, 1.0, *scales], gl.float32), **attributes)
    sizes = b.op("Concat", b.op("Shape", x, start=0, end=2), b.sizes(size), axis=0)
    return b.op("Resize", x, None, None, sizes, **attributes)
