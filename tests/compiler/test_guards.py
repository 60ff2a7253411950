"""What a compiled function read from outside is guarded: changing it changes the result, as in eager mode.

Every attack compiles a function, runs its graph, changes something, and compares with the function itself.
"""

from __future__ import annotations

import copy
import functools
import operator
import sys

import pytest

import gradloom as torch
from gradloom import nn
from gradloom.compiler._api import optimized_of

SCALE = 2.0
TABLE = {"a": 1.0, "b": 2.0}
LAYERS = [1.0, 2.0]
SHIFTS = {0, 8}
BIAS = torch.ones(4)


pytestmark = pytest.mark.usefixtures("each_backend")


compiled = torch.compile


def graphs_run(function) -> int:
    return optimized_of(function).calls[0]


def same(function, original, *args, **kwargs):
    """Call both on equal arguments and compare results and gradients."""
    found = function(*copy.deepcopy(args), **kwargs)
    expected = original(*copy.deepcopy(args), **kwargs)
    torch.testing.assert_close(found, expected)


def uses_global(x):
    return x * SCALE


def uses_dict(x):
    return x * TABLE["a"] + len(TABLE)


def uses_dict_in_order(x):
    for value in TABLE.values():
        x = x * 2 + value
    return x


def uses_list(x):
    for value in LAYERS:
        x = x * 2 + value
    return x


def uses_set(x):
    for value in SHIFTS:
        x = x * 2 + value
    return x


def uses_tensor(x):
    return x + BIAS


def helper(x):
    return x.sin()


def calls_helper(x):
    return helper(x) * 2


@pytest.mark.parametrize(
    ("function", "change"),
    [
        (uses_global, lambda m: m.setitem(globals(), "SCALE", 3.0)),
        (uses_global, lambda m: m.setitem(globals(), "SCALE", 2)),
        (uses_dict, lambda m: m.setitem(TABLE, "a", 5.0)),
        (uses_dict, lambda m: m.setitem(TABLE, "c", 5.0)),
        (uses_dict_in_order, lambda m: m.setitem(globals(), "TABLE", {"b": 2.0, "a": 1.0})),
        (uses_list, lambda m: m.setitem(globals(), "LAYERS", [1.0, 2.0, 3.0])),
        (uses_list, lambda m: m.setattr(sys.modules[__name__], "LAYERS", LAYERS.append(7.0) or LAYERS)),
        (uses_set, lambda m: (SHIFTS.clear(), SHIFTS.update([8, 0]))),  # equal, in another order
        (uses_set, lambda m: (SHIFTS.clear(), SHIFTS.update([0, 8]))),
        (uses_tensor, lambda m: m.setitem(globals(), "BIAS", torch.zeros(4))),
        (calls_helper, lambda m: m.setitem(globals(), "helper", torch.cos)),
        (calls_helper, lambda m: m.setattr(helper, "__code__", (lambda x: x.cos()).__code__)),
        (calls_helper, lambda m: m.setitem(globals(), "len", max)),
        (calls_helper, lambda m: m.setattr(torch, "float32", torch.float32)),
    ],
)
def test_what_is_read_may_change(function, change, monkeypatch):
    f = compiled(function)
    x = torch.arange(4.0)
    for _ in range(3):
        same(f, function, x)
    assert graphs_run(f) == 2
    change(monkeypatch)
    for _ in range(2):
        same(f, function, x)


class Config:
    scale = 1.0

    def __init__(self):
        self.power = 2

    @property
    def doubled(self):
        return self.power * 2

    def apply(self, x):
        return x * self.scale


def with_config(x, config):
    return config.apply(x) ** config.power + config.doubled


@pytest.mark.parametrize(
    "change",
    [
        lambda m, c: m.setattr(c, "power", 3),
        lambda m, c: m.setattr(c, "scale", 3.0, raising=False),
        lambda m, c: m.setattr(Config, "scale", 3.0),
        lambda m, c: m.setattr(Config, "apply", lambda self, x: x - 1),
        lambda m, c: m.setattr(c, "apply", lambda x: x - 1),
        lambda m, c: m.setattr(Config, "doubled", 7),
    ],
)
def test_attributes_of_an_object_may_change(change, monkeypatch):
    f, config = compiled(with_config), Config()
    x = torch.arange(4.0)
    for _ in range(3):
        torch.testing.assert_close(f(x, config), with_config(x, config))
    assert graphs_run(f) == 2
    change(monkeypatch, config)
    for _ in range(2):
        torch.testing.assert_close(f(x, config), with_config(x, config))


class Chosen:
    """A descriptor that gives one of two functions."""

    double = True

    def __get__(self, owner, cls):
        return (lambda x: x * 2) if Chosen.double else (lambda x: x * 3)


class Owner:
    apply = Chosen()


def test_a_descriptor_may_give_something_else(monkeypatch):
    def f(x, owner):
        return owner.apply(x)

    g, x, owner = compiled(f), torch.ones(3), Owner()
    for _ in range(3):
        torch.testing.assert_close(g(x, owner), f(x, owner))
    monkeypatch.setattr(Chosen, "double", False)
    torch.testing.assert_close(g(x, owner), f(x, owner))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 5)
        self.norm = nn.BatchNorm1d(5)
        self.drop = nn.Dropout(0.5)
        self.blocks = nn.ModuleList([nn.Linear(5, 5) for _ in range(2)])
        self.register_buffer("shift", torch.ones(5))
        self.scale = 2.0

    def forward(self, x):
        x = self.norm(self.first(x)).relu()
        for block in self.blocks:
            x = x + block(x)
        return self.drop(x) * self.scale + self.shift


CHANGES = {
    "eval": lambda net: net.eval(),
    "attribute": lambda net: setattr(net, "scale", 3.0),
    "parameter": lambda net: setattr(net.first, "weight", nn.Parameter(torch.ones(5, 4))),
    "parameter in place": lambda net: net.first.weight.data.fill_(1.0),
    "data": lambda net: setattr(net.first.weight, "data", torch.ones(5, 4)),
    "frozen": lambda net: net.first.weight.requires_grad_(False),
    "buffer": lambda net: setattr(net, "shift", torch.zeros(5)),
    "another module": lambda net: setattr(net, "first", nn.Linear(4, 5, bias=False)),
    "a module of a list": lambda net: net.blocks.__setitem__(0, nn.Identity()),
    "a longer list": lambda net: net.blocks.append(nn.Linear(5, 5)),
    "dtype": lambda net: net.double(),
    "forward": lambda net: setattr(net.first, "forward", lambda x: x.new_zeros(x.shape[0], 5)),
    "momentum": lambda net: setattr(net.norm, "momentum", 0.5),
    "eps": lambda net: setattr(net.norm, "eps", 0.5),
    "rate": lambda net: setattr(net.drop, "p", 0.1),
    "forward hook": lambda net: net.first.register_forward_hook(lambda m, i, o: o * 2),
    "pre-hook": lambda net: net.blocks[0].register_forward_pre_hook(lambda m, i: (i[0] * 2,)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_module_may_change(name):
    torch.manual_seed(0)
    net = Net()
    other = copy.deepcopy(net)
    f = compiled(net)

    def both():
        # Not linspace(-1, 1): a batch along one line makes gradients through batch norm differences of rounding errors.
        x = torch.linspace(-7, 7, 24).sin().reshape(6, 4).to(net.norm.weight.dtype)
        for each in (net, other):
            each.zero_grad()
        torch.manual_seed(1)
        found = f(x)
        torch.manual_seed(1)
        expected = other(x)
        torch.testing.assert_close(found, expected)
        found.sum().backward()
        expected.sum().backward()
        for a, b in zip(net.parameters(), other.parameters(), strict=True):
            assert (a.grad is None) == (b.grad is None)
            if a.grad is not None:  # differences of sums over the batch: errors scale with the largest
                torch.testing.assert_close(a.grad, b.grad, rtol=0, atol=2e-5 * max(1.0, float(b.grad.abs().max())))
        for a, b in zip(net.buffers(), other.buffers(), strict=True):
            torch.testing.assert_close(a, b)

    for _ in range(3):
        both()
    assert graphs_run(f) == 2
    for each in (net, other):
        torch.manual_seed(2)
        CHANGES[name](each)
    for _ in range(3):
        both()


def test_closures_may_change():
    factor = 2.0

    def scaled(x):
        return x * factor

    f = compiled(scaled)
    x = torch.ones(3)
    assert f(x).sum() == f(x).sum() == 6 and graphs_run(f) == 1
    factor = 5.0
    assert f(x).sum() == 15


@pytest.mark.parametrize(
    "args",
    [
        (torch.ones(3, 4), torch.ones(4)),
        (torch.ones(4, 3).t(), torch.ones(4)),
        (torch.ones(3, 4, dtype=torch.float64), torch.ones(4)),
        (torch.ones(3, 4, requires_grad=True), torch.ones(4)),
        (torch.ones(5, 4), torch.ones(4)),
        (torch.ones(3, 4), torch.ones(1)),
        (torch.ones(3, 4, dtype=torch.int64), torch.ones(4, dtype=torch.int64)),
        (torch.ones(3, 4), 2),
        (torch.ones(3, 4), 2.0),
        (torch.ones(3, 4), True),
        (torch.ones(3, 4), nn.Parameter(torch.ones(4))),
        (torch.ones(3, 4)[:, :4], torch.ones(8)[::2]),
    ],
)
def test_arguments_of_another_kind(args):
    def f(x, y):
        return (x * y + x.shape[0]).sum(0)

    g = compiled(f)
    for _ in range(2):
        g(torch.full((3, 4), 3.0), torch.full((4,), 2.0))
    for _ in range(2):
        found, expected = g(*args), f(*args)
        torch.testing.assert_close(found, expected)
        assert found.requires_grad == expected.requires_grad and found.stride() == expected.stride()


def test_grad_mode_and_default_dtype():
    def f(x):
        return torch.zeros(3) + x.mul(2), torch.is_grad_enabled()

    g = compiled(f)
    x = torch.ones(3, requires_grad=True)
    for _ in range(2):
        assert g(x)[0].requires_grad and g(x)[1]
        with torch.no_grad():
            assert not g(x)[0].requires_grad and not g(x)[1]
    torch.set_default_dtype(torch.float64)
    try:
        assert g(x)[0].dtype is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_one_tensor_twice():
    def f(x, y):
        x.add_(1)
        return x * y

    g = compiled(f)
    for _ in range(3):
        same(g, f, torch.ones(3), torch.full((3,), 3.0))
    assert graphs_run(g) == 2
    a, b = torch.ones(3), torch.ones(3)
    torch.testing.assert_close(g(a, a), f(b, b))
    torch.testing.assert_close(a, b)
    whole, again = torch.ones(4), torch.ones(4)
    torch.testing.assert_close(g(whole[:3], whole[1:]), f(again[:3], again[1:]))
    torch.testing.assert_close(whole, again)


def test_lambdas_on_one_line():
    pair = [lambda x: (lambda x: x.cos())(x) + 1, lambda x: x.sin()]
    inner = [lambda x: x + 1, (lambda x: lambda x: x * 3)(0), lambda x: x - 1]
    x = torch.ones(3)
    for f in (*pair, *inner):
        g = compiled(f)
        for _ in range(3):
            torch.testing.assert_close(g(x), f(x))
        assert graphs_run(g) == 2


def test_nested_arguments():
    def f(parts, *, options):
        total = parts["x"] * options[0]
        for t in parts["more"]:
            total = total + t
        return {"total": total, "list": [total, parts["x"]], "none": None}

    g = compiled(f)
    x = torch.ones(3)
    for args in (
        ({"x": x, "more": [x, x]}, {"options": (2.0,)}),
        ({"x": x, "more": [x, x]}, {"options": (2.0,)}),
        ({"x": x, "more": [x, 2 * x]}, {"options": (3.0,)}),
        ({"x": x, "more": [x]}, {"options": (2.0,)}),
        ({"more": [x], "x": x}, {"options": (2.0,)}),
    ):
        found, expected = g(args[0], **args[1]), f(args[0], **args[1])
        torch.testing.assert_close(found["total"], expected["total"])
        assert found["list"][1] is x and found["list"][0] is found["total"] and found["none"] is None


@pytest.mark.parametrize("function", [lambda x: torch.sin(x) * 2, lambda x: x * 2 + 1, lambda x: (x @ x) + 1])
@pytest.mark.parametrize("part", [lambda z: z, lambda z: z.imag])
def test_conjugate_and_negative_bits(function, part, recwarn):
    z = torch.complex(torch.linspace(-1, 1, 9).view(3, 3), torch.ones(3, 3))
    f = compiled(function)
    for x in (part(z), part(z), part(z.conj()), part(z.conj()), part(z)):
        torch.testing.assert_close(f(x), function(x))
    assert graphs_run(f) >= 2
    assert not [w for w in recwarn.list if "runs as Python" in str(w.message)]


def test_a_conjugate_within_is_a_reason_to_run_as_python(recwarn):
    def f(x):
        return (torch.complex(x, x) * (1 + 2j)).real

    g = compiled(f)
    for _ in range(3):
        x = torch.ones(3, requires_grad=True)
        y = g(x)
        y.sum().backward()
        torch.testing.assert_close(x.grad, torch.full((3,), -1.0))
    assert "conjugate" in optimized_of(g).breaks[0][1]
    assert not [w for w in recwarn.list if "runs as Python" in str(w.message)]


def uses_method(x):
    return torch.sigmoid(x) + x.tanh()


@pytest.mark.parametrize("name", ["tanh", "__add__"])
def test_methods_of_tensors_may_change(name, monkeypatch):
    function, x = compiled(uses_method), torch.ones(4)
    for _ in range(3):
        same(function, uses_method, x)
    assert graphs_run(function) == 2
    with monkeypatch.context() as patched:
        patched.setattr(torch.Tensor, name, lambda self, *_: self * 10)
        for _ in range(3):
            same(function, uses_method, x)
    same(function, uses_method, x)


def sets_an_item(x):
    y = x * 1
    y[0] = 2
    return y


def unpacks(x):
    a, b = x
    return a * b


def multiplies_in_place(x):
    y = x.reshape(2, 1) * x
    y @= y
    return y


def adds_in_place(x):
    y = 2
    y += x
    return y


# What Tensor has under a name, what replaces it, and a program that uses it without calling it by its name.
MEMBERS = [
    ("__abs__", lambda self: self * 10, abs),
    ("__abs__", lambda self: self * 10, lambda x: operator.abs(x)),
    ("__gt__", lambda self, other: self * 10, lambda x: 0 < x),
    ("__ge__", lambda self, other: self * 10, lambda x: 0 <= x),
    ("__lt__", lambda self, other: self * 10, lambda x: 0 > x),
    ("__le__", lambda self, other: self * 10, lambda x: 0 >= x),
    ("__eq__", lambda self, other: self * 10, lambda x: 0 == x),
    ("__ne__", lambda self, other: self * 10, lambda x: 0 != x),
    ("__eq__", lambda self, other: True, lambda x: x * (2 if x == None else 3)),  # noqa: E711
    ("__add__", torch.Tensor.__mul__, lambda x: x + 3),
    ("__add__", lambda self, other: self * 10, lambda x: operator.add(x, 3)),
    ("__radd__", lambda self, other: self * 10, adds_in_place),
    ("__rpow__", lambda self, other: self * 10, lambda x: pow(2, x)),
    ("__matmul__", lambda self, other: self * 10, multiplies_in_place),
    ("__setitem__", lambda self, index, value: None, sets_an_item),
    ("__len__", lambda self: 10, lambda x: len(x) * x),
    ("__iter__", lambda self: iter([self, self]), lambda x: [v * 2 for v in [*x]]),
    ("__iter__", lambda self: iter([self, self]), unpacks),
    ("__iter__", lambda self: iter([self, self]), lambda x: sum(x)),
    ("shape", property(lambda self: (10,)), lambda x: x * x.shape[0]),
    ("device", "elsewhere", lambda x: x * len(str(x.device))),
    ("T", property(lambda self: self * 10), lambda x: x.reshape(2, 1).T * 2),
    ("T", torch.Tensor.real, lambda x: x.reshape(2, 1).T * 2),
]


@pytest.mark.parametrize(
    ("name", "member", "program"), MEMBERS, ids=[f"{name}-{i}" for i, (name, *_) in enumerate(MEMBERS)]
)
def test_members_of_tensors_that_are_not_called_by_name_may_change(name, member, program, monkeypatch):
    def original(x):
        return program(x)

    function, x = compiled(original), torch.tensor([1.0, -2.0])
    for _ in range(3):
        same(function, original, x)
    assert graphs_run(function) == 2
    with monkeypatch.context() as patched:
        patched.setattr(torch.Tensor, name, member)
        expected = original(x)
        found = [function(x) for _ in range(3)]
    for result in found:
        torch.testing.assert_close(result, expected)
    same(function, original, x)
    assert graphs_run(function) == 3


def test_a_function_in_the_place_of_an_operator_is_followed(monkeypatch):
    original, seen = torch.sigmoid, []

    @functools.wraps(original)
    def noted(x):
        seen.append(1)
        return original(x)

    monkeypatch.setattr(torch, "sigmoid", noted)
    function = compiled(uses_method)
    for _ in range(4):
        function(torch.ones(4))
    assert len(seen) == 4


def test_an_error_after_a_write_is_seen_by_backward_passes():
    @compiled
    def add_and_take(x, index):
        x.mul_(3)
        taken = x.gather(0, index) * 2 + 1
        x.add_(1)
        return taken

    for index in (3, 3, 9):
        x, w = torch.ones(4), torch.ones(4, requires_grad=True)
        before = (w * x).sum()
        if index == 9:
            with pytest.raises(RuntimeError, match="index 9 is out of bounds"):
                add_and_take(x, torch.tensor([0, 1, 2, index]))
        else:
            add_and_take(x, torch.tensor([0, 1, 2, index]))
        assert graphs_run(add_and_take) or index == 3
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            before.backward()
