"""Rules of operators whose results have sizes that none of the arguments has."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.tensor import wrap
from ..dispatch import _operators as ops
from ..dispatch.interception import Call
from ..kernels._common.layout import suggested_format
from ..memory.metadata import MetaArray
from ..types.dtype import default
from .tensor import wrap_meta

NONZERO = (
    "The register_meta function for torch.nonzero() raises unimplemented by default, as a correct data-independent "
    "implementation does not exist: the shape of its result depends on values, and a meta tensor has none."
)
_Run = Any  # rules._Run, which imports this module


def _index(run: _Run, values: dict[str, Any]) -> Any:
    """Replace masks of the CPU by the positions that they select. Masks without data select an unknown number."""
    from ..kernels.indexing.tensors import require_fitting_mask

    found: list[Any] = []
    dim, has_mask = 0, False
    for index in values["indices"]:
        if index is None or index._array.dtype not in (np.bool_, np.uint8):
            found.append(index)
            dim += 1
        elif index.is_meta and run.name in ("index.Tensor", "_unsafe_index.Tensor"):
            raise NotImplementedError(NONZERO)
        elif index.is_meta:
            return NotImplemented
        else:
            has_mask = True
            require_fitting_mask(index._array.shape, run.call.args[0]._array.shape, dim)
            dim += index._array.ndim
            found.extend(ops.nonzero_numpy(index))
    if not has_mask:
        return NotImplemented
    own, _, *rest = run.call.args
    return run.of(Call(run.call.wrapper, (own, found, *rest))).result()


def _repeat_interleave(run: _Run, values: dict[str, Any]) -> Any:
    if values.get("output_size") is None:
        raise RuntimeError("cannot repeat_interleave a meta tensor without output_size")
    return run.made((values["output_size"],))


def _one_hot(run: _Run, values: dict[str, Any]) -> Any:
    if values["num_classes"] < 0:
        raise RuntimeError("Tensor.item() cannot be called on meta tensors")
    shape = values["self"]._array.shape if "self" in values else values["input"]._array.shape
    return run.made((*shape, values["num_classes"]))


def in_format(shape: Any, dtype: Any, order: Any) -> Any:
    """Return a tensor in a memory format, or a row of images of height 1 in it."""
    if order is None:
        return ops.empty(shape, dtype=dtype, device="meta")
    if len(shape) == 3:
        return ops.select(in_format((*shape[:2], 1, shape[2]), dtype, order), 2, 0)
    return ops.empty(shape, dtype=dtype, device="meta", memory_format=order)


_SETTINGS = ("stride", "padding", "dilation", "transposed", "output_padding", "groups")


def _convolution(run: _Run, values: dict[str, Any]) -> Any:
    from ..kernels.conv.convolution import result_layout

    x, weight, bias = (values[n] for n in ("input", "weight", "bias"))
    if x.dtype is not weight.dtype or x._array.dtype.kind == "b":
        return NotImplemented
    arrays = (x._array, weight._array, None if bias is None else bias._array)
    shape, order = result_layout(*arrays, *[values[n] for n in _SETTINGS])
    return in_format(shape, x.dtype, order)


def _convolution_backward(run: _Run, values: dict[str, Any]) -> Any:
    from ..kernels.conv.convolution import result_layout

    grad, x, weight = run.call.args[:3]
    shape, order = result_layout(x._array, weight._array, None, *[values[n] for n in _SETTINGS])
    if grad._array.shape != shape:
        return NotImplemented
    order = None if x._array.dtype.kind == "c" else order
    shapes = (tuple(x.shape), tuple(weight.shape), shape[1:2])
    return tuple(
        [
            in_format(s, t.dtype, order if len(s) > 1 else None) if wanted else None
            for s, t, wanted in zip(shapes, (x, weight, grad), values["output_mask"], strict=True)
        ]
    )


def _cat(run: _Run, values: dict[str, Any]) -> Any:
    tensors = [t for t in values["tensors"] if t._array.shape != (0,)]
    ranks = {t._array.ndim for t in tensors}
    if len(ranks) != 1 or not -min(ranks) <= values["dim"] < min(ranks):
        return NotImplemented
    dim = values["dim"] % tensors[0]._array.ndim
    shapes = {(*s[:dim], *s[dim + 1 :]) for s in (t._array.shape for t in tensors)}
    if len(shapes) != 1:
        return NotImplemented
    return run.computing({dim: sum([t._array.shape[dim] for t in tensors])})


def _pad(run: _Run, values: dict[str, Any]) -> Any:
    shape, pad = list(run.call.args[0]._array.shape), values["pad"]
    if len(pad) % 2 or len(pad) > 2 * len(shape):
        return NotImplemented
    for i in range(len(pad) // 2):
        shape[-1 - i] += pad[2 * i] + pad[2 * i + 1]
    if min(shape, default=0) < 0:
        return NotImplemented
    if min(pad, default=0) < 0:
        return in_format(shape, run.call.args[0].dtype, suggested_format(run.call.args[0]._array))
    own, _, *rest = run.call.args
    return run.of(Call(run.call.wrapper, (own, [min(n, 1) for n in pad], *rest))).computing(dict(enumerate(shape)))


def _repeat(run: _Run, values: dict[str, Any]) -> Any:
    shape, repeats = run.call.args[0]._array.shape, values["repeats"]
    if len(repeats) < len(shape) or min(repeats, default=0) < 0:
        return NotImplemented
    shape = (1,) * (len(repeats) - len(shape)) + shape
    return run.made([n * r for n, r in zip(shape, repeats, strict=True)])


def _topk(run: _Run, values: dict[str, Any]) -> Any:
    shape = run.call.args[0]._array.shape
    if not shape or not -len(shape) <= values["dim"] < len(shape):
        return NotImplemented
    dim, k = values["dim"] % len(shape), values["k"]
    if not 0 < k <= shape[dim]:
        return NotImplemented
    args = list(run.call.args)
    args[1] = 1
    return run.of(Call(run.call.wrapper, tuple(args))).computing({dim: k})


def _spatial(run: _Run, values: dict[str, Any]) -> Any:
    """Rename batches and channels; the dimensions over which windows move keep their sizes."""
    dims = int(re.search(r"([123])d", run.name)[1])  # type: ignore[index]
    try:
        return run.computing({}, dims)
    except Exception:
        return NotImplemented


def _of_sizes(name: str) -> Callable[[Any, dict[str, Any]], Any]:
    return lambda run, values: run.made(values[name])


def _group_norm(run: _Run, values: dict[str, Any]) -> Any:
    x, n, group = run.call.args[0], values["N"], values["group"]
    if not group or values["C"] % group or x._array.size != n * values["C"] * values["HxW"]:
        return NotImplemented
    return _small_groups(run, x, n, group)


def _small_groups(run: _Run, x: Any, n: int, group: int) -> Any:
    if not x.is_contiguous() or x._array.dtype.kind == "V" or x._array.dtype.itemsize < 4:
        return NotImplemented
    return run.made(x._array.shape), run.made((n, group)), run.made((n, group))


def _group_norm_backward(run: _Run, values: dict[str, Any]) -> Any:
    grad, x = run.call.args[:2]
    if grad._array.shape != x._array.shape or not x.is_contiguous():
        return NotImplemented
    shapes = (x._array.shape, (values["C"],), (values["C"],))
    return tuple([run.made(s) if wanted else None for s, wanted in zip(shapes, values["output_mask"], strict=True)])


def _upsample_backward(run: _Run, values: dict[str, Any]) -> Any:
    grad = run.call.args[0]
    return in_format(values["input_size"], grad.dtype, suggested_format(grad._array))


def _half_transform(run: _Run, values: dict[str, Any]) -> Any:
    shape, dims = run.call.args[0]._array.shape, values["dim"]
    if not values["onesided"] or not all(-len(shape) <= d < len(shape) for d in dims):
        return NotImplemented
    last = dims[-1] % len(shape)
    return run.computing({last: shape[last] // 2 + 1})


def _strided(run: _Run, values: dict[str, Any]) -> Any:
    size, stride, dtype = values["size"], values["stride"], values["dtype"]
    if len(size) != len(stride) or min((*size, *stride), default=0) < 0:
        return NotImplemented
    if dtype is None:
        dtype = next((t.dtype for t in run.call.tensors()), default.float)
    item = dtype.numpy.itemsize
    return wrap_meta(MetaArray(tuple(size), dtype.numpy, tuple([s * item for s in stride])))


def _embedding_backward(run: _Run, values: dict[str, Any]) -> Any:
    return run.made((values["num_weights"], run.call.args[0]._array.shape[-1]))


def _pack(run: _Run, values: dict[str, Any]) -> Any:
    """Count the rows of packed sequences by their lengths, which are on the CPU."""
    from ..kernels.recurrent import pack_padded_sequence

    x, lengths = values["input"]._array, values["lengths"]
    if lengths.is_meta or x.ndim < 2 or not x.size:
        return NotImplemented
    row = np.broadcast_to(np.zeros((), np.bool_), x.shape[:2])
    data, batch_sizes = pack_padded_sequence(row, lengths._array, values["batch_first"])
    return run.made((len(data), *x.shape[2:])), wrap(batch_sizes)


def _segments(run: _Run, values: dict[str, Any]) -> Any:
    data, lengths, offsets = run.call.args[0]._array.shape, values["lengths"], values["offsets"]
    axis = values["axis"]
    counts = None if lengths is None else lengths._array.shape
    if offsets is not None:
        *batch, n = offsets._array.shape
        counts = (*batch, n - 1)
    if counts is None or not 0 <= axis < len(data) or counts[:-1] != data[:axis]:
        return NotImplemented
    return run.made((*counts, *data[axis + 1 :]))


RULES: dict[str, Callable[[Any, dict[str, Any]], Any]] = {
    "index.Tensor": _index,
    "_unsafe_index.Tensor": _index,
    "index_put": _index,
    "index_put_": _index,
    "_index_put_impl_": _index,
    "repeat_interleave.Tensor": _repeat_interleave,
    "one_hot": _one_hot,
    "empty_strided": _strided,
    "new_empty_strided": _strided,
    "convolution": _convolution,
    "convolution_backward": _convolution_backward,
    "cat": _cat,
    "constant_pad_nd": _pad,
    "repeat": _repeat,
    "topk": _topk,
    "_pack_padded_sequence": _pack,
    "segment_reduce": _segments,
    "native_group_norm": _group_norm,
    "native_group_norm_backward": _group_norm_backward,
    "_fft_r2c": _half_transform,
    "embedding_dense_backward": _embedding_backward,
    "slice_backward": _of_sizes("input_sizes"),
    "select_backward": _of_sizes("input_sizes"),
    "diagonal_backward": _of_sizes("input_sizes"),
    "unfold_backward": _of_sizes("input_sizes"),
    "value_selecting_reduction_backward": _of_sizes("sizes"),
    **dict.fromkeys(
        """max_pool2d_with_indices max_pool3d_with_indices avg_pool2d avg_pool3d _adaptive_avg_pool2d
        _adaptive_avg_pool3d adaptive_max_pool2d adaptive_max_pool3d max_pool2d_with_indices_backward
        max_pool3d_with_indices_backward avg_pool2d_backward avg_pool3d_backward _adaptive_avg_pool2d_backward
        _adaptive_avg_pool3d_backward adaptive_max_pool2d_backward adaptive_max_pool3d_backward upsample_nearest1d
        upsample_nearest2d upsample_nearest3d upsample_linear1d upsample_bilinear2d upsample_trilinear3d
        upsample_bicubic2d reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d
        replication_pad3d""".split(),
        _spatial,
    ),
    **dict.fromkeys(
        """upsample_nearest1d_backward upsample_nearest2d_backward upsample_nearest3d_backward
        upsample_linear1d_backward upsample_bilinear2d_backward upsample_trilinear3d_backward
        upsample_bicubic2d_backward""".split(),
        _upsample_backward,
    ),
}
