"""node_creation_hook: a `with` block in which a function is told of each node that joins a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..core.accumulate_grad import LEAF_NUMBER
from ..core.edge import gradient_edge
from ..core.node import Node, as_pair, next_sequence_nr, tell_created
from ..dispatch import _operators
from ..dispatch.interception import NODES, Call, attend, register
from ..dispatch.state import Whole, state


class node_creation_hook(Whole):
    """A `with` block in which `hook(node)` is called for each node that is made by this thread, and by backward passes
    that it starts.

    The node is complete: its next functions, the metadata of its outputs and its saved tensors are there. An
    AccumulateGrad is reported when it is made: when a leaf is first used, or used again after its graph was freed. In
    nested blocks the outermost hook is called first.

    Args:
        hook: function of the node that returns None. It may register hooks on the node, or write to `node.metadata`.

    Raises:
        TypeError: if the hook is not callable.
        RuntimeError: by the operator, if the hook returns a value, or itself makes a node.
    """

    def __init__(self, hook: Callable[[Node], None]) -> None:
        self.hook = hook

    def _change(self) -> None:
        if not callable(self.hook):
            raise TypeError(f"node_creation_hook(): the hook must be callable, not {type(self.hook).__name__}")
        self._keep(state.node_hooks)
        state.node_hooks = (*state.node_hooks, self.hook)
        attend()

    def _restore(self, before: Any) -> None:
        state.node_hooks = before
        attend()


def tell_of_results(results: Any, first: int) -> None:
    """Report the nodes of an operator's results whose sequence numbers are `first` or greater, in the order made."""
    found: dict[Node, int] = {}
    waiting = [as_pair(t._edge or gradient_edge(t))[0] for t in _tensors(results)]
    while waiting:
        node = waiting.pop()
        if node is None or node in found or node.sequence_nr is LEAF_NUMBER or node.sequence_nr < first:
            continue
        found[node] = node.sequence_nr
        waiting += [as_pair(edge)[0] for edge in node.next_edges]
    for node in sorted(found, key=found.__getitem__):
        tell_created(node)


def _tensors(results: Any) -> Iterable[Any]:
    return [
        t for t in (results if isinstance(results, (tuple, list)) else (results,)) if isinstance(t, _operators.Tensor)
    ]


def _handle_call(call: Call) -> Any:
    if not state.node_hooks or call.composite is not None:
        return NotImplemented
    first = next_sequence_nr()
    results = call.below(NODES)
    tell_of_results(results, first)
    return results


register(NODES, _handle_call)
