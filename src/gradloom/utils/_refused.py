"""Names of PyTorch that programs import but do not use: classes without instances, functions that raise."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import FunctionType, MappingProxyType, ModuleType
from typing import Any, NoReturn

from ..types.absent import absent


def refused(name: str, reason: str, is_class: bool | None = None) -> Any:
    """Return a class or function that is refused on use.

    A program may import it, name it in annotations, derive from it, and ask whether something is an instance.

    Args:
        name: full, such as "torch.distributed.tensor.DTensor".
        reason: text of the RuntimeError that a call raises, after the name.
        is_class: whether it is a class; by default, whether the last part of the name begins with a capital.
    """
    module, _, last = name.rpartition(".")

    def refuse(*arguments: Any, **options: Any) -> NoReturn:
        raise RuntimeError(f"{name}: {reason}")

    refuse.__doc__ = f"Raise RuntimeError, whatever the arguments and options: {reason}"
    if not (last.lstrip("_")[:1].isupper() if is_class is None else is_class):
        refuse.__module__, refuse.__name__, refuse.__qualname__ = module, last, last
        refuse._is_refused = True  # type: ignore[attr-defined]
        return refuse
    namespace = {"__new__": refuse, "__module__": module, "__doc__": refuse.__doc__, "_is_refused": True}
    return type(last, (), {**namespace, "__class_getitem__": classmethod(lambda cls, item: cls)})


def is_refused(value: Any) -> bool:
    """Return whether a value is a class or function of `refused`, and not one that a program derived from it."""
    return isinstance(value, (type, FunctionType)) and "_is_refused" in vars(value)


class _Names(ModuleType):
    """A module whose names are made when a program asks for them."""

    def __init__(self, name: str, make: Callable[[str, str], Any]) -> None:
        super().__init__(name)
        self.__path__: list[str] = []
        self._make = make

    def __getattr__(self, name: str) -> Any:
        found = None if name.startswith("__") else self._make(self.__name__, name)
        if found is None:
            raise absent(self.__name__, name)
        setattr(self, name, found)
        return found


def is_refused_module(value: Any) -> bool:
    """Return whether a value is a module all of whose names are refused."""
    return isinstance(value, _Names)


def _has_file(package: str, module: str) -> bool:
    """Return whether there is a file of a module, named relative to a package."""
    inside = module.replace(".", os.sep)
    return any(
        os.path.exists(os.path.join(folder, name))
        for folder in sys.modules[package].__path__
        for name in (f"{inside}.py", os.path.join(inside, "__init__.py"))
    )


def declare(
    package: str, names: Mapping[str, str], reason: str, given: Mapping[str, str] = MappingProxyType({})
) -> Callable[[str], Any]:
    """Declare the names that a package and modules below it refuse on use, and return the package's `__getattr__`.

    Args:
        package: full name of the package, whose module calls this when it is imported.
        names: names by module, relative to the package ("" is the package itself): words separated by spaces, or "*"
            for all. A module that has a file is left out.
        reason: as for `refused`.
        given: names among them that gradloom has, and in which module, relative to the package: they are imported from
            there when a program asks for them.
    """
    made: dict[str, Any] = {}  # by name: PyTorch gives the same class away in several modules
    words = {module: frozenset(text.split()) for module, text in names.items()}
    homes = {name: module for module in sorted(words, reverse=True) for name in words[module] if module[:1] != "_"}

    def make(module: str, name: str) -> Any:
        known = words.get(module[len(package) + 1 :], frozenset())
        if name not in known and ("*" not in known or name.startswith("__")):
            return None
        if name in given:
            return getattr(import_module(given[name], package), name)
        if name not in made:
            home = f"{package}.{homes[name]}" if homes.get(name) else module
            made[name] = refused(f"{home.replace('gradloom', 'torch', 1)}.{name}", reason)
        return made[name]

    if len(names) > 1:
        sys.modules[package].__dict__.setdefault("__path__", [])  # what a module needs to have others below it
    for module in sorted(filter(None, names)):
        full = f"{package}.{module}"
        if full not in sys.modules and not _has_file(package, module):
            parent, _, last = full.rpartition(".")
            sys.modules[full] = _Names(full, make)
            if parent in sys.modules:  # else it has a file, and is not imported yet
                setattr(sys.modules[parent], last, sys.modules[full])

    def __getattr__(name: str) -> Any:
        found = make(package, name)
        if found is None:
            raise absent(package, name)
        return found

    return __getattr__
