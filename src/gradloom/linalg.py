"""Linear algebra: the operators of torch.linalg, whose entries have `python_module: linalg`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._stubs.linalg import *  # noqa: F403
else:
    from .binding.operators import namespace as _namespace

    globals().update(_namespace("linalg"))
