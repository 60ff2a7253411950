"""Rules for calls that are too large to be run in their true size: results whose sizes an operator computes.

A rule returns tensors of the meta device, or NotImplemented for arguments that do not fit together: the kernel then
runs on small arrays, and what it raises is raised with the true sizes (`rules._Run.refused`). Smaller calls run as they
are, so that a rule states sizes and nothing else. A test computes the calls of PyTorch's database by the rules, and
compares.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, prod
from typing import Any

from ..core.tensor import wrap
from ..dispatch import _operators as ops
from ..dispatch.interception import Call
from ..kernels._common.layout import strides_like, suggested_format
from ..memory.metadata import MetaArray
from ..types.dtype import int64
from .arrays import seen
from .sizes import in_format
from .tensor import wrap_meta

_Run = Any  # rules._Run, which imports this module
Rule = Callable[[_Run, dict[str, Any]], Any]


def _shape(run: _Run) -> tuple[int, ...]:
    return run.call.args[0]._array.shape


def _dim(run: _Run, values: dict[str, Any]) -> int:
    """Return the argument `dim`, counted from 0; -1 if it is out of range."""
    ndim, dim = len(_shape(run)), values["dim"]
    return dim % ndim if -ndim <= dim < ndim else -1


# --- copies of views and writes to them -----------------------------------------------------------------------------


def _viewed(run: _Run, view: Callable[..., Any], *args: Any) -> Any:
    """Return what a view operator finds in the first tensor, as an array without data, or a list of them."""
    array = run.call.args[0]._array
    found = run.below(lambda: view(wrap(seen(array)), *args))
    return [t._array for t in found] if isinstance(found, (list, tuple)) else found._array


def _copy_of(name: str) -> Rule:
    """Return the rule of contiguous copies of views."""

    def rule(run: _Run, values: dict[str, Any]) -> Any:
        args = run.call.args[1:2] if name == "expand" else run.call.args[1:]  # without `implicit`
        found = _viewed(run, getattr(ops, name), *args)
        if isinstance(found, list):
            return [run.made(a.shape, dtype=a.dtype) for a in found]
        return run.made(found.shape, dtype=found.dtype)

    return rule


def _parts(name: str) -> Rule:
    """Return the rule of views that autograd takes for new tensors."""
    return lambda run, values: [
        run.made(a.shape, a.strides) for a in _viewed(run, getattr(ops, name), *run.call.args[1:])
    ]


def _scatter_in(name: str) -> Rule:
    """Return the rule of an operator that writes `src` to a view of a copy of its first tensor."""

    def rule(run: _Run, values: dict[str, Any]) -> Any:
        own, src, *args = run.call.args
        if _viewed(run, getattr(ops, name), *args).shape != src._array.shape:
            return NotImplemented
        shape, strides = own._array.shape, own._array.strides
        if any(n > 1 and not s for n, s in zip(shape, strides, strict=True)):  # a dense copy
            strides = tuple([s * own._array.itemsize for s in strides_like(seen(own._array))])
        return run.made(shape, strides)

    return rule


# --- factories ------------------------------------------------------------------------------------------------------


def _counted(argument: str, length: Callable[[dict[str, Any]], int], dim: int = 0) -> Rule:
    """Return the rule of a result of computed length along `dim`, which grows with the number `argument`."""

    def rule(run: _Run, values: dict[str, Any]) -> Any:
        smaller = {**values, argument: type(values[argument])(3)}
        return run.of(Call(run.call.wrapper, tuple(smaller.values()))).computing({dim: length(values)})

    return rule


def _range(run: _Run, values: dict[str, Any]) -> Any:
    start, end, step = values.get("start", 0), values["end"], values.get("step", 1)
    if not step or not (end - start) / step >= 0 or (end - start) / step == float("inf"):
        return NotImplemented
    whole = float not in map(type, (start, end, step))
    count = -((end - start) // -step) if whole else ceil((end - start) / step)
    if run.name.startswith("range"):
        count = int((end - start) / step) + 1
    smaller = {**values, "end": start + 3 * step}
    if isinstance(end, float):
        smaller["end"] = float(smaller["end"])
    return run.of(Call(run.call.wrapper, tuple(smaller.values()))).computing({0: count})


def _eye(run: _Run, values: dict[str, Any]) -> Any:
    n = values["n"]
    smaller = {**values, "n": 3, **({"m": 3} if "m" in values else {})}
    return run.of(Call(run.call.wrapper, tuple(smaller.values()))).computing({0: n, 1: values.get("m", n)})


def _triangle(run: _Run, values: dict[str, Any]) -> Any:
    rows, columns, offset = values["row"], values["col"], values["offset"]
    if min(rows, columns) < 0:
        return NotImplemented
    if run.name == "triu_indices":  # what is not below the diagonal before
        count = rows * columns - _below_diagonal(rows, columns, offset - 1)
    else:
        count = _below_diagonal(rows, columns, offset)
    smaller = {**values, "row": 3, "col": 3}
    return run.of(Call(run.call.wrapper, tuple(smaller.values()))).computing({1: count})


def _below_diagonal(rows: int, columns: int, offset: int) -> int:
    """Return how many elements of a matrix are on a diagonal or below it."""
    first = max(0, -offset)  # the first row with an element
    full = min(rows, max(first, columns - offset))  # the first row of which all are
    partial = full - first if full > first else 0
    return partial * (2 * (first + offset + 1) + partial - 1) // 2 + (rows - max(full, first)) * columns * (
        first < rows
    )


# --- images ---------------------------------------------------------------------------------------------------------


def _image(run: _Run, spatial: Any, channels: int | None = None, dtype: Any = None) -> Any:
    """Return a tensor like the first one, with other spatial sizes, in its memory format."""
    first = run.call.args[0]._array
    lead = first.shape[: first.ndim - len(spatial)]
    if channels is not None:
        lead = (*lead[:-1], channels)
    return in_format((*lead, *spatial), dtype or run.call.args[0].dtype, suggested_format(first))


def _windows(values: dict[str, Any], size: Any, ceil_mode: bool = False) -> list[int]:
    """Return how many windows fit into the sizes of an image."""

    def each(name: str, default: int) -> list[int]:
        value = values.get(name, default)
        value = [value] if value.__class__ is int else list(value)
        return value * len(size) if len(value) == 1 else value

    kernel, padding, dilation = each("kernel_size", 1), each("padding", 0), each("dilation", 1)
    stride = each("stride", 1) or kernel
    found = []
    for n, k, s, p, d in zip(size, kernel, stride, padding, dilation, strict=True):
        count = (n + 2 * p - d * (k - 1) - 1 + (s - 1 if ceil_mode else 0)) // s + 1
        found.append(count - (ceil_mode and (count - 1) * s >= n + p))
    return found


def _pool(dims: int, results: int) -> Rule:
    def rule(run: _Run, values: dict[str, Any]) -> Any:
        run.check(dims)
        spatial = _windows(values, _shape(run)[-dims:], values["ceil_mode"])
        return _with_indices(run, spatial, results)

    return rule


def _with_indices(run: _Run, spatial: Any, results: int = 1) -> Any:
    if min(spatial) < 0 or len(_shape(run)) not in (len(spatial) + 1, len(spatial) + 2):
        return NotImplemented
    found = _image(run, spatial)
    return found if results == 1 else (found, _image(run, spatial, dtype=int64))


def _given(dims: int, results: int = 1) -> Rule:
    """Return the rule of an operator on images of a given `output_size`."""

    def rule(run: _Run, values: dict[str, Any]) -> Any:
        if run.name[:3] != "max" and "random_samples" not in values:
            run.check(dims)
        size = values["output_size"]
        size = [size] * dims if size.__class__ is int else list(size)
        return _with_indices(run, size * dims if len(size) == 1 else size, results)

    return rule


def _padded(dims: int) -> Rule:
    def rule(run: _Run, values: dict[str, Any]) -> Any:
        run.check(dims)
        pad, size = values["padding"], _shape(run)[-dims:]
        if len(pad) != 2 * dims or run.name.startswith("reflection") and max(pad) >= min(size):
            return NotImplemented
        return _with_indices(run, [n + pad[-2 * d - 2] + pad[-2 * d - 1] for d, n in enumerate(size)])

    return rule


def _like(argument: str) -> Rule:
    """Return the rule of a gradient of the shape of an argument, laid out as an image."""

    def rule(run: _Run, values: dict[str, Any]) -> Any:
        like = values[argument]._array
        return in_format(like.shape, values[argument].dtype, suggested_format(like))

    return rule


def _columns(run: _Run, values: dict[str, Any]) -> Any:
    *lead, channels, high, wide = _shape(run)
    blocks = _windows(values, (high, wide))
    if min(blocks) < 1:
        return NotImplemented
    return run.made((*lead, channels * prod(values["kernel_size"]), prod(blocks)))


def _blocks(run: _Run, values: dict[str, Any]) -> Any:
    *lead, channels, count = _shape(run)
    kernel, size = prod(values["kernel_size"]), values["output_size"]
    if channels % kernel or count != prod(_windows(values, size)):
        return _viewed(run, ops.col2im, *run.call.args[1:])  # raises before it reads
    return run.made((*lead, channels // kernel, *size))


def _pixels(run: _Run, values: dict[str, Any]) -> Any:
    *_, channels, high, wide = _shape(run)
    if run.name == "pixel_shuffle":
        r = values["upscale_factor"]
        return NotImplemented if channels % (r * r) else _image(run, (high * r, wide * r), channels // (r * r))
    r = values["downscale_factor"]
    return NotImplemented if high % r or wide % r else _image(run, (high // r, wide // r), channels * r * r)


def _channels(run: _Run, values: dict[str, Any]) -> Any:
    shape = _shape(run)
    if len(shape) < 3 or values["groups"] < 1 or shape[1] % values["groups"]:
        return NotImplemented
    return _image(run, shape[2:])


# --- others ---------------------------------------------------------------------------------------------------------


def _glu(run: _Run, values: dict[str, Any]) -> Any:
    shape, dim = list(_shape(run)), _dim(run, values)
    if dim < 0 or shape[dim] % 2:
        return _viewed(run, ops.glu, values["dim"])  # raises before it reads
    shape[dim] //= 2
    return run.made(shape)


def _real_transform(run: _Run, values: dict[str, Any]) -> Any:
    shape, dims, n = _shape(run), values["dim"], values["last_dim_size"]
    if n < 1 or not all(-len(shape) <= d < len(shape) for d in dims):
        return NotImplemented
    smaller = {**values, "last_dim_size": 4}
    call = Call(run.call.wrapper, tuple(smaller.values()))
    return run.of(call).computing({dims[-1] % len(shape): n})


def _conv_tbc(run: _Run, values: dict[str, Any]) -> Any:
    (steps, batch, _), weight = _shape(run), values["weight"]._array.shape
    count = steps + 2 * values["pad"] - weight[0] + 1
    return NotImplemented if count < 0 else run.made((count, batch, weight[2]))


def _pairs(run: _Run, values: dict[str, Any]) -> Any:
    n = _shape(run)[0]
    return run.made((n * (n - 1) // 2,))


def _bins(run: _Run, values: dict[str, Any]) -> Any:
    return run.made((values["bins"],)) if values["bins"] > 0 else NotImplemented


def _samples(run: _Run, values: dict[str, Any]) -> Any:
    shape, count = _shape(run), values["num_samples"]
    if not shape or count < 1 or not values["replacement"] and count > shape[-1]:
        return NotImplemented
    return in_format((*shape[:-1], count), int64, None)


def _positions(run: _Run, values: dict[str, Any]) -> Any:
    return in_format((values["size"], len(_shape(run))), int64, None) if values["size"] >= 0 else NotImplemented


def _block_diag(run: _Run, values: dict[str, Any]) -> Any:
    shapes = [(1, *s)[-2:] if len(s) < 2 else s for s in (t._array.shape for t in values["tensors"])]
    shapes = [(1, *s) if len(s) == 1 else s for s in shapes]
    if any(len(s) != 2 for s in shapes):
        return NotImplemented
    return run.computing({d: sum([s[d] for s in shapes]) for d in (0, 1)})


def _chunk_cat(run: _Run, values: dict[str, Any]) -> Any:
    shapes, count = [t._array.shape for t in values["tensors"]], values["num_chunks"]
    dim = values["dim"] % len(shapes[0])
    if count < 1 or any(len(s) <= dim or s[:dim] != shapes[0][:dim] for s in shapes):
        return NotImplemented
    width = sum([-(-s[dim] // count) * prod(s[dim + 1 :]) for s in shapes])
    first = values["tensors"][0]._array
    return wrap_meta(MetaArray((*shapes[0][:dim], count, width), first.dtype))


def _affine_grid(run: _Run, values: dict[str, Any]) -> Any:
    size = values["size"]
    dims = len(size) - 2
    if dims not in (2, 3) or _shape(run) != (size[0], dims, dims + 1):
        return NotImplemented
    return run.made((*size[:1], *size[2:], dims))


def _recurrent_layer(run: _Run, values: dict[str, Any]) -> Any:
    x, h, c = (values[name]._array for name in ("input", "hx_", "cx_"))
    size, kept = values["hidden_size"], {2: 5, 3: 4}.get(values["mode"])  # LSTM and GRU: saved values per unit
    rows = prod(x.shape[:-1])
    states = (c.shape if values["mode"] == 2 else (0,), (0,) if kept is None else (rows, kept * size))
    return (run.made((*x.shape[:-1], size)), run.made(h.shape), *[run.made(s) for s in states])


def _recurrent_gradients(run: _Run, values: dict[str, Any]) -> Any:
    names = ("input", "weight1", "weight2", "weight3", "weight4", "hx_", "cx_tmp")
    return tuple([run.made(values[name]._array.shape) for name in names])


_COPIES = """transpose.int t permute expand squeeze squeeze.dim squeeze.dims unsqueeze select.int slice.Tensor diagonal
unfold split.Tensor split_with_sizes unbind.int view as_strided alias view_as_real view_as_complex""".split()


def _rules() -> dict[str, Rule]:
    found: dict[str, Rule] = {
        "glu": _glu,
        "_fft_c2r": _real_transform,
        "conv_tbc": _conv_tbc,
        "im2col": _columns,
        "col2im": _blocks,
        "_pdist_forward": _pairs,
        "histc": _bins,
        "multinomial": _samples,
        "nonzero_static": _positions,
        "block_diag": _block_diag,
        "_chunk_cat": _chunk_cat,
        "affine_grid_generator": _affine_grid,
        "pixel_shuffle": _pixels,
        "pixel_unshuffle": _pixels,
        "channel_shuffle": _channels,
        "mkldnn_rnn_layer": _recurrent_layer,
        "mkldnn_rnn_layer_backward": _recurrent_gradients,
        "narrow_copy": _copy_of("narrow"),
        "detach_copy": _copy_of("alias"),
        "unsafe_split.Tensor": _parts("split"),
        "unsafe_split_with_sizes": _parts("split_with_sizes"),
        "select_scatter": _scatter_in("select"),
        "slice_scatter": _scatter_in("slice"),
        "diagonal_scatter": _scatter_in("diagonal"),
        "as_strided_scatter": _scatter_in("as_strided"),
        "eye": _eye,
        "eye.m": _eye,
        "tril_indices": _triangle,
        "triu_indices": _triangle,
        "randperm": _counted("n", lambda v: v["n"]),
        "randperm.generator": _counted("n", lambda v: v["n"]),
        "fft_fftfreq": _counted("n", lambda v: v["n"]),
        "fft_rfftfreq": _counted("n", lambda v: v["n"] // 2 + 1),
    }
    for name in _COPIES:
        base, _, overload = name.partition(".")
        found[f"{base}_copy.{overload}" if overload else f"{base}_copy"] = _copy_of(base)
    found |= dict.fromkeys("arange arange.start arange.start_step range range.step".split(), _range)
    for base in ("linspace", "logspace"):
        for overload in ("", ".Tensor_Tensor", ".Tensor_Scalar", ".Scalar_Tensor"):
            found[base + overload] = _counted("steps", lambda v: v["steps"])
    for base, overloads in (("hann", ""), ("bartlett", ""), ("blackman", ""), ("kaiser", ".beta")):
        for overload in ("", ".periodic", overloads):
            found[f"{base}_window{overload}"] = _counted("window_length", lambda v: v["window_length"])
    for overload in ("", ".periodic", ".periodic_alpha", ".periodic_alpha_beta"):
        found[f"hamming_window{overload}"] = _counted("window_length", lambda v: v["window_length"])
    return found | _rules_of_images()


def _rules_of_images() -> dict[str, Rule]:
    found: dict[str, Rule] = {}
    for d in (1, 2, 3):
        for mode in ("nearest", "_nearest_exact", "linear", "bilinear", "trilinear", "bicubic"):
            name = f"_upsample{mode}{d}d" if mode[0] == "_" else f"upsample_{mode}{d}d"
            found[name] = _given(d)
        for kind in ("reflection", "replication"):
            found[f"{kind}_pad{d}d"] = _padded(d)
            found[f"{kind}_pad{d}d_backward"] = _like("self")
        if d > 1:
            found[f"max_pool{d}d_with_indices"] = _pool(d, 2)
            found[f"avg_pool{d}d"] = _pool(d, 1)
            found[f"_adaptive_avg_pool{d}d"] = found[f"max_unpool{d}d"] = _given(d)
            found[f"adaptive_max_pool{d}d"] = found[f"fractional_max_pool{d}d"] = _given(d, 2)
            for name in ("max_pool{}d_with_indices", "avg_pool{}d", "_adaptive_avg_pool{}d", "adaptive_max_pool{}d"):
                found[f"{name.format(d)}_backward"] = _like("self")
            found[f"fractional_max_pool{d}d_backward"] = _like("self")
    for mode in ("bilinear", "bicubic", "lanczos"):
        found[f"_upsample_{mode}2d_aa"] = _given(2)
    return found


RULES = _rules()
