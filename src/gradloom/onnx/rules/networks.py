"""Rules of products, reductions and the operators of networks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import gradloom as gl

from ..fx.node import Node
from ._builder import Builder, Unsupported, rule
from ._rules_elementwise import node_name

# --- products ---


@rule("mm", "bmm", "matmul", "mv", "dot")
def _matmul(b: Builder, node: Node, x: Node, y: Node) -> str:
    return str(b.op("MatMul", x, y))


@rule("addmm")
def _addmm(b: Builder, node: Node, bias: Node, x: Node, y: Node, *, beta: Any = 1, alpha: Any = 1) -> str:
    return str(b.op("Gemm", x, y, bias, alpha=float(alpha), beta=float(beta)))


@rule("baddbmm")
def _baddbmm(b: Builder, node: Node, bias: Node, x: Node, y: Node, *, beta: Any = 1, alpha: Any = 1) -> str:
    dtype = b.dtype(node)
    product = b.op("Mul", b.op("MatMul", x, y), b.constant(alpha, dtype))
    return str(b.op("Add", b.op("Mul", bias, b.constant(beta, dtype)), product))


# --- reductions ---


def _dims(dims: Any) -> list[int] | None:
    return None if dims is None else [dims] if isinstance(dims, int) else list(dims)


@rule("sum", "mean", "prod", "amax", "amin")
def _reduce(b: Builder, node: Node, x: Node, dims: Any = None, keepdim: bool = False, **options: Any) -> str:
    kind = {"sum": "Sum", "mean": "Mean", "prod": "Prod", "amax": "Max", "amin": "Min"}[node_name(node)]
    return b.reduce(f"Reduce{kind}", b.cast(x, b.dtype(node)), _dims(dims), keepdim)


@rule("max", "min")
def _extremum(b: Builder, node: Node, x: Node, dim: Any = None, keepdim: bool = False) -> Any:
    kind = "Max" if node_name(node) == "max" else "Min"
    if isinstance(dim, Node):
        return b.op(kind, *b.operands(b.dtype(node), x, dim))
    if dim is None:
        return b.reduce(f"Reduce{kind}", x, None, False)
    index = b.op(f"Arg{kind}", x, axis=dim, keepdims=int(keepdim))
    return [b.reduce(f"Reduce{kind}", x, [dim], keepdim), index]


@rule("argmax", "argmin")
def _arg_extremum(b: Builder, node: Node, x: Node, dim: int | None = None, keepdim: bool = False) -> str:
    kind = "ArgMax" if node_name(node) == "argmax" else "ArgMin"
    if dim is None:
        return str(b.op(kind, b.reshape(x, [-1]), axis=0, keepdims=0))
    return str(b.op(kind, x, axis=dim, keepdims=int(keepdim)))


@rule("any", "all")
def _any(b: Builder, node: Node, x: Node, dims: Any = None, keepdim: bool = False) -> str:
    value = b.cast(b.cast(x, gl.bool), gl.int32, gl.bool)
    found = b.reduce("ReduceMax" if node_name(node) == "any" else "ReduceMin", value, _dims(dims), keepdim)
    return b.cast(found, gl.bool, gl.int32)


@rule("var", "std")
def _var(b: Builder, node: Node, x: Node, dims: Any = None, *, correction: Any = 1, keepdim: bool = False) -> str:
    axes = _dims(dims) or list(range(len(b.shape(x))))
    sizes = b.op("Gather", b.op("Shape", x), b.constant(axes))
    count = b.cast(b.op("ReduceProd", sizes, keepdims=0), b.dtype(x), gl.int64)
    centered = b.op("Sub", x, b.reduce("ReduceMean", x, axes, True))
    squares = b.reduce("ReduceSum", b.op("Mul", centered, centered), axes, keepdim)
    found = b.op("Div", squares, b.op("Sub", count, b.constant(1 if correction is None else correction, b.dtype(x))))
    return str(b.op("Sqrt", found) if node_name(node) == "std" else found)


@rule("linalg_vector_norm")
def _norm(
    b: Builder, node: Node, x: Node, order: Any = 2, dims: Any = None, keepdim: bool = False, **options: Any
) -> str:
    if order in (1, 2):
        return b.reduce(f"ReduceL{int(order)}", x, _dims(dims), keepdim)
    if order in (math.inf, -math.inf):
        return b.reduce("ReduceMax" if order > 0 else "ReduceMin", b.op("Abs", x), _dims(dims), keepdim)
    dtype = b.dtype(node)
    powers = b.op("Pow", b.op("Abs", x), b.constant(order, dtype))
    return str(b.op("Pow", b.reduce("ReduceSum", powers, _dims(dims), keepdim), b.constant(1 / order, dtype)))


@rule("logsumexp")
def _logsumexp(b: Builder, node: Node, x: Node, dims: Any, keepdim: bool = False) -> str:
    return b.reduce("ReduceLogSumExp", x, _dims(dims), keepdim)


@rule("cumsum")
def _cumsum(b: Builder, node: Node, x: Node, dim: int, **options: Any) -> str:
    return str(b.op("CumSum", b.cast(x, b.dtype(node)), b.constant(dim)))


@rule("topk", "sort")
def _topk(b: Builder, node: Node, x: Node, *args: Any, **options: Any) -> list[str]:
    given = list(args)
    if node_name(node) == "topk":
        count, dim, largest, ordered = given + [None, -1, True, True][len(given) :]
        options = dict(axis=dim, largest=int(largest), sorted=int(ordered))
        return list(b.op("TopK", x, b.constant([count]), outputs=2, **options))
    dim = given[0] if given else options.get("dim", -1)
    descending = given[1] if len(given) > 1 else options.get("descending")
    count = b.op("Shape", x, start=b.dim(x, dim), end=b.dim(x, dim) + 1)
    return list(b.op("TopK", x, count, outputs=2, axis=dim, largest=int(bool(descending)), sorted=1))


# --- normalizations ---


@rule("_softmax", "_log_softmax", "_safe_softmax", "softmax", "log_softmax")
def _softmax(b: Builder, node: Node, x: Node, dim: int, *options: Any, **named: Any) -> str:
    return str(b.op("LogSoftmax" if "log" in node_name(node) else "Softmax", b.cast(x, b.dtype(node)), axis=dim))


@rule("native_layer_norm")
def _layer_norm(b: Builder, node: Node, x: Node, shape: Sequence[int], weight: Any, bias: Any, eps: float) -> list[Any]:
    weight = weight if weight is not None else b.constant(gl.ones(tuple(int(size) for size in shape), dtype=b.dtype(x)))
    return [b.op("LayerNormalization", x, weight, bias, axis=-len(shape), epsilon=eps), None, None]


@rule("native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_no_training", "cudnn_batch_norm")
def _batch_norm(
    b: Builder, node: Node, x: Node, weight: Any, bias: Any, mean: Any, var: Any, *options: Any
) -> list[Any]:
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
    return str(b.op("Div", centered, b.op("Sqrt", b.op("Add", var, b.constant(eps, dtype)))))


def _affine(b: Builder, x: str, weight: Any, bias: Any, dims: int) -> str:
    """Scale and shift the channels, dimension 1."""
    for kind, value in (("Mul", weight), ("Add", bias)):
        if value is not None:
            x = b.op(kind, x, b.reshape(value, [-1] + [1] * (dims - 2)))
    return x


@rule("native_group_norm")
def _group_norm(b: Builder, node: Node, x: Node, weight: Any, bias: Any, *options: Any) -> list[Any]:
    *_, groups, eps = options
    flat = b.op("Reshape", x, b.constant([0, groups, -1]))
    found = b.op("Reshape", _normalized(b, flat, [2], eps, b.dtype(x)), b.op("Shape", x))
    return [_affine(b, found, weight, bias, len(b.shape(x))), None, None]


# --- convolution, pooling, resampling ---


@rule("convolution")
def _convolution(
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
) -> str:
    dims = len(b.shape(x)) - 2

    def spread(values: Sequence[int]) -> list[int]:
        return list(values) * dims if len(values) == 1 else list(values)

    options: dict[str, Any] = dict(
        strides=spread(stride), pads=spread(padding) * 2, dilations=spread(dilation), group=groups
    )
    if transposed:
        options["output_padding"] = spread(output_padding)
    return str(b.op("ConvTranspose" if transposed else "Conv", x, weight, bias, **options))


def _window(
    b: Builder, x: Node, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int]
) -> dict[str, Any]:
    dims = 3 if len(kernel) == 3 else len(kernel) if len(kernel) > 1 else len(b.shape(x)) - 2

    def spread(values: Sequence[int]) -> list[int]:
        return list(values) * dims if len(values) == 1 else list(values)

    if len(b.shape(x)) != dims + 2:
        raise Unsupported("an input without a batch dimension")
    return dict(kernel_shape=spread(kernel), strides=spread(stride or kernel), pads=spread(padding) * 2)


@rule("max_pool2d_with_indices", "max_pool3d_with_indices", "max_pool1d", "max_pool2d")
def _max_pool(
    b: Builder,
    node: Node,
    x: Node,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> Any:
    window = _window(b, x, kernel, stride, padding)
    dilations = list(dilation) * len(window["strides"]) if len(dilation) == 1 else list(dilation)
    found = b.op("MaxPool", x, **window, dilations=dilations, ceil_mode=int(ceil_mode))
    return [found, None] if "indices" in node_name(node) else found


@rule("avg_pool1d", "avg_pool2d", "avg_pool3d")
def _avg_pool(
    b: Builder,
    node: Node,
    x: Node,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> str:
    if divisor_override is not None:
        raise Unsupported("divisor_override")
    window = _window(b, x, kernel, stride, padding)
    options = dict(ceil_mode=int(ceil_mode), count_include_pad=int(count_include_pad))
    return str(b.op("AveragePool", x, **window, **options))


@rule(
    "_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_avg_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d"
)
def _adaptive_pool(b: Builder, node: Node, x: Node, output: Sequence[int]) -> Any:
    is_max = "max" in node_name(node)
    spatial = range(2, len(b.shape(x)))
    if all(size == 1 for size in output):
        reduced = b.reduce("ReduceMax" if is_max else "ReduceMean", x, list(spatial), True)
        return [reduced, None] if is_max else reduced
    sizes = b.fixed(x, spatial)[2:]
    if len(sizes) != len(output) or any(size % wanted for size, wanted in zip(sizes, output, strict=True)):
        raise Unsupported(f"sizes {tuple(sizes)} that are not multiples of the output's {tuple(output)}")
    window = [size // wanted for size, wanted in zip(sizes, output, strict=True)]
    found = b.op("MaxPool" if is_max else "AveragePool", x, kernel_shape=window, strides=window)
    return [found, None] if is_max else found


_UPSAMPLING = {
    "nearest": "nearest",
    "linear": "linear",
    "bilinear": "linear",
    "trilinear": "linear",
    "bicubic": "cubic",
}


@rule(
    *(f"upsample_nearest{d}d" for d in (1, 2, 3)),
    *("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d"),
)
def _upsample(b: Builder, node: Node, x: Node, size: Sequence[int], *options: Any) -> str:
    kind = node_name(node).removeprefix("upsample_")[:-2]
    mode = _UPSAMPLING[kind]
    align, scales = (False, options) if kind == "nearest" else (options[0], options[1:])
    place = "asymmetric" if kind == "nearest" else "align_corners" if align else "half_pixel"
    cubic = -0.75 if mode == "cubic" else None
    attributes: dict[str, Any] = dict(mode=mode, coordinate_transformation_mode=place, cubic_coeff_a=cubic)
    if kind == "nearest":
        attributes["nearest_mode"] = "floor"
    if scales and all(scale is not None for scale in scales) and not align:
        factors = b.constant([1.0, 1.0, *scales], gl.float32)
        return str(b.op("Resize", x, None, factors, **attributes))
    sizes = b.op("Concat", b.op("Shape", x, start=0, end=2), b.sizes(size), axis=0)
    return str(b.op("Resize", x, None, None, sizes, **attributes))


# --- attention and recurrent networks ---


@rule("_scaled_dot_product_flash_attention_for_cpu", "scaled_dot_product_attention")
def _attention(b: Builder, node: Node, q: Node, k: Node, v: Node, *options: Any, **named: Any) -> Any:
    flash = "flash" in node_name(node)
    order = ("dropout_p", "is_causal") if flash else ("attn_mask", "dropout_p", "is_causal")
    given = {**dict(zip(order, options, strict=False)), **named}
    if given.get("dropout_p"):
        raise Unsupported("dropout")
    dtype, size = b.dtype(q), b.fixed(q, (-1,))[-1]
    scale = given.get("scale")
    perm = list(range(len(b.shape(k))))
    perm[-1], perm[-2] = perm[-2], perm[-1]
    scores = b.op("MatMul", q, b.op("Transpose", k, perm=perm))
    scores = b.op("Mul", scores, b.constant(1 / math.sqrt(size) if scale is None else scale, dtype))
    mask = given.get("attn_mask")
    if given.get("is_causal"):
        lengths = [b.op("Shape", x, start=len(perm) - 2, end=len(perm) - 1) for x in (q, k)]
        square = b.op("Expand", b.constant(1), b.op("Concat", *lengths, axis=0))
        allowed = b.cast(b.op("Trilu", square, upper=0), gl.bool, gl.int64)
        scores = b.op("Where", allowed, scores, b.constant(-math.inf, dtype))
    elif mask is not None and b.dtype(mask) == gl.bool:
        scores = b.op("Where", mask, scores, b.constant(-math.inf, dtype))
    elif mask is not None:
        scores = b.op("Add", scores, mask)
    found = b.op("MatMul", b.op("Softmax", scores, axis=-1), v)
    return [found, None] if flash else found


_CELLS = {0: ("RNN", (0,)), 1: ("RNN", (0,)), 2: ("LSTM", (0, 3, 1, 2)), 3: ("GRU", (1, 0, 2))}


@rule("mkldnn_rnn_layer")
def _recurrent(
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
    if batch_sizes:
        raise Unsupported("packed sequences")
    kind, order = _CELLS[mode]
    leading = b.constant([0])

    def gates(value: Node) -> str:
        """Order the gates as ONNX does."""
        if len(order) == 1:
            return b.name(value)
        parts = b.op("Split", value, outputs=len(order), axis=0, num_outputs=len(order))
        return str(b.op("Concat", *[parts[number] for number in order], axis=0))

    def outer(value: Any) -> str:
        return str(b.op("Unsqueeze", value, leading))

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
