"""Every transform and constraint against PyTorch: values, inverses, Jacobians, shapes, gradients and errors."""

from __future__ import annotations

import re
from functools import partial

import pytest

torch = pytest.importorskip("torch")

import numpy as np  # noqa: E402

import gradloom  # noqa: E402


def _tensor(library, values):
    return library.tensor(values, dtype=library.float64)


# Name -> (transform of a library, shape of x, range of x)
TRANSFORMS = {
    "exp": (lambda t, d: d.ExpTransform(), (3, 2), (-2, 2)),
    "abs": (lambda t, d: d.AbsTransform(), (3,), (-2, 2)),
    "sigmoid": (lambda t, d: d.SigmoidTransform(), (3, 2), (-9, 9)),
    "sigmoid-far": (lambda t, d: d.SigmoidTransform(), (9,), (-90, 90)),
    "tanh": (lambda t, d: d.TanhTransform(), (3, 2), (-3, 3)),
    "softplus": (lambda t, d: d.SoftplusTransform(), (3, 2), (-3, 30)),
    "power": (lambda t, d: d.PowerTransform(_tensor(t, [2.0, -0.5])), (3, 2), (0.2, 3)),
    "power-number": (lambda t, d: d.PowerTransform(3), (3, 1), (0.2, 3)),
    "affine": (lambda t, d: d.AffineTransform(_tensor(t, [1.0, 2.0]), _tensor(t, [3.0, -0.5])), (3, 1), (-1, 1)),
    "affine-numbers": (lambda t, d: d.AffineTransform(1.5, -2), (3, 2), (-1, 1)),
    "affine-event": (lambda t, d: d.AffineTransform(0.5, _tensor(t, [3.0, -0.5]), event_dim=1), (3, 2), (-1, 1)),
    "affine-events": (lambda t, d: d.AffineTransform(0.5, 3.0, event_dim=2), (4, 3, 2), (-1, 1)),
    "softmax": (lambda t, d: d.SoftmaxTransform(), (3, 4), (-2, 2)),
    "sticks": (lambda t, d: d.StickBreakingTransform(), (3, 4), (-2, 2)),
    "correlations": (lambda t, d: d.CorrCholeskyTransform(), (2, 6), (-2, 2)),
    "correlations-one": (lambda t, d: d.CorrCholeskyTransform(), (1,), (-2, 2)),
    "cholesky": (lambda t, d: d.LowerCholeskyTransform(), (2, 3, 3), (-1, 1)),
    "positive-definite": (lambda t, d: d.PositiveDefiniteTransform(), (2, 3, 3), (-1, 1)),
    "reshape": (lambda t, d: d.ReshapeTransform((2, 3), (6,)), (4, 2, 3), (-1, 1)),
    "reshape-none": (lambda t, d: d.ReshapeTransform((), (1, 1)), (4,), (-1, 1)),
    "independent": (lambda t, d: d.IndependentTransform(d.ExpTransform(), 1), (3, 2), (-1, 1)),
    "compose": (lambda t, d: d.ComposeTransform([d.TanhTransform(), d.AffineTransform(1.0, 2.0)]), (3, 2), (-1, 1)),
    "compose-none": (lambda t, d: d.identity_transform, (3, 2), (-1, 1)),
    "compose-events": (
        lambda t, d: d.ComposeTransform([d.AffineTransform(0.5, 2.0), d.StickBreakingTransform(), d.ExpTransform()]),
        (2, 3),
        (-1, 1),
    ),
    "compose-reshape": (
        lambda t, d: d.ComposeTransform([d.ExpTransform(), d.ReshapeTransform((2, 3), (6,)), d.TanhTransform()]),
        (4, 2, 3),
        (-1, 1),
    ),
    "cat": (lambda t, d: d.CatTransform([d.ExpTransform(), d.TanhTransform()], 0, [1, 2]), (3, 2), (-1, 1)),
    "cat-last": (lambda t, d: d.CatTransform([d.ExpTransform(), d.TanhTransform()], -1), (3, 2), (-1, 1)),
    "cat-events": (
        lambda t, d: d.CatTransform([d.IndependentTransform(d.ExpTransform(), 1), d.TanhTransform()], 0, [1, 2]),
        (3, 2),
        (-1, 1),
    ),
    "stack": (lambda t, d: d.StackTransform([d.ExpTransform(), d.TanhTransform()], 1), (3, 2), (-1, 1)),
    "cdf": (lambda t, d: d.CumulativeDistributionTransform(d.Normal(_tensor(t, 0.5), 2.0)), (3, 2), (-1, 1)),
    "positive": (lambda t, d: d.biject_to(d.constraints.positive), (3,), (-1, 1)),
    "greater": (lambda t, d: d.biject_to(d.constraints.greater_than(2.0)), (3,), (-1, 1)),
    "less": (lambda t, d: d.transform_to(d.constraints.less_than(2.0)), (3,), (-1, 1)),
    "interval": (lambda t, d: d.biject_to(d.constraints.interval(-1.0, _tensor(t, [2.0, 3.0]))), (3, 2), (-1, 1)),
    "half-open": (lambda t, d: d.transform_to(d.constraints.half_open_interval(0, 3.0)), (3, 2), (-1, 1)),
    "simplex": (lambda t, d: d.transform_to(d.constraints.simplex), (3, 2), (-1, 1)),
    "lower-cholesky": (lambda t, d: d.transform_to(d.constraints.lower_cholesky), (2, 2), (-1, 1)),
    "cat-of": (
        lambda t, d: d.biject_to(d.constraints.cat([d.constraints.real, d.constraints.positive], 0, [2, 1])),
        (3, 2),
        (-1, 1),
    ),
    "stack-of": (
        lambda t, d: d.transform_to(d.constraints.stack([d.constraints.real, d.constraints.unit_interval])),
        (2, 2),
        (-1, 1),
    ),
}


def attempt(function, *args):
    try:
        return function(*args)
    except Exception as error:
        # Shapes are printed as tuples or as sizes.
        text = re.sub(r"torch\.Size\(\[(\d+)\]\)", r"(\1,)", f"{type(error).__name__}: {error}")
        return text.split("\n")[0].replace("gradloom", "torch")


def alike(ours, theirs):
    """Compare tensors by value, shape and dtype, and everything else by its text."""
    if isinstance(theirs, torch.Tensor) and isinstance(ours, gradloom.Tensor):
        assert tuple(ours.shape) == tuple(theirs.shape)
        assert str(ours.dtype) == str(theirs.dtype)
        np.testing.assert_allclose(ours.tolist(), theirs.tolist(), rtol=1e-9, atol=1e-12)
    elif isinstance(theirs, (tuple, torch.Size)) and not isinstance(ours, str):
        assert tuple(ours) == tuple(theirs)
    else:
        assert str(ours).replace("gradloom", "torch") == str(theirs)


@pytest.mark.parametrize("cache", [0, 1])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_values_inverses_jacobians_and_gradients(name, cache):
    make, shape, (low, high) = TRANSFORMS[name]
    numbers = np.random.default_rng(3).uniform(low, high, shape).tolist()
    found = []
    for library in (gradloom, torch):
        transform = attempt(lambda library=library: make(library, library.distributions).with_cache(cache))
        x = _tensor(library, numbers).requires_grad_()
        y = transform(x)
        results = [y, attempt(transform.inv, y), attempt(transform.inv, y.detach() * 1)]
        results.append(attempt(transform.log_abs_det_jacobian, x, y))
        results.append(attempt(transform.inv.log_abs_det_jacobian, y, x))
        if cache:
            results.append(transform.inv(y) is x)
        for result in list(results):
            if isinstance(result, library.Tensor) and result.requires_grad:
                weights = library.linspace(0.5, 1.5, result.numel(), dtype=result.dtype).reshape(result.shape)
                results += library.autograd.grad((result * weights).sum(), x, retain_graph=True)
        found.append(results)
    assert len(found[0]) == len(found[1])
    for ours, theirs in zip(*found, strict=True):
        alike(ours, theirs)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_attributes_and_shapes(name):
    make, shape, _ = TRANSFORMS[name]
    found = []
    for library in (gradloom, torch):
        d = library.distributions
        transform = make(library, d)
        found.append(
            [
                repr(transform),
                repr(transform.inv),
                transform.inv.inv is transform,
                transform.bijective,
                *(attempt(getattr, transform, field) for field in ("domain", "codomain", "sign", "event_dim")),
                *(attempt(getattr, transform.inv, field) for field in ("domain", "codomain", "sign", "bijective")),
                *(
                    attempt(lambda one: one.domain.event_dim, transform),
                    attempt(lambda one: one.codomain.event_dim, transform),
                ),
                *(
                    attempt(method, library.Size(one))
                    for method in (transform.forward_shape, transform.inverse_shape, transform.inv.forward_shape)
                    for one in (shape, (), (2,), (3,), (4, 4), (5, 2, 3))
                ),
                transform == make(library, d),
                transform.inv == make(library, d).inv,
                transform == d.ExpTransform(),
                attempt(transform.with_cache, 2),
                attempt(transform, _tensor(library, 0.5)),
            ]
        )
    for number, (ours, theirs) in enumerate(zip(*found, strict=True)):
        try:
            alike(ours, theirs)
        except AssertionError as error:
            raise AssertionError(f"{name}: field {number}: {ours} instead of {theirs}") from error


# Name -> (constraint, values of which some are outside)
CONSTRAINTS = {
    "boolean": (lambda t, c: c.boolean, [0.0, 1.0, 0.5, float("nan")]),
    "one_hot": (lambda t, c: c.one_hot, [[0.0, 1.0], [1.0, 1.0], [0.5, 0.5]]),
    "integer_interval": (lambda t, c: c.integer_interval(0, 3), [-1.0, 0.0, 3.0, 2.5, 4.0]),
    "nonnegative_integer": (lambda t, c: c.nonnegative_integer, [-1.0, 0.0, 0.5]),
    "positive_integer": (lambda t, c: c.positive_integer, [1.0, 0.0, 1.5]),
    "real": (lambda t, c: c.real, [1.0, float("inf"), float("nan")]),
    "real_vector": (lambda t, c: c.real_vector, [[1.0, 2.0], [1.0, float("nan")]]),
    "positive": (lambda t, c: c.positive, [1.0, 0.0, -1.0]),
    "nonnegative": (lambda t, c: c.nonnegative, [1.0, 0.0, -1.0]),
    "greater_than": (lambda t, c: c.greater_than(_tensor(t, [0.5, 3.0])), [1.0, 1.0]),
    "greater_than_eq": (lambda t, c: c.greater_than_eq(2), [1.0, 2.0]),
    "less_than": (lambda t, c: c.less_than(2), [1.0, 2.0]),
    "unit_interval": (lambda t, c: c.unit_interval, [0.0, 1.0, 1.5, -0.1]),
    "half_open_interval": (lambda t, c: c.half_open_interval(0.0, 1.0), [0.0, 1.0]),
    "simplex": (lambda t, c: c.simplex, [[0.5, 0.5], [1.5, -0.5], [0.5, 0.4]]),
    "multinomial": (lambda t, c: c.multinomial(3), [[1.0, 2.0], [3.0, 1.0], [-1.0, 1.0]]),
    "lower_triangular": (lambda t, c: c.lower_triangular, [[[1.0, 0.0], [2.0, -1.0]], [[1.0, 1.0], [0.0, 1.0]]]),
    "lower_cholesky": (lambda t, c: c.lower_cholesky, [[[1.0, 0.0], [2.0, -1.0]], [[1.0, 0.0], [3.0, 1.0]]]),
    "corr_cholesky": (lambda t, c: c.corr_cholesky, [[[1.0, 0.0], [0.6, 0.8]], [[1.0, 0.0], [0.5, 1.0]]]),
    "square": (lambda t, c: c.square, [[[1.0, 0.0], [0.6, 0.8]]]),
    "not square": (lambda t, c: c.square, [[[1.0, 0.0]]]),
    "symmetric": (lambda t, c: c.symmetric, [[[1.0, 0.5], [0.5, 0.8]], [[1.0, 0.0], [0.5, 1.0]]]),
    "positive_semidefinite": (
        lambda t, c: c.positive_semidefinite,
        [[[1.0, 0.5], [0.5, 0.8]], [[1.0, 2.0], [2.0, 1.0]]],
    ),
    "positive_definite": (lambda t, c: c.positive_definite, [[[1.0, 0.5], [0.5, 0.8]], [[1.0, 2.0], [2.0, 1.0]]]),
    "asymmetric": (lambda t, c: c.positive_definite, [[[1.0, 0.5], [0.5, 0.8]], [[1.0, 2.0], [0.0, 1.0]]]),
    "independent": (lambda t, c: c.independent(c.positive, 1), [[1.0, 2.0], [1.0, -1.0]]),
    "cat": (lambda t, c: c.cat([c.positive, c.unit_interval], 0, [1, 2]), [-1.0, 0.5, 2.0]),
    "stack": (lambda t, c: c.stack([c.positive, c.unit_interval], -1), [[-1.0, 0.5], [1.0, 2.0]]),
    "mixture": (lambda t, c: c.MixtureSameFamilyConstraint(c.greater_than(_tensor(t, [0.0, 1.0]))), [0.5, 2.0]),
    "dependent": (lambda t, c: c.dependent, [0.5]),
    "known": (lambda t, c: c.dependent(is_discrete=True, event_dim=1), [0.5]),
}


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_constraints(name):
    make, values = CONSTRAINTS[name]
    found = []
    for library in (gradloom, torch):
        c = library.distributions.constraints
        one = make(library, c)
        found.append(
            [
                repr(one),
                type(one).__name__,
                attempt(lambda one=one: one.is_discrete),
                attempt(lambda one=one: one.event_dim),
                c.is_dependent(one),
                attempt(one.check, _tensor(library, values)),
                attempt(one.check, _tensor(library, 0.5)),
                attempt(library.distributions.biject_to, one),
                attempt(library.distributions.transform_to, one),
            ]
        )
    for ours, theirs in zip(*found, strict=True):
        alike(ours, theirs)


MISTAKES = {
    "cache": lambda t, d: d.ExpTransform(cache_size=2),
    "abstract": lambda t, d: d.Transform()(1.0),
    "abstract-sign": lambda t, d: d.Transform().sign,
    "unregistered": lambda t, d: d.biject_to(d.constraints.boolean),
    "no constraint": lambda t, d: d.biject_to(3),
    "register": lambda t, d: d.transform_to.register(3, lambda c: None),
    "cat length": lambda t, d: d.CatTransform([d.ExpTransform()], 0, [3])(t.ones(2)),
    "cat lengths": lambda t, d: d.CatTransform([d.ExpTransform()], 0, [1, 2]),
    "cat parts": lambda t, d: d.CatTransform([3]),
    "stack size": lambda t, d: d.StackTransform([d.ExpTransform()])(t.ones(2)),
    "reshape": lambda t, d: d.ReshapeTransform((2, 3), (5,)),
    "sticks": lambda t, d: d.StickBreakingTransform().forward_shape(t.Size(())),
    "independent": lambda t, d: d.IndependentTransform(d.ExpTransform(), 2)(t.ones(3)),
    "independent constraint": lambda t, d: d.constraints.independent(d.constraints.real, -1),
    "constraint of a number": lambda t, d: d.constraints.independent(3, 1),
    "cat constraint": lambda t, d: d.constraints.cat([d.constraints.real, 3]),
    "cat constraint lengths": lambda t, d: d.constraints.cat([d.constraints.real], 0, [1, 2]),
    "broadcast": lambda t, d: d.utils.broadcast_all("a", 1.0),
    "tril": lambda t, d: d.utils.tril_matrix_to_vec(t.ones(2, 2), 3),
    "vec": lambda t, d: d.utils.vec_to_tril_matrix(t.ones(5)),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_errors(name):
    ours = attempt(partial(MISTAKES[name], gradloom, gradloom.distributions))
    theirs = attempt(partial(MISTAKES[name], torch, torch.distributions))
    assert isinstance(theirs, str)
    assert ours == theirs


@pytest.mark.parametrize("diagonal", [-2, -1, 0, 1, 2])
def test_triangles_and_vectors(diagonal):
    for size in (3, 4):
        results = []
        for library in (gradloom, torch):
            utils = library.distributions.utils
            matrix = library.arange(2.0 * size * size).reshape(2, size, size)
            vector = utils.tril_matrix_to_vec(matrix, diagonal)
            results.append((vector, attempt(utils.vec_to_tril_matrix, vector, diagonal)))
        for ours, theirs in zip(*results, strict=True):
            alike(ours, theirs)


def test_helpers_of_parameters():
    values = [0.0, 0.2, 0.9999999999999999999, 1.0]
    for name, args in (
        ("clamp_probs", ()),
        ("probs_to_logits", ()),
        ("probs_to_logits", (True,)),
        ("logits_to_probs", ()),
        ("logits_to_probs", (True,)),
        ("_sum_rightmost", (1,)),
    ):
        results = []
        for library in (gradloom, torch):
            results.append(getattr(library.distributions.utils, name)(_tensor(library, values), *args))
        alike(*results)
