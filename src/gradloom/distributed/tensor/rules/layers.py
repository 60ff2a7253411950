"""Sharding rules of layers: normalisation, embeddings, convolution and attention."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .._call import Call, Leaf, Option
from .._spec import local_part
from ..placement_types import Partial, Placement, Shard


def layer_norm(call: Call) -> Iterator[Option]:
    x = call.values["input"]
    for dim in range(x.ndim - len(call.values["normalized_shape"])):
        yield Option(call.where({x.index: Shard(dim)}), Shard(dim))


def layer_norm_backward(call: Call) -> Iterator[Option]:
    x, mask = call.values["input"], call.values["output_mask"]
    for dim in range(x.ndim - len(call.values["normalized_shape"])):
        names = "grad_out", "input", "mean", "rstd"
        sharded: dict[int, Placement] = {call.values[name].index: Shard(dim) for name in names}
        outs = [one for one, wanted in zip((Shard(dim), Partial(), Partial()), mask, strict=True) if wanted]
        yield Option(call.where(sharded), tuple(outs))


def embedding(call: Call) -> Iterator[Option]:
    weight, where = call.values["weight"], call.values["indices"]
    if not isinstance(weight, Leaf) or not isinstance(where, Leaf):
        return
    yield Option(call.where({weight.index: Shard(1)}), Shard(where.ndim))
    for dim in range(where.ndim):
        yield Option(call.where({where.index: Shard(dim)}), Shard(dim))
    yield Option(call.where({weight.index: Shard(0)}), Partial(), _embedding_of_rows)


def _embedding_of_rows(specs: Any, outs: Any, func: Any, args: Any, kwargs: Any) -> Any:
    """Look up the rows that this process has; the others are zeros here."""
    weight, where, *rest = args
    first = local_part(specs[0].shape, specs[0].mesh, specs[0].placements)[1][0]
    is_here = (where >= first) & (where < first + weight.shape[0])
    if not weight.shape[0]:
        return weight.new_zeros(*where.shape, weight.shape[1])
    return func(weight, (where - first) * is_here, *rest, **kwargs) * is_here.unsqueeze(-1)


def embedding_backward(call: Call) -> Iterator[Option]:
    grad, where = call.values["grad_output"], call.values["indices"]
    if not isinstance(grad, Leaf) or not isinstance(where, Leaf) or call.values.get("scale_grad_by_freq"):
        return
    yield Option(call.where({grad.index: Shard(grad.ndim - 1)}), Shard(1))
    yield Option(call.where({grad.index: Partial()}), Partial())
    for dim in range(where.ndim):
        yield Option((Shard(dim), Shard(dim)), Partial())


def convolution(call: Call) -> Iterator[Option]:
    x, weight, bias = (call.values.get(name) for name in ("input", "weight", "bias"))
    if not isinstance(x, Leaf) or not isinstance(weight, Leaf):
        return
    yield Option(call.where({x.index: Shard(0)}), Shard(0))
    if call.values["transposed"] or call.values["groups"] != 1:
        return
    channels: dict[int, Placement] = {weight.index: Shard(0)}
    if isinstance(bias, Leaf):
        channels[bias.index] = Shard(0)
    yield Option(call.where(channels), Shard(1))


def convolution_backward(call: Call) -> Iterator[Option]:
    grad, x = call.values["grad_output"], call.values["input"]
    outs = (Shard(0), Partial(), Partial())
    wanted = call.values["output_mask"]
    yield Option(
        call.where({grad.index: Shard(0), x.index: Shard(0)}),
        tuple([one for one, asked in zip(outs, wanted, strict=True) if asked]),
    )


def attention(call: Call) -> Iterator[Option]:
    """Shard batches and heads, if nothing is dropped: which elements are, depends on all."""
    mask = call.values.get("attn_mask")
    tensors = [leaf for leaf in call.leaves if leaf is not mask]
    if call.values.get("dropout_p") or any(leaf.shape[:2] != tensors[0].shape[:2] for leaf in tensors):
        return
    for dim in (0, 1):
        chosen: dict[int, Placement] = {leaf.index: Shard(dim) for leaf in tensors}
        if isinstance(mask, Leaf) and mask.ndim >= 4 - dim and mask.shape[dim - 4] != 1:
            chosen[mask.index] = Shard(dim - 4 + mask.ndim)
        yield Option(call.where(chosen), Shard(dim))
