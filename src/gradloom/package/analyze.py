"""What a callable needs, and where broken modules come from: help with the patterns of a PackageExporter."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

from ..types.silence import module_name
from .importer import is_from_package
from .package_exporter import PackagingError

__all__ = ["find_first_use_of_broken_modules", "is_from_package", "trace_dependencies"]

_ROOT = __name__.partition(".")[0]


def trace_dependencies(callable: Callable[..., Any], inputs: Iterable[tuple[Any, ...]]) -> list[str]:
    """Call a function and return the modules whose functions ran, sorted.

    Only the calling thread is observed. gradloom counts as one module, because a package never contains parts of it.

    Args:
        callable: a function, module or other callable.
        inputs: the positional arguments of each call.
    """
    tracer = _Tracer()
    before = sys.getprofile()
    for arguments in inputs:
        sys.setprofile(tracer)
        try:
            callable(*arguments)
        finally:
            sys.setprofile(before)
    return sorted(tracer.used)


class _Tracer:
    """A profile function that collects modules; what an import statement runs does not count."""

    def __init__(self) -> None:
        self.used: set[str] = set()
        self._import: FrameType | None = None

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if self._import is not None:
            if event == "return" and frame is self._import:
                self._import = None
        elif event == "call":
            name = module_name(frame.f_globals)
            if name in ("importlib", "importlib._bootstrap"):
                self._import = frame
            else:
                self.used.add(_root_of_ours(name) or name)
        elif event == "c_call" and argument is not sys.setprofile:
            name = getattr(argument, "__module__", None) or type(getattr(argument, "__self__", None)).__module__
            if name != "builtins" and not _root_of_ours(module_name(frame.f_globals)):
                self.used.add(name)


def _root_of_ours(name: str) -> str | None:
    """Return the name of the library, torch in `gradloom.as_torch`, if a module is one of its own."""
    root = sys.modules[_ROOT].__name__
    return root if name.partition(".")[0] in (_ROOT, root) else None


def find_first_use_of_broken_modules(exc: PackagingError) -> dict[str, list[str]]:
    """Return, for each module that cannot be packaged, the shortest chain of modules that leads to it.

    Raises:
        TypeError: for any other exception.
    """
    if not isinstance(exc, PackagingError):
        raise TypeError(f"exc must be a PackagingError, not {type(exc).__name__}")
    graph = exc.dependency_graph
    return {name: graph.path_to(name) for name, node in graph.nodes.items() if node.error is not None}
