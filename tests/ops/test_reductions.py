"""Reductions beyond their values and derivatives: precision."""

from __future__ import annotations

import pytest

import gradloom


@pytest.mark.parametrize("dtype", [gradloom.float32, gradloom.complex64])
def test_derivatives_of_logcumsumexp_are_those_of_elements_without_their_offset(dtype):
    gradloom.manual_seed(0)
    small = (gradloom.randint(0, 4096, (3, 9)) / 1024).to(dtype)
    large = small + 8192  # exact, and its differences, too; the result is rounded to multiples of 1/1024
    vector = gradloom.randn(3, 9, dtype=dtype)
    found = []
    for x in (small, large):
        pulled = gradloom.func.vjp(lambda x: x.logcumsumexp(1), x)[1](vector)[0]
        pushed = gradloom.func.jvp(lambda x: x.logcumsumexp(1), (x,), (vector,))[1]
        found.append((pulled, pushed))
    for of_small, of_large in zip(*found, strict=True):
        assert gradloom.equal(of_small, of_large)
