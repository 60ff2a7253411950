"""Composites that convert a tensor (history, memory format, dtype), or change the memory it views in place."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.edge import NO_EDGE
from ...core.node import bump_version
from ...core.tangents import tangent_of
from ...core.tensor import Tensor
from ...core.variants import mark_detached_inference, not_implemented_node
from ...core.views import check_inplace, rebase_history
from ...dispatch import _operators as ops
from ...dispatch.state import FORWARD_AD, GRAD_OFF, INFERENCE, state
from ...kernels._common.errors import negative_size
from ...kernels._common.layout import is_in_format, new_array, suggested_format
from ...memory.metadata import MetaArray
from ...memory.ownership import resized, strided_view
from ...types.device import contiguous_format, names_meta, preserve_format
from ...types.dtype import c_name, scalar_type_name


def detach(self):
    """Return a view with the same version counter, without history and tangent."""
    out = self._detached_alias()
    if self._inference:
        mark_detached_inference(out)
    return out


def detach_(self):
    """Make a tensor a leaf that does not require grad. Raises RuntimeError for a view."""
    if state.flags & INFERENCE:
        return self  # writes are not recorded
    if self._is_view():
        raise RuntimeError("Can't detach views in-place. Use detach() instead.")
    if self._edge is not None and self._edge is not NO_EDGE:
        self._detachments += 1
        if self._vc is None:
            self._vc = [0]  # checked by nodes that saved the tensor with its history
    self._edge = NO_EDGE
    self._accumulator = None
    self._tangent = None
    return self


def contiguous(self, memory_format):
    """Return the tensor itself if its elements lie in the order of the format, else a copy."""
    memory_format = memory_format or contiguous_format
    if is_in_format(self._array, memory_format):
        return self
    if memory_format is preserve_format:
        raise RuntimeError("preserve memory format is unsupported by the contiguous operator")
    return ops.clone(self, memory_format=memory_format)


def copy(self, src, non_blocking):
    """Return the elements of another tensor, broadcast to the shape and converted to the dtype of this one."""
    return ops.copy_(ops.clone(self), src, non_blocking)


def _converted(self, dtype, copy, memory_format, device=None):
    moves = device is not None and names_meta(device) != self.is_meta
    if (
        not copy
        and not moves
        and (dtype is None or dtype is self.dtype)
        and (
            memory_format is None
            or memory_format is preserve_format
            or memory_format is (suggested_format(self._array) or contiguous_format)
        )
    ):
        return self
    if not moves and self.__class__ is Tensor:
        return ops.exact._to_copy(self, dtype, None, None, None, False, memory_format)
    return ops._to_copy(self, dtype=dtype, device=device if moves else None, memory_format=memory_format)


def to_dtype_layout(self, dtype, layout, device, pin_memory, non_blocking, copy, memory_format):
    """Return the tensor itself if it has that dtype and device, else a converted copy."""
    return _converted(self, dtype, copy, memory_format, device)


def to_device(self, device, dtype, non_blocking, copy, memory_format):
    """Return the tensor itself if it has that dtype and device, else a converted copy."""
    return _converted(self, dtype, copy, memory_format, device)


def to_prim_device(self, device, dtype, non_blocking, copy):
    """Return the tensor itself if it has that dtype and device, else a converted copy."""
    return _converted(self, dtype, copy, None, device)


def to_dtype(self, dtype, non_blocking, copy, memory_format):
    """Return the tensor itself if it has that dtype, else a converted copy."""
    return _converted(self, dtype, copy, memory_format)


def to_other(self, other, non_blocking, copy, memory_format):
    """Convert to the dtype and device of another tensor."""
    return _converted(self, other.dtype, copy, memory_format, other.device)


def type_as(self, other):
    """Convert to the dtype and device of another tensor."""
    return _converted(self, other.dtype, False, None, other.device)


def resize_(self, size, memory_format):
    """Resize a tensor: in its own memory if that is large enough, else in new memory that begins with the same
    elements. Raises RuntimeError if the tensor requires grad, or has a tangent."""
    if self.requires_grad and not state.flags & INFERENCE:
        raise RuntimeError("cannot resize variables that require grad")
    if state.flags & FORWARD_AD and tangent_of(self) is not None:
        raise RuntimeError("cannot resize variables that has a forward grad")
    if min(size, default=0) < 0:
        raise negative_size(size)
    if memory_format is preserve_format:
        raise RuntimeError("Unsupported memory formatPreserve")
    array = self._array
    if array.shape == tuple(size) and memory_format is None:
        return self
    if self.is_meta:
        layout = ops.empty(size, dtype=self.dtype, device=self.device, memory_format=memory_format)._array
    else:
        layout = new_array(size, array.dtype, memory_format)
    self._array = resized(array, layout)
    bump_version(self)
    return self


def as_resized_(self, the_template, memory_format):
    """Give a tensor the size of another."""
    if memory_format is preserve_format:
        from ...types.device import channels_last

        is_last = (
            the_template._array.ndim == 4
            and not the_template._array.flags.c_contiguous
            and is_in_format(the_template._array, channels_last)
        )
        memory_format = channels_last if is_last else None
    return resize_(self, the_template._array.shape, memory_format)


def set_(self):
    """Make a tensor empty, without memory."""
    kind = self._array.dtype
    return _show(self, MetaArray((0,), kind) if self.is_meta else np.empty((0,), kind))


def set_tensor_(self, source):
    """Make a tensor a view of the memory of another, with the same geometry."""
    _check_source(self, source)
    return _show(self, source._array, source)


def set_tensor_offset_(self, source, storage_offset, size, stride):
    """Make a tensor a view of the memory of another with a given offset, size and strides (contiguous if empty)."""
    _check_source(self, source)
    return _show(self, _view_with_room(source._array, size, stride, storage_offset), source)


def set_storage_(self, source):
    """Make a tensor a one-dimensional view of a whole storage."""
    return set_storage_offset_(self, source, 0, (source.nbytes() // self._array.itemsize,), ())


def set_storage_offset_(self, source, storage_offset, size, stride):
    """Make a tensor a view of a storage with a given offset, size and strides (contiguous if empty), in elements."""
    kind = getattr(source, "dtype", self.dtype)
    if kind is not self.dtype:
        raise RuntimeError(
            f"Expected a Storage of type {c_name(self._array.dtype)} or an UntypedStorage, but got type "
            f"{scalar_type_name(kind)} for argument 1 'storage'"
        )
    _check_device(self, source)
    if self.is_meta:
        memory: Any = MetaArray((0,), self._array.dtype, None, source._memory)
    else:
        memory = source.untyped()._elements()[:0].view(self._array.dtype)
    return _show(self, _view_with_room(memory, size, stride, storage_offset))


def _view_with_room(array, size, stride, offset):
    """Return a view of the memory that `array` belongs to, which grows with all its tensors if it is too small."""
    from ...tensors.moving import with_room

    strides = _strides(size, stride)
    return strided_view(with_room(array, size, strides, offset), size, strides, offset)


def _strides(size, stride):
    if stride and len(stride) != len(size):
        raise RuntimeError(f"unequal size length ({len(size)}) and stride length ({len(stride)})")
    return stride or _contiguous(size)


def _contiguous(size) -> list[int]:
    strides: list[int] = []
    step = 1
    for n in reversed(size):
        strides.insert(0, step)
        step *= max(n, 1)
    return strides


def _check_device(self, source):
    """Raise RuntimeError unless a tensor and a storage or another tensor are on the same device."""
    if self.device is not source.device:
        raise RuntimeError(
            f'Attempted to set the storage of a tensor on device "{self.device}" to a storage on different device '
            f'"{source.device}".  This is no longer allowed; the devices must match.'
        )


def _check_source(self, source):
    """Raise RuntimeError unless two tensors have the same dtype and device."""
    _check_device(self, source)
    if self.dtype is not source.dtype:
        raise RuntimeError(
            f"Could not set tensor of type {c_name(source._array.dtype)} to a tensor of type "
            f"{c_name(self._array.dtype)}"
        )


def _show(tensor, array, *sources):
    """Make a tensor a view of other memory, with a node that raises, since the operator has no derivative."""
    recording = not state.flags & GRAD_OFF
    if recording and tensor._edge is None:
        check_inplace(tensor, sources)
    node = not_implemented_node("set_", (tensor, *sources), "") if recording else None
    if isinstance(array, MetaArray):
        tensor._array = array
    else:
        from ...memory.conjugation import with_bits

        memory = array if type(array) is np.ndarray else array.memory
        tensor._array = with_bits(memory, tensor.is_conj(), tensor.is_neg())  # the tensor's own bits, as in PyTorch
    bump_version(tensor)
    if node is not None:
        rebase_history(tensor, node)
    return tensor
