"""Losses beyond their values and derivatives: targets that are ignored or wrong, empty batches, graphs."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest

import gradloom

F = gradloom.nn.functional


def scores(*shape):
    return gradloom.from_numpy(np.random.default_rng(0).standard_normal(shape))


def chain(node):
    """The names of the nodes from a result to its first input."""
    found = []
    while node is not None:
        found.append(node.name().rpartition("::")[2])
        node = node.next_functions[0][0] if node.next_functions else None
    return found


@pytest.mark.parametrize(
    "shape, target, expected",
    [
        ((2, 3), [0, 2], ["NllLossBackward0", "LogSoftmaxBackward0", "AccumulateGrad"]),
        ((3,), 1, ["NllLossBackward0", "LogSoftmaxBackward0", "AccumulateGrad"]),
        ((2, 3, 1, 2), [[[0, 2]], [[1, 1]]], ["NllLoss2DBackward0", "LogSoftmaxBackward0", "AccumulateGrad"]),
        ((2, 3, 2), [[0, 2], [1, 1]],
         ["NllLoss2DBackward0", "ViewBackward0", "LogSoftmaxBackward0", "AccumulateGrad"]),
    ],
)  # fmt: skip
def test_cross_entropy_is_two_operators(shape, target, expected):
    found = F.cross_entropy(scores(*shape).requires_grad_(), gradloom.tensor(target))
    assert chain(found.grad_fn) == expected


def test_means_are_relative_to_the_weights_that_count():
    logs, target = scores(3, 4).log_softmax(1), gradloom.tensor([1, -100, 3])
    weight = gradloom.tensor([1.0, 2.0, 3.0, 4.0], dtype=gradloom.float64)
    plain = -(logs[0, 1] + logs[2, 3]) / 2
    weighted = -(2 * logs[0, 1] + 4 * logs[2, 3]) / 6
    assert F.nll_loss(logs, target).item() == pytest.approx(plain.item())
    assert F.nll_loss(logs, target, weight).item() == pytest.approx(weighted.item())
    assert F.nll_loss(logs, target, reduction="none").tolist()[1] == 0
    assert math.isnan(F.nll_loss(logs, gradloom.tensor([-100] * 3)).item())
    assert F.nll_loss(logs, gradloom.tensor([2, 2, 2]), ignore_index=2, reduction="sum").item() == 0


@pytest.mark.parametrize("loss", [F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss, F.soft_margin_loss])
def test_a_mean_of_nothing_is_nan(loss):
    x = gradloom.ones(0, requires_grad=True)
    found = loss(x, gradloom.ones(0))
    assert math.isnan(found.item())
    found.backward()
    assert x.grad.shape == (0,)
    assert loss(x, gradloom.ones(0), reduction="sum").item() == 0


def test_label_smoothing_is_a_mixture_of_targets():
    x, target = scores(4, 3), gradloom.tensor([0, 2, 1, 1])
    mixture = gradloom.full((4, 3), 0.1, dtype=gradloom.float64)
    for row, label in enumerate(target.tolist()):
        mixture[row, label] += 0.7
    smoothed = F.cross_entropy(x, target, label_smoothing=0.3)
    assert smoothed.item() == pytest.approx(F.cross_entropy(x, mixture).item())


def test_logits_and_probabilities_agree():
    x, target = scores(4, 3), gradloom.from_numpy(np.random.default_rng(1).random((4, 3)))
    weight = gradloom.from_numpy(np.random.default_rng(2).random((4, 3)))
    for reduction in ("none", "mean", "sum"):
        a = F.binary_cross_entropy_with_logits(x, target, weight, reduction=reduction)
        b = F.binary_cross_entropy(x.sigmoid(), target, weight, reduction=reduction)
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12)
    extreme = gradloom.tensor([-1000.0, 1000.0])
    assert F.binary_cross_entropy_with_logits(extreme, gradloom.tensor([0.0, 1.0])).item() == 0
    assert F.binary_cross_entropy(gradloom.tensor([0.0]), gradloom.tensor([1.0])).item() == 100


def test_connectionist_temporal_classification_sums_over_alignments():
    logs = scores(4, 1, 3).log_softmax(2)
    p = np.exp(logs.numpy()[:, 0])
    total = 0.0
    for path in np.ndindex(3, 3, 3, 3):
        labels = [a for i, a in enumerate(path) if a != 0 and (i == 0 or path[i - 1] != a)]
        if labels == [1, 2]:
            total += math.prod(p[t, a] for t, a in enumerate(path))
    found = F.ctc_loss(logs, gradloom.tensor([[1, 2]]), [4], [2], reduction="sum")
    assert found.item() == pytest.approx(-math.log(total))
    too_short = F.ctc_loss(logs, gradloom.tensor([[1, 1, 2]]), [3], [3], reduction="none")
    assert too_short.tolist() == [math.inf]


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: F.nll_loss(scores(2, 3), gradloom.tensor([0, 3])), IndexError, "Target 3 is out of bounds."),
        (lambda: F.nll_loss(scores(2, 3), gradloom.tensor([0, -1])),
         IndexError, "Target -1 is out of bounds."),
        (lambda: F.nll_loss(scores(2, 3), gradloom.tensor([0])),
         ValueError, "to match target batch_size (1)"),
        (lambda: F.nll_loss(scores(2, 3), gradloom.tensor([0.0, 1.0])), RuntimeError, "to be Long or Byte"),
        (lambda: F.nll_loss(scores(2, 3), gradloom.tensor([0, 1]), gradloom.ones(2).double()), RuntimeError,
         "weight tensor should be defined either for all 3 classes"),
        (lambda: F.cross_entropy(scores(2, 3), gradloom.tensor([0, 1]), label_smoothing=1.5), RuntimeError,
         "label_smoothing must be between 0.0 and 1.0. Got: 1.5"),
        (lambda: F.binary_cross_entropy(gradloom.tensor([1.5]), gradloom.ones(1)), RuntimeError,
         "all elements of input should be between 0 and 1"),
        (lambda: F.mse_loss(gradloom.ones(2, dtype=gradloom.int64), gradloom.ones(2, dtype=gradloom.int64)),
         NotImplementedError, "\"mse_cpu\" not implemented for 'Long'"),
        (lambda: F.multi_margin_loss(scores(2, 3), gradloom.tensor([0, 3])),
         RuntimeError, "target out of range"),
        (lambda: F.huber_loss(scores(2), scores(2), delta=0), RuntimeError, "non-positive values for delta"),
        (lambda: F.ctc_loss(scores(3, 1, 4), gradloom.tensor([[1, 2]]), [4], [2]), RuntimeError,
         "input_lengths to have value at most 3, but got value 4"),
        (lambda: gradloom.cosine_similarity(gradloom.tensor([1]), gradloom.tensor([1]), 0), RuntimeError,
         "expected common dtype to be floating point"),
    ],
)  # fmt: skip
def test_what_is_refused(call, error, words):
    with pytest.raises(error) as found:
        call()
    assert words in str(found.value)


def chunked(reduction, options, weight=None, memory=None):
    """The chunked loss of 256 rows and 2,000 classes, its gradients, and those of the plain loss."""
    made = np.random.default_rng(0)
    given = [gradloom.from_numpy(made.standard_normal(shape)).requires_grad_() for shape in ((256, 8), (2000, 8), 2000)]
    target = gradloom.from_numpy(made.integers(0, 2000, 256))
    target[3] = -100
    x, w, b = given
    found = []
    for chosen in (options, None):
        if memory is not None:
            tracemalloc.start()
        loss = F.linear_cross_entropy(x, w, target, linear_bias=b, weight=weight, reduction=reduction, options=chosen)
        found.append([loss, *gradloom.autograd.grad((loss * 2).sum(), given)])
        if memory is not None:
            memory.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    return found


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("options", [{}, {"batch_chunk_size": 7}, {"chunking_method": "aspect_ratio:3"}])
def test_chunks_of_a_linear_cross_entropy_add_up_to_the_loss(reduction, options):
    weight = gradloom.arange(1.0, 2001.0, dtype=gradloom.float64)
    found, expected = chunked(reduction, gradloom.nn.LinearCrossEntropyOptions(**options), weight)
    for ours, plain in zip(found, expected, strict=True):
        assert gradloom.allclose(ours, plain, rtol=1e-10)
    assert "batch_chunked" in found[0].grad_fn.name() and "batch_chunked" not in expected[0].grad_fn.name()


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_second_derivatives_of_chunks_are_those_of_the_loss(reduction):
    made = np.random.default_rng(0)
    x, w, b, weight = (gradloom.from_numpy(made.random(shape)) for shape in ((5, 3), (4, 3), 4, 4))
    target = gradloom.tensor([0, 1, -100, 3, 2])
    jacrev, jacfwd, found = gradloom.func.jacrev, gradloom.func.jacfwd, []
    for options in (gradloom.nn.LinearCrossEntropyOptions(batch_chunk_size=2), None):

        def loss(w, options=options):
            extra = dict(linear_bias=b, weight=weight, reduction=reduction, options=options)
            return F.linear_cross_entropy(x, w, target, **extra).square().sum()

        modes = [jacfwd(loss), *(one(other(loss)) for one in (jacrev, jacfwd) for other in (jacrev, jacfwd))]
        found.append([mode(w) for mode in modes])
    assert found[1][1].any()
    for ours, plain in zip(*found, strict=True):
        assert gradloom.allclose(ours, plain, rtol=1e-10)


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_chunks_of_a_linear_cross_entropy_need_no_memory_for_all_logits(reduction):
    logits, memory = 256 * 2000 * 8, []
    chunked(reduction, gradloom.nn.LinearCrossEntropyOptions(batch_chunk_size=8), memory=memory)
    assert memory[0] < logits / 3 and memory[1] > logits


def test_chunks_of_a_linear_cross_entropy_keep_their_gradients_only_if_asked():
    w, target = scores(5, 3), gradloom.tensor([1, 2])
    for keep in (True, False):
        x = scores(2, 3).requires_grad_()
        loss = F.linear_cross_entropy(x, w, target, options=gradloom.nn.LinearCrossEntropyOptions(keep))
        loss.backward(retain_graph=True)
        first = x.grad.clone()
        if keep:
            loss.backward()
            assert gradloom.equal(x.grad, 2 * first)
        else:
            with pytest.raises(RuntimeError, match="chunked backward called twice; retain_graph=True"):
                loss.backward()


def test_what_chunks_of_a_linear_cross_entropy_refuse():
    options, x, target = gradloom.nn.LinearCrossEntropyOptions, gradloom.ones(4, 3), gradloom.tensor([0, 1, 2, 0])
    with pytest.raises(ValueError, match=r"batch_chunk_size \(=3\) and chunking_method \('aspect_ratio'\) give"):
        F.linear_cross_entropy(x, x, target, options=options(batch_chunk_size=3, chunking_method="aspect_ratio"))
    with pytest.raises(RuntimeError, match="supports float32 acc_dtype with float16/bfloat16 inputs"):
        F.linear_cross_entropy(x, x, target, options=options(acc_dtype=gradloom.float64))
    with pytest.warns(UserWarning, match="``options`` ignored; .* label_smoothing=0.1"):
        smooth = F.linear_cross_entropy(x, x, target, label_smoothing=0.1, options=options())
    assert smooth.item() == pytest.approx(math.log(4))
    batched = gradloom.vmap(lambda row: F.linear_cross_entropy(row, x, target, options=options()))(
        gradloom.ones(2, 4, 3)
    )
    assert batched.tolist() == pytest.approx([math.log(4)] * 2)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_a_loss_of_nothing_is_no_negative_zero(reduction):
    """PyTorch prints 0.0000 for a perfect prediction, not -0.0000."""
    perfect = gradloom.tensor([[200.0, 0.0], [0.0, 200.0]])
    for x, target in ((perfect, gradloom.tensor([0, 1])), (perfect[0], gradloom.tensor(0))):
        assert str(F.cross_entropy(x, target, reduction=reduction).item()) == "0.0"
