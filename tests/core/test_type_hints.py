"""`typing.get_type_hints` of public classes and functions: what their annotations name exists at run time."""

from __future__ import annotations

import typing
from importlib import import_module
from types import FunctionType

import pytest

MODULES = (
    "nn nn.functional nn.init nn.utils optim optim.lr_scheduler optim.swa_utils distributions utils.data "
    "signal.windows autograd.forward_ad autograd.functional autograd.function autograd.profiler func masked "
    "random utils._pytree"
)


def annotated(value):
    """The objects whose annotations programs read: a function; a class, its constructor and its `forward`."""
    if not isinstance(value, type):
        return [value]
    return [value, value.__init__, *([value.forward] if hasattr(value, "forward") else [])]


@pytest.mark.parametrize("name", MODULES.split())
def test_hints_can_be_read(name):
    module = import_module(f"gradloom.{name}")
    public = [getattr(module, word) for word in dir(module) if not word.startswith("_")]
    home = f"gradloom.{name.partition('.')[0]}"
    ours = [v for v in public if isinstance(v, (type, FunctionType)) and v.__module__.startswith(home)]
    assert ours
    failed = []
    for value in ours:
        for part in annotated(value):
            try:
                typing.get_type_hints(part)
            except NameError as error:
                failed.append(f"{value.__qualname__}: {error}")
    assert failed == []
