"""Calls without their required arguments: functions and methods of operators raise PyTorch's errors.

The names are those of all functions that are public wrappers or behind an argument parser. Others that either
library has in Python raise the errors of Python.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("torch", reason="PyTorch, the reference, is not installed: make conformance installs it")

import torch

import gradloom
from gradloom.dispatch.overloads import Overloads
from gradloom.generated.namespaces import ENTRIES, GUARDS

SPACES = ("", "nn.functional", "linalg", "fft", "special", "Tensor")
#: Parts of PyTorch's messages that differ, by the reason.
KNOWN = {
    "the only overload here is one of several in PyTorch": "received an invalid combination of arguments",
    "the operator is for other devices, and says so first": "batch_norm_",
    "one overload has a default for the step, the other has no step": "range()",
    "the function is written in Python here": "nonzero()",
}


def functions() -> Iterator[tuple[str, str, Any, Any]]:
    """Yield namespace, name, PyTorch's function and gradloom's, of those that are written in C in PyTorch."""
    public = {n: getattr(gradloom, n, None) for n in dir(torch)}
    parsed = {n for n, f in public.items() if isinstance(getattr(f, "__wrapped__", None), Overloads)}
    for space in SPACES:
        theirs, ours = torch, gradloom
        for part in filter(None, space.split(".")):
            theirs, ours = getattr(theirs, part), getattr(ours, part)
        for name in sorted({*GUARDS, *ENTRIES, *(() if space == "Tensor" else parsed)}):
            short = name.removeprefix(f"{space}_")
            found = vars(torch._C.TensorBase).get(name) if space == "Tensor" else getattr(theirs, short, None)
            if found is not None and callable(found) and not hasattr(found, "__code__") and hasattr(ours, short):
                yield space, short, found, getattr(ours, short)


def raised(function: Any, *args: Any) -> Exception | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            function(*args)
        except Exception as error:
            return error
    return None


@pytest.mark.parametrize("count", [0, 1])
def test_missing_arguments_are_named_in_pytorchs_words(count):
    compared, different = 0, []
    for space, name, theirs, ours in functions():
        if space == "Tensor" and not count:
            continue
        expected = raised(theirs, *[torch.ones(2, 3)] * count)
        if not isinstance(expected, TypeError) or any(words in str(expected) for words in KNOWN.values()):
            continue
        compared += 1
        found = raised(ours, *[gradloom.ones(2, 3)] * count)
        if type(found) is not TypeError or str(found) != str(expected):
            different.append(f"{space}.{name}: {expected!r}, not {found!r}")
    assert compared > 300
    assert not different, "\n".join(different)
