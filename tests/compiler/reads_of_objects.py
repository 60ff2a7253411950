"""Programs that read attributes, classes, methods and functions, each with changes of what it reads; see reads.py."""

from __future__ import annotations

import abc
import collections.abc
import enum
import functools
import operator
import types
import typing
import weakref
from dataclasses import dataclass, field

import gradloom as torch
from gradloom import nn
from tests.compiler.reads import changed, item, program, python, without

# --- attributes -------------------------------------------------------------------------------------------------------


class Plain:
    def __init__(self, **members):
        self.__dict__.update(members)


@program
def default_of_getattr_on_a_tensor():
    def f(x):
        return x * getattr(x, "scale", 2.0)

    x = torch.ones(3)
    yield f, x
    x.scale = 3.0
    yield f, x
    x.scale = 4.0
    yield f, x
    del x.scale
    yield f, x


@program
def hasattr_of_tensors():
    def f(x):
        return x * (3.0 if hasattr(x, "scale") else 2.0)

    x, y = torch.ones(3), torch.ones(3)
    y.scale = None
    yield f, x
    yield f, y
    yield f, x
    x.scale = 1
    del y.scale
    yield f, x
    yield f, y


@program
def hasattr_of_a_tensor_in_a_list():
    def f(xs):
        return sum(x * (3.0 if hasattr(x, "scale") else 2.0) for x in xs)

    xs = [torch.ones(3), torch.ones(3)]
    yield f, xs
    xs[1].scale = 1
    yield f, xs
    del xs[1].scale
    yield f, xs


@program
def hasattr_of_a_parameter():
    net = nn.Linear(3, 3)

    def f(x):
        return net(x) * (3.0 if hasattr(net.weight, "frozen") else 2.0) + getattr(net.bias, "shift", 0)

    x = torch.ones(2, 3)
    yield f, x
    net.weight.frozen = True
    yield f, x
    net.bias.shift = 1
    yield f, x
    del net.weight.frozen
    yield f, x


@program
def attribute_of_a_new_tensor():
    def f(x):
        y = x * 2
        return y * getattr(y, "_scale", 2.0) + hasattr(y, "_shift")

    x = torch.ones(3)
    yield f, x
    with changed(torch.Tensor, _scale=3.0):
        yield f, x
    yield f, x
    with changed(torch.Tensor, _shift=3.0):
        yield f, x
    yield f, x


@program
def attribute_of_the_class_of_tensors():
    def f(x):
        return x * x._scale

    x = torch.ones(3)
    with changed(torch.Tensor, _scale=3.0):
        yield f, x
        with changed(torch.Tensor, _scale=4.0):
            yield f, x
        yield f, x
        x._scale = 5.0
        yield f, x
        del x._scale
        yield f, x


@program
def method_of_a_tensor_under_its_own_name():
    def f(x):
        return x.sin() * 2

    x = torch.ones(3)
    yield f, x
    x.sin = x.cos
    yield f, x
    del x.sin
    yield f, x


@program
def metadata_of_a_tensor_under_its_own_name():
    def f(x):
        return x * (2 if x.is_mkldnn else 3) + x.dim()

    x = torch.ones(3)
    yield f, x
    x.dim = lambda: 5
    yield f, x
    del x.dim
    yield f, x


@program
def attribute_of_an_object():
    o = Plain(scale=2.0)

    def f(x):
        return x * o.scale

    x = torch.ones(3)
    yield f, x
    for value in (3.0, 4.0, 2, torch.full((3,), 5.0), 2.0):
        o.scale = value
        yield f, x


@program
def default_of_getattr():
    o = Plain()

    def f(x):
        return x * getattr(o, "scale", 2.0)

    x = torch.ones(3)
    yield f, x
    o.scale = 3.0
    yield f, x
    del o.scale
    yield f, x
    with changed(Plain, scale=4.0):
        yield f, x
    yield f, x


@program
def hasattr_of_an_object():
    o = Plain()

    def f(x, o):
        return x * 3 if hasattr(o, "scale") else x * 2

    x = torch.ones(3)
    yield f, x, o
    o.scale = 3.0
    yield f, x, o
    del o.scale
    yield f, x, o
    yield f, x, Plain(scale=1)
    with changed(Plain, scale=4.0):
        yield f, x, o
    yield f, x, o


@program
def attribute_of_an_object_made_in_the_call():
    def f(x):
        o = Plain(own=2.0)
        return x * o.own * getattr(o, "scale", 2.0) + hasattr(o, "shift")

    x = torch.ones(3)
    yield f, x
    with changed(Plain, scale=4.0):
        yield f, x
    yield f, x
    with changed(Plain, shift=4.0):
        yield f, x
    yield f, x


@program
def attribute_of_a_chain_of_objects():
    o = Plain(a=Plain(b=[Plain(scale=2.0)]))

    def f(x):
        return x * o.a.b[0].scale

    x = torch.ones(3)
    yield f, x
    o.a.b[0].scale = 3.0
    yield f, x
    o.a.b[0] = Plain(scale=4.0)
    yield f, x
    o.a = Plain(b=(Plain(scale=5.0),))
    yield f, x


@program
def members_replaced():
    o = Plain(scale=2.0)

    def f(x):
        return x * o.scale

    x = torch.ones(3)
    yield f, x
    o.__dict__ = {"scale": 3.0}
    yield f, x
    o.__dict__ = {"scale": 2.0}
    yield f, x


@program
def members_as_a_dictionary():
    o = Plain(scale=2.0)

    def f(x):
        return x * o.__dict__["scale"] + len(o.__dict__) + ("shift" in o.__dict__)

    x = torch.ones(3)
    yield f, x
    o.scale = 3.0
    yield f, x
    o.shift = 1
    yield f, x
    del o.shift
    yield f, x


class Slots:
    __slots__ = ("scale", "__weakref__")


@program
def slots():
    o = Slots()
    o.scale = 2.0

    def f(x):
        return x * o.scale + hasattr(o, "scale")

    x = torch.ones(3)
    yield f, x
    o.scale = 3.0
    yield f, x
    o.scale = 2.0
    yield f, x


@program
def absent_slot():
    o = Slots()

    def f(x):
        return x * getattr(o, "scale", 3.0) + hasattr(o, "shift")

    x = torch.ones(3)
    yield f, x
    o.scale = 2.0
    yield f, x
    del o.scale
    yield f, x
    with changed(Slots, shift=1):
        yield f, x
    yield f, x


@program
def simple_namespace():
    o = types.SimpleNamespace(scale=2.0)

    def f(x):
        return x * o.scale + getattr(o, "shift", 1.0)

    x = torch.ones(3)
    yield f, x
    o.scale = 3.0
    yield f, x
    o.shift = 3.0
    yield f, x
    del o.shift
    yield f, x


# --- classes ----------------------------------------------------------------------------------------------------------


class Base:
    scale = 2.0

    def apply(self, x):
        return x * self.scale

    @property
    def doubled(self):
        return self.scale * 2

    @classmethod
    def of_class(cls, x):
        return x * cls.scale

    @staticmethod
    def static(x):
        return x.sin()


class Derived(Base):
    def apply(self, x):
        return super().apply(x) + 1


class Other(Base):
    scale = 5.0

    def apply(self, x):
        return x - self.scale


class Middle(Base):
    pass


class Leaf(Middle):
    pass


@program
def class_of_an_object():
    o = Base()

    def f(x):
        return o.apply(x) + o.doubled

    x = torch.ones(3)
    yield f, x
    for cls in (Derived, Other, Middle, Base):
        o.__class__ = cls
        yield f, x


@program
def class_of_an_argument():
    o = Base()

    def f(x, o):
        return x * o.scale

    x = torch.ones(3)
    yield f, x, o
    o.__class__ = Other
    yield f, x, o
    o.__class__ = Base
    yield f, x, o


@program
def class_by_isinstance():
    o = Base()

    def f(x):
        return x * 2 if isinstance(o, Derived) else x * 3 if isinstance(o, (Other, int)) else x * 4

    x = torch.ones(3)
    yield f, x
    for cls in (Derived, Other, Base):
        o.__class__ = cls
        yield f, x


@program
def class_by_type():
    o = Base()

    def f(x):
        return x * (2 if type(o) is Base else 3 if o.__class__ is Other else 4)

    x = torch.ones(3)
    yield f, x
    for cls in (Derived, Other, Base):
        o.__class__ = cls
        yield f, x


@program
def class_name():
    o = Base()

    def f(x):
        return x * (2 if type(o).__name__ == "Base" else 3)

    x = torch.ones(3)
    yield f, x
    o.__class__ = Other
    yield f, x
    o.__class__ = Base
    yield f, x
    with changed(Base, __name__="Bass"):
        yield f, x
    yield f, x


@program
def class_of_an_object_in_an_argument():
    def f(xs):
        return xs[0] * (2 if isinstance(xs[1]["o"], Other) else 3) + xs[1]["o"].scale

    x, o = torch.ones(3), Base()
    yield f, (x, {"o": o})
    o.__class__ = Other
    yield f, (x, {"o": o})
    o.__class__ = Base
    yield f, (x, {"o": o})


@program
def class_of_a_member_of_a_data_class():
    o = Base()
    pair = Pair(o)

    def f(x, pair):
        return x * pair.first.scale

    x = torch.ones(3)
    yield f, x, pair
    o.__class__ = Other
    yield f, x, pair
    o.__class__ = Base
    yield f, x, pair


class Child(nn.Linear):
    def forward(self, x):
        return super().forward(x) * 2


@program
def class_of_a_module():
    net = nn.Sequential(nn.Linear(3, 3), nn.ReLU())

    def f(x):
        return net(x) * 2

    x = torch.ones(2, 3)
    yield f, x
    net[0].__class__ = Child
    yield f, x
    net[1].__class__ = nn.Sigmoid
    yield f, x
    net[0].__class__ = nn.Linear
    yield f, x


@python
def class_of_a_compiled_module():
    net = nn.Linear(3, 3)
    compiled = torch.compile(net, backend="eager")

    def f(x):
        return compiled(x) * 2 + (0 if isinstance(compiled._orig_mod, Child) else 1)

    x = torch.ones(2, 3)
    yield f, x
    net.__class__ = Child
    yield f, x
    net.__class__ = nn.Linear
    yield f, x


@program
def module_as_the_compiled_function():
    net = nn.Linear(3, 3)
    x = torch.ones(2, 3)
    yield net, x
    net.__class__ = Child
    yield net, x
    net.__class__ = nn.Linear
    yield net, x
    net.forward = lambda x: x * 2
    yield net, x
    del net.forward
    yield net, x
    with changed(nn.Linear, forward=lambda self, x: x * 3):
        yield net, x
    yield net, x


@program
def method_as_the_compiled_function():
    o = Derived()
    method = o.apply
    x = torch.ones(3)
    yield method, x
    o.scale = 3.0
    yield method, x
    del o.scale
    yield method, x
    with changed(Base, apply=lambda self, x: x - 1):
        yield method, x
    yield method, x


@program
def callable_object_as_the_compiled_function():
    o = Callable()
    x = torch.ones(3)
    yield o, x
    o.scale = 3.0
    yield o, x
    o.__class__ = OtherCallable
    yield o, x
    o.__class__ = Callable
    yield o, x


class Callable:
    scale = 2.0

    def __call__(self, x):
        return x * self.scale


class OtherCallable:
    scale = 2.0

    def __call__(self, x):
        return x - self.scale


@program
def class_of_a_callable_object():
    o = Callable()

    def f(x):
        return o(x)

    x = torch.ones(3)
    yield f, x
    o.__class__ = OtherCallable
    yield f, x
    o.__class__ = Callable
    yield f, x
    o.scale = 4.0
    yield f, x
    with changed(Callable, __call__=lambda self, x: x):
        yield f, x
    yield f, x


@program
def whether_an_object_is_callable():
    o = Plain()

    def f(x):
        return x * 2 if callable(o) else x * 3

    x = torch.ones(3)
    yield f, x
    o.__class__ = Callable
    yield f, x
    o.__class__ = Plain
    yield f, x
    with changed(Plain, __call__=lambda self: None):
        yield f, x
    yield f, x


@program
def attribute_of_a_class():
    def f(x):
        return x * Base.scale + Middle.scale + Leaf.scale

    x = torch.ones(3)
    yield f, x
    for cls in (Leaf, Middle, Base):
        with changed(cls, scale=7.0):
            yield f, x
        yield f, x


@program
def default_of_getattr_on_a_class():
    def f(x):
        return x * getattr(Leaf, "shift", 2.0) + hasattr(Middle, "other")

    x = torch.ones(3)
    yield f, x
    with changed(Base, shift=7.0):
        yield f, x
    yield f, x
    with changed(Middle, other=7.0):
        yield f, x
    yield f, x


@program
def inherited_attribute():
    o = Leaf()

    def f(x):
        return x * o.scale

    x = torch.ones(3)
    yield f, x
    for cls in (Leaf, Middle, Base):
        with changed(cls, scale=7.0):
            yield f, x
        yield f, x
    o.scale = 3.0
    yield f, x
    del o.scale
    yield f, x


@program
def inherited_method():
    o = Leaf()

    def f(x):
        return o.apply(x) + o.of_class(x) + o.static(x) + Leaf.of_class(x) + Leaf.static(x)

    x = torch.ones(3)
    yield f, x
    for cls in (Leaf, Middle, Base):
        with changed(cls, apply=lambda self, x: x - 1):
            yield f, x
        with changed(cls, of_class=classmethod(lambda cls, x: x * 7)):
            yield f, x
        with changed(cls, static=staticmethod(lambda x: x * 8)):
            yield f, x
        with changed(cls, scale=9.0):
            yield f, x
        yield f, x


@program
def super_of_a_class():
    class Top(Leaf):
        def apply(self, x):
            return super().apply(x) + super().scale + super().doubled

    o = Top()

    def f(x):
        return o.apply(x)

    x = torch.ones(3)
    yield f, x
    for cls in (Leaf, Middle, Base):
        with changed(cls, apply=lambda self, x: x - 1):
            yield f, x
        with changed(cls, scale=9.0):
            yield f, x
        with changed(cls, doubled=11.0):
            yield f, x
        yield f, x
    o.scale = 3.0
    yield f, x


@program
def base_classes():
    class A:
        scale = 2.0

    class B:
        scale = 3.0
        shift = 4.0

    class C(A):
        pass

    o = C()

    def f(x):
        return x * o.scale * C.scale + isinstance(o, A) + 2 * issubclass(C, B) + getattr(o, "shift", 1.0)

    x = torch.ones(3)
    yield f, x
    C.__bases__ = (B,)
    yield f, x
    C.__bases__ = (A, B)
    yield f, x
    C.__bases__ = (A,)
    yield f, x


@program
def base_classes_and_super():
    class A:
        def apply(self, x):
            return x * 2

    class B:
        def apply(self, x):
            return x * 3

    class C(A):
        def apply(self, x):
            return super().apply(x) + 1

    o = C()

    def f(x):
        return o.apply(x)

    x = torch.ones(3)
    yield f, x
    C.__bases__ = (B,)
    yield f, x
    C.__bases__ = (A,)
    yield f, x


@program
def property_over_a_member():
    o = Plain(scale=2.0)

    def f(x):
        return x * o.scale

    x = torch.ones(3)
    yield f, x
    with changed(Plain, scale=property(lambda self: 3.0)):
        yield f, x
    yield f, x
    with changed(Plain, scale=4.0):  # the member comes first
        yield f, x
    yield f, x


@program
def property_over_a_parameter():
    net = nn.Linear(3, 3, bias=False)

    def f(x):
        return net(x)

    x = torch.ones(2, 3)
    yield f, x
    with changed(nn.Linear, weight=property(lambda self: torch.ones(3, 3))):
        yield f, x
    yield f, x
    with changed(nn.Module, bias=torch.ones(3)):
        yield f, x
    yield f, x


@program
def property_in_the_place_of_a_method():
    o = Base()

    def f(x):
        return x * o.doubled

    x = torch.ones(3)
    yield f, x
    with changed(Base, doubled=property(lambda self: self.scale * 3)):
        yield f, x
    yield f, x
    with changed(Base, doubled=4.0):
        yield f, x
    o.__dict__["doubled"] = 5.0  # the property comes first
    yield f, x
    with changed(Base, doubled=4.0):
        yield f, x
    yield f, x
    o.scale = 7.0
    yield f, x


@python
def getattr_of_a_class_added():
    o = Plain()

    def f(x):
        return x * getattr(o, "scale", 2.0)

    x = torch.ones(3)
    yield f, x
    with changed(Plain, __getattr__=lambda self, name: 3.0):
        yield f, x
    yield f, x


@python
def getattribute_of_a_class_added():
    o = Plain(scale=2.0)

    def f(x):
        return x * o.scale

    x = torch.ones(3)
    yield f, x
    with changed(Plain, __getattribute__=lambda self, name: 3.0):
        yield f, x
    yield f, x


@python
def getattribute_of_a_module_added():
    net = nn.Linear(3, 3)

    def f(x):
        return net(x)

    def found(self, name):
        return torch.ones(3, 3) if name == "weight" else object.__getattribute__(self, name)

    x = torch.ones(2, 3)
    yield f, x
    with changed(nn.Linear, __getattribute__=found):
        yield f, x
    yield f, x
    with changed(nn.Linear, __getattr__=lambda self, name: found(self, name) if name == "weight" else None):
        yield f, x
    yield f, x


@python
def getattr_of_a_class():
    class Computed:
        scale_ = 2.0

        def __getattr__(self, name):
            return Computed.scale_

    o = Computed()

    def f(x):
        return x * o.scale

    x = torch.ones(3)
    yield f, x
    Computed.scale_ = 3.0
    yield f, x


@python
def getattribute_of_a_class():
    class Computed:
        scale_ = 2.0

        def __getattribute__(self, name):
            return Computed.scale_

    o = Computed()

    def f(x):
        return x * o.scale

    x = torch.ones(3)
    yield f, x
    Computed.scale_ = 3.0
    yield f, x


class Meta(type):
    scale = 2.0

    @property
    def doubled(cls):
        return Meta.scale * 2

    def apply(cls, x):
        return x * cls.scale


class WithMeta(metaclass=Meta):
    pass


@program
def attribute_of_a_metaclass():
    def f(x):
        return x * WithMeta.scale

    x = torch.ones(3)
    yield f, x
    with changed(Meta, scale=3.0):
        yield f, x
    yield f, x
    with changed(WithMeta, scale=4.0):
        yield f, x
    yield f, x


@program
def property_of_a_metaclass():
    def f(x):
        return x * WithMeta.doubled

    x = torch.ones(3)
    yield f, x
    with changed(Meta, scale=3.0):
        yield f, x
    with changed(Meta, doubled=3.0):
        yield f, x
    yield f, x


@program
def method_of_a_metaclass():
    def f(x):
        return WithMeta.apply(x)

    x = torch.ones(3)
    yield f, x
    with changed(Meta, scale=3.0):
        yield f, x
    with changed(Meta, apply=lambda cls, x: x + 9):
        yield f, x
    yield f, x
    with changed(WithMeta, apply=lambda x: x + 8):
        yield f, x
    yield f, x


class Kind(abc.ABC):  # noqa: B024
    pass


@program
def registered_subclass():
    class Mine:
        pass

    o = Mine()

    def f(x):
        return x * (2 if isinstance(o, Kind) else 3) + issubclass(Mine, collections.abc.Sized)

    x = torch.ones(3)
    yield f, x
    Kind.register(Mine)
    yield f, x
    Mine.__len__ = lambda self: 1
    yield f, x


class Checked(type):
    answer = False

    def __instancecheck__(cls, value):
        return Checked.answer

    def __subclasscheck__(cls, value):
        return Checked.answer


class HasCheck(metaclass=Checked):
    pass


@program
def instance_check_of_a_metaclass():
    o = Plain()

    def f(x):
        return x * (2 if isinstance(o, HasCheck) else 3) + (4 if issubclass(Plain, (int, HasCheck)) else 5)

    x = torch.ones(3)
    yield f, x
    with changed(Checked, answer=True):
        yield f, x
    yield f, x


@program
def instance_check_of_a_tensor_by_a_metaclass():
    def f(x):
        return x * (2 if isinstance(x, HasCheck) else 3)

    x = torch.ones(3)
    yield f, x
    with changed(Checked, answer=True):
        yield f, x
    yield f, x


@typing.runtime_checkable
class HasScale(typing.Protocol):
    scale: float


@program
def protocol():
    o = Plain()

    def f(x):
        return x * (2 if isinstance(o, HasScale) else 3)

    x = torch.ones(3)
    yield f, x
    o.scale = 1
    yield f, x
    del o.scale
    yield f, x


@program
def isinstance_of_arguments_and_parameters():
    p = nn.Parameter(torch.ones(3))

    def f(x, o):
        return x * (2 if isinstance(o, nn.Parameter) else 3 if isinstance(o, torch.Tensor) else 4)

    x = torch.ones(3)
    for o in (p, x, 1, None, [p], p):
        yield f, x, o


# --- special methods --------------------------------------------------------------------------------------------------


class Special:
    size = 2

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        return self.size + index

    def __contains__(self, value):
        return value < self.size

    def __iter__(self):
        return iter(range(self.size))


class Longer(Special):
    size = 3

    def __len__(self):
        return 7

    def __getitem__(self, index):
        return 8

    def __contains__(self, value):
        return value == 1

    def __iter__(self):
        return iter([4, 5])


SPECIAL = {
    "__len__": (lambda o, x: x * len(o), lambda self: 6),
    "__getitem__": (lambda o, x: x * o[1], lambda self, index: 5),
    "__contains__": (lambda o, x: x * (2 if 1 in o else 3) + (2 if 2 in o else 3), lambda self, value: value == 2),
    "__iter__": (lambda o, x: x * sum([v + 1 for v in o]), lambda self: iter([7])),
    "truth": (lambda o, x: x * (2 if o else 3), None),
    "not": (lambda o, x: x * (2 if not o else 3), None),
    "or": (lambda o, x: x * (2 if (o or None) is None else 3), None),
}


def _special(name):
    def reads():
        apply, other = SPECIAL[name]
        o = Special()

        def f(x):
            return apply(o, x)

        x = torch.ones(3)
        yield f, x
        o.size = 1
        yield f, x
        o.size = 0
        yield f, x
        del o.size
        o.__class__ = Longer
        yield f, x
        o.__class__ = Special
        yield f, x
        with changed(Special, **{name if other else "__len__": other or (lambda self: 0)}):
            yield f, x
        yield f, x
        if other is None:
            with changed(Special, __bool__=lambda self: False):
                yield f, x
            yield f, x

    reads.__name__ = f"special_method_{name.strip('_')}"
    program(reads)


for _name in SPECIAL:
    _special(_name)


@program
def truth_of_an_object():
    o = Plain()

    def f(x):
        return x * 2 if o else x * 3

    x = torch.ones(3)
    yield f, x
    with changed(Plain, __bool__=lambda self: False):
        yield f, x
    yield f, x
    with changed(Plain, __len__=lambda self: 0):
        yield f, x
    yield f, x
    o.__class__ = Empty
    yield f, x


class Empty:
    def __len__(self):
        return 0


@python
def arithmetic_of_an_object():
    class Number:
        value = 2.0

        def __rmul__(self, x):
            return x * self.value

        def __add__(self, other):
            return self.value + other

        def __eq__(self, other):
            return self.value == other

        __hash__ = None

    o = Number()

    def f(x):
        return x * o + (o + 1) + (o == 2.0)

    x = torch.ones(3)
    yield f, x
    o.value = 3.0
    yield f, x


@python
def index_of_an_object():
    class Index:
        value = 1

        def __index__(self):
            return self.value

    o = Index()

    def f(x):
        return x[o] * (10, 20, 30)[o]

    x = torch.arange(3.0)
    yield f, x
    o.value = 2
    yield f, x


@program
def equality_of_objects_by_identity():
    a, b = Plain(), Plain()
    pair = [a, b]

    def f(x):
        return x * (2 if pair[0] is pair[1] else 3)

    x = torch.ones(3)
    yield f, x
    pair[1] = a
    yield f, x
    pair[1] = b
    yield f, x


# --- descriptors ------------------------------------------------------------------------------------------------------


class Descriptor:
    value = 2.0

    def __get__(self, owner, cls=None):
        return self.value


class DataDescriptor(Descriptor):
    def __set__(self, owner, value):
        self.value = value


class HasDescriptors:
    plain = Descriptor()
    data = DataDescriptor()


@python
def descriptor():
    o = HasDescriptors()

    def f(x):
        return x * o.plain

    x = torch.ones(3)
    yield f, x
    with changed(Descriptor, value=3.0):
        yield f, x


@python
def descriptor_of_a_class():
    def f(x):
        return x * HasDescriptors.plain

    x = torch.ones(3)
    yield f, x
    with changed(Descriptor, value=3.0):
        yield f, x


@program
def data_descriptor():
    o = HasDescriptors()

    def f(x):
        return x * o.data

    x = torch.ones(3)
    yield f, x
    o.data = 3.0
    yield f, x
    o.data = 2.0
    yield f, x
    with changed(DataDescriptor, __get__=lambda self, owner, cls: 7.0):
        yield f, x
    yield f, x


@python
def data_descriptor_of_a_made_object():
    def f(x):
        return x * HasDescriptors().data

    x = torch.ones(3)
    yield f, x
    HasDescriptors.__dict__["data"].value = 3.0
    yield f, x
    del HasDescriptors.__dict__["data"].value


@python
def descriptor_class_changes():
    class Late:
        pass

    class Has:
        late = Late()

    o = Has()

    def f(x):
        return x * (2 if isinstance(o.late, Late) else 3)

    x = torch.ones(3)
    yield f, x
    Late.__get__ = lambda self, owner, cls: 1
    yield f, x
    del Late.__get__
    yield f, x


class Cached:
    base = 2.0

    @functools.cached_property
    def scale(self):
        return self.base * 2


@python
def cached_property_not_yet_computed():
    def f(x, o):
        return x * o.scale

    x = torch.ones(3)
    yield f, x, Cached()
    with changed(Cached, base=3.0):
        yield f, x, Cached()


@program
def cached_property_computed():
    o = Cached()
    o.scale  # noqa: B018

    def f(x):
        return x * o.scale

    x = torch.ones(3)
    yield f, x
    o.scale = 7.0
    yield f, x
    del o.scale
    with changed(Cached, base=3.0):
        yield f, x
    yield f, x


@program
def property_without_a_python_function():
    class Has:
        scale = property(operator.attrgetter("_scale"))
        _scale = 2.0

    o = Has()

    def f(x):
        return x * o.scale

    x = torch.ones(3)
    yield f, x
    o._scale = 3.0
    yield f, x
    del o._scale
    yield f, x


# --- data classes, enumerations ---------------------------------------------------------------------------------------


@dataclass
class Pair:
    first: typing.Any
    second: float = 2.0
    rest: list = field(default_factory=list)


@python
def data_class_argument():
    def f(pair):
        return pair.first * pair.second + len(pair.rest) + hasattr(pair, "more")

    x = torch.ones(3)
    yield f, Pair(x)
    yield f, Pair(x, 3.0)
    yield f, Pair(x, 2.0, [1])
    pair = Pair(x)
    pair.more = 1
    yield f, pair
    with changed(Pair, more=1):
        yield f, Pair(x)
    with changed(Pair, second=property(lambda self: 7.0, lambda self, value: None)):
        yield f, Pair(x)
    with changed(
        Pair, __getattribute__=lambda self, name: object.__getattribute__(self, name) if name != "second" else 9
    ):
        yield f, Pair(x)
    yield f, Pair(x)


@python
def data_class_made():
    def f(x):
        pair = Pair(x)
        return pair.first * pair.second + getattr(pair, "more", 0)

    x = torch.ones(3)
    yield f, x
    with changed(Pair, more=1):
        yield f, x
    with changed(Pair.__init__, __defaults__=(5.0, *Pair.__init__.__defaults__[1:])):
        yield f, x
    yield f, x
    with changed(Pair, __setattr__=lambda self, name, value: object.__setattr__(self, name, value or 9.0)):
        yield f, x


@program
def data_class_global():
    pair = Pair(Plain(scale=2.0))

    def f(x):
        return x * pair.first.scale * pair.second

    x = torch.ones(3)
    yield f, x
    pair.second = 3.0
    yield f, x
    pair.first.scale = 4.0
    yield f, x
    pair.first = Plain(scale=5.0)
    yield f, x


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@program
def enumeration():
    o = Plain(color=Color.RED)

    def f(x):
        return x * (2 if o.color is Color.RED else 3) + o.color.value + len(o.color.name)

    x = torch.ones(3)
    yield f, x
    o.color = Color.BLUE
    yield f, x
    o.color = Color.RED
    yield f, x
    Color.RED._value_ = 7
    yield f, x
    Color.RED._value_ = 1
    yield f, x


@python
def enumeration_of_integers():
    o = Plain(level=Level.LOW)

    def f(x):
        return x * o.level + (2 if o.level > 1 else 3)

    x = torch.ones(3)
    yield f, x
    o.level = Level.HIGH
    yield f, x


# --- functions --------------------------------------------------------------------------------------------------------


def helper(x, scale=2.0, *, shift=1.0):
    return x * scale + shift


def with_attributes(x):
    return x * with_attributes.scale


with_attributes.scale = 2.0


@program
def defaults_of_a_function():
    def f(x):
        return helper(x)

    x = torch.ones(3)
    yield f, x
    with changed(helper, __defaults__=(3.0,)):
        yield f, x
    with changed(helper, __kwdefaults__={"shift": 5.0}):
        yield f, x
    helper.__kwdefaults__["shift"] = 6.0
    yield f, x
    helper.__kwdefaults__["shift"] = 1.0
    yield f, x


@program
def mutable_default():
    scales = [2.0]

    def f(x, scales=scales, o=Plain(scale=1.0)):  # noqa: B008
        return x * scales[0] + len(scales) + o.scale

    x = torch.ones(3)
    yield f, x
    scales[0] = 3.0
    yield f, x
    scales.append(1)
    yield f, x
    f.__defaults__[1].scale = 5.0
    yield f, x
    del scales[1:]
    f.__defaults__[1].scale = 1.0
    scales[0] = 2.0
    yield f, x


@program
def code_of_a_function():
    def f(x):
        return helper(x) * 2

    x = torch.ones(3)
    yield f, x
    with changed(helper, __code__=(lambda x, scale=2.0, *, shift=1.0: x - scale).__code__):
        yield f, x
    yield f, x


@program
def code_of_the_compiled_function():
    def f(x):
        return x * 2

    def g(x):
        return x * 3

    x = torch.ones(3)
    code = f.__code__
    yield f, x
    f.__code__ = g.__code__
    yield f, x
    f.__code__ = code
    yield f, x


@program
def attribute_of_a_function():
    def f(x):
        return with_attributes(x) + hasattr(with_attributes, "shift") + getattr(with_attributes, "more", 0)

    x = torch.ones(3)
    yield f, x
    with changed(with_attributes, scale=3.0):
        yield f, x
    with changed(with_attributes, shift=3.0):
        yield f, x
    with changed(with_attributes, more=3.0):
        yield f, x
    with changed(with_attributes, __dict__={"scale": 7.0}):
        yield f, x
    yield f, x


@program
def closure_of_a_function():
    def make(scale):
        def scaled(x):
            return x * scale

        return scaled

    scaled = make(2.0)

    def f(x):
        return scaled(x)

    x = torch.ones(3)
    yield f, x
    scaled.__closure__[0].cell_contents = 3.0
    yield f, x
    scaled.__closure__[0].cell_contents = torch.full((3,), 4.0)
    yield f, x
    scaled.__closure__[0].cell_contents = 2.0
    yield f, x
    scaled = make(5.0)
    yield f, x


@program
def bound_method_in_a_variable():
    o = Base()
    method = o.apply

    def f(x):
        return method(x)

    x = torch.ones(3)
    yield f, x
    o.scale = 3.0
    yield f, x
    del o.scale
    yield f, x
    o.__class__ = Other
    yield f, x
    o.__class__ = Base
    yield f, x


@program
def bound_method_of_a_list():
    scales = [2.0, 3.0]
    index = scales.index

    def f(x):
        return x * (index(3.0) + 2)

    x = torch.ones(3)
    yield f, x
    scales.insert(0, 1.0)
    yield f, x
    del scales[0]
    yield f, x


@program
def bound_getter_of_a_dictionary():
    table = {"a": 2.0}
    get = table.get

    def f(x):
        return x * get("a") + get("b", 0.0)

    x = torch.ones(3)
    yield f, x
    table["a"] = 3.0
    yield f, x
    table["b"] = 3.0
    yield f, x
    del table["b"]
    yield f, x


@program
def partial_function():
    o = Plain(scale=2.0)
    partial = functools.partial(lambda x, o, scale=1.0: x * o.scale * scale, o=o)

    def f(x):
        return partial(x)

    x = torch.ones(3)
    yield f, x
    o.scale = 3.0
    yield f, x
    partial.keywords["scale"] = 4.0
    yield f, x
    del partial.keywords["scale"]
    yield f, x
    partial.__setstate__((lambda x, o: x - o.scale, (), {"o": o}, None))
    yield f, x


@program
def partial_function_with_positions():
    o, scales = Plain(scale=2.0), [2.0]
    partial = functools.partial(lambda o, scales, x: x * o.scale * scales[0], o, scales)

    def f(x):
        return partial(x)

    x = torch.ones(3)
    yield f, x
    o.scale = 3.0
    yield f, x
    scales[0] = 4.0
    yield f, x
    partial.__setstate__((partial.func, (o, [5.0]), {}, None))
    yield f, x


@python
def partial_method():
    class Has:
        scale = 2.0

        def apply(self, scale, x):
            return x * scale * self.scale

        doubled = functools.partialmethod(apply, 2.0)

    o = Has()

    def f(x):
        return o.doubled(x)

    x = torch.ones(3)
    yield f, x
    o.scale = 3.0
    yield f, x
    Has.doubled = functools.partialmethod(Has.apply, 4.0)
    yield f, x


@python
def cached_function():
    values = [2.0]

    @functools.lru_cache
    def scale():
        return values[0]

    def f(x):
        return x * scale()

    x = torch.ones(3)
    yield f, x
    values[0] = 3.0
    yield f, x
    scale.cache_clear()
    yield f, x


@program
def wrapped_function():
    def twice(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            return function(*args, **kwargs) * 2

        return wrapper

    inner = Plain(function=twice(helper))

    def f(x):
        return inner.function(x)

    x = torch.ones(3)
    yield f, x
    with changed(helper, __defaults__=(5.0,)):
        yield f, x
    inner.function = twice(torch.sin)
    yield f, x
    inner.function = twice(helper)
    yield f, x


@program
def compiled_function_in_a_function():
    inner = torch.compile(helper, backend="eager")

    def f(x):
        return inner(x)

    x = torch.ones(3)
    yield f, x
    with changed(helper, __defaults__=(5.0,)):
        yield f, x
    with changed(helper, __code__=(lambda x, scale=2.0, *, shift=1.0: x - scale).__code__):
        yield f, x
    yield f, x


@program
def weak_reference():
    o = Plain(scale=2.0)
    holder = Plain(reference=weakref.ref(o))

    def f(x):
        found = holder.reference()
        return x * 7 if found is None else x * found.scale

    x = torch.ones(3)
    yield f, x
    o.scale = 3.0
    yield f, x
    holder.reference = weakref.ref(other := Plain(scale=5.0))
    yield f, x
    assert other.scale == 5.0


@program
def referent_that_ends():
    def f(x, reference):
        return x * 7 if reference() is None else x * 2

    class Ends:
        pass

    o, x = Ends(), torch.ones(3)
    reference = weakref.ref(o)
    yield f, x, reference
    del o
    yield f, x, reference


@program
def operators_from_the_module_operator():
    o = Plain(scale=2.0, table={"a": 2.0})
    get, at = operator.attrgetter("scale"), operator.itemgetter("a")

    def f(x):
        return x * get(o) * at(o.table)

    x = torch.ones(3)
    yield f, x
    o.scale = 3.0
    yield f, x
    o.table["a"] = 4.0
    yield f, x


@program
def callback_in_a_container():
    actions = {"first": [torch.sin, helper]}

    def f(x):
        for action in actions["first"]:
            x = action(x)
        return x

    x = torch.ones(3)
    yield f, x
    actions["first"][1] = torch.cos
    yield f, x
    actions["first"] = [helper]
    yield f, x
    item(actions, "first", [torch.sin, helper])
    yield f, x


@program
def missing_global_function():
    def f(x):
        return abs(x) * 2

    x = torch.ones(3)
    yield f, x
    globals()["abs"] = lambda x: x * 9
    yield f, x
    del globals()["abs"]
    yield f, x


@program
def attribute_that_is_deleted():
    o = Plain(scale=2.0)

    def f(x):
        return x * o.scale

    x = torch.ones(3)
    with changed(Plain, scale=5.0):
        yield f, x
        with without(o, "scale"):
            yield f, x
        yield f, x
