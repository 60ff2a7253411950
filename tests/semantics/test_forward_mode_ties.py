"""Tangents where numbers are equal, NaN or large: which input decides, and what overflows on the way."""

from __future__ import annotations

import itertools

import pytest

NUMBERS = (0.0, 1.0, 2.0, float("nan"))
#: Tangents of the first, second and third input, so that a result's tangent says where it comes from.
TANGENTS = (1.0, 10.0, 100.0)
CHOICES = {
    "clamp": lambda torch, x, a, b: torch.clamp(x, a, b),
    "lower bound": lambda torch, x, a, b: torch.clamp(x, min=a),
    "upper bound": lambda torch, x, a, b: torch.clamp(x, max=a),
    "fmax": lambda torch, x, a, b: torch.fmax(x, a),
    "fmin": lambda torch, x, a, b: torch.fmin(x, a),
}


def tangent(torch, function, *inputs):
    """The tangent of a function's result for the given (primal, tangent) pairs."""
    ad = torch.autograd.forward_ad
    with ad.dual_level():
        return ad.unpack_dual(function(*[ad.make_dual(p, t) for p, t in inputs])).tangent


def expected(name, x, a, b):
    """Return the tangent of what the result equals; at ties the mean."""
    one, other, third = TANGENTS
    if name == "clamp":
        tie = {a: other, b: third}.get(x) if a < b else None
        inside = other if x < a else third if x > b else one
        return third if a > b else inside if tie is None else (one + tie) / 2
    first = {"lower bound": x > a, "upper bound": x < a, "fmax": x > a or a != a, "fmin": x < a or a != a}
    return (one + other) / 2 if x == a else one if first[name] else other


@pytest.mark.since("2.15")
@pytest.mark.parametrize("name", CHOICES)
def test_the_input_that_decides_gives_the_tangent(torch, name):
    triples = list(itertools.product(NUMBERS, repeat=3))
    pairs = [
        (torch.tensor([triple[i] for triple in triples]), torch.full((len(triples),), TANGENTS[i])) for i in range(3)
    ]
    found = tangent(torch, lambda *inputs: CHOICES[name](torch, *inputs), *pairs).tolist()
    for triple, value in zip(triples, found, strict=True):
        assert value == expected(name, *triple), triple


@pytest.mark.parametrize("reduce", ["amin", "amax"])
def test_what_a_reduction_leaves_out_has_no_share_of_it(torch, reduce):
    index = torch.tensor([0, 0, 1, 1])
    source = torch.tensor([1.0, 1.0, 2.0, 7.0]) * (1 if reduce == "amin" else -1)
    x = source[[0, 2]].clone()
    found = tangent(
        torch,
        lambda x, s: torch.scatter_reduce(x, 0, index, s, reduce, include_self=False),
        (x, torch.tensor([100.0, 200.0])),
        (source, torch.tensor([10.0, 20.0, 30.0, 40.0])),
    )
    assert found.tolist() == [15.0, 30.0]


def test_logsumexp_of_large_complex_numbers_keeps_the_phase_of_the_tangent(torch):
    x, t = torch.tensor([1.6e6 + 1.3e6j]), torch.tensor([2 - 1j])
    assert torch.allclose(tangent(torch, lambda x: torch.logsumexp(x, 0), (x, t)), t[0])


def test_the_angle_of_nan_does_not_move(torch):
    x = torch.tensor([float("nan"), 1.0, -1.0])
    assert tangent(torch, torch.angle, (x, torch.ones(3))).tolist() == [0.0, 0.0, 0.0]


def test_gelu_by_tanh_is_linear_far_from_zero(torch):
    x = torch.tensor([1e10, 1e14, 1e18, -1e14, -1e18] * 8)  # whose cubes are infinite
    found = tangent(torch, lambda x: torch.nn.functional.gelu(x, approximate="tanh"), (x, torch.ones(40)))
    assert found.tolist() == [1.0, 1.0, 1.0, 0.0, 0.0] * 8
