"""Statistics of numbers that lie close together and far from zero, against the same in double precision."""

from __future__ import annotations

import pytest

import gradloom as torch

OFFSETS = (0.0, 1.0, 1e4, -3e7)


def standardized(name, x):
    """x, (sets, elements), with each set standardised by one of the normalisations."""
    functional = torch.nn.functional
    if name == "batch_norm":
        return functional.batch_norm(x.t().contiguous(), None, None, training=True).t()
    if name == "layer_norm":
        return functional.layer_norm(x, x.shape[1:])
    return getattr(functional, name)(x[:, None], *[1] * (name == "group_norm"))[:, 0]


NORMS = ("layer_norm", "group_norm", "instance_norm", "batch_norm")


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("count", [7, 1000, 5000])
def test_equal_numbers_become_zero(name, count):
    for offset in OFFSETS:
        x = torch.full((2, count), offset / 3)
        assert not standardized(name, x).any(), offset


@pytest.mark.parametrize("count", [7, 1000, 5000])
def test_equal_numbers_have_no_variance(count):
    for offset in OFFSETS:
        x = torch.full((count, 3), offset / 3)
        for layout in (x, x.t().contiguous().t(), x.to(torch.float64), x.to(torch.bfloat16)):
            assert not layout.var(0).any() and not layout.std().any(), offset
            assert torch.equal(layout.mean(0), layout[0]) or (layout.mean(0) / layout[0] - 1).abs().max() < 1e-6


@pytest.mark.parametrize("name", NORMS)
def test_rounding_the_mean_costs_no_more_than_a_few_units(name):
    torch.manual_seed(0)
    for offset in OFFSETS:
        x = torch.randn(2, 3000) + offset
        exact = standardized(name, x.double())
        # The mean is rounded to its own precision: that shifts all numbers by so much.
        bound = 2.0**-23 * (abs(offset) / float(x.double().std(1).min()) + 8 * float(exact.abs().max()))
        assert (standardized(name, x) - exact).abs().max() <= 4 * bound, offset


def test_sums_of_many_numbers_keep_their_digits():
    torch.manual_seed(0)
    for shape in ((3, 100_001), (100_001, 3), (7, 5003, 2), (1 << 20, 1)):
        x = torch.rand(shape) + 1
        for dim in (0, 1, None):
            exact = x.double().sum() if dim is None else x.double().sum(dim)
            found = x.sum() if dim is None else x.sum(dim)
            assert ((found - exact) / exact).abs().max() <= 32 * 2.0**-24, (shape, dim)


def test_variances_are_as_exact_as_the_differences():
    torch.manual_seed(0)
    for shape in ((2, 1000), (1000, 2), (3, 40_000)):
        for offset in OFFSETS:
            x = torch.randn(shape) * 4 + offset
            for dim in (0, 1):
                assert torch.allclose(x.var(dim).double(), x.double().var(dim), rtol=1e-5), (shape, offset, dim)


def test_the_norm_of_one_element_is_its_magnitude():
    x = torch.tensor([[3e25], [-1e-30]])
    for order in (2, 3, 6, -6, 0.5):
        assert torch.equal(torch.linalg.vector_norm(x, order, 1), x.abs()[:, 0])
        assert torch.equal(torch.linalg.vector_norm(x, order, 1, keepdim=True), x.abs())
        assert torch.equal(torch.linalg.vector_norm(x[0, 0], order), x[0, 0])
