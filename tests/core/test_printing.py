"""How tensors print: texts that PyTorch 2.13 shows for the same tensors."""

from __future__ import annotations

import pytest

import gradloom as L

TEXTS = [
    ("L.tensor(1.5)", "tensor(1.5000)"),
    ("L.tensor([1, 2])", "tensor([1, 2])"),
    ("L.tensor([0.5, 1e-5])", "tensor([5.0000e-01, 1.0000e-05])"),
    ("L.tensor([1., 20000.])", "tensor([1.0000e+00, 2.0000e+04])"),
    ("L.tensor([1.5, float('nan'), float('inf')])", "tensor([1.5000,    nan,    inf])"),
    ("L.tensor([True, False])", "tensor([ True, False])"),
    ("L.tensor([1 + 2j, -0.5j])", "tensor([1.+2.0000j, -0.-0.5000j])"),
    ("L.zeros(0, 3)", "tensor([], size=(0, 3))"),
    ("L.zeros(0, dtype=L.int64)", "tensor([], dtype=torch.int64)"),
    ("L.arange(2000)", "tensor([   0,    1,    2,  ..., 1997, 1998, 1999])"),
    ("L.ones(3, dtype=L.float64, requires_grad=True)", "tensor([1., 1., 1.], dtype=torch.float64, requires_grad=True)"),
    ("L.ones(3, requires_grad=True) * 2", "tensor([2., 2., 2.], grad_fn=<MulBackward0>)"),
    ("L.ones(2, dtype=L.bfloat16)", "tensor([1., 1.], dtype=torch.bfloat16)"),
    (
        "L.linspace(0, 1, 12)",
        "tensor([0.0000, 0.0909, 0.1818, 0.2727, 0.3636, 0.4545, 0.5455, 0.6364, 0.7273,\n"
        "        0.8182, 0.9091, 1.0000])",
    ),
    (
        "L.arange(24).reshape(2, 3, 4)",
        "tensor([[[ 0,  1,  2,  3],\n         [ 4,  5,  6,  7],\n         [ 8,  9, 10, 11]],\n"
        "\n        [[12, 13, 14, 15],\n         [16, 17, 18, 19],\n         [20, 21, 22, 23]]])",
    ),
    (
        "L.ones(50, 9)",
        "tensor([[1., 1., 1., 1., 1., 1., 1., 1., 1.],\n" * 1
        + "        [1., 1., 1., 1., 1., 1., 1., 1., 1.],\n" * 48
        + "        [1., 1., 1., 1., 1., 1., 1., 1., 1.]])",
    ),
]


@pytest.fixture(autouse=True)
def default_options():
    yield
    L.set_printoptions(profile="default")


@pytest.mark.parametrize("expression, expected", TEXTS, ids=[e for e, _ in TEXTS])
def test_repr(expression, expected):
    assert repr(eval(expression)) == expected


def test_a_large_tensor_is_summarised():
    line = "[1., 1., 1.,  ..., 1., 1., 1.]"
    rows = [line] * 3 + ["..."] + [line] * 3
    assert repr(L.ones(50, 50)) == "tensor([" + ",\n        ".join(rows) + "])"


def test_options():
    L.set_printoptions(precision=2, linewidth=30)
    assert repr(L.linspace(0, 1, 5)) == "tensor([0.00, 0.25, 0.50,\n        0.75, 1.00])"
    L.set_printoptions(profile="default", sci_mode=True)
    assert repr(L.ones(2)) == "tensor([1.0000e+00, 1.0000e+00])"
    L.set_printoptions(profile="default", edgeitems=1, threshold=3)
    assert repr(L.arange(4)) == "tensor([0,  ..., 3])"
    with pytest.raises(ValueError, match="profile"):
        L.set_printoptions(profile="long")


def test_a_view_whose_history_is_gone_still_prints():
    base = L.ones(2, requires_grad=True) * 1
    part = base.unbind()[0]
    base.mul_(2)
    assert repr(part) == "tensor(2., grad_fn=<Invalid>)"


def test_parameters_say_what_they_are():
    from gradloom.nn import Parameter

    assert repr(Parameter(L.ones(2))) == "Parameter containing:\ntensor([1., 1.], requires_grad=True)"
