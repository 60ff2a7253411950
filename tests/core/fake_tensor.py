"""A tensor just rich enough for the overload parser, and what else it must be told about."""

import re

import numpy as np
import pytest

from gradloom import schema as language
from gradloom.dispatch import overloads


def parameters(schema):
    """The parameters of `f(Tensor|number self, *, Tensor? out=None)` as generated code has them, without returns."""
    text = schema.replace("|number", "").partition(") -> ")[0].removesuffix(")")
    arguments = language.parse(f"{text}) -> ()").arguments
    return language.parameters(arguments, re.findall(r"Tensor\|number\?? (\w+)", schema))


class FakeTensor:
    """An array; and, as in PyTorch, an integer where one is wanted if it has one integral element."""

    _operand = ()  # kernels may read its values

    def __init__(self, array=0.0, requires_grad=False):
        self._array = np.asarray(array)
        self.requires_grad = requires_grad

    def __index__(self):
        if self._array.size != 1 or self._array.dtype.kind not in "biu":
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self._array.item())


FakeTensor.__name__ = "Tensor"


class FakeType:
    """Stands for dtype objects."""

    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return self.name


class FakeDevice:
    def __init__(self, text):
        self.text = text


class FakeGenerator:
    pass


class FakeLayout:
    pass


class FakeFormat:
    pass


float32, float64, int64, boolean = map(FakeType, ("float32", "float64", "int64", "bool"))


contiguous = FakeFormat()


@pytest.fixture
def fake_types():
    """The parser knows the fakes, and afterwards again what it knew before."""
    previous = overloads.register_types(
        Tensor=FakeTensor,
        dtype=FakeType,
        device=FakeDevice,
        Generator=FakeGenerator,
        layout=FakeLayout,
        memory_format=FakeFormat,
        python_dtypes={float: float64, int: int64, bool: boolean},
        constants={"long": int64, "contiguous_format": contiguous},
        wrapped_number=lambda number: ("wrapped", number),
        handle_torch_function=lambda parser, args, kwargs: ("overridden", parser.public, args, kwargs),
        disabled_torch_function=None,
    )
    yield
    overloads.register_types(**previous)
