"""Export of a module as one graph of operators: PyTorch's torch.export.

`export` runs a module for example arguments, records the operators below autograd, and returns an ExportedProgram: a
graph for these sizes, with the parameters and buffers as inputs.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import gradloom as gl

from ..core.tensor import Tensor
from ..fx._codegen import _PyTreeCodeGen, _PyTreeInfo
from ..fx.experimental.proxy_tensor import ProxyTorchDispatchMode, PythonKeyTracer, _parameters
from ..fx.graph import Graph
from ..fx.graph_module import GraphModule
from ..nn import Module
from ..utils import _pytree as pytree

__all__ = ["Dim", "ExportGraphSignature", "ExportedProgram", "InputKind", "InputSpec", "export", "load", "save"]


class Dim:
    """A name for a dynamic dimension. `gradloom.onnx.export` takes it; `export` refuses dynamic dimensions.

    Args:
        name: the name.
        min, max: bounds; kept as attributes.
    """

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        self.__name__, self.min, self.max = name, min, max

    def __repr__(self) -> str:
        return f"Dim('{self.__name__}', min={self.min}, max={self.max})"


class InputKind(enum.Enum):
    """What an input of the graph is."""

    USER_INPUT = enum.auto()
    PARAMETER = enum.auto()
    BUFFER = enum.auto()


@dataclass(frozen=True)
class InputSpec:
    """An input of the graph.

    Attributes:
        kind: what it is.
        name: name of its placeholder.
        target: the parameter's or buffer's name in the module; None for an argument.
        persistent: whether a buffer is in the state dict; None for others.
    """

    kind: InputKind
    name: str
    target: str | None = None
    persistent: bool | None = None


@dataclass(frozen=True)
class ExportGraphSignature:
    """The inputs and outputs of the graph of an ExportedProgram.

    Attributes:
        input_specs: the inputs: parameters, buffers, then arguments.
        user_outputs: names of the nodes that are returned.
    """

    input_specs: tuple[InputSpec, ...]
    user_outputs: tuple[str, ...]

    @property
    def user_inputs(self) -> tuple[str, ...]:
        """Names of the placeholders of arguments."""
        return tuple(spec.name for spec in self.input_specs if spec.kind is InputKind.USER_INPUT)

    @property
    def inputs_to_parameters(self) -> dict[str, str]:
        """Placeholder -> name of the parameter."""
        return self._targets(InputKind.PARAMETER)

    @property
    def inputs_to_buffers(self) -> dict[str, str]:
        """Placeholder -> name of the buffer."""
        return self._targets(InputKind.BUFFER)

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters."""
        return tuple(self.inputs_to_parameters.values())

    @property
    def buffers(self) -> tuple[str, ...]:
        """Names of the buffers."""
        return tuple(self.inputs_to_buffers.values())

    def _targets(self, kind: InputKind) -> dict[str, str]:
        return {spec.name: spec.target for spec in self.input_specs if spec.kind is kind and spec.target is not None}


class ExportedProgram:
    """A module as one graph for the sizes of its example arguments.

    Attributes:
        graph_module: the graph as a module of parameters, buffers and arguments; `graph` is its graph.
        graph_signature: what its inputs and outputs are.
        example_inputs: (args, kwargs) of the export.
    """

    def __init__(
        self,
        graph_module: GraphModule,
        graph_signature: ExportGraphSignature,
        state: Mapping[str, Tensor],
        example_inputs: tuple[tuple[Any, ...], dict[str, Any]],
        specs: tuple[Any, Any],
        argument_names: list[str],
    ) -> None:
        self.graph_module, self.graph_signature = graph_module, graph_signature
        self._state, self.example_inputs = dict(state), example_inputs
        self._specs, self._argument_names = specs, argument_names

    @property
    def graph(self) -> Graph:
        """The graph."""
        return self.graph_module.graph

    @property
    def state_dict(self) -> dict[str, Any]:
        """Name -> parameter or buffer of the module's state dict."""
        hidden = {spec.target for spec in self.graph_signature.input_specs if spec.persistent is False}
        return {name: value for name, value in self._state.items() if name not in hidden}

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """Yield (name, parameter)."""
        yield from ((name, self._state[name]) for name in self.graph_signature.parameters)

    def parameters(self) -> Iterator[Tensor]:
        """Yield the parameters."""
        yield from (value for _, value in self.named_parameters())

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """Yield (name, buffer)."""
        yield from ((name, self._state[name]) for name in self.graph_signature.buffers)

    def buffers(self) -> Iterator[Tensor]:
        """Yield the buffers."""
        yield from (value for _, value in self.named_buffers())

    def module(self) -> GraphModule:
        """Return a module that runs the graph, with the parameters, buffers and arguments of the exported one.

        It raises RuntimeError for arguments of another structure, shape or dtype than the example's.
        """
        graph = Graph()
        values: dict[Any, Any] = {}
        for node, spec in zip(self.graph.find_nodes(op="placeholder"), self.graph_signature.input_specs, strict=True):
            if spec.target is None:
                values[node] = graph.placeholder(node.name)
            else:
                values[node] = graph.get_attr(spec.target)
        output = graph.graph_copy(self.graph, values)
        for node in graph.find_nodes(op="get_attr"):
            if not node.users:
                graph.erase_node(node)
        graph.output(output)
        graph.set_codegen(_PyTreeCodeGen(_PyTreeInfo(self._argument_names, *self._specs)))
        names = [str(node.target) for node in self.graph.find_nodes(op="get_attr")]
        constants = {name: getattr(self.graph_module, name) for name in names}
        made = GraphModule({**self._state, **constants}, graph)
        made.register_forward_pre_hook(_Checked(self.example_inputs), with_kwargs=True)
        return made

    def run_decompositions(self, decomp_table: Mapping[Any, Callable[..., Any]] | None = None) -> ExportedProgram:
        """Return a program in which operators are computed by others.

        Args:
            decomp_table: operator -> a function of its arguments.
        """
        args, kwargs = self.example_inputs
        return _exported(self.module(), args, kwargs, self._argument_names, decomp_table)

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(
            "Unable to call ExportedProgram directly. You should use `exported_program.module()` instead."
        )

    def __str__(self) -> str:
        code = self.graph_module.print_readable(print_output=False)
        return (
            f"ExportedProgram:\n    {code.replace(chr(10), chr(10) + '    ')}\nGraph signature: {self.graph_signature}"
        )


class _Checked:
    """A hook that refuses arguments for which the graph does not hold."""

    def __init__(self, example: tuple[tuple[Any, ...], dict[str, Any]]) -> None:
        leaves, self.spec = pytree.tree_flatten(example)
        self.expected = [_kind(leaf) for leaf in leaves]

    def __call__(self, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        leaves, spec = pytree.tree_flatten((args, dict(kwargs)))
        if spec != self.spec:
            raise RuntimeError(f"the program was exported for arguments of the structure {self.spec}, not {spec}")
        for number, (leaf, expected) in enumerate(zip(leaves, self.expected, strict=True)):
            if _kind(leaf) != expected:
                raise RuntimeError(f"input {number} of the program was exported as {expected}, but is {_kind(leaf)}")


def _kind(leaf: Any) -> Any:
    return (tuple(leaf.shape), leaf.dtype) if isinstance(leaf, Tensor) else leaf


def export(
    mod: Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    strict: bool = False,
    preserve_module_call_signature: tuple[str, ...] = (),
) -> ExportedProgram:
    """Return the operators that a module runs for example arguments, as a program.

    Args:
        mod: the module; its parameters are shared, and its buffers keep their values.
        args, kwargs: example arguments, nested containers of tensors and constants.
        dynamic_shapes: must name no dimension: the graph holds for the sizes of the example.
        strict: accepted without effect: Python runs as it is.
        preserve_module_call_signature: must be empty.

    Raises:
        NotImplementedError: for dynamic shapes and preserved signatures.
        TypeError: if `mod` is not a module.
        RuntimeError: if the module takes a number out of a tensor.

    Example:
        >>> program = gradloom.export.export(nn.Linear(3, 2), (torch.ones(1, 3),))
        >>> program.module()(torch.ones(1, 3))
    """
    if not isinstance(mod, Module):
        raise TypeError(f"Expected `mod` to be an instance of `torch.nn.Module`, got {type(mod)}.")
    if any(leaf is not None for leaf in pytree.tree_leaves(dynamic_shapes)):
        raise NotImplementedError(
            "torch.export.export: dynamic shapes are not supported, since there are no symbolic sizes; export without "
            "dynamic_shapes, once for each size. gradloom.onnx.export takes dynamic sizes"
        )
    if preserve_module_call_signature:
        raise NotImplementedError("torch.export.export: preserve_module_call_signature is not supported")
    named = dict(kwargs or {})
    names = [*_parameters(type(mod).forward.__get__(mod).__func__, len(args) + 1)[1:], *named]
    return _exported(mod, tuple(args), named, names, None)


def _exported(mod: Any, args: tuple[Any, ...], kwargs: dict[str, Any], names: list[str], table: Any) -> ExportedProgram:
    tracer = PythonKeyTracer()
    specs: list[InputSpec] = []
    state: dict[str, Tensor] = {}
    lasting = set(mod.state_dict())
    members = [(InputKind.PARAMETER, "p", *item) for item in mod.named_parameters()]
    members += [(InputKind.BUFFER, "b", *item) for item in mod.named_buffers()]
    for kind, prefix, path, value in members:
        node = tracer.create_node("placeholder", f"{prefix}_{path.replace('.', '_')}", (), {})
        tracer.track(value, node)
        state[path] = value
        specs.append(InputSpec(kind, node.name, path, path in lasting if kind is InputKind.BUFFER else None))
    leaves, in_spec = pytree.tree_flatten((args, kwargs))
    for name, leaf in zip(_leaf_names(names, (*args, *kwargs.values())), leaves, strict=True):
        node = tracer.create_node("placeholder", name, (), {})
        if isinstance(leaf, Tensor):
            tracer.track(leaf, node)
        specs.append(InputSpec(InputKind.USER_INPUT, node.name))
    before = {path: value.detach().clone() for path, value in mod.named_buffers()}
    with ProxyTorchDispatchMode(tracer, table):
        result = mod(*args, **kwargs)
    with gl.no_grad():
        for path, value in mod.named_buffers():
            if path in before:
                value.copy_(before[path])
    results, out_spec = pytree.tree_flatten(result)
    output = tracer.create_node("output", "output", (tuple(tracer.create_arg(value) for value in results),), {})
    outputs = tuple(str(value) for value in output.args[0])
    signature = ExportGraphSignature(tuple(specs), outputs)
    module = GraphModule(tracer.root, tracer.graph)
    return ExportedProgram(module, signature, state, (args, kwargs), (in_spec, out_spec), names)


def _leaf_names(names: list[str], values: tuple[Any, ...]) -> list[str]:
    """Return a name for each leaf of the arguments: x, or x_0, x_1 for a container."""
    found = []
    for name, value in zip(names, values, strict=True):
        leaves, spec = pytree.tree_flatten(value)
        found += [name] if spec.is_leaf() else [f"{name}_{number}" for number in range(len(leaves))]
    return found


def save(ep: ExportedProgram, f: str | os.PathLike[str] | Any) -> None:
    """Write a program to a path or a file, for `load`. PyTorch's .pt2 files have another format.

    Raises TypeError for anything but an ExportedProgram.
    """
    if not isinstance(ep, ExportedProgram):
        raise TypeError(
            f"The 'ep' parameter must be an instance of 'ExportedProgram', got '{type(ep).__name__}' instead."
        )
    gl.save(vars(ep), f)


def load(f: str | os.PathLike[str] | Any) -> ExportedProgram:
    """Read a program that `save` wrote. It runs code from the file, so load only files that you trust."""
    made = ExportedProgram.__new__(ExportedProgram)
    made.__dict__.update(gl.load(f, weights_only=False))
    return made
