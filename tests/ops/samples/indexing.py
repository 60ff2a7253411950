"""Samples of the indexing operators."""

from __future__ import annotations

import gradloom

from .reduction import tensor


def gathered():
    yield (tensor(3, 2), 0, gradloom.tensor([[2, 0], [0, 0]])), {}
    yield (tensor(3, 3), 1, gradloom.tensor([[2, 0]])), {}
    yield (tensor(), 0, gradloom.tensor(0)), {}


def scattered():
    yield (tensor(3, 2), 0, gradloom.tensor([[2, 0], [0, 0]]), tensor(2, 2, seed=1)), {}
    yield (tensor(3), 0, gradloom.tensor([1]), tensor(1, seed=1)), {}


def masked_fill(*values):
    """A mask of the tensor's shape, one that broadcasts, and one that makes the result larger."""
    def samples():
        for value in values:
            yield (tensor(2, 3), gradloom.tensor([[True, False, False], [False, True, True]]), value), {}
            yield (tensor(2, 3), gradloom.tensor([True, False, True]), value), {}
            yield (tensor(), gradloom.tensor([True, False]), value), {}
    return samples


SAMPLES = {
    "gather": gathered,
    "scatter_add": scattered,
    "masked_fill.Scalar": masked_fill(0, -1.5),
    "masked_fill.Tensor": masked_fill(tensor()),
}
