"""The operators as functions without checks of `__torch_function__`, under PyTorch's name of them."""

from __future__ import annotations

from typing import Any

from ._C import _state


def __getattr__(name: str) -> Any:
    return getattr(_state._VF, name)
