"""Composites that convert: history, memory format, dtype."""

from __future__ import annotations

from ..core.edge import NO_EDGE
from ..core.variants import mark_detached_inference
from ..dispatch import _operators as ops
from ..dispatch.state import INFERENCE, state
from ..kernels._layout import is_in_format, suggested_format
from ..types.device import check_device, contiguous_format, preserve_format


def detach(self):
    """The same memory and version counter, without history and tangent."""
    out = self._detached_alias()
    if self._inference:
        mark_detached_inference(out)
    return out


def detach_(self):
    """Make a tensor a leaf that requires no grad.

    Raises:
        RuntimeError: for a view.
    """
    if state.flags & INFERENCE:
        return self  # autograd takes no part
    if self._is_view():
        raise RuntimeError("Can't detach views in-place. Use detach() instead.")
    if self._edge is not None and self._edge is not NO_EDGE:
        self._detachments += 1
        if self._vc is None:
            self._vc = [0]  # nodes that saved the tensor with its history will look at it
    self._edge = NO_EDGE
    self._accumulator = None
    self._tangent = None
    return self


def contiguous(self, memory_format):
    """The tensor itself if its elements lie in the order of the format, else a copy in which they do."""
    memory_format = memory_format or contiguous_format
    if is_in_format(self._array, memory_format):
        return self
    if memory_format is preserve_format:
        raise RuntimeError("preserve memory format is unsupported by the contiguous operator")
    return ops.clone(self, memory_format=memory_format)


def _converted(self, dtype, copy, memory_format):
    if (
        not copy
        and (dtype is None or dtype is self.dtype)
        and (
            memory_format is None
            or memory_format is preserve_format
            or memory_format is (suggested_format(self._array) or contiguous_format)
        )
    ):
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
