"""Losses of margins between the scores of classes."""

from __future__ import annotations

import math

import numpy as np

from ..types.dtype import TYPE_OF, scalar_type_name
from ._loss_inputs import MEAN, NONE, reduce
from ._precision import widen
from ._refuse import refuse


def multi_margin_loss(
    self: np.ndarray, target: np.ndarray, p=1, margin=1, weight=None, reduction: int = MEAN
) -> np.ndarray:
    """The mean over the other classes of max(0, margin - x[target] + x[i]) ** p, times weight[target];
    reduced.

    Args:
        self: (n, classes) or (classes,).
        target: (n,), or one class; int64.
        p: 1 or 2.
        weight: (classes,), or None.

    Raises:
        RuntimeError: if shapes do not fit or a target is no class.
    """
    refuse("multi_margin_loss_cpu_kernel", self, "c")
    x, classes, rows = _multi_margin_inputs(self, target, p, weight)
    z = _hinges(x, classes, rows, margin)
    if p == 2:
        z *= z
    if weight is not None:
        z *= widen(weight)[classes][:, None]
    losses = z.sum(1) / z.dtype.type(max(x.shape[1], 1))
    return reduce(losses.reshape(target.shape) if reduction == NONE else losses, reduction, self.dtype)


def _hinges(x, classes, rows, margin) -> np.ndarray:
    z = x - x[rows, classes][:, None]
    z += z.dtype.type(margin)
    np.maximum(z, 0, out=z)
    z[rows, classes] = 0
    return z


def multi_margin_loss_backward(
    grad_output: np.ndarray, self: np.ndarray, target: np.ndarray, p, margin, weight=None, reduction: int = MEAN
) -> np.ndarray:
    """The gradient of `multi_margin_loss` for self."""
    refuse("multi_margin_loss_backward_cpu_kernel", self, "c")
    x, classes, rows = _multi_margin_inputs(self, target, p, weight)
    z = _hinges(x, classes, rows, margin)
    slope = z * 2 if p == 2 else (z > 0).astype(z.dtype)
    slope /= slope.dtype.type(max(x.shape[1], 1) * (max(len(x), 1) if reduction == MEAN else 1))
    if weight is not None:
        slope *= widen(weight)[classes][:, None]
    slope[rows, classes] = -slope.sum(1)
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
        raise RuntimeError(f"expected scalar type Long but found {scalar_type_name(TYPE_OF[target.dtype])}")


def multilabel_margin_loss_forward(self: np.ndarray, target: np.ndarray, reduction: int) -> tuple:
    """The sum over labels j and other classes i of max(0, 1 - (x[j] - x[i])), over the number of classes;
    reduced.

    Args:
        self: (n, classes) or (classes,).
        target: of self's shape, int64: each row's labels, ended by -1.

    Returns:
        The loss; and ones, of self's shape and dtype, for the classes that are labels.

    Raises:
        RuntimeError: if shapes do not fit or a label is no class.
    """
    x, labels, listed = _multilabel_inputs(self, target)
    is_target = _is_target(labels, listed, x.dtype)
    losses = np.zeros(len(x), x.dtype)
    for row in range(len(x)):
        losses[row] = _label_hinges(x[row], labels[row], listed[row], is_target[row]).sum()
    losses /= losses.dtype.type(max(x.shape[1], 1))
    found = reduce(losses.reshape(self.shape[:-1]) if reduction == NONE else losses, reduction, self.dtype)
    return found, is_target.reshape(self.shape).astype(self.dtype, copy=False)


def _label_hinges(x, labels, listed, is_target) -> np.ndarray:
    """max(0, 1 - x[j] + x[i]) for each label j of a row, and each class i that is none: (labels, classes)."""
    z = 1 - x[labels[listed]][:, None] + x[None]
    np.maximum(z, 0, out=z)
    z *= 1 - is_target
    return z


def multilabel_margin_loss_backward(
    grad_output: np.ndarray, self: np.ndarray, target: np.ndarray, reduction: int, is_target: np.ndarray
) -> np.ndarray:
    """The gradient of the multilabel margin loss for self."""
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
