"""Rules of operators whose results have sizes that none of the arguments has."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.tensor import wrap
from ...dispatch import _operators as ops
from ...dispatch.interception import Call
from ...kernels._common.layout import suggested_format
from ...memory.metadata import MetaArray
from ...types.dtype import default
from ..runs import Run
from ..tensor import wrap_meta
from .images import in_format

NONZERO = (
    "The register_meta function for torch.nonzero() raises unimplemented by default, as a correct data-independent "
    "implementation does not exist: the shape of its result depends on values, and a meta tensor has none."
)


def index(run: Run, values: dict[str, Any]) -> Any:
    if any(_is_mask(i) and i.is_meta for i in values["indices"]):
        raise NotImplementedError(NONZERO)
    return _by_positions(run, values)


def index_put(run: Run, values: dict[str, Any]) -> Any:
    # a mask without data selects an unknown number of elements, to which one value can be written
    is_unknown = any(_is_mask(i) and i.is_meta for i in values["indices"])
    return run.of_small_sizes() if is_unknown else _by_positions(run, values)


def _is_mask(index: Any) -> bool:
    return index is not None and index._array.dtype in (np.bool_, np.uint8)


def _by_positions(run: Run, values: dict[str, Any]) -> Any:
    """Replace masks of the CPU by the positions that they select."""
    from ...kernels.indexing.tensors import require_fitting_mask

    found: list[Any] = []
    dim = 0
    for index in values["indices"]:
        if not _is_mask(index):
            found.append(index)
            dim += 1
            continue
        require_fitting_mask(index._array.shape, run.call.args[0]._array.shape, dim)
        dim += index._array.ndim
        found.extend(ops.nonzero_numpy(index))
    own, _, *rest = run.call.args
    return run.of(Call(run.call.wrapper, (own, found, *rest))).of_small_sizes()


def repeat_interleave(run: Run, values: dict[str, Any]) -> Any:
    if values.get("output_size") is None:
        raise RuntimeError("cannot repeat_interleave a meta tensor without output_size")
    return run.made((values["output_size"],))


def one_hot(run: Run, values: dict[str, Any]) -> Any:
    if values["num_classes"] < 0:
        raise RuntimeError("Tensor.item() cannot be called on meta tensors")
    shape = values["self"]._array.shape if "self" in values else values["input"]._array.shape
    return run.made((*shape, values["num_classes"]))


def cat(run: Run, values: dict[str, Any]) -> Any:
    tensors = [t for t in values["tensors"] if t._array.shape != (0,)]
    ranks = {t._array.ndim for t in tensors}
    if len(ranks) != 1 or not -min(ranks) <= values["dim"] < min(ranks):
        return NotImplemented
    dim = values["dim"] % tensors[0]._array.ndim
    shapes = {(*s[:dim], *s[dim + 1 :]) for s in (t._array.shape for t in tensors)}
    if len(shapes) != 1:
        return NotImplemented
    return run.computing({dim: sum([t._array.shape[dim] for t in tensors])})


def pad(run: Run, values: dict[str, Any]) -> Any:
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


def repeat(run: Run, values: dict[str, Any]) -> Any:
    shape, repeats = run.call.args[0]._array.shape, values["repeats"]
    if len(repeats) < len(shape) or min(repeats, default=0) < 0:
        return NotImplemented
    shape = (1,) * (len(repeats) - len(shape)) + shape
    return run.made([n * r for n, r in zip(shape, repeats, strict=True)])


def topk(run: Run, values: dict[str, Any]) -> Any:
    shape = run.call.args[0]._array.shape
    if not shape or not -len(shape) <= values["dim"] < len(shape):
        return NotImplemented
    dim, k = values["dim"] % len(shape), values["k"]
    if not 0 < k <= shape[dim]:
        return NotImplemented
    args = list(run.call.args)
    args[1] = 1
    return run.of(Call(run.call.wrapper, tuple(args))).computing({dim: k})


def group_norm(run: Run, values: dict[str, Any]) -> Any:
    x, n, group = run.call.args[0], values["N"], values["group"]
    if not group or values["C"] % group or x._array.size != n * values["C"] * values["HxW"]:
        return run.of_small_sizes()
    if not x.is_contiguous() or x._array.dtype.kind == "V" or x._array.dtype.itemsize < 4:
        return run.of_small_sizes()
    return run.made(x._array.shape), run.made((n, group)), run.made((n, group))


def group_norm_backward(run: Run, values: dict[str, Any]) -> Any:
    grad, x = run.call.args[:2]
    if grad._array.shape != x._array.shape or not x.is_contiguous():
        return run.of_small_sizes()
    shapes = (x._array.shape, (values["C"],), (values["C"],))
    return tuple([run.made(s) if wanted else None for s, wanted in zip(shapes, values["output_mask"], strict=True)])


def half_transform(run: Run, values: dict[str, Any]) -> Any:
    shape, dims = run.call.args[0]._array.shape, values["dim"]
    if not values["onesided"] or not all(-len(shape) <= d < len(shape) for d in dims):
        return NotImplemented
    last = dims[-1] % len(shape)
    return run.computing({last: shape[last] // 2 + 1})


def strided(run: Run, values: dict[str, Any]) -> Any:
    size, stride, dtype = values["size"], values["stride"], values["dtype"]
    if len(size) != len(stride) or min((*size, *stride), default=0) < 0:
        return NotImplemented
    if dtype is None:
        dtype = next((t.dtype for t in run.call.tensors()), default.float)
    item = dtype.numpy.itemsize
    return wrap_meta(MetaArray(tuple(size), dtype.numpy, tuple([s * item for s in stride])))


def embedding_backward(run: Run, values: dict[str, Any]) -> Any:
    return run.made((values["num_weights"], run.call.args[0]._array.shape[-1]))


def pack(run: Run, values: dict[str, Any]) -> Any:
    """Count the rows of packed sequences by their lengths, which are on the CPU."""
    from ...kernels.recurrent import pack_padded_sequence

    x, lengths = values["input"]._array, values["lengths"]
    if lengths.is_meta or x.ndim < 2 or not x.size:
        return NotImplemented
    row = np.broadcast_to(np.zeros((), np.bool_), x.shape[:2])
    data, batch_sizes = pack_padded_sequence(row, lengths._array, values["batch_first"])
    return run.made((len(data), *x.shape[2:])), wrap(batch_sizes)


def segments(run: Run, values: dict[str, Any]) -> Any:
    data, lengths, offsets = run.call.args[0]._array.shape, values["lengths"], values["offsets"]
    axis = values["axis"]
    counts = None if lengths is None else lengths._array.shape
    if offsets is not None:
        *batch, n = offsets._array.shape
        counts = (*batch, n - 1)
    if counts is None or not 0 <= axis < len(data) or counts[:-1] != data[:axis]:
        return NotImplemented
    return run.made((*counts, *data[axis + 1 :]))
