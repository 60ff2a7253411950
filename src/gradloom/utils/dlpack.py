"""Exchange of memory with other libraries by DLPack."""

from typing import TYPE_CHECKING

from ..tensors.interchange import DLDeviceType, from_dlpack, to_dlpack

if TYPE_CHECKING:
    from ._read_only import ReadOnlyTensorWrapper as ReadOnlyTensorWrapper
else:
    from ..types.absent import absent as _absent

    def __getattr__(name):
        if name == "ReadOnlyTensorWrapper":  # see its module
            from ._read_only import ReadOnlyTensorWrapper

            return ReadOnlyTensorWrapper
        raise _absent(__name__, name)


__all__ = ["DLDeviceType", "ReadOnlyTensorWrapper", "from_dlpack", "to_dlpack"]
