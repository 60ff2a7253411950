"""Export of a module as one graph of operators: PyTorch's torch.export.

`export` runs a module for example arguments, records the operators below autograd, and returns an ExportedProgram: a
graph with the parameters and buffers as inputs, for the sizes of the example, but for dimensions that are dynamic.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import gradloom as gl

from ..compiler import _exporting
from ..core.tensor import Tensor
from ..fx._codegen import _PyTreeCodeGen, _PyTreeInfo
from ..fx.experimental.proxy_tensor import ProxyTorchDispatchMode, PythonKeyTracer, _parameters
from ..fx.graph import Graph
from ..fx.graph_module import GraphModule
from ..nn import Module
from ..utils import _pytree as pytree
from ._dimensions import UNBOUNDED, Axis, Dim as Dim, UserError, ValueRange, axes_of, dims as dims
from ._sizes import assignments, generalize, resized, settled

__all__ = ["Dim", "ExportGraphSignature", "ExportedProgram", "InputKind", "InputSpec", "dims", "export", "load", "save"]


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
    """A module as one graph.

    Attributes:
        graph_module: the graph as a module of parameters, buffers and arguments; `graph` is its graph.
        graph_signature: what its inputs and outputs are.
        example_inputs: (args, kwargs) of the export.
        range_constraints: {dynamic dimension: the sizes for which the graph holds}.
    """

    def __init__(
        self,
        graph_module: GraphModule,
        graph_signature: ExportGraphSignature,
        state: Mapping[str, Tensor],
        example_inputs: tuple[tuple[Any, ...], dict[str, Any]],
        specs: tuple[Any, Any],
        argument_names: list[str],
        axes: list[Axis],
    ) -> None:
        self.graph_module, self.graph_signature = graph_module, graph_signature
        self._state, self.example_inputs = dict(state), example_inputs
        self._specs, self._argument_names, self._axes = specs, argument_names, axes
        self.range_constraints = {
            str(axis): ValueRange(axis.size(axis.bounds.lower), _upper(axis)) for axis in self._axes
        }

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

        It raises ValueError for arguments of another structure than the example's, AssertionError for sizes for which
        the program does not hold, and RuntimeError for another number of dimensions, dtype or constant.
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
        checked = _Checked(self.example_inputs, self.graph_signature.user_inputs, self._axes)
        made.register_forward_pre_hook(checked, with_kwargs=True)
        return made

    def run_decompositions(self, decomp_table: Mapping[Any, Callable[..., Any]] | None = None) -> ExportedProgram:
        """Return a program in which operators are computed by others.

        Args:
            decomp_table: operator -> a function of its arguments.
        """
        args, kwargs = self.example_inputs
        return _exported(self.module(), args, kwargs, self._argument_names, decomp_table, self._axes)

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(
            "Unable to call ExportedProgram directly. You should use `exported_program.module()` instead."
        )

    def __str__(self) -> str:
        code = self.graph_module.print_readable(print_output=False)
        return (
            f"ExportedProgram:\n    {code.replace(chr(10), chr(10) + '    ')}\nGraph signature: {self.graph_signature}"
            f"\nRange constraints: {self.range_constraints}"
        )


def _upper(axis: Axis) -> int:
    return UNBOUNDED if axis.bounds.upper == UNBOUNDED else axis.size(axis.bounds.upper)


class _Checked:
    """A hook that refuses arguments for which the graph does not hold.

    Args:
        example: (args, kwargs) for which it does.
        names: names of their leaves.
        axes: the dynamic dimensions.
    """

    def __init__(
        self, example: tuple[tuple[Any, ...], dict[str, Any]], names: tuple[str, ...], axes: list[Axis]
    ) -> None:
        leaves, self.spec = pytree.tree_flatten(example)
        self.names, self.axes = names, {(axis.leaf, axis.dim): axis for axis in axes}
        self.expected = [_kind(leaf) for leaf in leaves]
        self.shapes = [tuple(leaf.shape) if isinstance(leaf, Tensor) else () for leaf in leaves]

    def __call__(self, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        leaves, spec = pytree.tree_flatten((args, dict(kwargs)))
        if spec != self.spec:
            raise ValueError(
                f"Trying to flatten user inputs with exported input tree spec: \n{self.spec}\nbut actually got inputs "
                f"with tree spec of: \n{spec}.\nPlease check that the inputs have the same number and type of args and "
                "kwargs as the ones you used when tracing."
            )
        roots: dict[str, tuple[int, str]] = {}
        for number, (leaf, expected) in enumerate(zip(leaves, self.expected, strict=True)):
            if _kind(leaf) != expected:
                raise RuntimeError(f"input {number} of the program was exported as {expected}, but is {_kind(leaf)}")
            for dim, (size, wanted) in enumerate(zip(getattr(leaf, "shape", ()), self.shapes[number], strict=False)):
                self._check(number, dim, int(size), wanted, roots)

    def _check(self, number: int, dim: int, size: int, wanted: int, roots: dict[str, tuple[int, str]]) -> None:
        place = f"{self.names[number]}.size()[{dim}]"
        axis = self.axes.get((number, dim))
        if axis is None:
            if size != wanted:
                raise AssertionError(f"Guard failed: {place} == {wanted}")
            return
        root, rest = divmod(size - axis.offset, axis.scale)
        first, where = roots.setdefault(axis.root, (root, place))
        if rest or root != first:
            raise AssertionError(f"Guard failed: {place} == {axis}, where {axis.root} is {first}, from {where}")
        if root > axis.bounds.upper:
            raise AssertionError(f"Guard failed: {place} <= {axis.size(axis.bounds.upper)}")
        if root < axis.bounds.lower and axis.bounds.lower > 2:  # 0 and 1 are expected to behave as 2
            raise AssertionError(f"Guard failed: {place} >= {axis.size(axis.bounds.lower)}")


def _kind(leaf: Any) -> Any:
    return (leaf.ndim, leaf.dtype) if isinstance(leaf, Tensor) else leaf


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
        dynamic_shapes: dimensions of which the program leaves the size open, as a dict by the names of the arguments or
            a tuple of them all: None, for a tensor `{dim: Dim(...)}` or a list with a Dim or None for each dimension,
            and for a container the same container. See Note [Dynamic sizes].
        strict: what `torch.compiler.is_dynamo_compiling` tells the program; Python runs as it is.
        preserve_module_call_signature: must be empty.

    Raises:
        NotImplementedError: for preserved signatures.
        UserError: if the program does not hold for the dynamic dimensions, or they do not fit the arguments.
        TypeError: if `mod` is not a module.
        RuntimeError: if the module takes a number out of a tensor.

    Example:
        >>> program = gradloom.export.export(nn.Linear(3, 2), (torch.ones(1, 3),))
        >>> program.module()(torch.ones(1, 3))
        >>> program = export(nn.Linear(3, 2), (torch.ones(4, 3),), dynamic_shapes={"input": {0: Dim("batch")}})
        >>> program.module()(torch.ones(7, 3))
    """
    if not isinstance(mod, Module):
        raise TypeError(f"Expected `mod` to be an instance of `torch.nn.Module`, got {type(mod)}.")
    if preserve_module_call_signature:
        raise NotImplementedError("torch.export.export: preserve_module_call_signature is not supported")
    named = dict(kwargs or {})
    names = [*_parameters(type(mod).forward.__get__(mod).__func__, len(args) + 1)[1:], *named]
    axes = axes_of(names, (*args, *named.values()), dynamic_shapes)
    with _exporting(strict):
        return _exported(mod, tuple(args), named, names, None, axes)


@dataclass
class _Traced:
    """A module's operators for some arguments; the fields are those of ExportedProgram."""

    tracer: PythonKeyTracer
    specs: list[InputSpec]
    state: dict[str, Tensor]
    out_spec: Any


def _exported(
    mod: Any, args: tuple[Any, ...], kwargs: dict[str, Any], names: list[str], table: Any, axes: list[Axis]
) -> ExportedProgram:
    leaves, in_spec = pytree.tree_flatten((args, kwargs))

    def trace(arguments: list[Any]) -> _Traced:
        given, named = pytree.tree_unflatten(arguments, in_spec)
        return _traced(mod, given, named, names, table)

    random_state = gl.get_rng_state()
    try:
        traced, axes = _for_all_sizes(trace, leaves, axes) if axes else (trace(leaves), axes)
    finally:
        gl.set_rng_state(random_state)
    graph = traced.tracer.graph
    (output,) = graph.find_nodes(op="output")
    signature = ExportGraphSignature(tuple(traced.specs), tuple(str(value) for value in output.args[0]))
    module = GraphModule(traced.tracer.root, graph)
    return ExportedProgram(module, signature, traced.state, (args, kwargs), (in_spec, traced.out_spec), names, axes)


def _for_all_sizes(
    trace: Callable[[list[Any]], _Traced], leaves: list[Any], axes: list[Axis]
) -> tuple[_Traced, list[Axis]]:
    """Return a trace that holds for all sizes, and the dimensions that are dynamic in it."""

    def held(axes: list[Axis]) -> _Traced:
        sizes = assignments(axes, settled(axes, leaves))
        traces = [trace(resized(leaves, axes, one)) for one in sizes]
        generalize([one.tracer.graph for one in traces], [one.tracer.root for one in traces])
        return traces[0]

    def holds(axes: list[Axis]) -> Exception | None:
        try:
            held(axes)
        except Exception as error:
            return error
        return None

    try:
        return held(axes), axes
    except Exception as error:
        failure = error
    alone = trace(leaves)  # which raises what does not concern sizes
    kept = [axis for axis in axes if not axis.automatic]
    if kept and (cause := holds(kept)):
        raise _explained(kept, settled(kept, leaves), holds) from cause
    if len(kept) == len(axes):
        raise failure
    kept = _automatic(kept, [axis for axis in axes if axis.automatic], leaves, holds)
    return (held(kept) if kept else alone), kept


def _automatic(
    kept: list[Axis], pending: list[Axis], leaves: list[Any], holds: Callable[[list[Axis]], Any]
) -> list[Axis]:
    """Return dimensions, and those of Dim.AUTO with which the program holds, by themselves or as one with others."""
    while pending:
        axis, *pending = pending
        alike = [other for other in pending if _same_size(leaves, axis, other)]
        ways = [[axis], *([replace(axis, root=other.root)] for other in kept if _same_size(leaves, axis, other))]
        ways += [
            [axis, *(replace(other, root=axis.root) for other in some)] for some in ([*([one] for one in alike), alike])
        ]
        found = next((way for way in ways if not holds([*kept, *way])), [])
        kept = [*kept, *found]
        pending = [other for other in pending if all((other.leaf, other.dim) != (one.leaf, one.dim) for one in found)]
    return kept


def _same_size(leaves: list[Any], axis: Axis, other: Axis) -> bool:
    plain = (other.scale, other.offset) == (1, 0)
    return plain and bool(leaves[axis.leaf].shape[axis.dim] == leaves[other.leaf].shape[other.dim])


def _explained(axes: list[Axis], example: dict[str, int], holds: Callable[[list[Axis]], Any]) -> UserError:
    """Return the error for dimensions for which the program does not hold, which names the one that is to blame."""
    for root, size in example.items():
        cause = holds([axis for axis in axes if axis.root == root])
        if cause is None:
            continue
        for other, same in example.items():
            tied = [replace(axis, root=other) for axis in axes if axis.root in (root, other)]
            if other != root and same == size and holds(tied) is None:
                return UserError(
                    f"Constraints violated ({root})! The values of {root} and {other} must always be equal.\nSuggested "
                    f"fixes:\n  {root} = {other}"
                )
        return UserError(
            f"Constraints violated ({root})! You marked {root} as dynamic but the program does not hold for other "
            f"sizes than {size}: {cause}"
        )
    return UserError(
        f"Constraints violated ({', '.join(example)})! The program does not hold for other sizes: {holds(axes)}"
    )


def _traced(mod: Any, args: tuple[Any, ...], kwargs: dict[str, Any], names: list[str], table: Any) -> _Traced:
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
    for name, leaf in zip(
        _leaf_names(names, (*args, *kwargs.values())), pytree.tree_leaves((args, kwargs)), strict=True
    ):
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
    tracer.create_node("output", "output", (tuple(tracer.create_arg(value) for value in results),), {})
    return _Traced(tracer, specs, state, out_spec)


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
