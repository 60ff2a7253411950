"""Rules for calls that are too large to be run in their true size: results whose sizes an operator computes."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from math import ceil, prod
from typing import Any

import numpy as np

from ...core.tensor import wrap
from ...dispatch.interception import Call, call_wrapper
from ...dispatch.records import ArgumentName, OperatorName, RecordIndex, package_of
from ...kernels._common.layout import strides_like
from ...memory.metadata import MetaArray
from ..arrays import seen
from ..runs import Run
from ..tensor import wrap_meta
from .images import image_like, like as _like, of_size, output_size, windows


def _shape(run: Run) -> tuple[int, ...]:
    return run.call.args[0]._array.shape


def _dim(run: Run, values: dict[str, Any]) -> int:
    """Return the argument `dim`, counted from 0; -1 if it is out of range."""
    ndim, dim = len(_shape(run)), values["dim"]
    return dim % ndim if -ndim <= dim < ndim else -1


# --- copies of views and writes to them -----------------------------------------------------------------------------


def _viewed(run: Run, view: OperatorName, *args: Any) -> Any:
    """Return what a view operator finds in the first tensor, as an array without data, or a list of them."""
    records: RecordIndex = import_module(f"{package_of(run.call.wrapper)}.records").RECORDS
    wrapper, array = records.wrapper_of(records[view]), run.call.args[0]._array
    found = run.below(lambda: call_wrapper(wrapper, (wrap(seen(array)), *args)))
    return [t._array for t in found] if isinstance(found, (list, tuple)) else found._array


def _raised(run: Run) -> Any:
    """Raise what the kernel raises before it reads."""
    own, *args = run.call.args
    return run.below(lambda: call_wrapper(run.call.wrapper, (wrap(seen(own._array)), *args)))


def copy(run: Run, values: dict[str, Any], view: OperatorName) -> Any:
    """A contiguous copy of a view, or of each of several."""
    found = _viewed(run, view, *run.call.args[1:])
    if isinstance(found, list):
        return [run.made(a.shape, dtype=a.dtype) for a in found]
    return run.made(found.shape, dtype=found.dtype)


def parts(run: Run, values: dict[str, Any], view: OperatorName) -> Any:
    """Views that autograd takes for new tensors."""
    return [run.made(a.shape, a.strides) for a in _viewed(run, view, *run.call.args[1:])]


def scatter(run: Run, values: dict[str, Any], view: OperatorName) -> Any:
    """A copy of the first tensor, to a view of which the second is written."""
    own, src, *args = run.call.args
    if _viewed(run, view, *args).shape != src._array.shape:
        return NotImplemented
    shape, strides = own._array.shape, own._array.strides
    if any(n > 1 and not s for n, s in zip(shape, strides, strict=True)):  # a dense copy
        strides = tuple([s * own._array.itemsize for s in strides_like(seen(own._array))])
    return run.made(shape, strides)


# --- factories ------------------------------------------------------------------------------------------------------


def _counted(run: Run, values: dict[str, Any], argument: ArgumentName, length: int) -> Any:
    """Return a result of computed length, which grows with the number `argument`."""
    smaller = {**values, argument: type(values[argument])(3)}
    return run.of(Call(run.call.wrapper, tuple(smaller.values()))).computing({0: length})


def counted(run: Run, values: dict[str, Any], count: ArgumentName) -> Any:
    """As many elements as an argument says."""
    return _counted(run, values, count, values[count])


def half_counted(run: Run, values: dict[str, Any], count: ArgumentName) -> Any:
    """As many elements as half of a real signal's transform has, of a length that an argument says."""
    return _counted(run, values, count, values[count] // 2 + 1)


def arange(run: Run, values: dict[str, Any]) -> Any:
    start, end, step = values.get("start", 0), values["end"], values.get("step", 1)
    if not step or not _reaches(start, end, step):
        return NotImplemented
    whole = float not in map(type, (start, end, step))
    return _ranged(run, values, -((end - start) // -step) if whole else ceil((end - start) / step))


def range_with_end(run: Run, values: dict[str, Any]) -> Any:
    """The same with its end."""
    start, end, step = values.get("start", 0), values["end"], values.get("step", 1)
    if not step or not _reaches(start, end, step):
        return NotImplemented
    return _ranged(run, values, int((end - start) / step) + 1)


def _reaches(start: Any, end: Any, step: Any) -> bool:
    """Return whether steps from `start` get to `end`."""
    return bool((end - start) / step >= 0 and (end - start) / step != float("inf"))


def _ranged(run: Run, values: dict[str, Any], count: int) -> Any:
    smaller = {**values, "end": values.get("start", 0) + 3 * values.get("step", 1)}
    if isinstance(values["end"], float):
        smaller["end"] = float(smaller["end"])
    return run.of(Call(run.call.wrapper, tuple(smaller.values()))).computing({0: count})


def eye(run: Run, values: dict[str, Any]) -> Any:
    n = values["n"]
    smaller = {**values, "n": 3, **({"m": 3} if "m" in values else {})}
    return run.of(Call(run.call.wrapper, tuple(smaller.values()))).computing({0: n, 1: values.get("m", n)})


def tril_indices(run: Run, values: dict[str, Any]) -> Any:
    return _triangle(run, values, lambda rows, columns, k: _below_diagonal(rows, columns, k))


def triu_indices(run: Run, values: dict[str, Any]) -> Any:
    # what is not below the diagonal before
    return _triangle(run, values, lambda rows, columns, k: rows * columns - _below_diagonal(rows, columns, k - 1))


def _triangle(run: Run, values: dict[str, Any], count: Callable[[int, int, int], int]) -> Any:
    rows, columns, offset = values["row"], values["col"], values["offset"]
    if min(rows, columns) < 0:
        return NotImplemented
    smaller = {**values, "row": 3, "col": 3}
    found = run.of(Call(run.call.wrapper, tuple(smaller.values())))
    return found.computing({1: count(rows, columns, offset)})


def _below_diagonal(rows: int, columns: int, offset: int) -> int:
    """Return how many elements of a matrix are on a diagonal or below it."""
    first = max(0, -offset)  # the first row with an element
    full = min(rows, max(first, columns - offset))  # the first row of which all are
    partial = full - first if full > first else 0
    return partial * (2 * (first + offset + 1) + partial - 1) // 2 + (rows - max(full, first)) * columns * (
        first < rows
    )


# --- images ---------------------------------------------------------------------------------------------------------


def resized(run: Run, values: dict[str, Any], dims: int) -> Any:
    """Images of a given `output_size`."""
    run.check(dims)
    return of_size(run, output_size(values, dims))


def selected(run: Run, values: dict[str, Any], dims: int, results: int = 1) -> Any:
    """The same, for kernels that read positions in the images."""
    return of_size(run, output_size(values, dims), results)


def like(run: Run, values: dict[str, Any], argument: ArgumentName) -> Any:
    """A gradient of the shape of an argument, laid out as an image."""
    return _like(run, values, argument)


def columns(run: Run, values: dict[str, Any]) -> Any:
    *lead, channels, high, wide = _shape(run)
    blocks = windows(values, (high, wide))
    if min(blocks) < 1:
        return NotImplemented
    return run.made((*lead, channels * prod(values["kernel_size"]), prod(blocks)))


def blocks(run: Run, values: dict[str, Any]) -> Any:
    *lead, channels, count = _shape(run)
    kernel, size = prod(values["kernel_size"]), values["output_size"]
    if channels % kernel or count != prod(windows(values, size)):
        return _raised(run)
    return run.made((*lead, channels // kernel, *size))


def pixel_shuffle(run: Run, values: dict[str, Any]) -> Any:
    (*_, channels, high, wide), r = _shape(run), values["upscale_factor"]
    return NotImplemented if channels % (r * r) else image_like(run, (high * r, wide * r), channels // (r * r))


def pixel_unshuffle(run: Run, values: dict[str, Any]) -> Any:
    (*_, channels, high, wide), r = _shape(run), values["downscale_factor"]
    return NotImplemented if high % r or wide % r else image_like(run, (high // r, wide // r), channels * r * r)


def channels(run: Run, values: dict[str, Any]) -> Any:
    shape = _shape(run)
    if len(shape) < 3 or values["groups"] < 1 or shape[1] % values["groups"]:
        return NotImplemented
    return image_like(run, shape[2:])


# --- others ---------------------------------------------------------------------------------------------------------


def glu(run: Run, values: dict[str, Any]) -> Any:
    shape, dim = list(_shape(run)), _dim(run, values)
    if dim < 0 or shape[dim] % 2:
        return _raised(run)
    shape[dim] //= 2
    return run.made(shape)


def real_transform(run: Run, values: dict[str, Any]) -> Any:
    shape, dims, n = _shape(run), values["dim"], values["last_dim_size"]
    if n < 1 or not all(-len(shape) <= d < len(shape) for d in dims):
        return NotImplemented
    smaller = {**values, "last_dim_size": 4}
    call = Call(run.call.wrapper, tuple(smaller.values()))
    return run.of(call).computing({dims[-1] % len(shape): n})


def conv_tbc(run: Run, values: dict[str, Any]) -> Any:
    (steps, batch, _), weight = _shape(run), values["weight"]._array.shape
    count = steps + 2 * values["pad"] - weight[0] + 1
    return NotImplemented if count < 0 else run.made((count, batch, weight[2]))


def pairs(run: Run, values: dict[str, Any]) -> Any:
    n = _shape(run)[0]
    return run.made((n * (n - 1) // 2,))


def bins(run: Run, values: dict[str, Any]) -> Any:
    return run.made((values["bins"],)) if values["bins"] > 0 else NotImplemented


def samples(run: Run, values: dict[str, Any]) -> Any:
    shape, count = _shape(run), values["num_samples"]
    if not shape or count < 1 or not values["replacement"] and count > shape[-1]:
        return NotImplemented
    return run.made((*shape[:-1], count), dtype=np.dtype(np.int64))


def positions(run: Run, values: dict[str, Any]) -> Any:
    shape = values["size"], len(_shape(run))
    return run.made(shape, dtype=np.dtype(np.int64)) if values["size"] >= 0 else NotImplemented


def block_diag(run: Run, values: dict[str, Any]) -> Any:
    shapes = [(1, *s)[-2:] if len(s) < 2 else s for s in (t._array.shape for t in values["tensors"])]
    shapes = [(1, *s) if len(s) == 1 else s for s in shapes]
    if any(len(s) != 2 for s in shapes):
        return NotImplemented
    return run.computing({d: sum([s[d] for s in shapes]) for d in (0, 1)})


def chunk_cat(run: Run, values: dict[str, Any]) -> Any:
    shapes, count = [t._array.shape for t in values["tensors"]], values["num_chunks"]
    dim = values["dim"] % len(shapes[0])
    if count < 1 or any(len(s) <= dim or s[:dim] != shapes[0][:dim] for s in shapes):
        return NotImplemented
    width = sum([-(-s[dim] // count) * prod(s[dim + 1 :]) for s in shapes])
    first = values["tensors"][0]._array
    return wrap_meta(MetaArray((*shapes[0][:dim], count, width), first.dtype))


def affine_grid(run: Run, values: dict[str, Any]) -> Any:
    size = values["size"]
    dims = len(size) - 2
    if dims not in (2, 3) or _shape(run) != (size[0], dims, dims + 1):
        return NotImplemented
    return run.made((*size[:1], *size[2:], dims))


def recurrent_layer(run: Run, values: dict[str, Any]) -> Any:
    x, h, c = (values[name]._array for name in ("input", "hx_", "cx_"))
    size, kept = values["hidden_size"], {2: 5, 3: 4}.get(values["mode"])  # LSTM and GRU: saved values per unit
    rows = prod(x.shape[:-1])
    states = (c.shape if values["mode"] == 2 else (0,), (0,) if kept is None else (rows, kept * size))
    return (run.made((*x.shape[:-1], size)), run.made(h.shape), *[run.made(s) for s in states])


def recurrent_gradients(run: Run, values: dict[str, Any]) -> Any:
    names = ("input", "weight1", "weight2", "weight3", "weight4", "hx_", "cx_tmp")
    return tuple([run.made(values[name]._array.shape) for name in names])
