"""The classes of operators as objects, where code written for PyTorch looks for them."""

from __future__ import annotations

from . import ops
from .ops._objects import Namespace as _OpNamespace, OpOverload, OpOverloadPacket

__all__ = ["OpOverload", "OpOverloadPacket", "_OpNamespace", "ops"]
