"""Tables of generated objects, whose families are imported on first use.

Note [Families]
`import gradloom` imports few of the generated families (`linalg`, `shape` ...). A generated package has a package
`namespaces` with a `FamilyTable` for each kind of object, which knows the family of every name, and a module for each
family with the objects. `gradloom.binding.families` binds the operators of a family where programs find them: in
`gradloom`, on Tensor, in `gradloom.dispatch._operators`. It does so when a name is first looked up there and is not
found, or, on Tensor, found as a placeholder. From then on the name is an ordinary attribute, so that calls cost
nothing more.

Tables are texts of names, by family or by module, which the functions below turn into dictionaries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

from .overloads import overloaded_method


def by_name(names: dict[str, str]) -> dict[str, str]:
    """Return {name: family} for {family: its names}."""
    return {name: family for family, text in names.items() for name in text.split()}


def named(module: ModuleType, text: str) -> dict[str, Any]:
    """Return objects of a module by their names; "name=other" gives the object `other` another name."""
    objects, found = vars(module), {}
    for word in text.split():
        if "=" in word:
            name, _, other = word.partition("=")
            found[name] = objects[other]
        else:
            found[word] = objects[word]
    return found


def methods_of(entries: Mapping[str, tuple[Any, ...]], text: str) -> dict[str, Any]:
    """Return methods with these overloads; "name=1,2" takes some of them, by their positions."""
    words = [word.partition("=") for word in text.split()]
    chosen = {
        name: [entries[name][int(i)] for i in some.split(",")] if some else entries[name] for name, _, some in words
    }
    return {name: overloaded_method(name, tuple(overloads)) for name, overloads in chosen.items()}


class FamilyTable(Mapping[str, Any]):
    """Objects by name. Looking one up imports the module of its family; names alone import nothing.

    Args:
        table: the name of the dictionary with the objects in the modules of families.
        families: {name: family}.
        module_of: imports the module of a family.
    """

    __slots__ = ("_table", "families", "_module_of")

    def __init__(self, table: str, families: dict[str, str], module_of: Callable[[str], ModuleType]) -> None:
        self._table, self.families, self._module_of = table, families, module_of

    def __getitem__(self, name: str) -> Any:
        return getattr(self._module_of(self.families[name]), self._table)[name]

    def __contains__(self, name: object) -> bool:
        return name in self.families

    def __iter__(self) -> Iterator[str]:
        return iter(self.families)

    def __len__(self) -> int:
        return len(self.families)

    def __repr__(self) -> str:
        return f"<{self._table}: {len(self)} names>"
