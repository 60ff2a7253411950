"""The backends by name, and those that programs bring along."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import Any

from ._entry import Backend

NAMES = ("inductor", "llvm", "numpy", "aot_eager", "eager")
MODES = (None, "default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")


class InvalidBackend(RuntimeError):
    """There is no backend of that name."""


@lru_cache(16)
def _named(asked: str) -> Backend:
    name = asked
    if name == "inductor":
        name = "llvm" if has_llvm() else "numpy"
    if name == "llvm":
        import_module("gradloom.compiler._llvm").divide_products()
        return Backend(name, _machine_code, True, asked)
    if name == "numpy":
        return Backend(name, _numpy_loops, False, asked)
    return Backend(name, None, False, asked)


def _machine_code(program: Any) -> Any:
    """Compile a loop program to machine code, or to NumPy what the backend does not take."""
    llvm = import_module("gradloom.compiler._llvm")
    try:
        return llvm.compile(program)
    except llvm.Unsupported:
        return _numpy_loops(program)


def _numpy_loops(program: Any) -> Any:
    """Compile a loop program to calls of NumPy."""
    return import_module("gradloom.compiler._numpy_rows").compile_loops(program)


def has_llvm() -> bool:
    """Return whether machine code can be made: llvmlite is installed, and new enough."""
    return import_module("gradloom.compiler._llvm").available()  # type: ignore[no-any-return]


def available() -> list[str]:
    """Return the names of the backends that can be used."""
    return [name for name in NAMES if name != "llvm" or has_llvm()]


def find(backend: Any, options: Any = None, mode: Any = None) -> Backend:
    """Return a backend by name or function.

    Raises:
        RuntimeError: for an unknown name or mode, with the known ones.
    """
    if mode not in MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(m for m in MODES if m)}")
    if callable(backend):
        return import_module("gradloom.compiler._fx_backend").of_function(backend)  # type: ignore[no-any-return]
    if backend not in NAMES:
        raise InvalidBackend(
            f"Invalid backend: {backend!r}, see `torch._dynamo.list_backends()` for available backends."
        )
    if backend == "llvm" and not has_llvm():
        raise RuntimeError("the backend `llvm` needs llvmlite 0.45 or newer: pip install 'gradloom[compile]'")
    return _named(backend)
