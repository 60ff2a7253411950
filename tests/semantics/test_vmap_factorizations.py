"""vmap over the functions of linear algebra that raise an error for a singular matrix."""

from __future__ import annotations

import pytest

FUNCTIONS = {
    "inv": lambda torch, a: torch.linalg.inv(a),
    "solve": lambda torch, a: torch.linalg.solve(a, a.new_ones(2)),
    "cholesky": lambda torch, a: torch.linalg.cholesky(a),
    "lu_factor": lambda torch, a: torch.linalg.lu_factor(a)[0],
    "ldl_factor": lambda torch, a: torch.linalg.ldl_factor(a)[0],
    "tensorinv": lambda torch, a: torch.linalg.tensorinv(a, 1),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_element_is_computed(torch, name):
    def function(a):
        return FUNCTIONS[name](torch, a)

    matrices = torch.tensor([[[4.0, 1.0], [1.0, 3.0]], [[5.0, 2.0], [2.0, 6.0]], [[7.0, 0.0], [0.0, 8.0]]])
    expected = torch.stack([function(a) for a in matrices])
    assert torch.allclose(torch.vmap(function)(matrices), expected)
    twice = torch.vmap(torch.vmap(function))(matrices[:, None])
    assert torch.allclose(twice[:, 0], expected)


@pytest.mark.parametrize("name", ["inv", "solve", "cholesky"])
def test_the_element_that_fails_is_named(torch, name):
    matrices = torch.stack([torch.eye(2), torch.zeros(2, 2)])
    with pytest.raises(torch.linalg.LinAlgError, match="Batch element 1"):
        torch.vmap(lambda a: FUNCTIONS[name](torch, a))(matrices)


def test_gradients_of_each_element(torch):
    matrices = torch.tensor([[[4.0, 1.0], [1.0, 3.0]], [[5.0, 2.0], [2.0, 6.0]]])
    found = torch.vmap(torch.func.grad(lambda a: torch.linalg.inv(a).sum()))(matrices)
    expected = [torch.func.grad(lambda a: torch.linalg.inv(a).sum())(a) for a in matrices]
    assert torch.allclose(found, torch.stack(expected))
