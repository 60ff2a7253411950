"""What `gradloom.ops.<namespace>` and `gradloom.ops.<namespace>.<operator>` are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..overloads import overloaded_function


class Operator:
    """An operator of a namespace: call it, or take one of its overloads as an attribute.

    Args:
        function: what picks the overload.
        overloads: name -> (signature, wrapper), as the argument parser takes them.

    Attributes:
        name: `myops::softabs`.
    """

    def __init__(self, namespace: str, name: str, function: Callable[..., Any],
                 overloads: Mapping[str, tuple[str, Callable[..., Any]]]) -> None:
        self.name = f"{namespace}::{name}"
        self._function, self._overloads = function, dict(overloads)
        self.__name__, self.__qualname__ = name, self.name
        self.__module__ = f"gradloom.ops.{namespace}"
        self.__doc__ = function.__doc__
        self.__wrapped__ = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def overloads(self) -> list[str]:
        """The names of its overloads; the one without a name is `default`."""
        return list(self._overloads)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        found = self.__dict__.get("_overloads", {}).get(name)
        if found is None:
            raise AttributeError(f"the operator '{self.__dict__.get('name')}' has no overload '{name}'; it has "
                                 f"{', '.join(self.__dict__.get('_overloads', ()))}")
        overload: Callable[..., Any] = overloaded_function(self.__name__, (found,))
        self.__dict__[name] = overload
        return overload

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._overloads]

    def __repr__(self) -> str:
        return f"<operator {self.name}, overloads: {', '.join(self._overloads)}>"


class Namespace:
    """The operators of a package, or of `gradloom.ops.define`, as attributes."""

    def __init__(self, name: str) -> None:
        self.__dict__["_name"] = name
        self.__dict__["_operators"] = {}

    def __getattr__(self, name: str) -> Operator:
        try:
            found: Operator = self.__dict__["_operators"][name]
        except KeyError:
            known = ", ".join(sorted(self.__dict__["_operators"])) or "none"
            where = f"gradloom.ops.{self.__dict__['_name']}"
            raise AttributeError(f"{where} has no operator '{name}'; it has {known}") from None
        return found

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"gradloom.ops.{self.__dict__['_name']}: operators are defined in YAML, not assigned")

    def __iter__(self) -> Iterator[str]:
        return iter(self.__dict__["_operators"])

    def __len__(self) -> int:
        return len(self.__dict__["_operators"])

    def __dir__(self) -> list[str]:
        return list(self.__dict__["_operators"])

    def __repr__(self) -> str:
        return f"<namespace gradloom.ops.{self.__dict__['_name']}: {', '.join(self.__dict__['_operators'])}>"
