"""Integers: shifts by more bits than there are, powers beyond the dtype, and what is no operand of `@`."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("dtype", "values", "right"),
    [
        ("uint8", [200, 100, 7, 255], [0, 0, 0, 0]),
        ("int8", [-100, 100, -1, 5], [-1, 0, -1, 0]),
        ("int64", [-(1 << 62), 1 << 62, -1, 5], [-1, 0, -1, 0]),
    ],
)
def test_shifts_by_all_bits_leave_nothing_but_the_sign(torch, dtype, values, right):
    x = torch.tensor(values, dtype=getattr(torch, dtype))
    bits = 8 * x.element_size()
    for by in (bits, bits + 1, 100, -1):
        assert (x >> by).tolist() == right and (x << by).tolist() == [0] * 4
    assert (x >> 1).tolist() == [v >> 1 for v in values]


def test_an_exponent_that_the_dtype_does_not_have_is_refused(torch):
    x = torch.tensor([2, 3], dtype=torch.int8)
    with pytest.raises(RuntimeError, match="value cannot be converted to type int8_t without overflow"):
        x**300
    with pytest.raises(RuntimeError, match="Integers to negative integer powers are not allowed"):
        x**-1
    assert (x**3).tolist() == [8, 27] and (x.to(torch.int64) ** 30).tolist() == [2**30, 3**30]


@pytest.mark.parametrize("number", [2, 2.5, True, 1j])
def test_numbers_are_no_operands_of_matrix_products(torch, number):
    x = torch.ones(2)
    kind = type(number).__name__
    with pytest.raises(TypeError, match=f"unsupported operand type\\(s\\) for @: 'Tensor' and '{kind}'"):
        x @ number
    with pytest.raises(TypeError, match=f"unsupported operand type\\(s\\) for @: '{kind}' and 'Tensor'"):
        number @ x


def test_another_class_answers_a_matrix_product(torch):
    class Answers:
        def __rmatmul__(self, other):
            return "right"

        def __matmul__(self, other):
            return "left"

    assert torch.ones(2) @ Answers() == "right" and Answers() @ torch.ones(2) == "left"


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "complex64", "int64"])
def test_a_truth_value_is_not_subtracted(torch, dtype):
    x = torch.ones(2, dtype=getattr(torch, dtype))
    for operation in (
        lambda: x - True,
        lambda: True - x,
        lambda: x.sub(True),
        lambda: torch.sub(x, True),
        lambda: x.clone().sub_(True),
        lambda: torch.rsub(x, True),
    ):
        with pytest.raises(RuntimeError, match="Subtraction, the `-` operator, with a bool tensor is not supported"):
            operation()
    assert (x + True).tolist() == [2, 2] and (x * True).tolist() == [1, 1] and (x / True).tolist() == [1, 1]
    assert (x + True).dtype is x.dtype


def test_running_sums_of_truth_values_are_integers_and_have_no_boolean_form(torch):
    x = torch.tensor([True, False, True])
    assert x.cumsum(0).tolist() == [1, 1, 2] and x.cumsum(0).dtype is torch.int64
    for name in ("cumsum", "cumprod"):
        with pytest.raises(NotImplementedError, match=f"\"{name}_out_cpu\" not implemented for 'Bool'"):
            getattr(torch, name)(x, 0, dtype=torch.bool)


@pytest.mark.filterwarnings("ignore:Casting complex values to real")
def test_a_complex_number_fills_with_its_real_part(torch):
    assert torch.zeros(2).fill_(torch.tensor(3 + 4j)).tolist() == [3, 3]
    assert torch.zeros(2, dtype=torch.int64).fill_(torch.tensor(3 + 4j)).tolist() == [3, 3]
    with pytest.raises(RuntimeError, match="without overflow"):
        torch.zeros(2).fill_(3 + 4j)


def test_lerp_names_both_dtypes(torch):
    with pytest.raises(RuntimeError, match="expected dtype float for `end` but got dtype long int"):
        torch.lerp(torch.ones(1), torch.ones(1, dtype=torch.int64), 0.5)
