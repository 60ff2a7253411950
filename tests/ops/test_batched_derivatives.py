"""Batched reverse mode equals a loop over single passes, for every operator: in value, and in what it accepts.

The calls are the samples of `gradloom verify`, at their own points and where all elements are equal: at ties of
selections, and at kinks. GRADLOOM_ALL_SAMPLES=1 takes all samples and their variations, not a few of each operator.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import gradloom as torch
from gradloom.autograd import grad
from gradloom.core.tensor import wrap
from gradloom.dispatch import _operators
from gradloom.dispatch.records import record_of
from gradloom.tools.verify import own_operators
from gradloom.tools.verify.case import Case
from gradloom.tools.verify.findings import close, scale
from gradloom.tools.verify.jacobians import from_real
from gradloom.tools.verify.sampling import cases
from gradloom.tools.verify.variations import plan
from tests.samples import ALL

FEW = 2
# vmap cannot give what these ask of one batch element; a batch of cotangents never may.
REFUSED_FOR_VALUES = ("calling .item()", "data-dependent control flow")
COUNT = 3
SMALL = 30  # numbers of all inputs, of the calls whose jacobians are computed without GRADLOOM_ALL_SAMPLES


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


def jacobian_in_turn(function, points):
    """Return the jacobians of each result by each input, row by row."""
    inputs = [p.detach().requires_grad_() for p in points]
    found = []
    for output in function(*inputs):
        rows = []
        for basis in torch.eye(output.numel(), dtype=output.dtype):
            row = grad(output, inputs, basis.reshape(output.shape), retain_graph=True, allow_unused=True)
            rows.append([torch.zeros_like(x) if g is None else g for g, x in zip(row, inputs, strict=True)])
        found += [torch.stack(c).reshape((*output.shape, *c[0].shape)) for c in zip(*rows, strict=True)]
    return found


def jacobians(case):
    """Yield (name, difference) for jacobians and second derivatives by torch.func."""
    points = [case.read(place).detach() for place in case.places]
    everything = tuple(range(len(points)))

    def outputs(*inputs):
        return tuple([o for o in case.call(*inputs) if o.is_floating_point() and o.numel()])

    def total(*inputs):
        return sum((o * vectors(o, 50 + k, ())).sum() for k, o in enumerate(outputs(*inputs)))

    def gradients(*inputs):
        found = grad(total(*inputs), inputs, create_graph=True, allow_unused=True)
        return [x * 0 if g is None or not g.requires_grad else g for g, x in zip(found, inputs, strict=True)]

    def flat(nested):
        return [t for part in nested for t in (flat(part) if isinstance(part, (tuple, list)) else [part])]

    probe = outputs(*[p.requires_grad_() for p in points])
    if not probe or not all(o.requires_grad for o in probe) or any(p.is_complex() for p in points):
        return
    rev, fwd, count = torch.func.jacrev, torch.func.jacfwd, sum(p.numel() for p in points)
    points = [p.detach() for p in points]
    if not ALL and count > SMALL:
        return
    for name, transform in ("jacrev", rev), ("jacfwd", fwd):
        of = transform(outputs, argnums=everything)
        yield name, difference(lambda of=of: flat(of(*points)), lambda: jacobian_in_turn(outputs, points))
    for name, transform in ("hessian", fwd), ("jacrev of jacrev", rev):
        of = transform(rev(total, argnums=everything), argnums=everything)
        yield name, difference(lambda of=of: flat(of(*points)), lambda: jacobian_in_turn(gradients, points))


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


def has_rule_of_its_own(operator) -> bool:
    """Return whether the operator's batching rule is a function for it, not one that many share."""
    record = record_of(getattr(_operators, operator.name.replace(".", "_"), None))
    return record is not None and "." in "".join(record.batch[:1])


@pytest.mark.parametrize("family", FAMILIES)
def test_jacobians_and_hessians_are_loops(family):
    """All operators with GRADLOOM_ALL_SAMPLES; else those with a batching rule of their own, at one small call."""
    wrong = []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for operator in own_operators():
            is_meant = operator.family == family and operator.differentiable and operator.schema.kind == "functional"
            if not is_meant or operator.is_random or not (ALL or has_rule_of_its_own(operator)):
                continue
            for case in chosen(operator) if ALL else chosen(operator)[:1]:
                if takes_strides(case) or attempt(lambda case=case: case.call(*case.inputs()))[1] is not None:
                    continue
                wrong += [f"{case}: {way}: {text}" for way, text in jacobians(case) if text]
    wrong = [line for line in wrong if not any(asked in line for asked in REFUSED_FOR_VALUES)]
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


@pytest.mark.parametrize("name", ["layer_norm", "group_norm"])
def test_second_derivatives_of_norms_by_weight_and_input_include_the_statistics(name):
    """PyTorch 2.13 leaves them out in its batching rules."""
    torch.manual_seed(0)
    x, weight = torch.randn(2, 2, 3, dtype=torch.float64), torch.randn(2, dtype=torch.float64)

    def loss(x, w):
        normalized = (x.reshape(2, 3, 2), (2,)) if name == "layer_norm" else (x, 1)
        return (getattr(torch.nn.functional, name)(*normalized, w, None, eps=0.1).reshape(x.shape) * x.detach()).sum()

    expected = torch.autograd.functional.hessian(loss, (x, weight))
    for transform in torch.func.jacfwd, torch.func.jacrev:
        found = transform(torch.func.jacrev(loss, (0, 1)), (0, 1))(x, weight)
        torch.testing.assert_close(found, expected)

    def penalty(x):  # the squares of each example's gradient
        return torch.func.vmap(torch.func.grad(loss, 1), (0, None))(x.unsqueeze(1), weight).square().sum()

    def in_turn(x):
        rows = [torch.func.grad(loss, 1)(row, weight) for row in x.unsqueeze(1)]
        return torch.stack(rows).square().sum()

    if name == "group_norm":
        torch.testing.assert_close(torch.func.grad(penalty)(x), torch.func.grad(in_turn)(x))


def test_as_strided_in_place_changes_the_elements_of_a_batch():
    x = torch.arange(6.0).reshape(2, 3)

    def f(row):
        row = row * 1
        row.as_strided_((2, 2), (1, 1))
        return (row * row).sum(), row

    slopes, rows = torch.func.vmap(torch.func.grad(f, has_aux=True))(x)
    assert rows.tolist() == [[[0, 1], [1, 2]], [[3, 4], [4, 5]]]
    assert slopes.tolist() == [[0, 4, 4], [6, 16, 10]]
