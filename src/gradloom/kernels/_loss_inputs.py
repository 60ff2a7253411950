"""What losses have in common: the type that they are computed in, and their reduction.

Note [Losses in half precision]
PyTorch computes some losses of float16 or bfloat16 in float32 and rounds once, others step by step, each step rounded.
So do these kernels; `loss_inputs` is told which of the two types to widen. A mean or a sum is taken of losses that are
rounded, in float32.
"""

from __future__ import annotations

import numpy as np

from ..types.dtype import TYPE_OF, promote_types
from ._precision import is_half, widen
from ._refuse import not_implemented

NONE, MEAN, SUM = range(3)


def loss_inputs(self, target, name, widens="eE") -> tuple:
    """The common dtype of a loss's inputs, and the inputs in the type to compute in.

    Args:
        widens: which half types are computed in float32: 'e' for float16, 'E' for bfloat16. The others are
            rounded in each step.

    Raises:
        NotImplementedError: if that dtype is not a real floating one.
        RuntimeError: if shapes do not broadcast.
    """
    common_shape(self, target)
    if self.dtype is target.dtype:
        dtype = self.dtype
    else:
        dtype = promote_types(TYPE_OF[self.dtype], TYPE_OF[target.dtype]).numpy
        self, target = self.astype(dtype, copy=False), target.astype(dtype, copy=False)
    if dtype.kind not in "fV":
        raise not_implemented(name, np.empty(0, dtype))
    if dtype.itemsize == 2 and dtype.char in widens:
        return dtype, widen(self), widen(target)
    return dtype, self, target


def common_shape(self: np.ndarray, target: np.ndarray) -> tuple:
    """The shape that two arrays broadcast to. Raises RuntimeError if they do not."""
    if self.shape == target.shape:
        return self.shape
    out = []
    ndim = max(self.ndim, target.ndim)
    for d in range(ndim):
        n, m = (a.shape[d - ndim + a.ndim] if d >= ndim - a.ndim else 1 for a in (self, target))
        if n != m and n != 1 and m != 1:
            raise RuntimeError(
                f"The size of tensor a ({n}) must match the size of tensor b ({m}) at non-singleton dimension {d}"
            )
        out.append(m if n == 1 else n)
    return tuple(out)


def narrow(found, dtype: np.dtype) -> np.ndarray:
    """What was computed, as an array of a dtype."""
    if found.__class__ is not np.ndarray:
        found = np.asarray(found)
    return found if found.dtype is dtype else found.astype(dtype)


def mean_of(total, count: int):
    """A mean, from the sum: NaN for no elements."""
    with np.errstate(all="ignore"):
        return total / total.dtype.type(count)


def reduce(losses: np.ndarray, reduction: int, dtype: np.dtype) -> np.ndarray:
    """Losses of all elements, their mean or their sum, in a dtype."""
    if reduction == NONE:
        return narrow(losses, dtype)
    if is_half(dtype):
        losses = widen(narrow(losses, dtype))
    total = losses.sum()
    return narrow(total if reduction == SUM else mean_of(total, losses.size), dtype)
