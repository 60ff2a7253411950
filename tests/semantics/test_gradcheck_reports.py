"""What gradcheck says: both Jacobians as tensors, the part of complex numbers, and what it refuses to check."""

from importlib import import_module

import pytest

FAST = pytest.mark.parametrize("fast_mode", [False, True])


@pytest.fixture
def x(torch):
    return torch.tensor([0.5, -1.0], dtype=torch.float64, requires_grad=True)


@pytest.fixture
def z(torch):
    return torch.tensor([1.0 + 2.0j, -0.5j], dtype=torch.complex128, requires_grad=True)


def function(torch, forward, backward, jvp=None):
    """The `apply` of a Function without anything saved."""
    members = {"forward": staticmethod(lambda ctx, x: forward(x)), "backward": staticmethod(lambda ctx, g: backward(g))}
    if jvp is not None:
        members["jvp"] = staticmethod(lambda ctx, t: jvp(t))
    return type("Made", (torch.autograd.Function,), members).apply


@pytest.fixture
def torch_with_error(torch):
    module = import_module(f"{torch.__name__}.autograd.gradcheck")
    return torch, module.GradcheckError


def raised(torch_with_error, fun, inputs, **options):
    torch, error = torch_with_error
    assert error.__module__ == f"{torch.__name__}.autograd.gradcheck"
    with pytest.raises(error) as caught:
        torch.autograd.gradcheck(fun, inputs, **options)
    return str(caught.value)


def test_jacobians_are_shown_as_tensors(torch_with_error, x):
    text = raised(torch_with_error, function(torch_with_error[0], lambda x: x * 2, lambda g: g * 3), x)
    assert text.startswith("Jacobian mismatch for output 0 with respect to input 0,\nnumerical:tensor([[2.0000, 0.")
    assert "analytical:tensor([[3., 0.]," in text and text.count("dtype=torch.float64)") == 2


def test_fast_mode_tells_the_largest_difference(torch_with_error, x):
    text = raised(torch_with_error, function(torch_with_error[0], lambda x: x * 2, lambda g: g * 3), x, fast_mode=True)
    assert "The max per-element difference (slow mode) is: 1.0" in text and "tensor([[3., 0.]," in text


@FAST
def test_complex_outputs_are_considered_in_two_parts(torch_with_error, x, z, fast_mode):
    torch = torch_with_error[0]
    wrong = function(torch, lambda x: x * 2j, lambda g: g * 2j)
    assert raised(torch_with_error, wrong, z, fast_mode=fast_mode).startswith(
        "While considering the imaginary part of complex outputs only, Jacobian mismatch"
    )
    half_right = function(torch, lambda x: torch.complex(x, x), lambda g: g.real * 3 + g.imag)
    assert raised(torch_with_error, half_right, x, fast_mode=fast_mode).startswith(
        "While considering the real part of complex outputs only, Jacobian mismatch"
    )


@FAST
def test_in_forward_mode_complex_inputs_are_considered_in_two_parts(torch_with_error, z, fast_mode):
    torch = torch_with_error[0]
    options = {"check_forward_ad": True, "check_backward_ad": False, "fast_mode": fast_mode}
    wrong = function(torch, lambda x: x * 2j, lambda g: g * -2j, lambda t: t * 3j)
    assert raised(torch_with_error, wrong, z, **options).startswith(
        "While considering the imaginary part of complex inputs only, Jacobian computed with forward mode mismatch"
    )
    half_right = function(torch, lambda x: x * 2j, lambda g: g * -2j, lambda t: torch.complex(-2 * t.imag, 3 * t.real))
    assert raised(torch_with_error, half_right, z, **options).startswith(
        "While considering the real part of complex inputs only, Jacobian computed with forward mode mismatch"
    )
    assert torch.autograd.gradcheck(lambda t: t * t.conj() + t, z, **options)
    assert torch.autograd.gradcheck(lambda t: t.abs(), z, **options)


@FAST
def test_a_derivative_that_is_not_a_number_is_a_mismatch(torch_with_error, x, fast_mode):
    for factor in (float("nan"), float("inf")):
        assert "mismatch" in raised(torch_with_error, lambda x, factor=factor: x * factor, x, fast_mode=fast_mode)


def test_of_several_wrong_jacobians_that_of_the_first_output_is_shown(torch_with_error, x):
    torch = torch_with_error[0]
    wrong = function(torch, lambda x: x * 2, lambda g: g * 3)
    y = x.detach().clone().requires_grad_()
    text = raised(torch_with_error, lambda a, b: (a + wrong(b), wrong(a) + b), (x, y))
    assert "output 0 with respect to input 1" in text


def test_undefined_gradients_of_all_outputs_must_give_none(torch_with_error, x):
    torch = torch_with_error[0]

    class Additional(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return torch.ones(2, dtype=torch.float64) if g is None else g * 2

    assert "Expected all input grads to be undefined or zero when all output grads are undefined or zero" in raised(
        torch_with_error, Additional.apply, x
    )


def test_a_function_returns_tensors_in_a_tuple_or_a_list(torch, x):
    for check in (torch.autograd.gradcheck, torch.autograd.gradgradcheck):
        for found in ({"a": x}, None, 3):
            with pytest.raises(AttributeError, match=f"'{type(found).__name__}' object has no attribute 'req"):
                check(lambda x, found=found: found, x)


def test_second_derivatives_are_not_checked_of_nothing(torch):
    with pytest.raises(ValueError, match="at least one input tensor to require gradient"):
        torch.autograd.gradgradcheck(lambda x: x**3, torch.ones(2, dtype=torch.float64))


@pytest.mark.parametrize("fast", [False, True])
def test_backward_is_checked_before_forward_mode(torch, fast):
    methods = {
        "forward": staticmethod(lambda ctx, x: x * 2),
        "backward": staticmethod(lambda ctx, g: g * 3),
        "jvp": staticmethod(lambda ctx, t: t * 5),
    }
    wrong = type("Wrong", (torch.autograd.Function,), methods)
    x = torch.ones(2, dtype=torch.float64, requires_grad=True)
    with pytest.raises(Exception, match="^Jacobian mismatch for output 0 with respect to input 0"):
        torch.autograd.gradcheck(wrong.apply, (x,), check_forward_ad=True, fast_mode=fast)
    with pytest.raises(Exception, match="^Jacobian computed with forward mode mismatch"):
        torch.autograd.gradcheck(wrong.apply, (x,), check_forward_ad=True, check_backward_ad=False, fast_mode=fast)


@pytest.mark.parametrize("fast", [False, True])
def test_shapes_of_outputs_must_not_depend_on_values(torch, fast):
    x = torch.ones(3, dtype=torch.float64, requires_grad=True)
    for function in (lambda t: t * 2 if bool((t == 1).all()) else t[:2] * 2, lambda t: t[: 2 + int(t.sum() >= 3)]):
        with pytest.raises((RuntimeError, AssertionError), match="size|shape"):
            torch.autograd.gradcheck(function, (x,), fast_mode=fast)
