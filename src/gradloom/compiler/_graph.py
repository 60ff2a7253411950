"""The compiler's graph: operators on contents of memory, with views as geometry.

Note [Compiler graphs]
A *content* is a block of memory with what was once written there. A *value* is a tensor as an operator saw it: a
content, and the offset, sizes and strides of the tensor in that memory. So views need no nodes, and a write in place
gives the memory a new content: the graph is functional, although the program was not. Nodes stand in the order of the
program; the first `forward` of them are its forward pass, the others its backward pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..types.silence import silence
from ._memory import same_layout, size_of
from ._numbers import number_of

INPUT, CONSTANT, RESULT = "input", "constant", "result"


@dataclass(eq=False, slots=True)
class Content:
    """What a block of memory contains from one write to the next.

    Attributes:
        number: position among the graph's contents; of a stage, `position.name`.
        kind: INPUT, CONSTANT or RESULT (of `node`).
        shape, strides, dtype: geometry of the array that owns the memory; strides in bytes.
        before: the content that was overwritten; None for new memory.
        node: the node that made it.
        position: which input it is.
        array: the constant's array.
    """

    number: int | str
    kind: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]
    before: Content | None = None
    node: Node | None = None
    position: int = -1
    array: Any = None

    @property
    def memory(self) -> Content:
        """The first content of this memory."""
        content = self
        while content.before is not None:
            content = content.before
        return content

    @property
    def nbytes(self) -> int:
        return size_of(self.shape) * self.dtype.itemsize

    def __repr__(self) -> str:
        return f"%{self.number}"


class Value(NamedTuple):
    """A tensor in the graph: a content, and where its elements are; offset and strides in bytes."""

    content: Content
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]
    offset: int = 0

    @property
    def size(self) -> int:
        return size_of(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def is_whole(self) -> bool:
        """Whether it covers its content exactly, in the layout of the owner of the memory."""
        c = self.content
        return not self.offset and self.dtype == c.dtype and same_layout(self.shape, self.strides, c.shape, c.strides)

    @property
    def covers(self) -> bool:
        """Whether its elements are those of its content in their order; the dimensions may be split otherwise."""
        c = self.content
        if self.offset or self.dtype != c.dtype:
            return False
        return self.is_whole or _merged(self.shape, self.strides) == _merged(c.shape, c.strides)

    def of(self, content: Content) -> Value:
        """Return the same place in another content of the memory."""
        return Value(content, self.shape, self.strides, self.dtype, self.offset)

    def __str__(self) -> str:
        view = "" if self.is_whole else f"[{self.offset}: {list(self.shape)} by {list(self.strides)}]"
        return f"{self.content!r}{view}"


@dataclass(eq=False, slots=True)
class Node:
    """One call of an operator.

    Attributes:
        name: the operator's, `add.Tensor`.
        wrapper: its generated function.
        args: arguments in the order of the schema; tensors are Values, also in lists.
        result: what it returns, in the same form.
        made: contents that it makes, those that overwrite others included.
        is_random: whether it draws random numbers.
        where: file and line of the program.
    """

    name: str
    wrapper: Any
    args: tuple[Any, ...]
    result: Any = None
    made: tuple[Content, ...] = ()
    is_random: bool = False
    where: str = ""
    number: int = 0

    @property
    def writes(self) -> tuple[Content, ...]:
        """The contents that it makes by overwriting others."""
        return tuple([c for c in self.made if c.before is not None])

    def values(self) -> Iterator[Value]:
        """Yield the tensors among the arguments."""
        return values_in(self.args)

    def __str__(self) -> str:
        result = shown(self.result)
        return f"{result} = {self.name}({', '.join(map(shown, self.args))})"


@dataclass(eq=False, slots=True)
class Graph:
    """A recorded program.

    Attributes:
        inputs: contents of the inputs of the program; then of the gradients of its outputs.
        nodes: its calls, in order.
        forward: how many of them the forward pass has.
        outputs: what the forward pass returns, Values.
        gradients: for each input of the program, the Value of its gradient, or None.
        tangents: positions of `outputs` that a gradient arrives for, in the order of the last inputs.
        final: the last content of each input that is overwritten, by position.
    """

    inputs: list[Content] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    forward: int = 0
    outputs: list[Value] = field(default_factory=list)
    gradients: list[Value | None] = field(default_factory=list)
    tangents: list[int] = field(default_factory=list)
    final: dict[int, Content] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"{c!r}: input {c.position}: {c.dtype}{list(c.shape)}" for c in self.inputs]
        for i, node in enumerate(self.nodes):
            if i == self.forward:
                lines.append("backward:")
            lines.append(str(node))
        lines.append(f"return {', '.join(map(str, self.outputs))}")
        if self.forward < len(self.nodes) or any(g is not None for g in self.gradients):
            lines.append(f"gradients {', '.join(map(str, self.gradients))}")
        return "\n".join(lines)


def _merged(shape: tuple[int, ...], strides: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return sizes and strides with those dimensions as one that are walked through as one."""
    merged: list[tuple[int, int]] = []
    for n, stride in zip(shape, strides, strict=True):
        if n != 1 and merged and merged[-1][1] == stride * n:
            merged[-1] = merged[-1][0] * n, stride
        elif n != 1:
            merged.append((n, stride))
    return merged


def contiguous_strides(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Return the strides of a contiguous array, in bytes."""
    strides = []
    step = itemsize
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


@lru_cache(64)
def dtype_name(dtype: np.dtype[Any]) -> str:
    """Return `str(dtype)`, which NumPy takes microseconds for."""
    return str(dtype)


def values_in(value: Any) -> Iterator[Value]:
    """Yield the Values in nested tuples and lists."""
    if value.__class__ is Value:
        yield value
    elif value.__class__ in (tuple, list):
        for v in value:
            yield from values_in(v)


def mapped(value: Any, function: Callable[[Value], Any]) -> Any:
    """Return nested tuples and lists with `function` applied to their Values."""
    if value.__class__ is Value:
        return function(value)
    if value.__class__ in (tuple, list):
        return value.__class__([mapped(v, function) for v in value])
    return value


def form_of(value: Any, of_value: Callable[[Value], Any]) -> Any:
    """Return a key for an argument of a node: what `of_value` gives for its Values, and all of everything else."""
    if value.__class__ is Value:
        return of_value(value)
    if value.__class__ in (tuple, list):
        return (value.__class__, *[form_of(v, of_value) for v in value])
    free = number_of(value)
    if free is not None:
        return free.numbers, free.source, None if free is value else value._array.dtype
    number = getattr(value, "_wrapped_number", None)
    if number is not None:
        return number.__class__, repr(number), value._array.dtype
    return value.__class__, repr(value)


def shown(value: Any) -> str:
    """Return an argument as the printed graph shows it."""
    if value.__class__ in (tuple, list):
        return f"[{', '.join(map(shown, value))}]"
    free = number_of(value)
    if free is not None:
        return str(free.source)
    number = getattr(value, "_wrapped_number", None)
    return str(value) if number is None else repr(number)


silence(globals())
