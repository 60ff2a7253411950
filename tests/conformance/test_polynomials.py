"""Orthogonal polynomials of all degrees, at their ends, beyond them and where they overflow, are PyTorch's."""

import numpy as np
import pytest

import gradloom

torch = pytest.importorskip("torch")

NAMES = [name for name in torch.special.__all__ if "polynomial" in name]
DEGREES = np.array([-3, -1, 0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 20, 33, 100, 127, 128, 129, 200, 511, 512, 513, 600])
POINTS = [-1e10, 1e10, 1e-30, -0.0, 0.5, np.inf, -np.inf, np.nan, 1 - 1e-7, -1 + 1e-7, 0.9999, 1e-9]
ENDLESS = ("laguerre_polynomial_l", "legendre_polynomial_p")  # each term of their recurrences is computed


def test_all_are_found():
    assert len(NAMES) == 12


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype, tolerance", [("float32", 2e-4), ("float64", 1e-9)])
def test_values_are_those_of_pytorch(name, dtype, tolerance):
    points = np.concatenate([np.linspace(-3, 3, 61), POINTS]).astype(dtype)[:, None]
    compare(name, points, DEGREES, tolerance)
    if name not in ENDLESS:
        compare(name, np.array([-2, -1, 1, 2], dtype), np.array(2**40), tolerance)


def compare(name, points, degrees, tolerance):
    theirs = getattr(torch.special, name)(torch.from_numpy(points), torch.from_numpy(degrees))
    ours = getattr(gradloom.special, name)(gradloom.from_numpy(points), gradloom.from_numpy(degrees))
    assert str(ours.dtype).partition(".")[2] == str(theirs.dtype).partition(".")[2]
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), tolerance, tolerance)
