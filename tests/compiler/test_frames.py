"""Functions that look at the frame that calls them, and overrides of subclasses, see no hooks of compiled functions."""

from __future__ import annotations

import gc
import inspect
import warnings
import weakref

import pytest

import gradloom as torch
from gradloom.compiler._api import optimized_of


class Named(torch.Tensor):
    """A subclass that notes what is called."""

    names: list[str] = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.names.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


def some(x):
    return torch.relu(x @ x) * 2 + x.sum(-1, keepdim=True)


def test_a_subclass_sees_the_calls_of_a_compiled_function():
    compiled = torch.compile(some, backend="numpy")
    x = torch.ones(3, 3).as_subclass(Named)
    some(x)
    expected = Named.names[:]
    for _ in range(4):
        Named.names.clear()
        assert type(compiled(x)) is Named
        assert Named.names == expected
    assert "a Named (args[0])" in optimized_of(compiled).breaks[0][1]


def test_constants_that_are_properties_for_subclasses_are_compiled():
    torch.ones(1).as_subclass(Named)
    compiled = torch.compile(lambda x: torch.zeros(2, device=x.device) + x, backend="numpy", fullgraph=True)
    for _ in range(3):
        torch.testing.assert_close(compiled(torch.ones(2)), torch.ones(2))
    assert optimized_of(compiled).calls[0] == 2


def sees_its_variables(x):
    k = 2
    return x * k, sorted(locals()), sorted(dir()), sorted(vars())


def test_a_function_sees_only_its_own_variables():
    compiled = torch.compile(sees_its_variables, backend="numpy")
    x = torch.ones(2)
    for _ in range(4):
        assert compiled(x)[1:] == (["k", "x"], ["k", "x"], ["k", "x"])
    with pytest.raises(RuntimeError, match=r"it calls locals\(\)"):
        torch.compile(sees_its_variables, backend="numpy", fullgraph=True)(x)


def warns(x):
    warnings.warn("careful")  # noqa: B028
    return torch.sin(x) * 2


def test_a_warning_is_of_a_line_of_the_program():
    compiled = torch.compile(warns, backend="numpy")

    def places(function):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            for _ in range(4):
                function(torch.ones(2))
        return [(str(w.message), w.filename, w.lineno) for w in found]

    line = inspect.getsourcelines(warns)[1] + 1
    found = places(compiled)
    assert found == places(warns)
    assert len(found) == 4
    assert found[0][2] == line


def test_compiled_functions_that_are_gone_keep_nothing():
    kept = []
    for _ in range(3):
        big = torch.ones(100)
        kept.append(weakref.ref(big))
        compiled = torch.compile(lambda x, big=big: torch.sin(x) * big, backend="numpy")
        for _ in range(2):
            compiled(torch.ones(100))
    del big, compiled
    gc.collect()
    assert [r() for r in kept] == [None] * 3
