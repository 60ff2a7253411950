"""Checks of a gradient at an edge: sum it to the input's shape, convert it to its dtype, or refuse it."""

from __future__ import annotations

from .. import types
from ..dispatch import _operators
from ..dispatch.state import GRAD_OFF, state
from ..types.dtype import COMPLEX, TYPE_OF, c_name, dtype, scalar_type_name


def validate_gradient(grad, shape, numpy_type, node, index):
    """Convert `grad` to the shape and dtype of the output whose gradient it is.

    A formula may return the gradient in the broadcast shape and the promoted dtype (complex, for a real input). This
    function sums, takes the real part and converts, by differentiable operators.

    Args:
        grad: Tensor returned by `node` for its input `index`.
        shape: the expected shape.
        numpy_type: the expected NumPy dtype; None for any (`grad_dtype`).

    Returns:
        A Tensor of that shape and dtype.

    Raises:
        RuntimeError: if the shapes are not related by broadcasting.
        TypeError: if it is not a Tensor.
    """
    if not isinstance(grad, _operators.Tensor):
        raise TypeError(
            f"Function {node.name()} returned a {type(grad).__name__} as gradient {index}; expected a Tensor or None"
        )
    found = grad._array.shape
    if found != shape:
        if not expandable(shape, found):
            raise RuntimeError(
                f"Function {node.name()} returned an invalid gradient at index {index} - got "
                f"{list(found)} but expected shape compatible with {list(shape)}"
            )
        grad = sum_to(grad, shape)
    if grad._array.dtype is not numpy_type and numpy_type is not None and grad._array.dtype != numpy_type:
        wanted = TYPE_OF[numpy_type]
        if grad.dtype.category == COMPLEX and wanted.category != COMPLEX:
            grad = _operators.real(grad)  # gradient of a real input combined with complex numbers
        grad = grad.to(wanted)
    return grad


def expandable(shape, to) -> bool:
    """Return whether a tensor of `shape` broadcasts to the shape `to`."""
    if len(shape) > len(to):
        return False
    return all(a == b or a == 1 for a, b in zip(reversed(shape), reversed(to), strict=False))


def sum_to(tensor, shape):
    """Sum out the dimensions along which a tensor of `shape` was broadcast to `tensor`'s shape."""
    if not shape:
        return _operators.sum(tensor)
    found = tensor._array.shape
    leading = len(found) - len(shape)
    if leading and found[leading:] == shape and state.flags == GRAD_OFF and tensor.__class__ is types.Tensor:
        return _operators.sum_dim_IntList(tensor, tuple(range(leading)), False, None)  # no one can see the view below
    dims = tuple(range(leading)) + tuple(
        [i + leading for i, n in enumerate(shape) if n == 1 and found[i + leading] != 1]
    )
    out = _operators.sum_dim_IntList(tensor, dims, True, None) if dims else tensor
    return _operators.view(out, tuple(shape)) if leading else out


def grad_dtype_message(found, wanted) -> str:
    """Return the message for a gradient of another NumPy dtype than the tensor's grad_dtype."""
    return (
        f"attempting to assign a gradient with dtype '{c_name(found)}' to a tensor with grad_dtype "
        f"'{scalar_type_name(TYPE_OF[wanted])}'. The gradient must match the tensor's grad_dtype (defaults to the "
        "tensor's dtype). You can set the tensor's grad_dtype attribute with a specific dtype, or None to allow any "
        "dtype. Set grad_dtype with caution. Diverging the dtypes of a tensor and its gradient may break downstream "
        "systems that assume they match."
    )


def set_grad_dtype(tensor, value) -> None:
    """Set the dtype to which the gradients of a leaf are converted; None for no conversion. See Tensor.grad_dtype."""
    if not tensor.is_leaf:
        raise RuntimeError("grad_dtype can only be set on leaf tensors.")
    if value is not None and not isinstance(value, dtype):
        raise RuntimeError(f"grad_dtype must be a torch.dtype or None, but got {type(value).__name__}")
    current = tensor._grad
    if value is not None and current is not None and current.dtype is not value:
        raise RuntimeError(
            f"Cannot set grad_dtype to '{value}' because there is already a gradient with dtype "
            f"'{current.dtype}'. Clear it first (.grad = None)"
        )
    wanted = None if value is None else value.numpy
    tensor._grad_dtype = (wanted,)
    accumulator = tensor._accumulator
    node = accumulator() if accumulator is not None else None
    if node is not None:
        node.input_metadata = (node.input_metadata[0], wanted)
