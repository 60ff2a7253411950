"""Methods whose source is made, and compiled when they are first looked up."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterable
from typing import Any


class LateMethod:
    """Stands for a method of a class until that is first looked up, and then puts it in its place.

    Tracebacks, debuggers, `inspect.getsource` and gradloom.compile find the source in `linecache`.

    Attributes:
        parameters: names of the method's parameters.
    """

    def __init__(self, cls: type, name: str, parameters: Iterable[str]) -> None:
        self.cls, self.name, self.parameters = cls, name, parameters

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        cls, module = self.cls, sys.modules[self.cls.__module__]
        source = "\n".join([f"class {cls.__name__}:", *(f"    {line}" for line in self.lines())]) + "\n"
        file = f"{module.__file__}:{cls.__name__}.{self.name}"
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        scope: dict[str, Any] = {}
        exec(compile(source, file, "exec"), vars(module), scope)
        made = vars(scope[cls.__name__])[self.name]
        setattr(cls, self.name, made)
        return made.__get__(instance, owner)

    def lines(self) -> Iterable[str]:
        """Return the source of the method."""
        raise NotImplementedError
