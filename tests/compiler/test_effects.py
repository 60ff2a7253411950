"""Side effects, data-dependent Python and whatever else no graph can hold are left to Python; nothing is lost."""

from __future__ import annotations

import subprocess
import sys
import threading
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest

import gradloom as torch
from gradloom import nn
from gradloom.compiler._api import optimized_of
from tests.waiting import LIMIT, in_threads

LOG: list = []
COUNT = 0


def compiled(function, **options):
    return torch.compile(function, backend="numpy", **options)


def counts_globally(x):
    global COUNT
    COUNT += 1
    return x + COUNT


def appends(x):
    LOG.append(x.shape)
    return x * 2


def prints(x):
    print("called")
    return x * 2


def branches(x):
    if x.sum() > 0:
        return x * 2
    return x - 1


def loops(x):
    while x.max() < 10:
        x = x * 2
    return x


def takes_item(x):
    return x * x.sum().item()


def uses_numpy(x):
    return torch.from_numpy(x.numpy() * 2)


def iterates(x):
    return sum(float(v) for v in x) + x


def formats(x):
    return x + len(f"{x}")


def catches(x):
    try:
        return torch.linalg.cholesky(x.reshape(2, 2))
    except RuntimeError:
        return x * 0


def selects(x):
    return x[x > 0].sum() + x


def nonzero(x):
    return x.nonzero().float().sum() + x


@pytest.mark.parametrize(
    "function", [branches, loops, takes_item, uses_numpy, iterates, formats, catches, selects, nonzero]
)
def test_what_depends_on_values_is_right_for_each(function):
    f = compiled(function)
    for values in ([1.0, 2.0, 2.0, 5.0], [-1.0, 2.0, -3.0, 11.0], [4.0, 1.0, 1.0, 3.0], [5.0, 2.0, 2.0, 30.0]):
        for _ in range(2):
            x = torch.tensor(values)
            torch.testing.assert_close(f(x), function(x.clone()))
    with pytest.raises(RuntimeError, match=r"test_effects\.py:\d+"):
        compiled(function, fullgraph=True)(torch.tensor([1.0, 2.0, 2.0, 5.0]))


def test_side_effects_happen_in_every_call(capsys):
    x = torch.ones(3)
    f = compiled(appends)
    LOG.clear()
    for _ in range(4):
        f(x)
    assert len(LOG) == 4
    g = compiled(prints)
    for _ in range(12):
        g(x)
    assert capsys.readouterr().out == "called\n" * 12
    h = compiled(counts_globally)
    assert [h(x)[0].item() for _ in range(3)] == [2, 3, 4]


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        self.calls += 1
        self.last = self.linear(x)
        return self.last * self.calls


def test_attributes_are_set_in_every_call():
    net = Counter()
    f = torch.compile(net, backend="numpy")
    x = torch.ones(2, 3)
    for number in range(1, 12):
        torch.testing.assert_close(f(x), net.linear(x) * number)
        assert net.calls == number and net.last.shape == (2, 3)


def test_fresh_objects_may_change():
    class Accumulator:
        def __init__(self):
            self.total, self.parts = 0, []

        def add(self, x):
            self.total = self.total + x
            self.parts.append(x)

    def f(x):
        a = Accumulator()
        for i in range(3):
            a.add(x * i)
        d = {}
        d["x"] = a.total
        d["x"] += 1
        return d["x"], a.parts

    g = compiled(f)
    x = torch.ones(3)
    for _ in range(3):
        torch.testing.assert_close(g(x), f(x))
    assert optimized_of(g).calls[0] == 2
    assert g(x)[1] is not g(x)[1]


def test_an_exception_in_the_middle():
    def f(x, y):
        x.add_(1)
        return x @ y

    g = compiled(f)
    x = torch.ones(3)
    with pytest.raises(RuntimeError):
        g(x, torch.ones(4))
    assert x.sum() == 6
    for _ in range(3):
        torch.testing.assert_close(g(x.clone(), torch.ones(3)), f(x.clone(), torch.ones(3)))


def test_an_error_of_a_kernel_is_that_of_eager():
    def f(table, i):
        return table[i] * 2

    g = compiled(f)
    table = torch.arange(4.0)
    for _ in range(2):
        assert g(table, torch.tensor([3])).item() == 6
    with pytest.raises(IndexError):
        g(table, torch.tensor([9]))
    assert g(table, torch.tensor([-1])).item() == 6


def test_recursion_and_compiled_functions_in_compiled_functions():
    @torch.compile(backend="numpy")
    def inner(x):
        return x.sin() * 2

    @torch.compile(backend="numpy")
    def outer(x, depth):
        if depth == 0:
            return inner(x)
        return outer(x * 2, depth - 1) + 1

    x = torch.ones(3)
    for _ in range(3):
        torch.testing.assert_close(outer(x, 2), (x * 4).sin() * 2 + 2)
    assert optimized_of(outer).calls[0] == 2


def test_threads():
    net = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2))
    f = torch.compile(net, backend="numpy")
    inputs = [torch.randn(5, 4) for _ in range(8)]
    expected = [net(x) for x in inputs]
    wrong = []

    def work(i):
        for _ in range(10):
            if not torch.allclose(f(inputs[i]), expected[i], atol=1e-6):
                wrong.append(threading.get_ident())

    in_threads(*[lambda i=i: work(i) for i in range(8)])
    assert wrong == []


def test_modes_see_every_operator():
    from gradloom.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    def f(x):
        return x.sin() * 2

    g = compiled(f)
    x = torch.ones(2)
    g(x)
    g(x)
    with Mode():
        g(x)
    assert seen == ["aten.sin.default", "aten.mul.Tensor"]


def test_disable_and_graph_break():
    @torch.compiler.disable
    def secret(x):
        return x * 3

    def f(x):
        return secret(x) + 1

    def broken(x):
        x = x * 2
        torch._dynamo.graph_break()
        return x + 1

    for function in (f, broken):
        g = compiled(function)
        for _ in range(3):
            torch.testing.assert_close(g(torch.ones(2)), function(torch.ones(2)))
        assert optimized_of(g).calls[0] == 0
        with pytest.raises(RuntimeError, match="fullgraph"):
            compiled(function, fullgraph=True)(torch.ones(2))
    assert torch.compile(f, disable=True) is f
    with torch.compiler.set_stance("force_eager"):
        h = compiled(lambda x: x * 2)
        h(torch.ones(2))
        assert optimized_of(h).calls == [0, 0]


def test_a_defect_of_the_compiler_leaves_the_call_to_python(monkeypatch):
    def broken(*_):
        raise ZeroDivisionError("planted")

    monkeypatch.setattr("gradloom.compiler._entry.Backend.entry", broken)
    x = torch.ones(3)
    compiled = torch.compile(lambda x: x + 1)
    with pytest.warns(UserWarning, match="runs as Python, because the compiler failed with ZeroDivisionError: planted"):
        assert torch.equal(compiled(x), x + 1)
    with pytest.raises(ZeroDivisionError, match="planted"):
        torch.compile(lambda x: x + 1, fullgraph=True)(x)


def test_an_operator_without_derivative_is_left_to_python():
    def f(x):
        return torch.special.zeta(x, torch.full((3,), 2.0))

    g, x = compiled(f), torch.full((3,), 3.0, requires_grad=True)
    for _ in range(2):  # without a warning
        torch.testing.assert_close(g(x), f(x))
    assert optimized_of(g).calls == [0, 2]
    assert "the derivative for 'zeta' is not implemented" in optimized_of(g).breaks[0][1]


def test_infinity_among_integers():
    g, x = compiled(torch.isposinf), torch.arange(3)
    for _ in range(2):  # without a warning
        torch.testing.assert_close(g(x), torch.isposinf(x))


@pytest.mark.parametrize("exponent", [2, 3, -2, 3.0])
def test_small_powers_are_products_as_in_the_kernel(exponent):
    def f(x):
        return x**exponent

    g, x = compiled(f), torch.randn(100)
    for _ in range(2):
        assert torch.equal(g(x), f(x))
    assert optimized_of(g).calls == [1, 1]


class Pair(NamedTuple):
    first: object
    second: object

    def total(self):
        return self.first + self.second

    @property
    def product(self):
        return self.first * self.second


def uses_named_results(x):
    return x.max(1).values + x.sort(1).values[:, 0] + torch.linalg.qr(x).R[:, 0]


def uses_a_named_tuple(x):
    pair = Pair(x * 2, x + 1)
    return pair.total() * pair.product


@pytest.mark.parametrize("function", [uses_named_results, uses_a_named_tuple])
def test_named_tuples_are_followed(function):
    f = compiled(function, fullgraph=True)
    for _ in range(3):
        x = torch.randn(4, 4)
        torch.testing.assert_close(f(x), function(x))
    assert optimized_of(f).calls == [2, 1]


def test_a_method_may_be_used_for_the_first_time(tmp_path):
    file = tmp_path / "program.py"  # in a process of its own: methods are bound when they are first used
    file.write_text(
        "import gradloom as torch\n\n\n"
        "@torch.compile(fullgraph=True)\ndef f(x):\n    return x.kthvalue(1).values\n\n\n"
        "f(torch.ones(3))\n"
    )
    subprocess.run([sys.executable, str(file)], check=True, timeout=LIMIT)


@dataclass
class Sample:
    x: torch.Tensor
    weight: float = 1.0
    notes: list = field(default_factory=list)

    def weighted(self):
        return self.x * self.weight


def makes_a_data_class(sample):
    return Sample(sample.weighted() + 1, sample.weight), sample


def test_data_classes_are_arguments_and_results():
    f = compiled(makes_a_data_class, fullgraph=True)
    for i in range(4):
        given = Sample(torch.full((2,), float(i)), 2.0)
        made, same = f(given)
        assert same is given and type(made) is Sample
        torch.testing.assert_close(made.x, given.x * 2 + 1)
        assert (made.weight, made.notes) == (2.0, []) and made.notes is not given.notes
    assert optimized_of(f).calls == [3, 1]
    torch.testing.assert_close(f(Sample(torch.ones(2), 3.0))[0].x, torch.full((2,), 4.0))


@pytest.mark.parametrize("make", [lambda t: [t], lambda t: (t, 1), lambda t: {"t": t}, lambda t: [{"t": (t,)}]])
def test_arguments_that_are_returned_are_those_of_the_call(make):
    f = compiled(lambda x, container: (x + 1, {"same": container}), fullgraph=True)
    for i in range(3):
        container = make(torch.full((2,), float(i)))
        assert f(torch.ones(2), container)[1]["same"] is container
    assert optimized_of(f).calls == [2, 1]


def test_one_container_in_two_places_is_not_two():
    f = compiled(lambda x, a, b: (x + 1, b))
    t, u = torch.ones(1), torch.zeros(1)
    a = [t]
    assert f(u, a, a)[1] is a
    b = [t]
    assert f(u, a, b)[1] is b


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))
        self.register_buffer("total", torch.zeros(2))

    def forward(self, x):
        self.steps += 1
        self.total *= 0.5
        return torch.tanh(x) * self.total + x


def test_buffers_that_are_changed_in_place_do_not_break_the_graph():
    plain, module = Counting(), Counting()
    f = compiled(module, fullgraph=True)
    for _ in range(4):
        x = torch.randn(2)
        torch.testing.assert_close(f(x), plain(x))
    assert module.steps == 4 and optimized_of(f).calls == [3, 1]


@pytest.mark.parametrize("name", ["max", "min", "median"])
def test_the_gradient_of_an_extremum_reads_no_values(name):
    f = compiled(lambda x: getattr(torch.sin(x) * 2, name)(), fullgraph=True)
    for values in ([0.1, 0.5, 0.5], [0.3, 0.2, 0.1], [float("nan"), 0.2, float("nan")]):
        x, y = (torch.tensor(values, requires_grad=True) for _ in range(2))
        f(x).backward()
        getattr(torch.sin(y) * 2, name)().backward()
        torch.testing.assert_close(x.grad, y.grad, equal_nan=True)
