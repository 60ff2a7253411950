"""Complex operators made of others."""

from __future__ import annotations


def conj(self):
    """The complex conjugate; a real tensor itself."""
    if self._array.dtype.kind != "c":
        return self
    from .. import _operators as ops
    return ops.conj_physical(self)
