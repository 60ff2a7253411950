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


SAMPLES = {"gather": gathered, "scatter_add": scattered}
