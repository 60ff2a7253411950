"""DeviceMesh, under its name in torch.distributed.tensor."""

from ..device_mesh import DeviceMesh as DeviceMesh, init_device_mesh as init_device_mesh

__all__ = ["DeviceMesh", "init_device_mesh"]
