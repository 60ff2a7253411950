"""`gradloom.ops.define` runs what it generates, so a text from elsewhere must be refused or become plain operators."""

import os
import subprocess

import pytest

import gradloom
from gradloom.codegen.errors import SpecError
from gradloom.tools import define as definitions
from tests.codegen.attacks import DEFAULTS, EXPRESSIONS, NAMES
from tests.codegen.test_security import quoted

SCHEMA = "attacked(Tensor self, Tensor other) -> Tensor"


@pytest.fixture(autouse=True)
def without_assertions(monkeypatch):
    """Kernels that return their input are beside the point here; GRADLOOM_DEBUG refuses them."""
    monkeypatch.setattr(definitions, "DEBUG", False)


@pytest.fixture(autouse=True)
def forbidden(monkeypatch):
    """Everything that an attack of the list would run is a failure."""

    def fail(*args, **kwargs):
        raise AssertionError(f"an attack ran: {args}")

    with gradloom.ops.define("- func: warm(Tensor self) -> Tensor\n  kernel: self\n"):
        pass  # imports what there is to import
    for name in ("system", "popen", "execv", "remove"):
        monkeypatch.setattr(os, name, fail)
    monkeypatch.setattr(subprocess, "Popen", fail)
    monkeypatch.setattr("builtins.print", fail)
    monkeypatch.setattr("builtins.input", fail)
    monkeypatch.setattr("builtins.breakpoint", fail)


def attempt(text):
    """Define, use once and remove. What an operator says about its arguments is not of interest here."""
    try:
        definition = gradloom.ops.define(text)
    except SpecError as error:
        assert error.message and error.hint, text
        return False
    with definition:
        for name in definition.operators:
            x = gradloom.tensor([1.0, 2.0], requires_grad=True)
            try:
                result = getattr(gradloom.ops.user, name)(x.clone(), x)
                gradloom.autograd.grad(result.sum(), x, allow_unused=True)
            except AssertionError:
                raise
            except Exception:
                pass
    return True


def test_plain_text_is_defined():
    assert attempt(f"- func: {SCHEMA}\n  kernel: self * other\n- name: {SCHEMA}\n  self: grad * other\n")


@pytest.mark.parametrize("place", ["kernel", "formula"])
def test_expressions(place):
    for attack in EXPRESSIONS:
        if attack == "(0,) * 10 ** 10":  # which is defined, and fills the memory when it is called
            continue
        kernel, formula = (quoted(attack), "grad") if place == "kernel" else ("self * other", quoted(attack))
        attempt(f"- func: {SCHEMA}\n  kernel: {kernel}\n- name: {SCHEMA}\n  self: {formula}\n")


def test_names_and_defaults():
    for attack in NAMES:
        attempt(f"- func: {quoted(f'{attack}(Tensor self, Tensor other) -> Tensor')}\n  kernel: self\n")
    for attack in DEFAULTS:
        attempt(f"- func: {quoted(f'attacked(Tensor self, Tensor other, str x={attack}) -> Tensor')}\n  kernel: self\n")


def test_gradloom_is_as_it_was():
    x = gradloom.tensor([3.0], requires_grad=True)
    (x * x).sum().backward()
    assert x.grad.tolist() == [6.0]
