"""Python's operators on tensors: numbers on either side, strangers, in-place forms, and what they record."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import gradloom as torch

X = torch.tensor([5.0, -3.0])
I = torch.tensor([5, -3])  # noqa: E741

ARITHMETIC = {
    operator.add: [7.0, -1.0],
    operator.sub: [3.0, -5.0],
    operator.mul: [10.0, -6.0],
    operator.truediv: [2.5, -1.5],
    operator.floordiv: [2.0, -2.0],
    operator.mod: [1.0, 1.0],
    operator.pow: [25.0, 9.0],
}
SWAPPED = {
    operator.add: [7.0, -1.0],
    operator.sub: [-3.0, 5.0],
    operator.mul: [10.0, -6.0],
    operator.truediv: [0.4, -2 / 3],
    operator.floordiv: [0.0, -1.0],
    operator.mod: [2.0, -1.0],
    operator.pow: [32.0, 0.125],
}
COMPARISONS = {
    operator.eq: [False, False],
    operator.ne: [True, True],
    operator.lt: [False, True],
    operator.le: [False, True],
    operator.gt: [True, False],
    operator.ge: [True, False],
}
BITS = {
    operator.and_: [0, 0],
    operator.or_: [7, -1],
    operator.xor: [7, -1],
    operator.lshift: [20, -12],
    operator.rshift: [1, -1],
}
INPLACE = [
    operator.iadd,
    operator.isub,
    operator.imul,
    operator.itruediv,
    operator.ifloordiv,
    operator.imod,
    operator.ipow,
]


class Stranger:
    """Knows what to do with anything on its left."""

    def _answer(self, other):
        return "mine"

    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __rpow__ = __rmatmul__ = _answer
    __rand__ = __ror__ = __rxor__ = __rlshift__ = __rrshift__ = _answer
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _answer
    __hash__ = None


@pytest.mark.parametrize("function", ARITHMETIC)
def test_a_number_on_the_right(function):
    assert function(X, 2).tolist() == ARITHMETIC[function]
    assert function(X, torch.tensor(2.0)).tolist() == ARITHMETIC[function]
    assert function(X, np.float64(2)).tolist() == ARITHMETIC[function]


@pytest.mark.parametrize("function", SWAPPED)
def test_a_number_on_the_left(function):
    np.testing.assert_allclose(function(2, X).tolist(), SWAPPED[function], rtol=1e-6)
    np.testing.assert_allclose(function(np.float32(2), X).tolist(), SWAPPED[function], rtol=1e-6)


@pytest.mark.parametrize("function", COMPARISONS)
def test_comparisons(function):
    assert function(X, 2).tolist() == COMPARISONS[function]
    assert function(X, 2).dtype is torch.bool


@pytest.mark.parametrize("function", BITS)
def test_bits(function):
    assert function(I, 2).tolist() == BITS[function]
    assert function(12, torch.tensor([2, 1])).tolist() == [function(12, 2), function(12, 1)]


@pytest.mark.parametrize("function", INPLACE)
def test_in_place_operators_keep_the_tensor(function):
    x = X.clone()
    assert function(x, 2) is x
    assert x._version == 1
    plain = getattr(operator, function.__name__[1:])
    assert x.tolist() == plain(X, 2).tolist()


def test_unary_operators():
    assert (-X).tolist() == [-5.0, 3.0]
    assert +X is X
    assert abs(X).tolist() == [5.0, 3.0]
    assert (~I).tolist() == [-6, 2]
    assert (~torch.tensor([True, False])).tolist() == [False, True]
    with pytest.raises(TypeError, match=r"~ \(operator.invert\) is only implemented on integer and Boolean-type"):
        ~X  # noqa: B018


@pytest.mark.parametrize("function", [*ARITHMETIC, *BITS, *COMPARISONS, operator.matmul])
def test_strangers_are_asked(function):
    assert function(X, Stranger()) == "mine"


@pytest.mark.parametrize("function", [*ARITHMETIC, *BITS, operator.lt, operator.ge, operator.iadd, operator.ipow])
def test_who_knows_nobody_gets_pythons_error(function):
    with pytest.raises(TypeError, match="unsupported operand|not supported between instances of 'Tensor' and 'dict'"):
        function(X, {})
    with pytest.raises(TypeError, match="unsupported operand|not supported between instances of 'dict' and 'Tensor'"):
        function({}, X)
    assert getattr(X, f"__{function.__name__.strip('_')}__")({}) is NotImplemented


def test_equality_with_strangers_is_identity():
    assert (X == None) is False  # noqa: E711
    assert (X != "a") is True


def test_functions_raise_where_operators_ask():
    with pytest.raises(TypeError, match=r"add\(\): argument 'other' \(position 2\) must be Tensor, not str"):
        torch.add(X, "a")
    with pytest.raises(TypeError, match="eq"):
        torch.eq(X, None)


def test_numpy_arrays_become_tensors():
    found = X + np.ones(2)
    assert isinstance(found, torch.Tensor)
    assert found.tolist() == [6.0, -2.0]


def test_numbers_do_not_widen():
    half = torch.tensor([1.0], dtype=torch.float16)
    assert (half * 2.5).dtype is torch.float16
    assert (I * 2).dtype is torch.int64
    assert (I * 2.5).dtype is torch.float32
    assert (torch.tensor([1], dtype=torch.uint8) + 300).tolist() == [45]
    assert (X + 1j).dtype is torch.complex64
    assert (torch.tensor([True]) + 1).dtype is torch.int64


def test_shapes_that_do_not_fit():
    with pytest.raises(RuntimeError, match=r"size of tensor a \(2\) must match the size of tensor b \(3\) at non-"):
        X + torch.ones(3)
    with pytest.raises(RuntimeError, match=r"output with shape \[2\] doesn't match the broadcast shape \[2, 2\]"):
        X.clone().add_(torch.ones(2, 2))


def test_bools_are_not_subtracted():
    mask = torch.tensor([True, False])
    for refused in (lambda: mask - mask, lambda: 1 - mask, lambda: mask - 1, lambda: I - mask, lambda: -mask):
        with pytest.raises(RuntimeError, match="is not supported"):
            refused()


def test_integers_divided_by_zero():
    for function in (operator.floordiv, operator.mod):
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            function(I, 0)
    assert (I / 0).tolist() == [float("inf"), float("-inf")]


@pytest.mark.parametrize(
    ("expression", "node"),
    [
        (lambda x: 1 - x, "RsubBackward1"),
        (lambda x: 2 / x, "MulBackward0"),
        (lambda x: 2**x, "PowBackward2"),
        (lambda x: x**2, "PowBackward0"),
        (lambda x: x**x, "PowBackward1"),
        (lambda x: x / 2, "DivBackward0"),
        (lambda x: x % 2, "RemainderBackward0"),
        (lambda x: 2 + x, "AddBackward0"),
        (lambda x: x // 2, "NotImplemented"),
    ],
)
def test_nodes(expression, node):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    assert type(expression(x).grad_fn).__name__ == node
