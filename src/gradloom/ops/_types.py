"""The types of arguments in schemas, by the names that PyTorch's have: `isinstance(argument.type, torch.ListType)`."""

from __future__ import annotations

import re
from functools import lru_cache

# What a schema says -> class of the type and how annotations say it.
_WORDS = {
    "Tensor": ("TensorType", "Tensor"),
    "int": ("IntType", "int"),
    "SymInt": ("IntType", "int"),
    "float": ("FloatType", "float"),
    "SymFloat": ("FloatType", "float"),
    "bool": ("BoolType", "bool"),
    "SymBool": ("BoolType", "bool"),
    "complex": ("ComplexType", "complex"),
    "str": ("StringType", "str"),
    "Scalar": ("NumberType", "number"),
    "Device": ("DeviceObjType", "Device"),
    "ScalarType": ("IntType", "int"),
    "Layout": ("IntType", "int"),
    "MemoryFormat": ("IntType", "int"),
    "Dimname": ("StringType", "str"),
    "Generator": ("_GeneratorType", "Generator"),
    "Storage": ("_StorageType", "Storage"),
    "DeviceIndex": ("IntType", "int"),
    "Any": ("AnyType", "Any"),
}
_NUMBERED = frozenset(("ScalarType", "Layout", "MemoryFormat"))


class Type:
    """What an argument may be."""

    annotation_str: str

    __slots__ = ("annotation_str",)

    def __init__(self, annotation: str) -> None:
        self.annotation_str = annotation

    def kind(self) -> str:
        """The name of the class: `TensorType`."""
        return type(self).__name__.lstrip("_")

    @property
    def without_optional(self) -> Type:
        """The type of what is not None."""
        return self

    def __str__(self) -> str:
        return self.annotation_str

    def __repr__(self) -> str:
        return self.annotation_str

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(self.annotation_str)


class TensorType(Type):
    """A tensor."""


class IntType(Type):
    """An integer, also those that number dtypes, layouts and memory formats in PyTorch."""


class FloatType(Type):
    """A Python float."""


class BoolType(Type):
    """A Python bool."""


class ComplexType(Type):
    """A Python complex number."""


class NumberType(Type):
    """Any Python number; schemas call it Scalar."""


class StringType(Type):
    """A string."""


class DeviceObjType(Type):
    """A device."""


class AnyType(Type):
    """Anything."""


class _GeneratorType(Type):
    """A random number generator."""


class _StorageType(Type):
    """The memory of tensors."""


class _Containing(Type):
    __slots__ = ("_element",)

    def __init__(self, annotation: str, element: Type) -> None:
        super().__init__(annotation)
        self._element = element

    def getElementType(self) -> Type:
        """The type of what it holds."""
        return self._element


class OptionalType(_Containing):
    """None, or something of another type."""

    @property
    def without_optional(self) -> Type:
        return self._element


class ListType(_Containing):
    """A list; `size` is its length if that is fixed, else None."""

    size: int | None

    __slots__ = ("size",)

    def __init__(self, annotation: str, element: Type, size: int | None) -> None:
        super().__init__(annotation, element)
        self.size = size


@lru_cache(256)
def make_type(text: str, real: bool = False) -> Type:
    """The type that a schema writes as `Tensor(a!)`, `int[2]?`, `Tensor?[]`.

    Args:
        real: whether its text is to tell the integers that number dtypes, layouts and memory formats from others.

    Raises:
        ValueError: for a word that is no type.
    """
    match = re.match(r"[A-Za-z_]\w*", text)
    word = match[0] if match else text
    if word not in _WORDS:
        raise ValueError(
            f"unknown type specifier '{word}'. Types are {', '.join(_WORDS)}, with [] for lists and ? "
            "for what may be None"
        )
    name, annotation = _WORDS[word]
    found: Type = globals()[name](word if real and word in _NUMBERED else annotation)
    for suffix in re.findall(r"\?|\[\d*\]", text):
        if suffix == "?":
            found = OptionalType(f"Optional[{found}]", found)
        else:
            found = ListType(f"List[{found}]", found, int(suffix[1:-1]) if len(suffix) > 2 else None)
    return found
