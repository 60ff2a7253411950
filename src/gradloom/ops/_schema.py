"""Schemas under PyTorch's names: `gradloom.ops.aten.add.Tensor._schema`, and those that users write.

    schema = parse_schema("mylib::numpy_sin(Tensor x, *, float scale=1.0) -> Tensor")
    schema.name, schema.overload_name, [a.name for a in schema.arguments], str(schema)

The model and the parser are gradloom.schema's.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from enum import Enum
from functools import cached_property, lru_cache
from typing import Any

from .. import schema as language
from ..dispatch.overloads.registry import types as _bound
from ..types.public import found_in as _found_in

__all__ = ["AliasInfo", "Argument", "FunctionSchema", "Tag", "parse_schema", "python_arguments"]

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
        "one_device",
        "mixed_devices",
    ],
    module="gradloom",
    start=0,
)
Tag.__doc__ = "Properties of operators: `Tag.pointwise in gradloom.ops.aten.add.Tensor.tags`."


# A schema's word for a type -> the class, and its name in annotations.
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
    "QScheme": ("IntType", "int"),
    "Stream": ("AnyType", "Stream"),
    "Any": ("AnyType", "Any"),
}
_NUMBERED = frozenset(("ScalarType", "Layout", "MemoryFormat"))


class Type:
    """The type of an argument."""

    annotation_str: str

    __slots__ = ("annotation_str",)

    def __init__(self, annotation: str) -> None:
        self.annotation_str = annotation

    def kind(self) -> str:
        """Return the name of the class: `TensorType`."""
        return type(self).__name__.lstrip("_")

    @property
    def without_optional(self) -> Type:
        """The type without an outer Optional."""
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
    """An integer; in PyTorch also the number of a dtype, layout or memory format."""


class FloatType(Type):
    """A Python float."""


class BoolType(Type):
    """A Python bool."""


class ComplexType(Type):
    """A Python complex number."""


class NumberType(Type):
    """Any Python number; `Scalar` in schemas."""


class StringType(Type):
    """A string."""


class DeviceObjType(Type):
    """A device."""


class AnyType(Type):
    """Anything."""


class _GeneratorType(Type):
    """A random number generator."""


class _StorageType(Type):
    """A storage."""


class _Containing(Type):
    __slots__ = ("_element",)

    def __init__(self, annotation: str, element: Type) -> None:
        super().__init__(annotation)
        self._element = element

    def getElementType(self) -> Type:
        """Return the type of its elements."""
        return self._element


class OptionalType(_Containing):
    """None, or a value of the element type."""

    @property
    def without_optional(self) -> Type:
        return self._element


class ListType(_Containing):
    """A list; `size` is its length if that is fixed, else None."""

    __slots__ = ("size",)

    def __init__(self, annotation: str, element: Type, size: int | None) -> None:
        super().__init__(annotation, element)
        self.size: int | None = size


@lru_cache(256)
def _type_of(type_: language.Type, real: bool = False) -> Type:
    """Return PyTorch's object for a type.

    Args:
        real: whether its text distinguishes dtypes, layouts and memory formats from other integers.
    """
    if isinstance(type_, language.Optional):
        element = _type_of(type_.elem, real)
        return OptionalType(f"Optional[{element}]", element)
    if isinstance(type_, language.List):
        element = _type_of(type_.elem, real)
        return ListType(f"List[{element}]", element, type_.size)
    word = type_.base.name
    name, annotation = _WORDS[word]
    found: Type = globals()[name](word if real and word in _NUMBERED else annotation)
    return found


class AliasInfo:
    """The aliasing of an argument or result: the `(a!)` of `Tensor(a!) self`.

    Attributes:
        is_write: whether the operator writes to it.
        before_set, after_set: its alias sets before and after the call.
    """

    __slots__ = ("is_write", "before_set", "after_set")

    def __init__(self, annotation: language.Annotation) -> None:
        self.is_write = annotation.is_write
        self.before_set = set(annotation.sets)
        self.after_set = set(annotation.after or annotation.sets)

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
        type: the type; `str(type)` has the form of annotations, `Optional[Tensor]`.
        N: the length of a list of fixed length, else None.
        kwarg_only: whether it is passed by keyword.
        alias_info: its aliasing; None if it shares no memory.
        default_value: None if there is no default, too; see `has_default_value()`.
    """

    __slots__ = ("name", "type", "kwarg_only", "alias_info", "default_value", "_model")

    def __init__(self, model: language.Argument | language.Return, default: Any = None) -> None:
        self._model, self.name, self.default_value = model, model.name or "", default
        self.type = _type_of(model.type)
        self.kwarg_only = isinstance(model, language.Argument) and model.kwarg_only
        self.alias_info = None if model.annotation is None else AliasInfo(model.annotation)

    @property
    def N(self) -> int | None:
        type_ = self.type.without_optional
        return type_.size if isinstance(type_, ListType) else None

    @property
    def real_type(self) -> Type:
        """The type, in which dtypes, layouts and memory formats have their own names."""
        return _type_of(self._model.type, True)

    @property
    def is_tensor_like(self) -> bool:
        """Return whether it is a tensor or a list of tensors, apart from None."""
        return self._model.type.is_tensor_like

    @property
    def is_write(self) -> bool:
        """Return whether the operator writes to it."""
        return self._model.is_write

    @property
    def is_out(self) -> bool:
        """Return whether an out= overload writes to it."""
        return self.kwarg_only and self.is_write

    def has_default_value(self) -> bool:
        """Return whether it has a default, so that a call may omit it."""
        return isinstance(self._model, language.Argument) and self._model.default is not None

    def element(self) -> Argument:
        """Return one element of a list of tensors as a separate result."""
        return Argument(language.Return(self._model.type.base))

    def __str__(self) -> str:
        return str(self._model)


class FunctionSchema:
    """The signature of an overload.

    Attributes:
        name: with its namespace, `aten::add`.
        overload_name: '' for the default one.
        arguments, returns: in their order; keyword-only arguments last.
    """

    name: str
    overload_name: str
    arguments: list[Argument]
    returns: list[Argument]

    def __init__(self, model: language.FunctionSchema) -> None:
        self.name = f"{model.name.namespace}::{model.name.name}" if model.name.namespace else model.name.name
        self.overload_name = model.name.overload
        self.arguments = [_argument(a) for a in model.arguments]
        self.returns = [Argument(r) for r in model.returns]
        shown = tuple([a._model for a in self.arguments])
        self._model = model if shown == model.arguments else replace(model, arguments=shown)

    @cached_property
    def is_mutable(self) -> bool:
        """Return whether the operator writes to an argument."""
        return any(a.is_write for a in self.arguments)

    def _is_view_op(self) -> bool:
        return self._model.is_view

    def parameters(self, numbers: Collection[str] = ()) -> tuple[Any, ...]:
        """Return the parameters in the argument parser's form; `numbers` are tensors that may be Python numbers."""
        return language.parameters(self._model.arguments, numbers)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FunctionSchema) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return parse_schema, (str(self),)

    @cached_property
    def _text(self) -> str:
        return str(self._model)

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__


def parse_schema(text: str) -> FunctionSchema:
    """Parse a schema.

    Args:
        text: `name.overload(Type name=default, *, Type name) -> Type`; the namespace (`aten::`) and the overload may
            be left out.

    Raises:
        RuntimeError: if it is not a schema, with the expected token and its position.
    """
    if not isinstance(text, str):
        raise TypeError(f"parse_schema(): argument 'schema' must be str, not {type(text).__name__}")
    try:
        return FunctionSchema(language.parse(text))
    except language.SchemaError as error:
        raise RuntimeError(_complaint(text, error)) from None


def _complaint(text: str, error: language.SchemaError) -> str:
    """Return the message for an invalid schema, beginning with PyTorch's words."""
    found = text[error.offset : error.offset + error.length].strip()
    place = f"{text}\n{' ' * error.offset}{'~' * error.length} <--- HERE" if found else text
    hint = f"\n{error.hint}" if error.hint else ""
    if error.expected == "(" and not found:
        return f"Tried to parse a function schema but only the operator name was given{hint}"
    if error.expected == "type":
        return f"\nunknown type specifier '{found}':\n{place}{hint}"
    if error.expected:
        kind = "eof" if not found else "ident" if found.isidentifier() else found
        return f"expected {error.expected} but found '{kind}' here:\n{place}{hint}"
    return f"\n{error.message}:\n{place}{hint}"


def _argument(model: language.Argument) -> Argument:
    """Return an argument with the value of its default. For a list of fixed length the default may be a single value
    that stands for all elements."""
    value = model.default_value
    if value is None:
        return Argument(model)
    plain = model.type.required
    text = None
    if isinstance(value, language.Symbol):
        name = value.name
        if value.value is None and name not in _bound.constants:
            raise _no_value(model)
        value, text = _bound.constants[name] if value.value is None else value.value, name
    if plain.base.name == "Tensor":
        raise _no_value(model)
    if plain.is_list and not isinstance(value, list):
        value = [value] * (plain.size or 1)  # type: ignore[attr-defined]
    if plain == language.Base("float") and isinstance(value, int):
        value = float(value)
    if isinstance(value, str):
        text = f'"{value}"'
    text = text or str(value)
    return Argument(model if text == model.default else replace(model, default=text), value)


def _no_value(model: language.Argument) -> language.SchemaError:
    # without a position, which only the parser knew
    return language.SchemaError(
        f"expected None but found '{model.default}': it is not a value of type {model.type}", -1
    )


def python_arguments(schema: FunctionSchema, values: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return positional and keyword arguments for a function written in Python: a kernel of a library, or
    `__torch_dispatch__`.

    As in PyTorch, lists are passed as lists, and arguments equal to their defaults are left out, positional ones at the
    end only.
    """
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    needed = 0
    for argument, value in zip(schema.arguments, values, strict=False):
        if value.__class__ is tuple:
            value = list(value)
        default = argument.has_default_value() and is_default(argument, value)
        if not argument.kwarg_only:
            positional.append(value)
            needed = needed if default else len(positional)
        elif not default:
            keywords[argument.name] = value
    return tuple(positional[:needed]), keywords


def is_default(argument: Any, value: Any) -> bool:
    """Return whether a value equals an argument's default."""
    default = argument.default_value
    if value is None or default is None or isinstance(value, bool) or isinstance(default, bool):
        return value is default
    return type(value) in (int, float, complex, str, list) and value == default


_found_in(
    "gradloom",
    AnyType,
    Argument,
    BoolType,
    ComplexType,
    DeviceObjType,
    FloatType,
    FunctionSchema,
    IntType,
    ListType,
    NumberType,
    OptionalType,
    StringType,
    TensorType,
)
