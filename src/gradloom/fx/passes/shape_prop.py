"""ShapeProp: runs a graph and stores the shapes and dtypes of its values in the nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import gradloom as gl

from ...core.tensor import Tensor
from ..graph_module import GraphModule
from ..interpreter import Interpreter
from ..node import Node, map_aggregate

__all__ = ["ShapeProp", "TensorMetadata"]


class TensorMetadata(NamedTuple):
    """What a tensor is, without its values.

    Attributes:
        shape, dtype, requires_grad: the tensor's.
        stride: its strides; () for a sparse tensor.
        memory_format: the first of contiguous, channels last and channels last 3d that it has; None if none.
        is_quantized, qparams: False and {}: there are no quantized tensors.
    """

    shape: gl.Size
    dtype: gl.dtype
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: gl.memory_format | None
    is_quantized: bool
    qparams: dict[str, Any]


_FORMATS = ((gl.contiguous_format, None), (gl.channels_last, 4), (gl.channels_last_3d, 5))


def _extract_tensor_metadata(result: Tensor, include_contiguity: bool = True) -> TensorMetadata:
    """Return the metadata of a tensor."""
    sparse = result.layout is not gl.strided
    found = None
    if include_contiguity and not sparse:
        found = next(
            (
                memory_format
                for memory_format, dims in _FORMATS
                if dims in (None, result.dim()) and result.is_contiguous(memory_format=memory_format)
            ),
            None,
        )
    stride = () if sparse else result.stride()
    return TensorMetadata(result.shape, result.dtype, result.requires_grad, stride, found, False, {})


class ShapeProp(Interpreter):
    """Runs a graph and stores in each node `meta["tensor_meta"]`, a TensorMetadata for each tensor of its value, and
    `meta["type"]`, the class of the value.

    Args:
        gm: the module.
        fake_mode: a context manager within which nodes are run, such as `torch.device("meta")`; None for none.

    Example:
        >>> ShapeProp(module).propagate(torch.ones(2, 3))
        >>> [node.meta["tensor_meta"].shape for node in module.graph.nodes]
    """

    def __init__(self, gm: GraphModule, fake_mode: Any = None) -> None:
        super().__init__(gm)
        self.fake_mode = fake_mode

    def run_node(self, n: Node) -> Any:
        try:
            result = _within(self.fake_mode, lambda: super(ShapeProp, self).run_node(n))
        except Exception as error:
            raise RuntimeError(f"ShapeProp error for: node={n.format_node()} with meta={n.meta}") from error
        tensors: list[Tensor] = []

        def metadata(value: Any) -> Any:
            if not isinstance(value, Tensor):
                return value
            tensors.append(value)
            return _extract_tensor_metadata(value)

        found = map_aggregate(result, metadata)
        if tensors:
            n.meta["tensor_meta"] = found
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Run the graph for arguments, and return its output. Raises RuntimeError that names a node that fails."""
        return self.run(*args)


def _within(mode: Any, function: Callable[[], Any]) -> Any:
    if mode is None:
        return function()
    with mode:
        return function()
