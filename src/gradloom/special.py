"""Special functions: the operators of torch.special, whose entries have `python_module: special`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._stubs.special import *  # noqa: F403
else:
    from .binding.operators import namespace as _namespace
    from .types.absent import getattr_of as _getattr_of

    globals().update(_namespace("special"))
    __getattr__ = _getattr_of(__name__)
