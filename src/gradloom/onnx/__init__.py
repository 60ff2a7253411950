"""Export of modules to ONNX: PyTorch's torch.onnx.

`export` runs a module once, and writes its operators as ONNX's. Needs the package onnx: `pip install 'gradloom[onnx]'`.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any

import gradloom as gl

from ..compiler import _exporting
from ..core.tensor import Tensor
from ..nn import Module
from ..utils import _pytree as pytree
from ..utils._refused import declare
from ._export import Dimension, Exporter, OnnxExporterError, UnsupportedOperatorError, in_mode, load_onnx, record

__all__ = [
    "ONNXProgram",
    "OnnxExporterError",
    "TrainingMode",
    "UnsupportedOperatorError",
    "export",
    "is_in_onnx_export",
]

_OPSET = 18


class TrainingMode(enum.Enum):
    """Mode in which a module is exported."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OperatorExportTypes(enum.Enum):
    """How PyTorch's first exporter treats operators that ONNX lacks; accepted without effect."""

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


class TensorProtoDataType(enum.IntEnum):
    """ONNX's numbers of the types of elements."""

    UNDEFINED, FLOAT, UINT8, INT8, UINT16, INT16, INT32, INT64, STRING, BOOL, FLOAT16, DOUBLE = range(12)
    UINT32, UINT64, COMPLEX64, COMPLEX128, BFLOAT16, FLOAT8E4M3FN, FLOAT8E4M3FNUZ, FLOAT8E5M2 = range(12, 20)
    FLOAT8E5M2FNUZ = 20


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: Callable[..., Any], opset_version: int) -> None:
    """Accept a function for PyTorch's first exporter without effect: see `symbolic_helper`."""


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Do nothing: see `register_custom_op_symbolic`."""


__getattr__ = declare(
    __name__,
    {"": "", "operators": "*", **{f"symbolic_opset{version}": "*" for version in range(7, 21)}},
    "gradloom.onnx.export translates the operators that a module runs, and calls no symbolic functions",
)


class _State:
    exporting = False


def is_in_onnx_export() -> bool:
    """Return whether `export` is running a module."""
    return _State.exporting


class ONNXProgram:
    """An exported model.

    Attributes:
        model_proto: the model, an `onnx.ModelProto`.
    """

    def __init__(self, model_proto: Any) -> None:
        self.model_proto = model_proto

    def save(self, destination: str | os.PathLike[str] | Any) -> None:
        """Write the model to a path or a file open for bytes."""
        data = self.model_proto.SerializeToString()
        if hasattr(destination, "write"):
            destination.write(data)
        else:
            with open(destination, "wb") as file:
                file.write(data)

    def __repr__(self) -> str:
        graph = self.model_proto.graph
        names = [[value.name for value in values] for values in (graph.input, graph.output)]
        return f"ONNXProgram({', '.join(names[0])} -> {', '.join(names[1])}; {len(graph.node)} nodes)"


def export(
    model: Module | Any,
    args: tuple[Any, ...] | Tensor = (),
    f: str | os.PathLike[str] | Any = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    export_params: bool = True,
    verbose: bool | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    opset_version: int | None = None,
    dynamo: bool = True,
    dynamic_axes: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    training: TrainingMode = TrainingMode.EVAL,
    do_constant_folding: bool = True,
    keep_initializers_as_inputs: bool = False,
    **options: Any,
) -> ONNXProgram:
    """Export the operators that a module runs for example arguments, and return the model.

    Python control flow is that of the example. Sizes are, too, unless they are dynamic: then the module is run a second
    time with other sizes to see what depends on them.

    Args:
        model: the module, or a function of tensors.
        args: positional arguments, nested containers of tensors; one tensor stands for (tensor,).
        f: path or file to write the model to; None writes none.
        kwargs: keyword arguments.
        export_params: must be true: the model holds the parameters.
        verbose: print the model's nodes.
        input_names, output_names: names in the model, in order; the rest have the parameters' names and output_0, ....
        opset_version: version of ONNX's operators, at least 18; None for 18.
        dynamo: accepted without effect: there is one exporter.
        dynamic_axes: name of an input -> its dynamic dimensions: {0: "batch"} or [0]. Names of outputs are ignored.
        dynamic_shapes: the same by parameter of the forward, or as a sequence in the order of the arguments; names may
            be objects with a `__name__`, such as `gradloom.export.Dim`.
        training: mode in which the module is run.
        do_constant_folding, keep_initializers_as_inputs, options: accepted without effect.

    Raises:
        ImportError: if the package onnx is not installed.
        UnsupportedOperatorError: for operators without a rule; it names all of them.
        OnnxExporterError: for arguments that a rule cannot express, for writes to views, and for sizes that are no
            multiples of a dynamic one.
        ValueError: for another opset, unknown names in `dynamic_axes` or `dynamic_shapes`, and export_params=False.

    Example:
        >>> gradloom.onnx.export(nn.Linear(3, 2), torch.ones(4, 3), "linear.onnx", dynamic_axes={"input": {0: "batch"}})
    """
    onnx = load_onnx()
    opset = opset_version or _OPSET
    latest = min(onnx.defs.onnx_opset_version(), 26)
    if not _OPSET <= opset <= latest:
        raise ValueError(f"opset_version must be between {_OPSET} and {latest}, not {opset}")
    if not export_params:
        raise ValueError("export_params=False is not supported: the model holds the parameters")
    given = args if isinstance(args, tuple) else (args,)
    named = dict(kwargs or {})
    leaves = pytree.tree_leaves((given, named))
    dimensions = _dimensions(model, given, named, input_names, dynamic_axes, dynamic_shapes)
    samples = _resized(leaves, dimensions) if dimensions else [leaves]
    mode = {TrainingMode.EVAL: False, TrainingMode.TRAINING: True}.get(training)
    _State.exporting = True
    try:
        with _exporting(), in_mode(model, mode):
            traces = [record(model, given, named, sample) for sample in samples]
    finally:
        _State.exporting = False
    state = dict(model.state_dict(keep_vars=True)) if isinstance(model, Module) else {}
    names = _input_names(model, given, named, input_names)
    title = type(model).__name__ if isinstance(model, Module) else "main_graph"
    program = ONNXProgram(Exporter(onnx, opset, state).export(traces, dimensions, names, output_names, title))
    if verbose:
        print(onnx.printer.to_text(program.model_proto))
    if f is not None:
        program.save(f)
    return program


def _parameters(model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return (parameter, argument) in the order of the arguments' leaves."""
    function = model.forward if isinstance(model, Module) else model
    names = [p.name for p in signature(function).parameters.values() if p.kind is not p.KEYWORD_ONLY]
    variadic = [f"{names[-1] if names else 'input'}_{number}" for number in range(len(args))]
    positional = (names + variadic)[: len(args)]
    return [*zip(positional, args, strict=True), *kwargs.items()]


def _input_names(
    model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], given: Sequence[str] | None
) -> list[str]:
    """Return the names of the tensors among the arguments' leaves."""
    found = []
    for name, value in _parameters(model, args, kwargs):
        count = sum(isinstance(leaf, Tensor) for leaf in pytree.tree_leaves(value))
        found += [name] if count == 1 else [f"{name}_{number}" for number in range(count)]
    return [*(given or ()), *found[len(given or ()) :]]


def _dimensions(
    model: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    input_names: Sequence[str] | None,
    axes: Mapping[str, Any] | None,
    shapes: Any,
) -> list[Dimension]:
    """Return the dynamic dimensions that either argument describes."""
    leaves = pytree.tree_leaves((args, dict(kwargs)))
    tensors = [number for number, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
    found: dict[int, Any] = {}
    if axes:
        names = _input_names(model, args, kwargs, input_names)
        numbers = dict(zip(names, tensors, strict=False))
        found = {numbers[name]: dims for name, dims in axes.items() if name in numbers}
        if not found:
            raise ValueError(f"dynamic_axes names none of the inputs: {', '.join(names)}")
    if shapes is not None:
        parameters = _parameters(model, args, kwargs)
        if isinstance(shapes, Mapping):
            unknown = set(shapes) - {name for name, _ in parameters}
            if unknown:
                raise ValueError(f"dynamic_shapes names {sorted(unknown)}, which are no parameters of the model")
            shapes = [shapes.get(name) for name, _ in parameters]
        start = 0
        for (_, value), spec in zip(parameters, shapes, strict=False):
            count = len(pytree.tree_leaves(value))
            specs = [spec] if count == 1 and isinstance(value, Tensor) else list(spec or [])
            found |= {start + number: dims for number, dims in enumerate(specs) if dims}
            start += count
    made = []
    for leaf, dims in found.items():
        if isinstance(dims, Mapping):
            named: Any = dims.items()
        else:  # a tuple has a name or None for each dimension, a list the dynamic dimensions
            named = enumerate(dims) if isinstance(dims, tuple) else [(dim, "") for dim in dims]
        for dim, name in named:
            if name is not None:
                text = name if isinstance(name, str) else getattr(name, "__name__", "")
                made.append(Dimension(leaf, dim, text or f"input_{leaf}_dim_{dim}"))
    return made


def _resized(leaves: Sequence[Any], dimensions: Sequence[Dimension]) -> list[list[Any]]:
    """Return the leaves with two choices of dynamic sizes: equal names get equal sizes, and no two others do."""
    samples = []
    for extra in (0, 1):
        sizes: dict[str, int] = {}
        sample = list(leaves)
        for dimension in dimensions:
            value = sample[dimension.leaf]
            least = max(value.shape[dimension.dim], 2)
            size = sizes.setdefault(dimension.name, least + extra * (2 * len(sizes) + 1))
            index = gl.arange(size) % value.shape[dimension.dim]
            sample[dimension.leaf] = value.index_select(dimension.dim, index)
        samples.append(sample)
    return samples
