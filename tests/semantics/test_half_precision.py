"""Where results of float16 and bfloat16 are rounded: most operators compute in float32 and round once at the end, some
round a number first, some each of their steps.

Inputs have 64 elements, since PyTorch's vectors and what is left over behind them may round differently.
"""

from __future__ import annotations

import pytest

HALVES = ("float16", "bfloat16")
NUMBERS = (0.1, 0.7, 1 / 3, 0.001, -0.3)


def samples(torch, half, low=-6.0, high=6.0, seed=0):
    """64 numbers between two bounds, of a half type."""
    generator = torch.Generator().manual_seed(seed)
    return (torch.rand(64, generator=generator) * (high - low) + low).to(getattr(torch, half))


def number(torch, value, x):
    """A number as float32, after it was rounded to the dtype of `x`."""
    return torch.tensor(value).to(x.dtype).float()


def same(torch, found, expected):
    """Whether a result has the expected numbers, rounded to its dtype once."""
    return bool(((found == expected.to(found.dtype)) | found.isnan() & expected.isnan()).all())


KEEPS_DIGITS = {
    "mul": lambda torch, x, k: x * k,
    "mul, the number first": lambda torch, x, k: k * x,
    "div": lambda torch, x, k: x / k,
    "div, rounding_mode=None": lambda torch, x, k: torch.div(x, k, rounding_mode=None),
    "div, rounding_mode='trunc'": lambda torch, x, k: torch.div(x, k, rounding_mode="trunc"),
    "div, rounding_mode='floor'": lambda torch, x, k: torch.div(x, k, rounding_mode="floor"),
    "floor_divide": lambda torch, x, k: x // k,
    "a 0-dim tensor": lambda torch, x, k: x * torch.tensor(k),
    "in place": lambda torch, x, k: x.clone().mul_(k),
    "div_, rounding_mode='floor'": lambda torch, x, k: x.clone().div_(k, rounding_mode="floor"),
}


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("name", KEEPS_DIGITS)
def test_a_factor_or_divisor_that_is_a_number_is_not_rounded_first(torch, name, half):
    x, operation = samples(torch, half), KEEPS_DIGITS[name]
    for k in NUMBERS:
        assert same(torch, operation(torch, x, k), operation(torch, x.float(), k)), k


ROUNDS_NUMBER = {
    "add": lambda torch, x, k: x + k,
    "sub": lambda torch, x, k: x - k,
    "rsub": lambda torch, x, k: k - x,
    "remainder": lambda torch, x, k: x % k,
    "fmod": lambda torch, x, k: torch.fmod(x, k),
    "pow": lambda torch, x, k: x.abs() ** k,
    "pow of a number": lambda torch, x, k: abs(k) ** x,
    "clamp": lambda torch, x, k: x.clamp(min=k),
}


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("name", ROUNDS_NUMBER)
def test_other_operators_round_a_number_to_half_precision_first(torch, name, half):
    x, operation = samples(torch, half), ROUNDS_NUMBER[name]
    for k in NUMBERS:
        rounded = number(torch, k, x).item()
        assert same(torch, operation(torch, x, k), operation(torch, x.float(), rounded)), k


@pytest.mark.parametrize("half", HALVES)
def test_alpha_is_rounded_to_half_precision_and_its_product_is_not(torch, half):
    x, y = samples(torch, half), samples(torch, half, seed=1)
    for k in NUMBERS:
        product = number(torch, k, x) * y.float()
        assert same(torch, torch.add(x, y, alpha=k), x.float() + product)
        assert same(torch, x.clone().add_(y, alpha=k), x.float() + product)
        assert same(torch, torch.sub(x, y, alpha=k), x.float() - product)
        assert same(torch, x.clone().sub_(y, alpha=k), x.float() - product)
        assert same(torch, torch.rsub(y, x, alpha=k), x.float() - product)
        rounded = number(torch, 0.7, x)
        assert same(torch, torch.add(x, 0.7, alpha=k), x.float() + number(torch, k, x) * rounded)


@pytest.mark.parametrize("half", HALVES)
def test_a_quotient_of_tensors_is_rounded_before_its_fraction_is_dropped(torch, half):
    x, y = samples(torch, half, -300, 300), samples(torch, half, 0.3, 3)
    quotient = (x.float() / y.float()).to(x.dtype)
    assert same(torch, torch.div(x, y, rounding_mode="trunc"), quotient.float().trunc())
    single = y[0]
    assert same(torch, torch.div(x, single, rounding_mode="trunc"), (x.float() / single.float()).trunc())


@pytest.mark.parametrize("half", HALVES)
def test_a_reciprocal_root_is_rounded_once(torch, half):
    x = samples(torch, half, 0.1, 9)
    assert same(torch, x.rsqrt(), 1 / x.float().sqrt())


def test_cubes_are_rounded_once_in_float16_and_twice_in_bfloat16(torch):
    x = samples(torch, "float16", 0.3, 3)
    assert same(torch, x**3, x.float() ** 3)
    x = samples(torch, "bfloat16", 0.3, 3)
    assert same(torch, x**3, (x * x).float() * x.float())


FORMULAS = {
    "exp2": lambda torch, x, g: g * x.exp2() * 0.6931471805599453,
    "log2": lambda torch, x, g: g / (x * 0.6931471805599453),
    "log10": lambda torch, x, g: g / (x * 2.302585092994046),
}


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("name", FORMULAS)
def test_constants_in_derivatives_keep_their_digits(torch, name, half):
    x = samples(torch, half, 0.3, 3).requires_grad_()
    g = samples(torch, half, seed=1)
    (found,) = torch.autograd.grad(getattr(x, name)(), x, g)
    assert torch.equal(found, FORMULAS[name](torch, x.detach(), g))


def steps_of_mse(torch, x, y):
    return (x - y) * (x - y)


def steps_of_bce(torch, x, y):
    return (y - 1) * torch.log1p(-x) - y * torch.log(x)


def steps_of_bce_with_logits(torch, x, y):
    return (1 - y) * x - torch.nn.functional.logsigmoid(x.float()).to(x.dtype)


def steps_of_soft_margin(torch, x, y):
    return torch.log1p(torch.exp(-(x * y)))


STEPS = {
    "mse_loss": steps_of_mse,
    "binary_cross_entropy": steps_of_bce,
    "binary_cross_entropy_with_logits": steps_of_bce_with_logits,
    "soft_margin_loss": steps_of_soft_margin,
}


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("name", STEPS)
def test_these_losses_round_each_step_and_average_in_float32(torch, name, half):
    x, y = samples(torch, half, 0.02, 0.98), samples(torch, half, 0.02, 0.98, seed=1)
    loss = getattr(torch.nn.functional, name)
    expected = STEPS[name](torch, x, y)
    assert torch.equal(loss(x, y, reduction="none"), expected)
    assert same(torch, loss(x, y, reduction="sum"), expected.float().sum())
    assert same(torch, loss(x, y), expected.float().mean())


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("bound", [0.3, 1.0, 2.5])
def test_smooth_l1_rounds_each_step_in_float16_and_huber_in_bfloat16(torch, bound, half):
    x, y = samples(torch, half, -3, 3), samples(torch, half, -3, 3, seed=1)
    limit = number(torch, bound, x).to(x.dtype)
    d = (x - y).abs()
    functions = torch.nn.functional
    smooth = functions.smooth_l1_loss(x, y, reduction="none", beta=bound)
    huber = functions.huber_loss(x, y, reduction="none", delta=bound)
    if half == "float16":
        assert torch.equal(smooth, torch.where(d < limit, d * 0.5 * d / limit, d - limit * 0.5))
        assert same(torch, huber, functions.huber_loss(x.float(), y.float(), reduction="none", delta=bound))
    else:
        assert torch.equal(huber, torch.where(d < limit, d * 0.5 * d, limit * (d - limit * 0.5)))
        assert same(torch, smooth, functions.smooth_l1_loss(x.float(), y.float(), reduction="none", beta=bound))


@pytest.mark.parametrize("half", HALVES)
def test_gradients_of_losses_round_where_their_kernels_do(torch, half):
    x, y = samples(torch, half, -3, 3).requires_grad_(), samples(torch, half, -3, 3, seed=1)
    g = samples(torch, half, seed=2)
    functions, limit = torch.nn.functional, number(torch, 0.3, x).to(x.dtype)
    d = (x - y).detach()

    def gradient(loss):
        return torch.autograd.grad(loss, x, g)[0]

    assert torch.equal(gradient(functions.mse_loss(x, y, reduction="none")), d * 2 * g)
    found = gradient(functions.huber_loss(x, y, reduction="none", delta=0.3))
    assert torch.equal(found, torch.where(d.abs() <= limit, d * g, d.sign() * limit * g))
    found = gradient(functions.smooth_l1_loss(x, y, reduction="none", beta=0.3))
    slope = ((x.detach().float() - y.float()) / 0.3).clamp(-1, 1)
    assert same(torch, found, slope * g.float())


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.since("2.15")
def test_softshrink_rounds_its_bound(torch, half):
    x = torch.tensor([0.3, 0.30078125] * 16, dtype=getattr(torch, half))
    bound = x[0].float().item()
    assert same(torch, torch.nn.functional.softshrink(x, 0.3), (x.float() - bound).clamp(min=0))


@pytest.mark.parametrize("half", HALVES)
def test_shrinking_rounds_its_bound_for_hardshrink_and_not_for_threshold(torch, half):
    x = torch.tensor([0.3] * 32, dtype=getattr(torch, half))
    functions = torch.nn.functional
    above = x.float()[0].item() > 0.3
    assert above  # in both half types
    assert functions.hardshrink(x, 0.3).eq(0).all()
    assert torch.equal(functions.threshold(x, 0.3, -1.0), x)


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.since("2.15")
def test_evenly_spaced_numbers_round_once(torch, half):
    kind = getattr(torch, half)
    low, high = [torch.tensor(value, dtype=kind).item() for value in (0.1, 4.5)]
    assert torch.equal(torch.linspace(0.1, 4.5, 100, dtype=kind), torch.linspace(low, high, 100).to(kind))


@pytest.mark.parametrize("half", HALVES)
def test_sums_of_products_round_where_their_kernels_do(torch, half):
    x, y, z = (samples(torch, half, -3, 3, seed)[:32] for seed in range(3))
    matrix = torch.stack([x, y, z, x * y])
    beta, alpha = number(torch, 0.1, x).to(x.dtype), number(torch, 0.3, x).to(x.dtype)
    found = torch.addr(matrix, x[:4], y, beta=0.1, alpha=0.3)
    assert torch.equal(found, matrix * beta + torch.outer(x[:4] * alpha, y))
    found = torch.addmv(x[:4], matrix, z, beta=0.1, alpha=0.3)
    exact = (matrix.double() @ z.double()).float()
    assert same(torch, found, (x[:4] * beta).float() + exact * alpha.float())
    a, b = samples(torch, half)[:60].reshape(-1, 3), samples(torch, half, seed=1)[:60].reshape(-1, 3)
    products = torch.stack(
        [a[:, (i + 1) % 3] * b[:, (i + 2) % 3] - a[:, (i + 2) % 3] * b[:, (i + 1) % 3] for i in range(3)], 1
    )
    assert torch.equal(torch.linalg.cross(a, b), products)


@pytest.mark.parametrize("half", HALVES)
def test_logarithms_of_softmax_round_the_sum_only_along_the_last_dimension(torch, half):
    x = samples(torch, half).reshape(2, 32)
    terms = (x.float() - x.float().amax(1, True)).exp().sum(1, True)
    logarithm = terms.to(x.dtype).float().log().to(x.dtype).float()
    assert same(torch, torch.log_softmax(x, 1), x.float() - x.float().amax(1, True) - logarithm)
    x = x.t().contiguous()
    assert same(torch, torch.log_softmax(x, 0), torch.log_softmax(x.float(), 0))


@pytest.mark.parametrize("half", HALVES)
def test_gradients_that_round_each_step(torch, half):
    x = samples(torch, half, 0.05, 0.95).requires_grad_()
    g = samples(torch, half, seed=1)
    plain = x.detach()

    def gradient(result, cotangent=g):
        return torch.autograd.grad(result, x, cotangent)[0]

    assert torch.equal(gradient(x.atanh()), g / (1 - plain * plain))
    other = samples(torch, half, seed=2)
    square = (plain * plain + other * other).reciprocal()
    rounding = 8 * torch.finfo(x.dtype).eps  # gradloom's steps never leave the range of the dtype
    torch.testing.assert_close(gradient(torch.atan2(x, other)), g * other * square, rtol=rounding, atol=0)
    assert torch.equal(gradient(torch.hypot(x, other)), g * plain / torch.hypot(plain, other))
    result = plain.sigmoid()
    if half == "float16":
        assert torch.equal(gradient(x.sigmoid()), g * (1 - result) * result)
    else:
        assert same(torch, gradient(x.sigmoid()), g.float() * (1 - result.float()) * result.float())


def test_one_element_of_half_precision_is_filled_with_infinity_and_several_are_refused(torch):
    half = torch.float16
    assert torch.full((1,), 1e30, dtype=half).isinf().all() and torch.zeros(1, dtype=half).fill_(-1e30).isinf().all()
    for refused in (
        lambda: torch.full((2,), 1e30, dtype=half),
        lambda: torch.full((2,), 65505.0, dtype=half),
        lambda: torch.zeros(1, dtype=half).masked_fill(torch.tensor([True]), 65505.0),
        lambda: torch.zeros(1, dtype=half).clamp(min=1e30),
    ):
        with pytest.raises(RuntimeError, match="value cannot be converted to type c10::Half without overflow"):
            refused()
    assert torch.full((2,), float("inf"), dtype=half).isinf().all()


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64"])
def test_a_remainder_of_zero_has_the_sign_of_the_dividend(torch, kind):
    x = torch.tensor([-6.0, 6.0, -0.0, 0.0, -5.0], dtype=getattr(torch, kind))
    for divisor in (3.0, -3.0):
        found = x % divisor
        assert found[:4].eq(0).all() and found[:4].signbit().tolist() == [True, False, True, False]
        assert found[4].item() == (1.0 if divisor > 0 else -2.0)


@pytest.mark.since("2.15")
def test_integers_may_be_clamped_by_bounds_beyond_them_on_one_side(torch):
    x = torch.tensor([0, 200], dtype=torch.uint8)
    assert x.clamp(max=300).tolist() == x.clamp(min=-1).tolist() == x.clamp(-5, 256).tolist() == [0, 200]
    assert torch.clip(x.to(torch.int16), max=70_000).tolist() == [0, 200]
    for call in (lambda: x.clamp(min=300), lambda: x.clamp_max(-1), lambda: x.clone().clamp_(-1, -2)):
        with pytest.raises(
            RuntimeError, match=r"Clamp m(in|ax) value -?\d+ is outside the representable range of Byte"
        ):
            call()


def test_numbers_that_an_integer_dtype_cannot_hold_are_refused(torch):
    for value in (1e30, 300.0, float("inf"), float("nan"), 300, [300.0], [float("nan")]):
        with pytest.raises(RuntimeError, match="value cannot be converted to type int8 without overflow"):
            torch.tensor(value, dtype=torch.int8)
    with pytest.raises(RuntimeError, match="value cannot be converted to type float without overflow"):
        torch.zeros(1).clamp(max=1e300)


@pytest.mark.parametrize("half", HALVES)
def test_arrays_shorter_than_a_vector_round_each_step_of_scaled_sums_and_reciprocal_roots(torch, half):
    x, y = samples(torch, half)[:7], samples(torch, half, seed=1)[:7]
    for k in NUMBERS:
        factor = number(torch, k, x).to(x.dtype)
        assert torch.equal(torch.add(x, y, alpha=k), x + y * factor)
        assert torch.equal(x.clone().sub_(y, alpha=k), x - y * factor)
    x = samples(torch, half, 0.1, 9)[:7]
    assert torch.equal(x.rsqrt(), x.sqrt().reciprocal())


@pytest.mark.parametrize("half", HALVES)
def test_the_gradient_for_the_dividend_of_addcdiv_divides_a_rounded_number(torch, half):
    x = samples(torch, half).requires_grad_()
    y, g = samples(torch, half, 0.3, 3, 1), samples(torch, half, seed=2)
    (found,) = torch.autograd.grad(torch.addcdiv(y, x, y, value=0.7), x, g)
    assert torch.equal(found, g * (torch.full_like(y, 0.7) / y))


@pytest.mark.parametrize("half", HALVES)
def test_what_is_added_at_one_place_is_rounded_each_time(torch, half):
    x, values = torch.zeros(2, 3, dtype=getattr(torch, half)), samples(torch, half)[:30].reshape(10, 3)
    expected = torch.zeros(3, dtype=x.dtype)
    for row in values:
        expected = expected + row
    found = x.index_put((torch.tensor([1] * 10),), values, accumulate=True)
    assert torch.equal(found[1], expected) and found[0].eq(0).all()
    column = x[:, 0].clone().index_add(0, torch.tensor([1] * 10), values[:, 0].clone())
    assert torch.equal(column[1], expected[0])


@pytest.mark.parametrize("kind", ["float32", *HALVES])
def test_the_gradient_for_the_target_of_a_binary_cross_entropy_is_a_logit(torch, kind):
    loss = torch.nn.functional.binary_cross_entropy
    x, g = samples(torch, "float16", 0.02, 0.98).to(getattr(torch, kind)), samples(torch, "float16", seed=1)
    target = samples(torch, "float16", 0, 1, 2).to(x.dtype).requires_grad_()
    (found,) = torch.autograd.grad(loss(x, target, reduction="none"), target, g.to(x.dtype))
    assert torch.allclose(found, -g.to(x.dtype) * torch.logit(x), rtol=1e-5)
    edges = torch.tensor([0.0, 1.0], dtype=x.dtype)
    target = torch.tensor([0.5, 0.5], dtype=x.dtype, requires_grad=True)
    (found,) = torch.autograd.grad(loss(edges, target, reduction="sum"), target)
    assert found.tolist() == [float("inf"), float("-inf")]
