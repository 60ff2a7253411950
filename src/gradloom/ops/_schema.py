"""Schemas of operators as objects: `gradloom.ops.aten.add.Tensor._schema`, and those that users write.

schema = parse_schema("mylib::numpy_sin(Tensor x, *, float scale=1.0) -> Tensor")
schema.name, schema.overload_name, [a.name for a in schema.arguments], str(schema)
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from enum import Enum
from functools import cached_property
from math import inf, nan
from typing import Any

from ..dispatch.overloads.registry import types as _bound
from ._types import ListType, Type, make_type

__all__ = ["AliasInfo", "Argument", "FunctionSchema", "Tag", "parse_schema"]

Tag = Enum(
    "Tag",
    [
        "core",
        "cudagraph_unsafe",
        "data_dependent_output",
        "dynamic_output_shape",
        "flexible_layout",
        "generated",
        "inplace",
        "inplace_view",
        "maybe_aliasing_or_mutating",
        "needs_contiguous_strides",
        "needs_exact_strides",
        "needs_fixed_stride_order",
        "nondeterministic_bitwise",
        "nondeterministic_seeded",
        "out",
        "out_variant",
        "pointwise",
        "pt2_compliant_tag",
        "reduction",
        "view_copy",
        "replayed",
    ],
    module="gradloom",
    start=0,
)
Tag.__doc__ = "What is known of an operator besides its schema: `Tag.pointwise in gradloom.ops.aten.add.Tensor.tags`."

_ENUMS = {"None": None, "True": True, "False": False, "inf": inf, "-inf": -inf, "nan": nan, "Mean": 1, "Sum": 2}
_ARGUMENT = r"([A-Za-z_]\w*(?:\([^)]*\)|\?|\[\d*\])*)\s+([A-Za-z_]\w*)(?:\s*=\s*(.+))?"
_RETURN = r"([A-Za-z_]\w*(?:\([^)]*\)|\?|\[\d*\])*)(?:\s+([A-Za-z_]\w*))?"
_NAME = r"(?:([A-Za-z_]\w*)::)?([A-Za-z_]\w*)(?:\.([A-Za-z_]\w*))?"


class AliasInfo:
    """How an argument or result shares memory: the `(a!)` of `Tensor(a!) self`.

    Attributes:
        is_write: whether the operator writes to it.
        before_set, after_set: the names of the memories that it may show.
    """

    __slots__ = ("is_write", "before_set", "after_set")

    def __init__(self, text: str) -> None:
        before, arrow, after = text.partition("->")
        self.is_write = "!" in text
        self.before_set = {name.strip(" !") for name in before.split("|")}
        self.after_set = {name.strip(" !") for name in after.split("|")} if arrow else set(self.before_set)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AliasInfo) and (self.is_write, self.before_set, self.after_set) == (
            other.is_write,
            other.before_set,
            other.after_set,
        )

    __hash__ = None  # type: ignore[assignment]


class Argument:
    """One argument or result of a schema.

    Attributes:
        name: '' for a result without one.
        type: what it may be; `str(type)` is as in annotations, `Optional[Tensor]`.
        N: the length of a list of fixed length, else None.
        kwarg_only: whether it is passed by keyword.
        alias_info: how it shares memory; None if it does not.
        default_value: None also where there is no default: ask `has_default_value()`.
    """

    __slots__ = ("name", "text", "type", "kwarg_only", "alias_info", "default_text", "default_value")

    def __init__(self, text: str, name: str, default: str | None, kwarg_only: bool) -> None:
        self.name, self.text, self.default_text, self.kwarg_only = name, text, default, kwarg_only
        self.type = make_type(text)
        alias = re.search(r"\(([^)]*)\)", text)
        self.alias_info = AliasInfo(alias[1]) if alias else None
        self.default_value = None if default is None else _value(default, self.type)

    @property
    def N(self) -> int | None:
        type_ = self.type.without_optional
        return type_.size if isinstance(type_, ListType) else None

    @property
    def real_type(self) -> Type:
        """The type, with dtypes, layouts and memory formats by their names."""
        return make_type(self.text, True)

    @property
    def is_write(self) -> bool:
        return self.alias_info is not None and self.alias_info.is_write

    @property
    def is_out(self) -> bool:
        """Whether it is what an out= overload writes to."""
        return self.kwarg_only and self.is_write

    def has_default_value(self) -> bool:
        """Whether it may be left out."""
        return self.default_text is not None

    def __str__(self) -> str:
        default = "" if self.default_text is None else f"={_shown(self.default_value, self.default_text)}"
        return f"{self.text} {self.name}{default}" if self.name else self.text


class FunctionSchema:
    """The signature of an overload.

    Args:
        name: with its namespace, `aten::add`.
        overload_name: '' for the default one.
        arguments, returns: in their order; keyword-only arguments last.
    """

    name: str
    overload_name: str
    arguments: list[Argument]
    returns: list[Argument]

    def __init__(self, name: str, overload_name: str, arguments: list[Argument], returns: list[Argument]) -> None:
        self.name, self.overload_name = name, overload_name
        self.arguments, self.returns = arguments, returns

    @cached_property
    def is_mutable(self) -> bool:
        """Whether it writes to an argument."""
        return any(a.is_write for a in self.arguments)

    def _is_view_op(self) -> bool:
        return any(r.alias_info is not None and not r.is_write for r in self.returns)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FunctionSchema) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return parse_schema, (str(self),)

    @cached_property
    def _text(self) -> str:
        parts: list[str] = []
        for argument in self.arguments:
            if argument.kwarg_only and "*" not in parts:
                parts.append("*")
            parts.append(str(argument))
        returns = ", ".join(map(str, self.returns))
        overload = f".{self.overload_name}" if self.overload_name else ""
        shown = returns if len(self.returns) == 1 and not self.returns[0].name else f"({returns})"
        return f"{self.name}{overload}({', '.join(parts)}) -> {shown}"

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__


def parse_schema(text: str) -> FunctionSchema:
    """The schema that a text says.

    Args:
        text: `name.overload(Type name=default, *, Type name) -> Type`; the namespace (`aten::`) and the overload may
            be left out.

    Raises:
        RuntimeError: if it is no schema, with what was expected and where.
    """
    if not isinstance(text, str):
        raise TypeError(f"parse_schema(): argument 'schema' must be str, not {type(text).__name__}")
    head, parenthesis, rest = text.strip().partition("(")
    named = re.fullmatch(_NAME, head.strip())
    if named is None:
        raise RuntimeError(
            f"expected ident: '{head}' is no name of an operator, which is written "
            f"namespace::name.overload, here:\n{text}"
        )
    if not parenthesis:
        raise RuntimeError(
            "Tried to parse a function schema but only the operator name was given: write "
            f"{text.strip()}(Tensor x) -> Tensor"
        )
    inside, rest = _closed(rest, text)
    arrow, returned = rest.strip()[:2], rest.strip()[2:].strip()
    if arrow != "->":
        raise RuntimeError(
            f"expected arrow but found '{rest.strip() or 'eof'}' here:\n{text}\nWrite what it returns: "
            "-> Tensor, -> (Tensor, Tensor), or -> () for nothing"
        )
    if not returned:
        raise RuntimeError(f"expected ident but found 'eof' here:\n{text}\nWrite what it returns: -> Tensor, or -> ()")
    namespace, name, overload = named.groups()
    return FunctionSchema(
        f"{namespace}::{name}" if namespace else name,
        overload or "",
        _arguments(inside, text),
        _returns(returned, text),
    )


def _depths(text: str, depth: int) -> Iterator[tuple[int, str, int]]:
    """(place, character, depth of brackets after it) for all that stands in no string."""
    quote = ""
    for i, c in enumerate(text):
        if quote:
            quote = "" if c == quote else quote
            continue
        if c in "\"'":
            quote = c
        depth += (c in "([") - (c in ")]")
        yield i, c, depth


def _closed(rest: str, text: str) -> tuple[str, str]:
    """What is inside of the parenthesis that is open, and what follows it."""
    for i, c, depth in _depths(rest, 1):
        if c in ")]" and not depth:
            return rest[:i], rest[i + 1 :]
    raise RuntimeError(f"expected ) but found 'eof' here:\n{text}")


def _split(text: str) -> list[str]:
    """The parts between the commas that stand in no bracket and no string."""
    parts, start = [], 0
    for i, c, depth in _depths(text, 0):
        if c == "," and not depth:
            parts.append(text[start:i].strip())
            start = i + 1
    last = text[start:].strip()
    return [*parts, last] if last or parts else []


def _arguments(inside: str, text: str) -> list[Argument]:
    found: list[Argument] = []
    keyword_only = False
    for part in _split(inside):
        if part == "*":
            keyword_only = True
            continue
        match = re.fullmatch(_ARGUMENT, part, re.DOTALL)
        if match is None:
            raise RuntimeError(
                f"expected ident: the argument '{part}' is not of the form 'Type name' or "
                f"'Type name=default', here:\n{text}"
            )
        if any(a.name == match[2] for a in found):
            raise RuntimeError(f"the argument '{match[2]}' occurs twice, here:\n{text}")
        found.append(_made(text, match[1], match[2], match[3], keyword_only))
    return found


def _returns(returned: str, text: str) -> list[Argument]:
    if returned.startswith("("):
        inside, rest = _closed(returned[1:], text)
        if rest.strip():
            raise RuntimeError(f"expected the end after what is returned but found '{rest.strip()}' here:\n{text}")
        parts = _split(inside)
    else:
        parts = [returned]
    found = []
    for part in parts:
        match = re.fullmatch(_RETURN, part)
        if match is None:
            raise RuntimeError(f"expected ident: '{part}' is not a type, or a type and a name, here:\n{text}")
        found.append(_made(text, match[1], match[2] or "", None, False))
    return found


def _made(text: str, type_: str, name: str, default: str | None, keyword_only: bool) -> Argument:
    try:
        return Argument(type_, name, default, keyword_only)
    except ValueError as error:
        raise RuntimeError(f"\n{error}:\n{text}") from None


def _value(text: str, type_: Type) -> Any:
    """The value of a default; those of lists of a fixed length may be written once for all elements."""
    plain = type_.without_optional
    if text in _ENUMS:
        value: Any = _ENUMS[text]
    elif text in _bound.constants:
        value = _bound.constants[text]
    else:
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            value = plain  # nothing that a schema may say
        if value is plain or plain.kind() == "TensorType":
            raise ValueError(f"expected None but found '{text}': it is no value of type {type_}")
    if isinstance(plain, ListType) and value is not None and not isinstance(value, list):
        value = [value] * (plain.size or 1)
    if plain.kind() == "FloatType" and isinstance(value, int):
        value = float(value)
    return value


def _shown(value: Any, text: str) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    return str(value) if isinstance(value, (list, float, int)) and text not in _ENUMS else text
