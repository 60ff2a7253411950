"""Decompositions of matrices with nan and infinities end: some LAPACK kernels loop over them."""

from __future__ import annotations

import subprocess
import sys

import pytest

import gradloom as torch
from tests.waiting import LIMIT

INFINITE = """
import itertools, gradloom as torch
SHAPES = (3, 3), (5, 3), (3, 5), (2, 30, 30)
DTYPES = torch.float32, torch.float64, torch.complex64, torch.complex128
for shape, dtype in itertools.product(SHAPES, DTYPES):
    for position in itertools.product((0, -1), (0, -1)):
        a = torch.ones(shape, dtype=dtype)
        a[(..., *position)] = float("inf")
        assert torch.linalg.svdvals(a).isnan().all()
        assert all(x.isnan().all() for x in torch.linalg.svd(a))
        if shape[-1] == shape[-2]:
            assert torch.linalg.matrix_norm(a, 2).isnan().all()
print("ended")
"""


def test_svd_of_infinities_is_nan():
    done = subprocess.run([sys.executable, "-c", INFINITE], capture_output=True, text=True, timeout=LIMIT)
    assert done.stdout == "ended\n", done.stderr


def test_svd_keeps_the_finite_matrices_of_a_batch():
    a = torch.stack([torch.eye(3), torch.full((3, 3), float("inf"))])
    u, s, vh = torch.linalg.svd(a)
    assert torch.equal(s[0], torch.ones(3)) and s[1].isnan().all()
    assert torch.equal((u[0] * s[0]) @ vh[0], a[0]) and u[1].isnan().all() and vh[1].isnan().all()


def test_svd_refuses_nan():
    a = torch.stack([torch.full((2, 2), float("inf")), torch.full((2, 2), float("nan"))])
    with pytest.raises(torch.linalg.LinAlgError, match=r"svd: \(Batch element 1\): .* contained non-finite values"):
        torch.linalg.svd(a)


def test_cholesky_of_nan_is_not_positive_definite():
    a = torch.stack([torch.eye(4), torch.full((4, 4), float("nan"))])
    assert torch.linalg.cholesky_ex(a).info.tolist() == [0, 1]
    with pytest.raises(torch.linalg.LinAlgError, match=r"\(Batch element 1\).* order 1 is not positive-definite"):
        torch.linalg.cholesky(a)
