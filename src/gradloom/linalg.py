"""Linear algebra: the operators of torch.linalg, whose entries have `python_module: linalg`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .kernels._common.errors import LinAlgError as LinAlgError

if TYPE_CHECKING:
    from ._stubs.linalg import *  # noqa: F403
else:
    from .binding.operators import namespace as _namespace
    from .types.absent import getattr_of as _getattr_of

    globals().update(_namespace("linalg"))
    __getattr__ = _getattr_of(__name__)
