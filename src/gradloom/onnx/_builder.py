"""Builder: the ONNX graph that rules add nodes to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

import gradloom as gl

from ..core.tensor import Tensor
from ..fx.node import Node

TYPES = {
    gl.float32: "FLOAT",
    gl.float64: "DOUBLE",
    gl.float16: "FLOAT16",
    gl.bfloat16: "BFLOAT16",
    gl.int8: "INT8",
    gl.int16: "INT16",
    gl.int32: "INT32",
    gl.int64: "INT64",
    gl.uint8: "UINT8",
    gl.bool: "BOOL",
    gl.complex64: "COMPLEX64",
    gl.complex128: "COMPLEX128",
}


class Unsupported(Exception):
    """Raised by a rule for arguments that it cannot express; the message says which."""


class Size(int):
    """A number that depends on the size of a dynamic dimension.

    Attributes:
        source: (input of the graph, its dimension), or None if it is not a multiple of one of them.
        factor: the number of times that size.
    """

    source: tuple[str, int] | None
    factor: int

    def __new__(cls, value: int, source: tuple[str, int] | None, factor: int) -> Size:
        made = super().__new__(cls, value)
        made.source, made.factor = source, factor
        return made


class Builder:
    """Collects the nodes and constants of an ONNX graph.

    Attributes:
        nodes, initializers: the protobuf messages so far.
        names: node of the fx graph -> name of its value; a list for several values.
        pairs: node of the fx graph -> that of a trace with other sizes; empty if all sizes are fixed.
    """

    def __init__(self, onnx: Any) -> None:
        self.onnx = onnx
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self.names: dict[Node, Any] = {}
        self.pairs: dict[Node, Node] = {}
        self._count = 0

    # --- nodes ---

    def fresh(self, hint: str) -> str:
        """Return a name that no value has."""
        self._count += 1
        return f"{hint}_{self._count}"

    def op(self, kind: str, *inputs: Any, outputs: int = 1, **attributes: Any) -> Any:
        """Add a node and return the name of its value; a list of names if it has several.

        Args:
            kind: ONNX's operator.
            inputs: names, fx nodes, or None for an absent one.
            outputs: number of values.
            attributes: ONNX's attributes; None leaves one out.
        """
        names = [self.fresh(kind.lower()) for _ in range(outputs)]
        given = [self.name(value) for value in inputs]
        while given and not given[-1]:
            given.pop()
        kept = {key: value for key, value in attributes.items() if value is not None}
        self.nodes.append(self.onnx.helper.make_node(kind, given, names, name=self.fresh("node"), **kept))
        return names if outputs > 1 else names[0]

    def name(self, value: Any) -> str:
        """Return the name of an fx node's value; names unchanged, "" for None."""
        if value is None:
            return ""
        if isinstance(value, Node):
            found: str = self.names[value]
            return found
        assert isinstance(value, str), value
        return value

    def constant(self, value: Any, dtype: Any = gl.int64, name: str | None = None) -> str:
        """Add an initializer: numbers in a dtype, or a tensor's values."""
        array = value.detach().numpy() if isinstance(value, Tensor) else np.asarray(value, dtype=dtype.numpy)
        name = name or self.fresh("constant")
        self.initializers.append(
            self.onnx.numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
        )
        return name

    # --- what nodes are ---

    @staticmethod
    def dtype(value: Any) -> Any:
        """Return the dtype of an fx node's value."""
        found = value.meta["val"]
        return (found[0] if isinstance(found, (tuple, list)) else found).dtype

    @staticmethod
    def shape(value: Node) -> tuple[int, ...]:
        """Return the sizes of an fx node's value in the trace."""
        return tuple(value.meta["val"].shape)

    def fixed(self, value: Node, dims: Iterable[int] | None = None) -> tuple[int, ...]:
        """Return the sizes of an fx node's value, of which those in `dims` (all for None) go into the model.

        Raises:
            Unsupported: if one of these depends on a dynamic dimension.
        """
        shape = self.shape(value)
        other = self.shape(self.pairs[value]) if value in self.pairs else shape
        for dim in range(len(shape)) if dims is None else dims:
            if shape[dim] != other[dim]:
                raise Unsupported(f"a dynamic size in dimension {dim} of {value}")
        return shape

    def dim(self, value: Node, dim: int) -> int:
        """Return a dimension as one that is not negative."""
        return dim % max(len(self.shape(value)), 1)

    # --- values ---

    def cast(self, value: Any, dtype: Any, source: Any = None) -> str:
        """Return a value in a dtype: numbers become constants, nodes and names (of dtype `source`) are cast."""
        if isinstance(value, (Node, str)):
            if (self.dtype(value) if isinstance(value, Node) else source) == dtype:
                return self.name(value)
            return str(self.op("Cast", value, to=getattr(self.onnx.TensorProto, TYPES[dtype])))
        return self.constant(value, dtype)

    def operands(self, dtype: Any, *values: Any) -> list[str]:
        """Return values in one dtype."""
        return [self.cast(value, dtype) for value in values]

    def common(self, *values: Any) -> Any:
        """Return the dtype that PyTorch computes with for operands."""
        found = [value.meta["val"] if isinstance(value, Node) else value for value in values]
        dtype = gl.result_type(found[0], found[1])
        for value in found[2:]:
            dtype = gl.promote_types(dtype, value.dtype if isinstance(value, Tensor) else dtype)
        return dtype

    def sizes(self, values: Sequence[Any]) -> str:
        """Return a list of sizes as a value; those that depend on dynamic dimensions are computed.

        Raises:
            Unsupported: for one that is not a multiple of a dynamic dimension.
        """
        if not any(isinstance(value, Size) for value in values):
            return self.constant([int(value) for value in values])
        return str(self.op("Concat", *[self._size(value) for value in values], axis=0))

    def _size(self, value: Any) -> str:
        if not isinstance(value, Size):
            return self.constant([int(value)])
        if value.source is None:
            raise Unsupported(f"the size {int(value)} depends on dynamic dimensions, but is not a multiple of one")
        name, dim = value.source
        size = self.op("Shape", name, start=dim, end=dim + 1)
        return str(size if value.factor == 1 else self.op("Mul", size, self.constant([value.factor])))

    def reshape(self, value: Any, sizes: Sequence[Any]) -> str:
        """Return a value with other sizes, of which one may be -1 or depend on dynamic dimensions in any way."""
        dynamic = [index for index, size in enumerate(sizes) if isinstance(size, Size)]
        unknown = [index for index in dynamic if sizes[index].source is None]
        if dynamic and -1 not in [int(size) for size in sizes]:
            replaced = (unknown or dynamic)[0]
            sizes = [-1 if index == replaced else size for index, size in enumerate(sizes)]
        # allowzero: a size of 0 is one, and does not stand for the input's.
        return str(self.op("Reshape", value, self.sizes(sizes), allowzero=1 if 0 in [int(s) for s in sizes] else None))

    def reduce(self, kind: str, value: Any, dims: Sequence[int] | None, keepdim: bool) -> str:
        """Return a reduction over dimensions; over all for None."""
        axes = None if not dims else self.constant(list(dims))
        return str(self.op(kind, value, axes, keepdims=int(keepdim)))
