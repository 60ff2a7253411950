"""Overloads with a number in the place of a tensor: those that Python's names choose, and those that only `ops` has."""

from __future__ import annotations

import pytest

CALLS = [  # call, class of its node, saved number
    ("aten.add.Scalar(x, 2)", "AddBackward1", None),
    ("aten.add.Scalar(x, 2, 3)", "AddBackward1", None),
    ("aten.add_.Scalar(x.clone(), 2)", "AddBackward1", None),
    ("aten.sub.Scalar(x, 2)", "SubBackward1", None),
    ("aten.sub_.Scalar(x.clone(), 2, alpha=2)", "SubBackward1", None),
    ("aten.mul.Scalar(x, 2)", "MulBackward1", 2),
    ("aten.mul.Scalar(x, 0.5)", "MulBackward1", 0.5),
    ("aten.mul_.Scalar(x.clone(), 3)", "MulBackward1", 3),
    ("aten.div.Scalar(x, 4)", "DivBackward1", 4),
    ("aten.multiply.Scalar(x, 2)", "MulBackward1", 2),
    ("aten.multiply_.Scalar(x.clone(), 2)", "MulBackward1", 2),
    ("aten.subtract.Scalar(x, 2)", "SubBackward1", None),
    ("aten.divide.Scalar(x, 2)", "DivBackward1", 2),
    ("aten.true_divide.Scalar(x, 2)", "DivBackward1", 2),
    ("aten.divide.Scalar_mode(x, 2, rounding_mode='floor')", "DivBackward3", 2),
    ("aten.floor_divide.Scalar(x, 2)", "NotImplemented", None),
    ("aten.where.ScalarOther(x > 1, x, 2.0)", "WhereBackward0", None),
    ("aten.where.ScalarSelf(x > 1, 2.0, x)", "WhereBackward0", None),
    ("aten.mul(x, 2)", "MulBackward0", None),
    ("aten.add(x, 2)", "AddBackward0", None),
    ("x * 2", "MulBackward0", None),
    ("x + 2", "AddBackward0", None),
    ("torch.multiply(x, 2)", "MulBackward0", None),
    ("torch.where(x > 1, x, 2.0)", "WhereBackward0", None),
]


@pytest.mark.parametrize("call, node, saved", CALLS, ids=[call for call, _, _ in CALLS])
def test_an_overload_for_numbers_has_a_node_of_its_own_which_keeps_the_number(torch, call, node, saved):
    x = torch.tensor([0.5, 1.5, 4.0], requires_grad=True)
    y = eval(call, {"aten": torch.ops.aten, "x": x, "torch": torch})
    assert type(y.grad_fn).__name__ == node
    if saved is not None:
        assert y.grad_fn._saved_other == saved and type(y.grad_fn._saved_other) is type(saved)


@pytest.mark.parametrize(
    "call, gradient",
    [
        ("aten.add.Scalar(x, 2, 3)", 1),
        ("aten.sub.Scalar(x, 2)", 1),
        ("aten.mul.Scalar(x, 2)", 2),
        ("aten.mul.Scalar(x, 2 + 1j).real", 2),
        ("aten.div.Scalar(x, 4)", 0.25),
    ],
)
def test_overloads_for_numbers_are_differentiated(torch, call, gradient):
    x = torch.tensor([0.5, 1.5], requires_grad=True)
    y = eval(call, {"aten": torch.ops.aten, "x": x})
    (found,) = torch.autograd.grad(y.sum(), x)
    assert found.tolist() == [gradient, gradient]


@pytest.mark.parametrize("call", ["add.Scalar(x, 3, 2)", "sub.Scalar(x, 3, 2)", "mul.Scalar(x, 3)"])
def test_tangents_go_through_overloads_for_numbers(torch, call):
    forward_ad = torch.autograd.forward_ad
    with forward_ad.dual_level():
        x = forward_ad.make_dual(torch.tensor([0.5, 1.5]), torch.tensor([1.0, 2.0]))
        y = eval(f"aten.{call}", {"aten": torch.ops.aten, "x": x})
        assert forward_ad.unpack_dual(y).tangent.tolist() == ([3.0, 6.0] if "mul" in call else [1.0, 2.0])


@pytest.mark.parametrize(
    "call, values, dtype",
    [
        ("mul.Scalar(i, 1.5)", [1.5, 3.0, 4.5], "float32"),
        ("mul.Scalar(i, 1j)", [1j, 2j, 3j], "complex64"),
        ("mul.Scalar(i > 1, 2)", [0, 2, 2], "int64"),
        ("mul.Scalar(h, 2.5)", [2.5, 5.0, 7.5], "float16"),
        ("add.Scalar(i > 1, 2)", [2, 3, 3], "int64"),
        ("add.Scalar(i, True, 2)", [3, 4, 5], "int64"),
        ("add.Scalar(i, 2.5)", [3.5, 4.5, 5.5], "float32"),
        ("sub.Scalar(h, 2.5)", [-1.5, -0.5, 0.5], "float16"),
        ("bitwise_and.Scalar(i, 1)", [1, 0, 1], "int64"),
        ("bitwise_and_.Scalar(i.clone(), 2)", [0, 2, 2], "int64"),
        ("bitwise_xor.Scalar(i, 1)", [0, 3, 2], "int64"),
        ("bitwise_left_shift.Tensor_Scalar(i, 1)", [2, 4, 6], "int64"),
        ("greater.Scalar(i, 1)", [False, True, True], "bool"),
        ("less_equal.Scalar(i, 1)", [True, False, False], "bool"),
        ("where.Scalar(i > 1, 1.0, 2.0)", [2.0, 1.0, 1.0], "float32"),
        ("special_hermite_polynomial_h.n_scalar(i.float(), 2)", [2.0, 14.0, 34.0], "float32"),
    ],
)
def test_a_number_takes_part_in_type_promotion_as_numbers_do(torch, call, values, dtype):
    i = torch.tensor([1, 2, 3])
    y = eval(f"aten.{call}", {"aten": torch.ops.aten, "i": i, "h": i.to(torch.float16)})
    assert y.tolist() == values and y.dtype is getattr(torch, dtype)


@pytest.mark.parametrize(
    "call, error",
    [
        ("sub.Scalar(i > 1, 2)", "bool tensor is not supported"),
        ("sub.Scalar(i, True)", "bool tensor is not supported"),
        ("add.Scalar(i, 2, 1.5)", "argument alpha must not be a floating point number"),
        ("sub.Scalar(i.float(), 2, 1j)", "argument alpha must not be a complex number"),
        ("mul.Scalar(i, i)", "Expected a value of type 'number' for argument 'other'"),
        ("mul.Scalar(i, i.sum())", "Expected a value of type 'number' for argument 'other'"),
        ("add.Tensor(i, i, alpha=i.sum())", "Expected a value of type 'number' for argument 'alpha'"),
        ("clamp.default(i, i.sum())", "Expected a value of type 'Optional.number.' for argument 'min'"),
    ],
)
def test_what_an_overload_for_numbers_refuses(torch, call, error):
    i = torch.tensor([1, 2, 3])
    with pytest.raises(RuntimeError, match=error):
        eval(f"aten.{call}", {"aten": torch.ops.aten, "i": i})


def test_python_names_do_not_offer_what_only_ops_has(torch):
    x = torch.ones(2)
    with pytest.raises(TypeError):
        torch.mul(x, 2, 3)
    with pytest.raises(TypeError):
        torch.add(x, 2, alpha=torch.ones(2))
    assert torch.ops.aten.mul.overloads()[:2] == ["Tensor", "Scalar"]
    assert torch.ops.aten.bitwise_and.overloads()[:3] == ["Tensor", "Scalar", "Scalar_Tensor"]


def test_modes_see_the_overload_for_numbers_that_python_chooses(torch):
    from importlib import import_module

    seen = []

    class Watch(import_module(f"{torch.__name__}.utils._python_dispatch").TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    x, i = torch.ones(2), torch.tensor([1, 2])
    with Watch():
        x * 2, x + 2, torch.bitwise_and(i, 1), i.bitwise_or_(1), x > 1, torch.greater(x, 1), x.eq_(1)
        torch.special.hermite_polynomial_h(x, 2)
        torch.ops.aten.mul.Scalar(x, 2)
        torch.ops.aten.bitwise_xor(i, 1)
    assert seen == [
        "aten.mul.Tensor",
        "aten.add.Tensor",
        "aten.bitwise_and.Scalar",
        "aten.bitwise_or_.Scalar",
        "aten.gt.Scalar",
        "aten.gt.Scalar",
        "aten.eq_.Scalar",
        "aten.special_hermite_polynomial_h.n_scalar",
        "aten.mul.Scalar",
        "aten.bitwise_xor.Scalar",
    ]


@pytest.mark.parametrize(
    "call, dtype",
    [
        ("where(c, 1.0, 2.0)", "float32"),
        ("where(c, 1j, 2j)", "complex64"),
        ("where(c, 1, 2)", "int64"),
        ("where(c, 1, 2.0)", "float32"),
        ("where(c, True, False)", "bool"),
        ("add(1.0, 2.0)", "float32"),
        ("mul(1j, 2j)", "complex64"),
        ("div(1, 2)", "float32"),
    ],
)
def test_numbers_among_themselves_have_the_default_dtype(torch, call, dtype):
    y = eval(f"torch.{call}", {"torch": torch, "c": torch.tensor([True, False])})
    assert y.dtype is getattr(torch, dtype)


TOO_LARGE = "type float without overflow"
NOT_CAST = "result type ComplexFloat can't be cast to the desired output type Float"

NO_COMPLEX_ALPHA = "argument alpha must not be a complex number"


@pytest.mark.parametrize(
    "call, error, words",
    [
        ("addmm(m, m, m, beta=2**64)", OverflowError, "int too big to convert"),
        ("addmm(m, m, m, alpha=1e308)", RuntimeError, TOO_LARGE),
        ("addmv(x, m, x, beta=1e308)", RuntimeError, TOO_LARGE),
        ("baddbmm(b, b, b, beta=-1e308)", RuntimeError, TOO_LARGE),
        ("addr(m, x, x, beta=-2**63-1)", OverflowError, "can't convert negative int"),
        ("addmm(i, i, i, beta=float('nan'))", RuntimeError, "type int64_t without overflow"),
        ("addcmul(x, x, x, value=2**64)", OverflowError, "int too big to convert"),
        ("addcdiv(x, x, x, value=1e308)", RuntimeError, TOO_LARGE),
        ("add(x, x, alpha=2**64)", OverflowError, "int too big to convert"),
        ("add(i > 0, i > 0, alpha=2**64)", OverflowError, "int too big to convert"),
        ("sub(x, x, alpha=2**64)", OverflowError, "int too big to convert"),
        ("sub(x, x, alpha=-2**63-1)", OverflowError, "can't convert negative int"),
        ("rsub(x, x, alpha=2**64)", OverflowError, "int too big to convert"),
        ("add(x, x, alpha=1+0j)", RuntimeError, NO_COMPLEX_ALPHA),
        ("sub(x, 2, alpha=1+0j)", RuntimeError, NO_COMPLEX_ALPHA),
        ("rsub(x, 2, alpha=1+0j)", RuntimeError, NO_COMPLEX_ALPHA),
        ("Tensor.add_(x, x, alpha=1+0j)", RuntimeError, NO_COMPLEX_ALPHA),
        ("add(i, i, alpha=1.0)", RuntimeError, "argument alpha must not be a floating point number"),
        ("sub(i, 2, alpha=1.0)", RuntimeError, "argument alpha must not be a floating point number"),
        ("rsub(x, 2, alpha=True)", RuntimeError, "Boolean alpha only supported for Boolean results"),
        ("nn.functional.pad(i, (1, 0), value=2**64)", RuntimeError, "type int64_t without overflow"),
        ("nn.functional.pad(x, (1, 0), value=2+0j)", TypeError, "must be float, not complex"),
        ("threshold(x, 1e308, 2)", RuntimeError, TOO_LARGE),
        ("threshold(x, 2, 2**64)", OverflowError, "int too big to convert"),
        ("hardshrink(x, 1e308)", RuntimeError, TOO_LARGE),
        ("hardshrink(x.half(), 65520.0)", RuntimeError, "Half without overflow"),
        ("celu(x, 1e-45)", RuntimeError, TOO_LARGE),
        ("logit(x, 1e308)", RuntimeError, TOO_LARGE),
        ("nn.functional.elu(x, 1e308)", RuntimeError, TOO_LARGE),
        ("nn.functional.leaky_relu(x, 2**64)", OverflowError, "int too big to convert"),
        ("nn.functional.leaky_relu(x, 1j)", RuntimeError, TOO_LARGE),
        ("nn.functional.softplus(x, threshold=1e308)", RuntimeError, TOO_LARGE),
        ("nn.functional.softshrink(x, float('inf'))", RuntimeError, "lambda must be in range"),
        ("pow(x, 2**64)", OverflowError, "int too big to convert"),
        ("remainder(x, 2**64)", OverflowError, "int too big to convert"),
        ("fmod(x, -2**63-1)", OverflowError, "can't convert negative int"),
        ("Tensor.bitwise_and_(x, 1j)", RuntimeError, NOT_CAST),
        ("Tensor.remainder_(x, 1j)", RuntimeError, NOT_CAST),
        ("Tensor.add_(x, 1j, alpha=1e308)", RuntimeError, NOT_CAST),
        ("Tensor.floor_divide_(x > 0, 0)", RuntimeError, "result type Long can't be cast"),
    ],
)
def test_numbers_that_a_dtype_does_not_hold_are_refused(torch, call, error, words):
    i = torch.ones(2, 2, dtype=torch.int64)
    m, x = i.float(), torch.tensor([1.0, -1.0])
    with pytest.raises(error, match=words):
        eval(f"torch.{call}", {"torch": torch, "x": x, "m": m, "b": m.unsqueeze(0), "i": i})


@pytest.mark.parametrize(
    "call",
    [
        "addmm(m, m, m, beta={0}, alpha={0})",
        "addcdiv(x, x, x, value={0})",
        "lerp(x, 2 * x, {0})",
        "celu(x, {0})",
        "nn.functional.elu(x, {0})",
        "ops.aten.elu(x, 1, 1, {0})",
        "ops.aten.elu_backward(x, 1, {0}, 1, False, x)",
        "nn.functional.leaky_relu(x, {0})",
        "nn.functional.softplus(x, {0})",
        "nn.functional.softshrink(x, {0})",
    ],
)
def test_a_complex_number_without_an_imaginary_part_is_a_real_number(torch, call):
    m, x = torch.ones(2, 2), torch.tensor([1.0, -1.0])
    found, expected = [eval(f"torch.{call.format(n)}", {"torch": torch, "x": x, "m": m}) for n in ("(2+0j)", "2.0")]
    assert found.dtype is torch.float32 and torch.equal(found, expected)


def test_elu_takes_a_complex_one(torch):
    x = torch.tensor([1.0, -1.0], requires_grad=True)
    elu = torch.nn.functional.elu
    assert torch.equal(elu(x, 1 + 0j), elu(x))
    found, expected = [torch.autograd.grad(elu(x, alpha).sum(), x)[0] for alpha in (1 + 0j, 1.0)]
    assert torch.equal(found, expected)
    assert torch.equal(torch.nn.functional.elu_(x.detach().clone(), 1 + 0j), elu(x))


@pytest.mark.parametrize("alpha, factor", [(2**64 - 1, 2), (2**63, -(2**63)), (2**63 + 5, 2**63), (-(2**63), -(2**63))])
def test_the_alpha_of_a_difference_is_negated_in_64_bits(torch, alpha, factor):
    x = torch.tensor([1.0, -1.0])
    for found in (torch.sub(x, x, alpha=alpha), torch.rsub(x, x, alpha=alpha), x.clone().sub_(x, alpha=alpha)):
        assert found.tolist() == [factor, -factor]
    assert torch.sub(torch.tensor([3]), torch.tensor([3]), alpha=2**64 - 1).tolist() == [6]


def test_padding_with_an_integer_is_padding_with_a_float(torch):
    pad = torch.nn.functional.pad
    assert pad(torch.ones(1), (1, 0), value=2**64).tolist() == [2.0**64, 1]
    assert pad(torch.ones(1, dtype=torch.int64), (1, 0), value=2**53 + 1).tolist() == [2**53, 1]


@pytest.mark.parametrize("compiled", [False, True])
def test_logit_clamps_by_comparison(torch, compiled):
    x, nan = torch.tensor([0.0, 0.2, 0.6, 1.0]), float("nan")
    for eps, points in ((0.7, [0.7, 0.7, 0.7, 1 - 0.7]), (nan, [0.0, 0.2, 0.6, 1.0]), (0.3, [0.3, 0.3, 0.6, 0.7])):

        def function(x, eps=eps):
            return torch.logit(x, eps)

        found = (torch.compile(function) if compiled else function)(x)
        torch.testing.assert_close(found, torch.logit(torch.tensor(points)))


@pytest.mark.parametrize("compiled", [False, True])
def test_smooth_l1_loss_does_not_square_large_distances(torch, compiled):
    def function(x, y):
        return torch.nn.functional.smooth_l1_loss(x, y, beta=10.0)

    found = (torch.compile(function) if compiled else function)(torch.tensor([-3e38]), torch.tensor([0.0]))
    torch.testing.assert_close(found, torch.tensor(3e38))


def test_the_sign_of_zero_beside_an_alpha_of_zero(torch):
    y = torch.nn.functional.elu(torch.tensor([-2.0, -0.5, 3.0]), alpha=0)
    assert y.tolist() == [0, 0, 3] and y.signbit().tolist() == [True, True, False]


def test_softplus_below_a_large_threshold_overflows(torch):
    y = torch.nn.functional.softplus(torch.tensor([50.0, 100.0]), threshold=1e4)
    assert y.tolist() == [50.0, float("inf")]


def test_a_factor_that_rounds_to_zero_leaves_the_summand_out(torch):
    m = torch.ones(2, 2)
    assert torch.addmm(m * float("nan"), m, m, beta=1e-300).tolist() == [[2.0, 2.0], [2.0, 2.0]]
