"""Linear algebra: the operators of PyTorch's torch.linalg.

An operator gets here by `python_module: linalg` in native_functions.yaml; its name begins with `linalg_`
there.
"""

from __future__ import annotations

from . import _operators
from .generated.namespaces import MODULES

globals().update(
    {name: getattr(_operators, operator) for name, operator in MODULES.get("linalg", {}).items()}
)
