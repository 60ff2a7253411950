"""Numbers that vary from call to call are arguments of compiled graphs; results and errors stay those of eager."""

from __future__ import annotations

import dataclasses
import math
import random
import types
from collections import namedtuple

import pytest

import gradloom as torch
import gradloom.nn.functional as F
from gradloom.compiler import _numbers
from gradloom.compiler._api import optimized_of
from gradloom.compiler._backends import has_llvm
from gradloom.compiler._numbers import FreeFloat, FreeInt, Numbers
from tests.samples import in_turn

BACKENDS = ["numpy", "aot_eager", *["llvm"] * has_llvm()]
SPECIAL = (
    0.3, 0.7, 0.1, 1.0, 2.0, 3.0, 0.5, -2.0, 0.0, -0.0, -1.0, 1e-30, 1e300, math.inf, -math.inf, math.nan, 0.3,
)  # fmt: skip


def graphs(f) -> int:
    return len(optimized_of(f).entries)


def outcome(function, *args):
    """The value of a call; or its error."""
    try:
        return function(*args)
    except Exception as error:
        return type(error), str(error)


def same(found, expected):
    if isinstance(expected, torch.Tensor):
        torch.testing.assert_close(found, expected, equal_nan=True)
    elif type(expected) in (tuple, list):
        assert type(found) is type(expected) and len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            same(a, b)
    else:
        assert type(found) is type(expected) and repr(found) == repr(expected)


def check(function, values, most: int, *others, backend: str = "inductor", **options):
    """Call a compiled function with each value, compare with eager, and return it."""
    f = torch.compile(function, backend=backend, **options)
    for value in values:
        same(outcome(f, *others, value), outcome(function, *others, value))
    assert graphs(f) <= most
    assert not optimized_of(f).breaks
    return f


def x(requires_grad: bool = False):
    return torch.linspace(-1.5, 2, 6).requires_grad_(requires_grad)


# --- how many graphs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_second_value_makes_the_last_graph(backend):
    f = check(lambda t, a: torch.sigmoid(t * a) + a, [0.1 * i + 0.05 for i in range(100)], 2, x(), backend=backend)
    assert optimized_of(f).calls == [98, 2]


def test_dynamic_makes_the_first_graph_for_all_and_false_one_for_each():
    check(lambda t, a: torch.tanh(t) * a, [0.1, 0.2, 0.3, 0.4], 1, x(), dynamic=True)
    f = check(lambda t, a: torch.tanh(t) * a, [0.1, 0.2, 0.3, 0.4], 4, x(), dynamic=False)
    assert graphs(f) == 4


def test_numbers_that_stay_are_guards():
    f = torch.compile(lambda t, a, b: torch.tanh(t) * a + b)
    for a in (0.1, 0.2, 0.3):
        f(x(), a, 7.0)
    (general, first) = optimized_of(f).entries
    assert general.numbers.names == ["args[1]"] and not first.has_numbers
    assert "same_number(args[2]" in general.guards


def test_the_type_of_a_number_is_a_guard():
    f = torch.compile(lambda t, a: t * a, dynamic=True)
    for a in (2, 3, 0.5, 0.25, True, False, 2 + 1j, 5, 0.125):
        same(f(torch.arange(3), a), torch.arange(3) * a)
    assert graphs(f) == 5


# --- where numbers are read -------------------------------------------------------------------------------------------

temperature = 1.5
weights = [0.1, 0.2]


class Config:
    scale = 0.5


@dataclasses.dataclass
class Options:
    scale: float
    names: tuple[str, ...] = ()

    def doubled(self):
        return self.scale * 2


Pair = namedtuple("Pair", "scale bias")


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.alpha = 0.5
        self.settings = {"beta": 0.25, "steps": [0.1, 0.2]}

    def forward(self, t):
        return torch.tanh(t) * self.alpha + self.settings["beta"] * t + self.settings["steps"][-1]


def test_globals_and_their_lists(monkeypatch):
    f = torch.compile(lambda t: torch.tanh(t) / temperature + weights[0] - weights[-1])
    for i in range(20):
        monkeypatch.setattr(f"{__name__}.temperature", 1.0 + i / 7)
        weights[1] = i / 3
        same(f(x()), torch.tanh(x()) / temperature + weights[0] - weights[-1])
    assert graphs(f) <= 3


def test_lists_that_are_walked_over():
    parts = [0.1, 0.2, 0.3]

    def function(t):
        total = 0.0
        for i, w in enumerate(parts):
            total = total + w * t * i
        for w, power in zip(parts, (1, 2, 3), strict=False):
            total = total + w * t**power
        first, *_ = parts
        return total + first + len(parts)

    f = torch.compile(function)
    for i in range(20):
        parts[1] = i / 3 + 0.1
        same(f(x()), function(x()))
    assert graphs(f) <= 3
    parts.append(2.0)
    same(f(x()), function(x()))


@pytest.mark.parametrize("read", [sum, sorted, max, str, tuple, list, lambda v: v[1:], lambda v: [*v, 1.0], repr])
def test_lists_that_are_read_as_a_whole(read):
    parts = [0.1, 0.2, 0.3]

    def function(t):
        found = read(parts)
        return t * (found[0] if isinstance(found, (list, tuple)) else float(len(str(found))))

    f = torch.compile(function)
    for i in range(4):
        parts[0], parts[1] = 10.0**i, i / 3
        same(f(x()), function(x()))


settings = {"rate": 0.1, "name": "a"}
space = types.SimpleNamespace(rate=0.1)


@pytest.mark.parametrize(
    "read",
    [
        lambda: settings.get("rate"),
        lambda: settings.get("rate", 1.0) + settings.get("other", 2.0),
        lambda: [v for k, v in settings.items() if k == "rate"][0],
        lambda: next(iter(settings.values())),
        lambda: {**settings}["rate"],
        lambda: dict(settings)["rate"] + settings.copy()["rate"],
        lambda: sum(weights),
        lambda: space.rate,
    ],
)
def test_dictionaries_and_namespaces_from_outside(read, monkeypatch):
    monkeypatch.setitem(settings, "rate", 0.1)
    monkeypatch.setattr(space, "rate", 0.1)
    f = torch.compile(lambda t: torch.tanh(t) * read())
    for i in range(10):
        settings["rate"] = space.rate = weights[1] = i / 7 + 0.15
        same(f(x()), torch.tanh(x()) * read())
    assert graphs(f) == 2 and not optimized_of(f).breaks


def test_a_dictionary_from_outside_with_other_keys_or_strings_is_seen(monkeypatch):
    monkeypatch.setitem(settings, "rate", 0.1)
    f = torch.compile(lambda t: [torch.tanh(t) * (v if k == "rate" else len(v)) for k, v in settings.items()])
    for i in range(6):
        settings["rate"] = i / 7 + 0.15
        same(f(x()), [torch.tanh(x()) * settings["rate"], torch.tanh(x())])
    monkeypatch.setitem(settings, "name", "abc")
    same(f(x())[1], torch.tanh(x()) * 3)
    monkeypatch.setitem(settings, "more", "abc")
    assert len(f(x())) == 3


def test_views_and_lists_are_read_as_they_are_after_a_break(monkeypatch):
    monkeypatch.setitem(settings, "rate", 0.1)
    parts = [1.0, 2.0, 3.0]

    def function(t):
        view, found = settings.values(), []
        for w in parts:
            if t.sum() > 0:
                settings["rate"] = parts[2] = w + 1
            found.append(w)
        return t * next(iter(view)), found

    f = torch.compile(function)
    for i in range(5):
        results = []
        for call in (f, function):
            parts[:], settings["rate"] = (i, 2.0, 3.0), float(i)
            results.append(call(x()))
        same(*results)


def test_attributes_of_modules_and_their_dictionaries():
    net = Scaled()
    f = torch.compile(net)
    for i in range(20):
        net.alpha = net.settings["beta"] = i / 7 + 0.1
        net.settings["steps"][1] = -i / 3
        same(f(x()), net(x()))
    assert len(f._optimized.entries) <= 3


def test_attributes_of_classes_and_closures():
    bias = 0.0

    def function(t):
        return torch.tanh(t) * Config.scale + bias

    f = torch.compile(function)
    for i in range(20):
        Config.scale, bias = i / 7 + 0.1, i / 3
        same(f(x()), function(x()))
    assert graphs(f) <= 4


@pytest.mark.parametrize(
    "make, use",
    [
        (lambda v: (v, 1.0), lambda p: p[0] + p[1]),
        (lambda v: (1.0, (v, "a")), lambda p: p[1][0]),
        (lambda v: [v, 2.0], lambda p: p[0] * p[-2]),
        (lambda v: {"a": v, "b": 2.0}, lambda p: p["a"]),
        (lambda v: Options(v), lambda p: p.scale),
        (lambda v: Options(v), lambda p: p.doubled()),
        (lambda v: {"a": v}, lambda p: p.get("a") + p.get("b", 0.5)),
        (lambda v: {"a": v, "b": 1}, lambda p: sum(p.values())),
        (lambda v: {"a": v, "b": 1.0}, lambda p: [w * len(k) for k, w in p.items()][0]),
        (lambda v: {"a": v}, lambda p: (lambda a: a)(**p) + {**p}["a"] + p.copy()["a"] + dict(p)["a"]),
        (lambda v: {"a": v, "b": 2.0}, lambda p: list(p.values())[0] + [*p.items()][0][1] + next(iter(p.values()))),
        (lambda v: [v, 2.0, 0.1], lambda p: sum(p) / len(p) + sum(p, 1) + math.prod(p) + math.fsum(p)),
        (lambda v: (v, 2.0, 0.1), lambda p: max(p) - min(p)),
        (lambda v: [v, 2.0], lambda p: sum(w * 2 for w in p)),
        (lambda v: Pair(v, 1.0), lambda p: p.scale * p.bias),
        (lambda v: Pair(v, 1.0), lambda p: p[0] + sum(p)),
        (lambda v: v, lambda p: torch.tensor(p) + torch.as_tensor(p) + torch.ones(1).new_tensor(p)),
        (lambda v: [v, 1], lambda p: torch.tensor(p).sum()),
        (lambda v: [v, 1], lambda p: torch.tensor([p, [1, 2.5]], dtype=torch.float64).sum().float()),
    ],
)
def test_containers_among_the_arguments(make, use):
    f = torch.compile(lambda t, p: torch.tanh(t) * use(p))
    for i in range(20):
        v = i / 7 + 0.15
        same(f(x(), make(v)), torch.tanh(x()) * use(make(v)))
    assert graphs(f) == 2


@pytest.mark.parametrize(
    "make, use",
    [
        (lambda v: [v, 2.0], lambda p: sorted(p)[0]),
        (lambda v: {"a": v}, lambda p: sorted(p.values())[0]),
        (lambda v: {"a": v}, lambda p: (0.2 in p.values()) + (("a", 0.1) in p.items())),
        (lambda v: {"a": v}, lambda p: len(str(p))),
        (lambda v: [v] * 20, lambda p: torch.tensor(p).sum()),
        (lambda v: [v, 2.0], lambda p: torch.tensor(p, requires_grad=True).sum().detach()),
        (lambda v: [v * 10, 2.0], lambda p: torch.tensor(p, dtype=torch.int32).sum()),
        (lambda v: Options(v), lambda p: p.__dict__["scale"]),
        (lambda v: Options(v), lambda p: dataclasses.astuple(p)[0]),
        (lambda v: Pair(v, 1.0), lambda p: len(f"{p}")),
    ],
)
def test_containers_that_are_read_as_a_whole(make, use):
    f = torch.compile(lambda t, p: torch.tanh(t) * use(p))
    for v in (0.1, 0.2, 0.3, 0.1, 0.4):
        same(f(x(), make(v)), torch.tanh(x()) * use(make(v)))


# --- what is computed of them -----------------------------------------------------------------------------------------

EXPRESSIONS = [
    lambda t, a: t * (a + 0.2 - 0.3),
    lambda t, a: t * (1 / a) if a else t,
    lambda t, a: t + a**2 - 2**a if a < 100 else t,
    lambda t, a: t * -a + +a,
    lambda t, a: t * min(a, 0.5) + max(0.1, a),
    lambda t, a: t * math.exp(-abs(a)),
    lambda t, a: t * math.sqrt(a) if a >= 0 else t,
    lambda t, a: t * float(a) + int(a) if abs(a) < 1e6 else t,
    lambda t, a: (t * (a // 0.3), t * (a % 0.3)) if math.isfinite(a) else t,
    lambda t, a: t - a if 0 < a <= 1 else t + a,
    lambda t, a: t * (a if a == a else 0.0),
    lambda t, a: t * round(a, 1) if math.isfinite(a) else t,
    lambda t, a: (t * a, a, a * 2, [a - 1, "a"], {"a": a}["a"]),
    lambda t, a: a * 2,
    lambda t, a: (t * len(f"{a:.3f}"), str(a)),
    lambda t, a: t * {0.3: 2.0}.get(a, 1.0),
    lambda t, a: t * (a in (0.3, 0.5)) + (a is None),
    lambda t, a: t.clamp(-abs(a), abs(a)),
    lambda t, a: torch.where(t > a, t, a),
    lambda t, a: torch.full((3,), a) + t.sum(),
    lambda t, a: torch.tensor([a, 1.0]) * t.sum(),
    lambda t, a: t.masked_fill(t > 0, a),
    lambda t, a: torch.add(t, t, alpha=a) - torch.sub(t, 1, alpha=a),
    lambda t, a: torch.addcmul(t, t, t, value=a) + torch.lerp(t, t * 2, a),
    lambda t, a: a - t + a / (t.abs() + 1) + a * t + t / a,
    lambda t, a: t.abs() ** a,
    lambda t, a: a ** t.abs(),
    lambda t, a: F.leaky_relu(t, a) + F.threshold(t, a, a),
    lambda t, a: F.elu(t, a) if abs(a) < 1e9 else t,
    lambda t, a: F.softplus(t, a),
    lambda t, a: F.celu(t, a) if abs(a) < 1e9 else t,
    lambda t, a: F.softshrink(t, a),
    lambda t, a: F.hardshrink(t, a),
    lambda t, a: F.huber_loss(t, t * 2, delta=a),
    lambda t, a: F.smooth_l1_loss(t, t * 2, beta=a),
    lambda t, a: F.layer_norm(t, (6,), eps=a) if a > 0 else t,
    lambda t, a: (t / a).softmax(0),
    lambda t, a: F.cross_entropy(t[None], torch.tensor([1]), label_smoothing=a),
    lambda t, a: torch.logit(t, a) + torch.nan_to_num(t, a),
    lambda t, a: t.norm(a),
    lambda t, a: torch.isclose(t, t + 0.1, rtol=a, atol=a),
    lambda t, a: F.normalize(t, p=a, dim=0),
    lambda t, a: t.clone().fill_(a) + t.clone().mul_(a).add_(a),
    lambda t, a: torch.stack([t * a for _ in range(3)]).sum(),
]


CASES = in_turn(range(len(EXPRESSIONS)), BACKENDS[:2])
CASES += [(number, backend) for number in range(len(EXPRESSIONS)) for backend in BACKENDS[2:]]


@pytest.mark.parametrize(("number", "backend"), CASES)
def test_expressions_are_those_of_eager_for_all_values(number, backend):
    function = EXPRESSIONS[number]
    f = torch.compile(function, backend=backend)
    for value in SPECIAL:
        points = x(True), x(True)
        found, expected = outcome(f, points[0], value), outcome(function, points[1], value)
        same(found, expected)
        pairs = [(a, b) for a, b in zip(*(r if type(r) is tuple else (r,) for r in (found, expected)), strict=True)]
        for a, b in pairs:
            if isinstance(b, torch.Tensor) and b.requires_grad:
                a.sum().backward(retain_graph=True)
                b.sum().backward(retain_graph=True)
        same(points[0].grad, points[1].grad)
    assert not any(reason.startswith("the compiler") for _, reason in optimized_of(f).breaks)


def test_derived_numbers_are_computed_by_python():
    found = []

    def function(t, a):
        return t * (a + 0.2), a + 0.2, (a + 0.2) / 3 - 0.1

    f = torch.compile(function)
    wide = torch.linspace(-1, 1, 5, dtype=torch.float64)
    for a in (0.7, 0.1, 1e16, 0.30000000000000004, 1e-17):
        found = f(wide, a)
        expected = function(wide, a)
        assert found[0].tolist() == expected[0].tolist() and found[1:] == expected[1:]
    assert graphs(f) == 2


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32]
)
@pytest.mark.parametrize("backend", BACKENDS)
def test_numbers_promote_as_in_eager(dtype, backend):
    def function(t, a):
        return t * a + t, a - t, t / a

    f = torch.compile(function, backend=backend)
    t = torch.arange(-3, 4).to(dtype)
    for a in (3, 2, 5, 0.1, 0.3, 0.1234567, 7, -1):
        same(f(t, a), function(t, a))
    assert graphs(f) <= 4


def test_integers_stay_exact():
    def function(t, a):
        return t * a, t + a * 3, a * a

    f = torch.compile(function)
    t = torch.tensor([1, -2, 3])
    for a in (3, 5, 2**31, 2**40 + 1, 2**53 - 1, 2**53 + 1, 2**62, -(2**53), 2**20):
        same(outcome(f, t, a), outcome(function, t, a))
    t = t.to(torch.int32)
    for a in (3, 2**31, 2**31 - 1, 5):
        same(outcome(f, t, a), outcome(function, t, a))
    t = t.float()
    for a in (2**24 + 1, 2**53 - 1, 2**60 + 1, 7):
        same(outcome(f, t, a), outcome(function, t, a))


def test_integers_as_sizes_indices_and_counts_have_a_graph_each():
    def function(t, n):
        total = t[n] + t[-n] + torch.zeros(n).sum()
        for i in range(n):
            total = total + t[i:n].sum() * i
        return total, t.view(2, -1).repeat(n, 1), [1, 2, 3][n], [n] * n, "a" * n, n

    f = torch.compile(function)
    for n in (1, 2, 1, 2, 1):
        same(f(x(), n), function(x(), n))
    assert graphs(f) == 2


# --- branches ---------------------------------------------------------------------------------------------------------


def test_a_branch_has_a_graph_for_each_outcome():
    def function(t, a):
        if a > 0.5:
            return t * a
        return t + a if a else t

    f = check(function, [i / 20 for i in range(20)], 3, x())
    assert optimized_of(f).calls[1] == 3
    conditions = [c for e in optimized_of(f).entries if e.has_numbers for c in e.numbers.conditions]
    assert "n[0] > 0.5" in conditions and "not n[0] > 0.5" in conditions


def test_chains_and_loops_over_conditions():
    def function(t, a):
        steps = 0
        while a > 0.1:
            a, steps = a * 0.5, steps + 1
        return (t * a if 0 < a <= 0.1 else t), steps, a

    check(function, [0.9, 0.8, 0.7, 0.3, 0.31, 0.32, 0.2, -1.0], 5, x())


def test_what_is_no_expression_makes_the_value_a_guard():
    f = check(lambda t, a: (t, f"{a}"), [0.1, 0.2, 0.3], 3, x())
    assert graphs(f) == 3
    assert optimized_of(f).numbers[("argument", "args[1]")] == "read"


def test_errors_are_those_of_eager():
    check(lambda t, a: t * (1 / a), [0.5, 0.25, 0.0, 0.125], 2, x())
    check(lambda t, a: t * math.log(a), [0.5, 0.25, -1.0, 0.125], 2, x())
    check(lambda t, a: t * math.exp(a), [0.5, 0.25, 1e4, 0.125], 2, x())
    check(lambda t, a: t * a**0.5, [0.5, 0.25, 0.125, 2.0], 2, x())
    check(lambda t, a: F.dropout(t, a, training=False) * 1, [0.5, 0.25, 1.5, -1.0, 0.125], 2, x())
    check(lambda t, a: F.softshrink(t, a) * 2, [0.5, 0.25, -1.0, 0.125], 2, x())
    check(lambda t, a: F.celu(t, a) * 2, [0.5, 0.25, 0.0, 0.125], 3, x())


def test_a_root_of_a_negative_number_is_complex():
    f = torch.compile(lambda t, a: t * a**0.5)
    for a in (0.5, 0.25, -1.0, 0.125, -2.0):
        same(f(x(), a), x() * a**0.5)


# --- derivatives ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_double_backward_has_the_numbers_of_its_call(backend):
    def function(t, a):
        return torch.tanh(t * a) * (1 - a) + t.abs() ** a

    f = torch.compile(function, backend=backend)
    calls = []
    for a in (0.3, 0.7, 2.5, 1.3):
        points = x(True), x(True)
        calls.append((points, f(points[0], a), function(points[1], a)))
    for points, *results in calls:  # after all forward passes
        found = []
        for point, result in zip(points, results, strict=True):
            (grad,) = torch.autograd.grad(result.sum(), point, create_graph=True)
            (second,) = torch.autograd.grad((grad**2).sum(), point)
            found.append((grad.detach(), second))
        same(found[0], found[1])
    assert graphs(f) == 2


def test_gradients_of_some_outputs_have_the_numbers_of_their_call():
    def function(t, a):
        return torch.tanh(t * a), t.abs() ** (a - 1)

    f = torch.compile(function)
    for a in (0.3, 0.7, 3.0, 2.5, 1.3, 4.0):
        points = x(True), x(True)
        found, expected = f(points[0], a), function(points[1], a)
        for i in (1, 0):
            same(
                torch.autograd.grad(found[i].sum(), points[0], retain_graph=True),
                torch.autograd.grad(expected[i].sum(), points[1], retain_graph=True),
            )


def test_random_numbers_stay_those_of_eager():
    def function(t, p):
        return F.dropout(t, p) * 2 + torch.rand(6) * p

    f = torch.compile(function)
    for p in (0.1, 0.2, 0.5, 0.0, 1.0, 0.7, 0.3):
        torch.manual_seed(1)
        found = f(x(), p), torch.rand(1)
        torch.manual_seed(1)
        same(found, (function(x(), p), torch.rand(1)))
    assert graphs(f) <= 4


def test_an_update_written_by_hand():
    def step(parameters, gradients, lr, decay):
        with torch.no_grad():
            for p, g in zip(parameters, gradients, strict=True):
                p -= lr * (g + decay * p)
                p.add_(g, alpha=-lr)

    f = torch.compile(step)
    found, expected = ([torch.linspace(-1, 1, n) for n in (3, 5)] for _ in range(2))
    gradients = [torch.linspace(1, 2, n) for n in (3, 5)]
    for i in range(30):
        f(found, gradients, 0.1 * 0.9**i, 0.01)
        step(expected, gradients, 0.1 * 0.9**i, 0.01)
        same(found, expected)
    assert graphs(f) == 2


def test_a_training_step_with_a_loss_weight_and_a_limit():
    def run(compiles):
        net = torch.nn.Linear(3, 2)
        with torch.no_grad():
            for p in net.parameters():
                p.copy_(torch.linspace(-1, 1, p.numel()).reshape(p.shape))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

        def train(t, weight, limit):
            optimizer.zero_grad()
            loss = (net(t) ** 2).mean() * weight
            loss.backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), limit)
            optimizer.step()
            return loss, weight * 2

        f = torch.compile(train, fullgraph=True) if compiles else train
        found = [f(torch.linspace(0, 1, 6).reshape(2, 3), 1.52 - i / 20, 0.05 + i / 100) for i in range(20)]
        return f, [(loss.item(), twice) for loss, twice in found], list(net.parameters())

    f, *found = run(True)
    _, *expected = run(False)
    for (loss, twice), (expected_loss, expected_twice) in zip(found[0], expected[0], strict=True):
        assert loss == pytest.approx(expected_loss) and twice == expected_twice
    same(found[1], expected[1])
    assert graphs(f) == 2


# --- nothing is left over ---------------------------------------------------------------------------------------------


def test_programs_get_plain_numbers_back():
    kept = []

    def function(t, a):
        b = a * 2
        if kept is not None and a == 0.4:
            kept.append(b)  # not one graph
        return t * b, b, [b], {"b": (b, a)}, Options(b), Pair(a, b)

    f = torch.compile(function)
    for a in (0.1, 0.2, 0.3, 0.4, 0.5):
        _, b, items, table, options, pair = f(x(), a)
        for value in (b, *items, *table["b"], options.scale, *pair):
            assert type(value) is float
    assert [type(v) for v in kept] == [float]


def test_objects_from_outside_get_plain_numbers():
    class Log:
        last = 0.0

    log = Log()

    def function(t, a):
        log.last = a * 2
        return t * a

    f = torch.compile(function, dynamic=True)
    for a in (0.1, 0.2, 0.3):
        f(x(), a)
        assert type(log.last) is float and log.last == a * 2


def test_a_user_backend_gets_graphs_of_constants():
    seen = []

    def backend(module, inputs):
        seen.append(len(inputs))
        return module

    f = torch.compile(lambda t, a: t * a, backend=backend, dynamic=True)
    for a in (0.1, 0.2, 0.3):
        same(f(x(), a), x() * a)
    assert seen == [1, 1, 1]


def test_explain_names_the_numbers():
    f = torch.compile(lambda t, a, n: torch.tanh(t) * a + t[n], dynamic=True)
    text = str(f.explain(x(), 0.25, 2))
    assert "n[0] is args[1], 0.25 in this call: an argument of the graph" in text
    assert "n[1] is args[2], 2 in this call: its value is a guard" in text
    assert "mul.Tensor(%1, n[0])" in text


def test_the_loops_do_not_contain_the_value():
    programs = []
    for values in ((0.1, 0.2), (0.3, 0.4)):
        f = torch.compile(lambda t, a: torch.tanh(t) * (a - 1))
        for a in values:
            f(x(), a)
        programs.append([k.program for k in optimized_of(f).entries[0].compiled.forward.kernels])
    assert programs[0] == programs[1]


def test_more_sizes_do_not_count_the_values():
    f = torch.compile(lambda t, a: torch.tanh(t) * a)
    for _ in range(2):
        for n in range(1, 15):
            f(torch.ones(n), 0.1 * n + 0.05 * random.random())
    assert graphs(f) == 14 or graphs(f) == 15


# --- the numbers themselves -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0.75, 3])
@pytest.mark.parametrize(
    "read",
    [
        float, int, str, repr, math.isnan, "{:.2f}".format, "%f".__mod__, round, lambda n: round(n, 1),
        lambda n: divmod(n, 2), math.trunc, lambda n: n * 1j, lambda n: torch.tensor(n), lambda n: abs(complex(n)),
    ],
)  # fmt: skip
def test_reading_a_number_requires_its_value(value, read):
    numbers = Numbers()
    number = numbers.traced(numbers.new(value, "a"))
    assert isinstance(number, type(value)) and number.__class__ is type(value)
    found = read(number)
    assert type(found) is type(read(value)) and str(found) == str(read(value))
    assert any(c.startswith("same_") for c in numbers.conditions) and numbers.read == {0}


def test_a_number_in_the_tracer_is_no_key():
    with pytest.raises(_numbers.NumberIsKeyError):
        hash(Numbers((0.5,)).standing_for("n[0]"))


def test_sources_give_the_value_of_other_calls():
    numbers = Numbers()
    a, b = numbers.new(0.5, "a"), numbers.new(3, "b")
    assert (type(a), type(b)) == (FreeFloat, FreeInt)
    for function in (
        lambda a, b: (a + b) * 2 - 1 / a,
        lambda a, b: -(a**b) % 0.7,
        lambda a, b: b // 2 + a // 0.3,
        lambda a, b: abs(-b) + 2**b + b - 2.5 * a,
    ):
        found = function(a, b)
        assert found.value == function(0.5, 3)
        for other in ((0.25, 7), (1e10, -2), (-3.5, 1)):
            values = numbers.values
            numbers.values = list(other)
            assert _numbers.evaluated(found.source, other) == function(*other)
            numbers.values = values


# --- random programs --------------------------------------------------------------------------------------------------

OF_NUMBERS = [
    lambda a, b: a + b, lambda a, b: a - 2 * b, lambda a, b: a * b, lambda a, b: a / (b * b + 1), lambda a, b: -a,
    lambda a, b: abs(a) ** 0.5, lambda a, b: min(a, b), lambda a, b: max(a, 0.1 * b), lambda a, b: math.tanh(a),
    lambda a, b: a if a > b else b, lambda a, b: 1 - a, lambda a, b: a // (abs(b) + 0.25),
]  # fmt: skip
OF_BOTH = [
    lambda t, u, a: t * a + u, lambda t, u, a: t / (a * a + 0.5), lambda t, u, a: a - t, lambda t, u, a: u.clamp(max=a),
    lambda t, u, a: torch.add(t, u, alpha=a), lambda t, u, a: torch.lerp(t, u, a), lambda t, u, a: torch.tanh(t) * a,
    lambda t, u, a: (t.abs() + 0.5) ** a, lambda t, u, a: F.leaky_relu(t, a), lambda t, u, a: torch.where(t > a, t, u),
    lambda t, u, a: torch.addcmul(t, u, u, value=a), lambda t, u, a: (t * a).softmax(-1),
    lambda t, u, a: t.clone().mul_(a),
    lambda t, u, a: t.masked_fill(u > a, a), lambda t, u, a: t + torch.full_like(u, a), lambda t, u, a: t.sum(0) * a,
]  # fmt: skip


def random_program(rng: random.Random):
    steps = [
        (rng.random() < 0.4, rng.randrange(1000), rng.randrange(1000), rng.randrange(1000))
        for _ in range(rng.randint(3, 10))
    ]

    def run(t, u, a, b):
        numbers, tensors = [a, b], [t * 1, u * 1]
        for of_numbers, which, first, second in steps:
            x, y = numbers[first % len(numbers)], numbers[second % len(numbers)]
            if of_numbers:
                numbers.append(OF_NUMBERS[which % len(OF_NUMBERS)](x, y))
            else:
                pair = tensors[first % len(tensors)], tensors[second % len(tensors)]
                tensors.append(OF_BOTH[which % len(OF_BOTH)](*pair, y))
        return [v * 1 for v in tensors[-2:]], numbers

    return run


@pytest.mark.parametrize(("seed", "backend"), in_turn(range(18), BACKENDS))
def test_random_programs_equal_eager(seed, backend):
    run = random_program(random.Random(seed))
    f = torch.compile(run, backend=backend)
    rng = random.Random(seed)
    for _ in range(8):
        a, b = rng.choice((rng.uniform(-2, 2), rng.choice(SPECIAL[:10]))), rng.uniform(-1, 1)
        found = []
        for function in (f, run):
            leaves = [torch.linspace(-1, 2, 12).reshape(3, 4).requires_grad_(), torch.ones(3, 4).requires_grad_()]
            tensors, numbers = function(*leaves, a, b)
            grads = torch.autograd.grad([t.sum() for t in tensors], leaves, allow_unused=True)
            found.append(([t.detach() for t in tensors], numbers, list(grads)))
        assert repr(found[0][1]) == repr(found[1][1])
        for mine, theirs in zip(found[0][0] + found[0][2], found[1][0] + found[1][2], strict=True):
            assert (mine is None) == (theirs is None)
            if mine is not None:
                scale = max(1.0, theirs.nan_to_num().abs().max().item())
                torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5 * scale, equal_nan=True)
    assert optimized_of(f).calls[0] or optimized_of(f).breaks


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32])
@pytest.mark.parametrize("function", [torch.fmod, torch.remainder, torch.floor_divide])
def test_infinite_divisors(function, dtype, backend):
    a = torch.tensor([1.9375, -1.0, 0.0, 7.3, 20, -1, 3, 100] * 3).to(dtype)
    values = (0.3, math.inf, -math.inf, 1e39, -0.7)
    check(lambda a, k: function(a, k), values, 8, a, backend=backend, dynamic=True)
    divisors = torch.tensor([math.inf, -math.inf, 2.0] * 8, dtype=torch.float64)
    f = torch.compile(lambda a, b: function(a, b) * 1, backend=backend)
    for _ in range(2):
        same(f(a, divisors), function(a, divisors) * 1)


IN_HALF_PRECISION = {
    "fmod": lambda a, k: torch.fmod(a, k),
    "remainder": lambda a, k: a % k,
    "remainder of a number": lambda a, k: torch.remainder(k, a),
    "floor_divide": lambda a, k: a // k,
    "pow": lambda a, k: a**k,
    "pow of a number": lambda a, k: torch.pow(k, a.clamp(-2, 2)),
    "clamp": lambda a, k: a.clamp(min=k),
    "alpha": lambda a, k: torch.add(a, a, alpha=k),
    "masked_fill": lambda a, k: a.masked_fill(a > 0, k),
    "fill": lambda a, k: torch.full_like(a, k) + a,
    "mul": lambda a, k: a * k,
}


@pytest.mark.parametrize("backend", ["numpy", *["llvm"] * has_llvm()])
@pytest.mark.parametrize("name", IN_HALF_PRECISION)
def test_half_precision_rounds_and_refuses_numbers_as_in_eager_mode(name, backend):
    function = IN_HALF_PRECISION[name]
    a = torch.tensor([1.9375, -1.0, 7.3, 20, -1, 3, 100, 0.1]).half()
    for values in ((0.1, 0.3, 1e-40, 2049.0, 70000.0), (2, 3, 70000, 2**60)):
        f = torch.compile(function, backend=backend, dynamic=True)
        for value in values:
            same(outcome(f, a, value), outcome(function, a, value))
    for value in (0.1, 1e-40):
        f = torch.compile(function, backend=backend, dynamic=False)
        for _ in range(2):
            same(outcome(f, a, value), outcome(function, a, value))


def test_functions_that_are_not_followed_get_plain_numbers():
    space = {"torch": torch}
    exec("def unseen(a, k): return a + torch.tensor(k), type(k)", space)
    unseen = space["unseen"]
    for dynamic in (True, None):
        f = torch.compile(lambda a, k: unseen(a, k * 2), dynamic=dynamic)
        for k in (0.5, 1.5, 2, 3):
            same(f(x(), k), unseen(x(), k * 2))


Nested = namedtuple("Nested", "first second")


@pytest.mark.parametrize(
    "wrap, read",
    [
        (lambda v: [(v, 1)], lambda c: c[0][0]),
        (lambda v: [[(v, 1)], 2], lambda c: c[0][0][0]),
        (lambda v: {"k": (v,)}, lambda c: c["k"][0]),
        (lambda v: {"k": (v,)}, lambda c: sum(c["k"])),
        (lambda v: Nested((v,), 2), lambda c: c.first[0]),
        (lambda v: [((v,), 1)], lambda c: [n for pair in c for n in pair[0]][0]),
        (lambda v: [(v, 1)], lambda c: float(str(c)[2:5])),
        (lambda v: [(v, 1)], lambda c: sorted(c)[0][0]),
        (lambda v: [(v, 1)], lambda c: 3.5 if (3.5, 1) in c else float(str(c[0][0]))),
        (lambda v: [(v, 1)], lambda c: torch.tensor(c)[0, 0]),
    ],
)
def test_numbers_of_tuples_in_other_containers(wrap, read):
    compiled = torch.compile(lambda x, c: x * read(c), backend="numpy")
    for value in (1.5, 2.5, 3.5, 4.5, 1.5):
        assert compiled(torch.ones(2), wrap(value))[0].item() == value
