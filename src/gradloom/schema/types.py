"""Operator names, types, alias annotations and default values of schemas.

A type is a tree of `Base`, `Optional` and `List` nodes: `int[2]?` is `Optional(List(Base("int"), 2))`. An alias
annotation belongs to the argument or return and is printed after the innermost base type: `Tensor(a!)[]` is the type
`Tensor[]` with the annotation `a!`.
"""

from __future__ import annotations

import ast
import math
import re
import warnings
from dataclasses import dataclass

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

BASE_TYPES = (
    "Tensor", "Scalar", "int", "SymInt", "float", "bool", "SymBool", "str", "ScalarType", "Layout", "Device",
    "DeviceIndex", "MemoryFormat", "QScheme", "Generator", "Storage", "Stream", "SymFloat", "complex", "Dimname", "Any",
)  # fmt: skip

# Names that a default value may use instead of a literal, by the type that they belong to. A number is the value that
# Python code passes for the name.
SYMBOLS: dict[str, dict[str, int | None]] = {
    "int": {"Mean": 1, "Sum": 2},
    "ScalarType": dict.fromkeys(
        """bool uint8 int8 int16 short int32 int int64 long float16 half bfloat16 float32 float float64 double
        complex64 cfloat complex128 cdouble""".split()
    ),
    "MemoryFormat": dict.fromkeys(("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")),
    "Layout": dict.fromkeys(("strided", "sparse_coo")),
}

_LARGEST_INT = 2**64  # of either sign; what a dtype can hold is less
MAX_ITEMS = 64  # of a list

_CONSTANTS = {"None": None, "True": True, "False": False, "inf": float("inf"), "nan": float("nan")}


def shorten(word: str, limit: int = 60) -> str:
    """Return a word as messages quote it: on one line, at most `limit` characters."""
    word = " ".join(word.split())
    return word if len(word) <= limit else word[: limit - 3] + "..."


class SchemaError(ValueError):
    """An error at a place in a schema's text.

    Attributes:
        message: what is wrong.
        offset, length: the characters of the text that it concerns.
        hint: what to write instead.
        subject: the part of an object that was made without a text: `("argument", 2)`, `("return", 0)`, `("name", 0)`;
            the parser turns it into an offset.
        expected: PyTorch's word for the expected token (`ident`, `arrow`, `)`), or `type` for an unknown type.
    """

    def __init__(
        self,
        message: str,
        offset: int = 0,
        length: int = 1,
        hint: str = "",
        subject: tuple[str, int] | None = None,
        expected: str = "",
    ) -> None:
        super().__init__(message)
        self.message, self.offset, self.length, self.hint = message, offset, length, hint
        self.subject, self.expected = subject, expected


@dataclass(frozen=True, slots=True)
class Symbol:
    """A default value that is a name: `Mean`, `long`, `contiguous_format`. `value` is set for numbers."""

    name: str
    value: int | None = None

    def __str__(self) -> str:
        return self.name


class Type:
    """Base class of `Base`, `Optional` and `List`."""

    __slots__ = ()

    @property
    def base(self) -> Base:
        """The innermost node."""
        node = self
        while not isinstance(node, Base):
            node = node.elem  # type: ignore[attr-defined]
        return node

    @property
    def is_optional(self) -> bool:
        """Whether the value itself may be None (`Tensor?`, `int[]?`; not `Tensor?[]`)."""
        return isinstance(self, Optional)

    @property
    def required(self) -> Type:
        """The type without an outer `?`."""
        return self.elem if isinstance(self, Optional) else self

    @property
    def is_list(self) -> bool:
        """Whether the value is a list, None aside."""
        return isinstance(self.required, List)

    @property
    def is_tensor_like(self) -> bool:
        """Whether a tensor occurs in it: `Tensor`, `Tensor?`, `Tensor[]`, `Tensor?[]`."""
        return self.base.name == "Tensor"

    @property
    def is_tensor(self) -> bool:
        """Whether it is one tensor: `Tensor` or `Tensor?`."""
        return self.is_tensor_like and not self.is_list

    @property
    def is_tensor_list(self) -> bool:
        """Whether it is a list of tensors: `Tensor[]`, `Tensor?[]`, `Tensor[]?`."""
        return self.is_tensor_like and self.is_list

    def text(self, annotation: Annotation | None = None) -> str:
        """Return the type as the schema language writes it, with an annotation after the innermost type."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<type {self}>"


@dataclass(frozen=True, slots=True, repr=False)
class Base(Type):
    """A type that has no parts, such as `Tensor` or `int`."""

    name: str

    def __post_init__(self) -> None:
        if self.name not in BASE_TYPES:
            hint = f"the types are {', '.join(BASE_TYPES)}"
            raise SchemaError(f"unknown type `{self.name}`", length=len(self.name), hint=hint, expected="type")

    def text(self, annotation: Annotation | None = None) -> str:
        return self.name if annotation is None else f"{self.name}({annotation})"


@dataclass(frozen=True, slots=True, repr=False)
class Optional(Type):
    """`elem?`: the value may be None."""

    elem: Type

    def __post_init__(self) -> None:
        if isinstance(self.elem, Optional):
            raise SchemaError(f"`{self.elem}?` is optional twice", hint=f"write `{self.elem}`")

    def text(self, annotation: Annotation | None = None) -> str:
        return self.elem.text(annotation) + "?"


@dataclass(frozen=True, slots=True, repr=False)
class List(Type):
    """`elem[]`, or `elem[size]`: then one value may be given that stands for `size` equal ones."""

    elem: Type
    size: int | None = None

    def __post_init__(self) -> None:
        if self.size is not None and self.size < 1:
            raise SchemaError(f"a list of {self.size} elements", hint="write `[]`, or a size of at least 1")

    def text(self, annotation: Annotation | None = None) -> str:
        return f"{self.elem.text(annotation)}[{'' if self.size is None else self.size}]"


@dataclass(frozen=True, slots=True)
class Annotation:
    """The memory that a value shares.

    `a` is an alias set, `!` marks a write, `a|b` means either set, and `a -> *` that the value enters unknown sets: it
    becomes a view that a list of outputs shares.
    """

    sets: tuple[str, ...]
    is_write: bool = False
    after: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in self.sets + self.after:
            if name != "*" and not IDENTIFIER.fullmatch(name):
                raise SchemaError(f"alias set `{name}` in an annotation", hint="an alias set is a name or `*`")
        if not self.sets:
            raise SchemaError("an annotation without an alias set", hint="write `(a)` or `(a!)`")

    def __str__(self) -> str:
        text = "|".join(self.sets) + ("!" if self.is_write else "")
        return f"{text} -> {'|'.join(self.after)}" if self.after else text


def default_value(text: str) -> object:
    """Return the Python value of a default: lists stay lists, names become `Symbol`.

    Raises SchemaError if it is not a literal.
    """
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text == "-inf":
        return float("-inf")
    if text.isidentifier():
        return Symbol(text, SYMBOLS["int"].get(text))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # an unknown escape in a string
            value = ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError, SystemError):
        hint = "write a number, a string in quotes, a list of them, or a name such as `None`"
        raise SchemaError(f"`{shorten(text)}` is not a default value", hint=hint, subject=("default", 0)) from None
    for item in value if isinstance(value, list) else [value]:
        _check_size(item)
    if isinstance(value, list) and len(value) > MAX_ITEMS:
        message, hint = f"a default value of {len(value)} elements", f"the limit is {MAX_ITEMS}"
        raise SchemaError(message, hint=hint, subject=("default", 0))
    return value


def _check_size(value: object) -> None:
    """Refuse numbers that no tensor can hold and that Python may refuse to print."""
    if isinstance(value, int) and abs(value) >= _LARGEST_INT:
        raise SchemaError("a number of more than 64 bits", hint="write a smaller one", subject=("default", 0))
    if isinstance(value, float) and not math.isfinite(value):
        hint = "write `inf` if that is what you mean"
        raise SchemaError("a number too large for a float", hint=hint, subject=("default", 0))


# Operators of Python's data model that have an in-place form: `__and__` and `__iand__`.
_DUNDER_STEMS = frozenset("add sub mul matmul truediv floordiv div mod pow and or xor lshift rshift".split())


@dataclass(frozen=True, slots=True)
class OperatorName:
    """`namespace::base_.overload`. `inplace` stands for the trailing underscore, which `base` does not have."""

    namespace: str | None
    base: str
    inplace: bool = False
    overload: str = ""

    def __post_init__(self) -> None:
        for part in (self.namespace, self.base, self.overload or None):
            if part is not None and not IDENTIFIER.fullmatch(part):
                raise SchemaError(f"`{part}` is not a name", subject=("name", 0), hint="a name has letters and digits")

    @classmethod
    def parse(cls, text: str) -> OperatorName:
        """Return the name that a text such as `add_.Tensor` spells.

        Raises SchemaError if it is not a name.
        """
        namespace, separator, rest = text.rpartition("::")
        name, dot, overload = rest.partition(".")
        if dot and not overload:
            raise SchemaError(f"`{text}` ends in a dot", subject=("name", 0), hint=f"write `{text[:-1]}`")
        base, inplace = _split_inplace(name)
        return cls(namespace if separator else None, base, inplace, overload)

    @property
    def name(self) -> str:
        """The name that Python code calls: `add`, `add_`, `__iand__`."""
        if not self.inplace:
            return self.base
        return f"__i{self.base[2:]}" if _is_dunder(self.base) else self.base + "_"

    @property
    def unambiguous(self) -> str:
        """The name with its overload as one identifier: `add_Tensor`, `add__Tensor`, `add_out`."""
        return f"{self.name}_{self.overload}" if self.overload else self.name

    def __str__(self) -> str:
        namespace = f"{self.namespace}::" if self.namespace else ""
        return f"{namespace}{self.name}{'.' + self.overload if self.overload else ''}"


def is_data_model_name(name: str) -> bool:
    """Return whether it is a binary operator of Python's data model: `__and__`, `__iand__` or `__rand__`."""
    stem = name[2:-2]
    return _is_dunder(name) and (stem in _DUNDER_STEMS or (stem[0] in "ir" and stem[1:] in _DUNDER_STEMS))


def _is_dunder(name: str) -> bool:
    return len(name) > 4 and name.startswith("__") and name.endswith("__")


def _split_inplace(name: str) -> tuple[str, bool]:
    if _is_dunder(name):
        stem = name[2:-2]
        inplace = stem[0] == "i" and stem[1:] in _DUNDER_STEMS
        return (f"__{stem[1:]}__", True) if inplace else (name, False)
    if name.endswith("_") and name.strip("_"):
        return name[:-1], True
    return name, False
