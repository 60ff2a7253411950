"""The batching rules.

Note [Batching rules]
A rule gets a `Call` and returns the operator's result, batched at the call's level. It calls differentiable operators
on physical tensors, whose dimension 0 is the batch. The rules of native_functions.yaml:

    pointwise       operands are aligned from the right, as broadcasting does with single batch elements
    aligned         the same for operators that broadcast all but their last dimensions
    reduction       over the named dimensions, or over all but the batch
    whole(f)        over all dimensions: the operator f over the one that they are flattened to
    dims(a, b)      works on any tensor with leading dimensions; arguments a and b number dimensions
    inserted(a)     the same, where a may number a dimension that the operator adds
    sizes(s, d)     s is the size of the whole tensor (the batch is added to it), d numbers dimensions of that
    fold(n)         works on items of n dimensions and on batches of them: the batch becomes part of that
    loss, loss_backward     pointwise, then a mean or a sum over each batch element
    composite       the operators that it calls are batched
    write(f)        in place: the result of f, copied
    random          by vmap's randomness
    dynamic         refused: results would have different shapes
    loop            one batch element after the other, with a warning
    family.name     a function in this folder

A rule passes arguments that it does not support to `loop`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..call import Call
from . import general, random
from ._loop import loop


class _Rules(dict[str, Callable[[Call], Any]]):
    """Rules by name; those of families are imported on first use."""

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
