"""Special functions: the operators of torch.special, whose entries have `python_module: special`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._stubs.special import *  # noqa: F403
else:
    from .binding.operators import namespace as _namespace

    globals().update(_namespace("special"))
