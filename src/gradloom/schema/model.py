"""The parts of a schema: arguments, returns and the whole. Frozen, and validated when they are made."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from .types import IDENTIFIER, Annotation, OperatorName, SchemaError, Symbol, Type, default_value

# In `parameters`: the parameters that follow are keyword-only.
KEYWORD_ONLY = "*"
_SYMBOLIC = {"SymInt": "int", "SymBool": "bool", "SymFloat": "float"}  # there are no symbolic shapes


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument. `default` is the text of its default value, None where it has none."""

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
        """Whether the operator writes to it."""
        return self.annotation is not None and self.annotation.is_write

    def parameter(self, number: bool = False) -> tuple[Any, ...]:
        """Return name, type and, if there is one, default as the argument parser takes them.

        A default list is a tuple, and a name such as `long` or `inf` its text.

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
    """One returned value; `name` is None where the schema gives none."""

    type: Type
    name: str | None = None
    annotation: Annotation | None = None

    @property
    def is_write(self) -> bool:
        """Whether it is an argument that the operator has written to."""
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
        """Whether a result shares memory with an argument that is not written to."""
        return any(r.annotation is not None and not r.annotation.is_write for r in self.returns)

    def __str__(self) -> str:
        positional, keyword_only = [*map(str, self.positional)], [*map(str, self.kwarg_only)]
        arguments = positional + (["*", *keyword_only] if keyword_only else [])
        returns = ", ".join(map(str, self.returns))
        if len(self.returns) != 1:
            returns = f"({returns})"
        return f"{self.name}({', '.join(arguments)}) -> {returns}"


def parameters(arguments: Iterable[Argument], numbers: Collection[str] = ()) -> tuple[Any, ...]:
    """Return arguments as the argument parser takes them: `Argument.parameter` for each, and "*" before the first one
    that is keyword-only.

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
