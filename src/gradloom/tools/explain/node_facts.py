"""What one node of a graph holds at the moment, and classes and functions that no YAML entry made."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradloom.autograd.node import AccumulateGrad, Node
from gradloom.autograd.saved_variable import RELEASED
from gradloom.dtype import TYPE_OF

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
    following = [f"{fn.name()}, input {nr}" if fn is not None else "nothing: no gradient is wanted there"
                 for fn, nr in node.next_functions]
    trace = node.hooks.trace if node.hooks is not None else None
    return NodeFacts(node.name(), tuple(metadata), tuple(held(node)), tuple(following),
                     "".join(trace.lines()).rstrip() if trace is not None else "")


def held(node: Node) -> list[tuple[str, str]]:
    """(field, what it holds) for each public field of a node: shapes and dtypes of tensors, other values in full."""
    if isinstance(node, AccumulateGrad):
        return [("variable", describe(node.variable))]
    found = [(name, describe(getattr(node, f"saved_{name}", None))) for name in node._saved_fields]
    if not found and getattr(node, "_released", False):
        return [("saved tensors", "released by an earlier backward pass")]
    if not found and getattr(node, "_saved", ()):  # a custom Function's
        found = [(f"tensor {i}", describe(value)) for i, value in enumerate(node._saved)]
    return found


def describe(value: Any) -> str:
    """A saved value in a few words."""
    if value is None:
        return "None: no formula will ask for it"
    if value is RELEASED:
        return "released by an earlier backward pass"
    if isinstance(value, (tuple, list)) and value and any(_array(v) is not None for v in value):
        return f"[{', '.join(map(describe, value))}]"
    array = _array(value)
    if array is not None:
        shape = "x".join(map(str, array.shape)) or "scalar"
        return f"{shape} {str(TYPE_OF[array.dtype]).removeprefix('torch.')}"
    if getattr(value, "unpack_hook", None) is not None:
        return "packed by a saved tensor hook"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _array(value: Any) -> Any:
    array = getattr(value, "_array", None)
    if array is None and hasattr(value, "array"):
        tensor = getattr(value, "tensor", None)
        array = tensor._array if tensor is not None else value.array
    return array


def written_by_hand(thing: Any) -> Place | None:
    """Where a class or function is written; None where its source is not at hand, as in an interactive session."""
    try:
        lines, start = inspect.getsourcelines(thing)
        path = inspect.getsourcefile(thing)
    except (OSError, TypeError):
        return None
    return Place(Path(path), max(start, 1), inspect.cleandoc("\n" + "".join(lines))) if path else None
