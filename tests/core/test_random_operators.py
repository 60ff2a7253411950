"""Random operators through the public API: numbers that PyTorch gives for the same seed, state, gradients."""

import pytest

import gradloom as gl

# What PyTorch 2.13 returns after manual_seed(0), each on its own.
GOLDEN = {
    "rand": [0.9700530018065531, 0.707819864399788, 0.45938294312745087],
    "randn": [0.5988394618034363, 1.586334228515625],
    "randint": [4, 9, 3, 0, 3, 9],
    "randperm": [4, 0, 5, 3, 2, 6, 1],
    "normal": [3.0819921493530273, 9.413142204284668],
    "uniform_": [-0.007486820220947266, 0.5364435911178589, -0.8230451345443726],
    "bernoulli": [1.0, 0.0, 1.0, 1.0, 1.0, 0.0, 1.0, 0.0],
    "exponential_": [3.508326292037964, 1.2303847074508667],
    "multinomial": [2, 1, 3],
    "poisson": [2.0, 6.0, 19.0],
    "dropout": [0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 2.0, 2.0],
    "linear": [-0.005293981172144413, 0.37932288646698, -0.5819807648658752, -0.5203874707221985],
}
CALLS = {
    "rand": lambda: gl.rand(3, dtype=gl.float64),
    "randn": lambda: gl.randn(2, 9)[:, 4],
    "randint": lambda: gl.randint(10, (6,)),
    "randperm": lambda: gl.randperm(7),
    "normal": lambda: gl.normal(gl.tensor([0.0, 10.0]), 2.0),
    "uniform_": lambda: gl.empty(3).uniform_(-1, 1),
    "bernoulli": lambda: gl.bernoulli(gl.full((8,), 0.5)),
    "exponential_": lambda: gl.empty(2).exponential_(),
    "multinomial": lambda: gl.multinomial(gl.tensor([1.0, 2.0, 3.0, 4.0]), 3),
    "poisson": lambda: gl.poisson(gl.tensor([1.0, 5.0, 20.0])),
    "dropout": lambda: gl.nn.functional.dropout(gl.ones(8), 0.5),
    "linear": lambda: gl.nn.Linear(2, 2).weight.detach().flatten(),
}


@pytest.mark.parametrize("name", CALLS)
def test_golden_numbers(name):
    gl.manual_seed(0)
    assert CALLS[name]().tolist() == GOLDEN[name]


def test_a_generator_of_ones_own_leaves_the_default_one_alone():
    own = gl.Generator().manual_seed(5)
    gl.manual_seed(5)
    expected = gl.rand(4)
    state = gl.get_rng_state()
    assert gl.rand(4, generator=own).tolist() == expected.tolist()
    assert gl.get_rng_state().tolist() == state.tolist()
    assert gl.rand(4, generator=own).tolist() == gl.rand(4).tolist()


def test_state_and_fork():
    gl.manual_seed(1)
    state = gl.get_rng_state()
    first = gl.rand(3).tolist()
    with gl.random.fork_rng():
        gl.rand(100)
    second = gl.rand(3).tolist()
    gl.set_rng_state(state)
    assert gl.rand(3).tolist() == first and gl.rand(3).tolist() == second
    assert gl.initial_seed() == 1


def test_fills_go_in_the_order_of_memory():
    gl.manual_seed(2)
    plain = gl.empty(2, 3).uniform_()
    gl.manual_seed(2)
    assert gl.empty(2, 3).t().uniform_().tolist() == plain.t().tolist()


def test_requires_grad_and_out():
    assert gl.rand(2, requires_grad=True).requires_grad
    out = gl.empty(3, dtype=gl.float64)
    assert gl.randn(3, out=out) is out and out.dtype is gl.float64


def test_gradients_of_what_is_drawn_are_zero():
    mean = gl.ones(3, requires_grad=True)
    std = gl.ones(3, requires_grad=True)
    gl.normal(mean, std).sum().backward()
    assert mean.grad.tolist() == std.grad.tolist() == [0, 0, 0]
    filled = (mean * 2).normal_()
    assert filled.grad_fn.name() == "NormalBackward0"
    mean.grad = None
    filled.sum().backward()
    assert mean.grad.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    "error, message, call",
    [
        (RuntimeError, "std >= 0.0", lambda: gl.empty(2).normal_(0, -1)),
        (RuntimeError, "from=2 > to=1", lambda: gl.empty(2).uniform_(2, 1)),
        (RuntimeError, "negative dimension", lambda: gl.rand(-1)),
        (RuntimeError, "2\\^24", lambda: gl.multinomial(gl.empty(1).expand(2**24 + 1), 1)),
        (RuntimeError, "dropout probability", lambda: gl.dropout(gl.ones(2), 1.5, True)),
        (TypeError, "Generator", lambda: gl.rand(2, generator=3)),
    ],
)
def test_errors(error, message, call):
    with pytest.raises(error, match=message):
        call()
