"""Samples of the operators on complex numbers."""

from __future__ import annotations

import numpy as np

import gradloom


def numbers(*shape, seed=0):
    random = np.random.default_rng(seed)
    return gradloom.from_numpy(np.asarray(random.normal(size=shape) + 1j * random.normal(size=shape)))


def reals(*shape, seed=0):
    return gradloom.from_numpy(np.random.default_rng(seed).uniform(0.3, 1.7, shape))


def of_complex():
    """A matrix, its transpose, a 0-dim and a zero-size tensor."""
    for x in (numbers(2, 3), numbers(3, 2).T, numbers(), numbers(0, 2)):
        yield (x,), {}


def of_both():
    yield from of_complex()
    yield (reals(2, 3),), {}


def pairs():
    for x in (reals(2, 3, 2), reals(2), gradloom.from_numpy(reals(3, 2, 4).numpy()[..., :2]), reals(0, 2)):
        yield (x,), {}


SAMPLES = {
    "angle": of_both,
    "conj": of_both,
    "conj_physical": of_both,
    "_conj": of_complex,
    "_conj_physical": of_complex,
    "conj_physical_": of_both,
    "resolve_conj": of_both,
    "resolve_neg": of_both,
    "real": of_both,
    "imag": of_complex,
    "view_as_real": of_complex,
    "view_as_complex": pairs,
}
