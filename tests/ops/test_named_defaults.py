"""Defaults that a schema gives by name, as `int reduction=Mean`, are their numbers in Python."""

import inspect
import warnings

import pytest

import gradloom
from gradloom.nn import functional

LOSSES = {
    "hinge_embedding_loss": 2,
    "margin_ranking_loss": 3,
    "triplet_margin_loss": 3,
    "kl_div": 2,
    "soft_margin_loss": 2,
    "binary_cross_entropy_with_logits": 2,
    "cosine_embedding_loss": 3,
}


@pytest.mark.parametrize("name", [name for name in LOSSES if hasattr(gradloom, name)])
def test_a_loss_is_averaged_if_nothing_is_said(name):
    gradloom.manual_seed(0)
    inputs = [gradloom.rand(4, 3) for _ in range(LOSSES[name])]
    if name == "cosine_embedding_loss":
        inputs[2] = gradloom.ones(4)
    found = getattr(gradloom, name)(*inputs)
    assert found.dim() == 0
    with warnings.catch_warnings():  # kl_div advises another reduction
        warnings.simplefilter("ignore")
        assert found.tolist() == getattr(functional, name)(*inputs, reduction="mean").tolist()
    assert found.tolist() == getattr(gradloom.ops.aten, name)(*inputs).tolist()


def test_the_number_is_in_the_signature():
    assert inspect.signature(gradloom.hinge_embedding_loss).parameters["reduction"].default == 1
