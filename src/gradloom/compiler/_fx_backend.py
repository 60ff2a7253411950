"""Backends that programs bring along: functions of a GraphModule and example inputs, as in torch.compile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.tensor import Tensor
from ..dispatch.state import GRAD_OFF
from ..fx import Graph, GraphModule
from ..nn import Module
from ._entry import Arguments, Backend, Entry, Opaque, check_of, template_of
from ._recorder import Recorder
from ._recording import Recording, Slot


class _FunctionEntry(Entry):
    """An entry whose graph a function of the program compiled."""

    def __init__(self, recorder: Recorder, arguments: Arguments, result: Any, backend: Any, key: Any) -> None:
        outputs: dict[int, int] = {}
        self.key = key
        self.exclusive: list[int] = []
        if recorder.effects:
            raise Opaque(f"it calls {recorder.effects[0].name}, which a GraphModule does not show")
        self.template = template_of(result, outputs, recorder)
        recording = recorder.recording
        for identity in outputs:
            slot = recorder.tensors.get(identity)
            if slot is None:
                raise Opaque("it returns a tensor that came from outside")
            recording.outputs.append(slot)
        if any((step.flags ^ recording.flags) & GRAD_OFF for step in recording.steps):
            raise Opaque("it changes the grad mode, which a GraphModule does not show")
        self.check, self.guards = check_of(recorder, arguments)
        inputs = list(recorder.inputs)
        self.count = len(inputs)
        self.module = graph_module(recording)
        self.function = backend(self.module, inputs)

    def run(self, inputs: list[Any]) -> Any:
        found = self.function(*inputs[: self.count])
        return self.template([*([found] if isinstance(found, Tensor) else found), *inputs[self.count :]])


def graph_module(recording: Recording) -> GraphModule:
    """Return a recording as a GraphModule, which takes its inputs and returns a tuple of its outputs."""
    graph = Graph()
    nodes: dict[int, Any] = {}
    for i, slot in enumerate(recording.inputs):
        nodes[slot.number] = graph.placeholder(f"arg{i}")
    for step in recording.steps:
        args, kwargs = _with_nodes(step.args, nodes), _with_nodes(step.kwargs, nodes)
        _spread(step.result, graph.call_function(step.function, args, kwargs), nodes, graph)
    graph.output(tuple([nodes[slot.number] for slot in recording.outputs]))
    return GraphModule(Module(), graph)


def _with_nodes(value: Any, nodes: dict[int, Any]) -> Any:
    if value.__class__ is Slot:
        return nodes[value.number]
    if value.__class__ in (tuple, list):
        return value.__class__([_with_nodes(v, nodes) for v in value])
    if value.__class__ is dict:
        return {k: _with_nodes(v, nodes) for k, v in value.items()}
    if value.__class__ is slice:
        return slice(*[_with_nodes(v, nodes) for v in (value.start, value.stop, value.step)])
    return value


def _spread(result: Any, node: Any, nodes: dict[int, Any], graph: Graph) -> None:
    import operator

    if result.__class__ is Slot:
        nodes[result.number] = node
    elif result.__class__ in (tuple, list):
        for i, part in enumerate(result):
            _spread(part, graph.call_function(operator.getitem, (node, i)), nodes, graph)


class _Function(Backend):
    takes_numbers = False

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(getattr(function, "__name__", "function"), None, False, function)

    def entry(self, recorder: Recorder, arguments: Arguments, result: Any, key: Any) -> Entry:
        return _FunctionEntry(recorder, arguments, result, self.asked, key)


def of_function(function: Callable[..., Any]) -> Backend:
    """Return the backend that a function is."""
    return _Function(function)
