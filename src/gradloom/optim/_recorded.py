"""Apply update rules to parameters, also so that autograd records the step.

A rule changes its operands in place, which would overwrite what derivatives need. A `Variable` holds a tensor and
replaces it instead; after the rule, the parameter and its state get the final values by one recorded copy each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gradloom as gl
from gradloom.autograd import increment_version
from gradloom.dispatch.state import state
from gradloom.optim._arrays import in_blocks, operands, sparse_refusal


class Variable:
    """A tensor that in-place operators replace. The result of an operator is a new variable."""

    __slots__ = ("tensor",)

    def __init__(self, tensor):
        self.tensor = tensor

    def __add__(self, other):
        return Variable(self.tensor + _tensor(other))

    def __sub__(self, other):
        return Variable(self.tensor - _tensor(other))

    def __mul__(self, other):
        return Variable(self.tensor * _tensor(other))

    def __truediv__(self, other):
        return Variable(self.tensor / _tensor(other))

    def __iadd__(self, other):
        self.tensor = self.tensor + _tensor(other)
        return self

    def __isub__(self, other):
        self.tensor = self.tensor - _tensor(other)
        return self

    def __imul__(self, other):
        self.tensor = self.tensor * _tensor(other)
        return self

    def __itruediv__(self, other):
        self.tensor = self.tensor / _tensor(other)
        return self

    def __neg__(self):
        return Variable(-self.tensor)

    def __gt__(self, other):
        return self.tensor > _tensor(other)

    def __lt__(self, other):
        return self.tensor < _tensor(other)

    def __setitem__(self, where, value):
        """Replace all elements, for `...`, or those of a mask."""
        value = _tensor(value)
        if not isinstance(value, gl.Tensor):
            value = gl.full_like(self.tensor, value)
        self.tensor = value if where is ... else gl.where(where, value, self.tensor)


def _tensor(value):
    return value.tensor if isinstance(value, Variable) else value


class _Functions:
    """The functions that rules call, of variables and numbers; `out=` replaces the tensor of a variable."""

    def __getattr__(self, name):
        operator = getattr(gl, name)

        def function(*arguments, out=None):
            result = operator(*map(_tensor, arguments))
            if out is None:
                return Variable(result)
            out.tensor = result
            return out

        return function


_FUNCTIONS = _Functions()


def refuse_lists(group: dict[str, Any]) -> None:
    """Raise AssertionError where `foreach` and `differentiable` meet in a group with gradients: lists have none."""
    if group.get("foreach") and group.get("differentiable"):
        if any(parameter.grad is not None for parameter in group["params"]):
            raise AssertionError("_foreach ops don't support autograd")


def update(rule: Callable[..., None], group, parameter: Any, what: str, kept: Sequence[Any], *numbers: Any) -> None:
    """Apply an update rule to one parameter.

    Args:
        rule: an update rule.
        group: the parameter's group; with `differentiable`, autograd records the step.
        parameter: a parameter with a gradient.
        what: the optimizer's name.
        kept: state tensors of the parameter's shape, None for those absent.
        numbers: the rule's last arguments.

    Raises:
        RuntimeError: for a sparse gradient, or with `differentiable` for a leaf that requires grad.
    """
    if group.get("differentiable"):
        _record(rule, parameter, what, kept, numbers)
        return
    updates = state.updates
    if updates is not None and updates.add(rule, parameter, kept, numbers):
        return
    in_blocks(rule, operands(parameter, what, *kept), *numbers)
    increment_version(parameter)


def _record(rule, parameter, what, kept, numbers):
    """Apply an update rule so that autograd records it."""
    if parameter.grad.is_sparse:
        raise sparse_refusal(what)
    is_complex = parameter.is_complex()
    with gl.enable_grad():
        targets = [parameter, *kept]
        given = [None if tensor is None else tensor.clone() for tensor in (parameter, parameter.grad, *kept)]
        variables = [
            None if tensor is None else Variable(gl.view_as_real(tensor) if is_complex else tensor) for tensor in given
        ]
        rule(_FUNCTIONS, *variables, None, *numbers)
        for target, variable in zip(targets, [variables[0], *variables[2:]], strict=True):
            if target is not None:
                target.copy_(gl.view_as_complex(variable.tensor) if is_complex else variable.tensor)
