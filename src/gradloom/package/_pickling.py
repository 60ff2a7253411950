"""What a package holds in place of globals, sources and mocked modules."""

from __future__ import annotations

import pickle
import tokenize
from types import FunctionType
from typing import Any

from ..serialization import _Name, _Pickler as _TensorPickler
from .importer import ObjMismatchError, ObjNotFoundError

# What stands for a module that was mocked: its names can be imported, and any use of them raises.
MOCK = '''\
class MockedObject:
    """Stands for an object whose module was left out of the package; any use of it raises NotImplementedError."""

    def __init__(self, name, _suppress_err=False):
        self.__dict__["_name"] = name
        if not _suppress_err:
            _refuse(self, "__init__")

    def __repr__(self):
        return f"MockedObject({self._name})"

    def __getattr__(self, attr):
        _refuse(self, "__getattr__")


def _refuse(mocked, use):
    raise NotImplementedError(
        f"Object '{mocked._name}' was mocked out during packaging but it is being used in {use}"
    )


def _refusing(use):
    return lambda self, *args, **kwargs: _refuse(self, use)


for _use in """
    call setattr delattr getitem setitem delitem contains len iter next reversed bool int float complex index str bytes
    format hash eq ne lt le gt ge add sub mul matmul truediv floordiv mod pow and or xor lshift rshift radd rsub rmul
    rmatmul rtruediv rfloordiv rmod rpow rand ror rxor rlshift rrshift iadd isub imul imatmul itruediv ifloordiv imod
    ipow iand ior ixor ilshift irshift neg pos abs invert round trunc floor ceil enter exit await aiter anext aenter
    aexit get set delete instancecheck subclasscheck mro_entries reduce reduce_ex dir
""".split():
    setattr(MockedObject, f"__{_use}__", _refusing(f"__{_use}__"))
'''
MOCKED = """\
from _mock import MockedObject


def __getattr__(attr):
    if attr.startswith("__") and attr.endswith("__"):
        raise AttributeError(attr)
    return MockedObject(f"{__name__}.{attr}", _suppress_err=True)
"""


def source_of(module: Any) -> str | None:
    """Return the source of a module; None if it has none."""
    file, loader = str(getattr(module, "__file__", "")), getattr(module, "__loader__", None)
    text: str | None = None
    try:
        if loader is not None and hasattr(loader, "get_source"):
            text = loader.get_source(module.__name__)
        if text is None and file.endswith(".py"):  # a frozen module of the standard library, such as io
            with tokenize.open(file) as stream:
                text = stream.read()
    except (ImportError, OSError):
        return None
    return text


class Pickler(_TensorPickler):
    """Pickles for a package: globals get the names that the importer finds them by.

    Attributes:
        found: {module: names of its objects that the pickle has}.
    """

    dispatch = _TensorPickler.dispatch.copy()

    def __init__(self, file: Any, protocol: int, exporter: Any) -> None:
        super().__init__(file, protocol)
        self.storages, self.exporter = exporter._storages, exporter
        self.found: dict[str, list[str]] = {}

    def persistent_id(self, obj: Any) -> tuple | None:
        saved = super().persistent_id(obj)
        if saved is not None:
            return saved[:2] + (int(saved[2]),) + saved[3:]
        if hasattr(type(obj), "__reduce_package__"):
            if id(obj) not in self.exporter._reduced:  # which keeps the object alive, and so its id its own
                self.exporter._reduced[id(obj)] = obj, obj.__reduce_package__(self.exporter)
            return "reduce_package", id(obj), *self.exporter._reduced[id(obj)][1]
        return None

    def save_name(self, obj: Any) -> None:
        self.found.setdefault(obj.module, []).append(obj.name)
        super().save_name(obj)

    dispatch[_Name] = save_name  # type: ignore[assignment]

    def save_global(self, obj: Any, name: str | None = None) -> None:
        try:
            module, name = self.exporter.importer.get_name(obj, name)
        except (ObjNotFoundError, ObjMismatchError) as error:
            raise pickle.PicklingError(f"Can't pickle {obj}: {error}") from None
        self.found.setdefault(module, []).append(name)
        around, _, last = name.rpartition(".")
        if around:
            owner: Any = self.exporter.importer.import_module(module)
            for part in around.split("."):
                owner = getattr(owner, part)
            self.save_reduce(getattr, (owner, last), obj=obj)  # type: ignore[attr-defined]
            return
        self.write(f"c{module}\n{name}\n".encode())  # type: ignore[attr-defined]
        self.memoize(obj)  # type: ignore[attr-defined]

    dispatch[FunctionType] = save_global  # type: ignore[assignment]
