"""One call of an operator: its arguments, and which of them are differentiated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

import gradloom
from gradloom.core.tensor import wrap

from .operators import Operator


def is_float(value: Any) -> bool:
    """Return whether a value is a floating-point or complex tensor."""
    return isinstance(value, gradloom.Tensor) and value._array.dtype.kind in "fcV"


def tensors(value: Any) -> list[Any]:
    """Return the tensors of an argument or a result, also those in lists and tuples."""
    if isinstance(value, gradloom.Tensor):
        return [value]
    return [t for v in value for t in tensors(v)] if isinstance(value, (tuple, list)) else []


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Apply `change` to each tensor of an argument; lists of tensors become new lists."""
    if isinstance(value, gradloom.Tensor):
        return change(value)
    if isinstance(value, (tuple, list)) and tensors(value):
        return [mapped(v, change) for v in value]
    return value


@dataclass(frozen=True)
class Place:
    """The position of a tensor in the arguments: the argument's name, and its index in a list."""

    name: str
    index: int | None = None

    def __str__(self) -> str:
        return self.name if self.index is None else f"{self.name}[{self.index}]"


class Case:
    """One call of an operator, and the arguments that are differentiated.

    Attributes:
        label: how the call differs from its sample, such as `0-dim`; empty for the sample itself.
        places: the positions of the floating-point tensors that have a derivative.
        is_varied: whether it is a variation of a sample, which may lie at a kink.
    """

    is_varied = False

    def __init__(self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], label: str = "") -> None:
        self.operator, self.args, self.kwargs, self.label = operator, args, kwargs, label
        self.names = [a.python_name for a in operator.schema.inputs if not a.kwarg_only]

    def arguments(self) -> Iterator[tuple[str, Any]]:
        yield from zip(self.names, self.args, strict=False)
        yield from self.kwargs.items()

    @cached_property
    def places(self) -> list[Place]:
        return [p for p in self.floats if p.name in self.operator.differentiable_names]

    @cached_property
    def floats(self) -> list[Place]:
        """The positions of all floating-point tensors."""
        found = []
        for name, value in self.arguments():
            if is_float(value):
                found.append(Place(name))
            elif isinstance(value, (list, tuple)):
                found += [Place(name, i) for i, v in enumerate(value) if is_float(v)]
        return found

    def read(self, place: Place) -> Any:
        value = self.kwargs[place.name] if place.name in self.kwargs else self.args[self.names.index(place.name)]
        return value if place.index is None else value[place.index]

    def inputs(self) -> tuple[Any, ...]:
        """Return new leaves that require grad, one for each place."""
        return tuple(self.read(place).detach().clone().requires_grad_() for place in self.places)

    def with_inputs(self, inputs: tuple[Any, ...], places: list[Place] | None = None) -> tuple[list, dict]:
        """Return the arguments with these tensors in their places."""
        args, kwargs = [mapped(a, _same) for a in self.args], {k: mapped(v, _same) for k, v in self.kwargs.items()}
        for place, tensor in zip(self.places if places is None else places, inputs, strict=True):
            holder, key = (kwargs, place.name) if place.name in kwargs else (args, self.names.index(place.name))
            if place.index is None:
                holder[key] = tensor
            else:
                holder[key][place.index] = tensor
        return args, kwargs

    def seeded(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function; for a random operator, one that draws the same numbers at every call."""
        if not self.operator.is_random:
            return function

        def call(*args: Any, **kwargs: Any) -> Any:
            gradloom.manual_seed(0)
            return function(*args, **kwargs)

        return call

    def plain(self) -> Any:
        """Return the operator's result for detached copies of the arguments."""
        args, kwargs = self.detached()
        return self.seeded(self.operator.call)(*args, **kwargs)

    def detached(self) -> tuple[list, dict]:
        """Return copies of the arguments without history, with the same strides."""
        return [mapped(a, _detached) for a in self.args], {k: mapped(v, _detached) for k, v in self.kwargs.items()}

    def call(self, *inputs: Any) -> tuple[Any, ...]:
        """Call the operator with these inputs in its places; return its floating-point outputs."""
        args, kwargs = self.with_inputs(inputs)
        found = self.seeded(self.operator.call)(*args, **kwargs)
        return tuple(o for o in tensors(found) if is_float(o))

    def changed(self, change: Callable[[Any], Any], label: str) -> Case:
        """Return the call with `change` applied to every tensor."""
        args = tuple(mapped(a, change) for a in self.args)
        return Case(self.operator, args, {k: mapped(v, change) for k, v in self.kwargs.items()}, label)

    def __str__(self) -> str:
        shown = [f"{name}={_shown(value)}" for name, value in self.arguments()]
        named = f"{self.operator.name}({', '.join(shown)})"
        return f"{named}, {self.label}" if self.label else named


def _same(tensor: Any) -> Any:
    return tensor


def _detached(tensor: Any) -> Any:
    """Copy a tensor with its strides and its conjugate and negative bits."""
    array = tensor._array
    if tensor.is_conj():
        return _detached(tensor.conj()).conj()
    if tensor.is_neg():
        return _detached(tensor._neg_view())._neg_view()
    if array.flags.c_contiguous:
        return wrap(array.copy())
    order = sorted(range(array.ndim), key=lambda d: -abs(array.strides[d]))
    compact = np.moveaxis(array, order, range(array.ndim)).copy(order="C")
    return wrap(np.moveaxis(compact, range(array.ndim), order))


def _shown(value: Any) -> str:
    if isinstance(value, gradloom.Tensor):
        return f"{str(value.dtype).removeprefix('torch.').removeprefix('gradloom.')}{list(value.shape)}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_shown(v) for v in value) + "]"
    return repr(value)
