"""Batched reverse mode equals a loop over single passes, for every operator: in value, and in what it accepts.

The calls are the samples of `gradloom verify`, at their own points and where all elements are equal: at ties of
selections, and at kinks. GRADLOOM_ALL_SAMPLES=1 takes all samples and their variations, not a few of each operator.
"""

from __future__ import annotations

import os
import warnings

import numpy as np
import pytest

import gradloom as torch
from gradloom.autograd import grad
from gradloom.core.tensor import wrap
from gradloom.tools.verify import own_operators
from gradloom.tools.verify.case import Case
from gradloom.tools.verify.findings import close, scale
from gradloom.tools.verify.jacobians import from_real
from gradloom.tools.verify.sampling import cases
from gradloom.tools.verify.variations import plan

ALL = os.environ.get("GRADLOOM_ALL_SAMPLES") == "1"
FEW = 3
# vmap cannot give what these ask of one batch element; a batch of cotangents never may.
REFUSED_FOR_VALUES = ("calling .item()", "data-dependent control flow")
COUNT = 3


def vectors(like, seed, lead=(COUNT,)):
    """Return random cotangents of a tensor."""
    shape = (*lead, *like.shape)
    size = int(np.prod(shape)) * (2 if like.is_complex() else 1)
    random = np.random.default_rng((seed, size)).uniform(0.5, 1.5, size)
    return wrap(from_real(random, np.empty(shape, like._array.dtype)))


def attempt(function):
    try:
        return function(), None
    except Exception as error:
        return None, error


def difference(at_once, in_turn) -> str | None:
    """Return how two ways to compute gradients differ, or None."""
    (found, raised), (expected, refused) = attempt(at_once), attempt(in_turn)
    if raised is not None or refused is not None:
        if raised is not None and refused is not None:
            return None
        return f"only the {'batch' if refused is None else 'loop'} raises {(raised or refused)!r}"
    for number, (f, e) in enumerate(zip(found, expected, strict=True)):
        if f is None or e is None:
            present = e if f is None else f
            if present is not None and bool((present != 0).any()):
                return f"gradient {number} is {'' if f is None else 'not '}None"
            continue
        if f.shape != e.shape or f.dtype is not e.dtype:
            return f"gradient {number} is {tuple(f.shape)} of {f.dtype}, not {tuple(e.shape)} of {e.dtype}"
        f, e = np.asarray(f.detach().resolve_conj().resolve_neg()), np.asarray(e.detach().resolve_conj().resolve_neg())
        if f.dtype.kind in "fc" and not close(f, e, 1e-7, 1e-9 * scale(e)):
            return f"gradient {number} is {f.tolist()}, not {e.tolist()}"
    return None


def stacked(rows):
    return [None if column[0] is None else torch.stack(column) for column in zip(*rows, strict=True)]


def ways(case):
    """Yield (name, difference) for gradients of one graph by several cotangents."""
    leaves = case.inputs()
    outputs = [o for o in case.call(*leaves) if o.requires_grad]
    if not outputs:
        return

    def pull(given, **options):
        return grad(outputs, leaves, given, retain_graph=True, allow_unused=True, **options)

    def dense(*given):
        found = zip(pull(list(given)), leaves, strict=True)
        return tuple([torch.zeros_like(x) if g is None else g for g, x in found])

    given = [vectors(o, k) for k, o in enumerate(outputs)]
    in_turn = [[v[i] for v in given] for i in range(COUNT)]
    yield (
        "is_grads_batched",
        difference(lambda: pull(given, is_grads_batched=True), lambda: stacked([pull(v) for v in in_turn])),
    )
    if not ALL and case.label:
        return
    yield (
        "vmap with in_dims=-1",
        difference(
            lambda: torch.func.vmap(dense, in_dims=-1)(*[v.movedim(0, -1) for v in given]),
            lambda: stacked([dense(*v) for v in in_turn]),
        ),
    )
    nested = [vectors(o, 10 + k, (2, COUNT)) for k, o in enumerate(outputs)]
    yield (
        "vmap of vmap",
        difference(
            lambda: torch.func.vmap(torch.func.vmap(dense))(*nested),
            lambda: stacked([stacked([dense(*[v[j, i] for v in nested]) for i in range(COUNT)]) for j in range(2)]),
        ),
    )
    first = attempt(lambda: grad(outputs, leaves, in_turn[0], create_graph=True, allow_unused=True))[0] or ()
    first = [g for g in first if g is not None and g.requires_grad]
    if first:
        second = [vectors(g, 20 + k) for k, g in enumerate(first)]

        def twice(v, **options):
            return grad(first, leaves, v, retain_graph=True, allow_unused=True, **options)

        yield (
            "second derivatives",
            difference(
                lambda: twice(second, is_grads_batched=True),
                lambda: stacked([twice([v[i] for v in second]) for i in range(COUNT)]),
            ),
        )


def mapped(case, points):
    """Return how vmap of the gradient at several points differs from a loop over them."""

    def total(*inputs):
        found = torch.zeros((), dtype=torch.float64)
        for k, output in enumerate(case.call(*inputs)):
            product = (output * vectors(output, 40 + k, ())).sum()
            found = found + (product.real if product.is_complex() else product)
        return found

    one = torch.func.grad(total, argnums=tuple(range(len(points))))
    return difference(
        lambda: torch.func.vmap(one)(*points),
        lambda: stacked([one(*[p[i].clone() for p in points]) for i in range(len(points[0]))]),
    )


def at(case, change, label):
    """Return the call with the numbers of all differentiated tensors changed."""
    arrays = [case.read(place)._array for place in case.places]
    inputs = tuple([wrap(np.asarray(change(a)).astype(a.dtype)) for a in arrays])
    args, kwargs = case.with_inputs(inputs)
    return Case(case.operator, tuple(args), kwargs, label)


def equal(array):
    return np.full_like(array, array.reshape(-1)[0]) if array.size else array


def takes_other_points(case) -> bool:
    """Return whether the tensors are independent; a backward operator takes results of the forward one."""
    return not case.operator.fixed and "grad_out" not in case.names


def chosen(operator):
    found = plan(operator).base + plan(operator).varied if ALL else cases(operator)
    found = [c for c in found if c.places]
    return found if ALL else found[:FEW]


def takes_strides(case) -> bool:
    """Return whether the operator reads memory, which elements of a batch share."""
    return "stride" in case.names


FAMILIES = sorted({o.family for o in own_operators() if o.differentiable})


@pytest.mark.parametrize("family", FAMILIES)
def test_a_batch_of_gradients_is_a_loop(family):
    wrong = []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for operator in own_operators():
            if operator.family != family or not operator.differentiable or operator.schema.kind != "functional":
                continue
            for case in chosen(operator):
                points = (case, at(case, equal, "all equal")) if takes_other_points(case) else (case, case)
                for point in dict.fromkeys(points):
                    if attempt(lambda point=point: point.call(*point.inputs()))[1] is None:
                        wrong += [f"{point}: {way}: {text}" for way, text in ways(point) if text]
                if operator.is_random or takes_strides(case) or not takes_other_points(case):
                    continue
                text = mapped(case, [torch.stack([point.read(p) for point in points]) for p in case.places])
                if text and not any(asked in text for asked in REFUSED_FOR_VALUES):
                    wrong.append(f"{case}: vmap of grad: {text}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", ["max", "min", "median", "nanmedian", "amax", "amin"])
def test_selections_share_gradients_among_ties_within_vmap(name):
    nan, inf = float("nan"), float("inf")
    rows = torch.tensor([[1.0, 1, 1], [2, 3, 3], [nan, 1, nan], [inf, inf, -inf], [-inf, -inf, -inf], [0, -0.0, 0]])
    select = getattr(torch, name)

    def gradient(row):
        return torch.func.grad(lambda x: select(x))(row)

    found = torch.func.vmap(gradient)(rows)
    torch.testing.assert_close(found, torch.stack([gradient(row) for row in rows]), equal_nan=True)
    value = torch.func.vmap(lambda row: torch.func.grad_and_value(select)(row)[1])(rows)
    torch.testing.assert_close(value, torch.stack([select(row) for row in rows]), equal_nan=True, rtol=0, atol=0)
    tangent = torch.tensor([1.0, 2.0, 4.0])
    push = lambda row: torch.func.jvp(select, (row,), (tangent,))[1]  # noqa: E731
    finite = rows[:2]
    torch.testing.assert_close(torch.func.vmap(push)(finite), torch.stack([push(row) for row in finite]))
    if name not in ("amax", "amin"):
        x = torch.tensor([1.0, 2.0])
        once = torch.autograd.functional.jacobian(select, x)
        torch.testing.assert_close(torch.func.jacrev(select)(x), once)
        torch.testing.assert_close(torch.autograd.functional.jacobian(select, x, vectorize=True), once)
        torch.testing.assert_close(torch.func.hessian(select)(x), torch.zeros(2, 2))
