"""Interpreter: runs a graph node by node. Transformer: makes a new graph of an old one in the same way."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from ..nn import Module
from . import traceback as fx_traceback
from ._codegen import _last_uses
from ._symbolic_trace import Tracer
from .graph import Graph
from .graph_module import GraphModule
from .node import Argument, Node, Target, map_aggregate, map_arg
from .proxy import Proxy

__all__ = ["Interpreter", "Transformer"]


class Interpreter:
    """Runs a graph node by node. Override `run_node`, or the method of an opcode, to change or watch what is run.

    Args:
        module: the module that holds the graph's parameters, buffers and submodules.
        garbage_collect_values: drop a value from `env` after its last use.
        graph: the graph; None for `module.graph`.

    Attributes:
        env: node -> its value.
        extra_traceback: name the node in the message of an error that it raises.

    Example:
        >>> class Printing(fx.Interpreter):
        ...     def run_node(self, n):
        ...         print(n.format_node())
        ...         return super().run_node(n)
        >>> Printing(module).run(torch.ones(3))
    """

    def __init__(self, module: Module, garbage_collect_values: bool = True, graph: Graph | None = None) -> None:
        self.module = module
        self.submodules = dict(module.named_modules())
        self.graph: Graph = module.graph if graph is None else graph
        self.env: dict[Node, Any] = {}
        self.name = "Interpreter"
        self.extra_traceback = True
        self.garbage_collect_values = garbage_collect_values
        self.user_to_last_uses = _last_uses(list(self.graph.nodes)) if garbage_collect_values else {}

    def run(self, *args: Any, initial_env: dict[Node, Any] | None = None, enable_io_processing: bool = True) -> Any:
        """Run the graph, and return its output.

        Args:
            args: values of the placeholders, in their order.
            initial_env: values of nodes that are not run.
            enable_io_processing: flatten arguments and rebuild the result, for graphs traced with nested containers.

        Raises:
            RuntimeError: for a missing argument, and instead of a KeyError. Messages of all errors name the node.
        """
        self.env = {} if initial_env is None else initial_env
        self.args_iter: Iterator[Any] = iter(self.graph.process_inputs(*args) if enable_io_processing else args)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                if self.extra_traceback:
                    _name_node(error, node)
                    if isinstance(error, KeyError):
                        raise RuntimeError(*error.args) from error
                raise
            for unused in self.user_to_last_uses.get(node, ()):
                del self.env[unused]
            if node.op == "output":
                value = self.env[node]
                return self.graph.process_outputs(value) if enable_io_processing else value
        return None

    def boxed_run(self, args_list: list[Any]) -> Any:
        """Run the graph with arguments in a list, which is cleared, so that they can be freed after their last use.

        Raises:
            RuntimeError: for another number of arguments than placeholders.
        """
        placeholders = self.graph.find_nodes(op="placeholder")
        if len(args_list) != len(placeholders):
            detail = "extra arguments" if len(args_list) > len(placeholders) else "missing arguments"
            raise RuntimeError(
                f"Interpreter.boxed_run expected {len(placeholders)} arguments for placeholders but received "
                f"{len(args_list)} ({detail})"
            )
        env: dict[Node, Any] = dict(zip(placeholders, args_list, strict=True))
        args_list.clear()
        return self.run(initial_env=env)

    def run_node(self, n: Node) -> Any:
        """Return the value of a node, by the method that its `op` names."""
        with fx_traceback.set_current_meta(n, f"Interpreter_{type(self).__name__}"):
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            return getattr(self, n.op)(n.target, args, kwargs)

    def placeholder(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Return the next argument of the run; those that are left for `*name`."""
        if str(target).startswith("*"):
            return list(self.args_iter)
        for value in self.args_iter:
            return value
        if args:
            return args[0]
        raise RuntimeError(f"Expected positional argument for parameter {target}, but one was not passed in!")

    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Return a parameter, buffer or submodule by its path."""
        return self.fetch_attr(str(target))

    def call_function(self, target: Any, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Return the result of a function."""
        return target(*args, **kwargs)

    def call_method(self, target: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the result of a method of the first argument."""
        return getattr(args[0], str(target))(*args[1:], **kwargs)

    def call_module(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Return the result of a submodule."""
        return self.fetch_attr(str(target))(*args, **kwargs)

    def output(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Return the result of the run."""
        return args[0]

    def fetch_attr(self, target: str) -> Any:
        """Return an attribute of the module by its path. Raises RuntimeError if there is none."""
        value: Any = self.module
        parts = target.split(".")
        for number, part in enumerate(parts):
            if not hasattr(value, part):
                raise RuntimeError(f"Node referenced nonexistent target {'.'.join(parts[: number + 1])}")
            value = getattr(value, part)
        return value

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of a node with the values of the nodes in them."""
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args: Argument, n: Node) -> Any:
        """Return an argument of node `n` with values in place of nodes. Raises RuntimeError for a node without one."""

        def value_of(node: Node) -> Any:
            if node not in self.env:
                raise RuntimeError(
                    f"Node {n} referenced nonexistent value {node}! Run Graph.lint() to diagnose such issues"
                )
            return self.env[node]

        return map_arg(args, value_of)


def _name_node(error: Exception, node: Node) -> None:
    """Add to an error's message which node raised it."""
    note = f"While executing {node.format_node()}\nOriginal traceback:\n{node.stack_trace}"
    error.args = (f"{error.args[0]}\n\n{note}" if error.args else note, *error.args[1:])


class _TransformerTracer(Tracer):
    """Adds to the new graph; all modules are leaves."""

    def __init__(self, graph: Graph, root: Module) -> None:
        super().__init__()
        self.graph = graph
        self.root = root

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        return True


class Transformer(Interpreter):
    """Makes a new GraphModule: runs the graph on proxies. Override the method of an opcode to change what is recorded.

    Args:
        module: the GraphModule.

    Example:
        >>> class Negate(fx.Transformer):
        ...     def call_function(self, target, args, kwargs):
        ...         return super().call_function(torch.neg if target is torch.relu else target, args, kwargs)
        >>> negating = Negate(module).transform()
    """

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.new_graph = Graph()
        self.new_graph.set_codegen(module.graph._codegen)
        self.tracer = _TransformerTracer(self.new_graph, module)

    def placeholder(self, target: Target, args: tuple[Argument, ...], kwargs: Mapping[str, Any]) -> Proxy:
        default = args[0] if args else inspect.Signature.empty
        return Proxy(self.new_graph.placeholder(str(target), default_value=default), self.tracer)

    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Proxy:
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_function(self, target: Any, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def call_module(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        module = self.fetch_attr(str(target))
        return self.tracer.call_module(module, module.forward, args, kwargs)

    def transform(self) -> GraphModule:
        """Return the new GraphModule."""
        with fx_traceback.preserve_node_meta():
            result = self.run(enable_io_processing=False)
        if result is not None:
            value = map_aggregate(result, lambda found: found.node if isinstance(found, Proxy) else found)
            self.new_graph.output(value).meta.update(self.graph.output_node().meta)
        return GraphModule(self.module, self.new_graph)
