"""TestCase of torch.testing._internal, which tests of other packages use: what it takes for equal."""

from importlib import import_module

import numpy as np
import pytest


@pytest.fixture
def case(torch):
    pytest.importorskip("expecttest", reason="PyTorch's helpers need it") if torch.__name__ == "torch" else None
    return import_module(f"{torch.__name__}.testing._internal.common_utils").TestCase()


def values(torch):
    x = torch.ones(2)
    return {
        "equal": [
            (x, x + 1e-7), (torch.tensor(1.0), 1), (1.0, 1.0 + 1e-9), (1, 1.0), ([x, 1], (x, 1)), (x, [1.0, 1.0]),
            ({"a": x}, {"a": x}), ("a", "a"), (None, None), (True, 1), ({1}, {1}), (x, np.ones(2, np.float32)),
            (float("nan"), float("nan")), (torch.float32, torch.float32), (torch.Size([2]), [2]),
        ],
        "different": [
            (x, x + 1e-3), (x, x.double()), ({"a": 1}, {"b": 1}), ("a", "b"), (None, x), (object, int), ([1], [1, 2]),
            (x, torch.ones(2, 2)), ([x, 1], [x, 2]), ({"a": x}, {"a": x + 1}), (1.0, 1.1),
        ],
    }  # fmt: skip


@pytest.mark.parametrize("number", range(15))
def test_what_is_equal(torch, case, number):
    one, other = values(torch)["equal"][number]
    case.assertEqual(one, other)
    with pytest.raises(AssertionError):
        case.assertNotEqual(one, other)


@pytest.mark.parametrize("number", range(11))
def test_what_is_different(torch, case, number):
    one, other = values(torch)["different"][number]
    case.assertNotEqual(one, other)
    with pytest.raises(AssertionError):
        case.assertEqual(one, other)


def test_options(torch, case):
    case.assertEqual(torch.ones(2), torch.ones(2, dtype=torch.float64), exact_dtype=False)
    case.assertEqual(1.0, 1.1, atol=0.2, rtol=0)
    with pytest.raises(AssertionError, match="hello"):
        case.assertEqual(1, 2, "hello")
    with pytest.raises(AssertionError, match="^changed: "):
        case.assertEqual(1, 2, lambda text: f"changed: {text}")
    with pytest.raises(AssertionError):
        case.assertEqual(float("nan"), float("nan"), equal_nan=False)
    draws = []
    for _ in range(2):
        case.setUp()
        draws.append(torch.rand(1))
        case.tearDown()  # PyTorch's restores settings
    assert torch.equal(*draws) and case.assertLess(0, 1) is None
