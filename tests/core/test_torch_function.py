"""How public functions come to ask, and what else holds their code; what they ask is told in tests/semantics."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import gradloom as torch
from gradloom import ops
from gradloom.overrides import BaseTorchFunctionMode, TorchFunctionMode
from gradloom.python_dispatch.torch_function import asking, internal, public
from tests.waiting import LIMIT, in_threads

WRONG_MUL = """
- name: mul.Tensor(Tensor self, Tensor other) -> Tensor
  override: true
  self: grad * other * 3
  other: grad * self
  result: other_t * self_p + self_t * other_p * 3
"""
HALF = """
- func: half_of(Tensor self) -> Tensor
  variants: function, method
  kernel: self / 2
- name: half_of(Tensor self) -> Tensor
  self: grad / 2
  result: auto_linear
"""


class Seen(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.names.append(torch.overrides.resolve_name(func))
        return func(*args, **(kwargs or {}))


def alone(program: str) -> None:
    """Run a program in a process of its own, where no class of another test answers."""
    result = subprocess.run(
        [sys.executable, "-c", f"import gc, inspect\nimport gradloom as torch\n{program}"],
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert not result.returncode, result.stderr


def gradient():
    a, b = torch.tensor(2.0, requires_grad=True), torch.tensor(5.0)
    return torch.autograd.grad(a * b, a)[0].item()


# --- other code for a wrapper -------------------------------------------------------------------------------------


def test_a_derivative_replaced_while_functions_ask_is_in_force_then_and_after():
    with BaseTorchFunctionMode():
        definition = ops.define(WRONG_MUL)
        assert gradient() == 15
    assert gradient() == 15
    definition.remove()
    assert gradient() == 5


def test_a_derivative_replaced_before_is_in_force_while_functions_ask_and_may_end_there():
    definition = ops.define(WRONG_MUL)
    with Seen() as mode:
        assert gradient() == 15
        definition.remove()
        assert gradient() == 5
    assert gradient() == 5 and "torch.mul" in mode.names


def test_operators_that_are_defined_while_functions_ask_do_so_too():
    with Seen() as mode:
        definition = ops.define(HALF, namespace="halves")
        try:
            x = torch.ones(2)
            mode.names.clear()
            x.half_of()
            torch.ops.halves.half_of(x)
            assert mode.names == ["torch.Tensor.half_of", "halves.half_of"]
        finally:
            definition.remove()
        assert not any(function.__name__ == "half_of" for function in asking._askings)


# --- the code that asks --------------------------------------------------------------------------------------------


def test_names_places_signatures_and_sources_are_those_of_the_function():
    before = {
        f: (f.__code__.co_filename, inspect.signature(f), inspect.getsource(f))
        for f in (torch.mul, torch.norm, torch.Tensor.size)
    }
    with BaseTorchFunctionMode():
        for f, (path, signature, source) in before.items():
            assert (f.__code__.co_filename, inspect.signature(f), inspect.getsource(f)) == (path, signature, source)
            assert f.__code__.co_name == f.__name__


def test_errors_are_those_of_the_function():
    x = torch.ones(2)
    calls = (
        lambda: torch.mul(x),
        lambda: torch.mul(x, "a"),
        lambda: x + "a",
        lambda: x.view(3),
        lambda: torch.sum(),
        lambda: torch.mul(x, x, wrong=1),
        lambda: x[5],
        lambda: torch.nn.functional.relu(),
    )

    def texts():
        found = []
        for call in calls:
            with pytest.raises((TypeError, RuntimeError, IndexError)) as error:
                call()
            found.append((error.type, str(error.value)))
        return found

    before = texts()
    with BaseTorchFunctionMode():
        assert texts() == before


def test_every_public_function_asks():
    with BaseTorchFunctionMode():
        found = list(public.public_functions())
        assert len(found) > 1000
        for item in found:
            assert item.function.__code__ is asking._askings[item.function].code


def test_threads_may_enter_and_leave_modes_at_once():
    def work():
        for _ in range(20):
            with Seen() as mode:
                torch.ones(2).sum()
            assert mode.names == ["torch.ones", "torch.Tensor.sum"]

    in_threads(*[work] * 4)
    assert asking.modes_entered == []


def test_whose_calls_are_asked_about():
    decide = internal._decide
    assert all(
        map(
            decide,
            (
                "gradloom.core.tensor",
                "gradloom.generated.functions.elementwise",
                "gradloom.formulas.norm",
                "gradloom.core.engine",
                "gradloom.composite.shape.reshapes",
                "gradloom.tensors.python_operators",
            ),
        )
    )
    assert not any(
        map(
            decide,
            (
                "__main__",
                "gradloom.nn.modules.linear",
                "gradloom.optim.sgd",
                "gradloomy.tensor",
                "gradloom.autograd.functional",
                "numpy",
                "",
            ),
        )
    )


# --- when they ask -------------------------------------------------------------------------------------------------


def test_functions_are_what_they_were_when_the_last_mode_is_left():
    alone("""
functions = torch.mul, torch.std, torch.norm, torch.Tensor.size, torch.Tensor.__add__, torch.Tensor.shape.fget
before = [(f.__code__, inspect.signature(f)) for f in functions]
with torch.overrides.BaseTorchFunctionMode():
    assert all(f.__code__ is not code for f, (code, _) in zip(functions, before))
    assert [inspect.signature(f) for f in functions] == [signature for _, signature in before]
    with torch.overrides.BaseTorchFunctionMode():
        pass
    assert torch.mul.__code__ is not before[0][0]
assert [(f.__code__, inspect.signature(f)) for f in functions] == before
""")


def test_functions_ask_as_long_as_a_class_exists_that_answers():
    alone("""
code = torch.mul.__code__
class Answers(torch.Tensor):
    pass
assert torch.mul.__code__ is not code
del Answers
gc.collect()
assert torch.mul.__code__ is code
class Other:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func
assert torch.mul(Other(), 1) is torch.mul and torch.mul.__code__ is not code
del Other
gc.collect()
assert torch.mul.__code__ is code
""")


def test_classes_that_do_not_answer_and_gradlooms_own_change_nothing():
    alone("""
code = torch.mul.__code__
class Disabled(torch.Tensor):
    __torch_function__ = torch._C._disabled_torch_function_impl
class Own(torch.Tensor):
    __module__ = "gradloom.somewhere"
class OwnParameter(torch.nn.Parameter):
    pass
import gradloom.overrides, gradloom.func
assert torch.mul.__code__ is code and type(Disabled([1.0]) * 2) is torch.Tensor
torch.func.vmap(torch.sin)(torch.ones(2))
assert torch.mul.__code__ is code
""")


def test_the_set_of_classes_that_never_answer_is_bounded():
    from gradloom.python_dispatch.torch_function import answers

    for n in range(1200):
        answers.overrides(type(f"C{n}", (), {}))
    assert len(answers.plain) <= 1000 and torch.Tensor in answers.plain
