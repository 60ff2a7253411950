"""The arguments of backward and grad: convert tensors and gradient edges to edges, and give every root its gradient."""

from __future__ import annotations

from operator import index
from typing import NoReturn

import numpy as np

from ..dispatch import _operators
from ..dispatch.state import overrides_operators, state
from .edge import gradient_edge
from .gradient_checks import validate_gradient
from .node import Error, as_pair

UNUSED = (
    "The differentiated Tensor at index {} appears to not have been used in the graph. Set allow_unused=True if "
    "this is the desired behavior."
)


def as_tuple(value) -> tuple:
    """Return one Tensor, one GradientEdge, or the members of an iterable as a tuple.

    Raises TypeError for anything else.
    """
    if isinstance(value, _operators.Tensor) or is_edge(value):
        return (value,)
    return tuple(value)


def is_edge(value) -> bool:
    """Return whether a value is a GradientEdge."""
    return isinstance(value, tuple) and hasattr(value, "ownership_token")


def input_edges(inputs: tuple) -> list:
    """Return the edges of the inputs of `grad` or `backward`; the edge of a tensor that does not require grad has no
    node.

    Raises RuntimeError if an input is neither a Tensor nor a GradientEdge, or its node has no such output.
    """
    return [
        value._edge or gradient_edge(value)
        if isinstance(value, _operators.Tensor)
        else _checked_edge(value)
        if is_edge(value)
        else _refuse_input(value)
        for value in inputs
    ]


def edges_of_constants(inputs: tuple, edges: list) -> list:
    """Return the edges of inputs of `grad`, some of which have no node: views, made in no_grad, of a tensor that
    requires grad. They require grad but have no history, so no gradient reaches them.

    Raises RuntimeError if an input does not require grad.
    """
    found = []
    for value, edge in zip(inputs, edges, strict=True):
        if as_pair(edge)[0] is None:
            if not (isinstance(value, _operators.Tensor) and value.requires_grad):
                raise RuntimeError("One of the differentiated Tensors does not require grad")
            edge = Error("nothing leads here")
        found.append(edge)
    return found


def _refuse_input(value) -> NoReturn:
    raise RuntimeError(f"all inputs have to be Tensors or GradientEdges, but got {type(value).__name__}")


def _checked_edge(value) -> tuple:
    node, nr = value.node, value.output_nr
    if node is not None and not 0 <= nr < len(node.input_metadata) // 2:
        raise RuntimeError(
            f"a GradientEdge names output {nr} of {node.name()}, which has {len(node.input_metadata) // 2}"
        )
    return (node, nr)


def roots_and_gradients(tensors: tuple, gradients) -> tuple[list, list]:
    """Return the edges to start from, and a gradient for each.

    Args:
        tensors: Tensors and GradientEdges.
        gradients: None, a Tensor, or an iterable of Tensors and None (for outputs of one element).

    Raises:
        RuntimeError: if a gradient is missing or does not fit, or a tensor does not require grad.
        TypeError: if a gradient is not a Tensor.
        AssertionError: if an output is neither a Tensor nor a GradientEdge.
    """
    given = (None,) * len(tensors) if gradients is None else as_tuple(gradients)
    vectors = [
        _root_gradient(i, tensor, vector) for i, (tensor, vector) in enumerate(zip(tensors, given, strict=False))
    ]
    if len(vectors) != len(tensors):
        raise RuntimeError(f"got {len(tensors)} tensors and {len(given)} gradients")
    roots = []
    for i, tensor in enumerate(tensors):
        edge = tensor._edge or gradient_edge(tensor) if isinstance(tensor, _operators.Tensor) else _checked_edge(tensor)
        node, nr = as_pair(edge)
        if node is None:
            raise RuntimeError(f"element {i} of tensors does not require grad and does not have a grad_fn")
        declared = node.input_metadata[2 * nr + 1 :]  # differs after `set_output_grad_dtype`
        if declared and declared[0] is not None and declared[0] is not vectors[i]._array.dtype:
            vectors[i] = validate_gradient(vectors[i], vectors[i]._array.shape, declared[0], node, i)
        roots.append(edge)
    return roots, vectors


def check_flags(*flags) -> None:
    """Raise TypeError for a flag that is neither a bool nor an integer."""
    for flag in flags:
        if flag.__class__ is not bool:
            index(flag)


def output_layout(index: int, output):
    """Return (shape, NumPy dtype) of an output, a Tensor or a GradientEdge."""
    if isinstance(output, _operators.Tensor):
        array, grad_dtype = output._array, output._grad_dtype
        return array.shape, array.dtype if grad_dtype is None or grad_dtype[0] is None else grad_dtype[0]
    if not is_edge(output):
        raise AssertionError(
            "Expected output to be a torch.Tensor or a GradientEdge, but element "
            f"{index} is of type {type(output).__name__}"
        )
    node, nr = _checked_edge(output)
    return (None, None) if node is None else node.input_metadata[2 * nr : 2 * nr + 2]


def _root_gradient(index: int, output, vector):
    """Return the gradient of one root, in its dtype: as given, or 1 for a tensor of one element."""
    shape, numpy_type = output_layout(index, output)
    if vector is None:
        if isinstance(output, _operators.Tensor) and not output.requires_grad:
            return None  # the caller refuses it and names its index
        if shape is None or np.prod(shape) != 1:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        if numpy_type.kind == "c":
            from ..types.dtype import TYPE_OF

            raise RuntimeError(
                f"grad can be implicitly created only for real scalar outputs but got {TYPE_OF[numpy_type]!r}"
            )
        if isinstance(output, _operators.Tensor) and (
            output.is_meta or state.dispatch_modes or overrides_operators(output.__class__)
        ):
            return _operators.ones_like(output)
        return _operators.wrap(np.ones(shape, numpy_type))
    if not isinstance(vector, _operators.Tensor):
        raise TypeError(f"gradients can be either Tensors or None, but got {type(vector).__name__}")
    found = vector._array
    if found.shape != shape:
        raise RuntimeError(
            f"Mismatch in shape: grad_output[{index}] has a shape of {vector.shape} and output[{index}] "
            f"has a shape of {_size(shape)}."
        )
    check_kind(index, vector, numpy_type)
    if found.dtype is not numpy_type and found.dtype != numpy_type:
        from ..types.dtype import TYPE_OF

        vector = vector.to(TYPE_OF[numpy_type])
    return vector


def check_kind(index: int, vector, numpy_type) -> None:
    """Refuse a complex gradient of a real output and the reverse."""
    if (vector._array.dtype.kind == "c") != (numpy_type.kind == "c"):
        from ..types.dtype import TYPE_OF

        raise RuntimeError(
            "For complex Tensors, both grad_output and output are required to have the same dtype. "
            f"Mismatch in dtype: grad_output[{index}] has a dtype of {vector.dtype} and output[{index}] "
            f"has a dtype of {TYPE_OF[numpy_type]}."
        )


def _size(shape):
    from ..types.size import Size, new_size

    return new_size(Size, shape)


def input_gradients(found, inputs, allow_unused: bool, materialize_grads: bool, create_graph: bool) -> tuple:
    """Return what `autograd.grad` returns: a gradient for each input, zeros or None for one that was not reached.

    Raises RuntimeError for an input that was not reached, unless `allow_unused`.
    """
    if not allow_unused:
        for i, gradient in enumerate(found):
            if gradient is None:
                raise RuntimeError(UNUSED.format(i))
    return materialized(found, inputs, create_graph) if materialize_grads else tuple(found)


def materialized(found, inputs, create_graph: bool) -> tuple:
    """Return `found` with zeros in place of the gradients of inputs that were not reached."""
    if any(g is None and is_edge(t) for g, t in zip(found, inputs, strict=True)):
        raise RuntimeError("materialize_grads cannot be used when the given input is a GradientEdge")
    return tuple(
        [
            _operators.zeros_like(t).requires_grad_(create_graph) if g is None else g
            for g, t in zip(found, inputs, strict=True)
        ]
    )
