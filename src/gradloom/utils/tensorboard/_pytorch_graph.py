"""The graph of a module's operators, in the boxes of its modules, as TensorBoard shows it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import gradloom as gl

from ...fx.experimental.proxy_tensor import ProxyTorchDispatchMode, PythonKeyTracer
from ...nn import Module
from ...nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from .. import _pytree as pytree
from .summary import package


class _Scoped(PythonKeyTracer):
    """A tracer that notes in which module each operator runs."""

    def __init__(self) -> None:
        super().__init__()
        self.scopes: list[str] = []

    def create_node(self, *args: Any, **kwargs: Any) -> Any:
        node = super().create_node(*args, **kwargs)
        node.meta["scope"] = "/".join(self.scopes)
        return node


@contextmanager
def _scopes(tracer: _Scoped, model: Module) -> Iterator[None]:
    """Keep the tracer's scopes: `Net/Sequential[seq]/Linear[1]` in the second layer of Net.seq."""
    names = {module: name.rpartition(".")[2] for name, module in model.named_modules()}

    def enter(module: Module, args: Any) -> None:
        name = names.get(module, "")
        tracer.scopes.append(f"{type(module).__name__}[{name}]" if name else type(module).__name__)

    def leave(module: Module, args: Any, result: Any) -> None:
        tracer.scopes.pop()

    handles = [register_module_forward_pre_hook(enter), register_module_forward_hook(leave)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def graph(model: Module, args: Any, verbose: bool = False, use_strict_trace: bool = True) -> tuple[Any, Any]:
    """Return what FileWriter.add_graph takes: the GraphDef of what a module runs, and a RunMetadata without times.

    tensorboardX calls it.

    Args:
        model: the module.
        args: its argument, or a tuple of them.
        verbose: print the operators.
        use_strict_trace: accepted for compatibility.
    """
    definition = graph_of(model, args if isinstance(args, tuple) else (args,))
    if verbose:
        print(definition)
    steps = package("compat.proto.step_stats_pb2")
    devices = steps.StepStats(dev_stats=[steps.DeviceStepStats(device="/device:CPU:0")])
    return definition, package("compat.proto.config_pb2").RunMetadata(step_stats=devices)


def graph_of(model: Module, args: tuple[Any, ...]) -> Any:
    """Return the graph of what a module runs for some arguments, a GraphDef.

    Raises TypeError for anything but a module; what the module raises is raised.
    """
    if not isinstance(model, Module):
        raise TypeError(f"add_graph takes a Module, not {type(model).__name__}")
    tracer = _Scoped()
    leaves = [leaf for leaf in pytree.tree_leaves(args) if isinstance(leaf, gl.Tensor)]
    for number, leaf in enumerate(leaves):
        tracer.track(leaf, tracer.create_node("placeholder", f"input_{number}", (), {}))
    homes = {module: name for name, module in model.named_modules()}
    for module, name in homes.items():
        for part, value in [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]:
            node = tracer.create_node("placeholder", f"{name}.{part}".lstrip(".").replace(".", "_"), (), {})
            node.meta["scope"], node.meta["part"] = _scope(model, name), part
            tracer.track(value, node)
    before = [buffer.detach().clone() for buffer in model.buffers()]
    training = model.training
    with gl.no_grad(), ProxyTorchDispatchMode(tracer), _scopes(tracer, model):
        result = model(*args)
    model.train(training)
    with gl.no_grad():
        for buffer, old in zip(model.buffers(), before, strict=True):
            buffer.copy_(old)
    results = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, gl.Tensor)]
    return _definition(tracer, [tracer.create_arg(leaf) for leaf in results])


def _scope(model: Module, path: str) -> str:
    """Return the scope of a module: the path of classes and names that leads to it."""
    scopes, module = [type(model).__name__], model
    for name in filter(None, path.split(".")):
        module = getattr(module, name)
        scopes.append(f"{type(module).__name__}[{name}]")
    return "/".join(scopes)


def _definition(tracer: _Scoped, outputs: list[Any]) -> Any:
    protos = package("compat.proto.graph_pb2")
    names: dict[Any, str] = {}
    made = []
    for node in tracer.graph.nodes:
        if node.op == "placeholder" and not node.users and node not in outputs and "part" in node.meta:
            continue
        scope, part = node.meta["scope"], node.meta.get("part")
        if node.op == "placeholder" and part is None:
            names[node], kind = f"input/{node.name}", "IO Node"
        elif part is not None:
            names[node], kind = f"{scope}/{part}", "prim::GetAttr"
        else:
            names[node] = f"{scope}/{node.name}"
            kind = "prim::Constant" if node.op == "get_attr" else _kind(node.target)
        inputs = [names[source] for source in node.all_input_nodes]
        constants = {str(i): value for i, value in enumerate(node.args) if not hasattr(value, "users")} | dict(
            node.kwargs
        )
        made.append(_node(protos, names[node], kind, inputs, node.meta.get("val"), str(constants)))
    for number, output in enumerate(outputs):
        made.append(
            _node(protos, f"output/output.{number + 1}", "IO Node", [names[output]], output.meta.get("val"), "")
        )
    versions = package("compat.proto.versions_pb2").VersionDef(producer=22)
    return protos.GraphDef(node=made, versions=versions)


def _kind(target: Any) -> str:
    """Return the name of an operator, such as aten::addmm."""
    name = getattr(target, "_overloadpacket", None)
    return f"prim::{target.__name__}" if name is None else str(name).replace(".", "::", 1)


def _node(protos: Any, name: str, kind: str, inputs: list[str], value: Any, text: str) -> Any:
    values = package("compat.proto.attr_value_pb2").AttrValue
    node = package("compat.proto.node_def_pb2").NodeDef(name=name, op=kind, input=inputs)
    node.attr["attr"].CopyFrom(values(s=text.encode()))
    if isinstance(value, gl.Tensor):
        shapes = package("compat.proto.tensor_shape_pb2").TensorShapeProto
        shape = shapes(dim=[shapes.Dim(size=size) for size in value.shape])
        node.attr["_output_shapes"].CopyFrom(values(list=values.ListValue(shape=[shape])))
    return node


def graph_of_file(path: Any) -> Any:
    """Return the graph of an ONNX model in a file: its inputs, outputs and operators, a GraphDef.

    Raises ImportError, which names the extra, without the package onnx.
    """
    try:
        graph = import_module("onnx").load(path).graph
    except ImportError as error:
        raise ImportError("add_onnx_graph needs the package onnx: pip install 'gradloom[onnx]'") from error
    values, shapes = package("compat.proto.attr_value_pb2").AttrValue, package("compat.proto.tensor_shape_pb2")
    node_of = package("compat.proto.node_def_pb2").NodeDef
    made = []
    for value in (*graph.input, *graph.output):
        kind = value.type.tensor_type
        shape = shapes.TensorShapeProto(
            dim=[shapes.TensorShapeProto.Dim(size=size.dim_value) for size in kind.shape.dim]
        )
        attributes = {"dtype": values(type=kind.elem_type), "shape": values(shape=shape)}
        made.append(node_of(name=value.name, op="Variable", attr=attributes))
    for node in graph.node:
        texts = [" = ".join(str(content) for _, content in field.ListFields()) for field in node.attribute]
        attributes = {"parameters": values(s=", ".join(texts).encode())}
        made.append(node_of(name=node.output[0], op=node.op_type, input=node.input, attr=attributes))
    versions = package("compat.proto.versions_pb2").VersionDef(producer=22)
    return package("compat.proto.graph_pb2").GraphDef(node=made, versions=versions)
