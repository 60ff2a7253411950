"""The backends by name, and those that programs bring along."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from ._entry import Arguments, Entry, Opaque
from ._recorder import Recorder

NAMES = ("inductor", "llvm", "numpy", "aot_eager", "eager")
MODES = (None, "default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")


class InvalidBackend(RuntimeError):
    """There is no backend of that name."""


class Backend:
    """Makes entries.

    Attributes:
        name: as in `list_backends`.
        loops: compiles a loop program; None to call every operator by itself.
        costly_too: whether the backward pass computes expensive functions again rather than read their results.
    """

    def __init__(self, name: str, loops: Callable[[Any], Any] | None, costly_too: bool) -> None:
        self.name, self.loops, self.costly_too = name, loops, costly_too

    def entry(self, recorder: Recorder, arguments: Arguments, result: Any, key: Any) -> Entry:
        """Compile a recording."""
        if self.name == "eager":
            raise Opaque("the backend `eager` runs Python")
        return Entry(recorder, arguments, result, self.loops, self.costly_too, key)


@lru_cache(16)
def _named(name: str) -> Backend:
    if name == "inductor":
        name = "llvm" if has_llvm() else "numpy"
    if name == "llvm":
        return Backend(name, import_module("gradloom.compiler._llvm").compile, True)
    if name == "numpy":
        return Backend(name, import_module("gradloom.compiler._numpy_backend").compile_loops, False)
    return Backend(name, None, False)


def has_llvm() -> bool:
    """Return whether machine code can be made: llvmlite and gradloom's backend on it are there."""
    return find_spec("llvmlite") is not None and find_spec("gradloom.compiler._llvm") is not None


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
        raise RuntimeError("the backend `llvm` needs llvmlite: pip install 'gradloom[compile]'")
    return _named(backend)
