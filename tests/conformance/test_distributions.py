"""Every distribution against PyTorch: the same draws for a seed, values, gradients and shapes."""

from __future__ import annotations

from functools import partial

import pytest

torch = pytest.importorskip("torch")

import numpy as np  # noqa: E402

import gradloom  # noqa: E402
from tests.conformance.distribution_cases import CASES  # noqa: E402
from tests.releases import pytorch_before  # noqa: E402

DTYPES = ("float32", "float64")
# Of the largest value in a result: rounding errors of the special functions and their sums.
TOLERANCE = {"float32": 3e-5, "float64": 1e-9}
MOMENTS = ("mean", "mode", "variance", "stddev")
# PyTorch's polynomials for the modified Bessel functions of VonMises have seven digits, and since 2.15 a coefficient of
# Multinomial's entropy.
SEVEN_DIGITS = ("VonMises",) if pytorch_before("2.15") else ("VonMises", "Multinomial")
# Near 1/2 terms of the variance cancel: in float32 neither library has more than two digits of its gradient.
CANCELS = ("ContinuousBernoulli",)

# What fails or is NaN in PyTorch, by mistakes there. docs/distributions.md names them.
DEVIATIONS = {
    "Kumaraswamy": ("mode",),
    "GeneralizedPareto": ("log_prob", "cdf", "entropy", "icdf", "rsample", "sample", "expand.log_prob"),
    "Multinomial": ("expand.entropy",),
}


def deviates(where, theirs):
    """Whether PyTorch's result is one of its mistakes: an error, or NaN everywhere."""
    name, _, what = where.partition(".")
    if not what.startswith(DEVIATIONS.get(name.split("-")[0], ())) or ".mean" in where:
        return False
    return isinstance(theirs, str) or bool(theirs.isnan().all())


class Parameters:
    """Makes the same leaf tensors in a library, one after the other."""

    def __init__(self, library, dtype):
        self.library, self.dtype = library, getattr(library, dtype)
        self.numbers, self.made = np.random.default_rng(7), []

    def __call__(self, *shape, low, high):
        values = self.numbers.uniform(low, high, shape)
        leaf = self.library.tensor(values.tolist(), dtype=self.dtype, requires_grad=True)
        self.made.append(leaf)
        return leaf


def attempt(function):
    """The result of a call, or the kind and first words of its error."""
    try:
        return function()
    except (NotImplementedError, ValueError, RuntimeError, AttributeError) as error:
        return f"{type(error).__name__}: {error}".replace("gradloom.", "torch.").split("\n")[0]


def array(tensor):
    return np.asarray(tensor.detach().tolist(), np.float64).reshape(tuple(tensor.shape))


def same(ours, theirs, tolerance, where):
    if isinstance(theirs, str) or isinstance(ours, str):
        assert ours == theirs, where
        return
    assert tuple(ours.shape) == tuple(theirs.shape), where
    assert str(ours.dtype).split(".")[1] == str(theirs.dtype).split(".")[1], where
    left, right = array(ours), array(theirs)
    finite = right[np.isfinite(right)]
    scale = max(1.0, float(np.abs(finite).max()) if finite.size else 1.0)
    np.testing.assert_allclose(left, right, rtol=10 * tolerance, atol=tolerance * scale, err_msg=where)


def gradients(library, parameters, result):
    """Gradients of a weighted sum of a result with respect to all parameters, 0 where there is none."""
    if isinstance(result, str) or not result.requires_grad:
        return []
    weights = library.linspace(0.5, 1.5, max(result.numel(), 1), dtype=result.dtype)[: result.numel()]
    total = (result.reshape(-1) * weights).sum()
    found = attempt(lambda: library.autograd.grad(total, parameters, allow_unused=True, retain_graph=True))
    if isinstance(found, str):
        return [found]
    return [library.zeros_like(p) if g is None else g for p, g in zip(parameters, found, strict=True)]


def both(name, dtype):
    made = []
    for library in (gradloom, torch):
        parameters = Parameters(library, dtype)
        made.append((library, CASES[name](library, parameters), parameters.made))
    return made


def compare(sides, compute, tolerance, where, with_gradients=True):
    """Compare the results of `compute(library, distribution)` and their gradients."""
    results = [attempt(partial(compute, library, distribution)) for library, distribution, _ in sides]
    if deviates(where, results[1]):
        assert not isinstance(results[0], str), where
        return results
    same(*results, tolerance, where)
    if with_gradients:
        pairs = [gradients(library, made, result) for (library, _, made), result in zip(sides, results, strict=True)]
        for number, (ours, theirs) in enumerate(zip(*pairs, strict=True)):
            same(ours, theirs, 10 * tolerance, f"{where}: gradient of parameter {number}")
    return results


def limit(name, dtype):
    if dtype == "float32" and name.startswith(CANCELS):
        return 10 * TOLERANCE[dtype]
    return max(TOLERANCE[dtype], 1e-6 if name.startswith(SEVEN_DIGITS) else 0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CASES)
def test_draws_and_their_gradients(name, dtype):
    sides = both(name, dtype)
    for shape in ((), (2,), (3, 2), (0,)):
        for method in ("sample", "rsample"):

            def draw(library, distribution, method=method, shape=shape):
                library.manual_seed(11)
                return getattr(distribution, method)(shape)

            compare(sides, draw, limit(name, dtype), f"{name}.{method}({shape})")
            assert np.array_equal(gradloom.get_rng_state().numpy(), torch.get_rng_state().numpy()), (name, method)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CASES)
def test_densities_probabilities_and_moments(name, dtype):
    sides = both(name, dtype)
    theirs = sides[1][1]
    torch.manual_seed(3)
    value = theirs.sample((2,))
    level = torch.rand(2, *theirs.batch_shape, dtype=getattr(torch, dtype))

    def given(library, tensor):
        return library.tensor(tensor.tolist(), dtype=getattr(library, str(tensor.dtype).split(".")[1]))

    tolerance = limit(name, dtype)
    for method, argument in (("log_prob", value), ("cdf", value), ("icdf", level)):
        compare(
            sides,
            lambda library, d, method=method, argument=argument: getattr(d, method)(given(library, argument)),
            tolerance,
            f"{name}.{method}",
        )
    for moment in MOMENTS:
        compare(sides, lambda library, d, moment=moment: getattr(d, moment), tolerance, f"{name}.{moment}")
    compare(sides, lambda library, d: d.entropy(), tolerance, f"{name}.entropy")
    for expand in (True, False):
        compare(
            sides, lambda library, d, expand=expand: d.enumerate_support(expand), tolerance, f"{name}.enumerate_support"
        )


@pytest.mark.parametrize("name", CASES)
def test_shapes_flags_and_representations(name):
    (_, ours, _), (_, theirs, _) = both(name, "float64")

    def described(d):
        support = attempt(lambda: d.support)
        return (
            type(d).__name__,
            type(d).__module__.replace("gradloom", "torch"),
            tuple(d.batch_shape),
            tuple(d.event_shape),
            d.has_rsample,
            d.has_enumerate_support,
            repr(d).replace("gradloom", "torch"),
            repr(support).split("(")[0],
            attempt(lambda: (support.event_dim, support.is_discrete)),
            sorted(type(d).arg_constraints) if isinstance(type(d).arg_constraints, dict) else None,
        )

    assert described(ours) == described(theirs)


@pytest.mark.parametrize("name", CASES)
def test_expansion(name):
    sides = both(name, "float64")
    (_, ours, _), (_, theirs, _) = sides
    shape = (2, 3, *theirs.batch_shape)
    expanded = [(library, d.expand(shape), made) for library, d, made in sides]
    assert tuple(expanded[0][1].batch_shape) == tuple(expanded[1][1].batch_shape) == shape
    assert repr(expanded[0][1]) == repr(expanded[1][1])
    tolerance = limit(name, "float64")

    def draw(library, d):
        library.manual_seed(5)
        return d.sample((2,))

    _, value = compare(expanded, draw, tolerance, f"{name}.expand.sample", with_gradients=False)
    compare(
        expanded,
        lambda library, d: d.log_prob(library.tensor(value.tolist(), dtype=getattr(library, str(value.dtype)[6:]))),
        tolerance,
        f"{name}.expand.log_prob",
    )
    compare(expanded, lambda library, d: d.mean, tolerance, f"{name}.expand.mean")
    compare(expanded, lambda library, d: d.entropy(), tolerance, f"{name}.expand.entropy")
