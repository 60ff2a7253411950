"""Connectionist temporal classification (Graves et al. 2006): the likelihood of a labelling, summed over alignments.

Note [Alignments]
A labelling of length s becomes a path of 2 * s + 1 states: blank, label, blank, label, ..., blank. A path may stay in a
state, advance to the next one, or skip a blank between two different labels. alpha[t, i] is the log-probability of the
first t + 1 frames, summed over all paths that end in state i; beta[t, i] that of the frames from t on, over all paths
that start in it. All samples of a batch are advanced together; states beyond a sample's labelling have probability 0.
"""

from __future__ import annotations

import numpy as np

from .._common.errors import not_implemented


class _Problem:
    """The checked arguments of a loss.

    Attributes:
        lengths, labels: numbers of frames and labels of each sample, (n,).
        states: the class of each state, (n, 2 * longest + 1).
        skips: whether a path may enter a state from the last but one, in the shape of `states`.
    """

    def __init__(self, log_probs, targets, input_lengths, target_lengths, blank):
        if log_probs.dtype.kind != "f" or log_probs.itemsize < 4:
            raise not_implemented("ctc_loss_cpu", log_probs)
        if log_probs.size == 0:
            raise RuntimeError("log_probs tensor must not be empty")
        frames, batch, classes = log_probs.shape
        if not 0 <= blank < classes:
            raise RuntimeError("blank must be in label range")
        self.lengths = _lengths("input", input_lengths, batch, frames)
        self.labels = _lengths("target", target_lengths, batch, None)
        padded = _padded(targets, self.labels)
        if padded.size and not (padded.min() >= 0 and padded.max() < classes):
            raise RuntimeError(
                f"targets must be classes in [0, {classes - 1}], but got values from {padded.min()} to {padded.max()}"
            )
        self.states = np.full((batch, 2 * padded.shape[1] + 1), blank, np.int64)
        self.states[:, 1::2] = padded
        self.skips = np.zeros(self.states.shape, bool)
        self.skips[:, 3::2] = padded[:, 1:] != padded[:, :-1]
        self.valid = np.arange(self.states.shape[1]) < 2 * self.labels[:, None] + 1

    def emissions(self, log_probs) -> np.ndarray:
        """Return the log-probability of each state's class in each frame: (frames, n, states)."""
        found = np.take_along_axis(log_probs, np.broadcast_to(self.states, (len(log_probs), *self.states.shape)), 2)
        found[:, ~self.valid] = -np.inf
        return found


def _lengths(name, lengths, batch, largest) -> np.ndarray:
    lengths = np.asarray(lengths).reshape(-1)
    if lengths.size and lengths.dtype.kind not in "iu":
        raise RuntimeError(f"{name}_lengths must be integral")
    if lengths.size != batch:
        raise RuntimeError(f"{name}_lengths must be of size batch_size")
    for value in lengths:
        bound = ("least 0", value < 0), (f"most {largest}", largest is not None and value > largest)
        for words, wrong in bound:
            if wrong:
                raise RuntimeError(
                    f"Expected {name}_lengths to have value at {words}, but got value {value} (while "
                    "checking arguments for ctc_loss_allocate_outputs)"
                )
    return lengths.astype(np.int64)


def _padded(targets, labels) -> np.ndarray:
    """Return the labels of each sample as rows, from rows or from one concatenated vector, padded with zeros."""
    where = "for argument #2 'targets' (while checking arguments for ctc_loss_allocate_outputs)"
    longest = int(labels.max(initial=0))
    if targets.ndim == 1:
        total = int(labels.sum())
        if targets.size != total:
            raise RuntimeError(
                f"Expected tensor to have size {total} at dimension 0, but got size {targets.size} {where}"
            )
        starts = np.cumsum(labels) - labels
        at = np.minimum(starts[:, None] + np.arange(longest), max(total - 1, 0))
        found = targets[at] if total else np.zeros((len(labels), longest), np.int64)
    elif targets.ndim == 2:
        if targets.shape[0] != len(labels):
            raise RuntimeError(
                f"Expected tensor to have size {len(labels)} at dimension 0, but got size {targets.shape[0]} {where}"
            )
        if targets.shape[1] < longest:
            raise RuntimeError(
                f"Expected tensor to have size at least {longest} at dimension 1, but got size "
                f"{targets.shape[1]} {where}"
            )
        found = targets
        longest = targets.shape[1]
    else:
        raise RuntimeError(f"Expected 1 to 2 dimensions, but got {targets.ndim}-dimensional tensor {where}")
    return np.where(np.arange(longest) < labels[:, None], found, 0).astype(np.int64)


@np.errstate(all="ignore")
def ctc_loss(
    log_probs: np.ndarray,
    targets: np.ndarray,
    input_lengths,
    target_lengths,
    blank: int = 0,
    zero_infinity: bool = False,
) -> tuple:
    """Return the negative log-likelihood of each sample's labels, and alpha. See Note [Alignments]. Gives (n,), and (n,
    frames, 2 * longest + 1). Raises RuntimeError if sizes or lengths do not fit; NotImplementedError for another dtype.

    Args:
        log_probs: (frames, n, classes), float32 or float64.
        targets: (n, longest), or all labels one after another; classes other than blank.
        input_lengths, target_lengths: the numbers of frames and of labels, (n,), as a sequence or an array.
        zero_infinity: for the gradient only; the loss itself may be infinite.
    """
    problem = _Problem(log_probs, targets, input_lengths, target_lengths, blank)
    emissions = problem.emissions(log_probs)
    frames, batch, states = emissions.shape
    alpha = np.full((batch, frames, states), -np.inf, log_probs.dtype)
    if frames:
        alpha[:, 0, :2] = emissions[0, :, :2]
    for t in range(1, frames):
        alpha[:, t] = _arrivals(alpha[:, t - 1], problem.skips) + emissions[t]
    return -_likelihood(alpha, problem), alpha


def _arrivals(before, skips) -> np.ndarray:
    """Return the log-probability of entering each state, from those of the frame before."""
    found = before.copy()
    found[:, 1:] = np.logaddexp(found[:, 1:], before[:, :-1])
    found[:, 2:] = np.where(skips[:, 2:], np.logaddexp(found[:, 2:], before[:, :-2]), found[:, 2:])
    return found


def _likelihood(alpha, problem) -> np.ndarray:
    """Return the log-probability of ending in one of the last two states."""
    rows = np.arange(len(alpha))
    last = alpha[rows, np.maximum(problem.lengths - 1, 0)]
    end = last[rows, 2 * problem.labels]
    before = np.where(problem.labels > 0, last[rows, np.maximum(2 * problem.labels - 1, 0)], -np.inf)
    nothing = np.where(problem.labels == 0, 0.0, -np.inf)
    return np.where(problem.lengths == 0, nothing, np.logaddexp(end, before)).astype(alpha.dtype)


@np.errstate(all="ignore")
def ctc_loss_backward(
    grad: np.ndarray,
    log_probs: np.ndarray,
    targets: np.ndarray,
    input_lengths,
    target_lengths,
    neg_log_likelihood: np.ndarray,
    log_alpha: np.ndarray,
    blank: int,
    zero_infinity: bool = False,
) -> np.ndarray:
    """Return the gradient of `ctc_loss` for log_probs, as PyTorch defines it: exp(log_probs) minus the probability of
    each class in each frame, given the labels. The first term vanishes in the gradient of log_softmax that follows.

    Returns:
        (frames, n, classes); zeros beyond a sample's frames and, with `zero_infinity`, for a sample with infinite loss.
    """
    problem = _Problem(log_probs, targets, input_lengths, target_lengths, blank)
    emissions = problem.emissions(log_probs)
    frames, batch, states = emissions.shape
    found = np.exp(log_probs)
    beta = np.full((batch, states), -np.inf, log_probs.dtype)
    index = np.arange(states)
    final = (index == 2 * problem.labels[:, None]) | (index == 2 * problem.labels[:, None] - 1)
    rows = np.broadcast_to(np.arange(batch)[:, None], (batch, states))
    for t in range(frames - 1, -1, -1):
        # Backwards, state i comes from i, i + 1, and i + 2 if that may be skipped to.
        onward = _arrivals(beta[:, ::-1], _shifted(problem.skips)[:, ::-1])[:, ::-1]
        starts = (problem.lengths - 1 == t)[:, None]
        beta = np.where(starts, np.where(final, 0, -np.inf), onward) + emissions[t]
        occupied = np.exp(log_alpha[:, t] + beta - emissions[t] + neg_log_likelihood[:, None])
        occupied[~problem.valid | np.isnan(occupied)] = 0
        np.subtract.at(found[t], (rows, problem.states), occupied)
    infinite = neg_log_likelihood == np.inf
    if zero_infinity:
        found[:, infinite] = 0
    else:
        found[:, infinite] = np.nan
    found[np.arange(frames)[:, None] >= problem.lengths] = 0
    found *= grad[:, None]
    return found


def _shifted(skips) -> np.ndarray:
    """Return whether a path may skip from a state to the next but one."""
    found = np.zeros_like(skips)
    found[:, :-2] = skips[:, 2:]
    return found
