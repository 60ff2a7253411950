"""The classes of operators as objects, where code written for PyTorch looks for them."""

from __future__ import annotations

from . import ops
from .ops._namespace import Namespace as _OpNamespace
from .ops._overload import OpOverload, OpOverloadPacket

__all__ = ["OpOverload", "OpOverloadPacket", "_OpNamespace", "ops"]
