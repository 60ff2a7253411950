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
    assert same(torch, x ** 3, x.float() ** 3)
    x = samples(torch, "bfloat16", 0.3, 3)
    assert same(torch, x ** 3, (x * x).float() * x.float())


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
    found, = torch.autograd.grad(getattr(x, name)(), x, g)
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
