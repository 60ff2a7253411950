"""The model of a schema: its name, types, alias annotations and default values, its arguments and returns, the whole.

Objects are frozen, and validated when they are made. A type is a tree of `Base`, `Optional` and `List` nodes: `int[2]?`
is `Optional(List(Base("int"), 2))`. An alias annotation belongs to the argument or return and is printed after the
innermost base type: `Tensor(a!)[]` is the type `Tensor[]` with the annotation `a!`.
"""

from __future__ import annotations

import ast
import math
import re
import warnings
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

BASE_TYPES = (
    "Tensor", "Scalar", "int", "SymInt", "float", "bool", "SymBool", "str", "ScalarType", "Layout", "Device",
    "DeviceIndex", "MemoryFormat", "QScheme", "Generator", "Storage", "Stream", "SymFloat", "complex", "Dimname", "Any",
)  # fmt: skip

# Names that a default value may use instead of a literal, by type. A number is the value of the name in Python code.
SYMBOLS: dict[str, dict[str, int | None]] = {
    "int": {"Mean": 1, "Sum": 2},
    "ScalarType": dict.fromkeys(
        """bool uint8 int8 int16 short int32 int int64 long float16 half bfloat16 float32 float float64 double
        complex64 cfloat complex128 cdouble""".split()
    ),
    "MemoryFormat": dict.fromkeys(("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")),
    "Layout": dict.fromkeys(("strided", "sparse_coo")),
}

_LARGEST_INT = 2**64  # of either sign; dtypes hold less
MAX_ITEMS = 64  # in a list

_CONSTANTS = {"None": None, "True": True, "False": False, "inf": float("inf"), "nan": float("nan")}


def shorten(word: str, limit: int = 60) -> str:
    """Return a word in the form for messages: on one line, at most `limit` characters."""
    word = " ".join(word.split())
    return word if len(word) <= limit else word[: limit - 3] + "..."


class SchemaError(ValueError):
    """An error at a place in a schema's text.

    Attributes:
        message: the description of the error.
        offset, length: the position of the offending characters.
        hint: the correction.
        subject: the part of an object made without a text: `("argument", 2)`, `("return", 0)`, `("name", 0)`; the
            parser converts it to an offset.
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
        """Return whether the value itself may be None (`Tensor?`, `int[]?`; not `Tensor?[]`)."""
        return isinstance(self, Optional)

    @property
    def required(self) -> Type:
        """The type without an outer `?`."""
        return self.elem if isinstance(self, Optional) else self

    @property
    def is_list(self) -> bool:
        """Return whether the value is a list, apart from None."""
        return isinstance(self.required, List)

    @property
    def is_tensor_like(self) -> bool:
        """Return whether it contains a tensor: `Tensor`, `Tensor?`, `Tensor[]`, `Tensor?[]`."""
        return self.base.name == "Tensor"

    @property
    def is_tensor(self) -> bool:
        """Return whether it is one tensor: `Tensor` or `Tensor?`."""
        return self.is_tensor_like and not self.is_list

    @property
    def is_tensor_list(self) -> bool:
        """Return whether it is a list of tensors: `Tensor[]`, `Tensor?[]`, `Tensor[]?`."""
        return self.is_tensor_like and self.is_list

    def text(self, annotation: Annotation | None = None) -> str:
        """Return the type in the schema language, with an annotation after the innermost type."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return f"<type {self}>"


@dataclass(frozen=True, slots=True, repr=False)
class Base(Type):
    """A type without parts, such as `Tensor` or `int`."""

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
    """`elem[]`, or `elem[size]`, for which a single value may be given that stands for `size` equal ones."""

    elem: Type
    size: int | None = None

    def __post_init__(self) -> None:
        if self.size is not None and self.size < 1:
            raise SchemaError(f"a list of {self.size} elements", hint="write `[]`, or a size of at least 1")

    def text(self, annotation: Annotation | None = None) -> str:
        return f"{self.elem.text(annotation)}[{'' if self.size is None else self.size}]"


@dataclass(frozen=True, slots=True)
class Annotation:
    """The aliasing of a value.

    `a` is an alias set, `!` marks a write, and `a|b` means either set. `a -> *` means that the value enters unknown
    sets: a list of outputs may share its memory.
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
    """Refuse numbers that exceed every dtype and that Python may refuse to print."""
    if isinstance(value, int) and abs(value) >= _LARGEST_INT:
        raise SchemaError("a number of more than 64 bits", hint="write a smaller one", subject=("default", 0))
    if isinstance(value, float) and not math.isfinite(value):
        hint = "write `inf` if that is what you mean"
        raise SchemaError("a number too large for a float", hint=hint, subject=("default", 0))


# Operators of Python's data model with an in-place form: `__and__` and `__iand__`.
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
        """Parse a name such as `add_.Tensor`.

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
        """The name in Python code: `add`, `add_`, `__iand__`."""
        if not self.inplace:
            return self.base
        return f"__i{self.base[2:]}" if _is_dunder(self.base) else self.base + "_"

    @property
    def unambiguous(self) -> str:
        """The name and its overload as one identifier: `add_Tensor`, `add__Tensor`, `add_out`."""
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


# In `parameters`: the parameters that follow are keyword-only.
KEYWORD_ONLY = "*"
_SYMBOLIC = {"SymInt": "int", "SymBool": "bool", "SymFloat": "float"}  # there are no symbolic shapes


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument. `default` is the text of its default value, None without one."""

    name: str
    type: Type
    default: str | None = None
    annotation: Annotation | None = None
    kwarg_only: bool = False

    def __post_init__(self) -> None:
        if not IDENTIFIER.fullmatch(self.name):
            raise SchemaError(f"`{self.name}` is not an argument name", hint="a name has letters and digits")

    @property
    def default_value(self) -> object:
        """The default as a Python value (None, bool, int, float, str, list or Symbol); None also without a default."""
        return None if self.default is None else default_value(self.default)

    @property
    def is_write(self) -> bool:
        """Return whether the operator writes to it."""
        return self.annotation is not None and self.annotation.is_write

    def parameter(self, number: bool = False) -> tuple[Any, ...]:
        """Return name, type and, if there is one, default in the argument parser's form.

        A list becomes a tuple, and a name such as `long` or `inf` stays text.

        Args:
            number: whether a Python number may be passed for the tensor.
        """
        base, type_ = self.type.base.name, str(self.type)
        plain = "Tensor|number" if number and base == "Tensor" else _SYMBOLIC.get(base, base)
        type_ = type_.replace(base, plain, 1)
        return (self.name, type_) if self.default is None else (self.name, type_, self._plain_default())

    def _plain_default(self) -> object:
        value = self.default_value
        if isinstance(value, Symbol):
            return value.name
        if isinstance(value, float) and str(value) in ("inf", "-inf", "nan"):
            return self.default
        return tuple(value) if isinstance(value, list) else value

    def __str__(self) -> str:
        default = "" if self.default is None else f"={self.default}"
        return f"{self.type.text(self.annotation)} {self.name}{default}"


@dataclass(frozen=True, slots=True)
class Return:
    """One returned value; `name` is None if the schema gives none."""

    type: Type
    name: str | None = None
    annotation: Annotation | None = None

    @property
    def is_write(self) -> bool:
        """Return whether it is an argument that the operator has written to."""
        return self.annotation is not None and self.annotation.is_write

    def __str__(self) -> str:
        type_ = self.type.text(self.annotation)
        return f"{type_} {self.name}" if self.name else type_


@dataclass(frozen=True, slots=True)
class FunctionSchema:
    """An operator's signature. `str()` gives the text that `parse` reads; positional arguments come first."""

    name: OperatorName
    arguments: tuple[Argument, ...]
    returns: tuple[Return, ...]

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for i, argument in enumerate(self.arguments):
            if argument.name in seen:
                raise SchemaError(
                    f"argument `{argument.name}` occurs twice", subject=("argument", i), hint="rename one of them"
                )
            seen.add(argument.name)

    @property
    def positional(self) -> tuple[Argument, ...]:
        return tuple(a for a in self.arguments if not a.kwarg_only)

    @property
    def kwarg_only(self) -> tuple[Argument, ...]:
        """The keyword-only arguments, out arguments among them."""
        return tuple(a for a in self.arguments if a.kwarg_only)

    @property
    def is_view(self) -> bool:
        """Return whether a result shares memory with an argument that is not written to."""
        return any(r.annotation is not None and not r.annotation.is_write for r in self.returns)

    def __str__(self) -> str:
        positional, keyword_only = [*map(str, self.positional)], [*map(str, self.kwarg_only)]
        arguments = positional + (["*", *keyword_only] if keyword_only else [])
        returns = ", ".join(map(str, self.returns))
        if len(self.returns) != 1:
            returns = f"({returns})"
        return f"{self.name}({', '.join(arguments)}) -> {returns}"


def parameters(arguments: Iterable[Argument], numbers: Collection[str] = ()) -> tuple[Any, ...]:
    """Return arguments in the argument parser's form: `Argument.parameter` for each, and "*" before the first one that
    is keyword-only.

    Args:
        arguments: in the order of a schema.
        numbers: names of tensor arguments for which a Python number may be passed.
    """
    found: list[Any] = []
    for argument in arguments:
        if argument.kwarg_only and KEYWORD_ONLY not in found:
            found.append(KEYWORD_ONLY)
        found.append(argument.parameter(argument.name in numbers))
    return tuple(found)
