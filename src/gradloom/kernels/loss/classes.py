"""Losses of class scores: negative log likelihood and margins."""

from __future__ import annotations

import math

import numpy as np

from .._common.errors import not_implemented, refuse, type_name
from .._common.layout import row_major
from .._common.numbers import widen
from .._common.tables import starts
from ..reduction import sums
from .pointwise import MEAN, NONE, narrow, reduce

_UNSIGNED, _INT64 = np.dtype(np.uint64), np.dtype(np.int64)


def nll_loss_forward(self: np.ndarray, target: np.ndarray, weight, reduction: int, ignore_index: int) -> tuple:
    """Return -weight[target] * self[target], reduced, and the sum of these weights. Raises IndexError for a target that
    is not a class, RuntimeError if shapes or dtypes do not fit.

    Args:
        self: (n, classes) or (classes,), log-probabilities.
        target: (n,) or (), int64 or uint8.
        weight: (classes,) or None for ones.
        reduction: the mean is relative to the sum of the weights.
        ignore_index: target that is excluded from the reduction and the sum of weights.
    """
    if weight is None and reduction != NONE and self.ndim == 2:
        found = _sum_at_targets(self, target, ignore_index)
        if found is not None:
            kind, rows = self.dtype, self.shape[0]
            found = 0.0 - found  # never -0.0, as in PyTorch
            return np.array(found / rows if reduction == MEAN else found, kind), np.array(rows, kind)
    _check_nll(self, target, weight)
    x, classes = (self, target) if self.ndim > 1 else (self.reshape(1, -1), target.reshape(1))
    classes, chosen = _targets(classes, x.shape[1], ignore_index)
    if chosen is None:
        rows, count = x.shape
        if x.flags.c_contiguous:
            losses = x.take(starts[rows, count] + classes)
        else:
            losses = x[starts[rows, 1], classes]
    else:
        losses = x[chosen, classes[chosen]]
    losses = widen(losses)
    np.negative(losses, losses)
    if self.ndim == 1:
        losses += 0.0
    weights = None if weight is None else _weigh(losses, weight, classes if chosen is None else classes[chosen])
    if reduction != NONE:
        return _reduced_nll(losses, weights, reduction, self.dtype)
    if chosen is not None:
        losses, kept = np.zeros(len(x), losses.dtype), losses
        losses[chosen] = kept
    return narrow(row_major(losses.reshape(target.shape)), self.dtype), np.zeros((), self.dtype)


def _sum_at_targets(self, target, ignore_index) -> float | None:
    """Return the sum of the elements of a matrix at the targets of its rows, in the common case; else None.

    The common case: the matrix is float32 or float64, and there is an int64 target for each row, which is a class other
    than `ignore_index`.
    """
    rows, count = self.shape
    if target.dtype is not _INT64 or target.shape != (rows,) or self.dtype.char not in "fd" or not rows:
        return None
    numbers = target.view(_UNSIGNED)  # a negative number becomes larger than any class
    if numbers.item(numbers.argmax()) >= count or 0 <= ignore_index < count and ignore_index in target:
        return None
    if self.flags.c_contiguous:
        return float(sums.total(self.take(starts[rows, count] + target)))
    return float(sums.total(self[starts[rows, 1], target.copy()]))  # Note [Private indices]


def nll_loss_backward(
    grad_output: np.ndarray,
    self: np.ndarray,
    target: np.ndarray,
    weight,
    reduction: int,
    ignore_index: int,
    total_weight: np.ndarray,
) -> np.ndarray:
    """Return the gradient of `nll_loss_forward` for self: -weight[target] * grad_output at each target, 0 elsewhere."""
    refuse("nll_loss_out_frame", self, "c")
    found = np.zeros(self.shape, self.dtype)
    x, classes = (found, target) if self.ndim > 1 else (found.reshape(1, -1), target.reshape(1))
    classes, chosen = _targets(classes, x.shape[1], ignore_index)
    grad = widen(grad_output)
    places = starts[x.shape] + classes
    if chosen is not None:
        places, classes = places[chosen], classes[chosen]
        if reduction == NONE:
            grad = grad.reshape(-1)[chosen]
    x.reshape(-1)[places] = _scaled_gradient(grad, weight, classes, reduction, total_weight)
    return found


def nll_loss2d_forward(self: np.ndarray, target: np.ndarray, weight, reduction: int, ignore_index: int) -> tuple:
    """Compute `nll_loss_forward` for images: self (n, classes, h, w), target (n, h, w)."""
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
    """Return the gradient of `nll_loss2d_forward` for self."""
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
    total = np.add.reduce(losses, None)
    total_weight = losses.dtype.type(losses.size) if weights is None else np.add.reduce(weights, None)
    if reduction == MEAN:
        total = total / total_weight if total_weight else losses.dtype.type(np.nan)
    return narrow(total, dtype), narrow(total_weight, dtype)


def _weigh(losses, weight, classes) -> np.ndarray:
    """Multiply `losses` by the weights of their targets in place; return the weights."""
    weights = widen(weight)[classes]
    losses *= weights
    return weights


def _scaled_gradient(grad, weight, classes, reduction, total_weight) -> np.ndarray:
    grad = np.negative(grad)
    if reduction == MEAN:
        grad = grad / widen(total_weight)
    return grad if weight is None else grad * widen(weight)[classes]


def _targets(target, count, ignore_index) -> tuple:
    """Return a copy of the targets as integers, and a mask of those that are not `ignore_index` (None if none is). See
    Note [Private indices]."""
    classes = target.copy() if target.dtype is _INT64 or target.dtype.kind == "i" else target.astype(np.int64)
    if classes.size == 0:
        return classes, None
    if not 0 <= ignore_index < count:
        numbers = classes.view(_UNSIGNED)  # a negative number becomes larger than any class
        if numbers.item(numbers.argmax()) < count:
            return classes, None
    chosen = classes != ignore_index
    wrong = classes[chosen & ((classes < 0) | (classes >= count))]
    if wrong.size:
        raise IndexError(f"Target {wrong[0]} is out of bounds.")
    return classes, None if chosen.all() else chosen


def _without_ignored(classes, chosen) -> np.ndarray:
    return classes if chosen is None else np.where(chosen, classes, 0)


def _check_nll(self, target, weight) -> None:
    if self.ndim == 2 and target.ndim == 1 and self.dtype.char in "fd" and target.dtype is _INT64 and weight is None:
        if len(self) == len(target):  # the common case
            return
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
        raise RuntimeError(f"expected target dtype to be Long or Byte, but got {type_name(target.dtype)}")
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
        raise RuntimeError(f"expected scalar type {type_name(self.dtype)} but found {type_name(weight.dtype)}")


def multi_margin_loss(
    self: np.ndarray, target: np.ndarray, p=1, margin=1, weight=None, reduction: int = MEAN
) -> np.ndarray:
    """Return the mean over the other classes of max(0, margin - x[target] + x[i]) ** p, times weight[target]; reduced.
    Raises RuntimeError if shapes do not fit or a target is not a class.

    Args:
        self: (n, classes) or (classes,).
        target: (n,), or one class; int64.
        p: 1 or 2.
        weight: (classes,), or None.
    """
    refuse("multi_margin_loss_cpu_kernel", self, "c")
    x, classes, rows = _multi_margin_inputs(self, target, p, weight)
    z = _hinges(x, classes, rows, margin)
    if p == 2:
        z *= z
    if weight is not None:
        z = _weighted(z, classes, weight)
    losses = np.add.reduce(z, 1) / z.dtype.type(max(x.shape[1], 1))
    return reduce(losses.reshape(target.shape) if reduction == NONE else losses, reduction, self.dtype)


def _hinges(x, classes, rows, margin) -> np.ndarray:
    z = x - x[rows, classes][:, None]
    z += z.dtype.type(margin)
    np.fmax(z, 0, out=z)  # NaN counts for nothing
    z[rows, classes] = 0
    return z


def _weighted(z, classes, weight) -> np.ndarray:
    """Return z (n, classes) times the weights of the targets; zeros stay zeros."""
    return np.where(z > 0, z * widen(weight)[classes][:, None], 0)


def multi_margin_loss_backward(
    grad_output: np.ndarray, self: np.ndarray, target: np.ndarray, p, margin, weight=None, reduction: int = MEAN
) -> np.ndarray:
    """Return the gradient of `multi_margin_loss` for self."""
    refuse("multi_margin_loss_backward_cpu_kernel", self, "c")
    x, classes, rows = _multi_margin_inputs(self, target, p, weight)
    z = _hinges(x, classes, rows, margin)
    slope = z * 2 if p == 2 else (z > 0).astype(z.dtype)
    slope /= slope.dtype.type(max(x.shape[1], 1) * (max(len(x), 1) if reduction == MEAN else 1))
    if weight is not None:
        slope = _weighted(slope, classes, weight)
    slope[rows, classes] = -np.add.reduce(slope, 1)
    slope *= widen(grad_output).reshape(-1, 1)
    return slope.reshape(self.shape).astype(self.dtype, copy=False)


def _multi_margin_inputs(self, target, p, weight) -> tuple:
    if self.ndim > 2 or 0 in self.shape[1:] or (self.ndim == 1 and not self.size):
        raise RuntimeError(
            f"Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(self.shape)}"
        )
    x = self.reshape(1, -1) if self.ndim < 2 else self
    if target.size != len(x) or target.ndim > 1:
        raise RuntimeError(
            "multi_margin_loss: target tensor should be 1-D with size equal to the number of input samples "
            f"(batch size). Expected target size [{len(x)}], but got {list(target.shape)}. Input has shape "
            f"{list(self.shape)}."
        )
    if p not in (1, 2):
        raise RuntimeError("only p == 1 and p == 2 supported")
    if weight is not None and weight.shape != (x.shape[1],):
        raise RuntimeError(f"inconsistent weight size, expected {x.shape[1]} but got {list(weight.shape)}")
    _require_long(target)
    classes = target.reshape(-1)
    if classes.size and not (classes.min() >= 0 and classes.max() < x.shape[1]):
        raise RuntimeError("target out of range")
    return widen(x), classes, np.arange(len(x))


def _require_long(target) -> None:
    if target.dtype.name != "int64":
        raise RuntimeError(f"expected scalar type Long but found {type_name(target.dtype)}")


def multilabel_margin_loss_forward(self: np.ndarray, target: np.ndarray, reduction: int) -> tuple:
    """Return the sum over labels j and other classes i of max(0, 1 - (x[j] - x[i])), over the number of classes;
    reduced. Raises RuntimeError if shapes do not fit or a label is not a class.

    Args:
        self: (n, classes) or (classes,).
        target: of self's shape, int64: each row's labels, ended by -1.

    Returns:
        The loss; and a mask of self's shape and dtype with ones at the labels.
    """
    x, labels, listed = _multilabel_inputs(self, target)
    is_target = _is_target(labels, listed, x.dtype)
    losses = np.zeros(len(x), x.dtype)
    for row in range(len(x)):
        losses[row] = np.add.reduce(_label_hinges(x[row], labels[row], listed[row], is_target[row]), None)
    losses /= losses.dtype.type(max(x.shape[1], 1))
    found = reduce(losses.reshape(self.shape[:-1]) if reduction == NONE else losses, reduction, self.dtype)
    return found, is_target.reshape(self.shape).astype(self.dtype, copy=False)


def _label_hinges(x, labels, listed, is_target) -> np.ndarray:
    """Return max(0, 1 - x[j] + x[i]) for each label j of a row and each other class i: (labels, classes)."""
    z = 1 - x[labels[listed]][:, None] + x[None]
    np.fmax(z, 0, out=z)  # NaN counts for nothing
    z[:, is_target != 0] = 0
    return z


def multilabel_margin_loss_backward(
    grad_output: np.ndarray, self: np.ndarray, target: np.ndarray, reduction: int, is_target: np.ndarray
) -> np.ndarray:
    """Return the gradient of the multilabel margin loss for self."""
    x, labels, listed = _multilabel_inputs(self, target)
    chosen = widen(is_target).reshape(x.shape)
    found = np.zeros_like(x)
    for row in range(len(x)):
        active = _label_hinges(x[row], labels[row], listed[row], chosen[row]) > 0
        found[row] = active.sum(0)
        np.subtract.at(found[row], labels[row][listed[row]], active.sum(1))
    found /= found.dtype.type(max(x.shape[1], 1) * (max(len(x), 1) if reduction == MEAN else 1))
    found *= widen(grad_output).reshape(-1, 1)
    return found.reshape(self.shape).astype(self.dtype, copy=False)


def _multilabel_inputs(self, target) -> tuple:
    if self.ndim > 2 or 0 in self.shape[1:] or (self.ndim == 1 and not self.size):
        raise RuntimeError(
            f"Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(self.shape)}"
        )
    if target.shape != self.shape and not (self.ndim < 2 and target.ndim < 2 and target.size == self.size):
        raise RuntimeError(f"inconsistent target size: {list(target.shape)} for input of size: {list(self.shape)}")
    _require_long(target)
    count = self.shape[-1] if self.ndim else 1
    rows = math.prod(self.shape[:-1])
    labels = target.reshape(rows, count)
    if labels.size and not (labels.min() >= -1 and labels.max() < count):
        raise RuntimeError("argument #2 'target' is out of range")
    return widen(self.reshape(rows, count)), labels, np.logical_and.accumulate(labels >= 0, axis=1)


def _is_target(labels, listed, dtype) -> np.ndarray:
    found = np.zeros(labels.shape, dtype)
    rows = np.nonzero(listed)[0]
    found[rows, labels[listed]] = 1
    return found
