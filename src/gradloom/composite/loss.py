"""Losses made of other operators."""

from __future__ import annotations

from .. import _operators as ops


def nll_loss(self, target, weight=None, reduction=1, ignore_index=-100):
    """The negative log likelihood of target classes; see `nll_loss_forward`."""
    return ops.nll_loss_forward(self, target, weight, reduction, ignore_index)[0]


def nll_loss2d(self, target, weight=None, reduction=1, ignore_index=-100):
    """The negative log likelihood of the class of each pixel; see `nll_loss2d_forward`."""
    return ops.nll_loss2d_forward(self, target, weight, reduction, ignore_index)[0]


def nll_loss_nd(self, target, weight=None, reduction=1, ignore_index=-100):
    """The negative log likelihood for inputs of any rank.

    Args:
        self: (classes,), (n, classes) or (n, classes, d1, ...), log-probabilities.
        target: (), (n,) or (n, d1, ...), classes.

    Raises:
        ValueError: if the numbers of samples differ or the shapes do not fit.
    """
    ndim = self._array.ndim
    if ndim < 1:
        raise ValueError(f"Expected 1 or more dimensions (got {ndim})")
    if ndim != 1 and (not target._array.ndim or self.shape[0] != target.shape[0]):
        raise ValueError(f"Expected input batch_size ({self.shape[0]}) to match target batch_size "
                         f"({target.shape[0] if target._array.ndim else 1}).")
    if ndim <= 2:
        return ops.nll_loss(self, target, weight, reduction, ignore_index)
    if ndim == 4:
        return ops.nll_loss2d(self, target, weight, reduction, ignore_index)
    shape = self.shape
    expected = (shape[0], *shape[2:])
    if target.shape != expected:
        raise RuntimeError(f"Expected target size {list(expected)}, got {list(target.shape)}")
    if self.numel():
        self = self.contiguous().view((shape[0], shape[1], 1, -1))
        target = target.contiguous().view((shape[0], 1, -1))
    else:
        self = self.contiguous().view((shape[0], shape[1], 0, 0))
        target = target.contiguous().view((shape[0], 0, 0))
    found = ops.nll_loss2d(self, target, weight, reduction, ignore_index)
    return found.view(expected) if reduction == 0 else found


def cross_entropy_loss(self, target, weight=None, reduction=1, ignore_index=-100, label_smoothing=0.0):
    """The cross entropy of softmax(self) and target classes, or class probabilities if target has self's shape.

    Args:
        self: (classes,), (n, classes) or (n, classes, d1, ...).
        weight: (classes,) or None.
        label_smoothing: the part of the target that is spread evenly over all classes, in [0, 1].

    Raises:
        RuntimeError: for probabilities of an integer type, a smoothing outside [0, 1], or an ignore_index with
            probabilities.
    """
    by_probability = self.shape == target.shape and not (ndim_is_zero(self) and not target.is_floating_point())
    if by_probability:
        _check_probabilities(target, ignore_index)
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    dim = 0 if self._array.ndim == 1 else 1
    logs = ops.log_softmax(self, dim)
    if by_probability:
        return _cross_entropy_of_probabilities(logs, target, weight, reduction, label_smoothing, dim)
    if label_smoothing > 0.0:
        return _smoothed_cross_entropy(logs, target, weight, reduction, ignore_index, label_smoothing, dim)
    return ops.nll_loss_nd(logs, target, weight, reduction, ignore_index)


def ndim_is_zero(tensor) -> bool:
    return tensor._array.ndim == 0


def _check_probabilities(target, ignore_index) -> None:
    if not target.is_floating_point():
        from ..dtype import scalar_type_name

        raise RuntimeError("Expected floating point type for target with class probabilities, got "
                           f"{scalar_type_name(target.dtype)}")
    if ignore_index >= 0:
        raise RuntimeError("ignore_index is not supported for floating point target")


def _shaped_weight(weight, logs, dim):
    shape = [1] * logs._array.ndim
    shape[dim] = weight.shape[0]
    return weight.view(shape)


def _cross_entropy_of_probabilities(logs, target, weight, reduction, label_smoothing, dim):
    classes = logs.shape[dim]
    if weight is not None and weight.shape != (classes,):
        raise RuntimeError(f"cross_entropy: weight tensor should be defined either for all {classes} classes or no "
                           f"classes but got weight tensor of shape: {list(weight.shape)}")
    if label_smoothing > 0.0:
        target = target * (1 - label_smoothing) + label_smoothing / classes
    products = logs * target
    if weight is not None:
        products = products * _shaped_weight(weight, logs, dim)
    if reduction == 0:
        return -products.sum([dim])
    total = -products.sum()
    if reduction == 2:
        return total
    return total / (logs.numel() // classes if logs.numel() else 1)


def _smoothed_cross_entropy(logs, target, weight, reduction, ignore_index, label_smoothing, dim):
    nll = ops.nll_loss_nd(logs, target, weight, reduction, ignore_index)
    weighted = logs if weight is None else logs * _shaped_weight(weight, logs, dim)
    smooth = -weighted.sum([dim])
    ignored = ops.eq(target, ignore_index)
    smooth = smooth.masked_fill(ignored, 0.0)
    if reduction == 1:
        if weight is None:
            smooth = smooth.sum() / (target.numel() - ignored.sum())
        else:
            kept = weight.gather(0, target.masked_fill(ignored, 0).flatten())
            smooth = smooth.sum() / kept.masked_fill(ignored.flatten(), 0).sum()
    elif reduction == 2:
        smooth = smooth.sum()
    return nll * (1 - label_smoothing) + smooth * (label_smoothing / logs.shape[dim])
