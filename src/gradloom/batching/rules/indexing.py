"""Rules of indexing: if indices are batched, the batch is one more index."""

from __future__ import annotations

from math import prod
from typing import Any

from ...core.tensor import Tensor
from ...dispatch import _operators as ops
from ...functional import broadcast_shapes
from ..call import Call
from ..tensor import BatchedTensor
from ._loop import loop, unbatched_write
from .general import dims, dynamic, padded, shifted

MASK = (
    "vmap: We do not support batching operators that can support dynamic shape. Attempting to batch over indexing "
    "with a boolean mask: each batch element would have a result of a different shape. `torch.where(mask, x, other)` "
    "keeps the shape."
)


def _examples(call: Call, rank: int) -> Tensor:
    """Return arange(batch size), shaped to index dimension 0 together with indices of `rank` dimensions."""
    return ops.reshape(ops.arange(call.size), (call.size, *(1,) * rank))


class _Indices:
    """The indices of a call, prepared for physical tensors.

    Attributes:
        batched: whether one of them is batched at this level.
        places: the dimensions of a batch element that are indexed.
        rank: number of dimensions of the broadcast indices.
        together: whether the indexed dimensions are adjacent, so that the result's index dimensions replace them.
    """

    def __init__(self, call: Call, indices: Any) -> None:
        self.call, self.level = call, call.level
        self.indices = [self._numbers(i) for i in indices]
        self.places = [d for d, i in enumerate(self.indices) if i is not None]
        given = [self.indices[d] for d in self.places]
        self.batched = any(i.__class__ is BatchedTensor and i._batch is self.level for i in given)
        self.shape = tuple(broadcast_shapes(*[i._array.shape for i in given])) if given else ()
        self.rank = len(self.shape)
        self.together = self.places == list(range(self.places[0], self.places[-1] + 1)) if given else True

    def _numbers(self, index: Any) -> Any:
        """Return an index unchanged.

        Raises RuntimeError for a batched mask, which selects a different number of entries per batch element.
        """
        if index is None or index._array.dtype.kind != "b" and index._array.dtype.name != "uint8":
            return index
        if index.__class__ is BatchedTensor:
            raise RuntimeError(MASK)
        return index

    @property
    def masks(self) -> bool:
        return any(i is not None and i._array.dtype.kind in "b" for i in self.indices)

    def bare(self) -> list:
        """Return the physical indices, all of one number of dimensions, to be used with an index of the batch."""
        found = []
        for d in self.places:
            index = self.indices[d]
            if index.__class__ is BatchedTensor and index._batch is self.level:
                found.append(padded(index._physical, self.rank))
            else:
                found.append(index)
        return found

    def front(self, tensor: Tensor) -> Tensor:
        """Return a view of a physical tensor with the indexed dimensions directly after the batch."""
        others = [d + 1 for d in range(tensor._array.ndim - 1) if d not in self.places]
        return ops.permute(tensor, (0, *[d + 1 for d in self.places], *others))

    def where(self) -> int:
        """Return the position of the result's index dimensions among the other dimensions."""
        return self.places[0] if self.together else 0

    def moved(self, found: Tensor, back: bool = False) -> Tensor:
        """Move the index dimensions from directly after the batch to their position (or back)."""
        at = self.where()
        if not at or not self.rank:
            return found
        after = tuple(range(1, 1 + self.rank))
        there = tuple(range(1 + at, 1 + at + self.rank))
        return ops.movedim(found, there, after) if back else ops.movedim(found, after, there)


def index(call: Call) -> Any:
    indices = _Indices(call, call["indices"])
    x = call.bare(call.first)
    if not indices.batched:
        return call.wrap(_index_examples(call, indices, x))
    if indices.masks:
        return loop(call)
    bare = indices.bare()
    if call.is_batched(call.first):
        found = ops.index(indices.front(x), (_examples(call, indices.rank), *bare))
    else:
        others = [d for d in range(x._array.ndim) if d not in indices.places]
        found = ops.index(ops.permute(x, (*indices.places, *others)), tuple(bare))
    return call.wrap(indices.moved(found))


def _index_examples(call: Call, indices: _Indices, x: Tensor) -> Tensor:
    """Apply shared indices to all batch elements."""
    found = call.invoke({call.first: x, "indices": (None, *indices.indices)})
    if indices.together or not indices.rank and not indices.masks:
        return found
    rank = found._array.ndim - (x._array.ndim - 1 - sum([_width(i) for i in indices.indices if i is not None])) - 1
    return ops.movedim(found, rank, 0)  # dimensions that are apart go to the front


def _width(index: Tensor) -> int:
    """Return the number of dimensions that an index consumes."""
    return index._array.ndim if index._array.dtype.kind == "b" else 1


def index_put(call: Call) -> Any:
    indices = _Indices(call, call["indices"])
    writes = call.operator.is_inplace
    if writes and not call.is_batched(call.first):
        raise RuntimeError(unbatched_write(call.operator.name))
    if indices.masks or not indices.places:
        return _put_masked(call, indices)
    x = call.physical(call.first)
    target = indices.front(x)
    rank = x._array.ndim - 1 - len(indices.places) + indices.rank
    values = call["values"]
    if call.is_batched("values"):
        values = indices.moved(padded(values._physical, rank), back=True)
    elif values._array.ndim:
        lead = (1,) * (rank - values._array.ndim)
        values = indices.moved(ops.reshape(values, (1, *lead, *values.shape)), back=True)
    full = (_examples(call, indices.rank), *indices.bare())
    accumulate = call.values.get("accumulate", False)
    if writes:
        ops.index_put_(target, full, values, accumulate)
        return call.values[call.first]
    found = ops.index_put(target, full, values, accumulate)
    others = [d + 1 for d in range(x._array.ndim - 1) if d not in indices.places]
    order = [0, *[d + 1 for d in indices.places], *others]
    return call.wrap(ops.permute(found, tuple([order.index(d) for d in range(len(order))])))


def _put_masked(call: Call, indices: _Indices) -> Any:
    """Handle shared masks: the batch is indexed by a full slice."""
    if indices.batched or not indices.together:
        return loop(call)
    values = call["values"]
    if call.is_batched("values"):
        if values._array.ndim:
            return loop(call)
        first = sum([_width(i) for i in indices.indices if i is not None])
        values = padded(values._physical, max(1, call.rank(call.first) - first + 1))
    found = call.invoke({call.first: call.physical(call.first), "indices": (None, *indices.indices), "values": values})
    return call.values[call.first] if call.operator.is_inplace else call.wrap(found)


def masked_fill(call: Call) -> Any:
    """Handle a value that is a batched 0-dimensional tensor."""
    if not call.is_batched("value"):
        from .general import pointwise

        return pointwise(call)
    found = ops.where(call["mask"], ops.to(call["value"], call[call.first].dtype), call[call.first])
    if call.operator.is_inplace:
        if not call.is_batched(call.first):
            raise RuntimeError(unbatched_write(call.operator.name))
        return ops.copy_(call[call.first], found)
    return found


def index_select(call: Call) -> Any:
    rank, dim = call.rank(call.first), call["dim"]
    if not call.is_batched("index"):
        if not rank:
            return loop(call)
        return call.wrap(call.invoke({call.first: call.bare(call.first), "dim": shifted(dim, rank)}))
    at = call["index"]
    if at._array.ndim > 1 or not rank:
        return loop(call)
    if not at._array.ndim:
        at = ops.unsqueeze(at, 0)
    where = shifted(dim, rank) - 1
    return ops.index(call.values[call.first], (*(None,) * where, at))


def along(call: Call) -> Any:
    """Batch index_add and similar operators on (self, dim, index, source): concatenate the batch elements along `dim`
    and offset each element's indices by the start of its part."""
    rank, dim = call.rank(call.first), call["dim"]
    if not rank:
        return loop(call)
    where = shifted(dim, rank)
    x = call.physical(call.first)
    given = [n for n in call.tensors[1:] if n != "index"]
    if not call.is_batched("index"):
        changes: dict[str, Any] = {call.first: x, "dim": where}
        for n in given:
            if call.rank(n) != rank:
                return loop(call)
            changes[n] = call.physical(n)
        return call.wrap(call.invoke(changes))
    at = call["index"]
    if any(call.rank(n) != rank for n in given) or at._array.ndim != 1:
        return loop(call)
    x = ops.movedim(x, where, 1)
    size = x._array.shape[1]
    start = ops.unsqueeze(ops.arange(call.size), 1) * size
    at = at._physical
    flat = ops.flatten(ops.where(at < 0, at + size, at) + start.to(at.dtype), 0, 1)
    changes = {call.first: ops.flatten(x, 0, 1), "dim": 0, "index": flat}
    for n in given:
        changes[n] = ops.flatten(ops.movedim(call.physical(n), where, 1), 0, 1)
    found = ops.unflatten(call.invoke(changes), 0, (call.size, size))
    return call.wrap(ops.movedim(found, 1, where))


def scatter(call: Call) -> Any:
    """Batch scatter and similar operators. Beside a vector, the index and the source may have no dimensions."""
    for n in call.tensors[1:] if call.rank(call.first) else ():
        if not call.rank(n):
            call.values[n] = ops.unsqueeze(call[n], 0)
    return dims(call)


def gather(call: Call) -> Any:
    rank = call.rank(call.first)
    x, at = call.physical(call.first), call.physical("index")
    if rank and at._array.ndim == 1:  # an index without dimensions, into a vector
        found = call.invoke({call.first: x, "index": ops.unsqueeze(at, 1), "dim": shifted(call["dim"], rank)})
        return call.wrap(ops.squeeze(found, 1))
    if rank:
        return call.wrap(call.invoke({call.first: x, "index": at, "dim": shifted(call["dim"], rank)}))
    x, wide = ops.unsqueeze(x, 1), ops.unsqueeze(at, 1) if at._array.ndim == 1 else at
    shifted(call["dim"], 0)
    return call.wrap(ops.reshape(call.invoke({call.first: x, "index": wide, "dim": 1}), at.shape))


def take(call: Call) -> Any:
    x = call.bare(call.first)
    if not call.is_batched(call.first):
        return call.wrap(ops.take(x, call.bare("index")))
    flat = ops.reshape(x, (call.size, -1))
    at = call.physical("index")
    count = prod(x._array.shape[1:])
    at = ops.reshape(ops.where(at < 0, at + count, at), (call.size, -1))
    return call.wrap(ops.reshape(ops.gather(flat, 1, at), (call.size, *call["index"].shape)))


def one_hot(call: Call) -> Any:
    if call.values.get("num_classes", -1) < 0:
        raise RuntimeError(
            "vmap: it looks like you are attempting to use torch.one_hot without num_classes: the "
            "number of classes would depend on the values. Give `num_classes`."
        )
    return call.wrap(call.invoke({call.first: call.bare(call.first)}))


def embedding(call: Call) -> Any:
    if not call.is_batched("weight"):
        return call.wrap(call.invoke({"indices": call.bare("indices")}))
    padding = call.values.get("padding_idx", -1)
    if call.values.get("scale_grad_by_freq"):
        return loop(call)
    found = ops.index(call["weight"], (call["indices"],))
    if padding is not None and padding >= 0:
        is_padding = ops.unsqueeze(ops.eq(call["indices"], padding), -1)
        found = ops.where(is_padding, ops.detach(found), found)
    return found


def embedding_dense_backward(call: Call) -> Any:
    if call.values.get("scale_grad_by_freq"):
        return loop(call)
    grad, at, padding = call.physical("grad_output"), call.physical("indices"), call["padding_idx"]
    width = grad._array.shape[-1]
    grad, at = ops.reshape(grad, (call.size, -1, width)), ops.reshape(at, (call.size, -1))
    if padding >= 0:
        grad = ops.masked_fill(grad, ops.unsqueeze(ops.eq(at, padding), -1), 0)
    at = at + ops.unsqueeze(ops.arange(call.size), 1) * call["num_weights"]
    found = ops.zeros((call.size * call["num_weights"], width), dtype=grad.dtype)
    found = ops.index_add(found, 0, ops.reshape(at, (-1,)), ops.reshape(grad, (-1, width)))
    return call.wrap(ops.unflatten(found, 0, (call.size, call["num_weights"])))


def searchsorted(call: Call) -> Any:
    """Search one sorted vector per batch element, or one for each row of the values."""
    names = call.tensors
    vectors, values = names[0], names[1] if len(names) > 1 else ""
    if "sorter" in names or not values:
        return loop(call)
    if not call.is_batched(vectors) and call.rank(vectors) == 1:
        return call.wrap(call.invoke({values: call.bare(values)}))
    x = call.physical(values)
    if call.rank(vectors) != 1:
        if call.rank(vectors) != call.rank(values):
            return loop(call)
        return call.wrap(call.invoke({vectors: call.physical(vectors), values: x}))
    found = call.invoke({vectors: call.physical(vectors), values: ops.reshape(x, (call.size, -1))})
    return call.wrap(ops.reshape(found, x.shape))


def bucketize(call: Call) -> Any:
    if not call.is_batched("boundaries"):
        return call.wrap(call.invoke({call.first: call.bare(call.first)}))
    if not isinstance(call[call.first], Tensor):
        return loop(call)
    return ops.searchsorted(
        call["boundaries"],
        call[call.first],
        out_int32=call.values.get("out_int32", False),
        right=call.values.get("right", False),
    )


def isin(call: Call) -> Any:
    tests = "test_elements"
    if call.is_batched(tests) or not isinstance(call[call.first], Tensor):
        return loop(call)
    return call.wrap(call.invoke({call.first: call.bare(call.first)}))


def masked_select(call: Call) -> Any:
    if call.is_batched("mask"):
        dynamic(call)
    if call["mask"].shape != call[call.first].shape or not call.rank("mask"):
        return loop(call)  # of shapes that broadcast; and `index` refuses a mask without dimensions
    return ops.index(call[call.first], (call["mask"],))


__all__ = [
    "along",
    "bucketize",
    "embedding",
    "embedding_dense_backward",
    "index",
    "index_put",
    "index_select",
    "isin",
    "masked_fill",
    "masked_select",
    "one_hot",
    "searchsorted",
    "take",
]
