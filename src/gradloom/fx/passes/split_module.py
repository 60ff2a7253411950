"""split_module: parts of a graph become submodules with graphs of their own."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ...nn import Module
from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node, map_arg
from ..proxy import Proxy

__all__ = ["Partition", "split_module"]


class Partition:
    """A part of the graph that becomes a submodule.

    Attributes:
        name, submod_name: the part's name, and that of its submodule.
        node_names: names of its nodes.
        inputs, outputs: names of the values that it takes and gives, as the keys of dictionaries.
        dependencies, dependents: names of the parts whose values it takes, and of those that take its values.
        graph: its graph.
        environment: node of the whole graph -> node of its graph.
        targets: path -> parameter, buffer or submodule that it uses.
    """

    def __init__(self, name: str) -> None:
        self.name, self.submod_name = name, f"submod_{name}"
        self.graph = Graph()
        self.node_names: list[str] = []
        self.environment: dict[Node, Node] = {}
        self.targets: dict[str, Any] = {}
        # Ordered sets.
        self.inputs, self.outputs, self.dependencies, self.dependents = (dict[str, None]() for _ in range(4))

    def __repr__(self) -> str:
        return (
            f"name: {self.name},\n nodes: {self.node_names},\n inputs: {self.inputs},\n outputs: {self.outputs},\n "
            f"partitions depended on: {self.dependencies},\n partition dependents: {self.dependents}"
        )


def split_module(
    m: GraphModule,
    root_m: Module,
    split_callback: Callable[[Node], int],
    qualname_map: dict[str, str] | None = None,
    keep_original_order: bool = False,
    keep_original_node_name: bool = False,
    keep_original_input_name: bool = True,
    *,
    partition_affix: str | None = None,
    tuple_return: bool = False,
) -> GraphModule:
    """Return a GraphModule that calls a submodule `submod_N` for each part of a graph.

    Args:
        m: the module to split; it is left as it is.
        root_m: accepted without effect: attributes are those of `m`.
        split_callback: takes a node other than inputs, attributes and the output; returns the number of its part.
        qualname_map: filled with path in the result -> path in `m`, for submodules.
        keep_original_order: call the parts in the order of their first nodes, rather than of their dependencies.
        keep_original_node_name: keep nodes' names in the parts.
        keep_original_input_name: name the parts' inputs as the nodes; False names them arg_0, arg_1, ....
        partition_affix: put before the number in the submodules' names.
        tuple_return: let a part with one result return a tuple, too.

    Raises:
        RuntimeError: if parts depend on each other in a circle.
    """
    splitter = _Splitter(m, partition_affix, bool(keep_original_node_name))
    splitter.assign(split_callback)
    splitter.connect()
    ordered = splitter.in_order()
    for partition in ordered:
        splitter.add_inputs(partition, keep_original_input_name)
    splitter.copy_nodes(qualname_map)
    called = list(splitter.partitions.values()) if keep_original_order else ordered
    return splitter.assemble(called, bool(keep_original_order), tuple_return)


class _Splitter:
    def __init__(self, module: GraphModule, affix: str | None, keeps_names: bool) -> None:
        self.module, self.affix, self.keeps_names = module, affix, keeps_names
        self.partitions: dict[str, Partition] = {}
        self.of: dict[Node, Partition] = {}
        self.nodes = {node.name: node for node in module.graph.nodes}
        self.base = Graph()
        self.base_nodes: dict[str, Node] = {}
        self.base_targets: dict[str, Any] = {}

    def attribute(self, path: Any) -> Any:
        value: Any = self.module
        for part in path.split("."):
            if not hasattr(value, part):
                raise AttributeError(f"Node target {path} not found!")
            value = getattr(value, part)
        return value

    def assign(self, number_of: Callable[[Node], int]) -> None:
        """Put each node into its part."""
        for node in self.module.graph.nodes:
            if node.op in ("placeholder", "get_attr", "output"):
                continue
            name = str(number_of(node))
            name = name if self.affix is None else f"{self.affix}_{name}"
            partition = self.partitions.setdefault(name, Partition(name))
            partition.node_names.append(node.name)
            self.of[node] = partition
            node._fx_partition = name  # type: ignore[attr-defined]

    def connect(self) -> None:
        """Find the inputs and outputs of each part, and the parts that it depends on."""
        for node in self.module.graph.nodes:
            user = self.of.get(node)
            if user is None and node.op != "output":
                continue
            for given in node._input_nodes:
                maker = self.of.get(given)
                if maker is user:
                    continue
                if maker is not None:
                    maker.outputs.setdefault(given.name)
                if user is not None:
                    user.inputs.setdefault(given.name)
                    if maker is not None:
                        maker.dependents.setdefault(user.name)
                        user.dependencies.setdefault(maker.name)

    def in_order(self) -> list[Partition]:
        """Return the parts after those that they depend on."""
        waiting = {name: dict(part.dependencies) for name, part in self.partitions.items()}
        ready = [name for name, needed in waiting.items() if not needed]
        found = []
        while ready:
            partition = self.partitions[ready.pop()]
            found.append(partition)
            for name in partition.dependents:
                del waiting[name][partition.name]
                if not waiting[name]:
                    ready.append(name)
        if len(found) != len(self.partitions):
            raise RuntimeError("cycle exists between partitions!")
        return found

    def add_inputs(self, partition: Partition, keeps_names: bool) -> None:
        """Add placeholders to the graph of a part; a module that is an argument becomes an attribute of the part."""

        def is_module(name: str) -> bool:
            node = self.nodes[name]
            return node.op == "get_attr" and isinstance(self.attribute(node.target), Module)

        values = [name for name in partition.inputs if not is_module(name)]
        for number, name in enumerate(values):
            node = self.nodes[name]
            placeholder = partition.graph.placeholder(name if keeps_names else f"arg_{number}", type_expr=node.type)
            placeholder.meta = node.meta.copy()
            partition.environment[node] = placeholder
        for name in partition.inputs:
            if is_module(name):
                node = self.nodes[name]
                got = partition.environment[node] = partition.graph.get_attr(str(node.target))
                got.meta = node.meta.copy()
                partition.targets[str(node.target)] = self.attribute(node.target)
        partition.inputs = dict.fromkeys(values)

    def copy_nodes(self, qualname_map: dict[str, str] | None) -> None:
        """Copy each node into the graph of its part."""
        for node, partition in self.of.items():
            args, kwargs = map_arg((node.args, node.kwargs), partition.environment.__getitem__)
            target: Any = node.target
            if node.op == "call_module":
                target = target.replace(".", "_")
                partition.targets[target] = self.attribute(node.target)
                if qualname_map is not None:
                    qualname_map[f"{partition.submod_name}.{target}"] = str(node.target)
            name = node.name if self.keeps_names else None
            copied = partition.graph.create_node(node.op, target, args, kwargs, name, node.type)
            copied.meta = node.meta.copy()
            partition.environment[node] = copied

    def add_outer(self, node: Node) -> None:
        """Copy an input or attribute into the outer graph."""
        if node.name in self.base_nodes:
            return
        if node.op == "placeholder":
            default = node.args[0] if node.args else inspect.Signature.empty
            if self.keeps_names:
                copied = self.base.create_node("placeholder", node.name, node.args, type_expr=node.type)
            else:
                copied = self.base.placeholder(str(node.target), node.type, default)
        elif node.op == "get_attr":
            copied = self.base.get_attr(str(node.target))
            self.base_targets[str(node.target)] = self.attribute(node.target)
        else:
            return
        copied.meta = node.meta.copy()
        self.base_nodes[node.name] = copied

    def assemble(self, called: list[Partition], keeps_order: bool, tuple_return: bool) -> GraphModule:
        """Return the module that calls the parts."""
        for node in self.module.graph.nodes:
            if node.op == "placeholder" or not keeps_order or not called:
                self.add_outer(node)
        for partition in called:
            values = tuple(partition.environment[self.nodes[name]] for name in partition.outputs)
            single = len(values) == 1 and not tuple_return
            partition.graph.output(values[0] if single else values)
            for name in partition.inputs:
                self.add_outer(self.nodes[name])
            self.base_targets[partition.submod_name] = GraphModule(partition.targets, partition.graph)
            result = self.base.call_module(
                partition.submod_name, tuple(self.base_nodes[name] for name in partition.inputs)
            )
            proxy = Proxy(result)
            for number, name in enumerate(partition.outputs):
                self.base_nodes[name] = result if single else proxy[number].node
        output = self.module.graph.output_node()
        for node in output._input_nodes:
            self.add_outer(node)
        self.base.output(map_arg(output.args[0], lambda node: self.base_nodes[node.name]))
        made = GraphModule(self.base_targets, self.base)
        made.meta["partition_names"] = {partition.submod_name for partition in self.partitions.values()}
        return made
