"""Expose the classes of operator objects and `ops` under PyTorch's private name `torch._ops`."""

from __future__ import annotations

from . import ops
from .ops._objects import Namespace as _OpNamespace, OpOverload, OpOverloadPacket

__all__ = ["OpOverload", "OpOverloadPacket", "_OpNamespace", "ops"]
