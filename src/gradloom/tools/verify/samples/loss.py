"""Samples of losses: every reduction, weights, ignored targets, shapes that broadcast."""

from __future__ import annotations

import gradloom

from . import tensor

NONE, MEAN, SUM = range(3)


def wide(*shape, seed=0):
    return tensor(*shape, low=-2.07, high=2.23, seed=seed)


def fraction(*shape, seed=0):
    return tensor(*shape, low=0.07, high=0.93, seed=seed)


def signs(*shape):
    return gradloom.where(wide(*shape, seed=3) > 0, 1.0, -1.0).to(gradloom.float64)


def pair(*settings, first=wide, second=wide, keywords=()):
    """Two tensors, each reduction, and further settings."""

    def samples():
        for reduction in (NONE, MEAN, SUM):
            for setting in settings or ((),):
                yield (first(3, 2), second(3, 2, seed=1), reduction, *setting), dict(keywords)
        yield (first(), 0.8 * second(seed=1), MEAN), dict(keywords)
        yield (first(3, 2), second(2, seed=1), SUM), dict(keywords)

    return samples


def pair_backward(*setting, first=wide, second=wide, middle=()):
    """A gradient of the loss, its inputs, each reduction, and further settings."""

    def samples():
        for reduction in (NONE, MEAN, SUM):
            grad = tensor(*(3, 2) if reduction == NONE else ())
            yield (grad, first(3, 2), second(3, 2, seed=1), *middle, reduction, *setting), {}

    return samples


def binary_cross_entropy():
    for reduction in (NONE, MEAN, SUM):
        yield (fraction(3, 2), fraction(3, 2, seed=1), None, reduction), {}
        yield (fraction(3, 2), fraction(3, 2, seed=1), tensor(2).detach(), reduction), {}


def binary_cross_entropy_backward():
    for reduction in (NONE, MEAN, SUM):
        grad = tensor(*(3, 2) if reduction == NONE else ())
        for weight in (None, tensor(3, 2)):
            yield (grad, fraction(3, 2), fraction(3, 2, seed=1), weight, reduction), {}


def binary_cross_entropy_with_logits():
    for reduction in (NONE, MEAN, SUM):
        yield (wide(3, 2), fraction(3, 2), None, None, reduction), {}
        yield (wide(3, 2), fraction(3, 2), tensor(3, 2), tensor(2), reduction), {}


def class_targets():
    """Scores and classes: rows, one row; with a weight; with an ignored target."""
    yield wide(3, 4), gradloom.tensor([1, 0, 3]), None, -100
    yield wide(3, 4), gradloom.tensor([1, 2, 3]), tensor(4), 2
    yield wide(4), gradloom.tensor(2), tensor(4), -100


def image_targets():
    yield wide(2, 3, 2, 2), gradloom.tensor([[[0, 1], [2, 1]], [[1, 1], [0, 2]]]), None, -100
    yield wide(2, 3, 1, 2), gradloom.tensor([[[0, 1]], [[2, -5]]]), tensor(3), -5


def nll(*targets):
    def samples():
        for make in targets:
            for scores, classes, weight, ignored in make():
                for reduction in (NONE, MEAN, SUM):
                    yield (scores, classes, weight, reduction, ignored), {}

    return samples


def nll_backward(targets, forward):
    def samples():
        for scores, classes, weight, ignored in targets():
            for reduction in (NONE, MEAN, SUM):
                output, total = getattr(gradloom.dispatch._operators, forward)(
                    scores, classes, weight, reduction, ignored
                )
                grad = tensor(*output.shape)
                yield (grad, scores, classes, weight, reduction, ignored, total), {}

    return samples


def sequences():
    yield wide(2, 3, 2), gradloom.tensor([[0, 2], [1, 1]]), None, -100


def cross_entropy():
    for args, kwargs in nll(class_targets, image_targets, sequences)():
        yield args, kwargs
        yield (*args, 0.2), kwargs
    for reduction in (NONE, MEAN, SUM):
        for smoothing in (0.0, 0.3):
            yield (wide(3, 4), fraction(3, 4), None, reduction, -100, smoothing), {}
            yield (wide(2, 3, 2), fraction(2, 3, 2), tensor(3), reduction, -100, smoothing), {}


def multi_margin():
    for reduction in (NONE, MEAN, SUM):
        for p in (1, 2):
            yield (wide(3, 4), gradloom.tensor([1, 0, 3]), p, 0.7, None, reduction), {}
            yield (wide(4), gradloom.tensor(2), p, 1, tensor(4), reduction), {}


def multi_margin_backward():
    for args, kwargs in multi_margin():
        yield (tensor(*args[1].shape if args[-1] == NONE else ()), *args), kwargs


LABELS = [[1, 3, -1, 0], [2, -1, 0, 0], [-1, 1, 0, 0]]


def multilabel():
    for reduction in (NONE, MEAN, SUM):
        yield (wide(3, 4), gradloom.tensor(LABELS), reduction), {}
        yield (wide(4), gradloom.tensor([3, 0, -1, 0]), reduction), {}


def multilabel_backward():
    for (x, target, reduction), kwargs in multilabel():
        output, is_target = gradloom.dispatch._operators.multilabel_margin_loss_forward(x, target, reduction)
        yield (tensor(*output.shape), x, target, reduction, is_target), kwargs


def kl_div():
    for log_target in (False, True):
        yield from pair(
            first=wide, second=wide if log_target else fraction, keywords={"log_target": log_target}.items()
        )()


def poisson_nll():
    for reduction in (NONE, MEAN, SUM):
        for log_input, full in ((True, False), (False, False), (True, True)):
            yield (tensor(3, 2), tensor(3, 2, low=0.4, high=3.7), log_input, full, 1e-8, reduction), {}


def margin_ranking():
    for reduction in (NONE, MEAN, SUM):
        yield (wide(3), wide(3, seed=1), signs(3), 0.3, reduction), {}


def hinge_embedding():
    for reduction in (NONE, MEAN, SUM):
        yield (wide(3, 2), signs(3, 2), 0.9, reduction), {}


def cosine_similarity():
    yield (wide(3, 4), wide(3, 4, seed=1)), {}
    yield (wide(3, 4), wide(4), 0), {}
    yield (wide(4), wide(4, seed=1), 0), {}


def cosine_embedding():
    for reduction in (NONE, MEAN, SUM):
        yield (wide(3, 4), wide(3, 4, seed=1), signs(3), 0.1, reduction), {}
    yield (wide(4), wide(4, seed=1), gradloom.tensor(1.0, dtype=gradloom.float64), 0.1, MEAN), {}


def pairwise_distance():
    for p in (1.0, 2.0, 3.0):
        yield (wide(3, 4), wide(3, 4, seed=1), p), {}
    yield (wide(3, 4), wide(4), 2.0, 1e-6, True), {}


def triplet_margin():
    for swap in (False, True):
        for reduction in (NONE, MEAN, SUM):
            yield (wide(3, 4), wide(3, 4, seed=1), wide(3, 4, seed=2), 1.0, 2.0, 1e-6, swap, reduction), {}


def ctc(lengths=tuple, reduction=True):
    """Labels with a repetition and of different lengths; rows, and one vector."""

    def samples():
        frames, labels = lengths([5, 4]), lengths([3, 1])
        for targets in ([[1, 1, 2], [3, 0, 0]], [1, 1, 2, 3]):
            for setting in ((0, r, True) for r in (NONE, MEAN, SUM)) if reduction else ((0, True),):
                yield (wide(5, 2, 4).log_softmax(2), gradloom.tensor(targets), frames, labels, *setting), {}

    return samples


def ctc_backward(lengths=tuple):
    def samples():
        for args, _ in ctc(lengths, reduction=False)():
            log_probs, targets, frames, labels, blank, zero_infinity = args
            loss, alpha = gradloom.dispatch._operators._ctc_loss(*args)
            yield (tensor(2), log_probs, targets, frames, labels, loss, alpha, blank, zero_infinity), {}

    return samples


SAMPLES = {
    "mse_loss": pair(),
    "mse_loss_backward": pair_backward(),
    "l1_loss": pair(),
    "smooth_l1_loss": pair((1.0,), (0.6,)),
    "smooth_l1_loss_backward": pair_backward(2.5),
    "huber_loss": pair((1.0,), (0.6,)),
    "huber_loss_backward": pair_backward(2.5),
    "soft_margin_loss": pair(),
    "soft_margin_loss_backward": pair_backward(),
    "binary_cross_entropy": binary_cross_entropy,
    "binary_cross_entropy_backward": binary_cross_entropy_backward,
    "binary_cross_entropy_with_logits": binary_cross_entropy_with_logits,
    "nll_loss": nll(class_targets),
    "nll_loss_forward": nll(class_targets),
    "nll_loss_backward": nll_backward(class_targets, "nll_loss_forward"),
    "nll_loss2d": nll(image_targets),
    "nll_loss2d_forward": nll(image_targets),
    "nll_loss2d_backward": nll_backward(image_targets, "nll_loss2d_forward"),
    "nll_loss_nd": nll(class_targets, image_targets, sequences),
    "cross_entropy_loss": cross_entropy,
    "multi_margin_loss": multi_margin,
    "multi_margin_loss_backward": multi_margin_backward,
    "multilabel_margin_loss": multilabel,
    "multilabel_margin_loss_forward": multilabel,
    "multilabel_margin_loss_backward": multilabel_backward,
    "kl_div": kl_div,
    "poisson_nll_loss": poisson_nll,
    "margin_ranking_loss": margin_ranking,
    "hinge_embedding_loss": hinge_embedding,
    "cosine_similarity": cosine_similarity,
    "cosine_embedding_loss": cosine_embedding,
    "pairwise_distance": pairwise_distance,
    "triplet_margin_loss": triplet_margin,
    "ctc_loss.IntList": ctc(),
    "ctc_loss.Tensor": ctc(gradloom.tensor),
    "_ctc_loss": ctc(reduction=False),
    "_ctc_loss.Tensor": ctc(gradloom.tensor, reduction=False),
    "_ctc_loss_backward": ctc_backward(),
    "_ctc_loss_backward.Tensor": ctc_backward(gradloom.tensor),
}

# Arguments without a derivative, of composites, which do not say so themselves.
CONSTANT = dict.fromkeys(("nll_loss", "nll_loss2d", "nll_loss_nd", "cross_entropy_loss"), ("weight",))

# PyTorch's gradient of log_probs is that of the logits before log_softmax; tests/conformance compares it.
CONSTANT |= dict.fromkeys(("ctc_loss.IntList", "ctc_loss.Tensor", "_ctc_loss", "_ctc_loss.Tensor"), ("log_probs",))

# The gradient has the shape that the reduction gives, and the weight's sum is an argument of its own.
FIXED = dict.fromkeys(
    [f"{name}_loss_backward" for name in ("mse", "smooth_l1", "huber", "soft_margin", "multi_margin", "nll")]
    + ["binary_cross_entropy_backward", "multilabel_margin_loss_backward", "nll_loss2d_backward"],
    ("grad_output", "reduction", "weight", "ignore_index"),
)
# A norm that is clamped to `eps` counts as a constant, as in PyTorch.
FIXED["cosine_similarity"] = ("eps",)
