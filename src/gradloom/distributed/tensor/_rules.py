"""Sharding rules: how operators are computed from the parts of distributed tensors.

A rule proposes options for one dimension of the mesh (`_call.Option`); that all inputs are replicated is always one and
not proposed. `_propagation` chooses. An operator without a rule gathers its arguments.

Note [Index notation]
For operators that work alike on every index, a rule is written as index labels, as in einsum: "ik,kj->ij". A small
letter may be sharded: in every argument that has it, and in the result, or, if the result has not, the result is a sum
over the processes. A capital letter or a dot may not. `+` before an argument says that it is added to the result (a
bias): of a sum over the processes, one of them adds it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from ._call import Call, Leaf, Option, Rule, dims_of
from ._views import moves, view_rules
from .placement_types import Partial, Placement, Shard, _NormPartial, _StridedShard

__all__ = ["rule_of", "takes_empty_parts"]

_SUMS = (Partial("sum"), Partial("avg"))


def _tensors(call: Call) -> list[Leaf | None]:
    """Return the arguments that may be tensors: leaves, and None for those that are not distributed tensors."""
    return [call.values.get(argument.name) for argument in call.func._schema.arguments]


# -- elementwise operators


def pointwise(call: Call) -> Iterator[Option]:
    """Propose to shard a dimension of the result and of all arguments that are not broadcast along it."""
    shape = call.outs[0].shape
    for dim, size in enumerate(shape):
        inputs: dict[int, Placement] = {}
        for leaf in call.leaves:
            at = dim - len(shape) + leaf.ndim
            if at >= 0 and leaf.shape[at] == size:
                inputs[leaf.index] = Shard(at)
        yield Option(call.where(inputs), Shard(dim))
    first = call.current(call.leaves[0])
    if isinstance(first, _StridedShard) and all(leaf.shape == call.leaves[0].shape == shape for leaf in call.leaves):
        yield Option((first,) * len(call.leaves), first)
    yield from _linear(call)


_ADDITIVE = frozenset(["add", "sub", "rsub", "add_", "sub_"])
_LINEAR_IN_EACH = frozenset(["mul", "mul_", "mm", "bmm", "mv", "dot"])
_LINEAR_IN_FIRST = frozenset(["div", "div_", "neg", "neg_", "sum", "mean"])


def _linear(call: Call) -> Iterator[Option]:
    """Propose to leave sums over the processes as such, where the operator allows it."""
    for kind in _SUMS:
        if call.name in _ADDITIVE and len(call.leaves) == 2:
            yield Option((kind, kind), kind)
        elif call.name in _LINEAR_IN_EACH:
            for leaf in call.leaves:
                yield Option(call.where({leaf.index: kind}), kind)
        elif call.name in _LINEAR_IN_FIRST and call.values.get("rounding_mode") is None:
            first = call.values["self"]
            if isinstance(first, Leaf) and first.index == 0:
                yield Option(call.where({0: kind}), kind)


# -- index notation


def indices(notation: str) -> Rule:
    """Return a rule written in index notation; see Note [Index notation]."""
    left, right = notation.split("->")
    return partial(_by_indices, left.split(","), right.split(","))


def _by_indices(inputs: list[str], outputs: list[str], call: Call) -> Iterator[Option]:
    tensors = [one for one in _tensors(call) if isinstance(one, Leaf)]
    if len(tensors) == len(inputs) - 1 and any(labels.startswith("+") for labels in inputs):
        inputs = [labels for labels in inputs if not labels.startswith("+")]
    if len(tensors) != len(inputs) or len(tensors) != len(call.leaves):
        return
    for letter in sorted({one for labels in inputs for one in labels if one.islower()}):
        is_sum = not any(letter in labels for labels in outputs)
        chosen: dict[int, Placement] = {}
        for labels, leaf in zip(inputs, tensors, strict=True):
            if is_sum and labels.startswith("+"):
                chosen[leaf.index] = Partial()
            elif letter in labels:
                at = labels.lstrip("+").index(letter) - len(labels.lstrip("+")) + leaf.ndim
                if at >= 0 and (leaf.shape[at] > 1 or not labels.startswith("+")):
                    chosen[leaf.index] = Shard(at)
        outs = [Shard(labels.index(letter)) if letter in labels else Partial() for labels in outputs]
        yield Option(call.where(chosen), tuple(outs))
    yield from _linear(call)


# -- reductions


def reduction(
    call: Call, across: Callable[[Call], Placement | None] = lambda call: None, even: bool = False
) -> Iterator[Option]:
    """Propose to shard dimensions that stay and, if `across` gives a placement of the result, those that do not."""
    (leaf,) = call.leaves
    dims = dims_of(call.values.get("dim"), leaf.ndim)
    keeps = bool(call.values.get("keepdim", False))
    for dim in range(leaf.ndim):
        if dim not in dims:
            yield Option((Shard(dim),), Shard(dim if keeps else dim - sum(one < dim for one in dims)))
        elif (found := across(call)) is not None and (call.is_even(leaf, dim) or not even):
            yield Option((Shard(dim),), found)
    yield from _linear(call)


def _norm(call: Call) -> Placement | None:
    order = call.values.get("ord", 2)
    return _NormPartial("norm", float(order)) if float(order) > 0 else None


def _extremum(kind: str) -> Rule:
    """Return the rule of max and min: of all elements, over the processes; along a dimension, with indices, not."""
    across = partial(_whole_only, Partial(kind))
    return partial(reduction, across=across)


def _whole_only(found: Placement, call: Call) -> Placement | None:
    return found if call.values.get("dim") is None else None


def _always(found: Placement) -> Callable[[Call], Placement]:
    return lambda call: found


# -- operators along dimensions


def along(argument: str | None, last: int = 1) -> Rule:
    """Return the rule of an operator that mixes elements along some dimensions and treats the others alike.

    Args:
        argument: name of the argument that says along which; None for the last ones.
        last: how many, then.
    """
    return partial(_along, argument, last)


def _along(argument: str | None, last: int, call: Call) -> Iterator[Option]:
    ndim = call.leaves[0].ndim
    if argument is None:
        mixed = list(range(ndim - last, ndim))
    else:
        mixed = dims_of(call.values.get(argument, -1), ndim)
    if any(leaf.ndim != ndim for leaf in call.leaves):
        return
    for dim in range(ndim):
        if dim not in mixed and len({leaf.shape[dim] for leaf in call.leaves}) == 1:
            yield Option((Shard(dim),) * len(call.leaves), Shard(dim))


def leading(count: int) -> Rule:
    """Return the rule of an operator that treats the first dimensions of all arguments and results alike."""
    return partial(_leading, count)


def _leading(count: int, call: Call) -> Iterator[Option]:
    for dim in range(min(count, *(leaf.ndim for leaf in call.leaves), *(len(out.shape) for out in call.outs))):
        if len({leaf.shape[dim] for leaf in call.leaves}) == 1:
            yield Option((Shard(dim),) * len(call.leaves), Shard(dim))


# -- layers


def _layer_norm(call: Call) -> Iterator[Option]:
    x = call.values["input"]
    for dim in range(x.ndim - len(call.values["normalized_shape"])):
        yield Option(call.where({x.index: Shard(dim)}), Shard(dim))


def _layer_norm_backward(call: Call) -> Iterator[Option]:
    x, mask = call.values["input"], call.values["output_mask"]
    for dim in range(x.ndim - len(call.values["normalized_shape"])):
        names = "grad_out", "input", "mean", "rstd"
        sharded: dict[int, Placement] = {call.values[name].index: Shard(dim) for name in names}
        outs = [one for one, wanted in zip((Shard(dim), Partial(), Partial()), mask, strict=True) if wanted]
        yield Option(call.where(sharded), tuple(outs))


def _embedding(call: Call) -> Iterator[Option]:
    weight, where = call.values["weight"], call.values["indices"]
    if not isinstance(weight, Leaf) or not isinstance(where, Leaf):
        return
    yield Option(call.where({weight.index: Shard(1)}), Shard(where.ndim))
    for dim in range(where.ndim):
        yield Option(call.where({where.index: Shard(dim)}), Shard(dim))
    yield Option(call.where({weight.index: Shard(0)}), Partial(), _embedding_of_rows)


def _embedding_of_rows(specs: list[Any], func: Any, args: Any, kwargs: Any) -> Any:
    """Look up the rows that this process has; the others are zeros here."""
    from ._spec import local_part

    weight, where, *rest = args
    first = local_part(specs[0].shape, specs[0].mesh, specs[0].placements)[1][0]
    is_here = (where >= first) & (where < first + weight.shape[0])
    if not weight.shape[0]:
        return weight.new_zeros(*where.shape, weight.shape[1])
    return func(weight, (where - first) * is_here, *rest, **kwargs) * is_here.unsqueeze(-1)


def _embedding_backward(call: Call) -> Iterator[Option]:
    grad, where = call.values["grad_output"], call.values["indices"]
    if not isinstance(grad, Leaf) or not isinstance(where, Leaf) or call.values.get("scale_grad_by_freq"):
        return
    yield Option(call.where({grad.index: Shard(grad.ndim - 1)}), Shard(1))
    yield Option(call.where({grad.index: Partial()}), Partial())
    for dim in range(where.ndim):
        yield Option((Shard(dim), Shard(dim)), Partial())


def _convolution(call: Call) -> Iterator[Option]:
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


def _convolution_backward(call: Call) -> Iterator[Option]:
    grad, x = call.values["grad_output"], call.values["input"]
    outs = (Shard(0), Partial(), Partial())
    wanted = call.values["output_mask"]
    yield Option(
        call.where({grad.index: Shard(0), x.index: Shard(0)}),
        tuple([one for one, asked in zip(outs, wanted, strict=True) if asked]),
    )


def _attention(call: Call) -> Iterator[Option]:
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


def _loss(call: Call) -> Iterator[Option]:
    """Elementwise losses: reduced as the call says (0: not, 1: mean, 2: sum)."""
    first = call.leaves[0]
    if any(leaf.shape != first.shape for leaf in call.leaves):
        return
    how = call.values.get("reduction", 1)
    for dim in range(first.ndim):
        found = (Shard(dim), Partial("avg"), Partial("sum"))[how]
        if how != 1 or call.is_even(first, dim):
            yield Option((Shard(dim),) * len(call.leaves), found)


# -- the rules

_POINTWISE = """
    _to_copy clone copy_ detach alias lift_fresh where masked_fill masked_fill_ zeros_like ones_like full_like
    empty_like zero_ fill_ threshold_backward gelu_backward native_dropout_backward isclose _conj resolve_conj
    resolve_neg
    """
_ALONG = """
    _softmax _log_softmax _softmax_backward_data _log_softmax_backward_data cumsum cumprod logcumsumexp cummax cummin
    sort topk argsort kthvalue flip:dims roll:dims gather
    """
_BATCHES = """
    max_pool2d_with_indices max_pool2d_with_indices_backward avg_pool2d avg_pool2d_backward _adaptive_avg_pool2d
    _adaptive_avg_pool2d_backward max_pool3d_with_indices avg_pool3d constant_pad_nd upsample_nearest2d
    upsample_bilinear2d
    """

_RULES: dict[str, Rule] = {
    "mm": indices("ik,kj->ij"),
    "bmm": indices("bik,bkj->bij"),
    "mv": indices("ik,k->i"),
    "dot": indices("k,k->"),
    "addmm": indices("+ij,ik,kj->ij"),
    "baddbmm": indices("+bij,bik,bkj->bij"),
    "addmv": indices("+i,ik,k->i"),
    "sum": partial(reduction, across=_always(Partial("sum"))),
    "nansum": partial(reduction, across=_always(Partial("sum"))),
    "count_nonzero": partial(reduction, across=_always(Partial("sum"))),
    "mean": partial(reduction, across=_always(Partial("avg")), even=True),
    "prod": partial(reduction, across=_always(Partial("product"))),
    "amax": partial(reduction, across=_always(Partial("max"))),
    "amin": partial(reduction, across=_always(Partial("min"))),
    "max": _extremum("max"),
    "min": _extremum("min"),
    "linalg_vector_norm": partial(reduction, across=_norm),
    **dict.fromkeys("any all argmax argmin var std logsumexp median mode var_mean std_mean".split(), reduction),
    **dict.fromkeys(_POINTWISE.split(), pointwise),
    **{name: along(argument or "dim") for name, _, argument in (word.partition(":") for word in _ALONG.split())},
    **dict.fromkeys(_BATCHES.split(), leading(2)),
    **dict.fromkeys("tril triu diagonal_scatter".split(), along(None, 2)),
    "native_layer_norm": _layer_norm,
    "native_layer_norm_backward": _layer_norm_backward,
    "embedding": _embedding,
    "embedding_dense_backward": _embedding_backward,
    "convolution": _convolution,
    "convolution_backward": _convolution_backward,
    "_scaled_dot_product_flash_attention_for_cpu": _attention,
    "_scaled_dot_product_flash_attention_for_cpu_backward": _attention,
    **dict.fromkeys("mse_loss smooth_l1_loss huber_loss binary_cross_entropy l1_loss".split(), _loss),
    **view_rules,
}


def takes_empty_parts(rule: Rule) -> bool:
    """Return whether the operators of a rule compute on parts without elements; others may raise."""
    return rule is pointwise or getattr(rule, "func", None) in (_by_indices, moves)


def rule_of(func: Any, name: str) -> Rule | None:
    """Return the rule of an operator, or None."""
    found = _RULES.get(name)
    if found is None and any(tag.name == "pointwise" for tag in func.tags):
        return pointwise
    return found
