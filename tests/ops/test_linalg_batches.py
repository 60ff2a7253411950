"""Batches of many small matrices, which are factored in step, give what LAPACK gives for each matrix alone."""

from __future__ import annotations

import pytest

import gradloom as torch

linalg = torch.linalg
DTYPES = torch.float32, torch.float64, torch.complex64, torch.complex128


def _hermitian(A):
    return A @ A.mH + A.shape[-1] * torch.eye(A.shape[-1], dtype=A.dtype)


OPERATIONS = {
    "solve": lambda A: linalg.solve(A, A[..., :3] + 1),
    "solve, vectors": lambda A: linalg.solve(A, A.sum(-1, keepdim=True) ** 2)[..., 0],
    "solve, right": lambda A: linalg.solve(A, A.mT + 1, left=False),
    "inv": linalg.inv,
    "det": linalg.det,
    "slogdet": lambda A: linalg.slogdet(A).logabsdet,
    "lu": lambda A: torch.stack(linalg.lu(A)),
    "lu, tall": lambda A: torch.cat([x.flatten(-2) for x in linalg.lu(A[..., :3])], -1),
    "lu_solve": lambda A: linalg.lu_solve(*linalg.lu_factor(A), A.mT + 1),
    "lu_solve, adjoint": lambda A: linalg.lu_solve(*linalg.lu_factor(A), A + 1, adjoint=True),
    "solve_triangular": lambda A: linalg.solve_triangular(_hermitian(A), A, upper=True),
    "solve_triangular, right": lambda A: linalg.solve_triangular(_hermitian(A), A, upper=False, left=False),
    "cholesky": lambda A: linalg.cholesky(_hermitian(A)),
    "cholesky, upper": lambda A: linalg.cholesky(_hermitian(A), upper=True),
    "cholesky_solve": lambda A: torch.cholesky_solve(A + 1, linalg.cholesky(_hermitian(A))),
    "cholesky_solve, upper": lambda A: torch.cholesky_solve(A, linalg.cholesky(_hermitian(A), upper=True), True),
    "cholesky_inverse": lambda A: torch.cholesky_inverse(linalg.cholesky(_hermitian(A))),
    "cholesky_inverse, upper": lambda A: torch.cholesky_inverse(linalg.cholesky(_hermitian(A), upper=True), True),
}


def _matrices(dtype, count=300, size=5):
    torch.manual_seed(0)
    A = torch.randn(count, size, size, dtype=dtype)
    return A / A.abs().amax((-2, -1), keepdim=True) + torch.eye(size, dtype=dtype).flip(0) * 3  # well-conditioned


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", OPERATIONS)
def test_values_and_gradients_are_those_of_each_matrix_alone(name, dtype):
    run, A = OPERATIONS[name], _matrices(dtype)
    together = A.clone().requires_grad_()
    found = run(together)
    found.abs().square().sum().backward()
    bound = 1000 * torch.finfo(dtype).eps
    dim = 1 if name == "lu" else 0
    for i in 0, 7, 299:
        alone = A[i].clone().requires_grad_()
        expected = run(alone)
        expected.abs().square().sum().backward()
        torch.testing.assert_close(found.select(dim, i), expected, rtol=bound, atol=bound)
        torch.testing.assert_close(together.grad[i], alone.grad, rtol=bound, atol=bound * float(alone.grad.abs().max()))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_pivots_are_lapacks(dtype):
    A = torch.randn(400, 6, 4, dtype=dtype)
    pivots = linalg.lu_factor(A).pivots
    assert all(pivots[i].tolist() == linalg.lu_factor(A[i]).pivots.tolist() for i in range(0, 400, 50))


def test_equal_magnitudes_take_the_first_row():
    A = torch.tensor([[1.0, 2.0], [-1.0, 3.0]]).expand(200, 2, 2)
    LU, pivots = linalg.lu_factor(A)
    assert pivots[0].tolist() == [1, 2] and LU[0].tolist() == [[1.0, 2.0], [-1.0, 5.0]]


def test_batches_of_more_matrices_than_a_block():
    A = torch.eye(4, dtype=torch.float64).repeat(20_000, 1, 1) * torch.arange(1.0, 20_001.0).view(-1, 1, 1)
    assert torch.equal(linalg.solve(A, A), torch.eye(4, dtype=torch.float64).expand_as(A))


def test_singular_matrices_are_named():
    A = torch.eye(3).repeat(500, 1, 1)
    A[123, 1, 1] = 0
    with pytest.raises(linalg.LinAlgError, match=r"\(Batch element 123\): The solver failed because .* singular"):
        linalg.solve(A, A)
    with pytest.raises(linalg.LinAlgError, match=r"\(Batch element 123\): The diagonal element 2 is zero"):
        linalg.inv(A)
    with pytest.raises(RuntimeError, match=r"\(Batch element 123\): The diagonal element 2 is zero"):
        torch.cholesky_inverse(A)
    with pytest.raises(linalg.LinAlgError, match=r"\(Batch element 123\).* order 2 is not positive-definite"):
        linalg.cholesky(A)
    assert linalg.lu_factor_ex(A).info.nonzero().tolist() == [[123]]
    assert linalg.det(A)[120:126].tolist() == [1, 1, 1, 0, 1, 1]


def test_nan_stays_in_its_matrix():
    A = torch.eye(3).repeat(500, 1, 1)
    A[7, 2, 0] = float("nan")
    found = linalg.solve(A, A)
    assert found[7].isnan().any() and torch.equal(found[8:], A[8:]) and torch.equal(found[:7], A[:7])
