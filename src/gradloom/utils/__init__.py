"""Utilities beside the core, such as `gradloom.utils.data` and `gradloom.utils.viz`; each is imported on first use."""

from __future__ import annotations

import typing as _typing

if _typing.TYPE_CHECKING:
    from . import checkpoint as checkpoint, hooks as hooks, viz as viz
    from ._swap import set_module as set_module, swap_tensors as swap_tensors
else:

    def __getattr__(name):
        if name in ("set_module", "swap_tensors"):
            from . import _swap

            return getattr(_swap, name)
        if not name.startswith("__"):
            from importlib import import_module

            try:
                return import_module(f"{__name__}.{name}")
            except ModuleNotFoundError as error:
                if error.name != f"{__name__}.{name}":
                    raise
        from ..types.absent import absent

        raise absent(__name__, name)


def __dir__() -> list[str]:
    from pkgutil import iter_modules

    return sorted({*globals(), *(module.name for module in iter_modules(__path__))})
