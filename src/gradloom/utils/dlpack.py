"""Exchange of memory with other libraries by DLPack."""

from ..tensors.interchange import DLDeviceType, from_dlpack, to_dlpack

__all__ = ["DLDeviceType", "from_dlpack", "to_dlpack"]
