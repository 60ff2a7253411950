"""Where modules and objects come from: the process, a package, or several of these in order."""

from __future__ import annotations

import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

__all__ = ["Importer", "ObjMismatchError", "ObjNotFoundError", "OrderedImporter", "is_from_package", "sys_importer"]

_MANGLED = re.compile(r"(<torch_package_\d+>)\.?(.*)", re.DOTALL)


def demangled(name: str) -> str:
    """Return a module's name within its package: "a.b" of "<torch_package_0>.a.b"."""
    found = _MANGLED.fullmatch(name)
    return found[2] if found else name


def package_of(name: str) -> str | None:
    """Return the id of the package that a module of this name is from; None for one of the process."""
    found = _MANGLED.fullmatch(name)
    return found[1] if found else None


def is_from_package(obj: Any) -> bool:
    """Return whether a module, or the class of another object, was loaded from a package."""
    name = obj.__name__ if isinstance(obj, ModuleType) else type(obj).__module__
    return package_of(name) is not None


class ObjNotFoundError(Exception):
    """An importer has no object of the name that an object gives for itself."""


class ObjMismatchError(Exception):
    """An importer has another object of the name that an object gives for itself."""


class Importer(ABC):
    """Finds modules by name, and names of objects."""

    @abstractmethod
    def import_module(self, module_name: str) -> ModuleType:
        """Return the module of this name."""

    def get_name(self, obj: Any, name: str | None = None) -> tuple[str, str]:
        """Return the names of the module and, in it, of an object, by which this importer finds the object itself.

        Args:
            obj: a class, function or other global.
            name: its name within its module, if its `__qualname__` is not that.

        Raises:
            ObjNotFoundError: if this importer has no object of that name.
            ObjMismatchError: if it has another one.
        """
        if name is None:
            reduced = None if isinstance(obj, type) else getattr(obj, "__reduce__", lambda: None)
            own = getattr(obj, "__qualname__", None)
            if own is None and reduced is not None and isinstance(answer := reduced(), str):
                own = answer
            name = own or obj.__name__
        full = self.whichmodule(obj, name)
        module_name = demangled(full)
        try:
            found: Any = self.import_module(module_name)
            origin = found.__name__
            for part in name.split("."):
                found = getattr(found, part)
        except (ImportError, KeyError, AttributeError):
            raise ObjNotFoundError(f"{obj} was not found as {module_name}.{name}") from None
        if found is not obj:
            theirs, ours = package_of(full), package_of(origin)
            raise ObjMismatchError(
                f"{obj} is '{full}' and comes from {_place(theirs)}; the object of that name here is of '{origin}' and "
                f"comes from {_place(ours)}. Give PackageExporter an importer that lists {_listed(theirs)} before "
                f"{_listed(ours)}."
            )
        return module_name, name

    def whichmodule(self, obj: Any, name: str) -> str:
        """Return the name of the module that an object is from."""
        module = getattr(obj, "__module__", None)
        if module is not None:
            return str(module)
        for module_name, candidate in list(sys.modules.items()):
            if module_name != "__main__" and candidate is not None and vars(candidate).get(name) is obj:
                return module_name
        return "__main__"

    def _has(self, module_name: str) -> bool:
        try:
            self.import_module(module_name)
        except ImportError:
            return False
        return True


def _place(package: str | None) -> str:
    return package or "the current Python environment"


def _listed(package: str | None) -> str:
    return f"the importer for {package}" if package else "'sys_importer'"


class _SysImporter(Importer):
    """Finds the modules of the process."""

    def import_module(self, module_name: str) -> ModuleType:
        return import_module(module_name)

    def _has(self, module_name: str) -> bool:
        if module_name in sys.modules:
            return sys.modules[module_name] is not None
        try:
            return find_spec(module_name) is not None
        except (ImportError, ValueError, AttributeError):
            return False


sys_importer = _SysImporter()


class OrderedImporter(Importer):
    """Asks several importers, one after another.

    Args:
        args: the importers; the first that has a module or an object answers.
    """

    def __init__(self, *args: Importer) -> None:
        self._importers = list(args)

    def import_module(self, module_name: str) -> ModuleType:
        problem = None
        for importer in self._importers:
            try:
                return importer.import_module(module_name)
            except ModuleNotFoundError as error:
                problem = error
        raise problem or ModuleNotFoundError(module_name)

    def get_name(self, obj: Any, name: str | None = None) -> tuple[str, str]:
        problems = []
        for importer in self._importers:
            try:
                return importer.get_name(obj, name)
            except (ObjNotFoundError, ObjMismatchError) as error:
                problems.append(str(error))
        raise ObjNotFoundError(
            f"Could not find obj {obj} and name {name} in any of the importers {self._importers}"
            + "".join(f"\n{problem}" for problem in problems)
        )

    def whichmodule(self, obj: Any, name: str) -> str:
        names = (importer.whichmodule(obj, name) for importer in self._importers)
        return next((found for found in names if found != "__main__"), "__main__")

    def _has(self, module_name: str) -> bool:
        return any(importer._has(module_name) for importer in self._importers)

    @classmethod
    def _of(cls, importer: Importer | Iterable[Importer]) -> Importer:
        return importer if isinstance(importer, Importer) else cls(*importer)
