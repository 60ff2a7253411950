"""The llvm backend: loop programs become machine code for this processor.

    kernel = compile(program)      # a LoopProgram; see gradloom.compiler._loops
    kernel([x, y, out], [0.1])     # inputs, outputs, numbers

`plan` lays out the loops, `access`, `emit` and `lower` write LLVM's text, `exponentials` and `trigonometry` are
functions, `schedule` shares work among threads, `host` makes object code, `code`, `image` and `cache` keep it,
`kernel` calls it, and `pool` has its threads. `pooling` writes code that is no loop program, and `tasks` calls it. Each
is imported when it is first needed.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .host import Unsupported, available

__all__ = ["Kernel", "Unsupported", "available", "compile", "emitted", "forget"]
_PLACES = {"Kernel": "kernel", "forget": "kernel", "compile": "schedule", "emitted": "schedule"}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
    return found
