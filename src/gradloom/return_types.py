"""Named results: tuples such as `torch.return_types.max(values=..., indices=...)`."""

from __future__ import annotations

import sys as _sys
from importlib import import_module as _import_module
from operator import itemgetter as _itemgetter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._stubs.return_types import *  # noqa: F403


class NamedResult(tuple):
    """Base class of results with several named tensors."""

    __slots__ = ()
    _fields: tuple = ()

    def __new__(cls, values, dict=None):  # pickles of PyTorch have a dict, which is empty
        return tuple.__new__(cls, values)

    def __repr__(self):
        values = ",\n".join([f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True)])
        return f"torch.return_types.{type(self).__name__}(\n{values})"

    def __reduce__(self):
        return type(self), (tuple(self), {})

    n_fields = property(lambda self: len(self._fields))


def result_class(name: str, fields: tuple) -> type:
    """Return the class of an operator's results, one per name and fields."""
    found = globals().get(name)
    if found is not None and getattr(found, "_fields", None) == fields:
        return found
    members = {f: property(_itemgetter(i)) for i, f in enumerate(fields)}
    home = f"{_sys.modules[__package__].__name__}.return_types"  # the root has another name in `gradloom.as_torch`
    made = type(name, (NamedResult,), {"__slots__": (), "_fields": fields, "__module__": home, **members})
    globals()[name] = made
    return made


def _families() -> dict[str, str]:
    """Return {name of a result: the family of operators that makes its class}."""
    found: dict[str, str] = _import_module(f"{__package__}.generated.namespaces").RESULTS
    return found


if not TYPE_CHECKING:

    def __getattr__(name):
        family = _families().get(name)
        if family is None:
            raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
        _import_module(f"{__package__}.generated.variable_type.{family}")
        return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *_families()})
