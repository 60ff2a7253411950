"""Parameters whose operators somebody else answers, in update rules: the rules see a tensor through NumPy's names.

The rules are written for arrays. A wrapper subclass with `__torch_dispatch__` has none: its values are reached by
operators only. `Answered` has as much of an array's face as the rules touch, and calls an operator for each function,
so that there is one formula for both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import gradloom as gl

if TYPE_CHECKING:
    from collections.abc import Callable

# NumPy's names of what the rules call, where PyTorch's differ.
_NAMES = {
    "multiply": "mul",
    "subtract": "sub",
    "divide": "div",
    "true_divide": "div",
    "absolute": "abs",
    "negative": "neg",
    "greater": "gt",
    "less": "lt",
    "clip": "clamp",
}


class Answered(np.lib.mixins.NDArrayOperatorsMixin):
    """A tensor as an update rule's array.

    Args:
        tensor: None for room to work in, which gets its first values when they are written.
        lasting: whether writing must reach the tensor itself, as for parameters and state, or may replace it.
    """

    def __init__(self, tensor: Any = None, lasting: bool = False) -> None:
        self.tensor, self.lasting = tensor, lasting

    @property
    def dtype(self) -> Any:
        """The tensor's dtype, which `astype` takes."""
        return self.tensor.dtype

    def astype(self, dtype: Any, copy: bool = True) -> Answered:
        """The values as another dtype.

        Args:
            dtype: as `dtype` gives it.
            copy: chooses nothing.
        """
        return Answered(self.tensor.to(dtype))

    def __setitem__(self, mask: Answered, value: float) -> None:
        self.write(self.tensor.masked_fill(mask.tensor, value))

    def write(self, values: Any) -> Answered:
        """Make `values`, a tensor, the content."""
        if self.lasting:
            self.tensor.copy_(values)
        else:
            self.tensor = values
        return self

    def __array_ufunc__(self, function: Any, method: str, *inputs: Any, out: Any = (None,)) -> Any:
        if method != "__call__":
            return NotImplemented
        return _call(function.__name__, inputs, out[0])

    def __array_function__(self, function: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Any:
        if function is np.copyto:
            return args[0].write(args[1].tensor)
        return _call(function.__name__, args, kwargs.get("out"))


def _call(name: str, inputs: tuple[Any, ...], out: Answered | None) -> Answered:
    """The operator for a NumPy function; in place where the first input is what lasts and there is such an operator."""
    name = _NAMES.get(name, name)
    first, *others = [v.tensor if isinstance(v, Answered) else v for v in inputs]
    if out is not None and out is inputs[0] and out.lasting and hasattr(gl.Tensor, f"{name}_"):
        getattr(first, f"{name}_")(*others)
        return out
    found = getattr(gl, name)(first, *others)
    return Answered(found) if out is None else out.write(found)


def answered(parameter: Any, gradient: Any, kept: Any) -> tuple[Any, ...]:
    """What `optimizer.arrays` gives, for tensors that operators are needed for.

    Args:
        parameter: is written to.
        gradient: of its shape.
        kept: the state's tensors of its shape, None for one that is not there.
    """
    real = gl.view_as_real if parameter.is_complex() else lambda tensor: tensor
    with gl.no_grad():
        return (
            Answered(real(parameter.detach()), True),
            Answered(real(gradient)),
            *[None if t is None else Answered(real(t), True) for t in kept],
        )


def by_operators(rule: Callable[..., Any], arrays: Any, numbers: Any) -> None:
    """Call a rule on what `answered` gave.

    Args:
        rule: as `in_blocks` takes it.
        arrays: of class `Answered`, or None.
        numbers: handed on.
    """
    with gl.no_grad():
        rule(*arrays, Answered(), *numbers)
