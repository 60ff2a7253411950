"""assert_close, which says where tensors differ, and make_tensor, which draws some."""

from collections import OrderedDict

import numpy as np
import pytest


@pytest.mark.parametrize(
    ("actual", "expected", "options"),
    [
        ("t([1.0, 2.0])", "t([1.0, 2.0000001])", {}),
        ("t([1.0])", "t([1.0], dtype=torch.float64)", {"check_dtype": False}),
        ("t([float('nan')])", "t([float('nan')])", {"equal_nan": True}),
        ("t([float('inf')])", "t([float('inf')])", {}),
        ("t([1.0])", "t([1.1])", {"rtol": 0.2, "atol": 0}),
        ("torch.ones(2, dtype=torch.bfloat16)", "torch.ones(2, dtype=torch.bfloat16) + 0.01", {}),
        ("[1.0, (t(2.0), None)]", "(1.0, [t(2.0), None])", {}),
        ("OrderedDict(a=t([1]))", "{'a': t([1])}", {}),
        ("torch.nn.Parameter(t([1.0]))", "t([1.0])", {}),
        ("t([])", "t([])", {}),
        ("np.array([1.0])", "np.array([1.0])", {}),
    ],
)
def test_what_is_close(torch, actual, expected, options):
    names = {"torch": torch, "t": torch.tensor, "np": np, "OrderedDict": OrderedDict}
    assert torch.testing.assert_close(eval(actual, names), eval(expected, names), **options) is None


REPORTS = [
    (
        "t([1.0, 2.0])",
        "t([1.0, 3.0])",
        "Tensor-likes are not close!\n\nMismatched elements: 1 / 2 (50.0%)\n"
        "Greatest absolute difference: 1.0 at index (1,) (up to 1e-05 allowed)\n"
        "Greatest relative difference: 0.3333333432674408 at index (1,) (up to 1.3e-06 allowed)",
    ),
    (
        "t([[1, 2]])",
        "t([[1, 3]])",
        "Tensor-likes are not equal!\n\nMismatched elements: 1 / 2 (50.0%)\n"
        "Greatest absolute difference: 1 at index (0, 1)\n"
        "Greatest relative difference: 0.3333333432674408 at index (0, 1)",
    ),
    ("t([True, False])", "t([True, True])", "Greatest absolute difference: 1 at index (1,)"),
    (
        "t(1.0)",
        "t(2.0)",
        "Scalars are not close!\n\nExpected 2.0 but got 1.0.\nAbsolute difference: 1.0 (up to 1e-05 "
        "allowed)\nRelative difference: 0.5 (up to 1.3e-06 allowed)",
    ),
    ("1", "2", "Scalars are not equal!\n\nExpected 2 but got 1.\nAbsolute difference: 1\nRelative difference: 0.5"),
    ("1j", "2j", "Relative difference: 0.5 (up to 1e-07 allowed)"),
    ("1", "1.0", "The (d)types do not match: <class 'int'> != <class 'float'>."),
    ("True", "False", "Booleans mismatch: True is not False"),
    ("None", "1", "None mismatch: None is not 1"),
    ("[1.0]", "[1.0, 2.0]", "The length of the sequences mismatch: 1 != 2"),
    (
        "{'a': 1.0}",
        "{'b': 1.0}",
        "The keys of the mappings do not match:\nMissing keys in the actual mapping: ['b']\n"
        "Additional keys in the actual mapping: ['a']",
    ),
    ("{'a': [t([1])]}", "{'a': [t([2])]}", "\n\nThe failure occurred for item ['a'][0]"),
    (
        "t([1.0])",
        "t([1.0], dtype=torch.float64)",
        "The values for attribute 'dtype' do not match: torch.float32 != torch.float64.",
    ),
    ("t([1.0])", "t([1.0, 2.0])", "attribute 'shape' do not match: torch.Size([1]) != torch.Size([2])."),
    ("t([float('nan')])", "t([1.0])", "Greatest absolute difference: nan at index (0,)"),
    ("t([float('inf')])", "t([1.0])", "Greatest absolute difference: inf at index (0,)"),
]


@pytest.mark.parametrize(("actual", "expected", "words"), REPORTS)
def test_a_report_says_what_differs_by_how_much_and_where(torch, actual, expected, words):
    names = {"torch": torch, "t": torch.tensor}
    with pytest.raises(AssertionError) as caught:
        torch.testing.assert_close(eval(actual, names), eval(expected, names))
    assert words in str(caught.value)


def test_the_text_of_the_error_can_be_chosen(torch):
    for msg, text in (("hello", "hello"), (lambda found: "X" + found[:6], "XTensor")):
        with pytest.raises(AssertionError) as caught:
            torch.testing.assert_close(torch.ones(1), torch.zeros(1), msg=msg)
        assert str(caught.value) == text


def test_strides_are_looked_at_if_asked(torch):
    a, b = torch.ones(2, 2).t(), torch.ones(2, 2)
    torch.testing.assert_close(a, b)
    with pytest.raises(AssertionError, match=r"stride\(\)' do not match: \(1, 2\) != \(2, 1\)"):
        torch.testing.assert_close(a, b, check_stride=True)


def test_what_cannot_be_compared(torch):
    for a, b in (
        (torch.ones(1), [1.0]),
        (1.0, torch.tensor(1.0)),
        ("a", "a"),
        (object(), object()),
        (np.ones(1), torch.ones(1)),
    ):
        with pytest.raises(TypeError, match="No comparison pair was able to handle inputs of type"):
            torch.testing.assert_close(a, b)
    with pytest.raises(TypeError, match="No comparison pair"):
        torch.testing.assert_close(torch.nn.Parameter(torch.ones(1)), torch.ones(1), allow_subclasses=False)
    for options, absent in (({"rtol": 0.1}, "atol"), ({"atol": 0.1}, "rtol")):
        with pytest.raises(ValueError, match=f"must be either specified or omitted, but got no {absent}"):
            torch.testing.assert_close(1.0, 1.0, **options)


@pytest.mark.parametrize(
    ("dtype", "options", "values"),
    [
        ("float32", {}, [-0.0674, 4.8280, -7.4074]),
        ("float32", {"low": 0, "high": 1}, [0.4963, 0.7682, 0.0885]),
        ("float32", {"noncontiguous": True}, [4.8280, -6.6235, 2.4134]),
    ],
)
def test_drawn_tensors_are_the_same_for_a_seed(torch, dtype, options, values):
    torch.manual_seed(0)
    found = torch.testing.make_tensor((3,), dtype=getattr(torch, dtype), device="cpu", **options)
    assert found.tolist() == pytest.approx(values, abs=1e-4)


def test_drawn_tensors_have_what_was_asked_for(torch):
    make = torch.testing.make_tensor
    assert make(2, 3, dtype=torch.float64, device="cpu", requires_grad=True).requires_grad
    assert make((2, 3), dtype=torch.float32, device="cpu", noncontiguous=True).stride() == (6, 2)
    found = make((1000,), dtype=torch.int8, device="cpu", low=-1, high=2, exclude_zero=True)
    assert set(found.tolist()) == {-1, 1}
    for wrong in ({"low": 2, "high": 1}, {"requires_grad": True}):
        with pytest.raises(ValueError):
            make((2,), dtype=torch.int32, device="cpu", **wrong)
