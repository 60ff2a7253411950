"""torch.masked: what is replaced, empty selections, masks of results, errors."""

from __future__ import annotations

import math

import pytest


def given(torch):
    x = torch.tensor([[1.0, 5.0, 3.0], [4.0, 2.0, 6.0]])
    return x, torch.tensor([[True, False, True], [False, False, False]])


@pytest.mark.parametrize(
    "code, expected",
    [
        ("sum(x, 1, mask=m)", [4.0, 0.0]),
        ("prod(x, 1, mask=m)", [3.0, 1.0]),
        ("amax(x, 1, mask=m)", [3.0, -math.inf]),
        ("amin(x, (1,), mask=m)", [1.0, math.inf]),
        ("argmax(x, 1, mask=m)", [2.0, 0.0]),
        ("mean(x, 1, mask=m)", [2.0, math.nan]),
        ("median(x, 1, mask=m)", [1.0, math.nan]),
        ("var(x, 1, mask=m)", [2.0, math.nan]),
        ("var(x, 1, False, mask=m)", [1.0, math.nan]),
        ("std(x, 1, correction=0, mask=m)", [1.0, math.nan]),
        ("norm(x, 1, 1, mask=m)", [4.0, 0.0]),
        ("norm(x, -math.inf, 1, mask=m)", [1.0, math.inf]),
        ("cumsum(x, 1, mask=m)", [1.0, 1.0, 4.0, 0.0, 0.0, 0.0]),
        ("normalize(x, 1, 1, mask=m)", [0.25, 0.0, 0.75, 0.0, 0.0, 0.0]),
        ("sum(x.int(), mask=m[0])", [4.0 + 10.0]),
        ("mean(x, mask=m)", [2.0]),
    ],
)
def test_elements_outside_the_mask_do_not_count(torch, code, expected):
    x, m = given(torch)
    found = eval(f"torch.masked.{code}", {"torch": torch, "x": x, "m": m, "math": math})
    assert torch.allclose(found.double().flatten(), torch.tensor(expected).double(), equal_nan=True)


def test_softmax_gives_no_weight_and_no_gradient_to_masked_elements(torch):
    x, m = given(torch)
    x.requires_grad_()
    weights = torch.masked.softmax(x[:1], 1, mask=m[:1])
    assert weights[0, 1] == 0 and torch.allclose(weights.sum(), torch.tensor(1.0))
    weights[0, 0].backward()
    assert x.grad[0, 1] == 0 and x.grad[0, 0] > 0


def test_result_masks(torch):
    x, m = given(torch)
    assert torch.masked._output_mask(torch.masked.sum, x, 1, mask=m).tolist() == [True, False]
    assert torch.masked._output_mask(torch.masked.norm, x, 2, 0, mask=m).tolist() == [True, False, True]
    assert torch.masked._output_mask(torch.masked.cumsum, x, 1, mask=m).tolist() == m.tolist()
    assert torch.masked._input_mask(x, mask=m[0].int()).tolist() == [m[0].tolist()] * 2


@pytest.mark.parametrize(
    "code, error, words",
    [
        ("mean(x.int())", ValueError, r"Could not infer output dtype. Input dtype must be either"),
        ("median(x.int(), mask=m)", ValueError, "no fully masked out rows"),
        ("sum(x[0], mask=m)", IndexError, "got mask dimensionality higher than of the input"),
        ("sum(x, (0, 0))", RuntimeError, "dim=0 appears multiple times in the list of dims"),
        ("sum(x, 2)", IndexError, "Dimension out of range"),
        ("amax(x > 1, mask=m)", NotImplementedError, "identity of amax on"),
        ("std(x, 0, True, correction=1)", AssertionError, "Only one of unbiased and correction may be given"),
        ("_input_mask(x)", ValueError, "requires explicit mask"),
        ("_output_mask(torch.sin, x, mask=m)", ValueError, "expected masked operation"),
    ],
)
def test_bad_arguments_are_refused(torch, code, error, words):
    x, m = given(torch)
    with pytest.raises(error, match=words):
        eval(f"torch.masked.{code}", {"torch": torch, "x": x, "m": m})
