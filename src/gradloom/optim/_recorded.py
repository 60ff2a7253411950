"""Steps that autograd records: an update rule on tensors whose in-place changes make new tensors.

A rule changes its operands in place, which would overwrite what derivatives need. A `Variable` holds a tensor and
replaces it instead; after the rule, the parameter and its state get the final values by one recorded copy each.
"""

from __future__ import annotations

from typing import Any

import gradloom as gl
from gradloom.optim._arrays import sparse_refusal


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


def run(rule, parameter: Any, what: str, kept: Any, numbers: tuple[Any, ...]) -> None:
    """Apply an update rule so that autograd records it.

    Args:
        rule: an update rule.
        parameter: a parameter with a gradient.
        what: the optimizer's name.
        kept: state tensors, None for those absent.
        numbers: the rule's last arguments.

    Raises:
        RuntimeError: if the parameter is a leaf that requires grad, or its gradient is sparse.
    """
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
