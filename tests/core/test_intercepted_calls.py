"""Handlers of a call before its kernel runs: Note [Interception]."""

from __future__ import annotations

import pytest

import gradloom as torch
from gradloom.dispatch import interception
from gradloom.dispatch.interception import PROFILER, PYTHON, operand_of, record
from gradloom.dispatch.state import GRAD_OFF, INTERCEPT, state
from gradloom.memory.metadata import Metadata


@pytest.fixture
def handlers(monkeypatch):
    """The table of handlers, empty for the time of a test."""
    table = [None] * len(interception._handlers)
    monkeypatch.setattr(interception, "_handlers", table)
    return table


@pytest.fixture
def seen(handlers, monkeypatch):
    """The calls that this thread makes, seen where a profiler sees them."""
    calls = []

    def handle(call):
        calls.append((call.wrapper.__name__, call.args))
        return call.below(PROFILER)

    handlers[PROFILER] = handle
    monkeypatch.setattr(state, "flags", state.flags | INTERCEPT)
    return calls


class Held(torch.Tensor):
    """A tensor whose values are those of another one."""

    inner: torch.Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    _operand = property(operand_of)


def held(inner, requires_grad=False):
    if isinstance(inner, (tuple, list)):
        return tuple(held(t) for t in inner)
    t = object.__new__(Held)
    t._array, t._vc, t.inner = Metadata(tuple(inner.shape), inner._array.dtype), None, inner
    t._edge = (None, 0) if not requires_grad else None
    return t


def compute(call):
    """A handler of PYTHON: history is recorded of the tensors, what they hold is computed with."""
    if not any(isinstance(t, Held) for t in call.tensors()):
        return NotImplemented

    def unheld(a):
        return a.inner if isinstance(a, Held) else tuple(map(unheld, a)) if isinstance(a, (tuple, list)) else a

    def kernel():
        flags, state.flags = state.flags, state.flags | GRAD_OFF
        try:
            result = call.with_args(unheld(call.args)).plain()
        finally:
            state.flags = flags
        return held(result)

    return record(call.wrapper, kernel, call.args)


def test_calls_are_seen_with_the_arguments_of_the_schema(seen):
    x = torch.ones(2, 3)
    (x + 2).sum(dim=0)
    names = [name for name, _ in seen]
    assert names == ["ones", "add", "sum_dim_IntList"]
    assert seen[2][1][1:] == ((0,), False, None)
    assert seen[0][1][-1] is False  # requires_grad of a factory


def test_a_composite_operator_is_seen_and_so_are_its_parts(seen):
    x, w = torch.ones(2, 3), torch.ones(4, 3)
    torch.nn.functional.linear(x, w)
    names = [name for name, _ in seen]
    assert "linear" in names and len(names) > names.index("linear") + 1


def test_history_is_recorded_below(seen):
    x = torch.ones(3, requires_grad=True)
    (x * x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]
    assert "mul" in [name for name, _ in seen]


def test_a_handler_replaces_the_operator(handlers, monkeypatch):
    handlers[PROFILER] = lambda call: "mine"
    assert torch.ones(2) is not "mine"  # noqa: F632 (nothing is intercepted)
    monkeypatch.setattr(state, "flags", state.flags | INTERCEPT)
    assert torch.ones(2) == "mine"


@pytest.mark.parametrize(
    "program",
    [
        lambda x: (x * 3).sum(),  # a guarded wrapper, and one behind the parser
        lambda x: (2 * x).relu().sum(dim=0),
        lambda x: torch.cat([x, x * x]).sum(),  # in a list
        lambda x: x.view(3, 1).squeeze(1).exp().sum(),
        lambda x: torch.max(x * x, dim=0)[0],
    ],
)
def test_gradients_flow_through_tensors_that_somebody_else_computes_with(handlers, program):
    handlers[PYTHON] = compute
    values = torch.tensor([1.0, -2.0, 3.0])
    plain = values.clone().requires_grad_()
    expected = program(plain)
    expected.backward()
    x = held(values, requires_grad=True)
    found = program(x)
    assert isinstance(found, Held) and found.requires_grad
    assert found.inner.tolist() == expected.tolist()
    (grad,) = torch.autograd.grad(found, x, held(torch.ones(())))
    assert grad.inner.tolist() == plain.grad.tolist()


@pytest.mark.parametrize("program", [lambda x: x * 2, lambda x: x.sum(dim=0), lambda x: torch.cat([x, x])])
def test_without_a_handler_there_is_an_error(handlers, program):
    with pytest.raises(TypeError, match="no implementation of .* of class Held, which has no values"):
        program(held(torch.ones(3)))


def test_a_replaced_derivative_is_recorded_too(handlers):
    handlers[PYTHON] = compute
    entry = """
    - name: mul.Tensor(Tensor self, Tensor other) -> Tensor
      override: true
      self: grad * other * 10
      other: grad * self
      result: other_t * self_p + self_t * other_p
    """
    x, three = held(torch.ones(2), requires_grad=True), held(torch.full((2,), 3.0))
    expected = []
    with torch.ops.define(entry):
        expected.append(torch.autograd.grad((x * three).sum(), x, held(torch.ones(())))[0].inner.tolist())
    expected.append(torch.autograd.grad((x * three).sum(), x, held(torch.ones(())))[0].inner.tolist())
    assert expected == [[30.0, 30.0], [3.0, 3.0]]
