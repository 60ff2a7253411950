"""Replacing the occurrences of a pattern in a graph."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..nn import Module
from ._symbolic_trace import symbolic_trace
from .graph import Graph
from .graph_module import GraphModule
from .node import Node
from .passes.utils.matcher_utils import InternalMatch, SubgraphMatcher

__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]


class Match(NamedTuple):
    """One replaced occurrence.

    Attributes:
        anchor: the pattern's node from which the match was started.
        nodes_map: node of the pattern -> node of the graph.
    """

    anchor: Node
    nodes_map: dict[Node, Node]


@dataclass
class ReplacedPatterns:
    """One replaced occurrence, and the nodes that replace it.

    Attributes:
        anchor, nodes_map: see Match.
        replacements: the new nodes.
    """

    anchor: Node
    nodes_map: dict[Node, Node]
    replacements: list[Node]


def replace_pattern(
    gm: GraphModule, pattern: Callable[..., Any] | GraphModule, replacement: Callable[..., Any] | GraphModule
) -> list[Match]:
    """Replace every occurrence of a pattern that does not overlap an earlier one, and generate the code anew.

    Args:
        gm: the module to change.
        pattern: a function or GraphModule; its parameters stand for any values.
        replacement: a function or GraphModule with as many parameters and results.

    Returns:
        The occurrences.

    Example:
        >>> fx.replace_pattern(module, lambda x, w: torch.cat([x, w]).sum(), lambda x, w: x.sum() + w.sum())
    """
    return [Match(found.anchor, found.nodes_map) for found in replace_pattern_with_filters(gm, pattern, replacement)]


def replace_pattern_with_filters(
    gm: GraphModule,
    pattern: Callable[..., Any] | Graph | GraphModule,
    replacement: Callable[..., Any] | Graph | GraphModule | None = None,
    match_filters: Sequence[Callable[[InternalMatch, Graph, Graph], bool]] | None = None,
    ignore_literals: bool = False,
    replacement_callback: Callable[[InternalMatch, Graph, Graph], Graph] | None = None,
    node_name_match: str = "",
) -> list[ReplacedPatterns]:
    """Replace those occurrences of a pattern that filters accept; see `replace_pattern`.

    Args:
        gm, pattern, replacement: as for `replace_pattern`; also graphs.
        match_filters: take (match, graph, pattern's graph); all must return True.
        ignore_literals: constants of the pattern match any others.
        replacement_callback: takes (match, graph, pattern's graph); returns the graph that replaces the match.
        node_name_match: a node whose name contains it matches anything.

    Raises:
        AssertionError: if there is neither a replacement nor a callback, or if the replacement has another number of
            parameters or results than the pattern.
    """
    graph, pattern_graph = gm.graph, _graph_of(pattern)
    matches = SubgraphMatcher(pattern_graph, ignore_literals=ignore_literals).match(graph, node_name_match)
    matches = [found for found in matches if all(accept(found, graph, pattern_graph) for accept in match_filters or ())]
    if replacement is None and replacement_callback is None:
        raise AssertionError("Must provide either a replacement GraphModule or a replacement callback")
    common = None if replacement is None else _graph_of(replacement)
    moved: dict[Node, Node] = {}  # results of replaced matches -> what replaces them
    replaced = []
    for match in matches:
        new = replacement_callback(match, graph, pattern_graph) if replacement_callback is not None else common
        assert new is not None
        replaced.append(_replace(graph, match, pattern_graph, new, moved))
    gm.recompile()
    if isinstance(replacement, Module):
        _copy_attributes(gm, replacement)
    return replaced


def _graph_of(program: Any) -> Graph:
    if isinstance(program, Graph):
        return program
    return program.graph if isinstance(program, GraphModule) else symbolic_trace(program).graph


def _replace(
    graph: Graph, match: InternalMatch, pattern: Graph, replacement: Graph, moved: dict[Node, Node]
) -> ReplacedPatterns:
    inputs = replacement.find_nodes(op="placeholder")
    if len(inputs) != len(match.placeholder_nodes):
        raise AssertionError(f"Placeholder count mismatch: {len(match.placeholder_nodes)} vs {len(inputs)}")
    for key, node in match.nodes_map.items():
        if key.op == "placeholder" and isinstance(node, Node):
            match.nodes_map[key] = moved.get(node, node)
    match.placeholder_nodes = [moved.get(n, n) if isinstance(n, Node) else n for n in match.placeholder_nodes]
    values: dict[Node, Any] = dict(zip(inputs, match.placeholder_nodes, strict=True))
    with graph.inserting_before(_place(graph, match)):
        results = graph.graph_copy(replacement, values)
    results = (results,) if isinstance(results, Node) else results
    if len(match.returning_nodes) != len(results):
        raise AssertionError(f"Returning nodes count mismatch: {len(match.returning_nodes)} vs {len(results)}")
    for old, new in zip(match.returning_nodes, results, strict=True):
        old.replace_all_uses_with(new)
        moved[old] = new
    for node in reversed(pattern.nodes):
        if node.op not in ("placeholder", "output"):
            graph.erase_node(match.nodes_map[node])
    # By identity: a placeholder may stand for a constant, which may not be hashable.
    added = [node for node in values.values() if not any(node is given for given in match.placeholder_nodes)]
    return ReplacedPatterns(match.anchors[0], match.nodes_map, added)


def _place(graph: Graph, match: InternalMatch) -> Node:
    """Return the node to insert before: the first user of the results, or what follows the last result."""
    users = {user for node in match.returning_nodes for user in node.users}
    first = next((node for node in graph.nodes if node in users), None)
    return max(match.returning_nodes).next if first is None else first


def _copy_attributes(gm: GraphModule, replacement: Module) -> None:
    """Copy the parameters and modules that the replacement's nodes name, and delete what nothing names any more."""
    gm.delete_all_unused_submodules()
    for node in gm.graph.nodes:
        if node.op not in ("call_module", "get_attr") or _found(gm, str(node.target)) is not None:
            continue
        value = _found(replacement, str(node.target))
        if value is None:
            raise RuntimeError(
                f'Attempted to create a "{node.op}" node during subgraph rewriting with target {node.target}, but the '
                "referenced attribute does not exist in the replacement GraphModule"
            )
        if isinstance(value, Module):
            gm.add_submodule(str(node.target), copy.deepcopy(value))
        else:
            setattr(gm, str(node.target), copy.deepcopy(value))
    gm.graph.lint()


def _found(module: Module, path: str) -> Any:
    parent, _, name = path.rpartition(".")
    try:
        return getattr(module.get_submodule(parent), name, None)
    except AttributeError:
        return None
