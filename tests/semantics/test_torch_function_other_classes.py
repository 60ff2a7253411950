"""Classes that are no tensors and have a __torch_function__: they stand for tensors, numbers and sizes."""

from __future__ import annotations

import os

import pytest

from tests.waiting import LIMIT


@pytest.fixture
def Duck():
    """Answers with the function, how often it stands in what position, and the keywords."""

    class Duck:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            assert cls in types
            return func, ["duck" if isinstance(a, cls) else a for a in args], kwargs or {}

    return Duck


@pytest.fixture(autouse=True)
def asking(torch):
    """Functions ask already, because of another class; what happens when they do not is tested below."""

    class Other(torch.Tensor):
        pass

    yield Other


def test_it_stands_for_a_tensor(torch, Duck):
    duck, y = Duck(), torch.ones(2)
    assert torch.mean(duck) == (torch.mean, ["duck"], {})
    assert torch.sum(duck, dim=0) == (torch.sum, ["duck"], {"dim": 0})
    func, args, kwargs = torch.add(y, duck, alpha=2)
    assert func is torch.add and args[0] is y and args[1:] == ["duck"] and kwargs == {"alpha": 2}
    assert torch.where(y > 0, duck, duck)[0] is torch.where


def test_it_stands_for_a_tensor_in_a_list(torch, Duck):
    duck, y = Duck(), torch.ones(2)
    for function in (torch.cat, torch.stack):
        func, (found,), _ = function([y, duck])
        assert func is function and found[0] is y and found[1] is duck


def test_it_stands_for_numbers_and_sizes(torch, Duck):
    duck, y = Duck(), torch.ones(2)
    assert y.clamp(duck)[0] is torch.Tensor.clamp and torch.sum(y, duck)[0] is torch.sum
    assert y.view(duck)[0] is torch.Tensor.view and torch.zeros(duck)[0] is torch.zeros
    assert torch.full((2,), duck)[0] is torch.full and y.sum(dim=duck)[2] == {"dim": duck}


def test_operators_with_a_tensor_on_either_side(torch, Duck):
    duck, y = Duck(), torch.ones(2)
    for result, method in [
        (y + duck, "add"),
        (duck + y, "add"),
        (y * duck, "mul"),
        (y / duck, "div"),
        (duck - y, "__rsub__"),
        (y @ duck, "matmul"),
        (duck @ y, "__rmatmul__"),
        (y < duck, "lt"),
        (duck < y, "gt"),
        (y**duck, "__pow__"),
    ]:
        func, args, _ = result
        assert func == getattr(torch.Tensor, method) and args[0] is y and args[1] == "duck"


def test_indexing(torch, Duck):
    duck, y = Duck(), torch.ones(2)
    assert y[duck][0] == torch.Tensor.__getitem__
    y[0] = duck
    assert y.tolist() == [1.0, 1.0]


def test_functions_written_in_python(torch, Duck):
    duck, y, F = Duck(), torch.ones(2, 2), torch.nn.functional
    calls = {
        F.linear: (duck, y),
        F.relu: (duck,),
        F.cross_entropy: (duck, y),
        F.softmax: (duck, 0),
        torch.norm: (duck,),
        torch.einsum: ("ij,j", y, duck),
        torch.split: (duck, 1),
        torch.unique: (duck,),
        torch.tensordot: (duck, y),
        torch.nn.init.uniform_: (duck,),
        torch.cdist: (y, duck),
    }
    for function, args in calls.items():
        assert function(*args)[0] is function
    assert torch.nn.Linear(2, 2)(duck)[0] is F.linear


def test_what_is_made_from_data_is_not_asked(torch, Duck):
    assert not torch.is_tensor(Duck())
    for function in (torch.tensor, torch.as_tensor):
        with pytest.raises((TypeError, RuntimeError, ValueError)):
            function(Duck())


def test_without_an_answer_there_is_an_error(torch):
    class Nothing:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    y = torch.ones(2)
    with pytest.raises(
        TypeError,
        match="Multiple dispatch failed for 'torch.mean'; all __torch_function__ handlers "
        "returned NotImplemented:\n\n  - tensor subclass <class '.*Nothing'>",
    ):
        torch.mean(Nothing())
    with pytest.raises(TypeError, match=r"unsupported operand type\(s\) for \+: 'Tensor' and 'Nothing'"):
        y + Nothing()


def test_switched_off_it_is_no_tensor(torch, Duck):
    with torch._C.DisableTorchFunctionSubclass():
        with pytest.raises(TypeError, match=r"add\(\): argument 'input' \(position 1\) must be Tensor, not Duck"):
            torch.add(Duck(), torch.ones(2))
        with pytest.raises(TypeError, match=r"unsupported operand type\(s\) for \+: 'Tensor' and 'Duck'"):
            torch.ones(2) + Duck()


def test_it_answers_before_or_after_subclasses_as_it_stands(torch, asking):
    order = []

    class Passes:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            order.append(types)
            return NotImplemented

    x = torch.ones(2).as_subclass(asking)
    with pytest.raises(TypeError):
        torch.add(x, Passes())
    assert order == [(asking, Passes)]
    order.clear()
    with pytest.raises(TypeError):
        torch.add(Passes(), x)
    assert order == [(Passes, asking)]


def test_a_plain_method_is_called_with_a_warning(torch):
    class OfInstances:
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return self

    duck = OfInstances()
    with pytest.warns(
        UserWarning,
        match="Defining your `__torch_function__` as a plain method is deprecated and will "
        "be an error in future, please define it as a classmethod",
    ):
        assert torch.add(duck, 1) is duck


def test_a_scalar_times_the_identity(torch):
    """As in PyTorch's notes on extending it: values that stand for a matrix, and meet tensors."""
    handled = {}

    def implements(function):
        def register(implementation):
            handled[function] = implementation
            return implementation

        return register

    class Diagonal:
        def __init__(self, n, value):
            self.n, self.value = n, value

        def tensor(self):
            return self.value * torch.eye(self.n)

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if func not in handled or not all(issubclass(t, (torch.Tensor, cls)) for t in types):
                return NotImplemented
            return handled[func](*args, **(kwargs or {}))

    def ensure(value):
        return value.tensor() if isinstance(value, Diagonal) else value

    @implements(torch.mean)
    def mean(input):
        return input.value / input.n

    @implements(torch.add)
    def add(input, other):
        return torch.add(ensure(input), ensure(other))

    d = Diagonal(2, 3.0)
    assert torch.mean(d) == 1.5
    assert torch.add(d, torch.ones(2, 2)).tolist() == [[4.0, 1.0], [1.0, 4.0]]
    assert torch.add(d, d).tolist() == [[6.0, 0.0], [0.0, 6.0]]
    with pytest.raises(TypeError, match="Multiple dispatch failed for 'torch.mul'"):
        torch.mul(d, 2)


# --- the first time ----------------------------------------------------------------------------------------------


FIRST = """
import gradloom as torch
y = torch.ones(2)
class Duck:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func, ["duck" if isinstance(a, cls) else "y" for a in args], kwargs or {}
"""

FIRST_CALLS = {
    "torch.mul(Duck(), y)": "torch.mul, ['duck', 'y'], {}",
    "torch.mul(y, Duck())": "torch.mul, ['y', 'duck'], {}",
    "y * Duck()": "torch.Tensor.mul, ['y', 'duck'], {}",
    "Duck() * y": "torch.Tensor.mul, ['y', 'duck'], {}",
    "torch.sum(Duck(), dim=0)": "torch.sum, ['duck'], {'dim': 0}",
    "y / Duck()": "torch.Tensor.div, ['y', 'duck'], {}",
    "torch.cat([y, Duck()])[0]": "torch.cat",
    "torch.mean(Duck())": "torch.mean, ['duck'], {}",
    "Duck() @ y": "torch.Tensor.__rmatmul__, ['y', 'duck'], {}",
    "torch.zeros(Duck())[0]": "torch.zeros",
    "Duck() - y": "torch.Tensor.__rsub__, ['y', 'duck'], {}",
    "y.view(Duck())[0]": "torch.Tensor.view",
    "torch.add(y, Duck(), alpha=2)": "torch.add, ['y', 'duck'], {'alpha': 2}",
    "torch.nn.functional.linear(Duck(), y)[0]": "torch.nn.functional.linear",
    # What an operator meets that is the last call of a function written in Python is that function's.
    "torch.nn.functional.relu(Duck())": "torch.nn.functional.relu, ['duck'], {}",
    "torch.nn.functional.cross_entropy(Duck(), y)": "torch.nn.functional.cross_entropy, ['duck', 'y'], {}",
    "torch.einsum('i->', Duck())[0]": "torch.einsum",
    "torch.block_diag(y, Duck())[0]": "torch.block_diag",
    "torch.nn.Linear(2, 2)(Duck())[0]": "torch.nn.functional.linear",
}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_class_that_was_never_met_answers_its_first_call(gradloom):
    import subprocess
    import sys

    program = [
        FIRST,
        "import os, warnings",
        "warnings.simplefilter('ignore')",
    ]  # a process of its own for each call, which has not seen the others
    for call, answer in FIRST_CALLS.items():
        program += [
            "if not os.fork():",
            f"    found = {call}",
            f"    assert found == ({answer}), found",
            "    os._exit(0)",
        ]
        program += [f"if os.wait()[1]: raise SystemExit({call!r})"]
    command = [sys.executable, "-c", "\n".join(program)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    assert not result.stderr and not result.returncode
