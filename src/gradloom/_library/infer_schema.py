"""Infer schemas from the type annotations of functions."""

from __future__ import annotations

import collections.abc
import inspect
import types
import typing
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from ..core.tensor import Tensor
from ..types.device import device
from ..types.dtype import dtype

_WORDS: dict[Any, str] = {
    Tensor: "Tensor",
    int: "SymInt",
    float: "float",
    bool: "bool",
    str: "str",
    dtype: "ScalarType",
    device: "Device",
}
_NUMBERS = ({int, float, bool}, {int, float, complex})  # the latter is gradloom.types.Number
_LISTS = (list, collections.abc.Sequence)
_IN_LISTS = ("Tensor", "Tensor?", "SymInt", "float", "bool", "Scalar")
_RETURNED = ("Tensor", "Tensor[]", "SymInt", "float", "bool", "Scalar")


def infer_schema(
    prototype_function: Callable[..., Any], /, *, mutates_args: str | Iterable[str], op_name: str | None = None
) -> str:
    """Return the schema of a function with type annotations.

    Args:
        prototype_function: a function with an annotation for each parameter and for what it returns. Parameters are
            Tensor, int, float, bool, str, Number (int | float | bool), dtype, device, Optional of those, and lists
            (Sequence or list) of Tensor, Optional[Tensor], int, float, bool and Number. It returns Tensor,
            list[Tensor], int, float, bool, Number, a tuple of those, or None.
        mutates_args: the names of the arguments that it writes to; "unknown" for all tensors.
        op_name: the name before the parenthesis.

    Returns:
        The text, such as `(Tensor x, *, float scale=1.0) -> Tensor`.

    Raises ValueError if a parameter has no annotation or one without a schema type, or mutates_args names anything
    but a tensor parameter.
    """
    return _Inference(prototype_function, mutates_args).schema(op_name)


class _Inference:
    def __init__(self, function: Callable[..., Any], mutates_args: str | Iterable[str]) -> None:
        self.function, self.mutates = function, mutates_args
        self.signature = inspect.signature(function)
        try:
            self.resolved = inspect.signature(function, eval_str=True)
        except NameError as error:
            self.wrong(f"an annotation names what is not there ({error}).")

    def wrong(self, what: str) -> NoReturn:
        raise ValueError(f"infer_schema(func): {what} Got func with signature {self.signature}")

    def schema(self, op_name: str | None) -> str:
        parts: list[str] = []
        names = list(self.resolved.parameters)
        for i, (name, parameter) in enumerate(self.resolved.parameters.items()):
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                self.wrong("We do not support positional-only args, varargs, or varkwargs.")
            if parameter.kind is parameter.KEYWORD_ONLY and "*" not in parts:
                parts.append("*")
            parts.append(self.parameter(i, name, parameter))
        if not isinstance(self.mutates, str):
            unknown = set(self.mutates) - set(names)
            if unknown:
                self.wrong(
                    f"{unknown} in mutates_args were not found in the custom op's signature. mutates_args should"
                    " contain the names of all args that the custom op mutates, or just the string 'unknown' if "
                    "you don't know."
                )
        elif self.mutates != "unknown":
            self.wrong(
                "mutates_args must either be a sequence of the names of the arguments that are mutated or the "
                f"string 'unknown', not '{self.mutates}'."
            )
        return f"{op_name or ''}({', '.join(parts)}) -> {self.returned()}"

    def parameter(self, position: int, name: str, parameter: inspect.Parameter) -> str:
        if parameter.annotation is parameter.empty:
            self.wrong(f"Parameter {name} must have a type annotation.")
        word = type_word(parameter.annotation)
        if word is None:
            self.wrong(
                f"Parameter {name} has unsupported type {parameter.annotation}. The valid types are: Tensor, "
                "int, float, bool, str, Number, dtype, device, each of them Optional, and Sequence or list of "
                "Tensor, Optional[Tensor], int, float, bool or Number."
            )
        writes = self.mutates == "unknown" if isinstance(self.mutates, str) else name in self.mutates
        if writes and word.startswith("Tensor"):
            word = word.replace("Tensor", f"Tensor(a{position}!)", 1)
        elif writes and not isinstance(self.mutates, str):
            self.wrong(f"Parameter {name} is in mutable_args but only Tensors or collections of Tensors can be mutated")
        if parameter.default is parameter.empty:
            return f"{word} {name}"
        return f"{word} {name}={self.default(name, parameter.default)}"

    def default(self, name: str, value: Any) -> str:
        if value is None or isinstance(value, (int, float, bool)):
            return str(value)
        if isinstance(value, (str, device)):
            return f'"{value}"'
        if isinstance(value, dtype):
            return str(value).removeprefix("torch.")
        self.wrong(
            f"Parameter {name} has an unsupported default value type {type(value)}. Defaults are None, numbers, "
            "bools, strings, dtypes and devices; for a list, write Optional and None."
        )

    def returned(self) -> str:
        annotation = self.resolved.return_annotation
        if annotation is inspect.Signature.empty:
            self.wrong("No return type annotation was provided. Please add one.")
        if annotation is None or annotation is type(None):
            return "()"
        parts = typing.get_args(annotation) if typing.get_origin(annotation) is tuple else (annotation,)
        words = [type_word(part) for part in parts]
        if any(word not in _RETURNED for word in words):
            self.wrong(
                f"Return has unsupported type {annotation}. The valid types are: Tensor, list[Tensor], int, "
                "float, bool, Number, tuples of them, and None."
            )
        joined = ", ".join(map(str, words))
        return joined if typing.get_origin(annotation) is not tuple else f"({joined})"


def type_word(annotation: Any) -> str | None:
    """Return the schema type for an annotation, or None if there is none."""
    if isinstance(annotation, str):
        return None
    if annotation in _WORDS:
        return _WORDS[annotation]
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        given = [a for a in inner if a is not type(None)]
        if set(given) in _NUMBERS:
            word: str | None = "Scalar"
        elif len(given) == 1:
            word = type_word(given[0])
        else:
            return None
        return word if len(given) == len(inner) or word is None else f"{word}?"
    if origin in _LISTS and len(inner) == 1:
        word = type_word(inner[0])
        return f"{word}[]" if word in _IN_LISTS else None
    return None
