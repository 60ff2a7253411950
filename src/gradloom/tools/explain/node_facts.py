"""What one node of a graph holds at the moment, and classes and functions that no YAML entry made."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradloom.core.node import Node
from gradloom.utils.viz import saved_values

from .places import Place


@dataclass(frozen=True)
class NodeFacts:
    """A node as it is now.

    name        what the node is called
    gradients   shape and dtype of each gradient that it gets
    saved       (field, what it holds)
    next        (input, name of the node that its gradient goes to)
    made_at     the user's lines that made it, where anomaly mode recorded them
    """

    name: str
    gradients: tuple[str, ...]
    saved: tuple[tuple[str, str], ...]
    next: tuple[str, ...]
    made_at: str


def node_facts(node: Node) -> NodeFacts:
    """Reads a node without unpacking what it saved: hooks are not run."""
    metadata = [f"{tuple(m.shape)} {m.dtype}" if m is not None else "undefined" for m in node._input_metadata]
    following = [
        f"{fn.name()}, input {nr}" if fn is not None else "nothing: no gradient is wanted there"
        for fn, nr in node.next_functions
    ]
    trace = node.hooks.trace if node.hooks is not None else None
    return NodeFacts(
        node.name(),
        tuple(metadata),
        tuple(saved_values(node)),
        tuple(following),
        "".join(trace.lines()).rstrip() if trace is not None else "",
    )


def written_by_hand(thing: Any) -> Place | None:
    """Where a class or function is written; None where its source is not at hand, as in an interactive session."""
    try:
        lines, start = inspect.getsourcelines(thing)
        path = inspect.getsourcefile(thing)
    except (OSError, TypeError):
        return None
    return Place(Path(path), max(start, 1), inspect.cleandoc("\n" + "".join(lines))) if path else None
