"""The gradients of gamma and beta draws are the derivatives of quantiles, as far as PyTorch's approximations go."""

import numpy as np
import pytest

import gradloom as torch

special = pytest.importorskip("scipy.special")

FITTED = 2e-3  # relative error of the fitted rational functions


def quantile_slope(quantile, parameter):
    step = 1e-5 * parameter
    return (quantile(parameter + step) - quantile(parameter - step)) / (2 * step)


@pytest.mark.parametrize("concentration", [0.05, 0.5, 0.9, 1.0, 2.5, 7.0, 8.5, 30.0, 200.0])
def test_the_gradient_of_a_gamma_draw_is_that_of_its_quantile(concentration):
    levels = np.linspace(0.05, 0.95, 19)
    draws = special.gammaincinv(concentration, levels)
    expected = quantile_slope(lambda a: special.gammaincinv(a, levels), concentration)
    found = torch._standard_gamma_grad(
        torch.full((19,), concentration, dtype=torch.float64), torch.from_numpy(draws)
    ).numpy()
    np.testing.assert_allclose(found, expected, rtol=FITTED, atol=FITTED * np.abs(expected).max() * 1e-3)


@pytest.mark.parametrize("one", [0.3, 1.0, 4.0, 12.0, 80.0])
@pytest.mark.parametrize("other", [0.4, 1.0, 5.0, 20.0, 50.0])
def test_the_gradient_of_a_beta_draw_is_that_of_its_quantile(one, other):
    levels = np.linspace(0.05, 0.95, 19)
    draws = special.betaincinv(one, other, levels)
    expected = quantile_slope(lambda a: special.betaincinv(a, other, levels), one) / (1 - draws)
    full = [torch.full((19,), value, dtype=torch.float64) for value in (one, one + other)]
    found = torch._dirichlet_grad(torch.from_numpy(draws), *full).numpy()
    np.testing.assert_allclose(found, expected, rtol=5 * FITTED, atol=FITTED * np.abs(expected).max())


def test_forward_mode_agrees_with_reverse_mode():
    concentration = torch.tensor([0.5, 3.0, 20.0], dtype=torch.float64)
    torch.manual_seed(0)
    _, tangent = torch.func.jvp(torch._standard_gamma, (concentration,), (torch.ones(3, dtype=torch.float64),))
    torch.manual_seed(0)
    leaf = concentration.clone().requires_grad_()
    torch._standard_gamma(leaf).sum().backward()
    assert torch.equal(tangent, leaf.grad)


@pytest.mark.parametrize("concentration", [0.0, -1.0, float("nan")])
def test_draws_are_positive_even_for_concentrations_that_are_not(concentration):
    draws = torch._standard_gamma(torch.full((3,), concentration))
    assert (draws == torch.finfo(torch.float32).tiny).all()


def test_points_of_the_simplex_are_inside_of_it():
    draws = torch._sample_dirichlet(torch.full((100, 3), 0.01))
    assert (draws > 0).all() and (draws < 1).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.int64])
def test_other_dtypes_are_refused(dtype):
    one = torch.ones(2, dtype=dtype)
    for call in (
        lambda: torch._standard_gamma(one),
        lambda: torch._sample_dirichlet(one),
        lambda: torch._standard_gamma_grad(one, one),
        lambda: torch._dirichlet_grad(one, one, one),
    ):
        with pytest.raises(NotImplementedError, match="not implemented for"):
            call()


def test_dtypes_of_a_draw_and_its_concentration_must_agree():
    with pytest.raises(RuntimeError, match="Found dtype Double but expected Float"):
        torch._standard_gamma_grad(torch.ones(2), torch.ones(2).double())


CONCENTRATIONS = {
    "equal": torch.full((5000,), 2.5, dtype=torch.float64),
    "exponential": torch.ones(5000, dtype=torch.float64),
    "boosted": torch.full((5000,), 0.3, dtype=torch.float64),
    "varying": torch.linspace(1, 50, 5000, dtype=torch.float64),
    "varying, boosted": torch.linspace(1e-3, 0.999, 5000, dtype=torch.float64),
    "with zeros": torch.arange(5000, dtype=torch.float64) % 3,
    "with nan": torch.tensor([2.0, float("nan")], dtype=torch.float64).repeat(500),
    "large": torch.full((5000,), 1e7, dtype=torch.float64),
    "odd": torch.full((65,), 1.5, dtype=torch.float64),
}


@pytest.mark.parametrize("concentrations", CONCENTRATIONS.values(), ids=CONCENTRATIONS)
def test_draws_in_runs_are_those_of_the_loop(concentrations, monkeypatch):
    def drawn():
        torch.manual_seed(0)
        torch.randn(1, dtype=torch.float64)  # leaves the second number of a pair
        numbers = torch._standard_gamma(concentrations).tolist()
        return numbers, torch.rand(2).tolist(), torch.randn(1, dtype=torch.float64).tolist()

    in_runs = drawn()
    monkeypatch.setattr("gradloom.kernels.random.gamma._MANY", 1 << 30)
    assert repr(in_runs) == repr(drawn())
