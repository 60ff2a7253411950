"""Special functions: the operators of PyTorch's torch.special.

An operator gets here by `python_module: special` in native_functions.yaml; its name begins with `special_`
there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._stubs.special import *  # noqa: F403
else:
    from .dispatch import _operators
    from .generated.namespaces import MODULES as _MODULES

    globals().update({name: getattr(_operators, operator) for name, operator in _MODULES.get("special", {}).items()})
