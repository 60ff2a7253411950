"""Exchange of memory with other libraries by DLPack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..rare_methods import from_dlpack

if TYPE_CHECKING:
    from ..tensor import Tensor

__all__ = ["from_dlpack", "to_dlpack"]


def to_dlpack(tensor: Tensor) -> Any:
    """A DLPack capsule of the tensor's memory, to be taken once.

    Args:
        tensor: one that does not require grad.
    """
    return tensor.__dlpack__()
