"""Finding a pattern graph in another graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ....core.tensor import Tensor
from ....ops._objects import OpOverload
from ...graph import Graph
from ...node import Node

__all__ = ["InternalMatch", "SubgraphMatcher"]


@dataclass
class InternalMatch:
    """One occurrence of a pattern.

    Attributes:
        anchors: the pattern's nodes from which the match was started.
        nodes_map: node of the pattern -> node of the graph; a placeholder may stand for a constant.
        placeholder_nodes: what the pattern's placeholders stand for.
        returning_nodes: the nodes of the graph that the pattern returns.
        name_node_map: empty; for matchers by name.
    """

    anchors: list[Node]
    nodes_map: dict[Node, Any] = field(default_factory=dict)
    placeholder_nodes: list[Any] = field(default_factory=list)
    returning_nodes: list[Node] = field(default_factory=list)
    name_node_map: dict[str, Node] = field(default_factory=dict)


class SubgraphMatcher:
    """Finds the occurrences of a pattern in graphs.

    Args:
        pattern: the graph to look for; its placeholders stand for anything, unless `match_placeholder`.
        match_output: the output must match, too.
        match_placeholder: placeholders match placeholders only.
        remove_overlapping_matches: leave out a match that has a node of an earlier one.
        ignore_literals: constants in arguments match any others.

    Raises:
        ValueError: for an empty pattern.
        AssertionError: for a pattern with nodes that nothing uses.
    """

    def __init__(
        self,
        pattern: Graph,
        match_output: bool = False,
        match_placeholder: bool = False,
        remove_overlapping_matches: bool = True,
        ignore_literals: bool = False,
    ) -> None:
        if len(pattern.nodes) == 0:
            raise ValueError("SubgraphMatcher cannot be initialized with an empty pattern")
        if any(node.op != "output" and not node.users and not node.is_impure() for node in pattern.nodes):
            raise AssertionError("SubgraphMatcher cannot be initialized with an pattern with dead code")
        self.pattern = pattern
        self.match_placeholder = match_placeholder
        self.remove_overlapping_matches = remove_overlapping_matches
        self.ignore_literals = ignore_literals
        output = pattern.output_node()
        self.pattern_placeholder_nodes = pattern.find_nodes(op="placeholder")
        self.pattern_returning_nodes = output.all_input_nodes
        self.pattern_anchors = [output] if match_output else [n for n in output.all_input_nodes if len(n.users) == 1]

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """Return the occurrences of the pattern in a graph, of which nothing but their results is used outside.

        Args:
            graph: the graph.
            node_name_match: a node whose name contains it matches anything.
        """
        candidates = [
            (anchor, [node for node in graph.nodes if self._equal(anchor, node, node_name_match)])
            for anchor in self.pattern_anchors
        ]
        candidates = [(anchor, nodes) for anchor, nodes in candidates if nodes]
        if not candidates:
            return []
        found = []
        for nodes_map in self._combinations(candidates, {}, node_name_match):
            if self._is_contained(nodes_map) and _is_convex(_inner(nodes_map)):
                found.append(
                    InternalMatch(
                        self.pattern_anchors,
                        nodes_map,
                        [nodes_map[node] for node in self.pattern_placeholder_nodes],
                        [nodes_map[node] for node in self.pattern_returning_nodes],
                    )
                )
        return _without_overlaps(found) if self.remove_overlapping_matches else found

    def _combinations(
        self, candidates: Sequence[tuple[Node, list[Node]]], before: dict[Node, Any], name: str
    ) -> Iterator[dict[Node, Any]]:
        """Yield the maps that match every anchor."""
        if not candidates:
            yield before
            return
        (anchor, nodes), *rest = candidates
        for node in nodes:
            nodes_map = dict(before)
            if self._match(anchor, node, nodes_map, name):
                yield from self._combinations(rest, nodes_map, name)

    def _equal(self, wanted: Node, node: Node, name: str = "") -> bool:
        """Return whether two nodes do the same, their arguments apart."""
        if wanted.op == "placeholder" and not self.match_placeholder:
            return True
        if name and name in node.name:
            return True
        if wanted.op != node.op:
            return False
        if wanted.op == "get_attr":
            return _same_kind(wanted, node)
        return wanted.op in ("placeholder", "output") or wanted.target == node.target

    def _match(self, wanted: Node, node: Node, nodes_map: dict[Node, Any], name: str = "") -> bool:
        """Extend a map by a pair of nodes and all that they depend on; return False if they differ."""
        if wanted in nodes_map:
            return nodes_map[wanted] is node
        if any(node is found for found in nodes_map.values()) or not self._equal(wanted, node, name):
            return False
        nodes_map[wanted] = node
        if wanted.op == "placeholder":
            return True
        if len(wanted.args) == len(node.args) and list(wanted.kwargs) == list(node.kwargs):
            left, right = [*wanted.args, *wanted.kwargs.values()], [*node.args, *node.kwargs.values()]
        elif wanted.op == "call_function" and isinstance(wanted.target, OpOverload):
            left, right = _all_arguments(wanted), _all_arguments(node)
        else:
            return False
        return self._match_values(left, right, nodes_map)

    def _match_values(self, wanted: Sequence[Any], values: Sequence[Any], nodes_map: dict[Node, Any]) -> bool:
        return len(wanted) == len(values) and all(
            self._match_value(left, right, nodes_map) for left, right in zip(wanted, values, strict=True)
        )

    def _match_value(self, wanted: Any, value: Any, nodes_map: dict[Node, Any]) -> bool:
        if isinstance(wanted, Node) and isinstance(value, Node):
            return self._match(wanted, value, nodes_map)
        if isinstance(wanted, (list, tuple)) and isinstance(value, (list, tuple)):
            return self._match_values(wanted, value, nodes_map)
        if isinstance(wanted, Node) and wanted.op == "placeholder":
            return nodes_map.setdefault(wanted, value) == value or self.ignore_literals
        if isinstance(wanted, Node) or isinstance(value, Node):
            return self.ignore_literals
        return (type(wanted) is type(value) and wanted == value) or self.ignore_literals

    def _is_contained(self, nodes_map: dict[Node, Any]) -> bool:
        """Return whether only the results of a match are used outside of it."""
        inside = {node: wanted for wanted, node in nodes_map.items() if wanted.op != "placeholder"}
        return all(
            wanted in self.pattern_returning_nodes or all(user in inside for user in node.users)
            for node, wanted in inside.items()
        )


def _inner(nodes_map: dict[Node, Any]) -> list[Node]:
    """Return the nodes of a match that compute something."""
    return [node for wanted, node in nodes_map.items() if wanted.op not in ("placeholder", "output")]


def _without_overlaps(matches: list[InternalMatch]) -> list[InternalMatch]:
    taken: set[Node] = set()
    kept = []
    for match in matches:
        nodes = _inner(match.nodes_map)
        if taken.isdisjoint(nodes):
            kept.append(match)
            taken.update(nodes)
    return kept


def _is_convex(nodes: list[Node]) -> bool:
    """Return whether no path between two of the nodes leaves them: then they can become one node."""
    inside = set(nodes)
    seen: set[Node] = set()
    stack = [user for node in nodes for user in node.users if user not in inside]
    while stack:
        node = stack.pop()
        if node in inside:
            return False
        if node not in seen:
            seen.add(node)
            stack.extend(node.users)
    return True


def _same_kind(wanted: Node, node: Node) -> bool:
    """Return whether two "get_attr" nodes get values of one class. Raises RuntimeError if it is not a tensor's."""
    left, right = _attribute(wanted), _attribute(node)
    if type(left) is not type(right):
        return False
    if not isinstance(left, Tensor):
        raise RuntimeError(f"Unsupported type {left} when matching attributes")
    return True


def _attribute(node: Node) -> Any:
    value: Any = node.graph.owning_module
    if value is None:
        raise AssertionError(f"the graph of {node} has no owning_module, which holds its attributes")
    for part in str(node.target).split("."):
        value = getattr(value, part)
    return value


def _all_arguments(node: Node) -> list[Any]:
    """Return the arguments of an operator's call in the order of its schema, defaults included."""
    found = []
    for index, argument in enumerate(node.target._schema.arguments):  # type: ignore[union-attr]
        if argument.name in node.kwargs:
            found.append(node.kwargs[argument.name])
        elif not argument.kwarg_only and index < len(node.args):
            found.append(node.args[index])
        else:
            found.append(argument.default_value)
    return found
