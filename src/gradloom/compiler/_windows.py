"""Operators on windows of images that have machine code of their own: max pooling.

Note [Machine code for windows]
Such a node becomes one whose wrapper is a `Task`: a function of arrays that writes into buffers of the program, as
products do. It takes contiguous float32 and float64 images; everything else stays a call of the operator. The gradient
of a pooling trusts the indices, so it is taken only where they come from a pooling in the same graph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any, NamedTuple

from ..kernels.pool.pooling import describe
from ._graph import Content, Graph, Node, Value, contiguous_strides, dtype_name, size_of
from ._rows import expanded

_FLOATS = ("float32", "float64")
_MAX, _MAX_BACKWARD = "max_pool2d_with_indices", "max_pool2d_with_indices_backward"
_BYTE = 0.1  # nanoseconds for each byte read or written


class Task(NamedTuple):
    """The wrapper of a node that machine code computes.

    Attributes:
        function: a function of `_llvm.pooling`, which returns the code for `shape`.
        sizes: the integers that the code takes.
        pieces: how many pieces of work there are.
        cost: about how long they take on one thread, in nanoseconds.
    """

    function: str
    shape: Any
    sizes: tuple[int, ...]
    pieces: int
    cost: float

    def make(self) -> Callable[..., None]:
        """Return the function of the arrays of the node's arguments and of its results."""
        code = getattr(import_module("gradloom.compiler._llvm.pooling"), self.function)(self.shape)
        return code.bound(self.sizes, self.pieces, self.cost)  # type: ignore[no-any-return]


class NoMachineCodeError(Exception):
    """A node stays a call; the message says why."""


def with_windows(graph: Graph) -> Graph:
    """Return the graph with operators on windows as tasks, where these have machine code."""
    maker = {c: n for n in graph.nodes for c in n.made}
    read = {v.content for n in graph.nodes for v in n.values()} | {v.content for v in graph.outputs}

    def each(node: Node) -> list[Node]:
        try:
            if node.name == _MAX:
                return [_max_pool(node, read)]
            if node.name == _MAX_BACKWARD:
                return [_max_pool_backward(node, maker)]
        except NoMachineCodeError:
            pass
        return [node]

    return expanded(graph, each)


def _max_pool(node: Node, read: set[Content]) -> Node:
    x, kernel, stride, padding, dilation, ceil_mode = node.args
    y, indices = node.result
    wanted = indices.content in read
    results = (y, indices) if wanted else (y,)
    _check(node, (x,), results, (y,))
    code = import_module("gradloom.compiler._llvm.pooling")
    windows = describe("max_pool2d", x, 2, kernel, stride, padding, dilation, ceil_mode)
    if windows.dilation != (1, 1) or size_of(windows.kernel) > code.MOST_ELEMENTS or size_of(windows.size) >= 1 << 31:
        raise NoMachineCodeError
    dtype = dtype_name(x.dtype)
    sizes, lanes = code.max_sizes(windows.size, windows.output, windows.kernel, windows.stride, windows.padding, dtype)
    shape = code.Shape(dtype, windows.kernel, windows.stride[1], lanes, wanted)
    planes = size_of(x.shape[:-2])
    cost = _BYTE * (x.nbytes + sum(r.nbytes for r in results))
    return _task(node, (x,), results, Task("maxima", shape, tuple(sizes), planes, cost))


def _max_pool_backward(node: Node, maker: dict[Content, Node]) -> Node:
    g, x, indices = node.args[0], node.args[1], node.args[-1]
    found, result = maker.get(indices.content), node.result
    if found is None or found.name != _MAX or indices != found.result[1] or found.args[0].shape[-2:] != x.shape[-2:]:
        raise NoMachineCodeError
    _check(node, (g, indices), (result,), (g, result))
    sizes = size_of(result.shape[-2:]), size_of(g.shape[-2:])
    planes, cost = size_of(g.shape[:-2]), _BYTE * (g.nbytes + indices.nbytes + result.nbytes)
    return _task(node, (g, indices), (result,), Task("scatter", dtype_name(g.dtype), sizes, planes, cost))


def _check(node: Node, inputs: tuple[Any, ...], results: tuple[Any, ...], floats: tuple[Any, ...]) -> None:
    """Raise NoMachineCodeError unless values are contiguous, results new, and floats of one dtype."""
    for value in (*inputs, *results):
        if value.__class__ is not Value or not value.size or value.offset % value.dtype.itemsize:
            raise NoMachineCodeError
        if value.strides != contiguous_strides(value.shape, value.dtype.itemsize):
            raise NoMachineCodeError
    if node.writes or any(not r.is_whole or r.content not in node.made for r in results):
        raise NoMachineCodeError
    if len({r.content for r in results}) < len(results) or len({v.dtype for v in floats}) > 1:
        raise NoMachineCodeError
    if dtype_name(floats[0].dtype) not in _FLOATS:
        raise NoMachineCodeError


def _task(node: Node, inputs: tuple[Value, ...], results: tuple[Value, ...], task: Task) -> Node:
    result: Any = results[0] if node.result.__class__ is Value else [*results]
    made = tuple([r.content for r in results])
    new = replace(node, wrapper=task, args=inputs, result=result, made=made)
    for content in made:
        content.node = new
    return new
