"""Helpers of generated wrappers: writing results in place, and operators without derivatives."""

from __future__ import annotations

import numpy as np

from ..dispatch import _operators
from ..dispatch.state import INFERENCE, state
from ..kernels._common.errors import OF_BOOLS, refusal, size_mismatch
from ..kernels._common.layout import check_no_internal_overlap, check_no_partial_overlap
from ..types.dtype import TYPE_OF, can_cast, scalar_type_name
from .node import NO_EDGE
from .tangents import tangent_of


def check_no_tangents(name: str, tensors, why: str) -> None:
    """Raise NotImplementedError if one of the tensors has a tangent."""
    if any(tangent_of(t) is not None for t in tensors if t is not None):
        raise NotImplementedError(f"Trying to use forward AD with {name} that does not support it because {why}")


def refuse_tangents(name: str, inputs) -> None:
    """Refuse tangents at an operator without a forward-mode formula.

    Raises NotImplementedError if one of the tensors has a tangent.
    """
    check_no_tangents(
        name, inputs, "it has not been implemented yet: its entry in derivatives.yaml has no formula for its result."
    )


def uncastable(result: np.dtype, target: np.dtype) -> str | None:
    """Return the error for a result that cannot be cast to the dtype of the memory for it; None if it can."""
    if result is target or can_cast(from_ := TYPE_OF[result], to := TYPE_OF[target]):
        return None
    return f"result type {scalar_type_name(from_)} can't be cast to the desired output type {scalar_type_name(to)}"


def write_inplace(array: np.ndarray, result) -> None:
    """Write a computed result into the array of a tensor.

    Raises RuntimeError if the result's dtype or shape does not fit.
    """
    if result.__class__ is not np.ndarray:
        result = np.asarray(result)
    if array.shape != result.shape:
        raise RuntimeError(
            f"output with shape {list(array.shape)} doesn't match the broadcast shape {list(result.shape)}"
        )
    if array.dtype is not result.dtype and (wrong := uncastable(result.dtype, array.dtype)) is not None:
        raise RuntimeError(wrong)
    if 0 in array.strides:
        check_no_internal_overlap(array)
    array[...] = result


def refused_write(error: Exception, written, promoted, operator: str, /, *arguments, **integers) -> Exception:
    """Translate an error of an in-place operator's kernel.

    As in PyTorch, shapes that do not broadcast are reported first, then an operator without a meaning for a dtype (as
    clamp for complex numbers), then a result that cannot be cast, then what the kernel refuses.

    Args:
        written: the array to write to.
        promoted: the same array in the dtype of the result.
        error, operator, arguments, integers: as for `refusal`.
    """
    found = refusal(error, operator, *arguments, **integers)
    shapes = [a.shape for a in arguments if isinstance(a, np.ndarray)]
    mismatch = size_mismatch(shapes)
    if isinstance(found, NotImplementedError) and str(found) not in OF_BOOLS.values():
        if mismatch is None and (shape := np.broadcast_shapes(*shapes)) != written.shape:
            mismatch = f"output with shape {list(written.shape)} doesn't match the broadcast shape {list(shape)}"
        if mismatch is not None:
            return RuntimeError(mismatch)
    is_undefined = isinstance(error, NotImplementedError) and "not implemented for" not in str(error)
    if not is_undefined and mismatch is None and (wrong := uncastable(promoted.dtype, written.dtype)) is not None:
        return RuntimeError(wrong)
    return found


def require_gradient(tensor) -> None:
    """Make the result of a factory a leaf that requires grad.

    Raises RuntimeError if its dtype has no gradients.
    """
    if tensor._array.dtype.kind not in "fcV":
        raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
    tensor.requires_grad = True


def factory_dtype(dtype, out):
    """Return the dtype of what a factory writes to `out`.

    Args:
        dtype: the argument, or None.
        out: a tensor.

    Raises RuntimeError if `dtype` is given and differs from that of `out`.
    """
    if isinstance(out, _operators.Tensor):
        if dtype is not None and dtype is not out.dtype:
            raise RuntimeError(
                f"dtype {scalar_type_name(dtype)} does not match dtype of out parameter ({scalar_type_name(out.dtype)})"
            )
        return out.dtype
    return dtype


def no_gradients(array: np.ndarray) -> RuntimeError:
    """Return the error for integers that were asked for, by their dtype, of an input that requires grad."""
    return RuntimeError(f"Autograd not support dtype: {scalar_type_name(TYPE_OF[array.dtype])}")


def not_differentiable(name: str, argument: str) -> RuntimeError:
    """Return the error for an argument that requires grad although the operator has no derivative for it."""
    return RuntimeError(
        f"The function '{name}' is not differentiable with respect to argument '{argument}'. This "
        "input cannot have requires_grad True."
    )


def not_implemented_history(name: str, inputs, results) -> None:
    """Give results of an operator without a derivative a node that raises when a gradient arrives."""
    node = not_implemented_node(name, inputs)
    if node is None:
        return
    for nr, result in enumerate(results):
        array = result._array
        node.input_metadata = (*node.input_metadata, array.shape, array.dtype)
        if array.dtype.kind in "fcV":
            result._edge = (node, nr)


def not_implemented_write(name: str, inputs) -> None:
    """Give a tensor that an operator without a derivative wrote to a node that raises when a gradient arrives.

    Args:
        name: the in-place operator.
        inputs: its tensor arguments; it wrote to the first.
    """
    node = not_implemented_node(name, inputs) if inputs[0]._array.dtype.kind in "fcV" else None
    if node is not None:
        from .views import rebase_history

        rebase_history(inputs[0], node)


def not_implemented_node(name: str, inputs, namespace: str = "aten::"):
    """Return the node of an operator without a derivative; None if no input requires grad."""
    for t in inputs:
        if t is not None and t._edge is not NO_EDGE:
            break
    else:
        return None
    from .edge import gradient_edge
    from .node import NotImplementedNode, next_sequence_nr

    # a number in place of a tensor is not an input: PyTorch has another overload for it
    edges = [t._edge or gradient_edge(t) for t in inputs if t is not None and t._wrapped_number is None]
    if all(e is NO_EDGE for e in edges):
        return None
    node = NotImplementedNode(f"derivative for {namespace}{name.partition('.')[0]} is not implemented", edges)
    node.sequence_nr = next_sequence_nr()
    return node


def fits(array: np.ndarray, *operands) -> bool:
    """Return whether a ufunc of `array` and `operands` may write straight into `array`: all have the same floating or
    complex dtype, and the shapes broadcast to that of `array`."""
    kind = array.dtype
    if kind.kind not in "fc" or 0 in array.strides:
        return False
    shape, whole = array.shape, array.base is None
    for other in operands:
        if other.__class__ is not np.ndarray:
            if other.__class__ is complex and kind.kind != "c":
                return False
            continue
        if other.dtype is not kind:
            return False
        if whole and other.base is None and (other.shape == shape or not other.ndim):
            continue
        if other is not array and not (whole and other.base is None):
            check_no_partial_overlap(array, other)
        if (
            other.ndim
            and other.shape != shape
            and (
                other.ndim > len(shape)
                or any(n != 1 and n != m for n, m in zip(reversed(other.shape), reversed(shape), strict=False))
            )
        ):
            return False
    return True


def mark_inference(results) -> None:
    """Mark tensors as made in inference mode. They get a version counter, which is never read, so that saving them for
    backward takes the path that refuses."""
    for r in results:
        if r is not None:
            r._inference = True
            if r._vc is None:
                r._vc = [0]


def mark_detached_inference(result) -> None:
    """Mark a tensor made by `detach()` or `.data` of an inference tensor: outside of inference mode it is writable."""
    result._inference = True if state.flags & INFERENCE else 2
    result._vc = [0]
