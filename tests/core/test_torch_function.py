"""When public functions check for overrides, and what their code is then; tests/semantics has what the checks do."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import gradloom as torch
from gradloom import ops
from gradloom.overrides import BaseTorchFunctionMode, TorchFunctionMode
from gradloom.python_dispatch.torch_function import checks, handlers, public
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
    """Run a program in a process of its own, where no class of another test overrides functions."""
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


def test_a_derivative_replaced_while_functions_check_is_in_force_then_and_after():
    with BaseTorchFunctionMode():
        definition = ops.define(WRONG_MUL)
        assert gradient() == 15
    assert gradient() == 15
    definition.remove()
    assert gradient() == 5


def test_a_derivative_replaced_before_is_in_force_while_functions_check_and_may_end_there():
    definition = ops.define(WRONG_MUL)
    with Seen() as mode:
        assert gradient() == 15
        definition.remove()
        assert gradient() == 5
    assert gradient() == 5 and "torch.mul" in mode.names


def test_operators_that_are_defined_while_functions_check_do_so_too():
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
        assert not any(function.__name__ == "half_of" for function in checks.checked)


# --- the code that checks -----------------------------------------------------------------------------------------


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


def test_every_public_function_checks():
    with BaseTorchFunctionMode():
        found = list(public.public_functions())
        assert len(found) > 1000
        for item in found:
            assert checks.checked[item.function][0].checks


def test_threads_may_enter_and_leave_modes_at_once():
    def work():
        for _ in range(20):
            with Seen() as mode:
                torch.ones(2).sum()
            assert mode.names == ["torch.ones", "torch.Tensor.sum"]

    in_threads(*[work] * 4)
    assert checks.modes_entered == {}


def test_which_modules_are_internal():
    decide = checks.is_internal_module
    assert all(
        map(
            decide,
            (
                "gradloom.core.tensor",
                "gradloom.generated.functions.elementwise",
                "gradloom.formulas.norm",
                "gradloom.core.engine",
                "gradloom.composite.shape.reshapes",
                "gradloom.binding.python_operators",
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


# --- when they check ----------------------------------------------------------------------------------------------


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


def test_functions_check_as_long_as_a_class_exists_that_overrides_them():
    alone("""
code = torch.mul.__code__
class Overrides(torch.Tensor):
    pass
assert torch.mul.__code__ is not code
del Overrides
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


def test_classes_that_override_nothing_and_gradlooms_own_change_nothing():
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


def test_the_set_of_plain_classes_is_bounded():
    for n in range(1200):
        handlers.overrides(type(f"C{n}", (), {}))
    assert len(handlers.plain) <= 1000 and torch.Tensor in handlers.plain
