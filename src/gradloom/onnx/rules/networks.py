"""Rules of products, reductions, normalizations and operators of layers of networks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import gradloom as gl

from ...fx.node import Node
from .._builder import Builder, Unsupported
from .general import dims_of

# --- products ---


def matmul(b: Builder, node: Node, x: Node, y: Node) -> Any:
    """Multiply matrices or vectors."""
    return b.op("MatMul", x, y)


def addmm(b: Builder, node: Node, bias: Node, x: Node, y: Node, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """Add a product of matrices."""
    return b.op("Gemm", x, y, bias, alpha=float(alpha), beta=float(beta))


def baddbmm(b: Builder, node: Node, bias: Node, x: Node, y: Node, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """Add the products of two batches of matrices."""
    dtype = b.dtype(node)
    product = b.op("Mul", b.op("MatMul", x, y), b.constant(alpha, dtype))
    return b.op("Add", b.op("Mul", bias, b.constant(beta, dtype)), product)


# --- reductions ---


def truth(kind: str, b: Builder, node: Node, x: Node, dims: Any = None, keepdim: bool = False) -> Any:
    """Reduce truth values, as numbers."""
    value = b.cast(b.cast(x, gl.bool), gl.int32, gl.bool)
    found = b.reduce(kind, value, dims_of(dims), keepdim)
    return b.cast(found, gl.bool, gl.int32)


def std(b: Builder, node: Node, x: Node, dims: Any = None, *, correction: Any = 1, keepdim: bool = False) -> Any:
    """Return the standard deviation."""
    return b.op("Sqrt", var(b, node, x, dims, correction=correction, keepdim=keepdim))


def var(b: Builder, node: Node, x: Node, dims: Any = None, *, correction: Any = 1, keepdim: bool = False) -> Any:
    """Return the variance."""
    axes = dims_of(dims) or list(range(len(b.shape(x))))
    sizes = b.op("Gather", b.op("Shape", x), b.constant(axes))
    count = b.cast(b.op("ReduceProd", sizes, keepdims=0), b.dtype(x), gl.int64)
    centered = b.op("Sub", x, b.reduce("ReduceMean", x, axes, True))
    squares = b.reduce("ReduceSum", b.op("Mul", centered, centered), axes, keepdim)
    return b.op("Div", squares, b.op("Sub", count, b.constant(1 if correction is None else correction, b.dtype(x))))


def norm(
    b: Builder, node: Node, x: Node, order: Any = 2, dims: Any = None, keepdim: bool = False, **options: Any
) -> Any:
    """Return the norm of an order."""
    if order in (1, 2):
        return b.reduce(f"ReduceL{int(order)}", x, dims_of(dims), keepdim)
    if order in (math.inf, -math.inf):
        return b.reduce("ReduceMax" if order > 0 else "ReduceMin", b.op("Abs", x), dims_of(dims), keepdim)
    dtype = b.dtype(node)
    powers = b.op("Pow", b.op("Abs", x), b.constant(order, dtype))
    return b.op("Pow", b.reduce("ReduceSum", powers, dims_of(dims), keepdim), b.constant(1 / order, dtype))


def cumsum(b: Builder, node: Node, x: Node, dim: int, **options: Any) -> Any:
    """Add up along a dimension."""
    return b.op("CumSum", b.cast(x, b.dtype(node)), b.constant(dim))


def topk(
    b: Builder, node: Node, x: Node, count: int, dim: int = -1, largest: bool = True, ordered: bool = True
) -> list[str]:
    """Return the largest or smallest elements along a dimension, and their indices."""
    options = dict(axis=dim, largest=int(largest), sorted=int(ordered))
    return list(b.op("TopK", x, b.constant([count]), outputs=2, **options))


def sort(b: Builder, node: Node, x: Node, dim: int = -1, descending: bool = False, **options: Any) -> list[str]:
    """Sort along a dimension."""
    count = b.op("Shape", x, start=b.dim(x, dim), end=b.dim(x, dim) + 1)
    return list(b.op("TopK", x, count, outputs=2, axis=dim, largest=int(bool(descending)), sorted=1))


# --- normalizations ---


def layer_norm(b: Builder, node: Node, x: Node, shape: Sequence[int], weight: Any, bias: Any, eps: float) -> list[Any]:
    """Normalize over the last dimensions."""
    weight = weight if weight is not None else b.constant(gl.ones(tuple(int(size) for size in shape), dtype=b.dtype(x)))
    return [b.op("LayerNormalization", x, weight, bias, axis=-len(shape), epsilon=eps), None, None]


def batch_norm(
    b: Builder, node: Node, x: Node, weight: Any, bias: Any, mean: Any, var: Any, *options: Any
) -> list[Any]:
    """Normalize channels, by running statistics if there are any."""
    training, _, eps = (False, *options) if len(options) == 2 else options
    dtype = b.dtype(x)
    if training and mean is not None:
        raise Unsupported("batch normalization in training, which updates its running statistics: call model.eval()")
    if training or mean is None:
        axes = [dim for dim in range(len(b.shape(x))) if dim != 1]
        found = _normalized(b, x, axes, eps, dtype)
        return [_affine(b, found, weight, bias, len(b.shape(x))), None, None]
    channels = b.fixed(x, (1,))[1]
    weight = weight if weight is not None else b.constant(gl.ones(channels, dtype=dtype))
    bias = bias if bias is not None else b.constant(gl.zeros(channels, dtype=dtype))
    return [b.op("BatchNormalization", x, weight, bias, mean, var, epsilon=eps), None, None]


def _normalized(b: Builder, x: Any, axes: list[int], eps: float, dtype: Any) -> str:
    centered = b.op("Sub", x, b.reduce("ReduceMean", x, axes, True))
    var = b.reduce("ReduceMean", b.op("Mul", centered, centered), axes, True)
    return b.op("Div", centered, b.op("Sqrt", b.op("Add", var, b.constant(eps, dtype))))


def _affine(b: Builder, x: str, weight: Any, bias: Any, dims: int) -> str:
    """Scale and shift the channels, dimension 1."""
    for kind, value in (("Mul", weight), ("Add", bias)):
        if value is not None:
            x = b.op(kind, x, b.reshape(value, [-1] + [1] * (dims - 2)))
    return x


def group_norm(b: Builder, node: Node, x: Node, weight: Any, bias: Any, *options: Any) -> list[Any]:
    """Normalize groups of channels."""
    *_, groups, eps = options
    flat = b.op("Reshape", x, b.constant([0, groups, -1]))
    found = b.op("Reshape", _normalized(b, flat, [2], eps, b.dtype(x)), b.op("Shape", x))
    return [_affine(b, found, weight, bias, len(b.shape(x))), None, None]


# --- convolution, pooling, resampling ---


def convolution(
    b: Builder,
    node: Node,
    x: Node,
    weight: Node,
    bias: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Any:
    """Convolve, or convolve transposed."""
    dims = len(b.shape(x)) - 2

    def spread(values: Sequence[int]) -> list[int]:
        return list(values) * dims if len(values) == 1 else list(values)

    options: dict[str, Any] = dict(
        strides=spread(stride), pads=spread(padding) * 2, dilations=spread(dilation), group=groups
    )
    if transposed:
        options["output_padding"] = spread(output_padding)
    return b.op("ConvTranspose" if transposed else "Conv", x, weight, bias, **options)


def _window(
    b: Builder, x: Node, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int]
) -> dict[str, Any]:
    dims = 3 if len(kernel) == 3 else len(kernel) if len(kernel) > 1 else len(b.shape(x)) - 2

    def spread(values: Sequence[int]) -> list[int]:
        return list(values) * dims if len(values) == 1 else list(values)

    if len(b.shape(x)) != dims + 2:
        raise Unsupported("an input without a batch dimension")
    return dict(kernel_shape=spread(kernel), strides=spread(stride or kernel), pads=spread(padding) * 2)


def max_pool_with_indices(b: Builder, node: Node, x: Node, *window: Any) -> list[Any]:
    """Return the maxima of windows, without their indices."""
    return [max_pool(b, node, x, *window), None]


def max_pool(
    b: Builder,
    node: Node,
    x: Node,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> Any:
    """Return the maxima of windows."""
    window = _window(b, x, kernel, stride, padding)
    dilations = list(dilation) * len(window["strides"]) if len(dilation) == 1 else list(dilation)
    return b.op("MaxPool", x, **window, dilations=dilations, ceil_mode=int(ceil_mode))


def avg_pool(
    b: Builder,
    node: Node,
    x: Node,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """Return the means of windows."""
    if divisor_override is not None:
        raise Unsupported("divisor_override")
    window = _window(b, x, kernel, stride, padding)
    options = dict(ceil_mode=int(ceil_mode), count_include_pad=int(count_include_pad))
    return b.op("AveragePool", x, **window, **options)


def adaptive_pool(kind: Literal["Mean", "Max"], b: Builder, node: Node, x: Node, output: Sequence[int]) -> Any:
    """Return the means or maxima of windows that divide the input evenly; of maxima without their indices."""
    is_max = kind == "Max"
    spatial = range(2, len(b.shape(x)))
    if all(size == 1 for size in output):
        reduced = b.reduce(f"Reduce{kind}", x, list(spatial), True)
        return [reduced, None] if is_max else reduced
    sizes = b.fixed(x, spatial)[2:]
    if len(sizes) != len(output) or any(size % wanted for size, wanted in zip(sizes, output, strict=True)):
        raise Unsupported(f"sizes {tuple(sizes)} that are not multiples of the output's {tuple(output)}")
    window = [size // wanted for size, wanted in zip(sizes, output, strict=True)]
    found = b.op("MaxPool" if is_max else "AveragePool", x, kernel_shape=window, strides=window)
    return [found, None] if is_max else found


# --- attention and recurrent networks ---


def flash_attention(
    b: Builder, node: Node, q: Node, k: Node, v: Node, dropout: float = 0.0, causal: bool = False, **options: Any
) -> list[Any]:
    """Attend, without the logarithms of the sums."""
    mask, scale = options.get("attn_mask"), options.get("scale")
    return [attention(b, node, q, k, v, mask, dropout, causal, scale=scale), None]


def attention(
    b: Builder,
    node: Node,
    q: Node,
    k: Node,
    v: Node,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    **options: Any,
) -> Any:
    """Attend to values by the products of queries and keys."""
    if dropout_p:
        raise Unsupported("dropout")
    dtype, size = b.dtype(q), b.fixed(q, (-1,))[-1]
    perm = list(range(len(b.shape(k))))
    perm[-1], perm[-2] = perm[-2], perm[-1]
    scores = b.op("MatMul", q, b.op("Transpose", k, perm=perm))
    scores = b.op("Mul", scores, b.constant(1 / math.sqrt(size) if scale is None else scale, dtype))
    if is_causal:
        lengths = [b.op("Shape", x, start=len(perm) - 2, end=len(perm) - 1) for x in (q, k)]
        square = b.op("Expand", b.constant(1), b.op("Concat", *lengths, axis=0))
        allowed = b.cast(b.op("Trilu", square, upper=0), gl.bool, gl.int64)
        scores = b.op("Where", allowed, scores, b.constant(-math.inf, dtype))
    elif attn_mask is not None and b.dtype(attn_mask) == gl.bool:
        scores = b.op("Where", attn_mask, scores, b.constant(-math.inf, dtype))
    elif attn_mask is not None:
        scores = b.op("Add", scores, attn_mask)
    return b.op("MatMul", b.op("Softmax", scores, axis=-1), v)


_CELLS = {0: ("RNN", (0,)), 1: ("RNN", (0,)), 2: ("LSTM", (0, 3, 1, 2)), 3: ("GRU", (1, 0, 2))}


def recurrent(
    b: Builder,
    node: Node,
    x: Node,
    w_ih: Node,
    w_hh: Node,
    b_ih: Node,
    b_hh: Node,
    h: Node,
    c: Node,
    reverse: bool,
    batch_sizes: Sequence[int],
    mode: int,
    hidden: int,
    *options: Any,
) -> list[Any]:
    """Run an RNN, an LSTM or a GRU, with the gates in ONNX's order."""
    if batch_sizes:
        raise Unsupported("packed sequences")
    kind, order = _CELLS[mode]
    leading = b.constant([0])

    def gates(value: Node) -> str:
        """Order the gates as ONNX does."""
        if len(order) == 1:
            return b.name(value)
        parts = b.op("Split", value, outputs=len(order), axis=0, num_outputs=len(order))
        return b.op("Concat", *[parts[number] for number in order], axis=0)

    def outer(value: Any) -> str:
        return b.op("Unsqueeze", value, leading)

    bias = outer(b.op("Concat", gates(b_ih), gates(b_hh), axis=0)) if options[1] else None
    attributes: dict[str, Any] = dict(hidden_size=hidden, direction="reverse" if reverse else "forward")
    if kind == "GRU":
        attributes["linear_before_reset"] = 1
    if kind == "RNN":
        attributes["activations"] = ["Relu" if mode == 0 else "Tanh"]
    states = [outer(state) for state in ((h, c) if kind == "LSTM" else (h,))]
    count = 3 if kind == "LSTM" else 2
    found = b.op(kind, x, outer(gates(w_ih)), outer(gates(w_hh)), bias, None, *states, outputs=count, **attributes)
    squeezed = [b.op("Squeeze", found[0], b.constant([1]))]
    squeezed += [b.op("Reshape", value, b.op("Shape", h)) for value in found[1:]]
    return [*squeezed, *([None] * (4 - len(squeezed)))]
