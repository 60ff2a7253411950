"""Programs that read containers, globals, modules and values of others' libraries, with changes; see reads.py."""

from __future__ import annotations

import builtins
import collections
import contextvars
import os
import random
import sys
import threading
import time
import types
from collections import ChainMap, Counter, OrderedDict, UserDict, UserList, defaultdict, deque, namedtuple

import numpy as np

import gradloom as torch
from gradloom import nn
from tests.compiler.reads import changed, item, program, python

# --- lists, tuples, sets, dictionaries --------------------------------------------------------------------------------

# What a function reads of a container, for each kind; a change of `c` between calls.
USES = {
    "list": (lambda: [1.0, 2.0], {
        "item": lambda x, c: x * c[0] + c[-1],
        "length": lambda x, c: x * len(c),
        "loop": lambda x, c: sum([x * v for v in c]),
        "member": lambda x, c: x * (2 if 2.0 in c else 3),
        "truth": lambda x, c: x * (2 if c else 3),
        "part": lambda x, c: x * sum(c[:1]),
        "whole": lambda x, c: x * max(c, default=7.0) + sum(c),
        "joined": lambda x, c: x * sum(c + [1.0]),
        "equal": lambda x, c: x * (2 if c == [1.0, 2.0] else 3),
        "unpacked": lambda x, c: x * sum([*c]) + torch.tensor(c).sum(),
        "sorted": lambda x, c: x * (sorted(c) or [5.0])[0] + (list(reversed(c)) or [6.0])[0],
        "methods": lambda x, c: x * c.count(2.0) + len(c.copy()),
        "pairs": lambda x, c: sum([x * i + v for i, v in enumerate(c)]) + sum(
            [a * b for a, b in zip(c, c[1:], strict=False)]
        ),
    }, [
        lambda c: item(c, 0, 3.0), lambda c: c.append(2.0), lambda c: c.reverse(), lambda c: item(c, 1, 2),
        lambda c: c.clear(), lambda c: c.extend([1.0, 2.0]),
    ]),
    "dict": (lambda: {"a": 1.0, "b": 2.0}, {
        "item": lambda x, c: x * c["a"],
        "length": lambda x, c: x * len(c),
        "loop": lambda x, c: sum([x * len(k) for k in c]),
        "values": lambda x, c: sum([x * 2 + v for v in c.values()]),
        "order": lambda x, c: x * list(c.values())[0] + len(list(c)[0]),
        "items": lambda x, c: sum([x * v for k, v in c.items() if k != "b"]),
        "member": lambda x, c: x * (2 if "d" in c else 3) + (2 if "dd" not in c.keys() else 3),
        "truth": lambda x, c: x * (2 if c else 3),
        "missing": lambda x, c: x * c.get("d", 7.0) + c.get("a", 0),
        "whole": lambda x, c: x * sum(c.values()),
        "equal": lambda x, c: x * (2 if c == {"a": 1.0, "b": 2.0} else 3),
        "copied": lambda x, c: x * dict(c)["a"] + {**c, "e": 1.0}["a"],
        "keywords": lambda x, c: x * dict(**c)["a"],
        "value among values": lambda x, c: x * (2 if 3.0 in c.values() else 3),
    }, [
        lambda c: item(c, "a", 3.0), lambda c: item(c, "d", 2.0), lambda c: item(c, "dd", 4.0),
        lambda c: c.pop("d"), lambda c: (c.pop("b"), c.pop("dd")), lambda c: item(c, "b", 2),
        lambda c: item(c, "a", c.pop("a")),
    ]),
    "OrderedDict": (lambda: OrderedDict(a=1.0, b=2.0), {
        "item": lambda x, c: x * c["a"],
        "order": lambda x, c: x * list(c.values())[0] + len(list(c)[0]),
        "loop": lambda x, c: sum([x * 2 + v for k, v in c.items()]),
        "member": lambda x, c: x * (2 if "d" in c else 3),
        "missing": lambda x, c: x * c.get("d", 7.0),
        "length": lambda x, c: x * (len(c) if c else 0),
    }, [
        lambda c: item(c, "a", 3.0), lambda c: c.move_to_end("a"), lambda c: item(c, "d", 2.0), lambda c: c.pop("d"),
    ]),
    "set": (lambda: {1.0, 8.0}, {
        "length": lambda x, c: x * len(c),
        "loop": lambda x, c: sum([x * 2 + v for v in c]),
        "member": lambda x, c: x * (2 if 8.0 in c else 3),
        "truth": lambda x, c: x * (2 if c else 3),
        "whole": lambda x, c: x * max(c | {0.5}) + len(c & {8.0}) + c.issubset({1.0}),
    }, [
        lambda c: c.add(5.0), lambda c: c.discard(8.0), lambda c: c.clear(), lambda c: c.update([8.0, 1.0]),
    ]),
}  # fmt: skip


PYTHON = (("OrderedDict", "order"), ("OrderedDict", "loop"))


def _container(kind, use, is_global):
    make, uses, changes = USES[kind]

    def reads():
        c, apply = make(), uses[use]

        def f(x, *given):
            return apply(x, given[0] if given else c)

        x = torch.ones(3)
        args = () if is_global else (c,)
        yield f, x, *args
        for change in changes:
            change(c)
            yield f, x, *args
        c.clear()
        c.update(make()) if hasattr(c, "update") else c.extend(make())
        yield f, x, *args

    reads.__name__ = f"{kind}_{use}_of_{'a_variable' if is_global else 'an_argument'}".replace(" ", "_")
    (python if (kind, use) in PYTHON or kind == "set" and not is_global else program)(reads)


for _kind, (_, _uses, _) in USES.items():
    for _use in _uses:
        _container(_kind, _use, True)
        _container(_kind, _use, False)


@program
def nested_containers():
    c = {"a": [{"b": (1.0, [2.0])}], "n": None}

    def f(x):
        return x * c["a"][0]["b"][1][0] + len(c["a"][0]["b"][1])

    x = torch.ones(3)
    yield f, x
    c["a"][0]["b"][1][0] = 3.0
    yield f, x
    c["a"][0]["b"][1].append(1)
    yield f, x
    c["a"][0]["b"] = (1.0, [4.0])
    yield f, x
    c["a"] = [{"b": (1.0, [2.0])}]
    yield f, x


@program
def tuple_with_an_object():
    o = types.SimpleNamespace(scale=2.0)
    holder = {"pair": (1.0, (o, [3.0]))}

    def f(x):
        return x * holder["pair"][1][0].scale + holder["pair"][1][1][0]

    x = torch.ones(3)
    yield f, x
    o.scale = 3.0
    yield f, x
    holder["pair"][1][1][0] = 4.0
    yield f, x
    holder["pair"] = (1.0, (types.SimpleNamespace(scale=7.0), [3.0]))
    yield f, x


Point = namedtuple("Point", "x y")


@program
def named_tuple():
    holder = {"point": Point(types.SimpleNamespace(scale=2.0), [3.0])}

    def f(x):
        a, b = holder["point"]
        return x * holder["point"].x.scale + holder["point"][1][0] + a.scale + len(b)

    x = torch.ones(3)
    yield f, x
    holder["point"].x.scale = 3.0
    yield f, x
    holder["point"].y[0] = 4.0
    yield f, x
    holder["point"] = Point(types.SimpleNamespace(scale=2.0), [3.0])
    yield f, x


@program
def named_tuple_argument():
    def f(point):
        return point.x * point.y[0] + len(point) + hasattr(point, "z")

    x = torch.ones(3)
    yield f, Point(x, [3.0])
    yield f, Point(x, [4.0])
    yield f, Point(x, (4.0,))
    with changed(Point, z=1):
        yield f, Point(x, [3.0])
    with changed(Point, y=property(lambda self: [9.0])):
        yield f, Point(x, [3.0])
    yield f, Point(x, [3.0])


class Reversed(tuple):
    __slots__ = ()

    def __getitem__(self, index):
        return tuple.__getitem__(self, -1 - index) * self.factor

    factor = 1

    def __len__(self):
        return 10 * self.factor

    def __iter__(self):
        return iter([7.0 * self.factor])


@python
def subclass_of_tuple():
    c = Reversed([1.0, 2.0])

    def f(x, given):
        return x * c[0] + len(c) + sum([v + 0 for v in c]) + given[0] + len(given)

    x = torch.ones(3)
    yield f, x, Reversed([3.0, 4.0])
    with changed(Reversed, factor=2):
        yield f, x, Reversed([3.0, 4.0])
    yield f, x, (3.0, 4.0)


@program
def tuple_of_tensors_in_a_variable():
    pair = (torch.ones(3), [torch.full((3,), 2.0)])

    def f(x):
        return x * pair[0] + pair[1][0]

    x = torch.ones(3)
    yield f, x
    pair[0].fill_(3.0)
    yield f, x
    pair[1][0] = torch.full((3,), 5.0)
    yield f, x


@program
def frozenset_of_objects():
    o = types.SimpleNamespace(scale=2.0)

    class Holder:
        values = frozenset((1.0,))

    def f(x):
        for v in Holder.values:
            x = x * v
        return x * (2 if 1.0 in Holder.values else 3)

    x = torch.ones(3)
    yield f, x
    with changed(Holder, values=frozenset((2.0, 4.0))):
        yield f, x
    yield f, x
    o.scale = 3.0


@program
def range_and_slice():
    o = types.SimpleNamespace(r=range(3), s=slice(0, 2), d="abc")

    def f(x):
        return x[o.s].sum() * len(o.r) + o.r[1] + len(o.d) + (2 if "a" in o.d else 3)

    x = torch.arange(3.0)
    yield f, x
    o.r = range(2, 7)
    yield f, x
    o.s = slice(1, None)
    yield f, x
    o.d = "bcde"
    yield f, x
    o.r, o.s, o.d = range(3), slice(0, 2), "abc"
    yield f, x


# Containers whose contents no guard follows: their functions may run as Python.
OTHERS = {
    "deque": (lambda: deque([1.0, 2.0]), lambda c: item(c, 0, 3.0), lambda x, c: x * c[0]),
    "length_of_a_deque": (lambda: deque([1.0, 2.0]), lambda c: c.append(3.0), lambda x, c: x * len(c)),
    "loop_over_a_deque": (lambda: deque([1.0, 2.0]), lambda c: c.append(3.0), lambda x, c: sum([x * v for v in c])),
    "truth_of_a_deque": (lambda: deque([1.0]), lambda c: c.clear(), lambda x, c: x * (2 if c else 3)),
    "member_of_a_deque": (lambda: deque([1.0]), lambda c: c.append(3.0), lambda x, c: x * (2 if 3.0 in c else 3)),
    "defaultdict": (lambda: defaultdict(float, a=1.0), lambda c: item(c, "a", 3.0), lambda x, c: x * c["a"]),
    "missing_of_a_defaultdict": (
        lambda: defaultdict(float), lambda c: setattr(c, "default_factory", lambda: 3.0), lambda x, c: x * c["a"],
    ),
    "counter": (lambda: Counter("ab"), lambda c: c.update("b"), lambda x, c: x * c["b"] + c["c"]),
    "chain_map": (lambda: ChainMap({"a": 1.0}, {"b": 2.0}), lambda c: item(c, "b", 3.0), lambda x, c: x * c["b"]),
    "user_dict": (lambda: UserDict(a=1.0), lambda c: item(c, "a", 3.0), lambda x, c: x * c["a"] + ("b" in c)),
    "user_list": (lambda: UserList([1.0]), lambda c: c.append(3.0), lambda x, c: x * len(c) + c[-1]),
    "mapping_proxy": (
        lambda: [{"a": 1.0}],
        lambda c: item(c[0], "a", 3.0),
        lambda x, c: x * types.MappingProxyType(c[0])["a"],
    ),
    "iterator": (
        lambda: [iter([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])],
        lambda c: None,
        lambda x, c: x * (next(c[0], 1.0) * 0 + 1),
    ),
    "view_of_values": (
        lambda: (lambda d: [d, d.values()])({"a": 1.0}),
        lambda c: item(c[0], "b", 3.0),
        lambda x, c: x * len(c[1]),
    ),
    "keys_in_a_view": (
        lambda: (lambda d: [d, d.keys()])({"a": 1.0}),
        lambda c: item(c[0], "b", 3.0),
        lambda x, c: x * ("b" in c[1]),
    ),
    "loop_over_a_view": (
        lambda: (lambda d: [d, d.items()])({"a": 1.0}), lambda c: item(c[0], "a", 3.0),
        lambda x, c: sum([x * v for _, v in c[1]]),
    ),
    "truth_of_a_view": (
        lambda: (lambda d: [d, d.keys()])({}),
        lambda c: item(c[0], "b", 3.0),
        lambda x, c: x * (2 if c[1] else 3),
    ),
    "sum_of_a_view": (
        lambda: (lambda d: [d, d.values()])({"a": 1.0}),
        lambda c: item(c[0], "b", 3.0),
        lambda x, c: x * sum(c[1]),
    ),
    "list_of_a_view": (
        lambda: (lambda d: [d, d.values()])({"a": 1.0}),
        lambda c: item(c[0], "b", 3.0),
        lambda x, c: x * len(list(c[1])),
    ),
    "numpy_array": (lambda: np.ones(3), lambda c: item(c, 0, 3.0), lambda x, c: x * torch.from_numpy(c).float()),
    "tensor_of_a_numpy_array": (
        lambda: np.ones(3),
        lambda c: item(c, 0, 3.0),
        lambda x, c: x * torch.tensor(c).float(),
    ),
    "number_of_a_numpy_array": (lambda: np.ones(3), lambda c: item(c, 0, 3.0), lambda x, c: x * float(c[0])),
    "index_by_a_numpy_array": (
        lambda: np.zeros(2, np.int64),
        lambda c: item(c, 0, 2),
        lambda x, c: torch.arange(3.0)[c] * x[:2],
    ),
    "index_by_a_pair_of_arrays": (
        lambda: np.zeros(2, np.int64), lambda c: item(c, 0, 2), lambda x, c: torch.ones(3, 3).cumsum(0)[c, c] * x[:2],
    ),
    "shape_of_a_numpy_array": (lambda: [np.ones(3)], lambda c: item(c, 0, np.ones(5)), lambda x, c: x * c[0].shape[0]),
    "shape_of_one_numpy_array": (
        lambda: np.ones(4),
        lambda c: setattr(c, "shape", (2, 2)),
        lambda x, c: x * len(c.shape),
    ),
    "array_of_the_module_array": (
        lambda: __import__("array").array("d", [1.0]), lambda c: item(c, 0, 3.0), lambda x, c: x * c[0],
    ),
    "bytearray": (lambda: bytearray(b"ab"), lambda c: item(c, 0, 7), lambda x, c: x * c[0] + len(c)),
    "memoryview": (lambda: memoryview(bytearray(b"ab")), lambda c: item(c, 0, 7), lambda x, c: x * c[0]),
}  # fmt: skip


def _other(name):
    def reads():
        make, change, apply = OTHERS[name]
        c = make()

        def f(x):
            return apply(x, c)

        x = torch.ones(3)
        yield f, x
        yield f, x
        change(c)
        yield f, x

    reads.__name__ = name
    python(reads)


for _name in OTHERS:
    _other(_name)


@program
def numpy_scalar():
    o = types.SimpleNamespace(a=np.float64(2.0), b=np.float32(3.0), c=np.int64(4))

    def f(x):
        return x * o.a

    x = torch.ones(3)
    yield f, x
    o.a = np.float64(5.0)
    yield f, x
    o.a = 5.0
    yield f, x
    o.a = np.float64(2.0)
    yield f, x


@python
def other_numpy_scalars():
    o = types.SimpleNamespace(b=np.float32(3.0), c=np.int64(4), d=np.bool_(True))

    def f(x):
        return x * o.b + o.c if o.d else x * o.b

    x = torch.ones(3)
    yield f, x
    o.b, o.c = np.float32(4.0), np.int64(5)
    yield f, x
    o.d = np.bool_(False)
    yield f, x


@program
def containers_of_modules():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList([nn.Linear(3, 3), nn.ReLU()])
            self.named = nn.ModuleDict({"a": nn.Tanh(), "b": nn.Sigmoid()})
            self.weights = nn.ParameterDict({"w": nn.Parameter(torch.ones(3)), "v": nn.Parameter(torch.ones(3))})
            self.scales = nn.ParameterList([nn.Parameter(torch.ones(3)), nn.Parameter(torch.full((3,), 2.0))])

        def forward(self, x):
            for block in self.blocks:
                x = block(x)
            for name, module in self.named.items():
                x = module(x) + len(name)
            x = x * self.weights["w"] + len(self.weights) + ("u" in self.named)
            for scale in self.scales:
                x = x * scale
            return x * len(self.blocks) + self.blocks[0].weight.sum() + self.scales[-1]

    net = Net()

    def f(x):
        return net(x)

    x = torch.ones(2, 3)
    yield f, x
    net.blocks.append(nn.Tanh())
    yield f, x
    net.blocks[1] = nn.Identity()
    yield f, x
    net.named["u"] = nn.ReLU()
    yield f, x
    net.named["a"], net.named["b"] = net.named["b"], net.named["a"]
    yield f, x
    net.weights["w"] = nn.Parameter(torch.zeros(3))
    yield f, x
    del net.weights["v"]
    yield f, x
    net.scales.append(nn.Parameter(torch.full((3,), 5.0)))
    yield f, x
    net.scales[0] = nn.Parameter(torch.full((3,), 7.0))
    yield f, x


@program
def parameters_buffers_and_submodules():
    net = nn.Linear(3, 3)
    net.register_buffer("shift", torch.ones(3))

    def f(x):
        y = net(x) + net.shift
        return y * getattr(net, "gain", 2.0) + (net.extra(x) if hasattr(net, "extra") else 0)

    x = torch.ones(2, 3)
    yield f, x
    net.register_parameter("gain", nn.Parameter(torch.ones(3)))
    yield f, x
    net.extra = nn.Linear(3, 3)
    yield f, x
    net.shift = torch.zeros(3)
    yield f, x
    net.bias = None
    yield f, x
    del net.gain
    yield f, x
    del net.extra
    yield f, x
    net.weight = nn.Parameter(torch.ones(3, 3))
    yield f, x
    net.__dict__["shift"] = torch.full((3,), 9.0)  # hides the buffer
    yield f, x


@program
def tables_of_a_module_replaced():
    net = nn.Linear(3, 3)

    def f(x):
        return net(x)

    x = torch.ones(2, 3)
    yield f, x
    net._parameters = {"weight": nn.Parameter(torch.ones(3, 3)), "bias": None}
    yield f, x
    net._parameters["bias"] = nn.Parameter(torch.ones(3))
    yield f, x


# --- names ------------------------------------------------------------------------------------------------------------

VALUE: object = 2.0


@program
def global_variable():
    def f(x):
        return x * VALUE

    x, names = torch.ones(3), globals()
    yield f, x
    for value in (3.0, 4.0, 3, True, torch.full((3,), 5.0), 2.0):
        names["VALUE"] = value
        yield f, x


@program
def builtin_function():
    functions = vars(builtins)
    functions["scale_of_a_test"] = lambda: 2.0

    def f(x):
        return x * max(2.0, 3.0) + scale_of_a_test()  # noqa: F821

    x, names = torch.ones(3), globals()
    try:
        yield f, x
        names["max"] = min
        yield f, x
        del names["max"]
        yield f, x
        functions["scale_of_a_test"] = lambda: 3.0
        yield f, x
        names["scale_of_a_test"] = lambda: 4.0
        yield f, x
        del names["scale_of_a_test"]
        yield f, x
    finally:
        del functions["scale_of_a_test"]


@program
def closure_variable():
    value = 2.0

    def f(x):
        return x * value

    x = torch.ones(3)
    yield f, x
    for value in (3.0, 4.0, None.__class__ and 5, torch.full((3,), 6.0), 2.0):  # noqa: B007
        yield f, x


@program
def module_of_python():
    made = types.ModuleType("made_by_a_test")
    made.scale = 2.0
    made.inner = types.ModuleType("made_by_a_test.inner")
    made.inner.shift = 1.0

    def f(x):
        return x * made.scale + made.inner.shift + getattr(made, "more", 0.0) + hasattr(made, "other")

    x = torch.ones(3)
    yield f, x
    made.scale = 3.0
    yield f, x
    made.more = 4.0
    yield f, x
    made.other = None
    yield f, x
    made.inner = types.SimpleNamespace(shift=9.0)
    yield f, x
    del made.more, made.other
    yield f, x


@python
def class_of_a_module_of_python():
    made = types.ModuleType("made_by_a_test")
    made.scale = 2.0

    class Computing(types.ModuleType):
        @property
        def scale(self):
            return 7.0

    class Getting(types.ModuleType):
        def __getattribute__(self, name):
            return 8.0 if name == "scale" else super().__getattribute__(name)

    def f(x):
        return x * made.scale

    x = torch.ones(3)
    yield f, x
    made.__class__ = Computing
    yield f, x
    made.__class__ = Getting
    yield f, x
    made.__class__ = types.ModuleType
    yield f, x


@python
def module_with_a_getattr():
    made = types.ModuleType("made_by_a_test")
    values = {"scale": 2.0}
    made.__getattr__ = lambda name: values[name]

    def f(x):
        return x * made.scale

    x = torch.ones(3)
    yield f, x
    values["scale"] = 3.0
    yield f, x


@program
def imported_modules():
    first, second = types.ModuleType("imported_by_a_test"), types.ModuleType("imported_by_a_test")
    first.scale, second.scale = 2.0, 3.0

    def f(x):
        import imported_by_a_test
        from imported_by_a_test import scale

        return x * scale + imported_by_a_test.scale

    x = torch.ones(3)
    sys.modules["imported_by_a_test"] = first
    yield f, x
    sys.modules["imported_by_a_test"] = second
    yield f, x
    second.scale = 4.0
    yield f, x
    sys.modules["imported_by_a_test"] = first
    yield f, x
    del sys.modules["imported_by_a_test"]


@program
def imported_modules_under_other_names():
    outer, inner, other = types.ModuleType("outer"), types.ModuleType("inner"), types.ModuleType("inner")
    inner.scale, other.scale = 2.0, 3.0
    outer.inner, outer.__path__ = inner, []

    def f(x):
        import package_of_a_test.inner as short

        return x * short.scale

    x = torch.ones(3)
    sys.modules["package_of_a_test"], sys.modules["package_of_a_test.inner"] = outer, inner
    yield f, x
    outer.inner = sys.modules["package_of_a_test.inner"] = other
    yield f, x
    outer.inner = sys.modules["package_of_a_test.inner"] = inner
    yield f, x
    outer.inner = other
    yield f, x
    del sys.modules["package_of_a_test"], sys.modules["package_of_a_test.inner"]


@program
def loaded_modules():
    def f(x):
        return x * (2 if "loaded_by_a_test" in sys.modules else 3)

    x = torch.ones(3)
    yield f, x
    sys.modules["loaded_by_a_test"] = types.ModuleType("loaded_by_a_test")
    yield f, x
    del sys.modules["loaded_by_a_test"]
    yield f, x


@python
def environment():
    def f(x):
        a = float(os.environ.get("GRADLOOM_TEST_READS", "2"))
        b = 3 if "GRADLOOM_TEST_READS" in os.environ else 4
        return x * a + b + float(os.getenv("GRADLOOM_TEST_READS") or 1)

    x = torch.ones(3)
    yield f, x
    os.environ["GRADLOOM_TEST_READS"] = "5"
    yield f, x
    os.environ["GRADLOOM_TEST_READS"] = "6"
    yield f, x
    del os.environ["GRADLOOM_TEST_READS"]
    yield f, x


@python
def item_of_the_environment():
    def f(x):
        return x * float(os.environ["GRADLOOM_TEST_READS"])

    x = torch.ones(3)
    os.environ["GRADLOOM_TEST_READS"] = "5"
    yield f, x
    os.environ["GRADLOOM_TEST_READS"] = "6"
    yield f, x
    del os.environ["GRADLOOM_TEST_READS"]
    yield f, x


@python
def file(tmp=None):
    import tempfile

    with tempfile.NamedTemporaryFile("w+", suffix=".txt") as kept:

        def write(text):
            kept.seek(0)
            kept.truncate()
            kept.write(text)
            kept.flush()

        def f(x):
            with open(kept.name) as opened:
                return x * float(opened.read())

        x = torch.ones(3)
        write("2.0")
        yield f, x
        write("3.0")
        yield f, x


@python
def random_numbers_of_python():
    def f(x):
        return x * random.random() * np.random.rand()

    x = torch.ones(3)
    for seed in (0, 1, 0):
        yield _seeded(f, seed), x


def _seeded(f, seed):
    random.seed(seed)
    np.random.seed(seed)

    def once(x):
        random.seed(seed)
        np.random.seed(seed)
        return f(x)

    return once


@python
def time_of_day():
    def f(x):
        return x * (time.time() > 0) + (time.monotonic() > clock[0])

    clock, x = [0.0], torch.ones(3)
    yield f, x
    clock[0] = float("inf")
    yield f, x


@python
def context_variable():
    variable = contextvars.ContextVar("variable", default=2.0)

    def f(x):
        return x * variable.get()

    x = torch.ones(3)
    yield f, x
    token = variable.set(3.0)
    yield f, x
    variable.reset(token)
    yield f, x


@python
def thread_local():
    local = threading.local()
    local.scale = 2.0

    def f(x):
        return x * local.scale + getattr(local, "shift", 1.0) + hasattr(local, "other")

    x = torch.ones(3)
    yield f, x
    local.scale = 3.0
    yield f, x
    local.shift = 4.0
    yield f, x
    local.other = 4.0
    yield f, x


@program
def python_settings():
    def f(x):
        return x * (2 if sys.flags.optimize else 3) + len(sys.argv)

    x = torch.ones(3)
    yield f, x
    sys.argv.append("more")
    yield f, x
    sys.argv.pop()
    yield f, x


@program
def class_of_a_container():
    class List(list):
        pass

    class Dict(dict):
        pass

    o = types.SimpleNamespace(c=[1.0])

    def f(x):
        return x * (2 if type(o.c) is list else 3) + isinstance(o.c, dict)

    x = torch.ones(3)
    yield f, x
    for c in (List([1.0]), Dict(), {}, [1.0], collections.OrderedDict()):
        o.c = c
        yield f, x
