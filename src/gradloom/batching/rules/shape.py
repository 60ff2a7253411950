"""Rules of operators that take sizes, or treat all dimensions alike."""

from __future__ import annotations

from typing import Any

from ...dispatch import _operators as ops
from ...kernels._common.dims import infer_size
from ...types.device import channels_last, channels_last_3d, contiguous_format
from ..call import Call
from ..tensor import innermost, refresh
from ._loop import loop, shares, unbatched_write
from .general import padded, shifted


def view(call: Call) -> Any:
    """Return an operator whose argument is the new size."""
    name = call.arguments[0]
    return call.wrap(call.invoke({call.first: call.physical(call.first), name: (call.size, *call[name])}))


def reshape(call: Call) -> Any:
    shape = infer_size(call["shape"], call[call.first]._array.size)
    return call.wrap(ops.reshape(call.physical(call.first), (call.size, *shape)))


def reshape_alias(call: Call) -> Any:
    """Reshape, ignoring the given strides: the tensor may be a tangent, with other strides than its primal."""
    return call.wrap(ops.reshape(call.physical(call.first), (call.size, *call["size"])))


def expand(call: Call) -> Any:
    size = tuple(call["size"])
    x = call.physical(call.first)
    if call.rank(call.first) > len(size):
        raise RuntimeError(
            f"expand(): the number of sizes provided ({len(size)}) must be greater or equal to the "
            f"number of dimensions in the tensor ({call.rank(call.first)})"
        )
    return call.wrap(call.invoke({call.first: padded(x, len(size)), "size": (call.size, *size)}))


def repeat(call: Call) -> Any:
    repeats = tuple(call["repeats"])
    if len(repeats) < call.rank(call.first):
        raise RuntimeError("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
    x = padded(call.physical(call.first), len(repeats))
    return call.wrap(call.invoke({call.first: x, "repeats": (1, *repeats)}))


def permute(call: Call) -> Any:
    dims, rank = tuple(call["dims"]), call.rank(call.first)
    if len(dims) != rank:
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of "
            f"the desired ordering of dimensions i.e. input.dim() = {rank} is not equal to len(dims) = "
            f"{len(dims)}"
        )
    dims = (0, *shifted(dims, rank)) if rank else (0,)
    return call.wrap(call.invoke({call.first: call.physical(call.first), "dims": dims}))


def t(call: Call) -> Any:
    rank = call.rank(call.first)
    if rank > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {rank}D")
    x = call.physical(call.first)
    if call.operator.is_inplace:
        _own(call)
        if rank == 2:
            ops.transpose_(x, 1, 2)
        return refresh(call.values[call.first])
    return call.wrap(ops.transpose(x, 1, 2) if rank == 2 else ops.alias(x))


def _own(call: Call) -> None:
    if not call.is_batched(call.first):
        raise RuntimeError(unbatched_write(call.operator.name))


def squeeze(call: Call) -> Any:
    """Remove all dimensions of size 1 of a batch element."""
    x = call.physical(call.first)
    dims = tuple([d for d, n in enumerate(x._array.shape) if d and n == 1])
    if call.operator.is_inplace:
        _own(call)
        ops.squeeze__dims(x, dims)
        return refresh(call.values[call.first])
    return call.wrap(ops.squeeze_dims(x, dims))


def as_strided(call: Call) -> Any:
    """Batch as_strided. The offset counts from the start of the storage, as for the first batch element."""
    x = call.physical(call.first)
    offset = call["storage_offset"]
    if call.operator.is_inplace:
        _own(call)
    found = call.invoke(
        {
            call.first: x,
            "size": (call.size, *call["size"]),
            "stride": (x.stride(0), *call["stride"]),
            "storage_offset": x.storage_offset() if offset is None else offset,
        }
    )
    return refresh(call.values[call.first]) if call.operator.is_inplace else call.wrap(found)


def as_strided_scatter(call: Call) -> Any:
    """Handle contiguous batch elements: each gets its own part of one storage."""
    given = call[call.first]
    start = 0 if call["storage_offset"] is None else call["storage_offset"] - given.storage_offset()
    end = start + sum((n - 1) * stride for n, stride in zip(call["size"], call["stride"], strict=True))
    if not given._array.flags.c_contiguous or start < 0 or end >= max(given._array.size, 1):
        raise RuntimeError(
            "vmap: as_strided_scatter of a tensor that is not contiguous has no batching rule, because "
            "its strides and offset refer to memory that batch elements share: call contiguous() on it"
        )
    x = ops.clone(call.physical(call.first), memory_format=contiguous_format)
    return call.wrap(
        call.invoke(
            {
                call.first: x,
                "src": call.physical("src"),
                "size": (call.size, *call["size"]),
                "stride": (given._array.size, *call["stride"]),
                "storage_offset": start,
            }
        )
    )


def roll(call: Call) -> Any:
    x, rank, dims = call.physical(call.first), call.rank(call.first), call["dims"]
    if dims:
        return call.wrap(call.invoke({call.first: x, "dims": shifted(tuple(dims), rank)}))
    if not rank:
        return call.wrap(ops.clone(x))
    flat = call.invoke({call.first: ops.flatten(x, 1, -1), "dims": (1,)})
    return call.wrap(ops.reshape(flat, x.shape))


def pad(call: Call) -> Any:
    rank = call.rank(call.first)
    if len(call["pad"]) > 2 * rank:
        raise RuntimeError(
            "Length of pad should be no more than twice the number of dimensions of the input. Pad "
            f"length is {len(call['pad'])} while the input has {rank} dimensions."
        )
    return call.wrap(call.invoke({call.first: call.physical(call.first)}))


def cat(call: Call) -> Any:
    """Concatenate along an existing dimension; empty 1-d tensors are skipped, as the operator does."""
    tensors = call["tensors"]
    rank = max([x._array.ndim for x in tensors])
    kept = [x for x in tensors if x._array.shape != (0,) or rank == 1]
    return call.wrap(call.invoke({"tensors": tuple(shares(kept, call.level)), "dim": shifted(call["dim"], rank)}))


def stack(call: Call) -> Any:
    tensors = call["tensors"]
    rank = tensors[0]._array.ndim + 1
    return call.wrap(call.invoke({"tensors": tuple(shares(tensors, call.level)), "dim": shifted(call["dim"], rank)}))


def trace(call: Call) -> Any:
    if call.rank(call.first) != 2:
        raise RuntimeError("trace: expected a matrix, but got tensor with dim " + str(call.rank(call.first)))
    return call.wrap(ops.sum(ops.diagonal(call.physical(call.first), 0, 1, 2), -1))


def channels(call: Call) -> Any:
    """Batch operators whose dimensions 0 and 1 are batch and channels: fold vmap's batch into dimension 0."""
    x = call.physical(call.first)
    count = x._array.shape[1]
    found = call.invoke({call.first: ops.flatten(x, 0, 1)})
    return call.wrap(ops.unflatten(found, 0, (call.size, count)))


def through(call: Call) -> Any:
    """Call the operator on the physical tensor, in place or not."""
    if call.operator.is_inplace:
        _own(call)
        call.invoke({call.first: call.bare(call.first)})
        return call.values[call.first]
    changes: dict[str, Any] = {n: call.physical(n) for n in call.tensors}
    if call.values.get("memory_format") in (channels_last, channels_last_3d):
        changes["memory_format"] = None  # a memory format is for one number of dimensions, and the batch adds one
    return call.wrap(call.invoke(changes))


def made_like(call: Call) -> Any:
    """Batch new_zeros and similar factories: one tensor of the given size per batch element."""
    size = call.arguments[0]
    if innermost((call[call.first],)) is not call.level:
        return loop(call)
    return call.wrap(call.invoke({call.first: call.bare(call.first), size: (call.size, *call[size])}))


def resize(call: Call) -> Any:
    raise RuntimeError(
        f"vmap: {call.operator.name} would resize the storage of the whole batch; make a new tensor instead"
    )
