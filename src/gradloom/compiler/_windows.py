"""Operators on windows of images that have machine code of their own: convolutions and max pooling.

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

from ..dispatch import _operators
from ._graph import Content, Graph, Node, Value, contiguous_strides, dtype_name, size_of
from ._rows import expanded

_FLOATS = ("float32", "float64")
_MAX, _MAX_BACKWARD = "max_pool2d_with_indices", "max_pool2d_with_indices_backward"
_BYTE = 0.1  # nanoseconds for each byte read or written


class Task(NamedTuple):
    """The wrapper of a node that machine code computes.

    Attributes:
        module, function: a module of `_llvm`, and its function that makes the code.
        arguments: of that function.
    """

    module: str
    function: str
    arguments: tuple[Any, ...]

    def make(self) -> Callable[..., None]:
        """Return the function of the arrays of the node's arguments and of its results."""
        made = getattr(_module(self.module), self.function)(*self.arguments)
        made.made_by = getattr(_module(self.module), self.function), self.arguments  # see Note [Graphs on disk]
        return made  # type: ignore[no-any-return]


def _kernels(name: str) -> Any:
    """Return a module of kernels, which graphs without such operators do not need."""
    return import_module(f"gradloom.kernels.{name}")


def _module(name: str) -> Any:
    return import_module(f"gradloom.compiler._llvm.{name}")


class NoMachineCodeError(Exception):
    """A node stays a call."""


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
            if node.name == "convolution":
                return [_convolution(node)]
            if node.name == "convolution_backward":
                return _convolution_backward(node)
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
    code = _module("pooling")
    windows = _kernels("pool.pooling").describe("max_pool2d", x, 2, kernel, stride, padding, dilation, ceil_mode)
    if windows.dilation != (1, 1) or size_of(windows.kernel) > code.MOST_ELEMENTS or size_of(windows.size) >= 1 << 31:
        raise NoMachineCodeError
    dtype = dtype_name(x.dtype)
    sizes, lanes = code.max_sizes(windows.size, windows.output, windows.kernel, windows.stride, windows.padding, dtype)
    shape = code.Shape(dtype, windows.kernel, windows.stride[1], lanes, wanted)
    planes = size_of(x.shape[:-2])
    cost = _BYTE * (x.nbytes + sum(r.nbytes for r in results))
    return _task(node, (x,), results, Task("pooling", "maxima", (shape, tuple(sizes), planes, cost)))


def _max_pool_backward(node: Node, maker: dict[Content, Node]) -> Node:
    g, x, indices = node.args[0], node.args[1], node.args[-1]
    found, result = maker.get(indices.content), node.result
    if found is None or found.name != _MAX or indices != found.result[1] or found.args[0].shape[-2:] != x.shape[-2:]:
        raise NoMachineCodeError
    _check(node, (g, indices), (result,), (g, result))
    sizes = size_of(result.shape[-2:]), size_of(g.shape[-2:])
    planes, cost = size_of(g.shape[:-2]), _BYTE * (g.nbytes + indices.nbytes + result.nbytes)
    return _task(node, (g, indices), (result,), Task("pooling", "scatter", (dtype_name(g.dtype), sizes, planes, cost)))


def _convolution(node: Node) -> Node:
    x, w, bias, stride, padding, dilation, transposed, output_padding, groups = node.args
    result = node.result
    given = (x, w) if bias is None else (x, w, bias)
    _check(node, given, (result,), (*given, result))
    windows = _kernels("conv.convolution").geometry(x, w, stride, padding, dilation, transposed, output_padding, groups)
    dtype = dtype_name(x.dtype)
    sizes = dtype, x.shape[1], w.shape[0], windows
    if transposed or groups != 1 or len(windows.size) != 2 or _module("convolution").for_forward(*sizes) is None:
        raise NoMachineCodeError
    arguments = dtype, x.shape[0], x.shape[1], w.shape[0], windows, bias is not None
    return _task(node, given, (result,), Task("convolution", "forward", arguments))


def _convolution_backward(node: Node) -> list[Node]:
    """Return the gradients one by one, that of the bias as a sum, which joins the loop before it; what has no machine
    code stays a call."""
    g, x, w, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, mask = node.args
    results = list(node.result)
    _check(node, (g, x, w), tuple([r for r in results if r is not None]), (g, x, w))
    windows = _kernels("conv.convolution").geometry(x, w, stride, padding, dilation, transposed, output_padding, groups)
    code, dtype = _module("convolution"), dtype_name(x.dtype)
    if transposed or groups != 1 or len(windows.size) != 2:
        raise NoMachineCodeError
    arguments = dtype, x.shape[0], x.shape[1], w.shape[0], windows
    sizes = dtype, *arguments[2:]
    of_x, of_w, of_bias = results
    found = []
    if of_x is not None and code.for_input_gradient(*sizes):
        task = Task("convolution", "input_gradient", arguments)
        found.append(_task(replace(node, result=of_x), (g, w), (of_x,), task))
        results[0] = None
    if of_w is not None and code.for_weight_gradient(*sizes):
        task = Task("convolution", "weight_gradient", arguments)
        found.append(_task(replace(node, result=of_w), (g, x), (of_w,), task))
        results[1] = None
    if not found:
        raise NoMachineCodeError
    if of_bias is not None:
        dims = [d for d in range(len(g.shape)) if d != 1]
        args = g, dims, False, None
        total = replace(node, name="sum.dim_IntList", wrapper=_operators.sum_dim_IntList, args=args, result=of_bias,
                        made=(of_bias.content,))  # fmt: skip
        of_bias.content.node = total
        found.insert(0, total)
        results[2] = None
    if any(r is not None for r in results):
        made = tuple([r.content for r in results if r is not None])
        rest = replace(node, args=(*node.args[:-1], [r is not None for r in results]), result=results, made=made)
        for content in made:
            content.node = rest
        found.append(rest)
    return found


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
