"""Shape operators made of others."""

from __future__ import annotations

from .. import _operators as ops
from ..autograd.edge import NO_EDGE
from ..device import check_device, contiguous_format, preserve_format
from ..dispatch import INFERENCE, state
from ..kernels._dims import infer_size, wrap_dim
from ..kernels._layout import is_in_format


# --- history and conversion ----------------------------------------------------------------------------------------

def detach(self):
    """The same memory and version counter, without history and tangent."""
    out = self._detached_alias()
    if state.flags & INFERENCE:
        out._inference = True
    return out


def detach_(self):
    """Make a tensor a leaf that requires no grad.

    Raises:
        RuntimeError: for a view.
    """
    if self._is_view():
        raise RuntimeError("Can't detach views in-place. Use detach() instead. If you are using "
                           "DistributedDataParallel (DDP) for training, and gradient_as_bucket_view is set as True, "
                           "gradients are views of DDP buckets, and hence detach_() cannot be called on these "
                           "gradients. To fix this error, please refer to the Optimizer.zero_grad() function in "
                           "torch/optim/optimizer.py as a reference.")
    self._edge = NO_EDGE
    self._accumulator = None
    self._tangent = None
    return self


def contiguous(self, memory_format):
    """The tensor itself if its elements lie in the order of the format, else a copy in which they do."""
    memory_format = memory_format or contiguous_format
    if memory_format is preserve_format:
        raise RuntimeError("preserve memory format is unsupported by the contiguous operator")
    return self if is_in_format(self._array, memory_format) else ops.clone(self, memory_format=memory_format)


def _converted(self, dtype, copy, memory_format):
    if not copy and (dtype is None or dtype is self.dtype) and (
            memory_format is None or memory_format is preserve_format or is_in_format(self._array, memory_format)):
        return self
    return ops._to_copy(self, dtype=dtype, memory_format=memory_format)


def to_dtype_layout(self, dtype, layout, device, pin_memory, non_blocking, copy, memory_format):
    """The tensor itself if it has that dtype already, else a copy that does."""
    return _converted(self, dtype, copy, memory_format)


def to_device(self, device, dtype, non_blocking, copy, memory_format):
    """As `to_dtype`; the device is the CPU."""
    check_device(device)
    return _converted(self, dtype, copy, memory_format)


def to_prim_device(self, device, dtype, non_blocking, copy):
    """As `to_dtype`; the device is the CPU."""
    check_device(device)
    return _converted(self, dtype, copy, None)


def to_dtype(self, dtype, non_blocking, copy, memory_format):
    """The tensor itself if it has that dtype already, else a copy that does."""
    return _converted(self, dtype, copy, memory_format)


def to_other(self, other, non_blocking, copy, memory_format):
    """To the dtype of another tensor."""
    return _converted(self, other.dtype, copy, memory_format)


def type_as(self, other):
    """To the dtype of another tensor."""
    return _converted(self, other.dtype, False, None)


# --- shapes -----------------------------------------------------------------------------------------------------------

def reshape(self, shape):
    """A view where the strides allow it, else a view of a copy."""
    array = self._array
    if array.flags.c_contiguous:
        return ops.view(self, shape)
    shape = infer_size(shape, array.size)
    try:
        array.reshape(shape, copy=False)
    except ValueError:
        return ops._unsafe_view(ops.clone(self, memory_format=contiguous_format), shape)
    return ops.view(self, shape)


def reshape_as(self, other):
    """In the shape of another tensor."""
    return ops.reshape(self, other._array.shape)


def view_as(self, other):
    """A view in the shape of another tensor."""
    return ops.view(self, other._array.shape)


def expand_as(self, other):
    """Expanded to the shape of another tensor."""
    return ops.expand(self, other._array.shape)


def flatten(self, start_dim, end_dim):
    """Dimensions start_dim to end_dim (included) as one."""
    array = self._array
    ndim = array.ndim
    start, end = wrap_dim(start_dim, ndim), wrap_dim(end_dim, ndim)
    if start > end:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if not ndim:
        return ops.reshape(self, (1,))
    if start == end:
        return self
    shape = array.shape
    size = 1
    for n in shape[start:end + 1]:
        size *= n
    return ops.reshape(self, (*shape[:start], size, *shape[end + 1:]))


def numpy_T(self):
    """All dimensions in reverse order."""
    ndim = self._array.ndim
    if ndim not in (0, 2):
        import warnings
        warnings.warn("The use of `x.T` on tensors of dimension other than 2 to reverse their shape is deprecated and "
                      "it will throw an error in a future release. Consider `x.mT` to transpose batches of matrices "
                      "or `x.permute(*torch.arange(x.ndim - 1, -1, -1))` to reverse the dimensions of a tensor.",
                      UserWarning, stacklevel=3)
    return ops.permute(self, tuple(range(ndim - 1, -1, -1)))


def matrix_H(self):
    """The conjugate transpose of a matrix."""
    ndim = self._array.ndim
    if ndim not in (0, 2):
        raise RuntimeError(f"tensor.H is only supported on matrices (2-D tensors). Got {ndim}-D tensor."
                           + (" For batches of matrices, consider using tensor.mH" if ndim > 2 else ""))
    return adjoint(self) if ndim else ops.conj(self)


def mT(self):
    """The last two dimensions swapped."""
    if self._array.ndim < 2:
        raise RuntimeError(f"tensor.mT is only supported on matrices or batches of matrices. Got {self._array.ndim}-D "
                           "tensor.")
    return ops.transpose(self, -2, -1)


def mH(self):
    """The last two dimensions swapped, and conjugated."""
    if self._array.ndim < 2:
        raise RuntimeError(f"tensor.mH is only supported on matrices or batches of matrices. Got {self._array.ndim}-D "
                           "tensor.")
    return adjoint(self)


def adjoint(self):
    """The last two dimensions swapped, and conjugated."""
    if self._array.ndim < 2:
        raise RuntimeError(f"tensor.adjoint() is only supported on matrices or batches of matrices. Got "
                           f"{self._array.ndim}-D tensor.")
    swapped = ops.transpose(self, -2, -1)
    return ops.conj(swapped) if self._array.dtype.kind == "c" else swapped


# --- parts -------------------------------------------------------------------------------------------------------------

def narrow(self, dim, start, length):
    """`length` indices of a dimension from `start` on."""
    array = self._array
    if not array.ndim:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    size = array.shape[wrap_dim(dim, array.ndim)]
    if not -size <= start <= size:
        raise IndexError(f"start out of range (expected to be in range of [-{size}, {size}], but got {start})")
    if start < 0:
        start += size
    if start > size - length:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({size}).")
    return ops.slice(self, dim, start, start + length, 1)


def narrow_tensor(self, dim, start, length):
    """As `narrow`, with `start` in a 0-dim integer tensor."""
    if start._array.ndim or start._array.dtype.kind not in "iu":
        raise RuntimeError("start must be an 0-dim integral Tensor.")
    return narrow(self, dim, int(start._array), length)


def split_sizes(self, split_size, dim):
    """Views of consecutive parts of one dimension, each as long as told."""
    return ops.split_with_sizes(self, split_size, dim)


def chunk(self, chunks, dim):
    """At most `chunks` views of consecutive parts of one dimension, all but the last of the same size."""
    array = self._array
    if not array.ndim:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    size = array.shape[wrap_dim(dim, array.ndim)]
    each = (size + chunks - 1) // chunks
    if not each and not size:
        return ops.split_with_sizes(self, (0,) * chunks, dim)
    return ops.split(self, each, dim)
