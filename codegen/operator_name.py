"""The name of an operator: `namespace::base_.overload`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .schema_types import SchemaError

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

# Operators of Python's data model that have an in-place form: `__and__` and `__iand__`.
_DUNDER_STEMS = frozenset("add sub mul matmul truediv floordiv div mod pow and or xor lshift rshift".split())


@dataclass(frozen=True, slots=True)
class OperatorName:
    """`namespace::base_.overload`. `base` has no trailing underscore of an in-place operator; `inplace` says
    that.
    """

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
        """`add_.Tensor` and the like; raises SchemaError for what is not a name."""
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
    """Whether it is a binary operator of Python's data model: `__and__`, `__iand__` or `__rand__`."""
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
