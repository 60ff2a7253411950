"""gradcheck and gradgradcheck: what they find, what they let pass, and what they say."""

import pytest


@pytest.fixture
def check(torch):
    return torch.autograd.gradcheck


@pytest.fixture
def x(torch):
    return torch.tensor([0.5, -1.5, 2.0], dtype=torch.float64, requires_grad=True)


def function(torch, backward, forward=lambda x: x**2, jvp=None):
    """An operator with this backward, of the value and the gradient."""

    class Fun(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            ctx.save_for_forward(x)
            return forward(x)

        @staticmethod
        def backward(ctx, grad):
            return backward(ctx.saved_tensors[0], grad)

    if jvp is not None:
        Fun.jvp = staticmethod(lambda ctx, t: jvp(ctx.saved_tensors[0], t))
    return Fun.apply


FAST = pytest.mark.parametrize("fast_mode", [False, True], ids=["slow", "fast"])


@FAST
def test_right_derivatives_pass(torch, check, x, fast_mode):
    y = torch.tensor([[1.0], [2.0]], dtype=torch.float64, requires_grad=True)
    assert check(lambda a, b: (a * b, a.sum() - b.exp()), (x, y), fast_mode=fast_mode, check_forward_ad=True)
    assert check(torch.sin, x, fast_mode=fast_mode)
    assert torch.autograd.gradgradcheck(lambda a, b: (a * b).tanh(), (x, y), fast_mode=fast_mode)


@FAST
def test_a_wrong_derivative_is_found(torch, check, x, fast_mode):
    wrong = function(torch, lambda x, g: g * x)
    with pytest.raises(RuntimeError, match="mismatch for output 0 with respect to input 0"):
        check(wrong, x, fast_mode=fast_mode)
    assert check(wrong, x, fast_mode=fast_mode, raise_exception=False) is False


@FAST
def test_a_wrong_tangent_is_found_in_forward_mode_only(torch, check, x, fast_mode):
    wrong = function(torch, lambda x, g: g * 2 * x, jvp=lambda x, t: x * t)
    assert check(wrong, x, fast_mode=fast_mode)
    with pytest.raises(RuntimeError, match="computed with forward mode mismatch for output 0 with respect to input 0"):
        check(wrong, x, fast_mode=fast_mode, check_forward_ad=True, check_backward_ad=False)


def test_a_wrong_second_derivative_is_found_by_gradgradcheck(torch, check, x):
    wrong = function(torch, lambda x, g: g * 2 * x.detach())
    assert check(wrong, x)
    with pytest.raises(RuntimeError, match="mismatch for output 0 with respect to input"):
        torch.autograd.gradgradcheck(wrong, x)
    assert torch.autograd.gradgradcheck(wrong, x, raise_exception=False) is False


def test_the_message_shows_both_jacobians(torch, check, x):
    with pytest.raises(RuntimeError) as caught:
        check(function(torch, lambda x, g: g * x), x)
    text = str(caught.value)
    assert "numerical:" in text and "analytical:" in text
    assert text.index("numerical:") < text.index("analytical:")


def test_fast_mode_shows_the_jacobians_of_slow_mode_too(torch, check, x):
    with pytest.raises(RuntimeError) as caught:
        check(function(torch, lambda x, g: g * x), x, fast_mode=True)
    assert "fast mode" in str(caught.value) and "slow mode" in str(caught.value)


def test_the_output_and_the_input_are_named(torch, check, x):
    y = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True)
    wrong = function(torch, lambda x, g: g * x)
    with pytest.raises(RuntimeError, match="mismatch for output 1 with respect to input 1"):
        check(lambda a, b: (a * b, a + wrong(b)), (x, y))


def test_complex_functions(torch, check):
    z = torch.tensor([1.0 + 2.0j, -0.5j], dtype=torch.complex128, requires_grad=True)
    for fun in (lambda t: t * t, lambda t: t.abs(), lambda t: t.conj() * 2j, lambda t: torch.view_as_real(t)):
        assert check(fun, z, check_forward_ad=True)
        assert check(fun, z, fast_mode=True)
    with pytest.raises(RuntimeError, match="the imaginary part of complex"):
        check(function(torch, lambda z, g: g.real.to(g.dtype), forward=lambda z: z.clone()), z)
    with pytest.raises(RuntimeError, match="complex"):
        check(function(torch, lambda z, g: g * 2 * z, forward=lambda z: z * z), z)


def test_nothing_to_check_is_an_error(torch, check, x):
    with pytest.raises(ValueError, match="at least one input tensor to require gradient"):
        check(torch.sin, x.detach())
    with pytest.raises(ValueError, match="at least one input tensor to require gradient"):
        check(torch.sin, x.detach(), raise_exception=False)
    with pytest.raises(AssertionError, match="Expected at least one of check_forward_ad or check_backward_ad"):
        check(torch.sin, x, check_backward_ad=False)
    with pytest.raises(AssertionError, match="check_batched_grad=True requires check_backward_ad"):
        check(torch.sin, x, check_forward_ad=True, check_backward_ad=False, check_batched_grad=True)
    with pytest.raises(AssertionError, match="check_batched_forward_grad=True requires check_forward_ad"):
        check(torch.sin, x, check_batched_forward_grad=True)


def test_single_precision_gets_a_warning(torch, check):
    single = torch.tensor([1.0], requires_grad=True)
    with pytest.warns(UserWarning, match="not a double precision floating point"):
        check(lambda t: t * 2, single, atol=0.1, rtol=0.1, eps=1e-2)


def test_overlapping_memory_is_refused(torch, check):
    wide = torch.ones(1, dtype=torch.float64, requires_grad=True).expand(3).detach().requires_grad_()
    with pytest.raises(RuntimeError, match="dimension with stride 0"):
        check(lambda t: t * 2, wide)


def test_a_constant_function_has_a_zero_derivative(torch, check, x):
    assert check(lambda t: torch.ones(2, dtype=torch.float64), x)
    assert check(lambda t: t.detach() * 0, x)
    with pytest.raises(RuntimeError, match="expected to be zero"):
        check(lambda t: t.detach() ** 2, x)


def test_a_backward_that_differs_from_run_to_run_is_found(torch, check, x):
    runs = []

    def shaky(x, g):
        runs.append(1)
        return g * 2 * x + 1e-7 * (len(runs) % 2)

    with pytest.raises(RuntimeError, match="not reentrant"):
        check(function(torch, shaky), x)


def test_differences_between_runs_may_be_tolerated(torch, check, x):
    runs = []

    def shaky(x, g):
        runs.append(1)
        return g * (2 * x + 1e-7 * (len(runs) % 2))

    assert check(function(torch, shaky), x, nondet_tol=1e-5)


def test_a_backward_that_forgets_the_incoming_gradient_is_found(torch, check):
    one = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    with pytest.raises(RuntimeError, match="backward not multiplied by grad_output|mismatch|not reentrant"):
        check(function(torch, lambda x, g: 2 * x), one)


def test_undefined_gradients_must_be_handled(torch, check, x):
    class Fussy(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            if grad is None:
                raise RuntimeError("where is it?")
            return grad * 2

    with pytest.raises(RuntimeError, match="Expected backward function to handle undefined output grads"):
        check(Fussy.apply, x)
    assert check(Fussy.apply, x, check_undefined_grad=False)


def test_dtypes_of_gradients(torch, check):
    class Half(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.double()

        @staticmethod
        def backward(ctx, g):
            return g

    x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    assert check(Half.apply, x, check_grad_dtypes=True)


def test_batched_gradients(torch, check, x):
    assert check(torch.sin, x, check_batched_grad=True)
    assert check(torch.sin, x, check_batched_forward_grad=True, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(torch.sin, x, check_batched_grad=True)


@FAST
def test_second_derivatives_by_forward_over_reverse(torch, x, fast_mode):
    twice = torch.autograd.gradgradcheck
    assert twice(
        torch.sin, x, check_fwd_over_rev=True, check_rev_over_rev=False, check_undefined_grad=False, fast_mode=fast_mode
    )
    assert twice(torch.sin, x, check_fwd_over_rev=True, fast_mode=fast_mode)
    with pytest.raises(AssertionError, match="Expected at least one of check_fwd_over_rev or check_rev_over_rev"):
        twice(torch.sin, x, check_rev_over_rev=False)
    with pytest.raises(AssertionError, match="check_undefined_grad=True requires check_rev_over_rev"):
        twice(torch.sin, x, check_fwd_over_rev=True, check_rev_over_rev=False)


def test_grad_outputs_may_be_given(torch, x):
    v = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(torch.sin, x, v)
    assert torch.autograd.gradgradcheck(lambda t: (t.sin(), t**2), (x,), (v, v.detach().clone().requires_grad_()))
    assert torch.autograd.gradgradcheck(torch.sin, x, gen_non_contig_grad_outputs=True)


def test_inputs_and_outputs_of_all_sorts(torch, check):
    scalar = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    empty = torch.zeros(0, 3, dtype=torch.float64, requires_grad=True)
    strided = torch.arange(6.0, dtype=torch.float64).view(2, 3).t().requires_grad_()
    assert check(lambda t: t**3, scalar)
    assert check(lambda t: t.sum(0), empty)
    assert check(lambda t: t @ t.t(), strided)
    assert check(lambda t, n, flag: t * n if flag else t, (scalar, 3, True))
    assert check(lambda t: (t * 2, torch.tensor([1, 2])), scalar)
    assert check(lambda t: [t * 2, t * 3], scalar)
    assert check(lambda t: t.view(3, 2), torch.ones(2, 3, dtype=torch.float64, requires_grad=True))


def test_the_inputs_are_left_as_they_were(torch, check, x):
    before = x.tolist()
    check(torch.sin, x)
    assert x.tolist() == before and x.grad is None


def test_the_error_class_is_where_pytorch_has_it(torch):
    from importlib import import_module

    module = import_module(f"{torch.__name__}.autograd.gradcheck")
    assert issubclass(module.GradcheckError, RuntimeError)


def test_the_entry_that_differs_most_is_named(gradloom):
    x = gradloom.tensor([0.5, -1.5, 2.0], dtype=gradloom.float64, requires_grad=True)

    def backward(x, g):
        found = g * 2 * x
        return found + gradloom.tensor([0.0, 1.0, 0.0]) * g

    for fast in (False, True):
        with pytest.raises(
            RuntimeError,
            match=r"derivative of output 0\[1\] with respect to input 0\[1\]: "
            r"-[23]\.[09].* expected, -2\.0 found",
        ):
            gradloom.autograd.gradcheck(function(gradloom, backward), x, fast_mode=fast)


def test_a_missing_tangent_must_count_as_zero(gradloom):
    class Product(gradloom.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            ctx.save_for_forward(x, y)
            ctx.set_materialize_grads(False)
            return x * y

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            return (None, None) if g is None else (g * y, g * x)

        @staticmethod
        def jvp(ctx, x_t, y_t):
            x, y = ctx.saved_tensors
            left = x + y if x_t is None else x_t * y
            return left if y_t is None else left + y_t * x

    x = gradloom.tensor([1.0, 2.0], dtype=gradloom.float64, requires_grad=True)
    y = gradloom.tensor([3.0, 4.0], dtype=gradloom.float64, requires_grad=True)
    with pytest.raises(RuntimeError, match="Mismatch in tangent values for output with index: 0"):
        gradloom.autograd.gradcheck(Product.apply, (x, y), check_forward_ad=True, check_backward_ad=False)
