"""Run an update rule on a parameter's arrays, block by block, or on tensors that have no array.

An update rule is a function `rule(xp, parameter, gradient, *kept, scratch, *numbers)` that changes `parameter` and what
is kept for it in place. It is written in the names that NumPy and gradloom share (`xp.multiply`, `xp.sqrt`, ...), so
that one formula serves both:

- arrays: `xp` is NumPy and `scratch` an array of the parameter's shape, the `out=` of intermediate results;
- wrapper subclasses with `__torch_dispatch__`, which have no array: `xp` is gradloom and `scratch` is None, so that
  intermediate results are new tensors.

Hence a rule uses what `xp.multiply(..., out=scratch)` returns, not `scratch` itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import gradloom as gl
from gradloom import Tensor
from gradloom.dispatch.state import state as thread

# Elements per block: keeps a large parameter in the cache between the passes of a rule. Smaller and larger blocks were
# slower with SGD on 430,000 and 10,000,000 float32.
_BLOCK = 1 << 18


class _Scratch(threading.local):
    """One block of work space per dtype, at most 2 MB each; fresh pages would cost as much as a pass."""

    def __init__(self):
        self.by_dtype = {}

    def __call__(self, shape, size, dtype):
        block = self.by_dtype.get(dtype)
        if block is None:
            block = self.by_dtype[dtype] = np.empty(_BLOCK, dtype)
        return block[:size].reshape(shape) if size <= _BLOCK else np.empty(shape, dtype)


_scratch = _Scratch()


def in_blocks(rule: Callable[..., None], arrays: Sequence[Any], *numbers: Any) -> None:
    """Call `rule` on corresponding blocks of arrays.

    Args:
        rule: an update rule.
        arrays: what `operands` returns, arrays of one shape or None. The rule sees complex arrays as pairs of real
            numbers and 0-dim arrays with one dimension. Tensors are passed on whole.
        numbers: the rule's last arguments.
    """
    first = arrays[0]
    if type(first) is not np.ndarray and not isinstance(first, np.generic):
        if isinstance(first, gl.Tensor):
            with gl.no_grad():
                rule(gl, *arrays, None, *numbers)
            return
        values = np.array(first)  # a parameter with the conjugate or negative bit
        in_blocks(rule, (values, *arrays[1:]), *numbers)
        first[...] = values
        return
    if first.dtype.kind == "c":
        arrays = [None if array is None else _as_real(array) for array in arrays]
        first = arrays[0]
    elif not first.ndim:
        arrays = [None if array is None else array.reshape(1) for array in arrays]
        first = arrays[0]
    size = first.size
    if size <= _BLOCK or not all(array is None or array.flags.c_contiguous for array in arrays):
        rule(np, *arrays, _scratch(first.shape, size, first.dtype), *numbers)
        return
    flat = [None if array is None else array.reshape(-1) for array in arrays]
    for start in range(0, size, _BLOCK):
        blocks = [None if array is None else array[start : start + _BLOCK] for array in flat]
        length = blocks[0].size
        rule(np, *blocks, _scratch(length, length, first.dtype), *numbers)


def _as_real(array):
    """View a complex array as real numbers; the real and imaginary parts are the last dimension.

    Raises RuntimeError for another array, as that of a state whose parameter has become complex.
    """
    if array.dtype.kind != "c":
        raise RuntimeError("view_as_real is only supported for complex tensors")
    real = array.real
    return np.lib.stride_tricks.as_strided(real, (*real.shape, 2), (*real.strides, real.itemsize))


def operands(parameter: Tensor, what: str, *kept: Tensor | None) -> tuple[Any, ...]:
    """Return the arrays of a parameter, its gradient and its state; tensors if it has no array.

    Args:
        parameter: a parameter with a gradient.
        what: the optimizer's name.
        kept: state tensors of the parameter's shape, None for those absent.

    Raises:
        RuntimeError: for a sparse gradient.
    """
    if parameter.grad.is_sparse:
        raise sparse_refusal(what)
    return arrays_of(parameter, parameter.grad, *kept)


def arrays_of(parameter: Tensor, gradient: Tensor, *kept: Tensor | None) -> tuple[Any, ...]:
    """Return what `operands` does, for a gradient that need not be the parameter's own."""
    try:
        if thread.dispatch_modes:
            raise AttributeError("a mode sees the operators")
        values, array = parameter._operand, gradient._operand
    except AttributeError:  # Note [Torch dispatch]
        parts = getattr(parameter, "_parts_alike", None)
        if parts is not None and not thread.dispatch_modes and (found := parts(gradient, *kept)) is not None:
            return arrays_of(*found)
        real = gl.view_as_real if parameter.is_complex() else lambda tensor: tensor
        with gl.no_grad():
            given = parameter.detach(), gradient, *kept
            return tuple(None if tensor is None else real(tensor) for tensor in given)
    if type(array) is not np.ndarray or values.flags.c_contiguous and not array.flags.c_contiguous:
        array = np.ascontiguousarray(array)  # blocks of both must correspond
    return (values, array, *[None if tensor is None else tensor._array for tensor in kept])


def sparse_refusal(what: str) -> RuntimeError:
    """Return the error of the optimizer named `what`, which does not support sparse gradients."""
    hint = ", please consider SparseAdam instead" if what == "Adam" else ""
    return RuntimeError(f"{what} does not support sparse gradients{hint}")


def number(value) -> float:
    """Return an option as a Python number; it may be a one-element tensor."""
    return value.item() if hasattr(value, "item") else value


def is_tensor_of_many(value) -> bool:
    """Return whether `value` is a tensor of other than one element."""
    return hasattr(value, "numel") and value.numel() != 1


def number_of_state(value: Any, fused: bool | None = False) -> Tensor:
    """Return a number that an optimizer keeps, such as a step count, as the tensor it is kept as.

    Args:
        value: the number.
        fused: option of the optimizer. Others keep float64 if that is the default dtype; all else is float32.
    """
    is_wide = not fused and gl.get_default_dtype() is gl.float64
    return gl.tensor(float(value), dtype=gl.float64 if is_wide else gl.float32)


def advance(state: dict[str, Any]) -> float:
    """Increment a state's step count and return it."""
    array = state["step"]._array
    array += 1
    return array.item()
