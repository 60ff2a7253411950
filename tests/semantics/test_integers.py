"""Integers: shifts by more bits than there are, powers beyond the dtype, and what is no operand of `@`."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(("dtype", "values", "right"), [
    ("uint8", [200, 100, 7, 255], [0, 0, 0, 0]),
    ("int8", [-100, 100, -1, 5], [-1, 0, -1, 0]),
    ("int64", [-(1 << 62), 1 << 62, -1, 5], [-1, 0, -1, 0]),
])
def test_shifts_by_all_bits_leave_nothing_but_the_sign(torch, dtype, values, right):
    x = torch.tensor(values, dtype=getattr(torch, dtype))
    bits = 8 * x.element_size()
    for by in (bits, bits + 1, 100, -1):
        assert (x >> by).tolist() == right and (x << by).tolist() == [0] * 4
    assert (x >> 1).tolist() == [v >> 1 for v in values]


def test_an_exponent_that_the_dtype_does_not_have_is_refused(torch):
    x = torch.tensor([2, 3], dtype=torch.int8)
    with pytest.raises(RuntimeError, match="value cannot be converted to type int8_t without overflow"):
        x ** 300
    with pytest.raises(RuntimeError, match="Integers to negative integer powers are not allowed"):
        x ** -1
    assert (x ** 3).tolist() == [8, 27] and (x.to(torch.int64) ** 30).tolist() == [2 ** 30, 3 ** 30]


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
