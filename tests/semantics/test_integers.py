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


@pytest.mark.parametrize("offset", [-(2**31), 2**31, -(2**63), 2**63 - 1])
def test_a_diagonal_beyond_the_matrix_is_empty(torch, offset):
    x = torch.ones(3, 3)
    assert x.diagonal(offset).shape == (0,) and x.diagonal(offset).fill_(2).numel() == 0
    assert x.tril(offset).sum() == (9 if offset > 0 else 0) and x.triu(offset).sum() == (0 if offset > 0 else 9)


OUT_OF_RANGE = "Dimension out of range"
NO_MEMORY = "DefaultCPUAllocator: can't allocate memory"
OVERFLOW = "Storage size calculation overflowed"


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda t, x: x.permute(1, 2**32), IndexError, OUT_OF_RANGE),
        (lambda t, x: t.cat([x, x], -(2**31)), IndexError, OUT_OF_RANGE),
        (lambda t, x: t.cat([x, x], 2**40), IndexError, OUT_OF_RANGE),
        (lambda t, x: x.sum(2**40), IndexError, OUT_OF_RANGE),
        (lambda t, x: x.sum(2**63), ValueError, "Overflow when unpacking long long"),
        (
            lambda t, x: x.view(1, 2**64),
            TypeError,
            r"view\(\): argument 'size' failed to unpack the object at pos 2 with",
        ),
        (lambda t, x: t.bincount(t.tensor([2**62])), RuntimeError, OVERFLOW),
        (lambda t, x: t.zeros(2**40, 2**40), RuntimeError, OVERFLOW),
        (lambda t, x: t.zeros(2**50), RuntimeError, NO_MEMORY),
        (lambda t, x: t.ones(2**40, 1) @ t.ones(1, 2**40), RuntimeError, NO_MEMORY),
        (lambda t, x: t.nn.functional.avg_pool2d(x[None], 2, 2**32), RuntimeError, "cannot be converted to type int"),
    ],
)
def test_sizes_dimensions_and_counts_out_of_range_are_refused(torch, call, error, text):
    with pytest.raises(error, match=text):
        call(torch, torch.ones(2, 2))


def test_more_parts_than_memory_could_hold_are_refused(torch):
    for count in (2**40, 2**62):
        with pytest.raises((RuntimeError, ValueError)):
            torch.ones(3).tensor_split(count)
