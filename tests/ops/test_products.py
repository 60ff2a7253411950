"""Products beyond their values and derivatives: graphs, layouts, types, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gradloom
from tests.rounding import assert_sums_agree


def normal(*shape, dtype=np.float64, seed=0):
    array = np.random.default_rng(seed).standard_normal(shape).astype(dtype)
    return gradloom.from_numpy(np.asarray(array))


def names(node):
    """A graph as nested tuples of node names."""
    return (node.name(), *(names(n) for n, _ in node.next_functions if n is not None))


LEAF = ("torch::autograd::AccumulateGrad",)
VIEW = ("ViewBackward0", LEAF)


@pytest.mark.parametrize(
    "left, right, graph",
    [
        ((3,), (3,), ("DotBackward0", LEAF, LEAF)),
        ((2, 3), (3,), ("MvBackward0", LEAF, LEAF)),
        ((2, 3), (3, 4), ("MmBackward0", LEAF, LEAF)),
        ((5, 2, 3), (3, 4), ("UnsafeViewBackward0", ("MmBackward0", VIEW, LEAF))),
        ((5, 2, 3), (3,), ("UnsafeViewBackward0", ("MvBackward0", VIEW, LEAF))),
    ],
)
def test_matmul_is_the_product_that_the_ranks_ask_for(left, right, graph):
    a, b = normal(*left).requires_grad_(), normal(*right, seed=1).requires_grad_()
    found = a @ b
    assert names(found.grad_fn) == graph
    a, b = a.detach().numpy(), b.detach().numpy()
    assert_sums_agree(found.detach().numpy(), a @ b, abs(a) @ abs(b), a.shape[-1])


def test_a_batch_without_gradients_is_not_copied_to_fold_it():
    batch = normal(4, 3, 2).transpose(1, 2).requires_grad_()  # rows of the folded matrix would be no view
    found = batch @ normal(3, 2)
    node = found.grad_fn.next_functions[0][0]
    assert node.name() == "BmmBackward0"
    a, b = batch.detach().numpy(), normal(3, 2).numpy()
    assert_sums_agree(found.detach().numpy(), a @ b, abs(a) @ abs(b), 3)


@pytest.mark.parametrize(
    "shape, root", [((2, 3), "AddmmBackward0"), ((2, 2, 3), "UnsafeViewBackward0"), ((3,), "UnsafeViewBackward0")]
)
def test_linear_is_one_product_that_adds_the_bias(shape, root):
    x, weight, bias = (normal(*s, seed=i).requires_grad_() for i, s in enumerate((shape, (4, 3), (4,))))
    found = gradloom.nn.functional.linear(x, weight, bias)
    assert found.grad_fn.name() == root
    found.sum().backward()
    assert weight.grad.stride() == weight.stride()  # though the product had the transposed weight


def test_halves_are_multiplied_in_float32():
    a = gradloom.full((1, 4096), 1.0, dtype=gradloom.float16)
    assert (a @ a.t()).item() == 4096  # a running sum in half precision stops at 2048
    b = a.to(gradloom.bfloat16)
    assert (b @ b.t()).item() == 4096
    assert gradloom.addmm(b[:, :1], b, b.t()).dtype is gradloom.bfloat16


def test_integers_are_exact_and_wrap():
    big = gradloom.tensor([[2**53 + 1]])
    assert (big @ gradloom.tensor([[3]])).item() == 3 * (2**53 + 1)
    small = gradloom.full((1, 3), 100, dtype=gradloom.int8)
    assert (small @ small.t()).item() == np.int8(30000 % 256)
    assert gradloom.addmm(big, big, big * 0, beta=1.9).item() == 2**53 + 1  # scalars are truncated


def test_beta_zero_leaves_self_unread_and_alpha_zero_the_product():
    nan, one = gradloom.full((1, 1), float("nan")), gradloom.ones(1, 1)
    assert gradloom.addmm(nan, one, one, beta=0).item() == 1
    assert gradloom.addmm(one, nan, one, alpha=0).item() == 1
    assert gradloom.addmm(one, gradloom.ones(1, 0), gradloom.ones(0, 1), beta=2).item() == 2


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: normal(2, 3) @ normal(2, 3), RuntimeError, "shapes cannot be multiplied (2x3 and 2x3)"),
        (lambda: gradloom.mm(normal(3), normal(3, 2)), RuntimeError, "self must be a matrix"),
        (lambda: gradloom.mm(normal(2, 2), normal(2, 2).float()), RuntimeError, "double != float"),
        (lambda: normal(3) @ normal(2), RuntimeError, "expected tensor [3] and src [2]"),
        (lambda: normal() @ normal(2), RuntimeError, "at least 1D, but they are 0D and 1D"),
        (lambda: gradloom.bmm(normal(1, 2, 3), normal(1, 2, 3)),
         RuntimeError, "to be: [1, 3] but got: [1, 2]"),
        (lambda: gradloom.outer(normal(2, 2), normal(2)), RuntimeError, "Expected 1-D argument self"),
        (lambda: gradloom.ones(2, 2, dtype=gradloom.bool) @ gradloom.ones(2, 2, dtype=gradloom.bool),
         NotImplementedError, "not implemented for 'Bool'"),
        (lambda: gradloom.tensordot(normal(2, 3), normal(2, 3), 1), RuntimeError,
         "first has size 3 in dim -1 and second has size 2 in dim 0"),
        (lambda: gradloom.linalg.multi_dot([normal(2, 3)]), RuntimeError, "at least 2 tensors but got 1"),
        (lambda: gradloom.linalg.cross(normal(2, 4), normal(2, 4)),
         RuntimeError, "must have length 3. Got 4"),
    ],
)  # fmt: skip
def test_what_is_refused(call, error, words):
    with pytest.raises(error) as found:
        call()
    assert words in str(found.value)


@pytest.mark.parametrize(
    "equation, shapes, words",
    [
        ("ij,jk", [(2, 3)], "fewer operands were provided"),
        ("ij->", [(2, 3), (2,)], "more operands were provided"),
        ("ij->ik", [(2, 3)], "output subscript k does not appear"),
        ("ij->iji", [(2, 3)], "output subscript i appears more than once"),
        ("ij,jk->ik", [(2, 3), (4, 5)], "subscript j has size 4 for operand 1 which does not broadcast"),
        ("ii", [(2, 3)], "subscript i is repeated for operand 0 but the sizes don't match, 3 != 2"),
        ("i", [(2, 3)], "the number of subscripts in the equation (1) does not match"),
        ("i1", [(2, 3)], "invalid subscript given at index 1"),
        ("i.j", [(2, 3)], "found '.' for operand 0 that is not part of any ellipsis"),
        ("...i...", [(2, 3)], "found '.' for operand 0 for which an ellipsis was already found"),
    ],
)
def test_equations_that_einsum_refuses(equation, shapes, words):
    with pytest.raises(RuntimeError) as found:
        gradloom.einsum(equation, *(normal(*s) for s in shapes))
    assert words in str(found.value)


@pytest.mark.parametrize(
    "equation, shapes",
    [
        ("ab,bc,cd,de->ae", [(2, 3), (3, 4), (4, 5), (5, 2)]),
        ("abc,cd,db,ea->e", [(2, 3, 4), (4, 5), (5, 3), (6, 2)]),
        ("i,j,k", [(2,), (3,), (4,)]),
        ("...ij,...jk->...ik", [(2, 1, 3, 4), (5, 4, 2)]),
        ("ijk,jil,kl->ij", [(2, 3, 4), (3, 2, 5), (4, 5)]),
        ("b i , b j -> j i", [(2, 3), (2, 4)]),
    ],
)
def test_einsum_gives_what_numpy_gives(equation, shapes):
    operands = [normal(*s, seed=i) for i, s in enumerate(shapes)]
    expected, magnitude = (
        np.einsum(equation.replace(" ", ""), *arrays)
        for arrays in ([t.numpy() for t in operands], [abs(t.numpy()) for t in operands])
    )
    terms = math.prod(math.prod(shape) for shape in shapes)
    assert_sums_agree(gradloom.einsum(equation, *operands).numpy(), expected, magnitude, terms)


def test_einsum_takes_lists_of_subscripts():
    a, b = normal(2, 3), normal(3, 4)
    expected, magnitude = (a @ b).numpy(), (a.abs() @ b.abs()).numpy()
    assert_sums_agree(gradloom.einsum(a, [0, 1], b, [1, 51], [0, 51]).numpy(), expected, magnitude, 3)
    assert_sums_agree(gradloom.einsum("ij,jk", [a, b]).numpy(), expected, magnitude, 3)
    with pytest.raises(ValueError, match="valid range"):
        gradloom.einsum(a, [0, 52])
