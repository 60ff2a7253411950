"""Negative log likelihoods of classes."""

from __future__ import annotations

import numpy as np

from ..types.dtype import TYPE_OF, scalar_type_name
from ._layout import row_major
from ._loss_inputs import MEAN, NONE, narrow
from ._precision import widen
from ._refuse import not_implemented, refuse


def nll_loss_forward(self: np.ndarray, target: np.ndarray, weight, reduction: int, ignore_index: int) -> tuple:
    """-weight[target] * self[target], reduced, and the sum of the weights that took part in it.

    Args:
        self: (n, classes) or (classes,), log-probabilities.
        target: (n,) or (), int64 or uint8.
        weight: (classes,) or None for ones.
        reduction: the mean is relative to the sum of the weights.
        ignore_index: a target whose loss is 0 and whose weight does not count.

    Raises:
        IndexError: for a target that is no class.
        RuntimeError: if shapes or dtypes do not fit.
    """
    _check_nll(self, target, weight)
    x, classes = (self, target) if self.ndim > 1 else (self.reshape(1, -1), target.reshape(1))
    classes, chosen = _targets(classes, x.shape[1], ignore_index)
    losses = widen(x[np.arange(len(x)), classes] if chosen is None else x[chosen, classes[chosen]])
    np.negative(losses, out=losses)
    weights = None if weight is None else _weigh(losses, weight, classes if chosen is None else classes[chosen])
    if reduction != NONE:
        return _reduced_nll(losses, weights, reduction, self.dtype)
    if chosen is not None:
        losses, kept = np.zeros(len(x), losses.dtype), losses
        losses[chosen] = kept
    return narrow(row_major(losses.reshape(target.shape)), self.dtype), np.zeros((), self.dtype)


def nll_loss_backward(
    grad_output: np.ndarray,
    self: np.ndarray,
    target: np.ndarray,
    weight,
    reduction: int,
    ignore_index: int,
    total_weight: np.ndarray,
) -> np.ndarray:
    """The gradient of `nll_loss_forward` for self: -weight[target] * grad_output at each target, 0
    elsewhere."""
    refuse("nll_loss_out_frame", self, "c")
    found = np.zeros(self.shape, self.dtype)
    x, classes = (found, target) if self.ndim > 1 else (found.reshape(1, -1), target.reshape(1))
    classes, chosen = _targets(classes, x.shape[1], ignore_index)
    grad = widen(grad_output)
    if chosen is None:
        rows = np.arange(len(x))
    else:
        rows, classes = np.flatnonzero(chosen), classes[chosen]
        if reduction == NONE:
            grad = grad.reshape(-1)[chosen]
    x[rows, classes] = _scaled_gradient(grad, weight, classes, reduction, total_weight)
    return found


def nll_loss2d_forward(self: np.ndarray, target: np.ndarray, weight, reduction: int, ignore_index: int) -> tuple:
    """`nll_loss_forward` of an image: self (n, classes, h, w), target (n, h, w)."""
    _check_nll2d(self, target, weight)
    classes, chosen = _targets(target, self.shape[1], ignore_index)
    found = np.take_along_axis(self, _without_ignored(classes, chosen)[:, None], 1)[:, 0]
    losses = widen(found)
    losses = np.negative(losses, out=losses if losses is not found else None)
    if chosen is not None and reduction != NONE:
        losses, classes = losses[chosen], classes[chosen]
    safe = _without_ignored(classes, chosen if reduction == NONE else None)
    weights = None if weight is None else _weigh(losses, weight, safe)
    if reduction == NONE:
        if chosen is not None:
            losses[~chosen] = 0
        return narrow(losses, self.dtype), np.zeros((), self.dtype)
    return _reduced_nll(losses, weights, reduction, self.dtype)


def nll_loss2d_backward(
    grad_output: np.ndarray,
    self: np.ndarray,
    target: np.ndarray,
    weight,
    reduction: int,
    ignore_index: int,
    total_weight: np.ndarray,
) -> np.ndarray:
    """The gradient of `nll_loss2d_forward` for self."""
    _check_nll2d(self, target, weight)
    found = np.zeros(self.shape, self.dtype)
    classes, chosen = _targets(target, self.shape[1], ignore_index)
    safe = _without_ignored(classes, chosen)
    grad = _scaled_gradient(widen(grad_output), weight, safe, reduction, total_weight)
    grad = np.broadcast_to(grad, target.shape)
    if chosen is not None:
        grad = np.where(chosen, grad, 0)
    np.put_along_axis(found, safe[:, None], grad[:, None].astype(self.dtype), 1)
    return found


def _reduced_nll(losses, weights, reduction, dtype) -> tuple:
    total = np.add.reduce(losses, axis=None)
    total_weight = losses.dtype.type(losses.size) if weights is None else weights.sum()
    if reduction == MEAN:
        total = total / total_weight if total_weight else losses.dtype.type(np.nan)
    return narrow(total, dtype), narrow(total_weight, dtype)


def _weigh(losses, weight, classes) -> np.ndarray:
    """The weight of each target, after multiplying `losses` by it."""
    weights = widen(weight)[classes]
    losses *= weights
    return weights


def _scaled_gradient(grad, weight, classes, reduction, total_weight) -> np.ndarray:
    grad = np.negative(grad)
    if reduction == MEAN:
        with np.errstate(all="ignore"):
            grad = grad / widen(total_weight)
    return grad if weight is None else grad * widen(weight)[classes]


def _targets(target, count, ignore_index) -> tuple:
    """Targets as int64, and which of them are not `ignore_index` (None if all).

    Raises:
        IndexError: if one is not in range(count).
    """
    classes = target if target.dtype.kind == "i" else target.astype(np.int64)
    if classes.size == 0:
        return classes, None
    # As an unsigned number, a negative one is larger than any class.
    if not 0 <= ignore_index < count and np.maximum.reduce(classes.view(np.uint64), axis=None) < count:
        return classes, None
    chosen = classes != ignore_index
    wrong = classes[chosen & ((classes < 0) | (classes >= count))]
    if wrong.size:
        raise IndexError(f"Target {wrong[0]} is out of bounds.")
    return classes, None if chosen.all() else chosen


def _without_ignored(classes, chosen) -> np.ndarray:
    return classes if chosen is None else np.where(chosen, classes, 0)


def _check_nll(self, target, weight) -> None:
    if not 1 <= self.ndim <= 2:
        raise RuntimeError("input tensor should be 1D or 2D")
    if target.ndim > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if not (self.ndim == 1 and target.ndim == 0) and self.shape[:1] != target.shape:
        raise RuntimeError(f"size mismatch (got input: {list(self.shape)}, target: {list(target.shape)})")
    _check_types(self, target, weight, self.shape[-1], "nll_loss_out_frame")


def _check_nll2d(self, target, weight) -> None:
    if target.ndim != 3:
        raise RuntimeError(
            f"only batches of spatial targets supported (3D tensors) but got targets of dimension: {target.ndim}"
        )
    if self.ndim != 4:
        raise RuntimeError(
            f"only batches of spatial inputs supported (4D tensors), but got input of dimension: {self.ndim}"
        )
    if self.shape[0] != target.shape[0] or self.shape[2:] != target.shape[1:]:
        raise RuntimeError(f"size mismatch (got input: {list(self.shape)} , target: {list(target.shape)}")
    _check_types(self, target, weight, self.shape[1], "nll_loss2d_forward_out_frame")


def _check_types(self, target, weight, count, name) -> None:
    dtype = target.dtype
    if not (dtype.kind == "i" and dtype.itemsize == 8 or dtype.kind == "u" and dtype.itemsize == 1):
        raise RuntimeError(
            f"expected target dtype to be Long or Byte, but got {scalar_type_name(TYPE_OF[target.dtype])}"
        )
    if self.dtype.kind not in "fV":
        raise not_implemented(name, self)
    if weight is None:
        return
    if weight.shape != (count,):
        raise RuntimeError(
            f"weight tensor should be defined either for all {count} classes or no classes but got "
            f"weight tensor of shape: {list(weight.shape)}"
        )
    if weight.dtype is not self.dtype:
        raise RuntimeError(
            f"expected scalar type {scalar_type_name(TYPE_OF[self.dtype])} but found "
            f"{scalar_type_name(TYPE_OF[weight.dtype])}"
        )
