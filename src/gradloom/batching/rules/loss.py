"""Rules of losses over classes."""

from __future__ import annotations

from typing import Any

from ...core.tensor import Tensor
from ...dispatch import _operators as ops
from ..call import Call
from ._loop import loop
from .general import MEAN, NONE


def _classes(call: Call) -> int:
    """Return the class dimension of a batch element."""
    return 0 if call.rank("self") in (1, 3) and call.rank("target") in (0, 2) else 1


def _terms(call: Call) -> tuple[Tensor, Tensor]:
    """Return the targets with ignored ones replaced by 0, and the weight of each target (0 if ignored)."""
    target = call["target"]
    ignored = ops.eq(target, call["ignore_index"])
    safe = ops.where(ignored, 0, target)
    if call["weight"] is None:
        weight = ops.ones_like(safe, dtype=call["self"].dtype)
    else:
        weight = ops.index(ops.detach(call["weight"]), (safe,))
    return safe, ops.where(ignored, 0, weight)


def nll_loss_forward(call: Call) -> Any:
    """Gather the targets' entries, negate them, and multiply by the class weights."""
    if not _fits(call):
        return loop(call)
    safe, weight = _terms(call)
    dim = _classes(call)
    chosen = ops.squeeze_dim(ops.gather(call["self"], dim, ops.unsqueeze(safe, dim)), dim)
    values = ops.where(ops.eq(weight, 0), 0, -chosen) * weight
    total = ops.sum(weight)
    how = call["reduction"]
    if how == NONE:
        return values, ops.new_zeros(call["self"], ())
    found = ops.sum(values)
    return (found / total if how == MEAN else found), total


def nll_loss_backward(call: Call) -> Any:
    if not _fits(call):
        return loop(call)
    safe, weight = _terms(call)
    dim = _classes(call)
    grad = call["grad_output"]
    if call["reduction"] == MEAN:
        grad = grad / call["total_weight"]
    values = ops.unsqueeze(ops.where(ops.eq(weight, 0), 0, -grad * weight), dim)
    return ops.scatter(ops.zeros_like(call["self"]), dim, ops.unsqueeze(safe, dim), values)


def _fits(call: Call) -> bool:
    """Return whether the shapes match; if not, `loop` lets the operator raise."""
    own, target = call["self"]._array.shape, call["target"]._array.shape
    dim = _classes(call)
    return len(own) > dim and (*own[:dim], *own[dim + 1 :]) == target and call["target"]._array.dtype.kind in "iu"
