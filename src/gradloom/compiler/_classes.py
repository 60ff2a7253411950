"""What Python finds in classes, as guards.

Note [Guards on classes]
What Python finds under a name of an object follows from its class, from the MRO of that class, from the first class of
the MRO that has the name, and from all classes before that one, which lack it: a program may add a property in front of
a member, or assign `__class__` or `__bases__`. So for each lookup, a graph requires the same MRO, the same object where
it was found, and its absence from the classes before. Absence is one test for all names of a class. Classes of C, which
nobody can change, need no guard.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..utils._late_methods import LateMethod

_IMMUTABLE = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE


def is_mutable(cls: type) -> bool:
    """Return whether programs can set attributes of a class."""
    return not cls.__flags__ & _IMMUTABLE


class Lookups:
    """What was found in classes, and what was not.

    Attributes:
        missing: stands for what no class has.
        orders: the MROs that were followed.
        present: (class, name) -> what the class itself has.
        absent: class -> names that it does not have itself; the values are None.
    """

    def __init__(self, missing: Any) -> None:
        self.missing = missing
        self.orders: dict[type, tuple[type, ...]] = {}
        self.present: dict[tuple[type, str], Any] = {}
        self.absent: dict[type, dict[str, None]] = {}

    def order(self, cls: type) -> tuple[type, ...]:
        """Return the MRO of a class, and require it."""
        if is_mutable(cls):
            self.orders[cls] = cls.__mro__
        return cls.__mro__

    def owner(self, cls: type, name: str, after: type | None = None) -> type | None:
        """Return the class that has a name; None if none has.

        Args:
            after: begin behind this class of the MRO, as `super` does.
        """
        classes = self.order(cls)
        if after is not None:
            classes = classes[classes.index(after) + 1 :]
        for c in classes:
            if name in c.__dict__:
                if isinstance(c.__dict__[name], LateMethod):
                    getattr(c, name)  # puts the method in its place
                return c
            if is_mutable(c):
                self.absent.setdefault(c, {})[name] = None
        return None

    def find(self, cls: type, name: str, after: type | None = None) -> Any:
        """Return what the classes of an MRO have under a name, and require that it stays; `missing` if none has it."""
        owner = self.owner(cls, name, after)
        if owner is None:
            return self.missing
        self.require(owner, name)
        return owner.__dict__[name]

    def require(self, owner: type, name: str) -> None:
        """Require that a class itself has the same object under a name."""
        if is_mutable(owner):
            self.present[owner, name] = owner.__dict__[name]

    def conditions(self) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """Yield the guards, as templates with objects."""
        for cls, order in self.orders.items():
            yield "{0}.__mro__ is {1}", (cls, order)
        for cls, names in self.absent.items():
            yield "{0}({1})", (cls.__dict__.keys().isdisjoint, tuple(names))
        for (cls, name), value in self.present.items():
            yield f"{{0}}({name!r}, MISSING) is {{1}}", (cls.__dict__.get, value)

    def clear(self) -> None:
        """Forget everything."""
        for table in (self.orders, self.present, self.absent):
            table.clear()
