"""From a module to an ONNX model: the operators of its forward, and the rule of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import gradloom as gl

from ..core.tensor import Tensor
from ..fx.experimental.proxy_tensor import make_fx
from ..fx.graph_module import GraphModule
from ..fx.node import Node, map_aggregate
from ..nn import Module
from ..utils import _pytree as pytree
from ._builder import TYPES, Builder, Size, Unsupported
from .rules import general, networks, rule_of, shape

# Rules that take sizes which depend on dynamic dimensions.
_WITH_SIZES = frozenset(
    [shape.view, shape.expand, shape.slice, shape.repeat, shape.constant, shape.full, shape.new_zeros, shape.new_full]
    + [shape.arange, networks.group_norm, general.upsample, general.upsample_nearest]
)


class OnnxExporterError(RuntimeError):
    """Raised if a module cannot be exported."""


class UnsupportedOperatorError(OnnxExporterError):
    """Raised for operators without a rule; the message names all of the module's."""


@dataclass
class Dimension:
    """A dynamic dimension of an input.

    Attributes:
        leaf: number of the input.
        dim: its dimension.
        name: name of the size in the model.
    """

    leaf: int
    dim: int
    name: str


def load_onnx() -> Any:
    """Return the package onnx, with its modules. Raises ImportError that names the extra that installs it."""
    try:
        onnx = import_module("onnx")
        for module in ("helper", "numpy_helper", "checker", "defs"):
            import_module(f"onnx.{module}")
    except ImportError as error:
        raise ImportError("gradloom.onnx needs the package onnx: pip install 'gradloom[onnx]'") from error
    return onnx


@contextmanager
def in_mode(model: Any, training: bool | None) -> Iterator[None]:
    """Set the mode of a module within the `with` block; None leaves it."""
    modules = list(model.modules()) if isinstance(model, Module) and training is not None else []
    before = [module.training for module in modules]
    try:
        if modules:
            model.train(training)
        yield
    finally:
        for module, mode in zip(modules, before, strict=True):
            module.training = mode


def record(model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], leaves: Sequence[Any]) -> GraphModule:
    """Return the operators of a call, as a graph whose placeholders are the leaves of the arguments.

    Args:
        model: the module or function.
        args, kwargs: give the structure of the arguments.
        leaves: the values.
    """
    spec = pytree.tree_structure((args, dict(kwargs)))

    def call(*values: Any) -> Any:
        positional, named = pytree.tree_unflatten(list(values), spec)
        return pytree.tree_leaves(model(*positional, **named))

    with gl.no_grad():
        return make_fx(call)(*leaves)


class Exporter:
    """Makes an ONNX model of a recorded call.

    Args:
        onnx: the package.
        opset: version of the operator set.
        state: name -> parameter or buffer.
    """

    def __init__(self, onnx: Any, opset: int, state: Mapping[str, Tensor]) -> None:
        self.onnx, self.opset = onnx, opset
        self.builder = Builder(onnx)
        self.state = {id(value): name for name, value in state.items()}
        self.dynamic: list[tuple[str, int, int, int, str]] = []  # input, dimension, its sizes in both traces, name

    def export(
        self,
        traces: Sequence[GraphModule],
        dimensions: Sequence[Dimension],
        input_names: Sequence[str] | None,
        output_names: Sequence[str] | None,
        graph_name: str,
    ) -> Any:
        """Return the model.

        Args:
            traces: the recorded call, and if there are dynamic dimensions, one with other sizes.
            dimensions: the dynamic dimensions.
            input_names, output_names: names of the first inputs and outputs.
            graph_name: name of the graph.
        """
        for trace in traces:
            trace.graph.eliminate_dead_code()
        graph = traces[0].graph
        if len(traces) > 1:
            self._pair(graph, traces[1].graph)
        inputs = self._inputs(graph, input_names, dimensions)
        self._check(graph)
        for node in graph.nodes:
            if node.op == "get_attr":
                self._constant(traces[0], node)
            elif node.op == "call_function":
                self._convert(node)
        outputs = self._outputs(graph.output_node(), output_names)
        helper = self.onnx.helper
        made = helper.make_graph(self.builder.nodes, graph_name, inputs, outputs, self.builder.initializers)
        opsets = [helper.make_opsetid("", self.opset)]
        model = helper.make_model(made, opset_imports=opsets, producer_name="gradloom", producer_version=gl.__version__)
        model.ir_version = helper.find_min_ir_version_for(opsets)
        self.onnx.checker.check_model(model, full_check=True)
        return model

    def _pair(self, graph: Any, other: Any) -> None:
        first, second = list(graph.nodes), list(other.nodes)
        if [(node.op, node.target) for node in first] != [(node.op, node.target) for node in second]:
            raise OnnxExporterError("the model calls other operators for other sizes, so they cannot be dynamic")
        self.builder.pairs = dict(zip(first, second, strict=True))

    # --- inputs and outputs ---

    def _inputs(self, graph: Any, names: Sequence[str] | None, dimensions: Sequence[Dimension]) -> list[Any]:
        found: list[Any] = []
        for number, node in enumerate(graph.find_nodes(op="placeholder")):
            if "val" not in node.meta:
                continue  # a number or None: a constant of the model
            name = names[len(found)] if names and len(found) < len(names) else node.name.removesuffix("_1")
            self.builder.names[node] = name
            shape: list[Any] = list(self.builder.shape(node))
            for dimension in dimensions:
                if dimension.leaf == number:
                    dim = self.builder.dim(node, dimension.dim)
                    other = self.builder.pairs[node].meta["val"].shape[dim]
                    self.dynamic.append((name, dim, shape[dim], other, dimension.name))
                    shape[dim] = dimension.name
            found.append(self._info(name, self.builder.dtype(node), shape))
        return found

    def _info(self, name: str, dtype: Any, shape: Sequence[Any]) -> Any:
        kind = getattr(self.onnx.TensorProto, TYPES[dtype])
        return self.onnx.helper.make_tensor_value_info(name, kind, list(shape))

    def _outputs(self, output: Node, names: Sequence[str] | None) -> list[Any]:
        found: list[Any] = []
        for number, node in enumerate(output.args[0]):
            if not isinstance(node, Node):
                raise OnnxExporterError(f"the model returns {node!r}, which is no tensor")
            name = names[number] if names and number < len(names) else f"output_{number}"
            self.builder.nodes.append(self.onnx.helper.make_node("Identity", [self.builder.name(node)], [name]))
            shape: list[Any] = list(self.builder.shape(node))
            if self.builder.pairs:
                sizes = zip(shape, self.builder.pairs[node].meta["val"].shape, strict=True)
                shape = [self._size_name(name, dim, *pair) for dim, pair in enumerate(sizes)]
            found.append(self._info(name, self.builder.dtype(node), shape))
        return found

    def _size_name(self, output: str, dim: int, size: int, other: int) -> Any:
        if size == other:
            return size
        same = [name for _, _, first, second, name in self.dynamic if (first, second) == (size, other)]
        return same[0] if same else f"{output}_dim_{dim}"

    def _constant(self, root: Any, node: Node) -> None:
        value = getattr(root, node.target)
        self.builder.names[node] = self.builder.constant(value, name=self.state.get(id(value)) or str(node.target))

    # --- operators ---

    def _check(self, graph: Any) -> None:
        """Refuse operators without a rule, all in one error."""
        missing = set()
        for node in graph.nodes:
            if node.op == "call_function" and hasattr(node.target, "_schema"):
                if rule_of(node.target) is None:
                    missing.add(node.target.name())
        if missing:
            raise UnsupportedOperatorError(
                f"ONNX export has no rule for these operators of the model: {', '.join(sorted(missing))}. Write them "
                "in terms of others; docs/fx.md lists the operators with a rule"
            )

    def _convert(self, node: Node) -> None:
        if not hasattr(node.target, "_schema"):  # the choice of one of several results
            results, index = node.args
            name = self.builder.names[results][index]
            if name is None and node.users:
                raise OnnxExporterError(f"{results.format_node()}: ONNX has no equivalent of result {index}")
            self.builder.names[node] = name
            return
        _refuse_writes_to_views(node)
        args, kwargs = node.args, node.kwargs
        if self.builder.pairs:
            args, kwargs = self._with_sizes(node)
        for name in ("dtype", "device", "pin_memory", "layout", "memory_format", "non_blocking"):
            kwargs = {key: value for key, value in kwargs.items() if key != name}
        try:
            self.builder.names[node] = _rule(node)(self.builder, node, *args, **kwargs)
        except (Unsupported, TypeError) as error:
            raise OnnxExporterError(f"{node.format_node()}: the ONNX exporter does not support {error}") from error

    def _with_sizes(self, node: Node) -> tuple[Any, Any]:
        """Return the arguments with numbers that depend on dynamic dimensions as Size."""
        others: list[Any] = []
        map_aggregate((self.builder.pairs[node].args, self.builder.pairs[node].kwargs), others.append)
        values = iter(others)
        changed = False

        def size(value: Any) -> Any:
            nonlocal changed
            other = next(values)
            if isinstance(value, Node) or type(value) is not int or value == other:
                return value
            changed = True
            for name, dim, first, second, _ in self.dynamic:
                if value % first == 0 and value * second == other * first:
                    return Size(value, (name, dim), value // first)
            return Size(value, None, 0)

        args, kwargs = map_aggregate((node.args, node.kwargs), size)
        if changed and _rule(node).func not in _WITH_SIZES:
            raise OnnxExporterError(f"{node.format_node()}: an argument depends on a dynamic dimension")
        return args, kwargs


def _rule(node: Node) -> partial[Any]:
    found = rule_of(node.target)
    assert found is not None, node  # `_check` refuses others
    return found


def _is_view(node: Node) -> bool:
    """Return whether a node's results share memory with its first argument."""
    return node.op == "call_function" and hasattr(node.target, "_schema") and node.target.is_view


def _refuse_writes_to_views(node: Node) -> None:
    """Raise for an operator that writes to memory that other nodes see: ONNX's values do not change."""
    name = node.target.name().partition("::")[2].partition(".")[0]
    if not name.endswith("_") or name.endswith("__"):
        return
    written = node.args[0]
    seen = any(_is_view(user) for user in written.users)
    if _is_view(written) or seen or written.op == "get_attr":
        raise OnnxExporterError(
            f"{node.format_node()}: a write to a view, or to memory that has views, cannot be exported; use the "
            "operator that returns a new tensor"
        )
