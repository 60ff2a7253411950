"""Kernels: functions from NumPy arrays to NumPy arrays (SciPy is imported lazily). A family is a file or a folder."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from ..types.silence import silence


class _Family(ModuleType):
    """A package of kernels, without code of its own: silences the modules that the import system binds in it."""

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, ModuleType) and value.__package__ == f"{self.__package__}.{name}":
            value.__class__ = _Family  # keeps its name, which imports from it need
        elif isinstance(value, ModuleType) and value.__package__ == self.__package__:
            silence(vars(value))
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Family
