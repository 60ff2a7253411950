"""The batching rules.

Note [Batching rules]
A rule takes a `Call` and returns the operator's result, batched at the call's level. It computes nothing itself: it
calls differentiable operators on physical tensors, whose dimension 0 is the batch. The rules of native_functions.yaml:

    pointwise       aligns operands from the right, as broadcasting does for single batch elements
    aligned         the same for operators that broadcast all but their last dimensions
    reduction       reduces the named dimensions, or all but the batch
    whole(f)        flattens all dimensions and calls the operator f over that one
    evenly(f)       the same; the gradient of the value is distributed evenly among the elements that equal it
    dims(a, b)      accepts any leading dimensions; a and b are dimension arguments
    inserted(a)     the same, where a numbers a dimension of the result
    sizes(s, d)     s is the size of the whole tensor, to which the batch is added; d numbers its dimensions
    fold(n)         accepts items of n dimensions and batches of them; vmap's batch is folded into that batch
    loss, loss_backward     pointwise, then a mean or a sum over each batch element
    composite       the operators that it calls are batched
    write(f)        in place: copies the result of f
    random          follows vmap's `randomness`
    dynamic         raises: the shape of the result depends on values
    loop            calls the operator once per batch element, with a warning
    family.name     a function in this folder

A rule calls `loop` for arguments that it does not support.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..call import Call
from . import general, random
from ._loop import loop


class _Rules(dict[str, Callable[[Call], Any]]):
    """Rules by name; the modules of families are imported on first use."""

    def __missing__(self, name: str) -> Callable[[Call], Any]:
        from importlib import import_module

        family, _, function = name.partition(".")
        rule = self[name] = getattr(import_module(f"{__name__}.{family}"), function)
        return rule


RULES = _Rules(
    pointwise=general.pointwise,
    aligned=general.aligned,
    reduction=general.reduction,
    whole=general.whole,
    evenly=general.evenly,
    dims=general.dims,
    inserted=general.inserted,
    sizes=general.sizes,
    fold=general.fold,
    loss=general.loss,
    loss_backward=general.loss_backward,
    write=general.write,
    dynamic=general.dynamic,
    random=random.random,
    loop=loop,
)
