"""Libraries of operators in C++, which gradloom cannot load."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn


def load_library(path: Any) -> NoReturn:
    """Raise OSError, as PyTorch does for a library that it cannot load: operators in C++ need PyTorch's core."""
    refused_libraries.append(str(path))
    raise OSError(f"{path}: gradloom loads no operators in C++; gradloom.ops.define() and gradloom.library take Python")


def library_of(namespace: str) -> str | None:
    """Return the path of a refused library that belongs to the package of a namespace, or None."""
    return next((path for path in refused_libraries if namespace.lstrip("_") in Path(path).parts), None)


loaded_libraries: frozenset[str] = frozenset()
refused_libraries: list[str] = []  # whose operators packages may describe all the same: gradloom.library ignores that
