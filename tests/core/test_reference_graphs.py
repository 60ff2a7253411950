"""The graphs of a few small programs, node by node: names, edges, saved fields, input metadata, gradients.

What is expected is what PyTorch 2.13 shows; tests/conformance/test_reference_graphs.py compares with PyTorch itself.
"""

from __future__ import annotations

import pytest

import gradloom as torch

FREED = "Trying to backward through the graph a second time"


def leaves():
    return torch.tensor(2.0, requires_grad=True), torch.tensor(6.0, requires_grad=True)


def program(a, b):
    return 3 * a**3 - b**2


def names(node):
    """(name, input number) of the next functions; None for an input that requires no gradient."""
    return tuple((None if n is None else type(n).__name__, nr) for n, nr in node.next_functions)


def test_gradients_of_a_program():
    a, b = leaves()
    Q = program(a, b)
    Q.backward(gradient=torch.tensor(1.0))
    assert a.grad.item() == 36.0
    assert b.grad.item() == -12.0


def test_a_second_backward_is_refused_until_the_graph_is_rebuilt():
    a, b = leaves()
    Q = program(a, b)
    Q.backward()
    with pytest.raises(RuntimeError, match=FREED):
        Q.backward()
    program(a, b).backward()
    assert a.grad.item() == 72.0
    assert b.grad.item() == -24.0


def test_gradients_as_a_function():
    a, b = leaves()
    grad_a, grad_b = torch.autograd.grad(program(a, b), [a, b])
    assert (grad_a.item(), grad_b.item()) == (36.0, -12.0)
    assert a.grad is None
    assert b.grad is None


def test_the_graph_of_a_program():
    a, b = leaves()
    Q = program(a, b)
    assert type(Q.grad_fn).__name__ == "SubBackward0"
    assert names(Q.grad_fn) == (("MulBackward0", 0), ("PowBackward0", 0))
    product, square = (node for node, _ in Q.grad_fn.next_functions)
    assert names(product) == (("PowBackward0", 0), (None, 0))
    assert names(square) == (("AccumulateGrad", 0),)
    cube = product.next_functions[0][0]
    assert names(cube) == (("AccumulateGrad", 0),)
    assert cube.next_functions[0][0].variable is a
    assert square.next_functions[0][0].variable is b
    assert names(cube.next_functions[0][0]) == ()


def test_leaves_have_no_grad_fn():
    a, b = leaves()
    assert a.grad_fn is None
    assert b.is_leaf


def test_saved_attributes_and_metadata():
    a, b = leaves()
    X = a**3
    Y = 3 * X
    Z = b**2
    Q = X - Z
    assert Q.grad_fn._saved_alpha == 1
    assert Q.grad_fn.next_functions[0][0] is X.grad_fn
    assert Q.grad_fn.next_functions[1][0] is Z.grad_fn
    assert Y.grad_fn._saved_self is None  # 3 needs no gradient, so X is not saved
    assert Y.grad_fn._saved_other.item() == 3
    assert Y.grad_fn._saved_other.dtype is torch.int64
    assert X.grad_fn._saved_exponent == 3
    assert X.grad_fn._saved_self is a
    assert Z.grad_fn._saved_exponent == 2
    assert Z.grad_fn._saved_self is b
    for result in (X, Y, Z, Q):
        assert result.output_nr == 0
        (metadata,) = result.grad_fn._input_metadata
        assert metadata.shape == []
        assert metadata.dtype is torch.float32
        assert metadata.device == torch.device("cpu")


def test_saved_attributes_are_listed():
    a, b = leaves()
    product = (a * b).grad_fn
    listed = {name for name in dir(product) if name.startswith(("_saved_", "_raw_saved_"))}
    assert listed == {"_saved_self", "_saved_other", "_raw_saved_self", "_raw_saved_other"}
    assert {name for name in dir((a**3).grad_fn) if name.startswith("_raw_saved_")} == {"_raw_saved_self"}


def test_saved_tensors_are_gone_with_the_graph():
    a, b = leaves()
    Q = program(a, b)
    Q.backward()
    square = Q.grad_fn.next_functions[1][0]
    assert square._saved_exponent == 2
    with pytest.raises(RuntimeError, match=FREED):
        square._saved_self  # noqa: B018


def test_sine_of_a_sum():
    x, a, b = (torch.tensor([0.5, -1.0], requires_grad=True) for _ in range(3))
    y = (x * a + b).sin()
    assert type(y.grad_fn).__name__ == "SinBackward0"
    total = y.grad_fn.next_functions[0][0]
    assert names(total) == (("MulBackward0", 0), ("AccumulateGrad", 0))
    product = total.next_functions[0][0]
    assert product._saved_self is x
    assert product._saved_other is a


def test_addcmul_saves_what_its_formulas_use():
    s, t, u = (torch.tensor([0.5, -1.0], requires_grad=needs) for needs in (True, True, False))
    y = torch.addcmul(s, t, u, value=2)
    assert type(y.grad_fn).__name__ == "AddcmulBackward0"
    assert names(y.grad_fn) == (("AccumulateGrad", 0), ("AccumulateGrad", 0), (None, 0))
    assert y.grad_fn._saved_value == 2
    assert y.grad_fn._saved_tensor1 is None
    assert y.grad_fn._saved_tensor2 is u
